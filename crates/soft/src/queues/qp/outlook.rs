//! The completions that a CQ may still get from a QP. They explain why a program waits.

use super::waiting::{SendWait, WaitingWhat};
use super::{Qp, Sends};
use crate::engine::attempt::Obstacle;
use crate::engine::diagnosis;
use crate::memory::cause::{Cause, Check};
use crate::queues::cq::Cq;
use crate::queues::errors::of_process;
use crate::queues::qp::role::QpRole;
use crate::sync::Anew;
use doorbell_abi::CEnum;
use doorbell_transport::{ack_timeout, takes_requests};
use doorbell_verbs::{AccessFlags, QpAttr, QpState, QpType, Span};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

/// The value of `rnr_retry` that allows any number of retries.
const ANY_RETRIES: u8 = 7;

/// The completions of send work requests that a CQ may still get from a QP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::queues) enum SendOutlook {
    /// None, and no request was posted since the last completion.
    Nothing,
    /// The next completion needs no call of the program, or its wait is not explained.
    MayComplete,
    /// Unknown, because another thread uses the QP at this moment.
    Unknown,
    /// None, because the last `count` requests are done and unsignalled. `is_any` says whether an earlier
    /// request of the QP was signalled.
    Unsignalled { count: u64, is_any: bool },
    /// The oldest request waits without end. `is_hopeless` says whether no other process can end its wait.
    Stuck { request: Awaited, is_hopeless: bool },
}

/// Identity of an awaited event. All looks that find an event with this key have found one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::queues) enum WaitKey {
    /// The completion of a send work request: the number of its QP, and its number in the QP.
    Request { qpn: u32, number: u64 },
    /// A completion of the last send work requests of a QP, which are unsignalled.
    Unsignalled { qpn: u32 },
    /// A message to a QP.
    Message { qpn: u32 },
    /// The event that ends a call. The number counts the calls of this process.
    Call { number: u64 },
}

/// Something that a call waits for, and that does not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::queues) struct Awaited {
    pub(in crate::queues) key: WaitKey,
    /// Text that names the work request, the message or another event. Equal texts may name two events.
    pub(in crate::queues) event: String,
    /// A clause about the event, which begins with a verb.
    pub(in crate::queues) clause: Option<String>,
    /// The failed check behind the clause. Its text is costly.
    pub(in crate::queues) why: Option<Cause>,
}

/// The completions of RECVs that a CQ may still get from a QP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::queues) enum RecvOutlook {
    /// None, because no RECV is posted.
    Nothing,
    /// A message may come.
    MayCome,
    /// Unknown, because another thread uses the QP at this moment.
    Unknown,
    /// This message cannot come, because there is no peer.
    NoPeer(Awaited),
}

/// A copy of a waiting request's state, which is used without the QP's lock.
struct Waiter {
    number: u64,
    name: &'static str,
    wr_id: u64,
    wait: Option<SendWait>,
    unanswered: diagnosis::Unanswered,
    attr: QpAttr,
    leads_here: bool,
}

/// The QPs of this process.
static QPS: Anew<Vec<Weak<Qp>>> = Anew::new(Vec::new());

impl Qp {
    /// Adds a new QP to the QPs that [`Qp::all`] returns.
    pub(super) fn add_to_all(self: &Arc<Qp>) {
        let mut qps = QPS.lock();
        // Destroyed QPs must not fill the memory. The reservation makes this rare.
        if qps.len() == qps.capacity() {
            qps.retain(|qp| qp.strong_count() > 0);
            let len = qps.len();
            qps.reserve(len + 1);
        }
        qps.push(Arc::downgrade(self));
    }

