//! The seam between the RPCs and what they are for.

use doorbell_verbs::Cpu;

/// A request or a reply.
pub trait Message: Sized {
    /// Appends its bytes.
    fn encode(&self, into: &mut Vec<u8>);

    /// The inverse of [`Message::encode`]; `None` where `bytes` are no such message.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// Executes requests; each worker has one of its own.
pub trait Handler {
    /// What clients ask.
    type Request: Message;
    /// What they are told.
    type Reply: Message;

    /// Executes a batch: appends the reply of each request, in order.
    fn handle<C: Cpu>(&mut self, cpu: &C, requests: &[Self::Request], replies: &mut Vec<Self::Reply>);
}

/// Nothing to say: a message without bytes.
impl Message for () {
    fn encode(&self, _: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
}

/// A number, in the order of the network.
impl Message for u64 {
    fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<u64> {
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    }
}
