//! An actor: a process of the soak. It carries out commands from its standard input. Between commands, its
//! server and its client make passes. A pair works in threads of its own.

use super::super::peer::run_on;
use super::client::{Client, KINDS, Remote};
use super::harm::{self, Harm};
use super::pair::Pair;
use super::server::Server;
use super::traffic::Way;
use super::watch::{self, Watch};
use crate::fabric::process::Process;
use crate::point::Point;
use crate::sync::lock;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// An environment variable that is set in the processes of the soak.
pub(super) const ACTOR: &str = "DOORBELL_SOAK_ACTOR";
/// The prefix of an actor's answers. The test harness prints to the same pipe.
pub(super) const ANSWER: &str = "answer:";
/// The separator between findings.
pub(super) const BETWEEN: &str = " | ";
/// The time for which an actor waits for a command between two passes.
const PAUSE: Duration = Duration::from_micros(600);

struct Actor {
    watch: Watch,
    server: Option<Server>,
    client: Option<Client>,
    pair: Option<Pair>,
    goes: bool,
    /// How long the command `server` was blocked.
    blocked: Duration,
}

/// Runs an actor until its input ends.
#[test]
#[ignore = "a process that the soak starts"]
fn the_actor() {
    if std::env::var_os(ACTOR).is_none() {
        return;
    }
    // A stopped process would not notice that the test has exited. SAFETY: the call takes only numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let mut actor = Actor {
        watch: Watch::new(),
        server: None,
        client: None,
        pair: None,
        goes: false,
        blocked: Duration::ZERO,
    };
    let mut input = Input::default();
    while let Some(lines) = input.lines(PAUSE) {
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some((number, command)) = words.split_first() else { continue };
            if let Some(answer) = actor.carry_out(command) {
                println!("\n{ANSWER} {number} {answer}");
            }
        }
        if actor.goes {
            actor.pass();
        }
        harm::misbehave();
    }
}

impl Actor {
    fn pass(&mut self) {
        self.watch.begin_pass();
        if let Some(server) = &mut self.server {
            server.pass(&mut self.watch);
        }
        if let Some(client) = &mut self.client {
            client.pass(&mut self.watch);
        }
    }

    /// Carries out a command. Returns `None` if the command is unknown.
    fn carry_out(&mut self, words: &[&str]) -> Option<String> {
        let numbers: Vec<u64> = words.iter().skip(1).map(|word| word.parse().unwrap_or(0)).collect();
        let number = |n: usize| numbers.get(n).copied().unwrap_or(0);
        self.watch.begin_pass();
        let watch = &mut self.watch;
        match (*words.first()?, &mut self.server, &mut self.client) {
            ("server", ..) => {
                let (server, blocked) = watch::blocked(|| Process::current().map(Server::new));
                self.blocked = blocked;
                match server {
                    Ok(server) => return Some(told(&self.server.insert(server).about())),
                    Err(_) => return Some("refused".to_owned()),
                }
            }
            ("blocked", ..) => return Some(self.blocked.as_micros().to_string()),
            ("client", ..) => match Process::current() {
                Ok(process) => self.client = Some(Client::new(process, number(0) as u32)),
                Err(_) => return Some("refused".to_owned()),
            },
            ("link", Some(server), _) => return Some(told(&server.link(number(0) as u32))),
            ("join", _, Some(client)) => {
                let memory: [Remote; KINDS] = std::array::from_fn(|n| Remote {
                    addr: number(6 + 2 * n),
                    key: number(7 + 2 * n) as u32,
                });
                return Some(told(&client.join(number(0) as u32, &numbers[1..6], memory)));
            }
            ("accept", Some(server), _) => server.accept(number(0) as u32, &numbers[1..], watch),
            ("leave", Some(server), _) => server.leave(number(0) as u32, watch),
            ("suspect", _, Some(client)) => client.suspect(number(0) as u32, number(1) != 0),
            ("limited", _, Some(client)) => client.set_limited(),
            ("fault", _, Some(client)) => client.fault(number(0) as u32, watch),
            ("probe", Some(server), _) => return Some(told(&server.probe(number(0) as u32, watch))),
            ("arm", ..) => {
                let harm = Harm::named(words.get(3)?)?;
                harm::prepare(point(words.get(1)?)?, number(1) as u32, harm, number(3));
            }
            ("relent", ..) => harm::relent(),
            // The device begins after that, so all threads of the process run on this processor.
            ("core", ..) => run_on(number(0) as usize),
            ("pair", ..) => {
                let process = Process::current().ok()?;
                return Some(told(&self.pair.insert(Pair::new(process, words.get(1)?)).about()));
            }
            ("begin", ..) => self.pair.as_mut()?.begin((number(0) != 0, number(1) != 0), &numbers[2..]),
            ("rounds", ..) => return Some(told(&[self.pair.as_ref()?.found.rounds.load(Relaxed)])),
            ("rest", ..) => {
                let patience = Duration::from_millis(number(0));
                return Some(told(&self.pair.as_ref()?.rest(patience)));
            }
            ("fork", ..) => return Some(super::forking::run(number(0)).err().unwrap_or_default()),
            ("go", ..) => self.goes = true,
            ("counts", ..) => return Some(self.counts()),
            ("wrong", ..) => return Some(self.wrong()),
            ("end", ..) => {
                self.goes = false;
                self.client.take().into_iter().for_each(|client| client.end(watch));
                self.server.take().into_iter().for_each(|server| server.end(watch));
            }
            _ => return None,
        }
        Some(String::new())
    }