    /// All QPs of this process.
    pub(in crate::queues) fn all() -> Vec<Arc<Qp>> {
        QPS.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The CQ of send work requests, and the CQ of RECVs.
    pub(in crate::queues) fn cqs(&self) -> [&Arc<Cq>; 2] {
        [&self.send_cq, &self.recv_cq]
    }

    /// The completions of sends that the send CQ may still get.
    pub(in crate::queues) fn send_outlook(&self) -> SendOutlook {
        let Some(sends) = self.sends.try_lock() else { return SendOutlook::Unknown };
        if let Some(front) = sends.queue.front() {
            let WaitingWhat::Send(send) = &front.what else { return SendOutlook::MayComplete };
            let request = send.request(front.number);
            let waiter = Waiter {
                number: front.number,
                name: request.op.name(),
                wr_id: request.wr_id,
                wait: sends.wait.filter(|_| sends.state == QpState::Rts),
                unanswered: self.unanswered(&sends, None, sends.attr.dest_qp_num.unwrap_or(0)),
                attr: sends.attr,
                leads_here: sends.leads_here,
            };
            // The diagnosis may read files. A thread of the program must not wait until the files are read,
            // so the QP's lock is not held.
            drop(sends);
            return self.stuck(&waiter).unwrap_or(SendOutlook::MayComplete);
        }
        self.finished_sends(&sends)
    }

    /// The outlook of a QP without waiting requests.
    fn finished_sends(&self, sends: &Sends) -> SendOutlook {
        let (entered, freed) = (self.share.progress.last_entered(), self.share.freed.load(Relaxed));
        match sends.posted {
            _ if freed < entered => SendOutlook::MayComplete,
            posted if posted > entered && !doorbell_launch::say::broken("w-unsignalled") => {
                SendOutlook::Unsignalled { count: posted - entered, is_any: entered > 0 }
            }
            _ => SendOutlook::Nothing,
        }
    }

    /// The outlook if the oldest request waits without end.
    fn stuck(&self, waiter: &Waiter) -> Option<SendOutlook> {
        let process = self.requester.process;
        let Waiter { number, name, wr_id, attr, leads_here, unanswered, .. } = waiter;
        let dest = unanswered.dest_qpn;
        let peer = || format!("QP {dest:#x}{}", of_process(process.last_seen(dest).unwrap_or(0)));
        let (clause, why, is_hopeless) = match waiter.wait?.obstacle() {
            Obstacle::NoRecv(_) if attr.rnr_retry == Some(ANY_RETRIES) && !doorbell_launch::say::broken("w-rnr") => (
                format!(
                    "waits until {} has a RECV: rnr_retry is 7, so the request is sent again without end",
                    peer()
                ),
                None,
                // A RECV that is missing in this process can only come from this process.
                process.is_own(dest),
            ),
            Obstacle::Silence if ack_timeout(attr.timeout.unwrap_or(0)) == Span::ZERO => {
                let cause = match attr.ah_attr.filter(|_| !leads_here) {
                    Some(path) => diagnosis::nowhere(path.dlid, path.grh),
                    None => diagnosis::silent(process, unanswered),
                };
                (
                    format!(
                        "waits for an answer of {}: timeout is 0, so the request waits without end",
                        peer()
                    ),
                    // If all checks succeed, the peer may be stopped, and may answer later.
                    Some(cause).filter(|cause| cause.check != Check::Changed),
                    matches!(cause.check, Check::Ended | Check::Destroyed | Check::NoProcess),
                )
            }
            _ => return None,
        };
        let qpn = unanswered.from;
        let event = format!("work request {number} ({name}, wr_id {wr_id:#x}) of QP {qpn:#x}");
        let key = WaitKey::Request { qpn, number: *number };
        Some(SendOutlook::Stuck { request: Awaited { key, event, clause: Some(clause), why }, is_hopeless })
    }

    /// Whether a process other than this one lives that may write to this process's memory by this QP.
    pub(in crate::queues) fn may_be_written(&self) -> bool {
        let rights = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
        let access = AccessFlags::from_bits_truncate(self.record.access.load(Relaxed));
        let (process, dest) = (self.requester.process, self.record.dest_qpn.load(Relaxed));
        !doorbell_launch::say::broken("w-written") && access.intersects(rights) && self.is_connected() && !process.is_own(dest) && process.has_peer(dest)
    }

    /// Whether the QP is connected to a peer, and takes its requests.
    fn is_connected(&self) -> bool {
        let state = QpState::from_c(self.record.shown().state());
        self.qp_type() != QpType::Ud && state.is_some_and(takes_requests)
    }

    /// The completions of RECVs that the CQ of RECVs may still get.
    pub(in crate::queues) fn recv_outlook(&self) -> RecvOutlook {
        if self.role != QpRole::Plain {
            return RecvOutlook::MayCome;
        }
        let recvs = match self.uses_srq {
            true => self.share.rq.posted(),
            false => self.share.rq.outstanding(),
        };
        if recvs == 0 {
            return RecvOutlook::Nothing;
        }
        if !self.is_connected() {
            return RecvOutlook::MayCome;
        }
        let path = match self.sends.try_lock() {
            Some(sends) => sends.attr.ah_attr.filter(|_| !sends.leads_here),
            None => return RecvOutlook::Unknown,
        };
        let process = self.requester.process;
        let dest = self.record.dest_qpn.load(Relaxed);
        let why = path.map(|path| diagnosis::nowhere(path.dlid, path.grh));
        let clause = match why {
            Some(_) => "cannot come from the QP's path".to_owned(),
            None if doorbell_launch::say::broken("w-peer") || process.is_own(dest) || process.has_peer(dest) => return RecvOutlook::MayCome,
            None => match process.last_seen(dest) {
                Some(pid) => format!(
                    "cannot come: the process of the peer, QP {dest:#x}{}, has exited",
                    of_process(pid)
                ),
                None => format!("cannot come: no process has the QP number of the peer, {dest:#x}"),
            },
        };
        let qpn = self.num();
        let (key, event) = (WaitKey::Message { qpn }, format!("a message to QP {qpn:#x}"));
        RecvOutlook::NoPeer(Awaited { key, event, clause: Some(clause), why })
    }
}
