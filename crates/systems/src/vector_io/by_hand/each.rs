//! A WRITE for every record.

use super::{Record, completed, connected};
use crate::SystemError;
use crate::device::Device;
use doorbell_verbs::{Cq, Provider, Qp, QpCap, RemoteAddr, SendFlags, SendOp, SendWr};

/// Writes records to the memory server.
pub struct EachStore<P: Provider> {
    qp: Qp<P>,
    cq: Cq<P>,
    memory: RemoteAddr,
}

impl<P: Provider> EachStore<P> {
    /// Opens the store of client `number`.
    ///
    /// # Errors
    /// If a QP cannot be created or connected.
    pub fn open(device: &Device<P>, number: u32, memory: RemoteAddr) -> Result<EachStore<P>, SystemError> {
        let cap = QpCap { max_send_wr: 1, max_recv_wr: 1, ..QpCap::default() };
        let (qp, cq) = connected(device, number, cap)?;
        Ok(EachStore { qp, cq, memory })
    }

    /// Writes records. The records are at the target when the call returns.
    ///
    /// # Errors
    /// If a WRITE fails.
    pub fn write(&self, records: &[Record]) -> Result<(), SystemError> {
        for record in records {
            let sge = [record.sge];
            let wr = SendWr::new(0, SendOp::Write(self.memory.at(record.to)), &sge);
            self.qp.post_send(&[wr.flags(SendFlags::SIGNALED)])?;
            completed(&self.cq)?;
        }
        Ok(())
    }

    /// The offset, at the target, of record `number` of a call.
    pub fn place(records: &[Record], number: usize) -> u64 {
        records[number].to
    }
}
