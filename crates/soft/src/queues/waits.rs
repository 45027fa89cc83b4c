//! Explains why the program waits: which call waits, and for which event.
//!
//! Terms:
//! - A *wait* is a call of the program that waits, or a work request that waits.
//! - A *look* is one check of this process's waiting calls, CQs and QPs by the helper thread.
//! - A wait is *hopeless* if nothing can end it.
//!
//! The helper thread makes a look again and again. It records each wait on the launcher's board, and the
//! launcher prints the record at SIGINT or SIGTERM. The helper thread itself prints two kinds of waits:
//! - a wait that has lasted for the time of `--explain-after`;
//! - a hopeless wait, if the program has only one thread. Other threads could end the wait by their calls.
//!
//! A program often waits rightly. So a poll or an ibv_get_cq_event(3) that no completion ends is explained
//! only under three conditions:
//! - The program has one thread.
//! - This thread does nothing but wait.
//! - No QP of the CQ may still complete a work request without a call of the program.

use super::calls::{self, Call};
use super::cq::Cq;
use super::errors::FewLines;
use super::qp::Qp;
use super::qp::outlook::{Awaited, RecvOutlook, SendOutlook, WaitKey};
use crate::fabric::process::Process;
use crate::fabric::progress::Sleeping;
use crate::sync::{Anew, lock};
use crate::thread::threads_of_program;
use doorbell_launch::clock::processor_time;
use doorbell_launch::counts::board::Board;
use doorbell_launch::say::is_quiet;
use doorbell_launch::variables;
use doorbell_launch::waits::OwnWaits;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Once, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Shortest period between two looks.
const PERIOD: Duration = Duration::from_millis(200);
/// Longest period between two looks.
const LONGEST_PERIOD: Duration = Duration::from_secs(2);
/// The period between two looks is this many times the duration of the last look, within the limits above. So
/// looks take about 1 / `SHARE` of a processor at most.
const SHARE: u32 = 50;
/// A program that has not polled a CQ for this time does not wait by polling it.
const STILL_POLLS: Duration = Duration::from_secs(2);
/// A program does nothing but poll a CQ under two conditions: it polls at least this many times between two
/// looks, and each poll takes at most [`POLL_TIME`].
const MANY_POLLS: u32 = 50;
/// Longest processor time of a poll, see [`MANY_POLLS`]. On a busy machine, the program runs seldom and
/// yields its processor after every 50th poll, but its polls take no longer.
const POLL_TIME: Duration = Duration::from_micros(10);
/// How long a wait that nothing can end lasts before it is explained. A program may stop polling meanwhile.
const AT_ONCE: Duration = Duration::from_millis(500);

/// A wait counts as going on as long as at most this many looks in a row may have missed it.
const MISSES: u32 = 5;
/// A wait that is found again is not printed again, if at most this many looks in a row have not found it.
const FORGOTTEN: u32 = 300;

static WATCHED: Anew<Watched> = Anew::new(Watched::NotYet);
static LINES: FewLines = FewLines::new("further waits are not explained");

/// Whether the helper thread looks at the waits of this process.
#[derive(Debug, Default)]
enum Watched {
    /// The process has not opened the device.
    #[default]
    NotYet,
    /// In a quiet run, the launcher prints nothing either.
    Quiet,
    By(Arc<Watcher>),
}

/// Records that this process has opened the device, and begins to look at its waits. Only the first call has
/// an effect.
pub(crate) fn start(process: &'static Process) {
    let mut watched = WATCHED.lock();
    if !matches!(*watched, Watched::NotYet) {
        return;
    }
    let board = Board::of_waits();
    if let Some(board) = board {
        board.set_opened();
    }
    if is_quiet() {
        *watched = Watched::Quiet;
        return;
    }
    let record = board.and_then(OwnWaits::new);
    let made = Arc::new(Watcher { process, record, looked: Mutex::new(Looked::now()) });
    // A thread would keep the program from calls that only a process with one thread may make, such as
    // unshare(2) of a user namespace. So the thread starts only when the program seems to wait.
    process.progress.look_at_later(Arc::downgrade(&made) as Weak<dyn Sleeping>);
    calls::start_thread_of(process);
    *watched = Watched::By(made);
    drop(watched);
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a function of this library, which is never unloaded.
        unsafe { libc::atexit(at_exit) };
    });
}

