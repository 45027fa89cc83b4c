//! Runs one case: the caught process is harmed at a point, and all other processes must go on undisturbed.

use super::super::own_time::HANGS;
use super::crew::{Counts, Member, Wrong, connect};
use super::harm::{FILLER, Harm};
use super::matrix::{Role, Row};
use super::server::FAULT_RECVS;
use super::traffic::Way;
use crate::point::Point;
use doorbell_abi::CEnum;
use doorbell_verbs::WcStatus;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) row: Row,
    pub(super) harm: Harm,
    pub(super) seed: u64,
    /// How long a stopped process stays stopped.
    pub(super) stop: Duration,
}

/// The longest call of the processes that were not caught, and the call's name.
pub(super) type Longest = (Duration, String);

/// The longest time that a call may take: in general, and if the caught process is stopped.
const LONG: Duration = Duration::from_secs(1);
const BLOCKS: Duration = Duration::from_millis(100);
/// How long the traffic runs before its progress is checked.
const WATCHED: Duration = Duration::from_millis(300);
/// Numbers of the caught client, the caught server, and the other server. The other clients are 1 and 2.
const CAUGHT_CLIENT: u32 = 3;
const CAUGHT_SERVER: u32 = 101;
const SERVER: u32 = 102;
/// The ways whose progress is checked.
const WATCHED_WAYS: [Way; 4] = [Way::Srq, Way::Ud, Way::Rc, Way::Uc];

impl Case {
    pub(super) fn name(&self) -> String {
        let Row { role, point, passes, closed } = self.row;
        format!("{role:?}-{point:?}-{passes}{}-{:?}", if closed { "-closed" } else { "" }, self.harm)
    }

    pub(super) fn run(&self) -> Result<Longest, Wrong> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let fabric = format!("soak-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let longest = match self.row.role {
            Role::Joiner | Role::Leaver => self.run_members(&fabric),
            Role::Asker | Role::Owner => self.run_pair(&fabric).map(|()| (Duration::ZERO, "none".to_owned())),
            _ => self.run_traffic(&fabric),
        };
        let left = wait_until(|| folder(&fabric).is_none());
        let (longest, call) = longest?;
        if !left {
            return Err(format!("{:?} is left", folder(&fabric)));
        }
        Ok((longest, call))
    }

    /// The longest time that a call of another process may take in this case.
    pub(super) fn most(&self) -> Duration {
        if self.harm == Harm::Stop { BLOCKS } else { LONG }
    }

    pub(super) fn arm(&self) -> String {
        let nth = 1 + self.seed % u64::from(self.row.passes);
        format!("arm {:?} {nth} {:?} {}", self.row.point, self.harm, self.seed)
    }

    /// Whether the caught process goes on after the harm.
    fn survives(&self) -> bool {
        !matches!(self.harm, Harm::Kill | Harm::Hostile)
    }

    fn run_traffic(&self, fabric: &str) -> Result<Longest, Wrong> {
        let mut world = World::begin(self, fabric)?;
        let result = world.run(self);
        match result {
            Ok(()) => world.end(self),
            Err(wrong) => {
                // Findings of the other processes may explain the failure.
                let more: Vec<Wrong> =
                    world.others.iter_mut().filter_map(|other| other.judge().err()).collect();
                world.abandon();
                Err(if more.is_empty() { wrong } else { format!("{wrong} ({})", more.join("; ")) })
            }
        }
    }
}

/// The processes of a case with traffic: a server, two clients, and the caught process.
struct World {
    others: Vec<Member>,
    caught: Option<Member>,
    files: Vec<Vec<String>>,
}

impl World {
    fn begin(case: &Case, fabric: &str) -> Result<World, Wrong> {
        let start = |name| Member::start_with(name, fabric, case.row.closed);
        let others = ["server", "client 1", "client 2"].map(start);
        let caught = Some(start("who is caught"));
        let mut world = World { others: others.into(), caught, files: Vec::new() };
        match world.set_up(case) {
            Ok(()) => Ok(world),
            Err(wrong) => {
                world.abandon();
                Err(wrong)
            }
        }
    }

