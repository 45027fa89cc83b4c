//! A cluster whose machines are processes: this one and others that it starts.
//!
//! Each process runs the same check and only the threads of its own machine. What is published goes by
//! pipes from every process to this one, and from here to all; clocks count from the same moment.

use doorbell_native::{NativeCluster, NativeDevice};
use doorbell_systems_suite::{Layer, Layered, MACHINES, Scale};
use doorbell_toy::checks;
use doorbell_verbs::{Cluster, Mem, PageSize, Program, Provider, RunError, Task, Time, VerbsError};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Which machine of which check a process that was started runs, and the moment from which it counts.
pub(crate) struct Part {
    pub(crate) machine: u32,
    pub(crate) epoch: u64,
    pub(crate) check: String,
}

/// What a process says last, with what was wrong.
const ENDED: &str = "!";
/// How often a thread that waits for a value looks whether the run has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Nanoseconds on the clock that all processes of the machine share.
fn clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct State {
    values: HashMap<String, Vec<u8>>,
    /// Why the run cannot go on.
    over: Option<String>,
}

/// What was published, by whichever process.
struct Board {
    state: Mutex<State>,
    changed: Condvar,
    /// Pipes to others.
    others: Mutex<Vec<Box<dyn Write + Send>>>,
}

impl Board {
    fn new(others: Vec<Box<dyn Write + Send>>) -> Arc<Board> {
        Arc::new(Board { state: Mutex::default(), changed: Condvar::new(), others: Mutex::new(others) })
    }

    fn insert(&self, key: &str, value: Vec<u8>) {
        lock(&self.state).values.insert(key.into(), value);
        self.changed.notify_all();
    }

    /// Tells the others a line. One that is gone is noticed by who reads from it.
    fn tell(&self, key: &str, value: &[u8]) {
        let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        for other in lock(&self.others).iter_mut() {
            let _ = writeln!(other, "{key} {hex}").and_then(|()| other.flush());
        }
    }

    fn give_up(&self, why: String) {
        lock(&self.state).over.get_or_insert(why);
        self.changed.notify_all();
    }

    fn over(&self) -> Option<String> {
        lock(&self.state).over.clone()
    }

    /// Panics where the run cannot go on.
    fn check(&self) {
        if let Some(why) = self.over() {
            panic!("{why}");
        }
    }

    /// Takes what comes through a pipe until its other end is closed; `relays` tells it the others.
    /// Returns what the process said last.
    fn listen(&self, pipe: impl Read, relays: bool) -> Option<String> {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let (key, hex) = line.split_once(' ')?;
            let value = unhex(hex)?;
            if key == ENDED {
                return Some(String::from_utf8_lossy(&value).into_owned());
            }
            if relays {
                self.tell(key, &value);
            }
            self.insert(key, value);
        }
        None
    }
}