/// Records that this process exits by itself.
extern "C" fn at_exit() {
    if let Watched::By(watcher) = &*WATCHED.lock()
        && let Some(record) = &watcher.record
    {
        record.end();
    }
}

/// Looks at the waits of this process.
#[derive(Debug)]
struct Watcher {
    process: &'static Process,
    /// This process's record on the launcher's board, if there is one.
    record: Option<OwnWaits>,
    looked: Mutex<Looked>,
}

/// The result of the last look.
#[derive(Debug)]
struct Looked {
    /// The time of the next look.
    next: Instant,
    /// The processor time of this process at the last look.
    processor_time: Duration,
    /// The CQs by their addresses.
    cqs: HashMap<usize, LookedCq>,
    waits: KnownWaits,
}

impl Looked {
    fn now() -> Looked {
        let (cqs, waits) = (HashMap::new(), KnownWaits::default());
        Looked { next: Instant::now(), processor_time: processor_time(), cqs, waits }
    }
}

/// The result of a look at a CQ.
#[derive(Clone, Copy, Debug)]
struct LookedCq {
    /// The number of [`Cq::mark_polls`], which changes with each poll that finds nothing. Also the time when
    /// this number last changed.
    polls: Option<(u32, Option<Instant>)>,
    /// Whether the program has done nothing but poll since the look before.
    only_polls: bool,
    /// The read of the completion channel in which a thread waited.
    read: Option<(u64, u64)>,
    /// Whether the thread waited in this read at the previous look, too.
    is_same_read: bool,
    /// Whether the program has not polled the CQ since the look before.
    is_unpolled: bool,
}

/// A call that waits for a completion.
#[derive(Clone, Copy, Debug)]
struct CqCall {
    name: &'static str,
    /// Whether the calling thread does nothing but this call.
    is_all: bool,
}

/// A wait of this process.
#[derive(Debug)]
struct Wait {
    /// The call that waits; `None` if only a work request waits.
    call: Option<&'static str>,
    awaited: Awaited,
    /// Whether nothing can end the wait.
    is_hopeless: bool,
}

impl Wait {
    fn line(&self) -> String {
        let (pid, Awaited { event, clause, why, .. }) = (std::process::id(), &self.awaited);
        let mut line = match (self.call, clause) {
            (Some(call), None) => format!("{call} of process {pid} waits for {event}"),
            (Some(call), Some(clause)) => {
                format!("{call} of process {pid} waits for {event}, which {clause}")
            }
            (None, clause) => format!("{event} of process {pid} {}", clause.as_deref().unwrap_or("waits")),
        };
        if let Some(why) = why {
            line += &format!("; {why}");
        }
        line
    }
}

/// The waits that looks have found.
#[derive(Debug, Default)]
struct KnownWaits(HashMap<WaitKey, KnownWait>);

#[derive(Debug)]
struct KnownWait {
    wait: Wait,
    line: String,
    since: Instant,
    /// The number of looks since the wait was found.
    missed: u32,
    /// Whether at least two looks have found the wait, and it goes on.
    lasts: bool,
    is_said: bool,
}

