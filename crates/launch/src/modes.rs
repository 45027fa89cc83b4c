//! Modes of the software NIC. Each has a name, on the command line and in the environment.

use crate::say::say;
use crate::variables;
use std::sync::{Once, OnceLock};

/// A mode with a name.
pub trait NamedMode: Copy + 'static {
    /// All modes, in the order of messages.
    const ALL: &'static [Self];

    /// The mode's name.
    fn name(self) -> &'static str;

    /// The mode with this name; `None` if no mode has it.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|mode| mode.name() == name)
    }
}

/// The link layer that the device presents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Link {
    /// InfiniBand: addressed by LID.
    #[default]
    Ib,
    /// Ethernet (RoCE): addressed by GID.
    Roce,
}

impl NamedMode for Link {
    const ALL: &'static [Link] = &[Link::Ib, Link::Roce];

    fn name(self) -> &'static str {
        match self {
            Link::Ib => "ib",
            Link::Roce => "roce",
        }
    }
}

impl Link {
    /// The link layer that the environment of this process selects. Prints a message if the variable has
    /// another value.
    pub fn own() -> Link {
        static OWN: OnceLock<Link> = OnceLock::new();
        *OWN.get_or_init(|| {
            let Ok(value) = std::env::var(variables::LINK) else { return Link::default() };
            Link::named(&value).unwrap_or_else(|| {
                say(format_args!(
                    "{} is {value:?}, but must be ib or roce; the port is InfiniBand",
                    variables::LINK
                ));
                Link::Ib
            })
        })
    }
}

/// When a requester sends a work request again after an RNR NAK, or without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Timers {
    /// When the timers of a NIC expire.
    #[default]
    Nic,
    /// As soon as the work request may succeed.
    Fast,
}

impl NamedMode for Timers {
    const ALL: &'static [Timers] = &[Timers::Nic, Timers::Fast];

    fn name(self) -> &'static str {
        match self {
            Timers::Nic => "nic",
            Timers::Fast => "fast",
        }
    }
}

impl Timers {
    /// The mode that the environment of this process selects.
    pub fn own() -> Timers {
        static OWN: OnceLock<Timers> = OnceLock::new();
        *OWN.get_or_init(|| {
            let value = std::env::var(variables::TIMERS).ok();
            value.and_then(|value| Timers::named(&value)).unwrap_or_default()
        })
    }
}

/// Whether the library may open a process's memory to all processes of its user if Yama forbids them the
/// access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ptrace {
    /// Peers access the process's private memory directly.
    #[default]
    Yes,
    /// Peers access the process's private memory only through a thread of the process, so that it keeps
    /// Yama's protection.
    No,
}

impl NamedMode for Ptrace {
    const ALL: &'static [Ptrace] = &[Ptrace::Yes, Ptrace::No];

    fn name(self) -> &'static str {
        match self {
            Ptrace::Yes => "yes",
            Ptrace::No => "no",
        }
    }
}

impl Ptrace {
    /// The mode that the environment of this process selects. Prints a message once if the variable has
    /// another value.
    pub fn own() -> Ptrace {
        let Ok(value) = std::env::var(variables::PTRACE) else { return Ptrace::default() };
        Ptrace::named(&value).unwrap_or_else(|| {
            static ONCE: Once = Once::new();
            ONCE.call_once(|| {
                say(format_args!(
                    "{} is {value:?}, but must be yes or no; peers cannot access this process's memory directly",
                    variables::PTRACE
                ));
            });
            Ptrace::No
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strict::Strict;
    use std::fmt::Debug;

    fn are_found_by_name<M: NamedMode + Debug + PartialEq>(names: &[&str]) {
        assert_eq!(M::ALL.iter().map(|mode| mode.name()).collect::<Vec<_>>(), names);
        assert!(M::ALL.iter().all(|mode| M::named(mode.name()) == Some(*mode)));
        assert_eq!(M::named(""), None);
    }

    #[test]
    fn modes_are_found_by_their_names() {
        are_found_by_name::<Link>(&["ib", "roce"]);
        are_found_by_name::<Timers>(&["nic", "fast"]);
        are_found_by_name::<Ptrace>(&["yes", "no"]);
        are_found_by_name::<Strict>(&["fail", "warn"]);
    }
}
