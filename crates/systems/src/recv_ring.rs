//! RECVs of UD QPs, and where their messages go.

use crate::SystemError;
use crate::device::Device;
use crate::herd::Message;
use doorbell_verbs::{AccessFlags, GRH_BYTES, Mem, Mr, Provider, Qp, RecvWr, Sge, Wc};

/// RECVs that are posted anew with one doorbell.
pub(crate) const BATCH: u32 = 16;

/// Padding that puts the payload, which follows the GRH, at the start of a cache line.
const PAD: u64 = 64 - GRH_BYTES as u64;

/// RECVs of one UD QP. A slot is named by the `wr_id` of its RECV.
pub(crate) struct RecvRing<P: Provider> {
    mr: Mr<P>,
    depth: u32,
    stride: u64,
    length: u32,
    /// Slots whose RECV is to be posted again.
    free: Vec<u64>,
    batch: usize,
}

impl<P: Provider> RecvRing<P> {
    /// `depth` RECVs of messages of up to `size` bytes.
    pub(crate) fn new(device: &Device<P>, depth: u32, size: u32) -> Result<RecvRing<P>, SystemError> {
        let stride = (PAD + u64::from(GRH_BYTES + size)).next_multiple_of(64);
        let mr = device.registered(stride * u64::from(depth), AccessFlags::LOCAL_WRITE)?;
        let free = (0..u64::from(depth)).rev().collect();
        Ok(RecvRing { mr, depth, stride, length: GRH_BYTES + size, free, batch: BATCH.min(depth) as usize })
    }

    /// Number of RECVs.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    fn sge(&self, slot: u64) -> Sge {
        self.mr.sge(slot * self.stride + PAD, self.length)
    }

    /// Where the message of a slot begins.
    pub(crate) fn payload(&self, slot: u64) -> (Mem, u64) {
        (self.mr.mem(), slot * self.stride + PAD + u64::from(GRH_BYTES))
    }

    /// The message that a completion tells of; `scratch` is overwritten.
    pub(crate) fn message<M: Message>(
        &self,
        cpu: &P,
        wc: &Wc,
        scratch: &mut Vec<u8>,
    ) -> Result<M, SystemError> {
        let (mem, offset) = self.payload(wc.wr_id);
        scratch.resize(wc.byte_len.saturating_sub(GRH_BYTES) as usize, 0);
        if !scratch.is_empty() {
            cpu.read(mem, offset, scratch);
        }
        let length = scratch.len();
        M::decode(scratch).ok_or_else(|| SystemError::Protocol(format!("a reply of {length} bytes is none")))
    }

    /// Where the GRH of a slot begins.
    pub(crate) fn header(&self, slot: u64) -> (Mem, u64) {
        (self.mr.mem(), slot * self.stride + PAD)
    }

    /// Gives a slot back whose message has been dealt with.
    pub(crate) fn give(&mut self, slot: u64) {
        self.free.push(slot);
    }

    /// Posts the RECVs of all slots that are free, if `all` or a batch of them are.
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