impl KnownWaits {
    /// Takes the waits that a look has found. Returns the lines that are due. The look may have missed waits
    /// if `is_unsure` is set.
    fn take(&mut self, found: Vec<Wait>, is_unsure: bool, now: Instant) -> Vec<String> {
        self.0.values_mut().for_each(|known| known.missed += 1);
        let mut due = Vec::new();
        for wait in found {
            match self.0.get_mut(&wait.awaited.key) {
                Some(known) => due.extend(known.found(wait, now)),
                None => {
                    let (key, line) = (wait.awaited.key, wait.line());
                    let known = KnownWait { wait, line, since: now, missed: 0, lasts: false, is_said: false };
                    self.0.insert(key, known);
                }
            }
        }
        for known in self.0.values_mut().filter(|known| known.missed > 0) {
            known.lasts &= is_unsure && known.missed <= MISSES;
        }
        self.0.retain(|_, known| known.missed <= FORGOTTEN);
        due
    }

    /// The lines of the waits that go on, oldest first. A wait goes on if at least two looks have found it.
    /// Many waits end before the second look.
    fn lines(&self) -> Vec<String> {
        let mut lasting: Vec<_> = self.0.values().filter(|known| known.lasts).collect();
        lasting.sort_by_key(|known| (known.since, &known.line));
        lasting.into_iter().map(|known| known.line.clone()).collect()
    }
}

impl KnownWait {
    /// Takes this wait as a look has found it now. Returns its line if that is due.
    fn found(&mut self, wait: Wait, now: Instant) -> Option<String> {
        self.lasts |= self.missed == 1;
        self.missed = 0;
        if !self.lasts {
            self.since = now;
        }
        if (self.wait.call, &self.wait.awaited) != (wait.call, &wait.awaited) {
            self.line = wait.line();
        }
        self.wait = wait;
        let age = now.saturating_duration_since(self.since);
        let is_due =
            explain_after().is_some_and(|time| age >= time) || self.wait.is_hopeless && age >= AT_ONCE;
        if !self.lasts || !is_due || self.is_said {
            return None;
        }
        self.is_said = true;
        Some(self.line.clone())
    }
}

impl Sleeping for Watcher {
    fn look(&self) {
        let mut looked = lock(&self.looked);
        let begin = Instant::now();
        if begin < looked.next {
            return;
        }
        let (waits, is_unsure) = self.waits(&mut looked, begin);
        let had_any = !looked.waits.0.is_empty();
        let due = looked.waits.take(waits, is_unsure, begin);
        if had_any && let Some(record) = &self.record {
            record.set(&looked.waits.lines());
        }
        due.iter().for_each(|line| LINES.say(line));
        looked.next = Instant::now() + (begin.elapsed() * SHARE).clamp(PERIOD, LONGEST_PERIOD);
    }
}

impl Watcher {
    /// The waits of this process, and whether the look may have missed some.
    fn waits(&self, looked: &mut Looked, now: Instant) -> (Vec<Wait>, bool) {
        let qps = Qp::all();
        let (before, time) = (std::mem::take(&mut looked.cqs), processor_time());
        let used = time.saturating_sub(std::mem::replace(&mut looked.processor_time, time));
        let mut cqs: HashMap<usize, (&Arc<Cq>, LookedCq)> = HashMap::new();
        for cq in qps.iter().flat_map(|qp| qp.cqs()) {
            let key = Arc::as_ptr(cq).addr();
            cqs.entry(key).or_insert_with(|| (cq, LookedCq::of(cq, before.get(&key), used, now)));
        }
        looked.cqs = cqs.iter().map(|(key, (_, looked))| (*key, *looked)).collect();
        let mut on_cqs = WaitsOnCqs::default();
        for (cq, looked) in cqs.values() {
            if let Some(call) = looked.call(now) {
                on_cqs.add(cq, call, &qps);
            }
        }
        if self.process.progress.has_waiting() {
            let is_idle = |cq: &Arc<Cq>| {
                let looked = cqs.get(&Arc::as_ptr(cq).addr());
                looked.is_some_and(|(_, looked)| looked.is_unpolled && looked.call(now).is_none())
            };
            qps.iter().filter(|qp| is_idle(qp.cqs()[0])).for_each(|qp| on_cqs.add_idle(qp));
        }
        let is_unsure = on_cqs.is_unsure;
        let of_call = |Call { number, name, event, .. }| {
            let awaited = Awaited { key: WaitKey::Call { number }, event, clause: None, why: None };
            Wait { call: Some(name), awaited, is_hopeless: true }
        };
        let mut waits: Vec<Wait> = calls::waiting().into_iter().map(of_call).collect();
        let is_alone = (!waits.is_empty() || on_cqs.has_any()) && threads_of_program() == Some(1);
        waits
            .extend(on_cqs.explained(is_alone, || qps.iter().any(|qp| qp.may_be_written()) || has_sockets()));
        waits.iter_mut().for_each(|wait| wait.is_hopeless &= is_alone);
        (waits, is_unsure)
    }
}

