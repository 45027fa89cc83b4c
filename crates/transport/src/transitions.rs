//! Attributes that ibv_modify_qp(3) requires and accepts for each transition, and their ranges.

use crate::causes::*;
use crate::names::state_name;
use crate::{Cause, Refused};
use bitflags::bitflags;
use doorbell_verbs::{QpAttr, QpState, QpType};
use std::fmt::Display;

bitflags! {
    /// Attributes other than the state (`enum ibv_qp_attr_mask`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Mask: u32 {
        const PKEY_INDEX = 1;
        const PORT = 1 << 1;
        const ACCESS_FLAGS = 1 << 2;
        const QKEY = 1 << 3;
        const PATH_MTU = 1 << 4;
        const DEST_QPN = 1 << 5;
        const RQ_PSN = 1 << 6;
        const AV = 1 << 7;
        const MAX_DEST_RD_ATOMIC = 1 << 8;
        const MIN_RNR_TIMER = 1 << 9;
        const SQ_PSN = 1 << 10;
        const TIMEOUT = 1 << 11;
        const RETRY_CNT = 1 << 12;
        const RNR_RETRY = 1 << 13;
        const MAX_QP_RD_ATOMIC = 1 << 14;
    }
}

/// The attributes that are set in `attr`.
fn mask(attr: &QpAttr) -> Mask {
    [
        (attr.pkey_index.is_some(), Mask::PKEY_INDEX),
        (attr.port_num.is_some(), Mask::PORT),
        (attr.qp_access_flags.is_some(), Mask::ACCESS_FLAGS),
        (attr.qkey.is_some(), Mask::QKEY),
        (attr.path_mtu.is_some(), Mask::PATH_MTU),
        (attr.dest_qp_num.is_some(), Mask::DEST_QPN),
        (attr.rq_psn.is_some(), Mask::RQ_PSN),
        (attr.ah_attr.is_some(), Mask::AV),
        (attr.max_dest_rd_atomic.is_some(), Mask::MAX_DEST_RD_ATOMIC),
        (attr.min_rnr_timer.is_some(), Mask::MIN_RNR_TIMER),
        (attr.sq_psn.is_some(), Mask::SQ_PSN),
        (attr.timeout.is_some(), Mask::TIMEOUT),
        (attr.retry_cnt.is_some(), Mask::RETRY_CNT),
        (attr.rnr_retry.is_some(), Mask::RNR_RETRY),
        (attr.max_rd_atomic.is_some(), Mask::MAX_QP_RD_ATOMIC),
    ]
    .into_iter()
    .filter(|(set, _)| *set)
    .fold(Mask::empty(), |all, (_, bit)| all | bit)
}

/// Required and optional attributes of a transition; `None` if the transition does not exist (tables of
/// ibv_modify_qp(3); IB specification vol. 1, table 91).
fn rule(from: QpState, to: QpState, qp_type: QpType) -> Option<(Mask, Mask)> {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let ud = qp_type == QpType::Ud;
    let rc = qp_type == QpType::Rc;
    // The attribute with which a QP checks the rights of arriving requests. Most transitions may change it.
    let rights = if ud { Mask::QKEY } else { Mask::ACCESS_FLAGS };
    let rnr = if rc { Mask::MIN_RNR_TIMER } else { Mask::empty() };
    let rule = match (from, to) {
        (_, Reset | Err) => (Mask::empty(), Mask::empty()),
        (Reset, Init) => (Mask::PKEY_INDEX | Mask::PORT | rights, Mask::empty()),
        (Init, Init) => (Mask::empty(), Mask::PKEY_INDEX | Mask::PORT | rights),
        (Init, Rtr) if ud => (Mask::empty(), Mask::PKEY_INDEX | rights),
        (Init, Rtr) => {
            let connected = Mask::AV | Mask::PATH_MTU | Mask::DEST_QPN | Mask::RQ_PSN;
            let reliable = if rc { Mask::MAX_DEST_RD_ATOMIC | Mask::MIN_RNR_TIMER } else { Mask::empty() };
            (connected | reliable, Mask::PKEY_INDEX | rights)
        }
        (Rtr, Rts) if rc => (
            Mask::SQ_PSN | Mask::TIMEOUT | Mask::RETRY_CNT | Mask::RNR_RETRY | Mask::MAX_QP_RD_ATOMIC,
            rights | rnr,
        ),
        (Rtr, Rts) => (Mask::SQ_PSN, rights),
        (Rts, Rts) | (Sqd, Rts) => (Mask::empty(), rights | rnr),
        (Rts, Sqd) => (Mask::empty(), Mask::empty()),
        (Sqd, Sqd) => {
            let path = if ud { Mask::empty() } else { Mask::AV };
            let reliable = if rc {
                Mask::PORT
                    | Mask::TIMEOUT
                    | Mask::RETRY_CNT
                    | Mask::RNR_RETRY
                    | Mask::MAX_QP_RD_ATOMIC
                    | Mask::MAX_DEST_RD_ATOMIC
            } else {
                Mask::empty()
            };
            (Mask::empty(), Mask::PKEY_INDEX | rights | path | reliable | rnr)
        }
        (Sqe, Rts) if !rc => (Mask::empty(), rights),
        _ => return None,
    };
    Some(rule)
}

