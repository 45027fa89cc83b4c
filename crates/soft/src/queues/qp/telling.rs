//! Determines why a send work request has failed, and reports the cause.

use super::{Qp, Sends};
use crate::engine::diagnosis::{self, Unanswered};
use crate::engine::request::Request;
use crate::memory::cause::{Cause, Check};
use crate::memory::records::CauseRecord;
use crate::queues::errors::{FailedSend, left_by};
use doorbell_transport::ack_timeout;
use doorbell_verbs::{QpType, Span, WcStatus};

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
                Some(path) => diagnosis::nowhere(&path),
                None => diagnosis::silent(process, &self.unanswered(sends, dest_qpn)),
            },
            _ => {
                let left = |record: &CauseRecord| left_by(record, process, self.num(), request.number);
                let found = process
                    .look_at(dest_qpn, |segment| segment.cause(segment.index_of(dest_qpn)).and_then(left));
                found.unwrap_or(Cause::of(Check::Changed, 0))
            }
        }
    }

    pub(super) fn unanswered(&self, sends: &Sends, dest_qpn: u32) -> Unanswered {
        Unanswered {
            from: self.num(),
            qp_type: self.qp_type(),
            dest_qpn,
            responder_type: self.requester.responder_type,
            psn: sends.attr.sq_psn.unwrap_or(0),
            qkey: match self.qp_type() {
                QpType::Ud => sends.attr.qkey.unwrap_or(0),
                QpType::Rc | QpType::Uc => 0,
            },
        }
    }
}
