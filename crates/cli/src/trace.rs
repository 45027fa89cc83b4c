//! `doorbell simulate` with `--trace`, `--pcap`, `--breakdown` and `--waterfall`.

use crate::args::TraceArgs;
use crate::exit::{self, Exit};
use crate::output::{self, Output};
use crate::progress::Bar;
use crate::waterfall;
use doorbell_lab::{Breakdown, Outcome, Pace, Run, SimulateError, Traced, Tracing, Watch};
use doorbell_nic::counted;
use doorbell_verbs::Time;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Number of operations to trace if `--trace-ops` is not given. The files then have some megabytes.
const USUAL_OPERATIONS: u64 = 1000;

/// Output files of a traced run. After the run, also the numbers of traced operations.
pub(crate) struct Files {
    trace: Option<PathBuf>,
    pcap: Option<PathBuf>,
    waterfall: Option<PathBuf>,
    from: Option<Time>,
    /// The number of latencies in an operation whose stages are wanted.
    latencies: Option<u32>,
    /// The open files, until the run begins.
    opened: Mutex<Option<Tracing>>,
    traced: Mutex<Option<Traced>>,
    /// The file of the waterfall, until it is drawn.
    picture: Mutex<Option<Output>>,
    /// The stages of the traced operations, after the run.
    breakdown: OnceLock<Option<Breakdown>>,
}

