//! Contents of requests and replies. The first byte determines all others, and the request determines the
//! reply.

use crate::herd::Message;

/// A request or a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text(Vec<u8>);

/// A run of bytes that begins with `first`. The step is odd, so a byte repeats only after 256 bytes.
fn run(first: u8, length: u32) -> Vec<u8> {
    (0..length).map(|at| first.wrapping_add((at as u8).wrapping_mul(37))).collect()
}

impl Text {
    /// Request `number` of a client. Up to 256 consecutive requests of a client begin with different bytes.
    pub(super) fn request(client: u32, number: u64, length: u32) -> Text {
        Text(run((number as u8).wrapping_add((client as u8).wrapping_mul(101)), length))
    }

    /// The reply to this request, with `length` bytes.
    pub(super) fn reply(&self, length: u32) -> Text {
        Text(run(!self.first(), length))
    }

    /// The first byte; 0 for an empty request.
    fn first(&self) -> u8 {
        self.0.first().copied().unwrap_or(0)
    }

    /// Number of bytes.
    pub(super) fn length(&self) -> u32 {
        self.0.len() as u32
    }
}

impl Message for Text {
    fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.0);
    }

    /// Returns `None` for torn bytes: the first byte does not determine all others.
    fn decode(bytes: &[u8]) -> Option<Text> {
        let text = Text(bytes.to_vec());
        (run(text.first(), text.length()) == bytes).then_some(text)
    }
}
