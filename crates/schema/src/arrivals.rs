//! When operations are due.

use crate::Duration;
use doorbell_verbs::Span;
use serde::{Deserialize, Serialize};

/// When operations are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// When earlier ones have ended: the closed loop.
    Closed,
    /// At equal distances: an open loop.
    Fixed,
    /// As a Poisson process: an open loop.
    Poisson,
}

impl Arrivals {
    /// The names of all.
    pub const NAMES: &'static [&'static str] = &["closed", "fixed", "poisson"];

    /// Its name.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether operations are due whatever becomes of earlier ones.
    pub fn is_open(self) -> bool {
        self != Arrivals::Closed
    }

    /// What does not go together with it: one sentence. `waits` is who thinks, and `windows` says that a window begins
    /// when the one before has ended.
    ///
    /// # Errors
    /// If something does not.
    pub fn refuse(
        self,
        rate: u64,
        think: Duration,
        waits: &str,
        windows: Option<&str>,
    ) -> Result<(), String> {
        let (arrivals, open) = (self.name(), self.is_open());
        if open && rate == 0 {
            return Err(format!("arrivals are {arrivals}, but nothing says at which rate"));
        }
        if !open && rate > 0 {
            return Err(format!("rate is {rate}, but arrivals are closed: a rate is for fixed and poisson"));
        }
        if open && think.span() > Span::ZERO {
            return Err(format!(
                "think is {think}, but arrivals are {arrivals}: {waits} think where they are closed"
            ));
        }
        match windows.filter(|_| open) {
            Some(said) => Err(format!("{said}, but arrivals are {arrivals}: windows are for closed ones")),
            None => Ok(()),
        }
    }
}
