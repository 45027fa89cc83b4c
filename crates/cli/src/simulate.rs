//! `doorbell simulate`.

mod limited;
mod system;
mod verbs;

use crate::args::SimulateArgs;
use crate::exit::{self, Exit};
use crate::extrapolation::Told;
use crate::progress;
use crate::trace::{self, Watched};
use doorbell_lab::uncertainty;
use doorbell_lab::{Asked, Control, Outcome, OutcomeOf, Run, Work};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) fn run(args: SimulateArgs) -> Result<(), Exit> {
    let typed = args.workload.typed().map_err(Exit::bad_input)?;
    let given = typed.given().map_err(Exit::bad_input)?;
    let asked = Asked::of(&given).map_err(Exit::bad_input)?;
    let run = Run::asked(asked.clone()).map_err(Exit::bad_input)?;
    let over_tcp = is_over_tcp(&run);
    if over_tcp && args.trace.pcap.is_some() {
        return Err(Exit::bad_input(
            "--pcap captures packets of QPs only, not frames of kernel TCP: use --trace to see them",
        ));
    }
    if args.uncertainty {
        uncertainty::known(run.profiles.all()).map_err(|error| Exit::of_uncertainty(&error))?;
    }
    let seen = trace::open(&args.trace, &args.workload.files(&asked))?;
    let interrupt = progress::interrupt()?;
    let bar = progress::bar();
    let watch = Watched { bar: &bar, seen: &seen };
    let control = control(&args, &interrupt, &watch);
    let outcome = match args.explain {
        true => doorbell_lab::explain(&run, &control)
            .map(|outcome| doorbell_lab::advise(&typed, &run, outcome, &control)),
        false => doorbell_lab::simulate(&run, &control),
    };
    let outcome = outcome.map_err(|e| seen.without_result(&e))?;
    // A run in which no operation completed has no interval.
    let has_interval = args.uncertainty && outcome.waits.is_none();
    let uncertainty = has_interval.then(|| uncertainty::of(&run, &outcome.measured, &control)).transpose();
    drop(bar);
    let told = Told {
        result: &outcome,
        unit: if run.is_of_system() { "Mrps" } else { "Mops" },
        extrapolates: &doorbell_lab::extrapolates(&run),
        supports: &doorbell_lab::supports(&run),
        uncertainty: uncertainty.as_ref().ok().and_then(Option::as_ref),
    };
    if args.json {
        exit::print_json(&told)?;
    } else {
        exit::print(&text(&told, &asked, &run))?;
    }
    if run.is_of_system() && !over_tcp && !is_coherent(&run) {
        exit::say(STALE);
    }
    // The results are printed before errors are reported.
    seen.report()?;
    exit::stopped(&interrupt)?;
    uncertainty.as_ref().map_err(Exit::of_uncertainty)?;
    exit::completed(outcome.waits.as_deref(), &outcome.measured)
}

/// The text report. `asked` holds the parameters as requested, before the profile decided some of them.
fn text(told: &Told<'_, Outcome>, asked: &Asked, run: &Run) -> String {
    match (&told.result.of, asked) {
        (OutcomeOf::Verbs(of), _) => verbs::text(told, of, &run.profiles),
        (OutcomeOf::System(of), Asked::System(asked, _)) => system::text(told, of, asked),
        (OutcomeOf::System(_), Asked::Verbs(_)) => unreachable!("verbs were asked for"),
    }
}

/// Whether the run uses kernel TCP.
fn is_over_tcp(run: &Run) -> bool {
    matches!(&run.work, Work::System(system) if system.is_over_tcp())
}

/// Whether devices see the contents of the CPU caches of their host.
fn is_coherent(run: &Run) -> bool {
    run.profiles.first().hierarchy.is_none_or(|hierarchy| hierarchy.io_coherent)
}

/// Warning for hosts whose devices are not coherent with CPU caches. The systems' programs do not flush
/// caches.
const STALE: &str = "doorbell: this host's devices do not see its caches (io_coherent = false), and the \
     system's programs flush no caches: peers may have received stale data, and such programs would not \
     work on such a host";

/// The run settings that these arguments ask for.
fn control<'a>(args: &SimulateArgs, interrupt: &Arc<AtomicBool>, watch: &'a Watched<'_>) -> Control<'a> {
    let max_wall = std::time::Duration::from_nanos(args.max_wall.span().as_ns());
    Control { interrupt: interrupt.clone(), jobs: doorbell_lab::cores(), max_wall: Some(max_wall), watch }
}
