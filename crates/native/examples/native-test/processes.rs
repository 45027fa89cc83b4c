//! A cluster whose machines are processes. This process is machine 0 and starts the processes of all other
//! machines.
//!
//! Each process runs one check with only the threads of its own machine. Every process sends its published
//! values to machine 0 through a pipe, and machine 0 forwards them to all processes. All processes share one
//! clock ([`Rounds`]).
//!
//! A machine may ask to be killed ([`ASKS`]). Machine 0 then sends SIGKILL to the machine's process. Once the
//! process has exited, machine 0 notifies the remaining machines ([`DEAD`]) and starts the next late machine
//! in a new process.

use crate::rounds::{InRounds, Rounds, Seat, Seated};
use doorbell_native::{NativeCluster, NativeDevice};
use doorbell_systems_suite::kills::UNDER_WAY;
use doorbell_systems_suite::{ASKS, AskedKill, Check, DEAD, Layer, Scale, kills};
use doorbell_toy::checks;
use doorbell_verbs::{
    Cluster, CqHandle, Mem, PageSize, Program, Provider, QpAttr, RunError, Task, Time, VerbsError, Wc,
};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The part of a check that a started process runs: the machine, the file of the check's clock, and the
/// check's name.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) machine: u32,
    pub(crate) clock: PathBuf,
    pub(crate) check: String,
}

/// The signal that no process can catch.
const SIGKILL: i32 = 9;
/// Key of a process's last message. The value is the process's error, or empty if there was none.
const ENDED: &str = "!";
/// Interval at which a thread that waits for a value checks whether the run can continue.
const LOOK: Duration = Duration::from_millis(10);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct State {
    values: HashMap<String, Vec<u8>>,
    /// The reason why the run cannot continue.
    over: Option<String>,
}

/// Values that all processes have published.
struct Board {
    state: Mutex<State>,
    changed: Condvar,
    /// Pipes to other processes.
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

    /// Sends a value to the other processes. Errors are ignored, because the thread that listens to a process
    /// notices when the process exits.
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

    /// Panics if the run cannot continue.
    fn check(&self) {
        if let Some(why) = self.over() {
            panic!("{why}");
        }
    }

    /// Receives the values from a pipe until its other end is closed, and passes each to `hear`. Returns the
    /// process's last message, or `None` if the process sent none.
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

    /// Adds reports of other processes to `killed`, which was killed at `at` on the check's clock. A report
    /// states when the oldest outstanding operation began, in nanoseconds. If that was before `at`, the kill
    /// hit an operation.
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

    /// Sends all known values to another process, and registers its pipe for all later values.
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

/// A layer that connects a thread to the threads of other processes.
#[derive(Clone)]
struct Joined {
    board: Arc<Board>,
    seat: Seat,
    /// [`Scale::time_out`].
    time_out: u8,
}

impl Layer for Joined {
    fn now<P: Provider>(&self, below: &P) -> Time {
        Layer::now(&self.seat, below)
    }

    fn pause<P: Provider>(&self, below: &P, deadline: Time) {
        self.board.check();
        self.seat.pause(below, deadline);
    }

    fn poll_cq<P: Provider>(&self, below: &P, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        self.seat.poll_cq(below, cq, wc)
    }

    fn waiting<T>(&self, call: impl FnOnce() -> T) -> T {
        self.seat.waiting(call)
    }

    fn modifying(&self, attr: &QpAttr) -> QpAttr {
        QpAttr { timeout: attr.timeout.map(|code| code.max(self.time_out)), ..*attr }
    }

    fn publish<P: Provider>(&self, _: &P, key: &str, value: &[u8]) {
        self.board.insert(key, value.to_vec());
        self.board.tell(key, value);
    }

    fn lookup<P: Provider>(&self, below: &P, key: &str) -> Vec<u8> {
        self.seat.waiting(|| {
            loop {
                let state = lock(&self.board.state);
                if let Some(value) = state.values.get(key) {
                    return value.clone();
                }
                // This drops the guard, so no lock is held if one of the next calls panics or unwinds.
                drop(self.board.changed.wait_timeout(state, LOOK));
                self.board.check();
                below.pause(Time::NEVER);
            }
        })
    }
}

/// The machine of this process, in a cluster of several processes.
struct Process {
    cluster: InRounds,
    machines: u32,
    machine: u32,
    board: Arc<Board>,
    /// [`Scale::time_out`].
    time_out: u8,
}

impl Cluster for Process {
    fn machines(&self) -> u32 {
        self.machines
    }

