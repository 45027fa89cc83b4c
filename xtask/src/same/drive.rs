//! Runs both programs with all command lines, in parallel on all cores.

use super::compare::{RunPair, Said};
use crate::command::{Task, failed};
use crate::workspace::root;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A run that takes longer than this is killed.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs both programs and returns their output in the order of `runs`.
pub(crate) fn all(runs: &[String], before: &Path, now: &Path) -> Task<Vec<RunPair>> {
    let bar = bar(runs.len());
    let next = AtomicUsize::new(0);
    let work = || -> Task<Vec<(usize, RunPair)>> {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(run) = runs.get(number) else { return Ok(done) };
            let pair = RunPair { run: run.clone(), before: say(before, run)?, now: say(now, run)? };
            done.push((number, pair));
            bar.inc(1);
        }
    };
    let workers = thread::available_parallelism().map_or(1, |n| n.get());
    let mut pairs = thread::scope(|scope| -> Task<Vec<(usize, RunPair)>> {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut pairs = Vec::with_capacity(runs.len());
        for thread in threads {
            pairs.extend(thread.join().unwrap_or_else(|_| Err(failed("a run", "its thread panicked")))?);
        }
        Ok(pairs)
    })?;
    bar.finish_and_clear();
    pairs.sort_by_key(|(number, _)| *number);
    Ok(pairs.into_iter().map(|(_, pair)| pair).collect())
}

/// A progress bar of the runs. It is hidden if stderr is not a terminal.
fn bar(runs: usize) -> ProgressBar {
    let bar = ProgressBar::new(runs as u64);
    let style = ProgressStyle::with_template("{elapsed:>4} {wide_bar} {pos}/{len} runs");
    bar.set_style(style.expect("the template is constant"));
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// The output of `doorbell` for a command line.
fn say(program: &Path, run: &str) -> Task<Said> {
    let mut command = Command::new(program);
    command.args(run.split_whitespace()).current_dir(root());
    let Some(ended) = bounded(&mut command, LIMIT).map_err(|error| failed(program.display(), error))? else {
        return Ok(Said::Late);
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    Ok(match ended.status.success() {
        true => Said::json(&text(&ended.stdout)),
        false => Said::Ended(ended.status.to_string(), text(&ended.stderr)),
    })
}

struct EndedProcess {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Runs a command. If it takes longer than `limit`, kills it and returns `None`.
fn bounded(command: &mut Command, limit: Duration) -> std::io::Result<Option<EndedProcess>> {
    let end = Instant::now() + limit;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let pipes = (child.stdout.take().map(read), child.stderr.take().map(read));
    let wait = |pipe: Option<Receiver<Vec<u8>>>| {
        pipe?.recv_timeout(end.saturating_duration_since(Instant::now())).ok()
    };
    // The pipes close when the process exits.
    if let (Some(stdout), Some(stderr)) = (wait(pipes.0), wait(pipes.1)) {
        return Ok(Some(EndedProcess { status: child.wait()?, stdout, stderr }));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// Reads a pipe to its end on a separate thread.
fn read(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // After an error, the bytes that were read so far count.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_is_told_and_what_does_not_is_killed() {
        let shell = |script: &str, limit| bounded(Command::new("sh").args(["-c", script]), limit).unwrap();
        let ended = shell("echo out; echo err >&2; exit 2", LIMIT).unwrap();
        assert_eq!((ended.stdout, ended.stderr), (b"out\n".to_vec(), b"err\n".to_vec()));
        assert_eq!(ended.status.code(), Some(2));
        let begun = Instant::now();
        assert!(shell("exec sleep 100", Duration::from_millis(50)).is_none());
        assert!(begun.elapsed() < LIMIT);
    }
}
