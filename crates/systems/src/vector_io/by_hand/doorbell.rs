//! A WRITE for every record, all with one doorbell.

use super::{RECORDS, Record, completed, connected};
use crate::SystemError;
use crate::device::Device;
use doorbell_verbs::{Cq, Provider, Qp, QpCap, RemoteAddr, SendFlags, SendOp, SendWr};

/// Writes records to the memory server.
pub struct DoorbellStore<P: Provider> {
    qp: Qp<P>,
    cq: Cq<P>,
    memory: RemoteAddr,
}

impl<P: Provider> DoorbellStore<P> {
    /// Opens the store of client `number`.
    ///
    /// # Errors
    /// If a QP cannot be created or connected.
    pub fn open(
        device: &Device<P>,
        number: u32,
        memory: RemoteAddr,
    ) -> Result<DoorbellStore<P>, SystemError> {
        let cap = QpCap { max_send_wr: RECORDS as u32, max_recv_wr: 1, ..QpCap::default() };
        let (qp, cq) = connected(device, number, cap)?;
        Ok(DoorbellStore { qp, cq, memory })
    }

    /// Writes records. The records are at the target when the call returns.
    ///
    /// # Errors
    /// If a WRITE fails.
    pub fn write(&self, records: &[Record]) -> Result<(), SystemError> {
        let sges: Vec<_> = records.iter().map(|record| [record.sge]).collect();
        let mut list: Vec<_> = Vec::with_capacity(records.len());
        for (record, sge) in records.iter().zip(&sges) {
            list.push(SendWr::new(0, SendOp::Write(self.memory.at(record.to)), sge));
        }
        if let Some(last) = list.last_mut() {
            last.flags = SendFlags::SIGNALED;
            self.qp.post_send(&list)?;
            completed(&self.cq)?;
        }
        Ok(())
    }

    /// The offset, at the target, of record `number` of a call.
    pub fn place(records: &[Record], number: usize) -> u64 {
        records[number].to
    }
}