    fn alloc(&mut self, machine: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.cluster.alloc(machine, len, page)
    }

    fn alloc_near(&mut self, machine: u32, core: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.cluster.alloc_near(machine, core, len, page)
    }

    /// Other processes start the threads of their machines.
    fn spawn<T: Program>(&mut self, machine: u32, core: u32, program: T) -> Task<T::Output> {
        if machine != self.machine {
            return Task::new().0;
        }
        let seat = self.cluster.rounds.seat(machine, core);
        let layer = Joined { board: self.board.clone(), seat: seat.clone(), time_out: self.time_out };
        self.cluster.threads.spawn(machine, core, Seated { program, layer, seat })
    }

    fn preset<R>(&mut self, machine: u32, mem: Mem, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if self.is_here(machine) { self.cluster.preset(machine, mem, fill) } else { None }
    }

    fn is_here(&self, machine: u32) -> bool {
        machine == self.machine
    }

    /// Only machine 0 reports that the check goes on.
    fn run(&mut self) -> Result<(), RunError> {
        if self.machine == 0 { self.cluster.run() } else { self.cluster.threads.run() }
    }
}

/// The checks that run with a process for each machine.
pub(crate) fn all() -> Vec<Check<NativeCluster>> {
    of_any()
}

/// The checks with a process for each machine, for any cluster.
fn of_any<C: Cluster + 'static>() -> Vec<Check<C>> {
    let mut all = checks();
    all.extend(kills::checks());
    all
}

/// Runs one machine of a check.
fn run_machine(
    device: &NativeDevice,
    (board, rounds): (Arc<Board>, Rounds),
    part: &Part,
    scale: &Scale,
) -> Result<(), String> {
    let listed = of_any().into_iter().find(|check| check.name() == part.check);
    let of_role = || kills::roles().iter().find_map(|role| role.named(&part.check));
    match listed.or_else(of_role) {
        Some(check) => {
            let machines = check.machines().0;
            let cluster = InRounds { threads: NativeCluster::new(device, machines), rounds };
            let (machine, time_out) = (part.machine, scale.time_out);
            check.run(&mut Process { cluster, machines, machine, board, time_out }, scale)
        }
        None => Err(format!("no check has the name {}", part.check)),
    }
}

/// Runs one machine of a check, in a process that [`run`] started.
pub(crate) fn run_part(device: &NativeDevice, part: &Part, scale: &Scale) {
    let board = Board::new(vec![Box::new(std::io::stdout())]);
    let hears = board.clone();
    // The thread is not joined. It runs until the process exits.
    std::thread::spawn(move || {
        hears.listen(std::io::stdin(), |_, _| ());
        hears.give_up("the parent process has exited or was killed".into());
    });
    let rounds = Rounds::open(&part.clock).map_err(|error| format!("{}: {error}", part.clock.display()));
    let ended = rounds.and_then(|rounds| run_machine(device, (board.clone(), rounds), part, scale));
    board.tell(ENDED, ended.err().unwrap_or_default().as_bytes());
}

/// A process that was killed.
#[derive(Clone, Debug)]
pub(crate) struct Killed {
    pub(crate) machine: u32,
    /// The request to be killed.
    pub(crate) asked: AskedKill,
    /// Whether the kill hit an operation of the process itself, or outstanding operations of other processes
    /// at it. `None` if unknown.
    pub(crate) inside: Option<bool>,
    /// Whether `inside` comes from reports of other processes. If so, the process's own step does not count.
    pub(crate) by_others: bool,
}

/// Runs a check with a process for each machine. This process is machine 0. It starts the processes of the
/// other machines with `arguments`.
pub(crate) fn run(
    device: &NativeDevice,
    check: &Check<NativeCluster>,
    arguments: &[String],
    scale: &Scale,
) -> Result<(), String> {
    run_and_tell(device, check, arguments, scale).0
}

