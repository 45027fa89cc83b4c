//! The immediates of requests and replies, and the keys of their operations.

use doorbell_verbs::OperationKey;

/// Bits of the sequence number, and of the worker, in a reply's immediate.
pub(super) const SEQUENCE_BITS: u32 = 22;
pub(super) const WORKER_BITS: u32 = 8;

/// The result of a request, besides its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// The request was executed.
    Ok = 0,
    /// The request is too long, or cannot be decoded.
    Malformed = 1,
}

impl Status {
    pub(super) fn from_bits(bits: u32) -> Option<Status> {
        [Status::Ok, Status::Malformed].into_iter().find(|status| *status as u32 == bits)
    }
}

pub(super) fn to_imm(status: Status, worker: u32, sequence: u32) -> u32 {
    (status as u32) << 30 | worker << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1)
}

/// The immediate of a request that is SENT.
pub(super) fn to_request_imm(client: u32, sequence: u32) -> u32 {
    client << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1)
}

/// Low bits of a client's number that a request's immediate carries.
const CLIENT_BITS: u32 = u32::BITS - SEQUENCE_BITS;
/// Maximum number of clients whose numbers differ in these bits.
pub(super) const TOLD_APART: u32 = 1 << CLIENT_BITS;

/// The keys of the operations of a client, for tracers.
#[derive(Clone, Copy)]
pub(super) struct OperationKeys {
    client: u32,
}

impl OperationKeys {
    /// The keys of requests that carry `client` as the number of their client. Client and worker know this
    /// number.
    pub(super) fn of_client(client: u32) -> OperationKeys {
        OperationKeys { client }
    }

    /// The key of a request's operation. Only those bits of `sequence` count that an immediate carries.
    pub(super) fn of(self, worker: u32, sequence: u32) -> OperationKey {
        let low = u64::from(sequence & ((1 << SEQUENCE_BITS) - 1));
        OperationKey(1 << 63 | u64::from(worker) << 48 | u64::from(self.client) << SEQUENCE_BITS | low)
    }
}

/// Low bits of the client's number and of the sequence number, from the immediate of a request.
pub(super) fn from_request_imm(imm: u32) -> (u32, u32) {
    (imm >> SEQUENCE_BITS, imm & ((1 << SEQUENCE_BITS) - 1))
}

/// Status, worker and low bits of the sequence number, from the immediate of a reply.
pub(super) fn from_imm(imm: u32) -> (Option<Status>, u32, u32) {
    (
        Status::from_bits(imm >> 30),
        imm >> SEQUENCE_BITS & ((1 << WORKER_BITS) - 1),
        imm & ((1 << SEQUENCE_BITS) - 1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn immediates_keep_what_they_carry(worker in 0..256u32, sequence: u32) {
            for status in [Status::Ok, Status::Malformed] {
                let (s, w, low) = from_imm(to_imm(status, worker, sequence));
                prop_assert_eq!((s, w, low), (Some(status), worker, sequence & 0x3f_ffff));
            }
        }
    }

    proptest! {
        #[test]
        fn immediates_of_requests_keep_who_asks(client in 0..1u32 << 20, sequence: u32) {
            prop_assert_eq!(from_request_imm(to_request_imm(client, sequence)), (client & 0x3ff, sequence & 0x3f_ffff));
        }
    }
}
