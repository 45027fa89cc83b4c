//! Runs several processes of one program as ranks.
//!
//! Each rank leads a process group of its own. So only this process gets Ctrl-C, and passes it on once to
//! each rank and the processes that the rank has started. This process is a subreaper (prctl(2)): it becomes
//! the parent of processes that ranks leave behind, and kills them. If a rank fails, the other ranks get
//! SIGTERM some time later. Until then, they can notice and report the failure, for example by RC's
//! time-outs. Without SIGTERM, ranks that wait for each other would never exit.

use super::explaining::Explainer;
use super::lines::pass_on;
use super::signals;
use crate::address;
use crate::qp_numbers::PROCESSES;
use crate::say::say;
use crate::variables;
use libc::{c_int, pid_t};
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, getpid, set_child_subreaper, wait, waitid};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::net::IpAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most ranks of a run, which is the most processes of a fabric.
pub const MOST_RANKS: u32 = PROCESSES as u32;

/// Time from a rank's failure to SIGTERM for the other ranks. Also the time from SIGTERM or SIGINT to
/// SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// How long processes that ranks have left behind may run before SIGKILL. Also the most time to wait for
/// their end after SIGKILL, and for the rest of the output.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval of the checks for these processes.
const LOOK: Duration = Duration::from_millis(5);

/// Signals that end, stop or continue a run. This process sends them to the whole process group of a rank.
const FOR_GROUPS: [c_int; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP, libc::SIGTSTP, libc::SIGCONT];

/// Runs `count` processes of a program until all have exited. Returns the status of the first rank that
/// failed, or success. Explains waits at a signal.
///
/// # Errors
/// If a rank cannot be started. The ranks that were started are killed then.
pub(super) fn run(
    program: &Command,
    count: u32,
    first: Option<IpAddr>,
    explainer: &mut Explainer,
) -> io::Result<ExitStatus> {
    let before = signals::block(&signals::all());
    // If SIGCHLD were ignored, the exit status of a child would be lost.
    let children = signals::set_action(libc::SIGCHLD, &signals::default_action());
    let _ = set_child_subreaper(Some(Pid::INIT));
    let mut ranks = Ranks::default();
    for rank in 0..count {
        let mut command = of_rank(program, rank, count, first);
        signals::for_child(&mut command, before, children);
        if let Err(error) = ranks.start(rank, command) {
            ranks.end_all();
            signals::set_action(libc::SIGCHLD, &children);
            signals::block(&before);
            return Err(io::Error::new(
                error.kind(),
                format!("cannot start rank {rank} of {count}: {error}"),
            ));
        }
    }
    ranks.watch(explainer);
    ranks.end_all();
    Ok(ranks.failed.unwrap_or_default())
}

/// The command that starts the program as a rank.
fn of_rank(program: &Command, rank: u32, count: u32, first: Option<IpAddr>) -> Command {
    let mut command = Command::new(program.get_program());
    command.args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env(variables::RANK, rank.to_string()).env(variables::SIZE, count.to_string());
    if let Some(address) = first.and_then(|first| address::nth(first, rank)) {
        command.env(variables::IP, address.to_string());
    }
    let input = match rank {
        // Only the foreground group may read a terminal, and ranks are not in it.
        0 if io::stdin().is_terminal() => Stdio::piped(),
        0 => Stdio::inherit(),
        _ => Stdio::null(),
    };
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command
}

/// A signal to send to the running ranks, and the time to send it.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: Instant,
    signal: c_int,
}

#[derive(Debug, Default)]
struct Ranks {
    /// The running ranks by PID.
    running: BTreeMap<pid_t, u32>,
    /// The process groups of all ranks.
    groups: Vec<pid_t>,
    /// The threads that pass on the ranks' output. Each returns whether it succeeded.
    printing: Vec<JoinHandle<bool>>,
    /// The status of the first rank that failed.
    failed: Option<ExitStatus>,
    due: Option<Due>,
}

impl Ranks {
    fn start(&mut self, rank: u32, mut command: Command) -> io::Result<()> {
        let mut child = command.spawn()?;
        let pid = child.id() as pid_t;
        self.running.insert(pid, rank);
        self.groups.push(pid);
        if let Some(out) = child.stdout.take() {
            self.printing.push(pass_on(rank, out, io::stdout)?);
        }
        if let Some(errors) = child.stderr.take() {
            self.printing.push(pass_on(rank, errors, io::stderr)?);
        }
        feed(&mut child)
    }

    /// Waits until all ranks have exited.
    fn watch(&mut self, explainer: &mut Explainer) {
        let heeded = signals::heeded();
        while !self.running.is_empty() {
            let left = self.due.map(|due| due.at.saturating_duration_since(Instant::now()));
            if let Some(came) = signals::next_within(&heeded, left)
                && came.signal != libc::SIGCHLD
            {
                explainer.hears(came.signal);
                self.pass(came.signal);
                if !crate::say::broken("w-ranks") { explainer.say(); }
            }
            while let Some((pid, ended)) = next_ended() {
                self.see(pid, ended);
            }
            if let Some(due) = self.due.filter(|due| due.at <= Instant::now()) {
                explainer.hears(due.signal);
                self.carry_out(due);
                if !crate::say::broken("w-ranks") { explainer.say(); }
            }
        }
    }