    /// The counters as text, five words each: direction, peer, way, number of messages, and a nonzero number
    /// if a request has failed.
    fn counts(&self) -> String {
        let mut text = String::new();
        for link in self.client.iter().flat_map(|client| &client.links) {
            let lost = link.lost.map_or(0, |status| 1 + status as u32);
            let _ = write!(text, "to {} {} {} {lost} ", link.server, link.way as u32, link.done);
        }
        if let Some(server) = &self.server {
            for ((client, way), came) in &server.came {
                let _ = write!(text, "of {client} {} {} 0 ", *way as u32, came.count);
            }
            let _ = write!(text, "of 0 {} {} 0 ", Way::Fault as u32, server.flushed);
        }
        text
    }

    /// The longest call in microseconds, the call's name, and the findings.
    fn wrong(&mut self) -> String {
        let watch = &mut self.watch;
        let of_pair = self.pair.iter().flat_map(|pair| std::mem::take(&mut *lock(&pair.found.wrong)));
        of_pair.for_each(|wrong| watch.say(wrong));
        let call = watch.longest_call.replace(' ', "-");
        format!("{} {call} {}", watch.longest.as_micros(), std::mem::take(&mut watch.wrong).join(BETWEEN))
    }
}

fn told(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

fn point(name: &str) -> Option<Point> {
    super::matrix::CELLS.iter().map(|row| row.point).find(|point| format!("{point:?}") == name)
}

/// Lines of standard input. Lines may contain arbitrary bytes, because a hostile process may have changed
/// them.
#[derive(Default)]
struct Input(Vec<u8>);

impl Input {
    /// Waits for input for at most `patience`. Returns the complete lines, or `None` at the end of the input.
    fn lines(&mut self, patience: Duration) -> Option<Vec<String>> {
        let mut one = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
        let patience = libc::timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
        // SAFETY: the array has one entry, and the time-out outlives the call.
        if unsafe { libc::ppoll(&mut one, 1, &patience, std::ptr::null()) } > 0 {
            let mut bytes = [0; 4096];
            // SAFETY: the buffer has room for this many bytes.
            let read = unsafe { libc::read(0, bytes.as_mut_ptr().cast(), bytes.len()) };
            match usize::try_from(read) {
                Ok(0) => return None,
                Ok(read) => self.0.extend_from_slice(&bytes[..read]),
                Err(_) => {}
            }
        }
        let mut lines = Vec::new();
        while let Some(end) = self.0.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.0.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(&line).into_owned());
        }
        Some(lines)
    }
}
