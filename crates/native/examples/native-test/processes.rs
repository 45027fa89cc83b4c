//! A cluster whose machines are processes: this one and others that it starts.
//!
//! Each process runs the same check and only the threads of its own machine. What is published goes by
//! pipes from every process to this one, and from here to all; clocks count from the same moment.
//!
//! A machine may ask to be killed ([`ASKS`]): its process gets SIGKILL, once it is gone the others are told ([`DEAD`]), and the next
//! machine that was not there at first comes in a process of its own.

use doorbell_native::{NativeCluster, NativeDevice};
use doorbell_systems_suite::kills::UNDER_WAY;
use doorbell_systems_suite::{ASKS, AskedKill, Check, DEAD, Layer, Layered, Scale, kills};
use doorbell_toy::checks;
use doorbell_verbs::{Cluster, Mem, PageSize, Program, Provider, QpAttr, RunError, Task, Time, VerbsError};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Which machine of which check a process that was started runs, and the moment from which it counts.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) machine: u32,
    pub(crate) epoch: u64,
    pub(crate) check: String,
}

/// The signal that nobody can catch.
const SIGKILL: i32 = 9;
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
        let hex = hex(value);
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

    /// Takes what comes through a pipe until its other end is closed, and shows it to `hear`. Returns what the
    /// process said last.
    fn listen(&self, pipe: impl Read, mut hear: impl FnMut(&str, &[u8])) -> Option<String> {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let (key, hex) = line.split_once(' ')?;
            let value = unhex(hex)?;
            if key == ENDED {
                return Some(String::from_utf8_lossy(&value).into_owned());
            }
            self.insert(key, value.clone());
            hear(key, &value);
        }
        None
    }

    /// How a process was killed, at that moment, by what those have said who asked it.
    fn seen(&self, at: u64, killed: &Killed) -> Killed {
        let state = lock(&self.state);
        let of_askers = || state.values.iter().filter(|(key, _)| key.starts_with(UNDER_WAY));
        let had = |value: &Vec<u8>| {
            let began = value.first_chunk().map(|began| u64::from_le_bytes(*began));
            began.is_some_and(|began| began < at)
        };
        let by_others = of_askers().next().is_some();
        let inside = if by_others { Some(of_askers().any(|(_, value)| had(value))) } else { killed.inside };
        Killed { inside, by_others, ..killed.clone() }
    }

    /// Tells another process what is known, and what will be.
    fn join(&self, mut pipe: Box<dyn Write + Send>) {
        let mut others = lock(&self.others);
        for (key, value) in &lock(&self.state).values {
            let _ = writeln!(pipe, "{key} {}", hex(value));
        }
        let _ = pipe.flush();
        others.push(pipe);
    }
}

fn hex(value: &[u8]) -> String {
    value.iter().map(|byte| format!("{byte:02x}")).collect()
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
    /// [`Scale::time_out`].
    time_out: u8,
}

impl Layer for Joined {
    fn now<P: Provider>(&self, _: &P) -> Time {
        Time::from_ps((clock() - self.epoch) * 1_000)
    }

    fn pause<P: Provider>(&self, below: &P, deadline: Time) {
        self.board.check();
        below.pause(deadline);
    }