    /// Handles the exit of a rank, or of a process that a rank has left behind.
    fn see(&mut self, pid: pid_t, ended: ExitStatus) {
        let Some(rank) = self.running.remove(&pid) else { return };
        if ended.success() || self.failed.is_some() {
            return;
        }
        self.failed = Some(ended);
        if !self.running.is_empty() && self.due.is_none() {
            let how = match ended.signal() {
                Some(signal) => format!("was killed by signal {signal}"),
                None => format!("exited with code {}", ended.code().unwrap_or_default()),
            };
            say(format_args!("rank {rank} {how}; the other ranks get SIGTERM in {} s", GRACE.as_secs()));
            self.due = Some(Due { at: Instant::now() + GRACE, signal: libc::SIGTERM });
        }
    }

    /// Passes a signal on to all ranks.
    fn pass(&mut self, signal: c_int) {
        self.tell(signal);
        match signal {
            libc::SIGINT | libc::SIGTERM => {
                self.due = Some(Due { at: Instant::now() + GRACE, signal: libc::SIGKILL });
            }
            libc::SIGTSTP => {
                // This process stops until SIGCONT, and then passes SIGCONT on like any other signal.
                signals::send(getpid().as_raw_pid(), libc::SIGSTOP);
            }
            _ => {}
        }
    }

    fn carry_out(&mut self, due: Due) {
        let ranks = self.running.values().map(u32::to_string).collect::<Vec<_>>().join(", ");
        self.tell(due.signal);
        self.due = None;
        if due.signal == libc::SIGTERM {
            say(format_args!("sending SIGTERM to the ranks that still run: {ranks}"));
            self.due = Some(Due { at: Instant::now() + GRACE, signal: libc::SIGKILL });
        } else {
            say(format_args!("killing the ranks that do not exit: {ranks}"));
        }
    }

    /// Sends a signal to all running ranks.
    fn tell(&self, signal: c_int) {
        let for_groups = FOR_GROUPS.contains(&signal) || signal == libc::SIGKILL;
        for pid in self.running.keys() {
            signals::send(if for_groups { -pid } else { *pid }, signal);
        }
    }

    /// Kills ranks that still run and the processes that ranks have left behind. Then waits for the rest of
    /// the output.
    fn end_all(&mut self) {
        self.running.keys().for_each(|pid| signals::send(-pid, libc::SIGKILL));
        let begin = Instant::now();
        while has_children() && begin.elapsed() < 2 * PATIENCE {
            while next_ended().is_some() {}
            if begin.elapsed() >= PATIENCE {
                self.kill_rest();
            }
            std::thread::sleep(LOOK);
        }
        let begin = Instant::now();
        while self.printing.iter().any(|thread| !thread.is_finished()) && begin.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
        }
        let done = self.printing.drain(..).filter(JoinHandle::is_finished);
        if done.map(JoinHandle::join).any(|passed| !passed.unwrap_or(false)) {
            // Exit code 1, because output was lost.
            self.failed.get_or_insert(ExitStatus::from_raw(1 << 8));
        }
    }

    fn kill_rest(&self) {
        self.groups.iter().for_each(|group| signals::send(-group, libc::SIGKILL));
        own_children().into_iter().for_each(|pid| signals::send(pid, libc::SIGKILL));
    }
}

/// Passes this process's input on to a rank that cannot read the terminal itself.
fn feed(child: &mut Child) -> io::Result<()> {
    let Some(mut to) = child.stdin.take() else { return Ok(()) };
    let pass = move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut to);
    };
    std::thread::Builder::new().spawn(pass).map(drop)
}

/// Reaps a child that has exited, and returns its PID and status.
fn next_ended() -> Option<(pid_t, ExitStatus)> {
    let (pid, status) = wait(WaitOptions::NOHANG).ok()??;
    Some((pid.as_raw_pid(), ExitStatus::from_raw(status.as_raw())))
}

/// Whether this process has children, even if they only wait to be reaped.
fn has_children() -> bool {
    // The call reaps no child.
    waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT).is_ok()
}

/// The children of this process, including those that ranks have left behind. A child may be missing while
/// other children exit.
fn own_children() -> Vec<pid_t> {
    listed_children().unwrap_or_else(scanned_children)
}

/// The children of all threads of this process, as the kernel lists them (proc_tid_children(5)). `None` if
/// the kernel has no such lists.
fn listed_children() -> Option<Vec<pid_t>> {
    std::fs::metadata("/proc/thread-self/children").ok()?;
    let threads = std::fs::read_dir("/proc/self/task").ok()?.flatten();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    // A thread may have exited meanwhile. Its children then belong to another thread.
    Some(lists.flatten().flat_map(|list| pids(&list)).collect())
}

/// The PIDs in a list of the kernel.
fn pids(list: &str) -> Vec<pid_t> {
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The children of this process among all processes. This is the second choice: it opens a file of each
/// process, and such accesses keep the kernel from removing exited processes from /proc.
fn scanned_children() -> Vec<pid_t> {
    let own = std::process::id().to_string();
    let is_own = |pid: &pid_t| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The state and the PID of the parent follow the name (proc(5)).
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.split(' ').nth(1) == Some(&own))
    };
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_all_threads_are_found() {
        let start = || Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat is installed");
        // The kernel lists a child under the thread that started it.
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let (send, started) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            send.send(start()).expect("the test listens");
            let _ = ends.recv();
        });
        let mut children = [start(), started.recv().expect("it starts")];
        let is_all = |found: Vec<pid_t>| children.iter().all(|child| found.contains(&(child.id() as pid_t)));
        assert!(is_all(scanned_children()), "by all processes");
        // A child of another test that exits may hide another child.
        let listed = || listed_children().is_none_or(is_all);
        assert!((0..1000).any(|_| listed()), "by lists");
        for child in &mut children {
            child.kill().expect("it runs");
            child.wait().expect("it ends");
        }
        drop(end);
        other.join().expect("it ends");
    }
}