/// The names in a mask, for error messages.
fn names(mask: Mask) -> String {
    mask.iter_names().map(|(name, _)| format!("IBV_QP_{name}")).collect::<Vec<_>>().join(", ")
}

/// Checks ranges that are narrower than the fields' types.
fn check_ranges(attr: &QpAttr) -> Result<(), Refused> {
    let fields: [(&'static Cause, Option<u32>, u32, u32); 8] = [
        (&QP_RQ_PSN, attr.rq_psn, 0, 0xff_ffff),
        (&QP_SQ_PSN, attr.sq_psn, 0, 0xff_ffff),
        (&QP_DEST_QPN, attr.dest_qp_num, 0, 0xff_ffff),
        (&QP_PORT_NUM, attr.port_num.map(u32::from), 1, 255),
        (&QP_AH_PORT_NUM, attr.ah_attr.map(|ah| u32::from(ah.port_num)), 1, 255),
        (&QP_TIMEOUT, attr.timeout.map(u32::from), 0, 31),
        (&QP_RETRY_CNT, attr.retry_cnt.map(u32::from), 0, 7),
        (&QP_RNR_RETRY, attr.rnr_retry.map(u32::from), 0, 7),
    ];
    for (cause, value, least, most) in fields {
        if let Some(value) = value.filter(|v| !(least..=most).contains(v)) {
            return Err(cause.of([&value]));
        }
    }
    Ok(())
}

/// The names of the states that a QP can enter from `current`, for error messages.
fn next_states(current: QpState, qp_type: QpType) -> String {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let all = [Reset, Init, Rtr, Rts, Sqd, Sqe, Err];
    let possible = all.into_iter().filter(|next| rule(current, *next, qp_type).is_some());
    possible.map(state_name).collect::<Vec<_>>().join(", ")
}

/// Checks a change of a QP in state `current`, and returns the new state. Without `attr.qp_state` the state
/// stays.
pub fn check_modify(current: QpState, qp_type: QpType, attr: &QpAttr) -> Result<QpState, Refused> {
    check_modify_shown(current, (qp_type, &qp_type), attr)
}

/// Like [`check_modify`], for a QP whose type is `shown` in error messages.
pub fn check_modify_shown(
    current: QpState,
    (qp_type, shown): (QpType, &dyn Display),
    attr: &QpAttr,
) -> Result<QpState, Refused> {
    let (given, from) = (mask(attr), state_name(current));
    let Some(next) = attr.qp_state else {
        let taken = rule(current, current, qp_type).map(|(_, optional)| optional);
        if taken.is_none_or(|taken| !taken.contains(given)) {
            let taken = taken.filter(|taken| !taken.is_empty());
            let taken =
                taken.map_or_else(|| "no attributes".to_owned(), |taken| format!("only {}", names(taken)));
            return Err(QP_MASK_NO_STATE.of([&from, &shown, &taken]));
        }
        return check_ranges(attr).map(|()| current);
    };
    let to = state_name(next);
    let Some((required, optional)) = rule(current, next, qp_type) else {
        return Err(QP_TRANSITION.of([&to, &shown, &from, &next_states(current, qp_type)]));
    };
    let missing = required - given;
    if !missing.is_empty() {
        return Err(QP_MASK_LACKS.of([&names(missing), &shown, &from, &to]));
    }
    let extra = given - required - optional;
    if !extra.is_empty() {
        return Err(QP_MASK_EXTRA.of([&names(extra), &shown, &from, &to]));
    }
    check_ranges(attr)?;
    Ok(next)
}

/// Whether a QP in this state accepts requests.
pub const fn takes_requests(state: QpState) -> bool {
    matches!(state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe)
}

/// Whether a QP in this state flushes newly posted send work requests.
pub const fn flushes_sends(state: QpState) -> bool {
    matches!(state, QpState::Err | QpState::Sqe)
}

/// The state of a QP after one of its send work requests has failed (IB specification vol. 1, 10.3.1).
pub const fn state_after_failed_send(qp_type: QpType) -> QpState {
    match qp_type {
        QpType::Rc => QpState::Err,
        QpType::Uc | QpType::Ud => QpState::Sqe,
    }
}
