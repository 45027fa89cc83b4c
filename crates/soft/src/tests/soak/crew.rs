//! The processes of one fabric, which the test starts and commands.

use super::super::own_time::HANGS;
use super::super::peer::exact;
use super::actor::{ACTOR, ANSWER, BETWEEN};
use super::harm::REACHED;
use super::traffic::Way;
use doorbell_launch::modes::NamedMode;
use doorbell_launch::{Ptrace, variables};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A finding as text.
pub(super) type Wrong = String;

/// A lock that lets only one thread reap a child at a time. If several threads remove processes from proc(5)
/// at once, the kernel may take seconds.
static REAPING: Mutex<()> = Mutex::new(());

pub(super) struct Member {
    pub(super) name: String,
    child: Child,
    to: Option<ChildStdin>,
    /// The number of commands sent to the process. Each command has a number.
    told: u64,
    lines: Receiver<String>,
    said: std::thread::JoinHandle<String>,
}

/// The exit status of a process, and its standard error.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) said: String,
}

/// An actor's counters. The key is the direction (true for sent messages), the peer's number, and the number
/// of the [`Way`]. The value is the number of messages, and a nonzero number if a request has failed.
pub(super) type Counts = BTreeMap<(bool, u32, u32), (u64, u64)>;

impl Member {
    pub(super) fn start(name: &str, fabric: &str) -> Member {
        Member::start_with(name, fabric, false)
    }