    fn set_up(&mut self, case: &Case) -> Result<(), Wrong> {
        let [server, one, two] = &mut self.others[..] else { return Err("nobody".into()) };
        let Some(caught) = &mut self.caught else { return Err("nobody".into()) };
        let about = server.ask_numbers("server")?;
        for (id, client) in [(1, &mut *one), (2, &mut *two)] {
            client.ask(&format!("client {id}"))?;
            connect(client, id, server, SERVER, &about)?;
        }
        for member in [&mut *server, one, two] {
            member.ask("go")?;
        }
        for client in [&mut *one, two] {
            // Once a client has sent on all ways, its lasting files do not change.
            let name = client.name.clone();
            let has_sent = |counts: &Counts| {
                let count = |way: Way| counts.get(&(true, SERVER, way as u32)).map_or(0, |count| count.0);
                WATCHED_WAYS.into_iter().all(|way| count(way) > 0)
            };
            wait_for(&format!("{name} does not begin"), || client.counts().map(|counts| has_sent(&counts)))?;
        }
        self.files = [&*server, one, two].map(lasting_files).into();
        if case.row.role == Role::Receiver {
            let about = caught.ask_numbers("server")?;
            for (id, client) in [(1, one), (2, two)] {
                client.ask(&format!("suspect {CAUGHT_SERVER} {}", u8::from(case.harm == Harm::Hostile)))?;
                connect(client, id, caught, CAUGHT_SERVER, &about)?;
            }
            return Ok(());
        }
        caught.ask(&format!("client {CAUGHT_CLIENT}"))?;
        connect(caught, CAUGHT_CLIENT, server, SERVER, &about)?;
        if matches!(case.harm, Harm::NoFiles | Harm::NoMemory) {
            caught.ask("limited")?;
        }
        if case.harm == Harm::Stop && case.row.holds_up(Way::Rc) {
            // Other clients' atomics wait for the caught holder of the lock until their QP's time-out.
            for client in [one, two] {
                client.ask(&format!("suspect {SERVER} 0"))?;
            }
        }
        Ok(())
    }

    fn run(&mut self, case: &Case) -> Result<(), Wrong> {
        self.catch(case)?;
        let before = self.counts()?;
        std::thread::sleep(if case.harm == Harm::Stop { case.stop } else { WATCHED });
        self.wait_for_progress(case, &before)?;
        let Some(caught) = &mut self.caught else { return Ok(()) };
        match case.harm {
            Harm::Stop => caught.signal(libc::SIGCONT),
            Harm::Kill => return self.after_death(case),
            Harm::Hostile => {
                caught.signal(libc::SIGKILL);
                return self.after_death(case);
            }
            _ => caught.tell("relent"),
        }
        std::thread::sleep(Duration::from_millis(100));
        caught.counts()?;
        self.check_flush(case)
    }

    fn catch(&mut self, case: &Case) -> Result<(), Wrong> {
        let Some(caught) = &mut self.caught else { return Ok(()) };
        // Does not wait for answers: another thread of the process may be caught before the answer.
        caught.tell(&case.arm());
        caught.tell(&if case.row.role == Role::Faulter {
            format!("fault {SERVER}")
        } else {
            "go".to_owned()
        });
        caught.wait_until_caught()
    }

    fn counts(&mut self) -> Result<Vec<Counts>, Wrong> {
        self.others.iter_mut().map(Member::counts).collect()
    }

    /// Checks that the peers of the killed process notice its exit and close its files.
    fn after_death(&mut self, case: &Case) -> Result<(), Wrong> {
        if let Some(caught) = self.caught.take() {
            caught.end()?;
        }
        let [server, clients @ ..] = &mut self.others[..] else { return Ok(()) };
        if case.row.role == Role::Receiver {
            for client in clients {
                let name = client.name.clone();
                let lost = |counts: &Counts| {
                    let status = |way: Way| counts.get(&(true, CAUGHT_SERVER, way as u32)).map_or(0, |c| c.1);
                    [Way::Srq, Way::Rc].iter().all(|way| status(*way) != 0)
                };
                wait_for(&format!("{name} is not told that its peer is gone"), || {
                    client.counts().map(|counts| lost(&counts))
                })?;
            }
        } else {
            let probed = server.ask_numbers(&format!("probe {CAUGHT_CLIENT}"))?;
            if probed.first() != Some(&u64::from(WcStatus::RetryExcErr.to_c())) {
                return Err(format!("a WRITE to who is gone ends with status {probed:?}"));
            }
            self.check_flush(case)?;
            self.others[0].ask(&format!("leave {CAUGHT_CLIENT}"))?;
        }
        for (member, before) in self.others.iter().zip(&self.files) {
            if !wait_until(|| lasting_files(member) == *before) {
                return Err(format!("{} has open {:?}, not {before:?}", member.name, lasting_files(member)));
            }
        }
        let before = self.counts()?;
        self.wait_for_progress(case, &before)
    }

