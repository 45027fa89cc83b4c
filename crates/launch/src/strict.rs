//! Strict mode, as the command line and the environment select it.

use crate::variables;
use std::sync::OnceLock;

/// The reaction to a program that does something that would not work on a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strict {
    /// It is reported, and the program ends by SIGABRT.
    Fail,
    /// It is reported.
    Warn,
}

impl Strict {
    /// The mode's name in the environment.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Strict::Fail => "fail",
            Strict::Warn => "warn",
        }
    }

    /// The mode that the environment of this process selects; `None` without strict mode.
    pub fn own() -> Option<Strict> {
        static OWN: OnceLock<Option<Strict>> = OnceLock::new();
        *OWN.get_or_init(|| {
            let value = std::env::var(variables::STRICT).ok()?;
            [Strict::Fail, Strict::Warn].into_iter().find(|strict| strict.name() == value)
        })
    }
}