    /// Starts an actor. If `closed`, other processes cannot access its private memory.
    pub(super) fn start_with(name: &str, fabric: &str, closed: bool) -> Member {
        let mut child = exact("tests::soak::actor::the_actor")
            .env(ACTOR, "1")
            .env(variables::FABRIC, fabric)
            .env(variables::SHARED_BUFFERS, "1")
            .env(variables::PTRACE, if closed { Ptrace::No } else { Ptrace::Yes }.name())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let to = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut errors = child.stderr.take().expect("its errors");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // The lines may contain arbitrary bytes, because a hostile process may have changed them.
            for line in output.split(b'\n').map_while(Result::ok) {
                let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
            }
        });
        let said = std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = errors.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        });
        Member { name: name.to_owned(), child, to, told: 0, lines, said }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command without waiting for the answer.
    pub(super) fn tell(&mut self, command: &str) {
        self.told += 1;
        let number = self.told;
        if let Some(to) = &mut self.to {
            // The process may have exited. The next `ask` notices that.
            let _ = writeln!(to, "{number} {command}");
        }
    }

    pub(super) fn ask(&mut self, command: &str) -> Result<String, Wrong> {
        self.ask_within(HANGS, command)
    }

    /// Sends a command, and waits for the answer for at most `patience`.
    pub(super) fn ask_within(&mut self, patience: Duration, command: &str) -> Result<String, Wrong> {
        self.tell(command);
        let answer = format!("{ANSWER} {} ", self.told);
        self.wait_for(&answer, patience).map_err(|why| format!("{}, asked to {command:?}, {why}", self.name))
    }

    pub(super) fn ask_numbers(&mut self, command: &str) -> Result<Vec<u64>, Wrong> {
        let answer = self.ask(command)?;
        Ok(answer.split_whitespace().filter_map(|word| word.parse().ok()).collect())
    }

    /// Waits until the process has reached the armed point.
    pub(super) fn wait_until_caught(&mut self) -> Result<(), Wrong> {
        self.wait_for(REACHED, HANGS)
            .map(drop)
            .map_err(|why| format!("{} is not caught: it {why}", self.name))
    }

    /// Waits for a line that begins with `begin`, and returns the rest of the line.
    fn wait_for(&mut self, begin: &str, patience: Duration) -> Result<String, Wrong> {
        let until = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(begin) {
                        return Ok(rest.to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Err(format!("does not answer within {patience:?}")),
                Err(RecvTimeoutError::Disconnected) => return Err(self.how_it_ended()),
            }
        }
    }

    /// Describes the exit of a process that has closed its output, with its standard error.
    fn how_it_ended(&mut self) -> String {
        let until = Instant::now() + HANGS;
        while !self.said.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let said = match self.said.is_finished() {
            true => {
                std::mem::replace(&mut self.said, std::thread::spawn(String::new)).join().unwrap_or_default()
            }
            false => "what is not known yet".to_owned(),
        };
        match self.reap() {
            Ok(Some(status)) => format!("has ended ({status}), having said {:?}", said.trim_end()),
            _ => format!("has closed its output, having said {:?}", said.trim_end()),
        }
    }

    /// Closes the process's input, so that the process exits.
    pub(super) fn close(&mut self) {
        self.to = None;
    }

    pub(super) fn signal(&self, signal: i32) {
        // SAFETY: the process is a child that has not been waited for, so its PID is valid.
        unsafe { libc::kill(self.pid() as i32, signal) };
    }

    /// The names of the process's open files.
    pub(super) fn files(&self) -> Vec<String> {
        let of = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).into_iter().flatten().flatten();
        let name = |path: std::path::PathBuf| std::fs::read_link(path).ok();
        of.filter_map(|entry| name(entry.path())).map(|name| name.display().to_string()).collect()
    }

    pub(super) fn counts(&mut self) -> Result<Counts, Wrong> {
        let text = self.ask("counts")?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |word: &str| word.parse::<u64>().unwrap_or(0);
        Ok(words
            .chunks_exact(5)
            .map(|w| ((w[0] == "to", number(w[1]) as u32, number(w[2]) as u32), (number(w[3]), number(w[4]))))
            .collect())
    }

    /// Returns the process's longest call and the call's name, or the findings as an error.
    pub(super) fn judge(&mut self) -> Result<(Duration, String), Wrong> {
        let text = self.ask("wrong")?;
        let mut words = text.trim().splitn(3, ' ');
        let longest = words.next().and_then(|number| number.parse().ok()).map(Duration::from_micros);
        let call = words.next().unwrap_or("nothing").to_owned();
        match words.next().map(str::trim).filter(|wrong| !wrong.is_empty()) {
            Some(wrong) => {
                let all: Vec<&str> = wrong.split(BETWEEN).collect();
                Err(format!("{}: {}", self.name, all.join("; ")))
            }
            None => Ok((longest.unwrap_or_default(), call)),
        }
    }

    /// Closes the process's input, and waits until the process has exited or was killed.
    pub(super) fn end(mut self) -> Result<Ended, Wrong> {
        self.to = None;
        let begin = Instant::now();
        let status = loop {
            match self.reap() {
                Ok(Some(status)) => break status,
                _ if begin.elapsed() > HANGS => {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    return Err(format!("{} does not end within {HANGS:?}", self.name));
                }
                _ => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        Ok(Ended { status, said: self.said.join().unwrap_or_default() })
    }

    fn reap(&mut self) -> std::io::Result<Option<ExitStatus>> {
        let _others = REAPING.lock();
        self.child.try_wait()
    }

    pub(super) fn kill_and_wait(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connects a client with a server. `id` and `server_id` are their numbers. `about` is the server's answer to
/// the command `server`.
pub(super) fn connect(
    client: &mut Member,
    id: u32,
    server: &mut Member,
    server_id: u32,
    about: &[u64],
) -> Result<(), Wrong> {
    let words = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    let dests = server.ask_numbers(&format!("link {id}"))?;
    if dests.len() != Way::ALL.len() || about.len() < 7 {
        return Err(format!("{} gives {dests:?}", server.name));
    }
    let own = client.ask_numbers(&format!("join {server_id} {} {}", words(&dests), words(&about[1..])))?;
    if own.len() != Way::ALL.len() {
        return Err(format!("{} gives {own:?}", client.name));
    }
    server.ask(&format!("accept {id} {}", words(&own))).map(drop)
}
