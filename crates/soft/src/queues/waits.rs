//! Explains why the program waits: which call waits, and for which event.
//!
//! The helper thread looks at this process's waiting calls, CQs and QPs again and again. It records each wait
//! on the launcher's board, and the launcher prints the record at SIGINT or SIGTERM. The thread itself prints
//! a wait that has lasted for the time of `--explain-after`. It also prints a wait that nothing can end, as
//! long as the program has only one thread: then no other call can end the wait either.
//!
//! A program often waits rightly. So a poll or an ibv_get_cq_event(3) is explained only if no QP of the CQ
//! may still complete a work request without a call of the program.

use super::calls;
use super::cq::Cq;
use super::errors::say_line;
use super::qp::Qp;
use super::qp::outlook::{RecvOutlook, SendOutlook, StuckRequest};
use crate::fabric::process::Process;
use crate::fabric::progress::Sleeping;
use crate::sync::{Anew, lock};
use doorbell_launch::counts::board::Board;
use doorbell_launch::say::is_quiet;
use doorbell_launch::variables;
use doorbell_launch::waits::OwnWaits;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Shortest period between two looks. A look that takes long makes the next period longer, so that looks take
/// at most 1 / `SHARE` of a processor.
const PERIOD: Duration = Duration::from_millis(200);
const SHARE: u32 = 50;
/// A program that has not polled a CQ for this time does not wait by polling it.
const STILL_POLLS: Duration = Duration::from_secs(2);
/// How long a wait that nothing can end lasts before it is explained. A program may stop polling meanwhile.
const AT_ONCE: Duration = Duration::from_millis(500);

/// A wait goes on if it is missed at up to this many looks, because a request cannot be seen while a thread
/// repeats it.
const MISSES: u32 = 5;
/// A wait that comes back is not printed again if it was missed at up to this many looks.
const FORGOTTEN: u32 = 300;

static WATCHER: Anew<Option<Arc<Watcher>>> = Anew::new(None);

/// Records that this process has opened the device, and begins to look at its waits. Only the first call has
/// an effect.
pub(crate) fn start(process: &'static Process) {
    // In a quiet run, the launcher prints nothing either.
    if is_quiet() {
        return;
    }
    let mut watcher = WATCHER.lock();
    if watcher.is_some() {
        return;
    }
    let board = Board::of_waits();
    if let Some(board) = board {
        board.set_opened();
    }
    let record = board.and_then(OwnWaits::new);
    let looked = Looked { next: Instant::now(), cqs: HashMap::new(), waits: HashMap::new() };
    let made = Arc::new(Watcher { process, record, looked: Mutex::new(looked) });
    // A thread would keep the program from calls that only a process with one thread may make, such as
    // unshare(2) of a user namespace. So the thread starts only when the program seems to wait.
    process.progress.look_at_later(Arc::downgrade(&made) as Weak<dyn Sleeping>);
    calls::start_thread_of(process);
    *watcher = Some(made);
}

/// Looks at the waits of this process.
#[derive(Debug)]
struct Watcher {
    process: &'static Process,
    /// This process's record on the launcher's board, if there is one.
    record: Option<OwnWaits>,
    looked: Mutex<Looked>,
}

/// What the last look has found.
#[derive(Debug)]
struct Looked {
    /// The time of the next look.
    next: Instant,
    /// The CQs by their addresses.
    cqs: HashMap<usize, LookedCq>,
    /// The waits by their explanations.
    waits: HashMap<String, LookedWait>,
}

#[derive(Clone, Copy, Debug)]
struct LookedCq {
    /// The polls that have found nothing, as [`Cq::mark_polls`] counts them, and the time of their last
    /// change.
    polls: Option<(u32, Option<Instant>)>,
    /// The read of the completion channel that a thread was in, and whether it was in this read at the look
    /// before, too.
    read: Option<(u64, u64)>,
    is_same_read: bool,
    /// Whether the program has not polled the CQ since the look before.
    is_unpolled: bool,
}

#[derive(Clone, Copy, Debug)]
struct LookedWait {
    since: Instant,
    /// The number of looks since the wait was found.
    missed: u32,
    is_said: bool,
}

/// A wait of this process.
#[derive(Debug)]
struct Wait {
    /// The call that waits; `None` if only a work request waits.
    call: Option<&'static str>,
    event: String,
    /// Whether only another thread of the program can end the wait.
    is_hopeless: bool,
}