    fn modifying(&self, attr: &QpAttr) -> QpAttr {
        QpAttr { timeout: attr.timeout.map(|code| code.max(self.time_out)), ..*attr }
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
    machines: u32,
    machine: u32,
    joined: Joined,
}

impl Cluster for Process {
    fn machines(&self) -> u32 {
        self.machines
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

/// The checks that run with a process for each machine.
pub(crate) fn all() -> Vec<Check<NativeCluster>> {
    of_any()
}

/// The same on any cluster.
fn of_any<C: Cluster + 'static>() -> Vec<Check<C>> {
    let mut all = checks();
    all.extend(kills::checks());
    all
}

/// Runs one machine of a check.
fn run_machine(device: &NativeDevice, board: Arc<Board>, part: &Part, scale: &Scale) -> Result<(), String> {
    let joined = Joined { board, epoch: part.epoch, time_out: scale.time_out };
    let listed = of_any().into_iter().find(|check| check.name() == part.check);
    let of_role = || kills::roles().iter().find_map(|role| role.named(&part.check));
    match listed.or_else(of_role) {
        Some(check) => {
            let machines = check.machines().0;
            let threads = NativeCluster::new(device, machines);
            let mut cluster = Process { threads, machines, machine: part.machine, joined };
            check.run(&mut cluster, scale)
        }
        None => Err(format!("no check is called {}", part.check)),
    }
}

/// Runs the part of a process that was started by [`run`].
pub(crate) fn run_part(device: &NativeDevice, part: &Part, scale: &Scale) {
    let board = Board::new(vec![Box::new(std::io::stdout())]);
    let hears = board.clone();
    // Not joined: it ends with the process.
    std::thread::spawn(move || {
        hears.listen(std::io::stdin(), |_, _| ());
        hears.give_up("the process that started this one is gone".into());
    });
    let ended = run_machine(device, board.clone(), part, scale);
    board.tell(ENDED, ended.err().unwrap_or_default().as_bytes());
}

/// A process that was killed.
#[derive(Clone, Debug)]
pub(crate) struct Killed {
    pub(crate) machine: u32,
    /// What it had asked for.
    pub(crate) asked: AskedKill,
    /// Whether it was in the middle of something, or others had something under way at it; nothing where nobody knows.
    pub(crate) inside: Option<bool>,
    /// Whether that is what others say: its own step says nothing.
    pub(crate) by_others: bool,
}

/// Runs a check, each of its machines as a process: this one, and others started with `arguments`.
pub(crate) fn run(
    device: &NativeDevice,
    check: &Check<NativeCluster>,
    arguments: &[String],
    scale: &Scale,
) -> Result<(), String> {
    run_and_tell(device, check, arguments, scale).0
}

/// The same, with those that were killed.
pub(crate) fn run_and_tell(
    device: &NativeDevice,
    check: &Check<NativeCluster>,
    arguments: &[String],
    scale: &Scale,
) -> (Result<(), String>, Vec<Killed>) {
    let part = Part { machine: 0, epoch: clock(), check: check.name().into() };
    let board = Board::new(Vec::new());
    let (machines, at_first) = check.machines();
    let others = Others {
        board: board.clone(),
        part: part.clone(),
        arguments: arguments.to_vec(),
        late: Arc::new(Mutex::new(at_first..machines)),
        started: Arc::default(),
        killed: Arc::default(),
    };
    let started = (1..at_first).try_for_each(|machine| others.start(machine));
    let mut ended = started.and_then(|()| run_machine(device, board.clone(), &part, scale));
    // What another process has said explains why this one gave up.
    if let Some(why) = board.over() {
        ended = Err(why);
    }
    others.end(ended.is_err());
    let ended = ended.and_then(|()| board.over().map_or(Ok(()), Err));
    let killed = lock(&others.killed).iter().map(|(at, killed)| board.seen(*at, killed)).collect();
    (ended, killed)
}

/// A process, and who listens to it.
struct Started {
    process: Arc<Mutex<Child>>,
    listener: JoinHandle<()>,
}

/// The processes of a check beside this one.
#[derive(Clone)]
struct Others {
    board: Arc<Board>,
    part: Part,
    arguments: Vec<String>,
    /// Machines whose processes have not been started.
    late: Arc<Mutex<Range<u32>>>,
    started: Arc<Mutex<Vec<Started>>>,
    /// Those that were killed, and when, in nanoseconds since the run began.
    killed: Arc<Mutex<Vec<(u64, Killed)>>>,
}

impl Others {
    /// Starts the process of a machine.
    fn start(&self, machine: u32) -> Result<(), String> {
        let mut process =
            self.command(machine).map_err(|error| format!("a process cannot be started: {error}"))?;
        if let Some(pipe) = process.stdin.take() {
            self.board.join(Box::new(pipe));
        }
        let pipe = process.stdout.take();
        let process = Arc::new(Mutex::new(process));
        let (others, child) = (self.clone(), process.clone());
        let listener = std::thread::spawn(move || others.listen(machine, pipe, &child));
        lock(&self.started).push(Started { process, listener });
        Ok(())
    }

    fn command(&self, machine: u32) -> std::io::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        let (machine, epoch) = (machine.to_string(), self.part.epoch.to_string());
        command.args(&self.arguments).args(["--machine", &machine, "--epoch", &epoch]);
        command.arg(&self.part.check).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    }

    /// Listens to a process until it has ended, and kills it where it asks for that.
    fn listen(&self, machine: u32, pipe: Option<ChildStdout>, process: &Mutex<Child>) {
        let asks = format!("{ASKS}{machine}");
        let mut killed = false;
        let hear = |key: &str, value: &[u8]| {
            self.board.tell(key, value);
            if let Some(asked) = AskedKill::from_bytes(value).filter(|_| key == asks) {
                std::thread::sleep(Duration::from_micros(asked.lives_us.unwrap_or(0)));
                let at = clock() - self.part.epoch;
                killed = lock(process).kill().is_ok();
                // Where one goes on nobody knows which of its steps is the last.
                let inside = asked.lives_us.is_none().then_some(asked.inside);
                lock(&self.killed).push((at, Killed { machine, asked, inside, by_others: false }));
            }
        };
        match pipe.and_then(|pipe| self.board.listen(pipe, hear)) {
            Some(why) if why.is_empty() => {}
            Some(why) => self.board.give_up(format!("machine {machine}: {why}")),
            None if killed => self.is_dead(machine, lock(process).wait()),
            None => self.board.give_up(format!("the process of machine {machine} ended before its time")),
        }
    }

    /// The process of a machine was killed and is gone: another one comes.
    fn is_dead(&self, machine: u32, ended: std::io::Result<ExitStatus>) {
        if !ended.as_ref().is_ok_and(|status| status.signal() == Some(SIGKILL)) {
            return self
                .board
                .give_up(format!("machine {machine} was to be killed, but ended so: {ended:?}"));
        }
        let key = format!("{DEAD}{machine}");
        self.board.insert(&key, Vec::new());
        self.board.tell(&key, &[]);
        let next = lock(&self.late).next();
        if let Some(Err(why)) = next.map(|machine| self.start(machine)) {
            self.board.give_up(why);
        }
    }

    /// Waits for all; kills those that are left where something went wrong.
    fn end(&self, kill: bool) {
        loop {
            let Some(Started { process, listener }) = lock(&self.started).pop() else { return };
            if kill {
                let _ = lock(&process).kill();
            }
            // The listener may be about to kill it.
            let _ = (listener.join(), lock(&process).wait());
        }
    }
}
