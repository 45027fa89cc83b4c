//! What requests and replies hold: bytes of which each follows from the first, and those of a reply from its request's.

use crate::herd::Message;

/// A request or a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text(Vec<u8>);

/// Bytes that begin with this one. The step is odd, so that equal bytes are 256 apart.
fn run(first: u8, length: u32) -> Vec<u8> {
    (0..length).map(|at| first.wrapping_add((at as u8).wrapping_mul(37))).collect()
}

impl Text {
    /// A client's request of this number. Those that it has outstanding at a time begin with another byte each, where
    /// they are up to 256.
    pub(super) fn request(client: u32, number: u64, length: u32) -> Text {
        Text(run((number as u8).wrapping_add((client as u8).wrapping_mul(101)), length))
    }

    /// The reply to this, of another length.
    pub(super) fn reply(&self, length: u32) -> Text {
        Text(run(!self.first(), length))
    }

    /// What it begins with; a request without bytes has none.
    fn first(&self) -> u8 {
        self.0.first().copied().unwrap_or(0)
    }

    /// Its bytes.
    pub(super) fn length(&self) -> u32 {
        self.0.len() as u32
    }
}

impl Message for Text {
    fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.0);
    }

    /// Bytes of which one does not follow from the first were torn.
    fn decode(bytes: &[u8]) -> Option<Text> {
        let text = Text(bytes.to_vec());
        (run(text.first(), text.length()) == bytes).then_some(text)
    }
}
