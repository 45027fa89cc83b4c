//! Records gathered by the NIC: each WRITE has as many records as SGEs.

use super::{RECORDS, Record, completed, connected};
use crate::SystemError;
use crate::device::Device;
use doorbell_verbs::{Cq, Provider, Qp, QpCap, RemoteAddr, SendFlags, SendOp, SendWr, Sge};

/// Writes records to the memory server.
pub struct SglStore<P: Provider> {
    qp: Qp<P>,
    cq: Cq<P>,
    memory: RemoteAddr,
    /// Maximum number of SGEs in a WRITE.
    sges: usize,
}

impl<P: Provider> SglStore<P> {
    /// Opens the store of client `number`.
    ///
    /// # Errors
    /// If a QP cannot be created or connected.
    pub fn open(device: &Device<P>, number: u32, memory: RemoteAddr) -> Result<SglStore<P>, SystemError> {
        let sges = device.attr.max_sge.min(RECORDS as u32);
        let cap = QpCap { max_send_wr: 1, max_recv_wr: 1, max_send_sge: sges, ..QpCap::default() };
        let (qp, cq) = connected(device, number, cap)?;
        Ok(SglStore { qp, cq, memory, sges: sges as usize })
    }

    /// Writes records side by side, from the first record's offset on. The records are at the target when the
    /// call returns.
    ///
    /// # Errors
    /// If a WRITE fails.
    pub fn write(&self, records: &[Record]) -> Result<(), SystemError> {
        for (number, some) in records.chunks(self.sges).enumerate() {
            let sges: Vec<Sge> = some.iter().map(|record| record.sge).collect();
            let to = SglStore::<P>::place(records, number * self.sges);
            let wr = SendWr::new(0, SendOp::Write(self.memory.at(to)), &sges);
            self.qp.post_send(&[wr.flags(SendFlags::SIGNALED)])?;
            completed(&self.cq)?;
        }
        Ok(())
    }

    /// The offset, at the target, of record `number` of a call: after the earlier records.
    pub fn place(records: &[Record], number: usize) -> u64 {
        let before: u64 = records[..number].iter().map(|record| u64::from(record.sge.length)).sum();
        records[0].to + before
    }
}
