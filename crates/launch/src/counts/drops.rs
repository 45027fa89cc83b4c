//! The reasons why a message of UC or UD is lost although it completes with success.

/// Why no receiver took a message of UC or UD (IB specification vol. 1, 9.8), in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropCause {
    /// The cause is not known, or not yet.
    Unknown,
    /// No port has the LID or GID of the path.
    NoPort,
    /// No other QP is attached to the multicast group.
    NoGroup,
    /// No QP has the number any more, or none ever had it.
    NoQp,
    /// The QP is in a state that takes no messages.
    QpState,
    /// The QP is of another type.
    QpType,
    /// The QP is connected to another QP (UC).
    NotConnected,
    /// The Q_Keys differ (UD).
    QKey,
    /// No RECV was posted.
    NoRecv,
    /// The RECV was too small.
    RecvTooSmall,
    /// An lkey of the RECV is not valid for the access.
    RecvMemory,
    /// The rkey is not valid for the access (UC).
    RemoteMemory,
    /// The CQ of the RECVs was full.
    CqFull,
    /// The QP's process is changing or copying its memory, or its memory cannot be reached. A NIC does not
    /// have this obstacle.
    OutOfReach,
    /// `--fault port-down` took the port down.
    PortDown,
    /// `--fault` lost the message.
    Fault,
}

use DropCause::*;

impl DropCause {
    /// All causes, with their names in statistics and with their texts.
    const ALL: [(DropCause, &str, &str); 16] = [
        (Unknown, "unknown", "the cause is not known, because something has changed since"),
        (NoPort, "no-port", "no port has the LID or GID of the path"),
        (NoGroup, "no-group", "no other QP is attached to the multicast group"),
        (NoQp, "no-qp", "no QP has this number"),
        (QpState, "qp-state", "the responder is in a state that takes no messages"),
        (QpType, "qp-type", "the responder is of another type"),
        (NotConnected, "not-connected", "the responder is connected to another QP"),
        (QKey, "q-key", "the responder has another Q_Key"),
        (NoRecv, "no-recv", "the responder had no RECV posted"),
        (RecvTooSmall, "recv-too-small", "the RECV was too small for the message"),
        (RecvMemory, "recv-memory", "an lkey of the RECV does not allow the access"),
        (RemoteMemory, "remote-memory", "the responder does not allow the access to its memory"),
        (CqFull, "cq-full", "the CQ of the responder's RECVs was full"),
        (OutOfReach, "out-of-reach", "the responder's process is busy with its memory, or cannot be reached"),
        (PortDown, "port-down", "--fault port-down took the port down"),
        (Fault, "fault", "--fault lost the message"),
    ];

    /// The name in statistics.
    pub fn name(self) -> &'static str {
        DropCause::ALL[self as usize].1
    }

    /// The cause as text.
    pub fn text(self) -> &'static str {
        DropCause::ALL[self as usize].2
    }

    /// The name of the cause with this number.
    pub(super) fn name_of(number: u64) -> Option<&'static str> {
        DropCause::ALL.get(usize::try_from(number).ok()?).map(|(_, name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_listed_in_their_order() {
        for (at, (cause, name, _)) in DropCause::ALL.into_iter().enumerate() {
            assert_eq!((cause as usize, cause.name()), (at, name));
        }
    }
}
