//! A QP's role in XRC, if it has one (IB specification vol. 1, annex A14). An initiator only sends. A target
//! only receives, into SRQs of its domain that the requests name. In all other respects both behave as RC.

use crate::errno::{EINVAL, Errno};
use crate::fabric::domains::DomainId;
use doorbell_abi::{CEnum, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND};
use doorbell_verbs::{QpAttr, QpState, QpType};

/// A QP's role in XRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpRole {
    /// No XRC role.
    Plain,
    Initiator,
    /// A target in this domain.
    Target(DomainId),
}

impl QpRole {
    /// The QP type to store in the record.
    pub(super) fn record_type(self, qp_type: QpType) -> u32 {
        match self {
            QpRole::Plain => qp_type.to_c(),
            QpRole::Initiator => IBV_QPT_XRC_SEND,
            QpRole::Target(_) => IBV_QPT_XRC_RECV,
        }
    }

    /// The record's type of the QPs that it sends to.
    pub(super) fn responder_type(self, qp_type: QpType) -> u32 {
        match self {
            QpRole::Plain | QpRole::Target(_) => qp_type.to_c(),
            QpRole::Initiator => IBV_QPT_XRC_RECV,
        }
    }

    pub(super) fn domain(self) -> u64 {
        match self {
            QpRole::Target(domain) => domain.in_record(),
            QpRole::Plain | QpRole::Initiator => 0,
        }
    }

    /// Completes the attributes for ibv_modify_qp(3) with those that RC requires and this role lacks. An
    /// initiator has no responder attributes, a target no requester attributes. `before` is the state of the
    /// QP.
    pub(super) fn completed(self, attr: &QpAttr, before: QpState) -> Result<QpAttr, Errno> {
        let mut all = *attr;
        let (none_of, is_next) = match self {
            QpRole::Plain => return Ok(all),
            QpRole::Initiator => {
                let own = [&mut all.max_dest_rd_atomic, &mut all.min_rnr_timer];
                (Vec::from(own), (QpState::Init, QpState::Rtr))
            }
            QpRole::Target(_) => {
                let own = [&mut all.retry_cnt, &mut all.rnr_retry, &mut all.max_rd_atomic];
                (Vec::from(own), (QpState::Rtr, QpState::Rts))
            }
        };
        let needs = (Some(before), attr.qp_state) == (Some(is_next.0), Some(is_next.1));
        for field in none_of {
            if field.is_some() {
                return Err(EINVAL);
            }
            *field = needs.then_some(0);
        }
        Ok(all)
    }
}
