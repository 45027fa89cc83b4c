//! A QP's role in XRC, if it has one (IB specification vol. 1, annex A14). An initiator only sends. A target
//! only receives. Each request names an SRQ of the target's domain, which provides the RECV. In all other
//! respects, both roles behave like RC QPs.

use crate::fabric::domains::DomainId;
use crate::queues::recv_queue::RecvQueue;
use doorbell_abi::{CEnum, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND};
use doorbell_verbs::{QpAttr, QpState, QpType};
use std::sync::Arc;

/// The kind of a new QP.
#[derive(Debug)]
pub(crate) enum QpKind {
    /// No XRC role. The QP may take its RECVs from an SRQ.
    Plain {
        qp_type: QpType,
        srq: Option<Arc<RecvQueue>>,
    },
    Initiator,
    /// A target in this domain.
    Target(DomainId),
}

impl QpKind {
    /// The type whose rules the QP follows.
    pub(crate) fn qp_type(&self) -> QpType {
        match self {
            QpKind::Plain { qp_type, .. } => *qp_type,
            QpKind::Initiator | QpKind::Target(_) => QpType::Rc,
        }
    }

    /// Whether the program cannot post RECVs to the QP itself.
    pub(crate) fn uses_srq(&self) -> bool {
        !matches!(self, QpKind::Plain { srq: None, .. })
    }

    pub(super) fn role(&self) -> QpRole {
        match self {
            QpKind::Plain { .. } => QpRole::Plain,
            QpKind::Initiator => QpRole::Initiator,
            QpKind::Target(domain) => QpRole::Target(*domain),
        }
    }
}

/// A QP's role in XRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QpRole {
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

    /// The name of the QP's type in error messages.
    pub(super) fn shown_type(self, qp_type: QpType) -> &'static str {
        match (self, qp_type) {
            (QpRole::Initiator, _) => "IBV_QPT_XRC_SEND",
            (QpRole::Target(_), _) => "IBV_QPT_XRC_RECV",
            (QpRole::Plain, QpType::Rc) => "RC",
            (QpRole::Plain, QpType::Uc) => "UC",
            (QpRole::Plain, QpType::Ud) => "UD",
        }
    }

    pub(super) fn domain(self) -> u64 {
        match self {
            QpRole::Target(domain) => domain.in_record(),
            QpRole::Plain | QpRole::Initiator => 0,
        }
    }

    /// The attributes in `attr` that this role has. An initiator has no responder attributes, and a target
    /// has no requester attributes. The kernel ignores the others, too (`modify_qp_mask` in uverbs_cmd.c).
    pub(super) fn own(self, attr: &QpAttr) -> QpAttr {
        match self {
            QpRole::Plain => *attr,
            QpRole::Initiator => QpAttr { max_dest_rd_atomic: None, min_rnr_timer: None, ..*attr },
            QpRole::Target(_) => QpAttr { retry_cnt: None, rnr_retry: None, max_rd_atomic: None, ..*attr },
        }
    }

    /// Adds the attributes that ibv_modify_qp(3) requires for RC but this role lacks, with value 0. `before`
    /// is the QP's state before the call.
    pub(super) fn completed(self, attr: &QpAttr, before: QpState) -> QpAttr {
        match (self, before, attr.qp_state) {
            (QpRole::Initiator, QpState::Init, Some(QpState::Rtr)) => {
                QpAttr { max_dest_rd_atomic: Some(0), min_rnr_timer: Some(0), ..*attr }
            }
            (QpRole::Target(_), QpState::Rtr, Some(QpState::Rts)) => {
                QpAttr { retry_cnt: Some(0), rnr_retry: Some(0), max_rd_atomic: Some(0), ..*attr }
            }
            _ => *attr,
        }
    }
}