impl Wait {
    fn line(&self) -> String {
        let pid = std::process::id();
        match self.call {
            Some(call) => format!("{call} of process {pid} waits for {}", self.event),
            None => format!("process {pid} waits for {}", self.event),
        }
    }
}

impl Sleeping for Watcher {
    fn look(&self) {
        let mut looked = lock(&self.looked);
        let begin = Instant::now();
        if begin < looked.next {
            return;
        }
        let waits = self.waits(&mut looked.cqs, begin);
        self.explain(&mut looked.waits, &waits, begin);
        looked.next = Instant::now() + PERIOD.max(begin.elapsed() * SHARE);
    }
}

impl Watcher {
    /// The waits of this process.
    fn waits(&self, before: &mut HashMap<usize, LookedCq>, now: Instant) -> Vec<Wait> {
        let of_call = |(call, event)| Wait { call: Some(call), event, is_hopeless: true };
        let mut waits: Vec<Wait> = calls::waiting().into_iter().map(of_call).collect();
        let qps = Qp::all();
        let mut cqs: HashMap<usize, (&Arc<Cq>, LookedCq)> = HashMap::new();
        for cq in qps.iter().flat_map(|qp| qp.cqs()) {
            let key = Arc::as_ptr(cq).addr();
            cqs.entry(key).or_insert_with(|| (cq, LookedCq::of(cq, before.get(&key), now)));
        }
        *before = cqs.iter().map(|(key, (_, looked))| (*key, *looked)).collect();
        let mut on_cqs = WaitsOnCqs::default();
        for (cq, looked) in cqs.values() {
            if let Some(call) = looked.call(now) {
                on_cqs.add(cq, call, &qps);
            }
        }
        waits.extend(on_cqs.explained());
        if self.process.progress.has_waiting() {
            let is_idle = |cq: &Arc<Cq>| {
                let looked = cqs.get(&Arc::as_ptr(cq).addr());
                looked.is_some_and(|(_, looked)| looked.is_unpolled && looked.call(now).is_none())
            };
            waits.extend(stuck_elsewhere(&qps, is_idle));
        }
        waits
    }

    /// Records the waits, and prints waits that are due. A wait is recorded at its second look, because many
    /// waits end at once.
    fn explain(&self, known: &mut HashMap<String, LookedWait>, waits: &[Wait], now: Instant) {
        let had_any = !known.is_empty();
        known.values_mut().for_each(|wait| wait.missed += 1);
        let is_alone = !waits.is_empty() && is_alone();
        let mut due = Vec::new();
        let mut new = Vec::new();
        for wait in waits {
            let line = wait.line();
            match known.get_mut(&line).filter(|known| known.missed <= MISSES) {
                Some(known) => {
                    known.missed = 0;
                    let age = now.saturating_duration_since(known.since);
                    let is_due = explain_after().is_some_and(|time| age >= time)
                        || wait.is_hopeless && is_alone && age >= AT_ONCE;
                    if is_due && !known.is_said {
                        known.is_said = true;
                        due.push(line);
                    }
                }
                None => new.push(line),
            }
        }
        if had_any && let Some(record) = &self.record {
            let lasting = known.iter().filter(|(_, wait)| wait.missed <= MISSES);
            record.set(&lasting.map(|(line, _)| line.clone()).collect::<Vec<_>>());
        }
        due.iter().for_each(|line| say_line(line));
        known.retain(|_, wait| wait.missed <= FORGOTTEN);
        for line in new {
            let is_said = known.get(&line).is_some_and(|known| known.is_said);
            known.insert(line, LookedWait { since: now, missed: 0, is_said });
        }
    }
}

impl LookedCq {
    /// What this look finds. `before` is what the last look has found.
    fn of(cq: &Cq, before: Option<&LookedCq>, now: Instant) -> LookedCq {
        let last = before.and_then(|before| before.polls);
        let polls = cq.mark_polls().map(|polls| match last {
            Some((same, changed)) if same == polls => (polls, changed),
            Some(_) => (polls, Some(now)),
            // The polls before the mark may have found completions.
            None => (polls, None),
        });
        let is_unpolled = polls.zip(last).is_some_and(|((polls, _), (same, _))| polls == same);
        let read = cq.current_read();
        let is_same_read = read.is_some() && before.is_some_and(|before| before.read == read);
        LookedCq { polls, read, is_same_read, is_unpolled }
    }

