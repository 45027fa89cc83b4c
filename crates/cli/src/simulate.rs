//! `doorbell simulate`.

mod limited;
mod system;
mod tail;
mod verbs;

use crate::args::SimulateArgs;
use crate::distribution;
use crate::exit::{self, Exit};
use crate::extrapolation::Told;
use crate::output::{self, Output};
use crate::progress;
use crate::report;
use crate::trace::{self, Watched};
use doorbell_lab::uncertainty;
use doorbell_lab::{Asked, Control, Given, Loaded, Loads, Outcome, OutcomeOf, Run, Work};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) fn run(args: SimulateArgs) -> Result<(), Exit> {
    let typed = args.workload.typed().map_err(Exit::bad_input)?;
    let given = typed.given().map_err(Exit::bad_input)?;
    // Everything is checked before the capacity for a load is measured.
    let (asked, run) = asked(&doorbell_lab::at_some_rate(given.clone()).map_err(Exit::bad_input)?)?;
    let over_tcp = is_over_tcp(&run);
    if over_tcp && args.trace.pcap.is_some() {
        return Err(Exit::bad_input(
            "--pcap captures packets of QPs only, not frames of kernel TCP: use --trace to see them",
        ));
    }
    if args.uncertainty {
        uncertainty::known(run.profiles.all()).map_err(|error| Exit::of_uncertainty(&error))?;
    }
    let histogram = output::open("--histogram", &args.histogram)?;
    let cdf = output::open("--cdf", &args.cdf)?;
    let others: Vec<&Output> = histogram.iter().chain(&cdf).collect();
    let seen = trace::open(&args.trace, &others, &args.workload.files(&asked))?;
    let interrupt = progress::interrupt()?;
    let load = load(given, max_wall(&args), &interrupt)?;
    let (typed, asked, run) = match &load {
        None => (typed, asked, run),
        Some(load) => {
            let typed = typed.at_rate(load.rate);
            let (asked, run) = self::asked(&typed.given().map_err(Exit::bad_input)?)?;
            (typed, asked, run)
        }
    };
    let bar = progress::bar();
    let watch = Watched { bar: &bar, seen: &seen, latencies: args.histogram.is_some().then(Mutex::default) };
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
    let latencies = watch.latencies.map(|all| all.into_inner().unwrap_or_else(|e| e.into_inner()));
    drop(bar);
    let told = Told {
        result: &outcome,
        load: load.as_ref(),
        typed: Some(&typed),
        unit: if run.is_of_system() { "Mrps" } else { "Mops" },
        extrapolates: &doorbell_lab::extrapolates(&run),
        supports: &doorbell_lab::supports(&run),
        uncertainty: uncertainty.as_ref().ok().and_then(Option::as_ref),
    };
    if args.json {
        exit::print_json(&told)?;
    } else {
        exit::print(&(load_text(told.load) + &text(&told, &asked)))?;
    }
    if run.is_of_system() && !over_tcp && !is_coherent(&run) {
        exit::say(STALE);
    }
    let counts = latencies.flatten().unwrap_or_default();
    let listed = histogram.map_or(Ok(()), |file| distribution::write_histogram(file, &counts));
    let named = [("latency".to_owned(), &outcome.quantiles[..])];
    let drawn = cdf.map_or(Ok(()), |file| distribution::draw(file, named.into_iter()));
    // The results are printed before errors are reported. The run's own end decides the exit code.
    let ended = || -> Result<(), Exit> {
        seen.report()?;
        exit::stopped(&interrupt)?;
        uncertainty.as_ref().map_err(Exit::of_uncertainty)?;
        exit::completed(outcome.waits.as_deref(), &outcome.measured)
    };
    exit::both(ended(), exit::both(listed, drawn))
}

/// The request of these options, and its run.
fn asked(given: &Given) -> Result<(Asked, Run), Exit> {
    let asked = Asked::of(given).map_err(Exit::bad_input)?;
    let run = Run::asked(asked.clone()).map_err(Exit::bad_input)?;
    Ok((asked, run))
}

/// The load of a request, with its measured capacity; `None` without a load.
fn load(given: Given, max_wall: Duration, interrupt: &Arc<AtomicBool>) -> Result<Option<Loaded>, Exit> {
    let bar = progress::bar();
    let control = Control { max_wall: Some(max_wall), watch: &bar, ..stopped_by(interrupt) };
    let asked = [(String::new(), given)];
    let loads = Loads::measure(&asked, None, &control).map_err(|error| Exit::of_load(&error))?;
    loads.of(&asked[0].1).map_err(Exit::bad_input)
}

/// Text about the load and its capacity; empty without a load.
fn load_text(load: Option<&Loaded>) -> String {
    let Some(Loaded { share, capacity, .. }) = load else { return String::new() };
    format!("Load: {share} of {}, the rate of a closed loop\n\n", report::capacity(capacity))
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

/// The run settings that these arguments ask for.
fn control<'a>(args: &SimulateArgs, interrupt: &Arc<AtomicBool>, watch: &'a Watched<'_>) -> Control<'a> {
    Control { max_wall: Some(max_wall(args)), watch, ..stopped_by(interrupt) }
}

fn max_wall(args: &SimulateArgs) -> Duration {
    Duration::from_nanos(args.max_wall.span().as_ns())
}

fn stopped_by(interrupt: &Arc<AtomicBool>) -> Control<'static> {
    Control { interrupt: interrupt.clone(), ..Control::quiet() }
}
