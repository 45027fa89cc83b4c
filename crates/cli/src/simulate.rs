//! `doorbell simulate`.

mod limited;
mod system;
mod verbs;

use crate::args::SimulateArgs;
use crate::exit::{self, Exit};
use crate::extrapolation::Told;
use crate::progress::{self, Bar};
use crate::screen;
use crate::trace::{self, Watched};
use doorbell_lab::uncertainty::{self, Uncertainty};
use doorbell_lab::{Asked, Control, Outcome, OutcomeOf, Run, SimulateError, Watch, Work};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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
    let deadline = progress::deadline(args.max_wall);
    let bar = Bar::new(doorbell_lab::cores(), deadline);
    let watch = Watched { bar: &bar, seen: &seen, base: Mutex::default() };
    let control = control(deadline, &interrupt.flag, &watch);
    let work = || {
        let outcome = match (args.explain, args.uncertainty) {
            (true, _) => doorbell_lab::explain(&run, &control)
                .map(|outcome| doorbell_lab::advise(&typed, &run, outcome, &control)),
            (false, true) => {
                watch.expected(1 + uncertainty::DRAWS);
                doorbell_lab::simulate(&run, &control.before_reruns(uncertainty::DRAWS))
            }
            (false, false) => doorbell_lab::simulate(&run, &control),
        }?;
        watch.based(&outcome);
        // A run in which no operation completed has no interval.
        let has_interval = args.uncertainty && outcome.waits.is_none();
        let uncertainty =
            has_interval.then(|| uncertainty::of(&run, &outcome.measured, &control)).transpose();
        Ok::<_, SimulateError>((outcome, uncertainty))
    };
    let said = |outcome: &Outcome, uncertainty: Option<&Uncertainty>| {
        let told = Told {
            result: outcome,
            unit: if run.is_of_system() { "Mrps" } else { "Mops" },
            extrapolates: &doorbell_lab::extrapolates(&run),
            supports: &doorbell_lab::supports(&run),
            uncertainty,
        };
        if args.json { exit::json(&told) } else { Ok(screen::fit(&text(&told, &asked))) }
    };
    // A forced end prints the result of the run without that of its reruns.
    let forced = || watch.base().map_or(Ok(()), |base| bar.print(&said(&base, None)?));
    let ended = progress::until(&interrupt, work, forced);
    let (outcome, uncertainty) = ended.map_err(|e| seen.without_result(&e))?;
    bar.hide();
    exit::print(&said(&outcome, uncertainty.as_ref().ok().and_then(Option::as_ref))?)?;
    if run.is_of_system() && !over_tcp && !is_coherent(&run) {
        exit::say(STALE);
    }
    // The results are printed before errors are reported.
    seen.report()?;
    exit::stopped(&interrupt.flag)?;
    uncertainty.as_ref().map_err(Exit::of_uncertainty)?;
    exit::completed(outcome.waits.as_deref(), &outcome.measured)
}

/// The text report. `asked` holds the parameters as requested, before the profile decided some of them.
fn text(told: &Told<'_, Outcome>, asked: &Asked) -> String {
    match (&told.result.of, asked) {
        (OutcomeOf::Verbs(of), _) => verbs::text(told, of),
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

/// Wall-clock time that each run may take, unless the user gives a time for the whole command.
const MAX_WALL: Duration = Duration::from_secs(60);

/// The settings of the runs.
fn control<'a>(
    deadline: Option<Instant>,
    interrupt: &Arc<AtomicBool>,
    watch: &'a Watched<'_>,
) -> Control<'a> {
    let max_wall = deadline.is_none().then_some(MAX_WALL);
    Control { interrupt: interrupt.clone(), max_wall, deadline, watch, ..Control::quiet() }
}
