//! `doorbell simulate --trace` and `--pcap`.

use crate::args::TraceArgs;
use crate::exit::{self, Exit};
use crate::progress::Bar;
use doorbell_lab::{Traced, Tracing, Watch};
use doorbell_verbs::Time;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Operations that are traced unless another number is given: some megabytes.
const USUAL_OPERATIONS: u64 = 1000;

/// Files that a run is written to, and then what was.
pub(crate) struct Files {
    trace: Option<PathBuf>,
    pcap: Option<PathBuf>,
    from: Option<Time>,
    /// The files, until the run begins.
    opened: Mutex<Option<Tracing>>,
    traced: Mutex<Option<Traced>>,
}

/// Opens a file, and leaves to [`emptied`] what is in it.
fn create(path: &Option<PathBuf>) -> Result<Option<File>, Exit> {
    let Some(path) = path else { return Ok(None) };
    match File::options().write(true).create(true).truncate(false).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) => Err(cannot_write(path, &error)),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Exit {
    Exit::bad_input(format!("cannot write {}: {error}", path.display()))
}

/// Whether two names lead to one file, in which one would write over the other, or to one pipe.
fn are_one(a: &File, b: &File) -> io::Result<bool> {
    let (a, b) = (a.metadata()?, b.metadata()?);
    let keeps_bytes = a.is_file() || a.file_type().is_fifo();
    Ok(keeps_bytes && (a.dev(), a.ino()) == (b.dev(), b.ino()))
}

/// Whether the results would be printed to this file.
fn is_stdout(file: &File) -> bool {
    // One that is closed is no file.
    let stdout = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    stdout.and_then(|stdout| are_one(file, &stdout)).unwrap_or(false)
}

/// The file without what was in it before.
fn emptied(path: &Option<PathBuf>, file: Option<File>) -> Result<Option<Box<dyn Write + Send>>, Exit> {
    let (Some(path), Some(file)) = (path, file) else { return Ok(None) };
    if is_stdout(&file) {
        let shown = path.display();
        return Err(Exit::bad_input(format!("{shown} is where the results are printed: name another file")));
    }
    // Pipes and devices have no length.
    let is_file = file.metadata().is_ok_and(|about| about.is_file());
    match if is_file { file.set_len(0) } else { Ok(()) } {
        Ok(()) => Ok(Some(Box::new(file))),
        Err(error) => Err(cannot_write(path, &error)),
    }
}

/// Opens the files.
pub(crate) fn open(args: &TraceArgs) -> Result<Files, Exit> {
    let TraceArgs { trace, pcap, trace_from, trace_ops } = args;
    if trace.is_none() && pcap.is_none() && (trace_from.is_some() || trace_ops.is_some()) {
        return Err(Exit::bad_input(
            "--trace-from and --trace-ops are for --trace and --pcap: give one of these too",
        ));
    }
    let files = (create(trace)?, create(pcap)?);
    if let (Some(trace), Some(pcap)) = &files
        && are_one(trace, pcap).unwrap_or(false)
    {
        return Err(Exit::bad_input("--trace and --pcap name the same file: they must differ"));
    }
    let from = trace_from.map(|from| Time::START + from.span());
    let tracing = Tracing {
        trace: emptied(trace, files.0)?,
        pcap: emptied(pcap, files.1)?,
        from: from.unwrap_or(Time::START),
        operations: trace_ops.unwrap_or(USUAL_OPERATIONS),
    };
    let wanted = trace.is_some() || pcap.is_some();
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
    /// Says on stderr what was traced; an error where it could not be written.
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

    fn text(&self, traced: &Traced) -> String {
        let files: Vec<String> =
            [&self.trace, &self.pcap].into_iter().flatten().map(|path: &PathBuf| shown(path)).collect();
        let us = |time: Time| (time - Time::START).as_ps() as f64 / 1e6;
        let Traced { operations, unfinished, from, until, reached_limit, .. } = traced;
        let mut text = format!(
            "{}: {operations} operations, from {} us to {:.3} us of virtual time",
            files.join(", "),
            us(*from),
            us(*until)
        );
        if *unfinished > 0 {
            text += &format!("; {unfinished} had not ended");
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

/// Shows progress, and has the first run traced.
pub(crate) struct Watched<'a> {
    pub(crate) bar: &'a Bar,
    pub(crate) seen: &'a Files,
}

impl Watch for Watched<'_> {
    fn planned(&self, runs: u64) {
        self.bar.planned(runs);
    }

    fn done(&self, what: &str) {
        self.bar.done(what);
    }

    fn trace(&self, warm: Time) -> Option<Tracing> {
        let tracing = lock(&self.seen.opened).take()?;
        Some(Tracing { from: self.seen.from.unwrap_or(warm), ..tracing })
    }

    fn traced(&self, traced: Traced) {
        *lock(&self.seen.traced) = Some(traced);
    }
}
