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
use crate::progress::{self, Bar};
use crate::report;
use crate::screen;
use crate::signals::Interrupt;
use crate::trace::{self, Watched};
use crate::waterfall;
use doorbell_lab::uncertainty::{self, Uncertainty};
use doorbell_lab::{
    Asked, Control, Given, Known, Loaded, Loads, Outcome, OutcomeOf, Run, SimulateError, Watch, keys,
};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(crate) fn run(args: SimulateArgs) -> Result<(), Exit> {
    let typed = args.workload.typed().map_err(Exit::bad_input)?;
    let given = typed.given().map_err(Exit::bad_input)?;
    // Everything is checked before the capacity for a load is measured.
    let (asked, run) = asked(&doorbell_lab::at_some_rate(given.clone()).map_err(Exit::bad_input)?)?;
    let over_tcp = run.is_over_tcp();
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
    let seen = trace::open(&args.trace, &others, &args.workload.files(&asked), &run)?;
    let files = Mutex::new(LatencyFiles { histogram, cdf });
    let interrupt = progress::interrupt()?;
    let deadline = progress::deadline(args.max_wall);
    let load = load(given, deadline, &interrupt)?;
    let (typed, asked, run) = match &load {
        None => (typed, asked, run),
        Some(load) => {
            let typed = typed.at_rate(load.rate);
            let (asked, run) = self::asked(&typed.given().map_err(Exit::bad_input)?)?;
            (typed, asked, run)
        }
    };
    let bar = Bar::new(doorbell_lab::cores(), deadline);
    let latencies = args.histogram.is_some().then(Mutex::default);
    let watch = Watched { bar: &bar, seen: &seen, base: Mutex::default(), latencies };
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
            load: load.as_ref(),
            typed: Some(&typed),
            unit: if run.is_of_system() { "Mrps" } else { "Mops" },
            extrapolates: &run.extrapolates(),
            supports: &run.supports(),
            uncertainty,
            breakdown: seen.breakdown(),
        };
        match args.json {
            true => exit::json(&told),
            false => {
                let text = load_text(told.load) + &text(&told, &asked, &run);
                Ok(screen::fit(&(text + &seen.breakdown().map_or_else(String::new, waterfall::table))))
            }
        }
    };
    let write = |outcome: &Outcome| {
        let files = std::mem::take(&mut *files.lock().unwrap_or_else(PoisonError::into_inner));
        files.write(outcome, &watch.counts())
    };
    // A forced end prints the result of the run without that of its reruns.
    let forced = || {
        let Some(base) = watch.base() else { return Ok(()) };
        bar.print(&said(&base, None)?)?;
        write(&base)
    };
    let ended = progress::until(&interrupt, work, forced);
    let (outcome, uncertainty) = ended.map_err(|e| seen.without_result(&e))?;
    bar.hide();
    exit::print(&said(&outcome, uncertainty.as_ref().ok().and_then(Option::as_ref))?)?;
    if run.is_of_system() && !over_tcp && !is_coherent(&run) {
        exit::say(STALE);
    }
    let written = write(&outcome);
    // The results are printed before errors are reported. The run's own end decides the exit code.
    let ended = || -> Result<(), Exit> {
        seen.report()?;
        exit::stopped(&interrupt.flag)?;
        uncertainty.as_ref().map_err(Exit::of_uncertainty)?;
        exit::completed(outcome.waits.as_deref(), &outcome.measured)
    };
    exit::both(ended(), written)
}

/// The files for the distribution of latencies.
#[derive(Default)]
struct LatencyFiles {
    histogram: Option<Output>,
    cdf: Option<Output>,
}

impl LatencyFiles {
    /// Writes the files. `counts` are the latencies of the run, each with its number of operations.
    fn write(self, outcome: &Outcome, counts: &[(u64, u64)]) -> Result<(), Exit> {
        let listed = self.histogram.map_or(Ok(()), |file| distribution::write_histogram(file, counts));
        let named = [("latency".to_owned(), &outcome.quantiles[..])];
        let drawn = self.cdf.map_or(Ok(()), |file| distribution::draw(file, named.into_iter()));
        exit::both(listed, drawn)
    }
}

/// The request of these options, and its run.
fn asked(given: &Given) -> Result<(Asked, Run), Exit> {
    let asked = Asked::of(given).map_err(Exit::bad_input)?;
    let run = Run::asked(asked.clone()).map_err(Exit::bad_input)?;
    Ok((asked, run))
}

/// The load of a request, with its measured capacity; `None` without a load.
fn load(given: Given, deadline: Option<Instant>, interrupt: &Interrupt) -> Result<Option<Loaded>, Exit> {
    if given.get(keys::LOAD).is_none() {
        return Ok(None);
    }
    let bar = Bar::new(doorbell_lab::cores(), deadline);
    let control = control(deadline, &interrupt.flag, &bar);
    let asked = [(String::new(), given)];
    let measure = || Loads::measure(&asked, &Known::default(), &control);
    let loads = progress::until(interrupt, measure, || Ok(())).map_err(|error| Exit::of_load(&error))?;
    loads.of(&asked[0].1).map_err(Exit::bad_input)
}

/// Text about the load and its capacity; empty without a load.
fn load_text(load: Option<&Loaded>) -> String {
    let Some(Loaded { share, capacity, .. }) = load else { return String::new() };
    let (mops, closed) = (report::capacity(capacity), report::closed_loop(capacity));
    format!("Load: {share} of {mops}, the rate of a closed loop {closed}\n\n")
}

/// The text report. `asked` holds the parameters as requested, before the profile decided some of them.
fn text(told: &Told<'_, Outcome>, asked: &Asked, run: &Run) -> String {
    match (&told.result.of, asked) {
        (OutcomeOf::Verbs(of), _) => verbs::text(told, of, &run.profiles),
        (OutcomeOf::System(of), Asked::System(asked, _)) => system::text(told, of, asked),
        (OutcomeOf::System(_), Asked::Verbs(_)) => unreachable!("verbs were asked for"),
    }
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
fn control<'a>(deadline: Option<Instant>, interrupt: &Arc<AtomicBool>, watch: &'a dyn Watch) -> Control<'a> {
    let max_wall = deadline.is_none().then_some(MAX_WALL);
    Control { interrupt: interrupt.clone(), max_wall, deadline, watch, ..Control::quiet() }
}
