//! Determines why a send work request has failed, and reports the cause.

use super::{Qp, Sends};
use crate::engine::diagnosis::{self, Unanswered};
use crate::engine::request::Request;
use crate::memory::cause::{Cause, Check};
use crate::memory::records::CauseRecord;
use crate::queues::errors::{FailedSend, left_by};
use crate::watch::Loss;
use doorbell_launch::counts::drops::DropCause;
use doorbell_launch::qp_numbers::MULTICAST_QPN;
use doorbell_transport::{ack_timeout, sent_qkey};
use doorbell_verbs::{GRH_BYTES, QpType, Span, UdDest, WcStatus};

impl Qp {
    /// Reports a send work request that failed with this status. Does nothing for `Success` and `WrFlushErr`,
    /// and after the first report in this life of the QP.
    #[cold]
    pub(super) fn tell_failure(&self, sends: &Sends, request: &Request<'_>, status: WcStatus) {
        let is_none = matches!(status, WcStatus::Success | WcStatus::WrFlushErr);
        if is_none || !self.share.said.is_first() {
            return;
        }
        let attr = &sends.attr;
        let process = self.requester.process;
        let dest_qpn = request.dest.map_or(attr.dest_qp_num.unwrap_or(0), |dest| dest.qpn);
        let patience = match ack_timeout(attr.timeout.unwrap_or(0)) {
            Span::ZERO => String::new(),
            timeout => {
                let (times, ms) = (attr.retry_cnt.unwrap_or(0), timeout.as_ps() as f64 / 1e9);
                format!(" within {ms:.3} ms, nor to any of {times} retries")
            }
        };
        FailedSend {
            num: self.num(),
            qp_type: self.qp_type(),
            request,
            sq_psn: attr.sq_psn.unwrap_or(0),
            status,
            dest_qpn,
            pid: process.last_seen(dest_qpn),
            patience,
            cause: self.cause(sends, request, status, dest_qpn),
        }
        .say();
    }

    fn cause(&self, sends: &Sends, request: &Request<'_>, status: WcStatus, dest_qpn: u32) -> Cause {
        let attr = &sends.attr;
        let process = self.requester.process;
        if let Some(fault) = self.fault(sends, request.number, status) {
            return fault;
        }
        match status {
            WcStatus::LocProtErr => diagnosis::local(process, self.requester.pd, request),
            WcStatus::LocQpOpErr => Cause::of(Check::NoInitiator, 0),
            WcStatus::RnrRetryExcErr => Cause::of(Check::NoRecv, attr.rnr_retry.unwrap_or(0).into()),
            WcStatus::RetryExcErr => match attr.ah_attr.filter(|_| !sends.leads_here) {
                Some(path) => diagnosis::nowhere(path.dlid, path.grh),
                None => diagnosis::silent(process, &self.unanswered(sends, None, dest_qpn)),
            },
            _ => {
                let left = |record: &CauseRecord| left_by(record, process, self.num(), request.number);
                let found = process
                    .look_at(dest_qpn, |segment| segment.cause(segment.index_of(dest_qpn)).and_then(left));
                found.unwrap_or(Cause::of(Check::Changed, 0))
            }
        }
    }

    /// Why no receiver took a UC or UD message. `known` is the cause as far as the attempt has found it.
    #[cold]
    pub(super) fn loss(&self, sends: &Sends, request: &Request<'_>, known: DropCause) -> Loss {
        let dest_qpn = request.dest.map_or(sends.attr.dest_qp_num.unwrap_or(0), |dest| dest.qpn);
        let process = self.requester.process;
        let found = match known {
            // The members of a multicast group were diagnosed one by one.
            DropCause::Unknown | DropCause::OutOfReach if !self.is_to_group(request) => {
                let found = self.nowhere(sends, request).unwrap_or_else(|| {
                    diagnosis::silent(process, &self.unanswered(sends, request.dest.as_ref(), dest_qpn))
                });
                Some(found).filter(|found| found.check != Check::Changed)
            }
            // An exited process posts no RECVs.
            DropCause::NoRecv if !self.is_to_group(request) => diagnosis::ended(process, dest_qpn),
            DropCause::RecvTooSmall => {
                let header = if self.qp_type() == QpType::Ud { GRH_BYTES } else { 0 };
                diagnosis::too_long(process, dest_qpn, u64::from(header) + u64::from(request.len))
            }
            _ => None,
        };
        let cause = match known {
            DropCause::Unknown | DropCause::OutOfReach | DropCause::NoRecv => {
                found.map_or(known, |found| found.drop_cause())
            }
            known => known,
        };
        let (number, name, from) = (request.number, request.op.name(), self.num());
        Loss { cause, found, number, name, from, to: dest_qpn }
    }

    /// Whether a datagram goes to a multicast group.
    fn is_to_group(&self, request: &Request<'_>) -> bool {
        let dest = request.dest.filter(|dest| dest.qpn == MULTICAST_QPN);
        let path = dest.and_then(|dest| self.requester.process.paths.get(dest.ah));
        path.is_some_and(|path| path.groups().is_some())
    }

    /// The cause if the path of a message leads to no port.
    fn nowhere(&self, sends: &Sends, request: &Request<'_>) -> Option<Cause> {
        let (dlid, route) = match request.dest {
            Some(dest) => {
                let path = self.requester.process.paths.get(dest.ah)?;
                (!path.is_reachable).then(|| path.destination())?
            }
            None => sends.attr.ah_attr.filter(|_| !sends.leads_here).map(|path| (path.dlid, path.grh))?,
        };
        Some(diagnosis::nowhere(dlid, route))
    }

    pub(super) fn unanswered(&self, sends: &Sends, dest: Option<&UdDest>, dest_qpn: u32) -> Unanswered {
        Unanswered {
            from: self.num(),
            qp_type: self.qp_type(),
            dest_qpn,
            responder_type: self.requester.responder_type,
            psn: sends.attr.sq_psn.unwrap_or(0),
            qkey: dest.map_or(0, |dest| sent_qkey(dest, sends.attr.qkey.unwrap_or(0))),
        }
    }
}