impl LookedCq {
    /// The result of this look. `before` is the result of the previous look. Between the two looks, this
    /// process has used the processor time `used`.
    fn of(cq: &Cq, before: Option<&LookedCq>, used: Duration, now: Instant) -> LookedCq {
        let last = before.and_then(|before| before.polls);
        let polls = cq.mark_polls().map(|polls| match last {
            Some((same, changed)) if same == polls => (polls, changed),
            Some(_) => (polls, Some(now)),
            // The polls before the mark may have found completions.
            None => (polls, None),
        });
        let made = polls.zip(last).map(|((polls, _), (before, _))| Cq::polls_between(before, polls));
        let only_polls = made.is_some_and(|made| made >= MANY_POLLS && used <= POLL_TIME * made);
        let read = cq.current_read();
        let is_same_read = read.is_some() && before.is_some_and(|before| before.read == read);
        LookedCq { polls, only_polls, read, is_same_read, is_unpolled: made == Some(0) }
    }

    /// The call that waits for a completion of this CQ: a poll that is repeated without success, or
    /// ibv_get_cq_event(3).
    fn call(&self, now: Instant) -> Option<CqCall> {
        let polled = self.polls.and_then(|(_, changed)| changed);
        if self.is_same_read {
            Some(CqCall { name: "ibv_get_cq_event", is_all: true })
        } else if polled.is_some_and(|at| now.saturating_duration_since(at) < STILL_POLLS) {
            Some(CqCall { name: "ibv_poll_cq", is_all: self.only_polls })
        } else {
            None
        }
    }
}

/// The waits for completions.
#[derive(Debug, Default)]
struct WaitsOnCqs {
    /// Waits for requests that wait without end.
    stuck: Vec<Wait>,
    /// Waits for completions that cannot come.
    nothing: Vec<Wait>,
    /// Whether a CQ may get a completion without a call of the program.
    may_complete: bool,
    /// Whether waits may be missing here: another thread used a QP, or the program may do something else than
    /// wait.
    is_unsure: bool,
}

