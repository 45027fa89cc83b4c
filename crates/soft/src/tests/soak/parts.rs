//! Helpers that clients and servers share.

use super::super::{PD, Patience, Side};
use crate::fabric::pipe::EventPipe;
use crate::fabric::process::Process;
use crate::memory::maps;
use crate::memory::objects::HostMemory;
use crate::queues::cq::Cq;
use crate::queues::recv_queue::RecvQueue;
use doorbell_transport::Region;
use doorbell_verbs::*;
use std::sync::Arc;

/// A QP and its CQ.
pub(super) type Queue = Side;

/// Entries of a CQ, and sizes of the queues.
pub(super) const CQE: u32 = 256;
pub(super) const CAP: QpCap =
    QpCap { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 64 };

/// Creates a CQ that sends its events through this pipe.
pub(super) fn cq(process: &'static Process, pipe: &EventPipe) -> Arc<Cq> {
    Arc::new(Cq::new(process, CQE, pipe.in_record(), pipe.in_record()).expect("a CQ"))
}

/// Creates a QP with this CQ, or with a CQ of its own. Panics on failure.
pub(super) fn queue(
    process: &'static Process,
    qp_type: QpType,
    cq: Option<Arc<Cq>>,
    srq: Option<Arc<RecvQueue>>,
) -> Queue {
    try_queue(process, qp_type, cq, srq).expect("a QP")
}

/// Creates a QP with this CQ, or with a CQ of its own. Fails if the process may not open more files.
pub(super) fn try_queue(
    process: &'static Process,
    qp_type: QpType,
    cq: Option<Arc<Cq>>,
    srq: Option<Arc<RecvQueue>>,
) -> std::io::Result<Queue> {
    let pipe = Arc::new(EventPipe::new()?);
    let cq = cq.unwrap_or_else(|| self::cq(process, &pipe));
    Ok(Side::of(process, qp_type, CAP, cq, srq, pipe))
}

pub(super) fn register(process: &'static Process, addr: u64, bytes: usize) -> u32 {
    let host = host(addr, bytes).expect("files may be opened");
    process.regions.register(process.segment, region(addr, bytes), host).expect("a region")
}

/// The memory of a region, or `None` if the process may not open a file.
pub(super) fn host(addr: u64, bytes: usize) -> Option<HostMemory> {
    Some(HostMemory {
        addr,
        object: maps::check(addr..addr + bytes as u64, maps::Wanted { write: true, atomics: true }).ok()?,
    })
}

pub(super) fn region(addr: u64, bytes: usize) -> Region {
    Region { pd: PD, addr, len: bytes as u64, access: AccessFlags::all() }
}

/// The local ACK timeout: 2^15 times 4.096 us. A requester gives up a silent peer within half a second.
const TIMEOUT: u8 = 15;
pub(super) const PATIENCE: Patience = Patience { timeout: TIMEOUT, rnr_retry: 7 };

impl Side {
    pub(super) fn connect_patiently(&self, dest: u32) {
        self.connect(dest, PATIENCE);
    }
}