/// Runs a check as [`run`] does. Also returns the killed processes.
pub(crate) fn run_and_tell(
    device: &NativeDevice,
    check: &Check<NativeCluster>,
    arguments: &[String],
    scale: &Scale,
) -> (Result<(), String>, Vec<Killed>) {
    let rounds = Rounds::start();
    let part = Part { machine: 0, clock: rounds.path(), check: check.name().into() };
    let board = Board::new(Vec::new());
    let (machines, at_first) = check.machines();
    let others = Others {
        board: board.clone(),
        rounds: rounds.clone(),
        part: part.clone(),
        arguments: arguments.to_vec(),
        late: Arc::new(Mutex::new(at_first..machines)),
        started: Arc::default(),
        killed: Arc::default(),
    };
    let started = (1..at_first).try_for_each(|machine| others.start(machine));
    let mut ended = started.and_then(|()| run_machine(device, (board.clone(), rounds), &part, scale));
    // If the run was given up, the reason on the board explains the error of machine 0.
    if let Some(why) = board.over() {
        ended = Err(why);
    }
    others.end(ended.is_err());
    let ended = ended.and_then(|()| board.over().map_or(Ok(()), Err));
    let killed = lock(&others.killed).iter().map(|(at, killed)| board.seen(*at, killed)).collect();
    (ended, killed)
}

/// A process, and the thread that listens to it.
struct Started {
    process: Arc<Mutex<Child>>,
    listener: JoinHandle<()>,
}

/// The processes of a check, except this process.
#[derive(Clone)]
struct Others {
    board: Arc<Board>,
    rounds: Rounds,
    part: Part,
    arguments: Vec<String>,
    /// Machines whose processes have not been started.
    late: Arc<Mutex<Range<u32>>>,
    started: Arc<Mutex<Vec<Started>>>,
    /// The killed processes, each with the time of its kill in nanoseconds of the check's clock.
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
        command.args(&self.arguments).args(["--machine", &machine.to_string(), "--clock"]);
        command.arg(&self.part.clock);
        command.arg(&self.part.check).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    }

    /// Listens to a process until it exits, and kills the process if it asks for that.
    fn listen(&self, machine: u32, pipe: Option<ChildStdout>, process: &Mutex<Child>) {
        let asks = format!("{ASKS}{machine}");
        let mut killed = false;
        let hear = |key: &str, value: &[u8]| {
            self.board.tell(key, value);
            if let Some(asked) = AskedKill::from_bytes(value).filter(|_| key == asks) {
                std::thread::sleep(Duration::from_micros(asked.lives_us.unwrap_or(0)));
                let at = self.rounds.now().as_ns();
                killed = lock(process).kill().is_ok();
                // If a process continues until it is killed, its last step is unknown.
                let inside = asked.lives_us.is_none().then_some(asked.inside);
                lock(&self.killed).push((at, Killed { machine, asked, inside, by_others: false }));
            }
        };
        match pipe.and_then(|pipe| self.board.listen(pipe, hear)) {
            Some(why) if why.is_empty() => {}
            Some(why) => self.board.give_up(format!("machine {machine}: {why}")),
            None if killed => self.is_dead(machine, lock(process).wait()),
            None => self.board.give_up(format!("the process of machine {machine} ended too early")),
        }
    }

    /// Handles the exit of a killed process: notifies the remaining processes and starts the next late
    /// machine.
    fn is_dead(&self, machine: u32, ended: std::io::Result<ExitStatus>) {
        if !ended.as_ref().is_ok_and(|status| status.signal() == Some(SIGKILL)) {
            return self
                .board
                .give_up(format!("machine {machine} should have been killed, but ended with {ended:?}"));
        }
        self.rounds.forget(machine);
        let key = format!("{DEAD}{machine}");
        self.board.insert(&key, Vec::new());
        self.board.tell(&key, &[]);
        let next = lock(&self.late).next();
        if let Some(Err(why)) = next.map(|machine| self.start(machine)) {
            self.board.give_up(why);
        }
    }

    /// Waits for all processes. Kills the remaining ones if `kill` is set.
    fn end(&self, kill: bool) {
        loop {
            let Some(Started { process, listener }) = lock(&self.started).pop() else { return };
            if kill {
                let _ = lock(&process).kill();
            }
            // The listener is joined first, because it may be about to kill the process, and then it needs
            // the lock.
            let _ = (listener.join(), lock(&process).wait());
        }
    }
}
