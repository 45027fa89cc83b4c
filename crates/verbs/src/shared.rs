//! Queue pairs that several threads of a machine use.

use crate::{CqHandle, PdHandle, QpHandle, QpType, VerbsError};

/// A queue pair that its thread lets other threads of its machine use, with its PD and its CQs. It is plain
/// data for [`crate::Provider::publish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedQp {
    /// The QP.
    pub qp: QpHandle,
    /// Number of the QP.
    pub qp_num: u32,
    /// Transport of the QP.
    pub qp_type: QpType,
    /// Protection domain of the QP.
    pub pd: PdHandle,
    /// CQ of the send queue.
    pub send_cq: CqHandle,
    /// CQ of the receive queue.
    pub recv_cq: CqHandle,
}

impl SharedQp {
    /// Bytes of an encoded QP: five numbers and the transport.
    pub const BYTES: usize = 21;

    /// Encodes the QP.
    pub fn to_bytes(&self) -> [u8; SharedQp::BYTES] {
        let numbers = [self.qp.0, self.qp_num, self.pd.0, self.send_cq.0, self.recv_cq.0];
        let mut out = [0; SharedQp::BYTES];
        out.as_chunks_mut::<4>()
            .0
            .iter_mut()
            .zip(numbers)
            .for_each(|(to, number)| *to = number.to_be_bytes());
        out[SharedQp::BYTES - 1] = match self.qp_type {
            QpType::Rc => 0,
            QpType::Uc => 1,
            QpType::Ud => 2,
        };
        out
    }

    /// The inverse of [`SharedQp::to_bytes`].
    ///
    /// # Errors
    /// If the bytes are not those of a QP.
    pub fn from_bytes(bytes: &[u8]) -> Result<SharedQp, VerbsError> {
        let wrong =
            || VerbsError::Invalid("a thread published invalid data about a QP that it shares".into());
        let bytes: [u8; SharedQp::BYTES] = bytes.try_into().map_err(|_| wrong())?;
        let (numbers, qp_type) = bytes.as_chunks::<4>();
        let [qp, qp_num, pd, send_cq, recv_cq] = numbers else { return Err(wrong()) };
        let number = |of: &[u8; 4]| u32::from_be_bytes(*of);
        let qp_type = match qp_type {
            [0] => QpType::Rc,
            [1] => QpType::Uc,
            [2] => QpType::Ud,
            _ => return Err(wrong()),
        };
        Ok(SharedQp {
            qp: QpHandle(number(qp)),
            qp_num: number(qp_num),
            qp_type,
            pd: PdHandle(number(pd)),
            send_cq: CqHandle(number(send_cq)),
            recv_cq: CqHandle(number(recv_cq)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_qp_is_read_as_it_was_written() {
        for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
            let shared = SharedQp {
                qp: QpHandle(0x0100_0002),
                qp_num: 66,
                qp_type,
                pd: PdHandle(3),
                send_cq: CqHandle(4),
                recv_cq: CqHandle(u32::MAX),
            };
            assert_eq!(SharedQp::from_bytes(&shared.to_bytes()), Ok(shared));
        }
        assert!(SharedQp::from_bytes(&[0; 20]).is_err());
        assert!(SharedQp::from_bytes(&[3; 21]).is_err());
    }
}