/// Opens the output files. They keep their old contents until the run writes. `others` are the other output
/// files of the command. `read` lists the files that define `run`.
///
/// # Errors
/// If options do not go together, a file cannot be written, or a trace cannot keep the stages of the run's
/// operations although they are wanted.
pub(crate) fn open(args: &TraceArgs, others: &[&Output], read: &[PathBuf], run: &Run) -> Result<Files, Exit> {
    let TraceArgs { trace, pcap, breakdown, waterfall, trace_from, trace_ops } = args;
    let stages = *breakdown || waterfall.is_some();
    let wanted = trace.is_some() || pcap.is_some() || stages;
    if !wanted && (trace_from.is_some() || trace_ops.is_some()) {
        return Err(Exit::bad_input(
            "--trace-from and --trace-ops need --trace, --pcap, --breakdown or --waterfall: give one of these \
             too",
        ));
    }
    let followed = stages.then(|| run.followed()).transpose().map_err(Exit::bad_input)?;
    let (trace_file, pcap_file) = (output::open("--trace", trace)?, output::open("--pcap", pcap)?);
    let picture = output::open("--waterfall", waterfall)?;
    let own = trace_file.iter().chain(&pcap_file).chain(&picture);
    let all: Vec<&Output> = own.chain(others.iter().copied()).collect();
    output::check(&all, read)?;
    let boxed = |output: Output| Box::new(output) as Box<dyn Write + Send>;
    let from = trace_from.map(|from| Time::START + from.span());
    let tracing = Tracing {
        trace: trace_file.map(boxed),
        pcap: pcap_file.map(boxed),
        from,
        operations: trace_ops.unwrap_or(USUAL_OPERATIONS),
        paths: followed.map(|(of, _)| of),
    };
    Ok(Files {
        trace: trace.clone(),
        pcap: pcap.clone(),
        waterfall: waterfall.clone(),
        from,
        latencies: followed.map(|(_, latencies)| latencies),
        opened: Mutex::new(wanted.then_some(tracing)),
        traced: Mutex::new(None),
        picture: Mutex::new(picture),
        breakdown: OnceLock::new(),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    /// The stages of the traced operations. `None` if they are not wanted, or no operation has ended.
    pub(crate) fn breakdown(&self) -> Option<&Breakdown> {
        self.breakdown.get()?.as_ref()
    }

    /// Draws the waterfall, and prints on stderr how many operations were traced. Returns an error if a file
    /// could not be written.
    pub(crate) fn report(&self) -> Result<(), Exit> {
        let Some(traced) = lock(&self.traced).take() else { return Ok(()) };
        let drawn = self.draw();
        let failed = |path: &Option<PathBuf>, written: io::Result<()>| match (path, written) {
            (Some(path), Err(error)) => {
                Err(Exit::failed(format!("cannot write all of {}: {error}", path.display())))
            }
            _ => Ok(()),
        };
        let text = self.text(&traced);
        failed(&self.trace, traced.trace)?;
        failed(&self.pcap, traced.pcap)?;
        drawn?;
        if !text.is_empty() {
            exit::say(&text);
        }
        Ok(())
    }

    /// Draws the waterfall. Without an operation, the file stays as it is, and a message says so.
    fn draw(&self) -> Result<(), Exit> {
        let file = lock(&self.picture).take();
        match (self.breakdown(), file) {
            (Some(breakdown), Some(file)) => file.fill(&waterfall::draw(breakdown)),
            (None, file) if self.latencies.is_some() => {
                let kept = file
                    .map_or_else(String::new, |file| format!(", and {} is not written", shown(file.path())));
                exit::say_message(&format!(
                    "no traced operation has ended, so there are no stages{kept}: measure for longer, or \
                     trace more operations by --trace-ops"
                ));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The end of a run without a result. Reports the traced part first.
    pub(crate) fn without_result(&self, error: &SimulateError) -> Exit {
        if let Err(Exit { message: Some(message), .. }) = self.report() {
            exit::say(&message);
        }
        Exit::of_run(error)
    }

    fn text(&self, traced: &Traced) -> String {
        let files = [&self.trace, &self.pcap, &self.waterfall];
        let files: Vec<String> = files.into_iter().flatten().map(|path: &PathBuf| shown(path)).collect();
        if files.is_empty() {
            return String::new();
        }
        let us = |time: Time| (time - Time::START).as_ps() as f64 / 1e6;
        let Traced { operations, unfinished, from, until, reached_limit, .. } = traced;
        let (files, from_us, until_us) = (files.join(", "), us(*from), us(*until));
        if *from == Time::NEVER {
            return format!(
                "{files}: no operation, because the run ended at {until_us:.3} us of virtual time, before \
                 its warm-up ended"
            );
        }
        if until < from {
            return format!(
                "{files}: no operation, because the run ended at {until_us:.3} us of virtual time, before \
                 {from_us} us"
            );
        }
        if *operations == 0 {
            return format!(
                "{files}: no operation, because none was posted to a NIC from {from_us} us to {until_us:.3} \
                 us of virtual time. Other work of threads is not traced"
            );
        }
        let operations = counted(*operations, "operation");
        let mut text =
            format!("{files}: {operations}, from {from_us} us to {until_us:.3} us of virtual time");
        if *unfinished > 0 {
            text += &format!("; {unfinished} did not finish");
        }
        if *reached_limit {
            text += "; --trace-ops traces more";
        }
        text
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Latencies in nanoseconds, each with its number of operations.
pub(crate) type LatencyCounts = Vec<(u64, u64)>;

/// Shows progress, traces the first run, and keeps its result.
pub(crate) struct Watched<'a> {
    pub(crate) bar: &'a Bar,
    pub(crate) seen: &'a Files,
    /// The result of the run before its reruns.
    pub(crate) base: Mutex<Option<Outcome>>,
    /// Latencies of the first run, if they are wanted.
    pub(crate) latencies: Option<Mutex<Option<LatencyCounts>>>,
}

impl Watched<'_> {
    /// The result of the run, if only reruns may be missing.
    pub(crate) fn base(&self) -> Option<Outcome> {
        lock(&self.base).clone()
    }

    /// The latencies of the first run; empty if they are not known.
    pub(crate) fn counts(&self) -> LatencyCounts {
        self.latencies.as_ref().and_then(|first| lock(first).clone()).unwrap_or_default()
    }
}

impl Watch for Watched<'_> {
    fn planned(&self, costs: &[f64]) {
        self.bar.planned(costs);
    }

    fn expected(&self, runs: usize) {
        self.bar.expected(runs);
    }

    fn began(&self, cost: f64, pace: &Arc<Pace>) {
        self.bar.began(cost, pace);
    }

    fn ended(&self, pace: &Arc<Pace>) {
        self.bar.ended(pace);
    }

    fn based(&self, base: &Outcome) {
        *lock(&self.base) = Some(base.clone());
    }

    fn done(&self, what: &str) {
        self.bar.done(what);
    }

    fn trace(&self) -> Option<Tracing> {
        let tracing = lock(&self.seen.opened).take()?;
        Some(Tracing { from: self.seen.from, ..tracing })
    }

    fn traced(&self, traced: Traced) {
        let Traced { paths, without_path, .. } = &traced;
        let of = |latencies| Breakdown::of(paths, *without_path, latencies);
        // Only one run is traced, so the stages are set once.
        let _ = self.seen.breakdown.set(self.seen.latencies.and_then(of));
        *lock(&self.seen.traced) = Some(traced);
    }

    fn wants_latencies(&self) -> bool {
        self.latencies.as_ref().is_some_and(|first| lock(first).is_none())
    }

    fn latencies(&self, counts: LatencyCounts) {
        if let Some(first) = &self.latencies {
            *lock(first) = Some(counts);
        }
    }
}
