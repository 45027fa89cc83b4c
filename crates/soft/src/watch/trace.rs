//! Writes posts and completions as a trace for ui.perfetto.dev, in its JSON format with one event per line.
//! All processes of a run append to one file while they run. The format needs no end mark, so the trace is
//! valid however a program exits.

use crate::sync::lock;
use doorbell_launch::clock::monotonic_ns;
use doorbell_launch::say::say;
use doorbell_launch::variables;
use std::fmt::{Display, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Mutex, OnceLock};

struct Tracer {
    file: File,
    since: u64,
    most: u64,
}

fn tracer() -> Option<&'static Tracer> {
    static TRACER: OnceLock<Option<Tracer>> = OnceLock::new();
    let open = || {
        let value = std::env::var(variables::TRACE).ok()?;
        let mut parts = value.splitn(3, ':');
        let (since, most) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let file = OpenOptions::new().append(true).open(parts.next()?);
        let file =
            file.inspect_err(|error| say(format_args!("the trace cannot be written: {error}"))).ok()?;
        Some(Tracer { file, since, most })
    };
    TRACER.get_or_init(open).as_ref()
}

/// Whether posts and completions are traced.
pub(crate) fn is_wanted() -> bool {
    tracer().is_some()
}

/// Number of work requests that this process has traced, or would have traced without the limit. A counter:
/// it orders nothing.
static TRACED: AtomicU64 = AtomicU64::new(0);
/// PID of the process that last wrote its name to the file. A child of fork(2) finds its parent's PID here.
/// It orders nothing: the swap only selects the thread that writes the name.
static NAMED: AtomicU32 = AtomicU32::new(0);

impl Tracer {
    /// Appends an event of this process to the trace. `rest` holds the JSON fields that follow the PID and
    /// the time.
    fn put(&self, kind: char, track: &str, name: &str, rest: &str) {
        let pid = std::process::id();
        let mut line = String::new();
        if NAMED.swap(pid, Relaxed) != pid {
            let program = std::env::current_exe().unwrap_or_default();
            let program = program.file_name().unwrap_or_default().to_string_lossy();
            let name = serde_json::Value::from(format!("{program} {pid}"));
            let _ =
                writeln!(line, r#"{{"ph":"M","name":"process_name","pid":{pid},"args":{{"name":{name}}}}},"#);
        }
        let ns = monotonic_ns().saturating_sub(self.since);
        // The names come from this library and need no escaping. Writing to a string does not fail.
        let _ = writeln!(
            line,
            r#"{{"ph":"{kind}","cat":"{track}","name":"{name}","pid":{pid},"ts":{}.{:03}{rest}}},"#,
            ns / 1000,
            ns % 1000
        );
        // One write appends the whole line, so lines of several processes do not mix. A full disk is not
        // reported.
        let _ = (&self.file).write_all(line.as_bytes());
    }
}

/// A slice of the trace: a work request from its post until its completion is polled or its queue is reset or
/// destroyed.
#[derive(Debug)]
pub(crate) struct Slice {
    track: String,
    name: &'static str,
    id: u64,
    end: Option<String>,
}

impl Slice {
    /// Begins a slice on the track of a queue; `None` if the process has reached its limit of traced
    /// requests.
    pub(crate) fn begin(track: String, name: &'static str, wr_id: u64, args: &str) -> Option<Slice> {
        let tracer = tracer()?;
        let id = TRACED.fetch_add(1, Relaxed);
        if id >= tracer.most {
            if id == tracer.most {
                say(format_args!(
                    "the trace of process {} ends at the limit of {id} work requests",
                    std::process::id()
                ));
            }
            return None;
        }
        tracer.put(
            'b',
            &track,
            name,
            &format!(r#","id":"{}.{id}","args":{{"wr_id":{wr_id},{args}}}"#, std::process::id()),
        );
        Some(Slice { track, name, id, end: None })
    }

    /// Ends the slice with the status of the work request's completion.
    pub(crate) fn end(mut self, status: impl Display, bytes: u32) {
        self.end = Some(format!(r#""status":"{status}","byte_len":{bytes}"#));
    }

    /// Puts an event without a duration on the slice's track.
    fn instant(&self, name: &str) {
        instant(&self.track, name, "");
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        let Some(tracer) = tracer() else { return };
        let args = self.end.take().unwrap_or(r#""status":"never polled""#.into());
        if args.contains("_ERR\"") {
            self.instant("error");
        }
        tracer.put(
            'e',
            &self.track,
            self.name,
            &format!(r#","id":"{}.{}","args":{{{args}}}"#, std::process::id(), self.id),
        );
    }
}

/// Puts an event without a duration on a track.
pub(crate) fn instant(track: &str, name: &str, args: &str) {
    if let Some(tracer) = tracer().filter(|tracer| TRACED.load(Relaxed) <= tracer.most) {
        let tid = lock(&TRACKS).number(track);
        tracer.put('i', track, name, &format!(r#","s":"t","tid":{tid},"args":{{{args}}}"#));
    }
}

static TRACKS: Mutex<Tracks> = Mutex::new(Tracks(Vec::new()));

/// Numbers the tracks of instants.
struct Tracks(Vec<(u32, String)>);

impl Tracks {
    fn number(&mut self, track: &str) -> usize {
        let pid = std::process::id();
        let known = self.0.iter().position(|(of, name)| *of == pid && name == track);
        known.unwrap_or_else(|| {
            self.0.push((pid, track.to_owned()));
            let tid = self.0.len();
            if let Some(tracer) = tracer() {
                let line = format!(
                    "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":\"{track}\"}}}},\n"
                );
                let _ = (&tracer.file).write_all(line.as_bytes());
            }
            tid - 1
        }) + 1
    }
}
