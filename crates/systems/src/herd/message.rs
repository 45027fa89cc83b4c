//! The interface between the RPCs and the systems that use them.

use doorbell_verbs::Cpu;

/// A request or a reply.
pub trait Message: Sized {
    /// Appends the encoded message to `into`.
    fn encode(&self, into: &mut Vec<u8>);

    /// Decodes a message that [`Message::encode`] has encoded; `None` if `bytes` are not such a message.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// Executes requests. Each worker has a handler of its own.
pub trait Handler {
    /// A request of a client.
    type Request: Message;
    /// The reply to a request.
    type Reply: Message;

    /// Executes a batch: appends the reply of each request, in order.
    fn handle<C: Cpu>(&mut self, cpu: &C, requests: &[Self::Request], replies: &mut Vec<Self::Reply>);
}

/// A message without content and bytes.
impl Message for () {
    fn encode(&self, _: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
}

/// A number as 8 bytes in network byte order.
impl Message for u64 {
    fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<u64> {
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    }
}
