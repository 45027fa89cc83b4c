//! Strict mode, as the command line and the environment have it.

use crate::variables;
use std::sync::OnceLock;

/// What follows where a program does what would not work on a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strict {
    /// It is said, and the program is ended by SIGABRT.
    Fail,
    /// It is said.
    Warn,
}

impl Strict {
    /// As the environment has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Strict::Fail => "fail",
            Strict::Warn => "warn",
        }
    }

    /// The mode that the environment of this process asks for.
    pub fn own() -> Option<Strict> {
        static OWN: OnceLock<Option<Strict>> = OnceLock::new();
        *OWN.get_or_init(|| {
            let value = std::env::var(variables::STRICT).ok()?;
            [Strict::Fail, Strict::Warn].into_iter().find(|strict| strict.name() == value)
        })
    }
}