impl WaitsOnCqs {
    /// Adds the waits of `call` on a CQ.
    fn add(&mut self, cq: &Arc<Cq>, call: CqCall, qps: &[Arc<Qp>]) {
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

    fn add_sends(&mut self, call: CqCall, qp: &Qp) {
        match qp.send_outlook() {
            SendOutlook::Nothing => {}
            SendOutlook::MayComplete => self.may_complete = true,
            SendOutlook::Unknown => self.is_unsure = true,
            SendOutlook::Unsignalled { count, is_any } => {
                let requests = match count {
                    1 => "the last send work request".into(),
                    _ => format!("each of the last {count} send work requests"),
                };
                let qpn = qp.num();
                let event = format!(
                    "a completion that never comes: {requests} of QP {qpn:#x} is unsignalled (no \
                     IBV_SEND_SIGNALED), and nothing else is outstanding"
                );
                let key = WaitKey::Unsignalled { qpn };
                self.add_nothing(call, Awaited { key, event, clause: None, why: None }, !is_any);
            }
            SendOutlook::Stuck { request, is_hopeless } => {
                let is_hopeless = is_hopeless && call.is_all;
                self.stuck.push(Wait { call: Some(call.name), awaited: request, is_hopeless });
            }
        }
    }

    fn add_recvs(&mut self, call: CqCall, qp: &Qp) {
        match qp.recv_outlook() {
            RecvOutlook::Nothing => {}
            RecvOutlook::MayCome => self.may_complete = true,
            RecvOutlook::Unknown => self.is_unsure = true,
            // With rdma_cm, the program gets a DISCONNECTED event.
            RecvOutlook::NoPeer(message) => self.add_nothing(call, message, !calls::uses_cm()),
        }
    }

    fn add_nothing(&mut self, call: CqCall, awaited: Awaited, is_hopeless: bool) {
        match call.is_all {
            true => self.nothing.push(Wait { call: Some(call.name), awaited, is_hopeless }),
            false => self.is_unsure = true,
        }
    }

    /// Adds the oldest request of a QP, if this request waits without end. No call waits on the request's CQ.
    fn add_idle(&mut self, qp: &Qp) {
        match qp.send_outlook() {
            SendOutlook::Stuck { request, .. } => {
                self.stuck.push(Wait { call: None, awaited: request, is_hopeless: false });
            }
            SendOutlook::Unknown => self.is_unsure = true,
            _ => {}
        }
    }

    fn has_any(&self) -> bool {
        !self.stuck.is_empty() || !self.nothing.is_empty()
    }

    /// The waits to explain. If another completion may come, the program may rightly wait for that
    /// completion. `is_alone` tells whether the program has one thread: another thread could call the device.
    /// `may_hear` tells whether something else may reach the program.
    fn explained(self, is_alone: bool, may_hear: impl Fn() -> bool) -> Vec<Wait> {
        let WaitsOnCqs { mut stuck, nothing, mut may_complete, is_unsure } = self;
        let is_alone = is_alone || doorbell_launch::say::broken("w-rightly");
        may_complete &= !doorbell_launch::say::broken("w-rightly");
        if is_alone && !may_complete && !is_unsure {
            stuck.extend(nothing);
        }
        if may_complete || is_unsure || stuck.iter().any(|wait| wait.is_hopeless) && may_hear() {
            stuck.iter_mut().for_each(|wait| wait.is_hopeless = false);
        }
        stuck
    }
}

/// Whether this process has a socket besides standard input, output and error. The program may wait for this
/// socket, too. Then the end of its peers is no mistake. Sockets of this library count, too.
fn has_sockets() -> bool {
    if doorbell_launch::say::broken("w-sockets") { return false; }
    let is_socket = |entry: std::fs::DirEntry| {
        let is_other = entry.file_name().to_str()?.parse::<u32>().ok()? > 2;
        let file = std::fs::read_link(entry.path()).ok()?;
        (is_other && file.to_str()?.starts_with("socket:")).then_some(())
    };
    std::fs::read_dir("/proc/thread-self/fd").into_iter().flatten().flatten().find_map(is_socket).is_some()
}

/// The time after which a wait is explained even if it may end (`--explain-after`).
fn explain_after() -> Option<Duration> {
    static TIME: OnceLock<Option<Duration>> = OnceLock::new();
    *TIME.get_or_init(|| {
        let nanoseconds = std::env::var(variables::EXPLAIN_AFTER).ok()?.parse().ok()?;
        Some(Duration::from_nanos(nanoseconds))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_of(number: u64, event: &str, is_hopeless: bool) -> Wait {
        let key = WaitKey::Call { number };
        let awaited = Awaited { key, event: event.into(), clause: Some("waits".into()), why: None };
        Wait { call: None, awaited, is_hopeless }
    }

    fn wait(event: &str, is_hopeless: bool) -> Wait {
        wait_of(1, event, is_hopeless)
    }

    /// The lines that are due at each of a row of looks, and the lines that are recorded then. Each look has
    /// found these waits, or is unsure and has found none.
    fn looks(row: &[Option<Vec<Wait>>]) -> Vec<(Vec<String>, Vec<String>)> {
        let (mut known, begin) = (KnownWaits::default(), Instant::now());
        let copied = |wait: &Wait| Wait { awaited: wait.awaited.clone(), ..*wait };
        let look = |(n, found): (u32, &Option<Vec<Wait>>)| {
            let waits = found.iter().flatten().map(copied).collect();
            (known.take(waits, found.is_none(), begin + n * PERIOD), known.lines())
        };
        (0..).zip(row).map(look).collect()
    }

    fn recorded(row: &[Option<Vec<Wait>>]) -> Vec<usize> {
        looks(row).into_iter().map(|(_, lines)| lines.len()).collect()
    }

    #[test]
    fn a_wait_is_recorded_from_its_second_look_on_until_it_is_not_found() {
        let (found, none, unsure) = (|| Some(vec![wait("a", false)]), || Some(Vec::new()), || None);
        assert_eq!(recorded(&[found(), none(), found(), none()]), [0, 0, 0, 0]);
        assert_eq!(recorded(&[found(), unsure(), found(), found()]), [0, 0, 0, 1]);
        assert_eq!(recorded(&[found(), found(), none(), found(), found()]), [0, 1, 0, 0, 1]);
        assert_eq!(recorded(&[found(), found(), unsure(), unsure(), found(), none()]), [0, 1, 1, 1, 1, 0]);
        let mut row = vec![found(), found()];
        row.extend((0..=MISSES).map(|_| unsure()));
        row.push(found());
        let counts = recorded(&row);
        assert_eq!(counts[counts.len() - 3..], [1, 0, 0]);
    }

    #[test]
    fn a_wait_that_nothing_can_end_is_said_once() {
        let found = |is_hopeless| Some(vec![wait("a", is_hopeless)]);
        let row: Vec<_> = (0..20).map(|n| if n == 10 { Some(Vec::new()) } else { found(true) }).collect();
        let said: Vec<usize> = looks(&row).into_iter().map(|(due, _)| due.len()).collect();
        assert_eq!(said.iter().sum::<usize>(), 1);
        assert_eq!(said[..4], [0, 0, 0, 1], "after {AT_ONCE:?}");
        let row: Vec<_> = (0..20).map(|_| found(false)).collect();
        assert!(looks(&row).iter().all(|(due, _)| due.is_empty()));
    }

    /// Two threads may wait in rdma_destroy_id(3) for equally many events.
    #[test]
    fn waits_with_equal_texts_stay_two() {
        let found = || Some(vec![wait_of(1, "a", true), wait_of(2, "a", true)]);
        assert_eq!(recorded(&[found(), found()]), [0, 2]);
        let due: Vec<_> =
            looks(&[found(), found(), found(), found()]).into_iter().map(|(due, _)| due).collect();
        assert_eq!(due.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 0, 2], "{due:?}");
    }

    /// The text of a wait for unsignalled requests has their number.
    #[test]
    fn a_wait_keeps_its_age_if_its_text_changes() {
        let found = |event: &str| Some(vec![wait(event, true)]);
        let due: Vec<_> = looks(&[found("a"), found("b"), found("c"), found("d")]);
        let said: Vec<usize> = due.iter().map(|(due, _)| due.len()).collect();
        assert_eq!(said, [0, 0, 0, 1], "{due:?}");
        assert!(due[3].0[0].starts_with("d of process "), "{due:?}");
    }

    #[test]
    fn a_line_says_what_waits_now() {
        let row = [
            Some(vec![wait("a", false)]),
            Some(vec![Wait { call: Some("ibv_poll_cq"), ..wait("a", false) }]),
        ];
        let (_, lines) = looks(&row).pop().expect("there are looks");
        assert_eq!(
            lines,
            [format!("ibv_poll_cq of process {} waits for a, which waits", std::process::id())]
        );
    }
}
