//! Coherence of caches: the states of MESIF, and the effect of an agent's request on the copies of other
//! agents.
//!
//! An agent is a socket with all its caches (its last level includes the other levels), or the I/O hub. Names
//! of requests, snoops and responses are those of QPI (Intel Xeon Processor 7500 Series Uncore Programming
//! Guide, 323535). `docs/hierarchy.md` has the rules as a table, which a test makes from these functions.

/// State of a line at an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Mesif {
    /// The agent does not hold the line.
    #[default]
    Invalid,
    /// Other agents hold the line, too.
    Shared,
    /// Other agents hold the line, too, and this agent answers requests for it.
    Forward,
    /// Only this agent holds the line, with memory's bytes.
    Exclusive,
    /// Only this agent holds the line, and its bytes are newer than memory's.
    Modified,
}

/// A request of an agent to all other agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CoherenceRequest {
    /// Read to E, F or S.
    RdData,
    /// A snapshot that the requester does not keep. I/O agents read by snapshots.
    RdCur,
    /// Read with ownership.
    RdInvOwn,
    /// Ownership without data, for a line that is written as a whole.
    InvItoE,
}

/// A snoop: the question that a request puts to each other agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Snoop {
    /// For RdData.
    SnpData,
    /// For RdCur.
    SnpCur,
    /// For RdInvOwn.
    SnpInvOwn,
    /// For InvItoE.
    SnpInvItoE,
}

/// The response of a snooped agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Response {
    /// The agent does not hold the line, or no longer.
    RspI,
    /// The agent holds the line shared. Memory has the data.
    RspS,
    /// Data goes to the requester. The copy stays as it is.
    RspFwd,
    /// Data goes to the requester. A shared copy stays.
    RspFwdS,
    /// Data goes to the requester. A shared copy stays. Memory is updated.
    RspFwdSWb,
    /// Data goes to the requester. No copy stays. Memory is updated.
    RspFwdIWb,
    /// No copy stays. Memory is updated.
    RspIWb,
}

/// The result of a snoop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snooped {
    pub(crate) response: Response,
    /// The snooped agent's state afterwards.
    pub(crate) state: Mesif,
}

impl CoherenceRequest {
    /// The snoop that the request sends to other agents.
    pub(crate) const fn snoop(self) -> Snoop {
        match self {
            CoherenceRequest::RdData => Snoop::SnpData,
            CoherenceRequest::RdCur => Snoop::SnpCur,
            CoherenceRequest::RdInvOwn => Snoop::SnpInvOwn,
            CoherenceRequest::InvItoE => Snoop::SnpInvItoE,
        }
    }

    /// The requester's state afterwards. `shared` says that another agent keeps a copy.
    pub(crate) const fn granted(self, shared: bool) -> Mesif {
        match (self, shared) {
            (CoherenceRequest::RdCur, _) => Mesif::Invalid,
            (CoherenceRequest::RdData, true) => Mesif::Forward,
            (CoherenceRequest::RdData | CoherenceRequest::RdInvOwn | CoherenceRequest::InvItoE, _) => {
                Mesif::Exclusive
            }
        }
    }
}

impl Response {
    /// Whether memory is updated.
    pub(crate) const fn writes_back(self) -> bool {
        matches!(self, Response::RspFwdSWb | Response::RspFwdIWb | Response::RspIWb)
    }

    /// Whether the data comes from the responding agent, not from memory.
    pub(crate) const fn forwards(self) -> bool {
        matches!(self, Response::RspFwd | Response::RspFwdS | Response::RspFwdSWb | Response::RspFwdIWb)
    }
}

impl Mesif {
    /// Whether the agent holds the line.
    pub(crate) const fn is_valid(self) -> bool {
        !matches!(self, Mesif::Invalid)
    }

    /// Whether no other agent holds the line.
    pub(crate) const fn is_owned(self) -> bool {
        matches!(self, Mesif::Exclusive | Mesif::Modified)
    }

    /// The effect of another agent's snoop on a line in this state.
    pub(crate) const fn snooped(self, snoop: Snoop) -> Snooped {
        let (response, state) = match (snoop, self) {
            (_, Mesif::Invalid) => (Response::RspI, Mesif::Invalid),
            (Snoop::SnpData, Mesif::Shared) => (Response::RspS, Mesif::Shared),
            (Snoop::SnpData, Mesif::Forward | Mesif::Exclusive) => (Response::RspFwdS, Mesif::Shared),
            (Snoop::SnpData, Mesif::Modified) => (Response::RspFwdSWb, Mesif::Shared),
            (Snoop::SnpCur, Mesif::Shared) => (Response::RspS, Mesif::Shared),
            (Snoop::SnpCur, state) => (Response::RspFwd, state),
            (Snoop::SnpInvOwn, Mesif::Modified) => (Response::RspFwdIWb, Mesif::Invalid),
            (Snoop::SnpInvItoE, Mesif::Modified) => (Response::RspIWb, Mesif::Invalid),
            (Snoop::SnpInvOwn | Snoop::SnpInvItoE, _) => (Response::RspI, Mesif::Invalid),
        };
        Snooped { response, state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    const STATES: [Mesif; 5] =
        [Mesif::Invalid, Mesif::Shared, Mesif::Forward, Mesif::Exclusive, Mesif::Modified];
    const REQUESTS: [CoherenceRequest; 4] = [
        CoherenceRequest::RdData,
        CoherenceRequest::RdCur,
        CoherenceRequest::RdInvOwn,
        CoherenceRequest::InvItoE,
    ];

    /// The rules as they appear in the docs.
    fn table() -> String {
        let mut text = String::from("| request | snoop | requester has then |");
        for state in STATES {
            let _ = write!(text, " {state:?} here |");
        }
        text += "\n|---|---|---|---|---|---|---|---|\n";
        for request in REQUESTS {
            let [alone, shared] = [false, true].map(|shared| request.granted(shared));
            let granted =
                if alone == shared { format!("{alone:?}") } else { format!("{alone:?}, or {shared:?}") };
            let _ = write!(text, "| {request:?} | {:?} | {granted} |", request.snoop());
            for state in STATES {
                let Snooped { response, state } = state.snooped(request.snoop());
                let _ = write!(text, " {response:?}, {state:?} |");
            }
            text += "\n";
        }
        text
    }

    #[test]
    fn the_docs_have_the_rules() {
        let docs = include_str!("../../../../../docs/hierarchy.md");
        assert!(docs.contains(&table()), "docs/hierarchy.md should have:\n{}", table());
    }

    #[test]
    fn there_is_one_owner() {
        for (request, state) in REQUESTS.iter().flat_map(|r| STATES.map(|s| (r, s))) {
            let Snooped { response, state: left } = state.snooped(request.snoop());
            let granted = request.granted(left.is_valid());
            assert!(!(granted.is_owned() && left.is_valid()), "{request:?} of a line in {state:?}");
            // A modified line is written to memory when its agent no longer keeps it modified.
            assert_eq!(response.writes_back(), state == Mesif::Modified && left != Mesif::Modified);
            assert!(!response.forwards() || state.is_valid());
        }
    }
}
