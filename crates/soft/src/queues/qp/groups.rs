//! Attaches QPs to multicast groups, and detaches them.

use super::Qp;
use crate::causes::{self, Hex};
use crate::device::link_layer;
use crate::memory::groups::{Group, is_multicast_gid, is_multicast_lid};
use crate::memory::records::GROUPS;
use doorbell_transport::Refused;
use doorbell_verbs::{LinkLayer, QpType};
use std::net::Ipv6Addr;

impl Qp {
    /// Attaches the QP to a multicast group; ibv_attach_mcast(3).
    pub(crate) fn attach(&self, group: Group) -> Result<(), Refused> {
        let is_ib = link_layer() == LinkLayer::Infiniband;
        let is_group = is_multicast_gid(&group.gid) && (!is_ib || is_multicast_lid(group.lid));
        if self.qp_type() != QpType::Ud {
            return Err(causes::MCAST_QP.of([&self.shown_type()]));
        }
        if !is_group {
            return Err(causes::MCAST_GROUP.of([&Ipv6Addr::from(group.gid.0), &Hex(group.lid)]));
        }
        let attached = self.requester.process.attach(self.index, group);
        attached.map_err(|errno| causes::at_limit(&causes::MCAST_LIMIT, errno, [&GROUPS]))
    }

    /// Detaches the QP from a multicast group; ibv_detach_mcast(3).
    pub(crate) fn detach(&self, group: Group) -> Result<(), Refused> {
        let process = self.requester.process;
        let detached = process.groups.detach(process.segment, self.index, group);
        detached.map_err(|_| causes::MCAST_ABSENT.of([&Ipv6Addr::from(group.gid.0), &Hex(group.lid)]))
    }

    /// `EBUSY` if the QP is attached to a group, because it may not be destroyed then (ibv_destroy_qp(3)).
    pub(crate) fn check_unused(&self) -> Result<(), Refused> {
        if self.requester.process.groups.has(self.index) { Err(causes::MCAST_BUSY.bare()) } else { Ok(()) }
    }
}
