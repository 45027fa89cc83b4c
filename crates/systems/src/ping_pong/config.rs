//! Parameters of ping-pong.

use crate::config::Timing;
use crate::names::named;
use doorbell_schema::{Field, schema};
use doorbell_verbs::QpType;

/// Bytes of a message at most, where it is not a datagram.
const LARGEST: u32 = 64 << 20;
/// The last core that a machine may have.
const CORES: u64 = 255;

named! {
    /// How messages travel.
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
        /// RC READ, by the client alone.
        ReadRc = "read-rc",
    }
}

schema! {
    /// Ping-pong of two threads.
    pub struct PingPong {
        groups {
            /// What is measured.
            timing: Timing,
        }
        /// Verb and transport of messages, both ways; a READ has no way back.
        message: Message = Field::name(Message::NAMES),
        /// Payload in bytes.
        size: u32 = Field::bytes(0, u32::MAX as u64),
        /// Core of the client; cores are numbered socket by socket.
        core: u32 = Field::count(0, CORES),
        /// A core at whose socket the client's buffers are.
        memory_core: u32 = Field::count(0, CORES),
        /// Core of who answers.
        peer_core: u32 = Field::count(0, CORES),
        /// A core at whose socket the buffers of who answers are.
        peer_memory_core: u32 = Field::count(0, CORES),
    }
}

impl Message {
    /// Its transport.
    pub const fn transport(self) -> QpType {
        match self {
            Message::WriteRc | Message::SendRc | Message::ReadRc => QpType::Rc,
            Message::WriteUc | Message::SendUc => QpType::Uc,
            Message::SendUd => QpType::Ud,
        }
    }

    /// Whether it is WRITTEN.
    pub const fn is_written(self) -> bool {
        matches!(self, Message::WriteRc | Message::WriteUc)
    }

    /// Whether it is SENT, and takes a RECV.
    pub const fn is_sent(self) -> bool {
        matches!(self, Message::SendRc | Message::SendUc | Message::SendUd)
    }
}

impl PingPong {
    /// By these messages, of two threads at the first cores of their machines.
    pub const fn of(message: Message, size: u32, timing: Timing) -> PingPong {
        PingPong { timing, message, size, core: 0, memory_core: 0, peer_core: 0, peer_memory_core: 0 }
    }

    /// What does not go together: one sentence.
    pub(super) fn refuse(&self) -> Result<(), String> {
        let PingPong { message, size, .. } = *self;
        if size == 0 && message.is_written() {
            return Err("size is 0, but who waits for a WRITE looks at its last byte: use at least 1".into());
        }
        if size > LARGEST {
            return Err(format!("size is {size}, but a message of ping-pong has at most {LARGEST} bytes"));
        }
        Ok(())
    }
}
