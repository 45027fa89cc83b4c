//! Parameters of ping-pong.

use crate::config::Timing;
use crate::names::named;
use doorbell_schema::{Field, schema};
use doorbell_verbs::QpType;

/// Maximum bytes of a message, other than a datagram.
const LARGEST: u32 = 64 << 20;
/// The highest number of a core.
const CORES: u64 = 255;
/// Bytes up to which payload is inlined if no parameter says otherwise. perftest's latency tests of WRITE
/// have this value.
const INLINE: u32 = 220;

named! {
    /// The verb and transport of messages.
    Message {
        /// RC WRITE.
        WriteRc = "write-rc",
        /// UC WRITE.
        WriteUc = "write-uc",
        /// RC SEND.
        SendRc = "send-rc",
        /// UC SEND.
        SendUc = "send-uc",
        /// UD SEND.
        SendUd = "send-ud",
        /// RC READ by the client. The server does not answer.
        ReadRc = "read-rc",
    }
}

schema! {
    /// Ping-pong of two threads.
    pub struct PingPong {
        groups {
            /// When the run measures.
            timing: Timing,
        }
        /// Verb and transport of messages, both ways. A READ gets no answer.
        message: Message = Field::name(Message::NAMES),
        /// Payload in bytes.
        size: u32 = Field::bytes(0, u32::MAX as u64),
        /// Core of the client; cores are numbered socket by socket.
        core: u32 = Field::count(0, CORES),
        /// A core of the socket that has the client's buffers.
        memory_core: u32 = Field::count(0, CORES),
        /// Core of the peer that answers.
        peer_core: u32 = Field::count(0, CORES),
        /// A core of the socket that has the peer's buffers.
        peer_memory_core: u32 = Field::count(0, CORES),
        /// Largest payload that is inline, in bytes; in ping-pong 220 without this option, in vector I/O only
        /// if the pieces are copied or there is one piece.
        inline_bytes: Option<u32> = Field::bytes(0, 1024),
    }
}

impl Message {
    /// The transport of the message.
    pub const fn transport(self) -> QpType {
        match self {
            Message::WriteRc | Message::SendRc | Message::ReadRc => QpType::Rc,
            Message::WriteUc | Message::SendUc => QpType::Uc,
            Message::SendUd => QpType::Ud,
        }
    }

    /// Whether the message is WRITTEN.
    pub const fn is_written(self) -> bool {
        matches!(self, Message::WriteRc | Message::WriteUc)
    }

    /// Whether the message is SENT, so that it needs a RECV.
    pub const fn is_sent(self) -> bool {
        matches!(self, Message::SendRc | Message::SendUc | Message::SendUd)
    }
}

impl PingPong {
    /// Ping-pong of messages of `size` bytes, between two threads on the first cores of their machines.
    pub const fn of(message: Message, size: u32, timing: Timing) -> PingPong {
        PingPong {
            timing,
            message,
            size,
            core: 0,
            memory_core: 0,
            peer_core: 0,
            peer_memory_core: 0,
            inline_bytes: None,
        }
    }

    /// Bytes up to which payload is inlined, if the device allows it.
    pub(super) fn inlines(&self) -> u32 {
        self.inline_bytes.unwrap_or(INLINE)
    }

    /// Returns one sentence if parameters do not go together.
    pub(super) fn refuse(&self) -> Result<(), String> {
        let PingPong { message, size, .. } = *self;
        if size == 0 && message.is_written() {
            return Err("size is 0, but the receiver of a WRITE polls the last byte: use at least 1".into());
        }
        if size > LARGEST {
            return Err(format!("size is {size}, but a message of ping-pong has at most {LARGEST} bytes"));
        }
        Ok(())
    }
}
