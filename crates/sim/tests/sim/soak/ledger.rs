//! The posted work requests of a thread, and their completions.

use doorbell_verbs::{Wc, WcOpcode, WcStatus};
use std::collections::{BTreeMap, HashSet, VecDeque};

/// The queue that owns a work request. Stored in the highest bits of `wr_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Send = 1,
    Recv = 2,
    Srq = 3,
}

const OWNER: u32 = 62;

/// A posted send work request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) wr_id: u64,
    pub(crate) signaled: bool,
    pub(crate) opcode: WcOpcode,
}

/// Work requests in a QP's own queues that have not completed.
#[derive(Default)]
pub(crate) struct Posted {
    pub(crate) sends: VecDeque<Sent>,
    /// RECVs as `wr_id` and capacity in bytes.
    pub(crate) recvs: VecDeque<(u64, u64)>,
}

/// Counts of a thread's actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Posted work requests.
    pub(crate) sends: u64,
    pub(crate) recvs: u64,
    /// Polled completions by status.
    pub(crate) sends_completed: Statuses,
    pub(crate) recvs_completed: Statuses,
    /// Picoseconds until the thread ended.
    pub(crate) lasted: u64,
}

/// Completions by status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statuses(BTreeMap<String, u64>);

impl Statuses {
    fn add(&mut self, status: &str, count: u64) {
        *self.0.entry(status.to_owned()).or_default() += count;
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    pub(crate) fn count(&self, status: WcStatus) -> u64 {
        self.0.get(&format!("{status:?}")).copied().unwrap_or_default()
    }
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.sends += other.sends;
        self.recvs += other.recvs;
        self.lasted += other.lasted;
        other.sends_completed.0.iter().for_each(|(status, &n)| self.sends_completed.add(status, n));
        other.recvs_completed.0.iter().for_each(|(status, &n)| self.recvs_completed.add(status, n));
    }
}

/// A thread's account of its work requests.
#[derive(Default)]
pub(crate) struct Ledger {
    next: u64,
    /// Work requests of queues that were reset or destroyed. Each may still complete once.
    gone: HashSet<u64>,
    /// Work requests in SRQs. They may complete in any order, or be lost with a QP that has taken them.
    shared: HashSet<u64>,
    pub(crate) tally: Tally,
    /// The first broken promise.
    pub(crate) broken: Option<String>,
}

impl Ledger {
    pub(crate) fn wr_id(&mut self, owner: Owner) -> u64 {
        self.next += 1;
        (owner as u64) << OWNER | self.next
    }

    pub(crate) fn breaks(&mut self, what: impl FnOnce() -> String) {
        self.broken.get_or_insert_with(what);
    }

    pub(crate) fn shared(&mut self, wr_id: u64) {
        self.tally.recvs += 1;
        self.shared.insert(wr_id);
    }

    /// Moves the work requests of a reset or destroyed queue to `gone`.
    pub(crate) fn forget(&mut self, posted: &mut Posted) {
        self.gone.extend(posted.sends.drain(..).map(|s| s.wr_id));
        self.gone.extend(posted.recvs.drain(..).map(|(wr_id, _)| wr_id));
    }

    /// Checks a polled completion. `posted` are the queues of its QP, if the QP still exists.
    pub(crate) fn completed(&mut self, wc: &Wc, posted: Option<&mut Posted>) {
        let is_send = wc.wr_id >> OWNER == Owner::Send as u64;
        let Tally { sends_completed, recvs_completed, .. } = &mut self.tally;
        let completed = if is_send { sends_completed } else { recvs_completed };
        completed.add(&format!("{:?}", wc.status), 1);
        if self.gone.remove(&wc.wr_id) || self.shared.remove(&wc.wr_id) {
            return;
        }
        let taken = posted.map_or(Err("nothing".into()), |posted| posted.take(wc));
        if let Err(next) = taken {
            self.breaks(|| format!("{wc:?} completed, where the next must be {next}"));
        }
    }

    /// Checks that nothing is left in queues that were flushed and polled empty.
    pub(crate) fn closes(&mut self, what: &str, posted: &Posted) {
        if let Some(text) = posted.open() {
            self.breaks(|| format!("{what}: {text}"));
        }
    }
}

impl Posted {
    /// Removes the work request of a completion, and unsignaled ones before it. It must be the next one to
    /// complete. The error names the expected one.
    fn take(&mut self, wc: &Wc) -> Result<(), String> {
        if wc.wr_id >> OWNER == Owner::Send as u64 { self.take_send(wc) } else { self.take_recv(wc) }
    }

    fn take_recv(&mut self, wc: &Wc) -> Result<(), String> {
        let (wr_id, room) = self.recvs.pop_front().ok_or("nothing")?;
        let is_recv = match wc.opcode {
            WcOpcode::Recv => u64::from(wc.byte_len) <= room,
            opcode => opcode == WcOpcode::RecvWriteWithImm,
        };
        let fits = wr_id == wc.wr_id && (wc.status != WcStatus::Success || is_recv);
        if fits { Ok(()) } else { Err(format!("RECV {wr_id} of {room} bytes")) }
    }

    fn take_send(&mut self, wc: &Wc) -> Result<(), String> {
        while let Some(next) = self.sends.pop_front() {
            let fits = wc.status != WcStatus::Success || next.signaled && next.opcode == wc.opcode;
            if next.wr_id == wc.wr_id && fits {
                return Ok(());
            }
            if next.signaled || next.wr_id == wc.wr_id {
                return Err(format!("{next:?}"));
            }
        }
        Err("nothing".into())
    }

    /// Describes work requests that should have completed after a flush, if any are left.
    pub(crate) fn open(&self) -> Option<String> {
        let sends = self.sends.iter().filter(|s| s.signaled).count();
        let recvs = self.recvs.len();
        (sends + recvs > 0).then(|| format!("{sends} signalled sends and {recvs} RECVs never completed"))
    }
}
