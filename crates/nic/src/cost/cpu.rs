//! The cost of posting and polling on a core.

use crate::generation::{Generation, Method};
use crate::shape::PostShape;
use crate::{Hierarchy, Host, wqe};

/// CPU time of the driver, in picoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuCost {
    /// The program's work for an operation, apart from its verbs.
    pub program: u64,
    /// A call that posts, regardless of its list.
    pub post_call: u64,
    /// A line of a WQE written to the NIC.
    pub mmio_line: u64,
    /// A Doorbell written to the NIC.
    pub doorbell: u64,
    /// Building a RECV.
    pub recv_wqe: u64,
    /// A poll, regardless of its result.
    pub poll_empty: u64,
    /// Storing a line of a send WQE into its ring.
    pub send_line: u64,
    /// Loading a CQE that the NIC has written.
    pub cqe: u64,
    build_wqe: u64,
    inline_line: u64,
    /// Taking a completion out of a CQ. Excludes the load of the CQE and the poll itself.
    pub take_cqe: u64,
    copy_line: u64,
}

impl CpuCost {
    /// The costs of a host. With cache sizes (`hierarchy`), the cost of a load or store depends on the cache
    /// that has the line. The costs here are then the least ones: all lines are in the core's own cache.
    pub fn new(host: &Host, hierarchy: Option<&Hierarchy>) -> CpuCost {
        CpuCost {
            program: host.program.as_ps(),
            post_call: host.post_call.as_ps(),
            mmio_line: host.mmio_line.as_ps(),
            doorbell: host.doorbell.as_ps(),
            recv_wqe: host.post_recv_wqe.as_ps(),
            poll_empty: host.poll_empty.as_ps(),
            build_wqe: host.build_wqe.as_ps(),
            send_line: hierarchy.map_or(host.build_line, |h| h.instruction).as_ps(),
            cqe: hierarchy.map_or(host.dma_line, |h| h.l1_latency).as_ps(),
            inline_line: host.inline_copy_line.as_ps(),
            take_cqe: host.poll_cqe.as_ps(),
            copy_line: host.copy_line.as_ps(),
        }
    }

    /// Building a send WQE, including the copy of `inlined` bytes of payload. Excludes the stores to the
    /// ring.
    #[inline]
    pub fn build(&self, inlined: u32) -> u64 {
        self.build_wqe + self.inline_line * u64::from(wqe::lines(inlined))
    }

    /// Taking `completions` out of a CQ, from CQEs that the NIC has written. Excludes the poll itself.
    #[inline]
    pub fn take(&self, completions: u64) -> u64 {
        (self.take_cqe + self.cqe) * completions
    }

    /// Copying a payload of `bytes` from its CQE to the RECV's buffer.
    #[inline]
    pub fn take_inline(&self, bytes: u32) -> u64 {
        self.copy_line * u64::from(wqe::lines(bytes))
    }

    /// Posting all work requests of `shape` with one call.
    pub fn post_send(&self, generation: Generation, shape: &PostShape) -> u64 {
        let lines = shape.wqe_lines(generation);
        let build = self.build(shape.inlined()) + self.send_line * u64::from(lines);
        match shape.method {
            Method::WqeByMmio => self.post_call + build + self.mmio_line * u64::from(lines),
            Method::Doorbell { batch } => self.post_call + build * u64::from(batch) + self.doorbell,
        }
    }

    /// Posting `recvs` RECVs with one call.
    pub fn post_recv(&self, recvs: u32) -> u64 {
        self.post_call + self.recv_wqe * u64::from(recvs) + self.doorbell
    }
}
