//! The verbs that carry requests and replies.

use super::slots::Tail;
use crate::names::named;
use doorbell_verbs::QpType;

/// Bytes of the longest message over UD, and over other transports. The field for the length has 16 bits.
const LONGEST_DATAGRAM: u32 = 4000;
const LONGEST: u32 = 60_000;

named! {
    /// How requests travel.
    Requests {
        /// By UC WRITE into the request region.
        WriteUc = "write-uc",
        /// By RC WRITE into the request region.
        WriteRc = "write-rc",
        /// By UD SEND.
        SendUd = "send-ud",
        /// By UC SEND.
        SendUc = "send-uc",
        /// By RC SEND.
        SendRc = "send-rc",
    }
    /// How replies travel.
    Replies {
        /// By UD SEND.
        SendUd = "send-ud",
        /// By UC SEND.
        SendUc = "send-uc",
        /// By RC SEND.
        SendRc = "send-rc",
        /// By UC WRITE into a region of the client.
        WriteUc = "write-uc",
        /// By RC WRITE into a region of the client.
        WriteRc = "write-rc",
        /// By RC READ of the client, which repeats the READ until the reply is there.
        ReadRc = "read-rc",
    }
}

/// All pairs of requests and replies that work together.
pub fn ways() -> impl Iterator<Item = (Requests, Replies)> {
    use Replies as To;
    const REQUESTS: [Requests; 5] =
        [Requests::WriteUc, Requests::WriteRc, Requests::SendUd, Requests::SendUc, Requests::SendRc];
    const REPLIES: [To; 6] = [To::SendUd, To::SendUc, To::SendRc, To::WriteUc, To::WriteRc, To::ReadRc];
    let pairs = REQUESTS.into_iter().flat_map(|requests| REPLIES.map(|replies| (requests, replies)));
    pairs.filter(|(requests, replies)| replies.to(*requests).is_ok())
}

/// Bytes of the longest encoded message over a transport.
const fn longest(transport: QpType) -> u32 {
    match transport {
        QpType::Ud => LONGEST_DATAGRAM,
        QpType::Uc | QpType::Rc => LONGEST,
    }
}

impl Requests {
    /// The transport of the requests.
    pub const fn transport(self) -> QpType {
        match self {
            Requests::SendUd => QpType::Ud,
            Requests::WriteUc | Requests::SendUc => QpType::Uc,
            Requests::WriteRc | Requests::SendRc => QpType::Rc,
        }
    }

    /// Bytes of the longest encoded request.
    pub const fn longest(self) -> u32 {
        longest(self.transport())
    }

    /// Whether requests are SENT, rather than WRITTEN.
    pub const fn are_sent(self) -> bool {
        matches!(self, Requests::SendUd | Requests::SendUc | Requests::SendRc)
    }
}

impl Replies {
    /// The transport of the replies.
    pub const fn transport(self) -> QpType {
        match self {
            Replies::SendUd => QpType::Ud,
            Replies::SendUc | Replies::WriteUc => QpType::Uc,
            Replies::SendRc | Replies::WriteRc | Replies::ReadRc => QpType::Rc,
        }
    }

    /// Bytes of the longest encoded reply.
    pub const fn longest(self) -> u32 {
        longest(self.transport())
    }

    /// Checks that these replies go together with `requests`.
    ///
    /// # Errors
    /// One sentence that says why they do not.
    pub fn to(self, requests: Requests) -> Result<(), String> {
        let (back, there) = (self.transport(), requests.transport());
        match back == QpType::Ud || back == there {
            true => Ok(()),
            false => Err(format!(
                "replies over {back} use the connection of the requests, but the requests are over {there}"
            )),
        }
    }

    /// The bytes after the text of a reply in its slot.
    pub(super) const fn tail(self) -> Tail {
        match self {
            Replies::SendUd | Replies::SendUc | Replies::SendRc => Tail::None,
            Replies::WriteUc | Replies::WriteRc => Tail::Trailer,
            Replies::ReadRc => Tail::Checked,
        }
    }

    /// Whether the server WRITEs the replies.
    pub(super) const fn are_written(self) -> bool {
        matches!(self, Replies::WriteUc | Replies::WriteRc)
    }

    /// Whether the server posts the replies to connections.
    pub(super) const fn are_posted_to_connections(self) -> bool {
        self.are_written() || matches!(self, Replies::SendUc | Replies::SendRc)
    }
}
