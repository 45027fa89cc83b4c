//! `doorbell simulate --trace` and `--pcap`.

use crate::args::TraceArgs;
use crate::exit::{self, Exit};
use crate::output::{self, Output};
use crate::progress::Bar;
use doorbell_lab::{Outcome, Pace, SimulateError, Traced, Tracing, Watch};
use doorbell_nic::counted;
use doorbell_verbs::Time;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of operations to trace if `--trace-ops` is not given. The files then have some megabytes.
const USUAL_OPERATIONS: u64 = 1000;

/// Output files of a traced run. After the run, also the numbers of traced operations.
pub(crate) struct Files {
    trace: Option<PathBuf>,
    pcap: Option<PathBuf>,
    from: Option<Time>,
    /// The open files, until the run begins.
    opened: Mutex<Option<Tracing>>,
    traced: Mutex<Option<Traced>>,
}

/// Opens the output files. They keep their old contents until the run writes. `others` are the other output
/// files of the command. `read` lists the files that define the run.
pub(crate) fn open(args: &TraceArgs, others: &[&Output], read: &[PathBuf]) -> Result<Files, Exit> {
    let TraceArgs { trace, pcap, trace_from, trace_ops } = args;
    let wanted = trace.is_some() || pcap.is_some();
    if !wanted && (trace_from.is_some() || trace_ops.is_some()) {
        return Err(Exit::bad_input(
            "--trace-from and --trace-ops need --trace or --pcap: give one of these too",
        ));
    }
    let (trace_file, pcap_file) = (output::open("--trace", trace)?, output::open("--pcap", pcap)?);
    let all: Vec<&Output> = trace_file.iter().chain(&pcap_file).chain(others.iter().copied()).collect();
    output::check(&all, read)?;
    let boxed = |output: Output| Box::new(output) as Box<dyn Write + Send>;
    let from = trace_from.map(|from| Time::START + from.span());
    let tracing = Tracing {
        trace: trace_file.map(boxed),
        pcap: pcap_file.map(boxed),
        from,
        operations: trace_ops.unwrap_or(USUAL_OPERATIONS),
    };
    Ok(Files {
        trace: trace.clone(),
        pcap: pcap.clone(),
        from,
        opened: Mutex::new(wanted.then_some(tracing)),
        traced: Mutex::new(None),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    /// Prints on stderr how many operations were traced. Returns an error if a file could not be written.
    pub(crate) fn report(&self) -> Result<(), Exit> {
        let Some(traced) = lock(&self.traced).take() else { return Ok(()) };
        let failed = |path: &Option<PathBuf>, written: io::Result<()>| match (path, written) {
            (Some(path), Err(error)) => {
                Err(Exit::failed(format!("cannot write all of {}: {error}", path.display())))
            }
            _ => Ok(()),
        };
        let text = self.text(&traced);
        failed(&self.trace, traced.trace)?;
        failed(&self.pcap, traced.pcap)?;
        exit::say(&text);
        Ok(())
    }

    /// The end of a run without a result. Reports the traced part first.
    pub(crate) fn without_result(&self, error: &SimulateError) -> Exit {
        if let Err(Exit { message: Some(message), .. }) = self.report() {
            exit::say(&message);
        }
        Exit::of_run(error)
    }

    fn text(&self, traced: &Traced) -> String {
        let files: Vec<String> =
            [&self.trace, &self.pcap].into_iter().flatten().map(|path: &PathBuf| shown(path)).collect();
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