fn unhex(hex: &str) -> Option<Vec<u8>> {
    let digit = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// What joins a thread to those of other processes.
#[derive(Clone)]
struct Joined {
    board: Arc<Board>,
    epoch: u64,
}

impl Layer for Joined {
    fn now<P: Provider>(&self, _: &P) -> Time {
        Time::from_ps((clock() - self.epoch) * 1_000)
    }

    fn pause<P: Provider>(&self, below: &P, deadline: Time) {
        self.board.check();
        below.pause(deadline);
    }

    fn publish<P: Provider>(&self, _: &P, key: &str, value: &[u8]) {
        self.board.insert(key, value.to_vec());
        self.board.tell(key, value);
    }

    fn lookup<P: Provider>(&self, below: &P, key: &str) -> Vec<u8> {
        loop {
            let state = lock(&self.board.state);
            if let Some(value) = state.values.get(key) {
                return value.clone();
            }
            // The lock is not held any more where this panics or unwinds.
            drop(self.board.changed.wait_timeout(state, LOOK));
            self.pause(below, Time::NEVER);
        }
    }
}

/// A program that is joined to other processes.
struct Member<T> {
    program: T,
    joined: Joined,
}

impl<T: Program> Program for Member<T> {
    type Output = T::Output;

    fn run<P: Provider>(self, p: P) -> T::Output {
        self.program.run(Layered::new(p, self.joined))
    }
}

/// The machine of this process, in a cluster of several.
struct Process {
    threads: NativeCluster,
    machine: u32,
    joined: Joined,
}

impl Cluster for Process {
    fn machines(&self) -> u32 {
        MACHINES
    }

    fn alloc(&mut self, machine: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.threads.alloc(machine, len, page)
    }

    fn alloc_near(&mut self, machine: u32, core: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.threads.alloc_near(machine, core, len, page)
    }

    /// Threads of other machines are other processes' to start.
    fn spawn<T: Program>(&mut self, machine: u32, core: u32, program: T) -> Task<T::Output> {
        if machine != self.machine {
            return Task::new().0;
        }
        self.threads.spawn(machine, core, Member { program, joined: self.joined.clone() })
    }

    fn preset<R>(&mut self, machine: u32, mem: Mem, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if self.is_here(machine) { self.threads.preset(machine, mem, fill) } else { None }
    }

    fn is_here(&self, machine: u32) -> bool {
        machine == self.machine
    }

    fn run(&mut self) -> Result<(), RunError> {
        self.threads.run()
    }
}

/// Runs one machine of a check.
fn run_machine(device: &NativeDevice, board: Arc<Board>, part: &Part, scale: &Scale) -> Result<(), String> {
    let threads = NativeCluster::new(device, MACHINES);
    let joined = Joined { board, epoch: part.epoch };
    let mut cluster = Process { threads, machine: part.machine, joined };
    match checks().iter().find(|check| check.name() == part.check) {
        Some(check) => check.run(&mut cluster, scale),
        None => Err(format!("no check is called {}", part.check)),
    }
}

/// Runs the part of a process that was started by [`run`].
pub(crate) fn run_part(device: &NativeDevice, part: &Part, scale: &Scale) {
    let board = Board::new(vec![Box::new(std::io::stdout())]);
    let hears = board.clone();
    // Not joined: it ends with the process.
    std::thread::spawn(move || {
        hears.listen(std::io::stdin(), false);
        hears.give_up("the process that started this one is gone".into());
    });
    let ended = run_machine(device, board.clone(), part, scale);
    board.tell(ENDED, ended.err().unwrap_or_default().as_bytes());
}

/// Runs a check, each of its machines as a process: this one, and others started with `arguments`.
pub(crate) fn run(
    device: &NativeDevice,
    check: &str,
    arguments: &[String],
    scale: &Scale,
) -> Result<(), String> {
    let part = Part { machine: 0, epoch: clock(), check: check.into() };
    let mut processes = Vec::new();
    for machine in 1..MACHINES {
        let started = start(machine, &part, arguments);
        processes.push(started.map_err(|error| format!("a process cannot be started: {error}"))?);
    }
    let inputs = processes.iter_mut().filter_map(|process| process.stdin.take());
    let board = Board::new(inputs.map(|pipe| Box::new(pipe) as Box<dyn Write + Send>).collect());
    let outputs = processes.iter_mut().map(|process| process.stdout.take());
    let listeners: Vec<_> = (1..).zip(outputs).map(|(machine, pipe)| listen(machine, pipe, &board)).collect();
    let mut ended = run_machine(device, board.clone(), &part, scale);
    // What another process has said explains why this one gave up.
    if let Some(why) = board.over() {
        ended = Err(why);
    }
    for (mut process, listener) in processes.into_iter().zip(listeners) {
        if ended.is_err() {
            let _ = process.kill();
        }
        let _ = (process.wait(), listener.join());
    }
    ended.and_then(|()| board.over().map_or(Ok(()), Err))
}

fn start(machine: u32, part: &Part, arguments: &[String]) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).args(["--machine", &machine.to_string(), "--epoch", &part.epoch.to_string()]);
    command.arg(&part.check).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

/// Listens to a process until it has ended.
fn listen(machine: u32, pipe: Option<ChildStdout>, board: &Arc<Board>) -> JoinHandle<()> {
    let board = board.clone();
    std::thread::spawn(move || match pipe.and_then(|pipe| board.listen(pipe, true)) {
        Some(why) if why.is_empty() => {}
        Some(why) => board.give_up(format!("machine {machine}: {why}")),
        None => board.give_up(format!("the process of machine {machine} ended before its time")),
    })
}
