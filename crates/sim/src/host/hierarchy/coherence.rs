//! Who may hold a line how: the states of MESIF, and what a request of one agent does to the others' copies.
//!
//! Agents are a socket, for all its caches (its last level includes the others), and the I/O hub. Names of
//! requests, snoops and answers are those of QPI (Intel Xeon Processor 7500 Series Uncore Programming Guide,
//! 323535). `docs/hierarchy.md` has the rules as a table, made from these functions.

/// State of a line at an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Mesif {
    /// Not there.
    #[default]
    Invalid,
    /// There, and at others.
    Shared,
    /// There, and at others; answers for all.
    Forward,
    /// There alone, as memory has it.
    Exclusive,
    /// There alone, newer than memory has it.
    Modified,
}

/// What an agent asks of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CoherenceRequest {
    /// Read to E, F or S.
    RdData,
    /// A snapshot that the requester does not keep; I/O agents read so.
    RdCur,
    /// Read with ownership.
    RdInvOwn,
    /// Ownership without data, for a line that is written as a whole.
    InvItoE,
}

/// What others are asked.
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

/// How a snooped agent answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Response {
    /// It is not there, or no longer.
    RspI,
    /// It is there shared; memory has the data.
    RspS,
    /// Data go to the requester; the copy stays as it is.
    RspFwd,
    /// Data go to the requester; a shared copy stays.
    RspFwdS,
    /// Data go to the requester; a shared copy stays; memory is brought up to date.
    RspFwdSWb,
    /// Data go to the requester; no copy stays; memory is brought up to date.
    RspFwdIWb,
    /// No copy stays; memory is brought up to date.
    RspIWb,
}

/// What a snoop comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snooped {
    pub(crate) response: Response,
    /// The state afterwards.
    pub(crate) state: Mesif,
}

impl CoherenceRequest {
    /// What others are asked.
    pub(crate) const fn snoop(self) -> Snoop {
        match self {
            CoherenceRequest::RdData => Snoop::SnpData,
            CoherenceRequest::RdCur => Snoop::SnpCur,
            CoherenceRequest::RdInvOwn => Snoop::SnpInvOwn,
            CoherenceRequest::InvItoE => Snoop::SnpInvItoE,
        }
    }

    /// The requester's state afterwards. `shared`: somebody keeps a copy.
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
    /// Whether memory is brought up to date.
    pub(crate) const fn writes_back(self) -> bool {
        matches!(self, Response::RspFwdSWb | Response::RspFwdIWb | Response::RspIWb)
    }

    /// Whether the data come from the agent that answers, not from memory.
    pub(crate) const fn forwards(self) -> bool {
        matches!(self, Response::RspFwd | Response::RspFwdS | Response::RspFwdSWb | Response::RspFwdIWb)
    }
}

impl Mesif {
    /// Whether the agent has the line.
    pub(crate) const fn is_valid(self) -> bool {
        !matches!(self, Mesif::Invalid)
    }

    /// Whether no other agent has it.
    pub(crate) const fn is_owned(self) -> bool {
        matches!(self, Mesif::Exclusive | Mesif::Modified)
    }

    /// What another agent's request does to a line that is in this state here.
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

    /// The rules as the docs have them.
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
            // What only one had goes to memory before it is nobody's.
            assert_eq!(response.writes_back(), state == Mesif::Modified && left != Mesif::Modified);
            assert!(!response.forwards() || state.is_valid());
        }
    }
}
