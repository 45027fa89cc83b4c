//! XRC targets of this process, which more than one handle may be of (ibv_open_qp(3)).

use super::{Qp, Role};
use crate::errno::{EINVAL, Errno};
use crate::fabric::domains::DomainId;
use crate::sync::Anew;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// By number: the target, and how many handles it has. A child of fork(2) has none of its parent's.
static TARGETS: Anew<BTreeMap<u32, (Weak<Qp>, u32)>> = Anew::new(BTreeMap::new());

impl Qp {
    /// The QP is made: a target can be opened from now on.
    pub(super) fn offer(self: &Arc<Qp>) {
        if matches!(self.role, Role::Target(_)) {
            TARGETS.lock().insert(self.num(), (Arc::downgrade(self), 1));
        }
    }

    /// Opens the target of that number, where it is of the domain.
    pub(crate) fn open(num: u32, domain: DomainId) -> Result<Arc<Qp>, Errno> {
        let mut all = TARGETS.lock();
        let (known, handles) = all.get_mut(&num).ok_or(EINVAL)?;
        let qp = known.upgrade().filter(|qp| qp.role == Role::Target(domain)).ok_or(EINVAL)?;
        *handles += 1;
        Ok(qp)
    }

    /// A handle goes; whether it was the last, so that the QP does too.
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
