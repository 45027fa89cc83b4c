//! Strict mode, and its form in the environment.

use crate::modes::NamedMode;
use crate::variables;
use std::sync::OnceLock;

/// The reaction to a mistake of the program that would fail on a NIC, although the software NIC tolerates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strict {
    /// Print the mistake, and end the program by SIGABRT.
    Fail,
    /// Print the mistake.
    Warn,
}

impl NamedMode for Strict {
    const ALL: &'static [Strict] = &[Strict::Fail, Strict::Warn];

    fn name(self) -> &'static str {
        match self {
            Strict::Fail => "fail",
            Strict::Warn => "warn",
        }
    }
}

impl Strict {
    /// The mode that the environment of this process selects; `None` without strict mode.
    pub fn own() -> Option<Strict> {
        static OWN: OnceLock<Option<Strict>> = OnceLock::new();
        *OWN.get_or_init(|| {
            let value = std::env::var(variables::STRICT).ok()?;
            Strict::named(&value)
        })
    }
}
