//! A QP's RECVs and their buffers.

use crate::SystemError;
use crate::device::Device;
use doorbell_verbs::{AccessFlags, GRH_BYTES, Mem, Mr, Provider, Qp, QpType, RecvWr, Sge, Wc};

/// Number of RECVs that are posted again with one doorbell.
pub(crate) const BATCH: u32 = 16;

/// RECVs of one QP. The `wr_id` of a RECV is the number of its slot. Each payload begins a cache line.
pub(crate) struct RecvRing<P: Provider> {
    mr: Mr<P>,
    stride: u64,
    /// Bytes of the GRH before a payload; 0 if messages are not datagrams.
    header: u32,
    size: u32,
    /// Slots whose RECV has to be posted again.
    free: Vec<u64>,
    batch: usize,
}

/// Bytes from the start of a slot to its payload. The header is right before the payload.
fn padded(header: u32) -> u64 {
    u64::from(header).next_multiple_of(64)
}

impl<P: Provider> RecvRing<P> {
    /// A ring of `depth` RECVs for datagrams of up to `size` bytes.
    pub(crate) fn new(device: &Device<P>, depth: u32, size: u32) -> Result<RecvRing<P>, SystemError> {
        RecvRing::over(QpType::Ud, device, depth, size)
    }

    /// A ring of `depth` RECVs for messages of up to `size` bytes over a transport.
    pub(crate) fn over(
        transport: QpType,
        device: &Device<P>,
        depth: u32,
        size: u32,
    ) -> Result<RecvRing<P>, SystemError> {
        // An SGE of 0 bytes means 2^31 bytes.
        let (header, size) = if transport == QpType::Ud { (GRH_BYTES, size) } else { (0, size.max(1)) };
        let stride = (padded(header) + u64::from(size)).next_multiple_of(64);
        let mr = device.registered(stride * u64::from(depth), AccessFlags::LOCAL_WRITE)?;
        let free = (0..u64::from(depth)).rev().collect();
        Ok(RecvRing { mr, stride, header, size, free, batch: BATCH.min(depth) as usize })
    }

    fn sge(&self, slot: u64) -> Sge {
        self.mr.sge(self.header(slot).1, self.header + self.size)
    }

    /// The memory and the offset of the payload in a slot.
    pub(crate) fn payload(&self, slot: u64) -> (Mem, u64) {
        (self.mr.mem(), slot * self.stride + padded(self.header))
    }

    /// Reads the message that a completion reports.
    pub(crate) fn read(&self, cpu: &P, wc: &Wc, into: &mut Vec<u8>) {
        let (mem, offset) = self.payload(wc.wr_id);
        into.resize(wc.byte_len.saturating_sub(self.header) as usize, 0);
        if !into.is_empty() {
            cpu.read(mem, offset, into);
        }
    }

    /// The memory and the offset of the GRH in a slot.
    pub(crate) fn header(&self, slot: u64) -> (Mem, u64) {
        (self.mr.mem(), slot * self.stride + padded(self.header) - u64::from(self.header))
    }

    /// Frees a slot after its message has been processed.
    pub(crate) fn give(&mut self, slot: u64) {
        self.free.push(slot);
    }

    /// Posts the RECVs of all free slots, if there is a batch of them or `all` is set.
    pub(crate) fn post(&mut self, qp: &Qp<P>, all: bool) -> Result<(), SystemError> {
        if self.free.is_empty() || (!all && self.free.len() < self.batch) {
            return Ok(());
        }
        let slots = std::mem::take(&mut self.free);
        let sges: Vec<Sge> = slots.iter().map(|&s| self.sge(s)).collect();
        let list: Vec<RecvWr<'_>> = slots
            .iter()
            .zip(&sges)
            .map(|(&wr_id, sge)| RecvWr { wr_id, sg_list: std::slice::from_ref(sge) })
            .collect();
        qp.post_recv(&list)?;
        self.free = slots;
        self.free.clear();
        Ok(())
    }
}