    /// Waits until the processes that were not caught make progress. The caught process may be stopped.
    fn wait_for_progress(&mut self, case: &Case, before: &[Counts]) -> Result<(), Wrong> {
        let begin = Instant::now();
        loop {
            match check_progress(case, before, &self.counts()?) {
                Err(wrong) if begin.elapsed() > HANGS => return Err(wrong),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// If the case makes a QP fail, waits until all RECVs of the QP are flushed.
    fn check_flush(&mut self, case: &Case) -> Result<(), Wrong> {
        if case.row.role != Role::Faulter {
            return Ok(());
        }
        let server = &mut self.others[0];
        let mut seen = 0;
        let all = wait_for("not all RECVs are flushed", || {
            let counts = server.counts()?;
            seen = counts.get(&(false, 0, Way::Fault as u32)).map_or(0, |count| count.0);
            Ok(seen == FAULT_RECVS)
        });
        all.map_err(|wrong| format!("{wrong}: {seen} of {FAULT_RECVS}"))
    }

    fn end(mut self, case: &Case) -> Result<Longest, Wrong> {
        let mut wrong = Vec::new();
        let mut longest: Longest = (Duration::ZERO, "none".to_owned());
        let caught = self.caught.take();
        let pids: Vec<u32> = self.others.iter().chain(&caught).map(Member::pid).collect();
        let members =
            self.others.drain(..).map(|other| (other, true)).chain(caught.map(|caught| (caught, false)));
        // All processes end their operations before the first process exits. The server ends its operations
        // last.
        let mut members: Vec<(Member, bool)> = members.collect();
        for (member, is_other) in members.iter_mut().rev() {
            let told = member.ask("end").and_then(|_| member.judge());
            match told {
                Ok(call) if *is_other && call.0 > longest.0 => longest = call,
                Ok(_) => {}
                Err(what) => wrong.push(what),
            }
        }
        for (member, _) in members {
            let name = member.name.clone();
            match member.end() {
                Ok(ended) if ended.status.success() => {}
                Ok(ended) => wrong.push(format!("{name} ends with {}: {}", ended.status, ended.said.trim())),
                Err(what) => wrong.push(what),
            }
        }
        if let Some(segment) = system_v_of(&pids) {
            wrong.push(format!("a System V segment is left: {segment}"));
        }
        debug_assert!(case.survives() || pids.len() == 3);
        if wrong.is_empty() { Ok(longest) } else { Err(wrong.join("; ")) }
    }

    fn abandon(&mut self) {
        self.others.drain(..).chain(self.caught.take()).for_each(Member::kill_and_wait);
    }
}

/// Checks that the processes that were not caught made progress with each other.
fn check_progress(case: &Case, before: &[Counts], after: &[Counts]) -> Result<(), Wrong> {
    let waits = |way: Way| case.harm == Harm::Stop && case.row.holds_up(way);
    for way in WATCHED_WAYS.into_iter().filter(|way| !waits(*way)) {
        for client in [1, 2] {
            // Checks the receiver too, because a sender on UC or UD does not know which messages arrived.
            let keys = [(client as usize, (true, SERVER, way as u32)), (0, (false, client, way as u32))];
            for (member, key) in keys {
                let count = |all: &[Counts]| all[member].get(&key).map_or(0, |count| count.0);
                let (then, now) = (count(before), count(after));
                if now <= then {
                    return Err(format!("client {client} and its server stand still by {way:?} at {now}"));
                }
            }
        }
    }
    Ok(())
}

impl Case {
    /// Runs a case in which the caught process joins or leaves a fabric, while other processes join it.
    fn run_members(&self, fabric: &str) -> Result<Longest, Wrong> {
        let mut caught = Member::start("who is caught", fabric);
        let mut others = ["server", "client"].map(|name| Member::start(name, fabric));
        let result = self.run_among(&mut caught, &mut others);
        let killed = self.harm == Harm::Kill;
        if result.is_err() && !killed {
            caught.signal(libc::SIGCONT);
        }
        let mut wrong = Vec::new();
        match caught.end() {
            Ok(ended) if ended.status.success() || killed => {}
            Ok(ended) => {
                wrong.push(format!("who is caught ends with {}: {}", ended.status, ended.said.trim()))
            }
            Err(what) => wrong.push(what),
        }
        let mut longest: Longest = (Duration::ZERO, "none".to_owned());
        // The client ends its operations before the server.
        for other in others.iter_mut().rev() {
            match other.ask("end").and_then(|_| other.judge()) {
                Ok(call) if call.0 > longest.0 => longest = call,
                Ok(_) => {}
                Err(what) => wrong.push(what),
            }
        }
        for other in others {
            match other.end() {
                Ok(ended) if ended.status.success() => {}
                Ok(ended) => wrong.push(format!("another ends with {}: {}", ended.status, ended.said.trim())),
                Err(what) => wrong.push(what),
            }
        }
        wrong.extend(result.err());
        if wrong.is_empty() { Ok(longest) } else { Err(wrong.join("; ")) }
    }

    fn run_among(&self, caught: &mut Member, others: &mut [Member; 2]) -> Result<(), Wrong> {
        if self.row.role == Role::Joiner {
            caught.ask(&self.arm())?;
            caught.tell(&format!("client {CAUGHT_CLIENT}"));
        } else {
            caught.ask(&format!("client {CAUGHT_CLIENT}"))?;
            caught.ask("end")?;
            caught.ask(&self.arm())?;
            caught.close();
        }
        caught.wait_until_caught()?;
        if self.harm == Harm::FullShm {
            std::thread::sleep(Duration::from_millis(50));
            let _ = std::fs::remove_file(FILLER);
        }
        let stops = self.harm == Harm::Stop;
        // While a process is stopped that removes the fabric's folder, other processes cannot join. They
        // report an error.
        let excludes = stops && matches!(self.row.point, Point::AliveAlone | Point::FileRemoved);
        let [server, client] = others;
        let mut about = server.ask("server")?;
        let blocked = Duration::from_micros(server.ask_numbers("blocked")?.into_iter().sum());
        if blocked > LONG {
            return Err(format!("joining was blocked for {blocked:?}"));
        }
        if excludes && about.trim() == "refused" {
            caught.signal(libc::SIGCONT);
            about = server.ask("server")?;
        }
        let about: Vec<u64> = about.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        if client.ask("client 1")?.trim() == "refused" {
            return Err("client 1 cannot join".to_owned());
        }
        connect(client, 1, server, SERVER, &about)?;
        for member in [&mut *server, &mut *client] {
            member.ask("go")?;
        }
        let before = client.counts()?;
        std::thread::sleep(if stops { self.stop } else { WATCHED });
        wait_for("who has joined stands still", || client.counts().map(|counts| counts != before))?;
        if stops {
            caught.signal(libc::SIGCONT);
        }
        Ok(())
    }
}

/// The names of a process's lasting files. Pipes of queues and files of /proc come and go. So does the
/// process's program, which the process opens as an XRC domain.
fn lasting_files(member: &Member) -> Vec<String> {
    let program = std::env::current_exe().unwrap_or_default();
    let mut files: Vec<String> = member
        .files()
        .into_iter()
        .filter(|name| !name.starts_with("pipe:") && !name.starts_with("/proc/"))
        .filter(|name| *name != program.to_string_lossy())
        .collect();
    files.sort();
    files
}

/// The folder of a fabric in /dev/shm, if it exists.
pub(super) fn folder(fabric: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with(fabric))
}

/// The line of /proc/sysvipc/shm (proc(5)) about a segment that one of these processes created.
fn system_v_of(pids: &[u32]) -> Option<String> {
    let all = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let maker = |line: &str| line.split_whitespace().nth(4).and_then(|pid| pid.parse::<u32>().ok());
    all.lines().find(|line| maker(line).is_some_and(|pid| pids.contains(&pid))).map(str::to_owned)
}

pub(super) fn wait_until(mut what: impl FnMut() -> bool) -> bool {
    wait_for("", || Ok(what())).is_ok()
}

pub(super) fn wait_for(wrong: &str, mut what: impl FnMut() -> Result<bool, Wrong>) -> Result<(), Wrong> {
    let begin = Instant::now();
    while !what()? {
        if begin.elapsed() > HANGS {
            return Err(wrong.to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
