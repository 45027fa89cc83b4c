//! The provider interface, which device drivers implement.

use crate::{
    AccessFlags, AhAttr, AhHandle, Cpu, CqHandle, DeviceAttr, DeviceHandle, Mem, MrHandle, PdHandle,
    PortAttr, PostError, QpAttr, QpHandle, QpInitAttr, QpState, QpType, RecvWr, SendWr, Sockets, SrqAttr,
    SrqHandle, VerbsError, Wc,
};

/// Keys of a memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrKeys {
    /// Local key, for SGEs.
    pub lkey: u32,
    /// Remote key, for remote requesters.
    pub rkey: u32,
}

/// Queues that a new QP uses.
#[derive(Clone, Copy, Debug)]
pub struct QpObjects {
    /// CQ of the send queue.
    pub send_cq: CqHandle,
    /// CQ of the receive queue.
    pub recv_cq: CqHandle,
    /// Shared receive queue, unless the QP has its own.
    pub srq: Option<SrqHandle>,
}

/// A thread's access to its machine: the [`Cpu`], the devices, the [`Sockets`] and the out-of-band exchange.
///
/// Programs call [`crate::Context`] and the types created from it. These types keep objects alive as long as
/// other objects need them, destroy them in the right order, and call this trait. Each provider implements
/// the trait once, as each driver has one table of operations. A provider belongs to one thread.
pub trait Provider: Cpu + Sockets + Clone {
    /// Number of this thread's machine in its cluster, from 0.
    fn machine(&self) -> u32;

    /// Makes `value` known under `key` to every thread of the cluster, replacing an earlier value. On a real
    /// cluster, programs use TCP for this exchange. Publishing takes negligible time.
    fn publish(&self, key: &str, value: &[u8]);

    /// Waits until `key` has a value and returns it.
    fn lookup(&self, key: &str) -> Vec<u8>;

    /// Number of devices of this machine.
    fn num_devices(&self) -> u32;
    /// ibv_open_device(3).
    fn open_device(&self, index: u32) -> Result<DeviceHandle, VerbsError>;
    /// ibv_close_device(3). The functions that close or destroy objects cannot fail in the order in which the
    /// safe types call them.
    fn close_device(&self, device: DeviceHandle);
    /// ibv_query_device(3).
    fn query_device(&self, device: DeviceHandle) -> Result<DeviceAttr, VerbsError>;
    /// ibv_query_port(3) and ibv_query_gid(3).
    fn query_port(&self, device: DeviceHandle, port: u8) -> Result<PortAttr, VerbsError>;

    /// ibv_alloc_pd(3).
    fn alloc_pd(&self, device: DeviceHandle) -> Result<PdHandle, VerbsError>;
    /// ibv_dealloc_pd(3).
    fn dealloc_pd(&self, pd: PdHandle);
    /// ibv_alloc_dm(3): `len` zeroed bytes of the device's own memory, which only NICs access. They stay
    /// allocated until the device is closed. A provider without such memory refuses the call.
    fn alloc_dm(&self, device: DeviceHandle, len: u64) -> Result<Mem, VerbsError> {
        let _ = (device, len);
        Err(VerbsError::Invalid("this provider has no device memory".into()))
    }
    /// ibv_reg_mr(3), and ibv_reg_dm_mr(3) for device memory.
    fn reg_mr(&self, pd: PdHandle, mem: Mem, access: AccessFlags) -> Result<(MrHandle, MrKeys), VerbsError>;
    /// ibv_dereg_mr(3).
    fn dereg_mr(&self, mr: MrHandle);

    /// ibv_create_cq(3).
    fn create_cq(&self, device: DeviceHandle, cqe: u32) -> Result<CqHandle, VerbsError>;
    /// ibv_destroy_cq(3).
    fn destroy_cq(&self, cq: CqHandle);
    /// ibv_poll_cq(3): fills the front of `wc` and returns the number of completions. An overrun CQ is an
    /// error.
    fn poll_cq(&self, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError>;

    /// ibv_create_srq(3).
    fn create_srq(&self, pd: PdHandle, attr: &SrqAttr) -> Result<SrqHandle, VerbsError>;
    /// ibv_destroy_srq(3).
    fn destroy_srq(&self, srq: SrqHandle);
    /// ibv_post_srq_recv(3).
    fn post_srq_recv(&self, srq: SrqHandle, list: &[RecvWr<'_>]) -> Result<(), PostError>;

    /// ibv_create_ah(3).
    fn create_ah(&self, pd: PdHandle, attr: &AhAttr) -> Result<AhHandle, VerbsError>;
    /// ibv_destroy_ah(3).
    fn destroy_ah(&self, ah: AhHandle);

    /// ibv_create_qp(3); returns the QP and its number.
    fn create_qp(
        &self,
        pd: PdHandle,
        objects: &QpObjects,
        attr: &QpInitAttr,
    ) -> Result<(QpHandle, u32), VerbsError>;
    /// ibv_destroy_qp(3).
    fn destroy_qp(&self, qp: QpHandle);
    /// ibv_modify_qp(3).
    fn modify_qp(&self, qp: QpHandle, attr: &QpAttr) -> Result<(), VerbsError>;
    /// ibv_query_qp(3): the state.
    fn query_qp(&self, qp: QpHandle) -> Result<QpState, VerbsError>;
    /// ibv_post_send(3): posts the whole list with one doorbell. The WQE of a list of one goes by MMIO if the
    /// device supports this (ATC'16, section 4).
    fn post_send(&self, qp: QpHandle, list: &[SendWr<'_>]) -> Result<(), PostError>;
    /// ibv_post_recv(3): posts the whole list with one doorbell.
    fn post_recv(&self, qp: QpHandle, list: &[RecvWr<'_>]) -> Result<(), PostError>;
}

/// The common error of providers for a verb that the transport does not offer.
pub fn verb_not_offered(opcode: crate::Opcode, transport: QpType) -> VerbsError {
    VerbsError::Invalid(format!("{transport} does not offer {opcode:?}"))
}
