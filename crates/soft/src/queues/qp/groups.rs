//! Attaches QPs to multicast groups, and detaches them.

use super::Qp;
use crate::device::link_layer;
use crate::errno::{EBUSY, EINVAL, Errno};
use crate::memory::groups::{Group, is_multicast_gid, is_multicast_lid};
use doorbell_verbs::{LinkLayer, QpType};

impl Qp {
    /// Attaches the QP to a multicast group; ibv_attach_mcast(3).
    pub(crate) fn attach(&self, group: Group) -> Result<(), Errno> {
        let is_ib = link_layer() == LinkLayer::Infiniband;
        let is_group = is_multicast_gid(&group.gid) && (!is_ib || is_multicast_lid(group.lid));
        if self.qp_type() != QpType::Ud || !is_group {
            return Err(EINVAL);
        }
        self.requester.process.attach(self.index, group)
    }

    /// Detaches the QP from a multicast group; ibv_detach_mcast(3).
    pub(crate) fn detach(&self, group: Group) -> Result<(), Errno> {
        let process = self.requester.process;
        process.groups.detach(process.segment, self.index, group)
    }

    /// `EBUSY` if the QP is attached to a group, because it may not be destroyed then (ibv_destroy_qp(3)).
    pub(crate) fn check_unused(&self) -> Result<(), Errno> {
        if self.requester.process.groups.has(self.index) { Err(EBUSY) } else { Ok(()) }
    }
}
