//! A QP's role in XRC, if it has one (IB specification vol. 1, annex A14). An initiator only sends. A target
//! only receives. Each request names an SRQ of the target's domain, which provides the RECV. In all other
//! respects, both roles behave like RC QPs.

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

    /// The type that is in the records of the QPs that this QP sends to.
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

    /// Adds the attributes that ibv_modify_qp(3) requires for RC but this role lacks, with value 0. An
    /// initiator has no responder attributes, and a target has no requester attributes. Returns `EINVAL` if
    /// the program sets one of them. `before` is the QP's state before the call.
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
