//! Records copied into a buffer by the core, and one WRITE of the buffer.

use super::{LONGEST, RECORDS, Record, completed, connected};
use crate::SystemError;
use crate::device::Device;
use doorbell_verbs::{AccessFlags, Cq, Mr, Provider, Qp, QpCap, RemoteAddr, SendFlags, SendOp, SendWr};

/// Writes records to the memory server.
pub struct SpStore<P: Provider> {
    cpu: P,
    qp: Qp<P>,
    cq: Cq<P>,
    memory: RemoteAddr,
    /// Copies of records. The device may read them until the WRITE has completed.
    copies: Mr<P>,
}

impl<P: Provider> SpStore<P> {
    /// Opens the store of client `number`.
    ///
    /// # Errors
    /// If a QP cannot be created or connected, or there is no memory for copies.
    pub fn open(device: &Device<P>, number: u32, memory: RemoteAddr) -> Result<SpStore<P>, SystemError> {
        let cap = QpCap { max_send_wr: 1, max_recv_wr: 1, ..QpCap::default() };
        let (qp, cq) = connected(device, number, cap)?;
        let copies = device.registered(RECORDS as u64 * u64::from(LONGEST), AccessFlags::LOCAL_WRITE)?;
        Ok(SpStore { cpu: device.cpu.clone(), qp, cq, memory, copies })
    }

    /// Writes records side by side, from the first record's offset on. The records are at the target when the
    /// call returns.
    ///
    /// # Errors
    /// If the WRITE fails.
    pub fn write(&self, records: &[Record]) -> Result<(), SystemError> {
        let Some(first) = records.first() else { return Ok(()) };
        let mut bytes = 0;
        for record in records {
            let length = u64::from(record.sge.length);
            self.cpu.copy(self.copies.mem(), bytes, record.mem, record.offset, length);
            bytes += length;
        }
        let sge = [self.copies.sge(0, bytes as u32)];
        let wr = SendWr::new(0, SendOp::Write(self.memory.at(first.to)), &sge);
        self.qp.post_send(&[wr.flags(SendFlags::SIGNALED)])?;
        completed(&self.cq)
    }

    /// The offset, at the target, of record `number` of a call: after the earlier records.
    pub fn place(records: &[Record], number: usize) -> u64 {
        let before: u64 = records[..number].iter().map(|record| u64::from(record.sge.length)).sum();
        records[0].to + before
    }
}
