//! Requests to a store, and its replies.

use super::{KEY_BYTES, Key};
use crate::herd::Message;

/// A request to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Get the value.
    Get(Key),
    /// Get the value if its version differs from this one (ATC'16, 5.2.2: speculation).
    GetIfNot(Key, u32),
    /// Insert or update the value.
    Put(Key, Vec<u8>),
    /// Insert the value if the key is absent.
    Insert(Key, Vec<u8>),
    /// Update the value if the key is present.
    Update(Key, Vec<u8>),
    /// Delete the key.
    Delete(Key),
}

/// A reply of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The request is done, or the version has not changed. The reply has no bytes: a header-only SEND.
    Ok,
    /// The value and its version.
    Value(u32, Vec<u8>),
    /// The key is absent.
    NotFound,
    /// The key is present, so nothing was inserted.
    Exists,
    /// The request was refused, and nothing was done.
    Refused(Refusal),
}

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The value is longer than the store accepts.
    TooLong,
    /// The key belongs to another worker.
    OtherPartition,
}

/// Bytes of a request without its value: opcode, key, and room for a version.
pub(crate) const REQUEST_OVERHEAD: u32 = 1 + KEY_BYTES as u32 + 4;
/// Bytes of a reply without its value: status and version.
pub(crate) const REPLY_OVERHEAD: u32 = 5;

impl Request {
    /// The key of the request.
    pub fn key(&self) -> &Key {
        match self {
            Request::Get(key) | Request::GetIfNot(key, _) | Request::Delete(key) => key,
            Request::Put(key, _) | Request::Insert(key, _) | Request::Update(key, _) => key,
        }
    }
}

impl Message for Request {
    fn encode(&self, into: &mut Vec<u8>) {
        let (opcode, rest): (u8, &[u8]) = match self {
            Request::Get(_) => (1, &[]),
            Request::GetIfNot(_, version) => (2, &version.to_le_bytes()),
            Request::Put(_, value) => (3, value),
            Request::Insert(_, value) => (4, value),
            Request::Update(_, value) => (5, value),
            Request::Delete(_) => (6, &[]),
        };
        into.push(opcode);
        into.extend_from_slice(self.key());
        into.extend_from_slice(rest);
    }

    fn decode(bytes: &[u8]) -> Option<Request> {
        let (&opcode, rest) = bytes.split_first()?;
        let (key, rest) = rest.split_at_checked(KEY_BYTES as usize)?;
        let key: Key = key.try_into().ok()?;
        Some(match (opcode, rest) {
            (1, []) => Request::Get(key),
            (2, version) => Request::GetIfNot(key, u32::from_le_bytes(version.try_into().ok()?)),
            (3, value) => Request::Put(key, value.to_vec()),
            (4, value) => Request::Insert(key, value.to_vec()),
            (5, value) => Request::Update(key, value.to_vec()),
            (6, []) => Request::Delete(key),
            _ => return None,
        })
    }
}

impl Message for Reply {
    fn encode(&self, into: &mut Vec<u8>) {
        match self {
            Reply::Ok => {}
            Reply::Value(version, value) => {
                into.push(1);
                into.extend_from_slice(&version.to_le_bytes());
                into.extend_from_slice(value);
            }
            Reply::NotFound => into.push(2),
            Reply::Exists => into.push(3),
            Reply::Refused(Refusal::TooLong) => into.push(4),
            Reply::Refused(Refusal::OtherPartition) => into.push(5),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Reply> {
        let Some((&status, rest)) = bytes.split_first() else { return Some(Reply::Ok) };
        Some(match (status, rest) {
            (1, rest) => {
                let (version, value) = rest.split_at_checked(4)?;
                Reply::Value(u32::from_le_bytes(version.try_into().ok()?), value.to_vec())
            }
            (2, []) => Reply::NotFound,
            (3, []) => Reply::Exists,
            (4, []) => Reply::Refused(Refusal::TooLong),
            (5, []) => Reply::Refused(Refusal::OtherPartition),
            _ => return None,
        })
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requests() -> impl Strategy<Value = Request> {
        let value = || prop::collection::vec(any::<u8>(), 0..100);
        prop_oneof![
            any::<Key>().prop_map(Request::Get),
            (any::<Key>(), any::<u32>()).prop_map(|(k, v)| Request::GetIfNot(k, v)),
            (any::<Key>(), value()).prop_map(|(k, v)| Request::Put(k, v)),
            (any::<Key>(), value()).prop_map(|(k, v)| Request::Insert(k, v)),
            (any::<Key>(), value()).prop_map(|(k, v)| Request::Update(k, v)),
            any::<Key>().prop_map(Request::Delete),
        ]
    }

    fn replies() -> impl Strategy<Value = Reply> {
        prop_oneof![
            Just(Reply::Ok),
            (any::<u32>(), prop::collection::vec(any::<u8>(), 0..100)).prop_map(|(n, v)| Reply::Value(n, v)),
            Just(Reply::NotFound),
            Just(Reply::Exists),
            Just(Reply::Refused(Refusal::TooLong)),
            Just(Reply::Refused(Refusal::OtherPartition)),
        ]
    }

    proptest! {
        #[test]
        fn requests_survive(request in requests()) {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            prop_assert_eq!(Request::decode(&bytes), Some(request));
        }

        #[test]
        fn replies_survive(reply in replies()) {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            prop_assert_eq!(Reply::decode(&bytes), Some(reply));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (Request::decode(&bytes), Reply::decode(&bytes));
        }
    }
}
