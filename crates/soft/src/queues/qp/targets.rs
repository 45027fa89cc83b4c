//! XRC targets. Several handles may refer to one target, in its own process or in other processes
//! (ibv_open_qp(3)).

use super::{Qp, QpRole};
use crate::causes::OPEN_NUM;
use crate::fabric::domains::DomainId;
use crate::fabric::process::Process;
use crate::sync::Anew;
use doorbell_abi::{CEnum, IBV_QPT_XRC_RECV};
use doorbell_transport::Refused;
use doorbell_verbs::{AccessFlags, QpAttr, QpState};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Weak};

/// The targets of this process by QP number, each with its number of handles. A child of fork(2) starts with
/// an empty list.
static TARGETS: Anew<BTreeMap<u32, (Weak<Qp>, u32)>> = Anew::new(BTreeMap::new());

impl Qp {
    /// Registers a new target, so that [`Qp::open`] finds it. Does nothing for other QPs.
    pub(super) fn offer(self: &Arc<Qp>) {
        if matches!(self.role, QpRole::Target(_)) {
            TARGETS.lock().insert(self.num(), (Arc::downgrade(self), 1));
        }
    }

    /// Opens a handle to the target with this number. `EINVAL` if this process has no such target in the
    /// domain.
    pub(crate) fn open(num: u32, domain: DomainId) -> Result<Arc<Qp>, Refused> {
        let mut all = TARGETS.lock();
        let (known, handles) = all.get_mut(&num).ok_or_else(|| OPEN_NUM.of([&num]))?;
        let qp = known.upgrade().filter(|qp| qp.role == QpRole::Target(domain));
        let qp = qp.ok_or_else(|| OPEN_NUM.of([&num]))?;
        *handles += 1;
        Ok(qp)
    }

    /// Closes a handle. Returns `true` if it was the last one, so that the caller must destroy the QP.
    pub(crate) fn close(&self) -> bool {
        let mut all = TARGETS.lock();
        let Some((_, handles)) = all.get_mut(&self.num()) else { return true };
        *handles -= 1;
        let is_last = *handles == 0;
        if is_last {
            all.remove(&self.num());
        }
        is_last
    }
}

/// The state and attributes of a target in another process. `None` if no such target is in the domain.
pub(crate) fn elsewhere(process: &'static Process, num: u32, domain: DomainId) -> Option<(QpState, QpAttr)> {
    // After a process has exited, its segment stays visible for a moment to processes that have mapped it. So
    // the process itself is checked too.
    if process.is_own(num) || !process.has_peer(num) {
        return None;
    }
    process.look_at(num, |segment| {
        let index = segment.index_of(num);
        let qp = segment.qp(index)?;
        let state = QpState::from_c(qp.shown().state())?;
        // Acquire, as for the state above: the fields below are read after both.
        let is_of_it = segment.domain(index)?.load(Acquire) == domain.in_record();
        let reads = qp.max_dest_rd_atomic.load(Relaxed);
        let attr = QpAttr {
            qp_access_flags: Some(AccessFlags::from_bits_truncate(qp.access.load(Relaxed))),
            dest_qp_num: Some(qp.dest_qpn.load(Relaxed)),
            rq_psn: Some(qp.rq_psn.load(Relaxed)),
            min_rnr_timer: Some(qp.min_rnr_timer.load(Relaxed)),
            max_dest_rd_atomic: Some(reads.min(u8::MAX.into()) as u8),
            ..QpAttr::default()
        };
        (is_of_it && qp.qp_type.load(Relaxed) == IBV_QPT_XRC_RECV).then_some((state, attr))
    })
}
