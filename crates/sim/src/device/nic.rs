//! A NIC with all its parts.

use super::caches::Caches;
use super::ethernet::Ethernet;
use super::locks::AtomicLocks;
use super::pcie::PcieLink;
use super::qp::{CqSlot, FIRST_QPN, QpSlot, RecvSlot};
use super::reads::Dma;
use super::receiving::Receiving;
use super::sending::Sending;
use crate::core::index::{CqId, DeviceId, IdVec, MachineId, PortId, QpId, RecvQueueId};
use crate::core::ps::Ps;
use doorbell_nic::Profile;
use doorbell_nic::cost::{self, Costs};
use doorbell_transport::{Body, Keys, Packet, PacketPart};
use doorbell_verbs::{AhAttr, AhHandle, QpType};
use std::rc::Rc;

/// The position of a device on its machine.
#[derive(Clone, Copy)]
pub(crate) struct Attached {
    /// The device's number on the machine.
    pub(crate) local: u8,
    /// The CPU socket to which the device is attached.
    pub(crate) socket: u8,
}

/// A NIC.
pub(crate) struct SimDevice {
    pub(crate) id: DeviceId,
    /// The machine whose memory the NIC reaches.
    pub(crate) machine: MachineId,
    pub(crate) attached: Attached,
    /// The NIC's first port; its other ports follow.
    pub(crate) first_port: PortId,
    pub(crate) profile: Rc<Profile>,
    pub(super) costs: Costs,
    pub(crate) qps: IdVec<QpId, QpSlot>,
    pub(crate) cqs: IdVec<CqId, Option<CqSlot>>,
    pub(crate) recv_queues: IdVec<RecvQueueId, RecvSlot>,
    pub(crate) ahs: Vec<Option<AhAttr>>,
    pub(crate) pds: u32,
    pub(crate) keys: Keys,
    pub(crate) sending: Sending,
    pub(crate) receiving: Receiving,
    pub(crate) locks: AtomicLocks,
    pub(crate) caches: Caches,
    pub(crate) pcie: PcieLink,
    pub(crate) dma: Dma,
    /// State of a plain Ethernet NIC, once the device is used as one.
    pub(crate) ethernet: Option<Box<Ethernet>>,
}

impl SimDevice {
    /// When the PCIe link and the units are done with the work that they have accepted.
    pub(crate) fn committed_until(&self) -> Ps {
        let sending = self.sending.units.iter().map(|unit| unit.until);
        let receiving = self.receiving.units.iter().map(|unit| unit.until.max(unit.free_at));
        let link = self.pcie.to_host.free_at().max(self.pcie.to_device.free_at());
        sending.chain(receiving).fold(link, Ps::max)
    }

    pub(crate) fn new(
        id: DeviceId,
        (machine, attached): (MachineId, Attached),
        first_port: PortId,
        profile: Rc<Profile>,
        costs: Costs,
    ) -> SimDevice {
        SimDevice {
            id,
            machine,
            attached,
            first_port,
            qps: IdVec::new(),
            cqs: IdVec::new(),
            recv_queues: IdVec::new(),
            ahs: Vec::new(),
            pds: 0,
            keys: Keys::default(),
            sending: Sending::new(profile.device.tx.units),
            receiving: Receiving::new(profile.device.rx.units),
            locks: AtomicLocks::new(profile.device.atomics.slots),
            caches: Caches::new(&profile.device),
            pcie: PcieLink::new(costs.pcie.clone(), profile.device.link.receive_buffer),
            dma: Dma::default(),
            ethernet: None,
            costs,
            profile,
        }
    }

    /// The id of the QP with this number, whether or not it exists yet or still.
    #[inline]
    pub(crate) fn qp_numbered(qpn: u32) -> Option<QpId> {
        qpn.checked_sub(FIRST_QPN).map(QpId)
    }

    /// The QP with this number, if it is alive.
    pub(crate) fn find_qp(&self, qpn: u32) -> Option<QpId> {
        let qp = SimDevice::qp_numbered(qpn)?;
        self.qps.get(qp).filter(|q| q.alive)?;
        Some(qp)
    }

    /// The attributes of an address handle, if it exists. The handle's highest byte names the device.
    pub(crate) fn ah(&self, ah: AhHandle) -> Option<AhAttr> {
        self.ahs.get((ah.0 & 0xff_ffff) as usize).copied().flatten()
    }

    pub(crate) fn ah_mut(&mut self, ah: AhHandle) -> &mut Option<AhAttr> {
        &mut self.ahs[(ah.0 & 0xff_ffff) as usize]
    }

    /// The port with this number, from 0.
    pub(crate) fn port(&self, number: u8) -> PortId {
        PortId(self.first_port.0 + u32::from(number))
    }
}

/// The properties of a packet that determine its costs.
#[inline]
pub(super) fn priced(packet: &Packet) -> cost::PacketShape {
    let (kind, part, imm) = match packet.body {
        Body::Send { part, imm } => (cost::PacketKind::Send, part, imm.is_some()),
        Body::Write { part, imm, .. } => (cost::PacketKind::Write, part, imm.is_some()),
        Body::ReadRequest(_) => (cost::PacketKind::ReadRequest, PacketPart::Only, false),
        Body::ReadResponse { part } => (cost::PacketKind::ReadResponse, part, false),
        Body::Atomic { .. } => (cost::PacketKind::Atomic, PacketPart::Only, false),
        Body::AtomicAck { .. } => (cost::PacketKind::AtomicAck, PacketPart::Only, false),
        Body::Ack(_) => (cost::PacketKind::Ack, PacketPart::Only, false),
    };
    cost::PacketShape {
        kind,
        begins: part.begins(),
        ends: part.ends(),
        imm,
        datagram: packet.transport == QpType::Ud,
        payload: packet.payload_len,
    }
}