    /// The call that waits for a completion of this CQ: a poll that is repeated without success, or
    /// ibv_get_cq_event(3).
    fn call(&self, now: Instant) -> Option<&'static str> {
        let polled = self.polls.and_then(|(_, changed)| changed);
        if self.is_same_read {
            Some("ibv_get_cq_event")
        } else if polled.is_some_and(|at| now.saturating_duration_since(at) < STILL_POLLS) {
            Some("ibv_poll_cq")
        } else {
            None
        }
    }
}

/// The waits of calls for completions.
#[derive(Debug, Default)]
struct WaitsOnCqs {
    /// Waits for requests that wait without end.
    stuck: Vec<Wait>,
    /// Waits for completions that nothing brings.
    nothing: Vec<Wait>,
    /// Whether a CQ may get a completion without a call of the program.
    may_complete: bool,
}

impl WaitsOnCqs {
    /// Adds the waits of `call` on a CQ.
    fn add(&mut self, cq: &Arc<Cq>, call: &'static str, qps: &[Arc<Qp>]) {
        self.may_complete |= cq.has_srq();
        for qp in qps {
            let [is_of_sends, is_of_recvs] = qp.cqs().map(|of_qp| Arc::ptr_eq(of_qp, cq));
            if is_of_sends {
                self.add_sends(call, qp);
            }
            if is_of_recvs {
                self.add_recvs(call, qp);
            }
        }
    }

    fn add_sends(&mut self, call: &'static str, qp: &Qp) {
        match qp.send_outlook() {
            SendOutlook::Nothing => {}
            SendOutlook::MayComplete => self.may_complete = true,
            SendOutlook::Unsignalled { count, is_any } => {
                let requests = match count {
                    1 => "the last send work request".into(),
                    _ => format!("each of the last {count} send work requests"),
                };
                let event = format!(
                    "a completion that never comes: {requests} of QP {:#x} is unsignalled (no \
                     IBV_SEND_SIGNALED), and nothing else is outstanding",
                    qp.num()
                );
                self.nothing.push(Wait { call: Some(call), event, is_hopeless: !is_any });
            }
            SendOutlook::Stuck(StuckRequest { what, is_hopeless }) => {
                self.stuck.push(Wait { call: Some(call), event: what, is_hopeless });
            }
        }
    }

    fn add_recvs(&mut self, call: &'static str, qp: &Qp) {
        match qp.recv_outlook() {
            RecvOutlook::Nothing => {}
            RecvOutlook::MayCome => self.may_complete = true,
            // With rdma_cm, the program gets a DISCONNECTED event.
            RecvOutlook::PeerGone(event) => {
                self.nothing.push(Wait { call: Some(call), event, is_hopeless: !calls::uses_cm() });
            }
        }
    }

    /// The waits to explain. If another completion may come, the program may rightly wait for that one.
    fn explained(self) -> Vec<Wait> {
        let WaitsOnCqs { mut stuck, nothing, may_complete } = self;
        if may_complete {
            stuck.iter_mut().for_each(|wait| wait.is_hopeless = false);
        } else {
            stuck.extend(nothing);
        }
        stuck
    }
}

/// The requests that wait without end, and complete in a CQ on which no call waits. `is_idle` says whether no
/// call waits on a CQ.
fn stuck_elsewhere(qps: &[Arc<Qp>], is_idle: impl Fn(&Arc<Cq>) -> bool) -> Vec<Wait> {
    let others = qps.iter().filter(|qp| is_idle(qp.cqs()[0]));
    let stuck = others.filter_map(|qp| match qp.send_outlook() {
        SendOutlook::Stuck(request) => Some(Wait { call: None, event: request.what, is_hopeless: false }),
        _ => None,
    });
    stuck.collect()
}

/// Whether the program has only one thread, apart from threads of this library.
fn is_alone() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| !name.starts_with("doorbell")).count() <= 1
}

/// The time after which a wait is explained even if it may end (`--explain-after`).
fn explain_after() -> Option<Duration> {
    static TIME: OnceLock<Option<Duration>> = OnceLock::new();
    *TIME.get_or_init(|| {
        let nanoseconds = std::env::var(variables::EXPLAIN_AFTER).ok()?.parse().ok()?;
        Some(Duration::from_nanos(nanoseconds))
    })
}
