//! Arrival processes of operations.

use crate::Duration;
use doorbell_verbs::Span;
use serde::{Deserialize, Serialize};

/// When operations are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// When earlier ones have ended: a closed loop.
    Closed,
    /// At equal distances: an open loop.
    Fixed,
    /// As a Poisson process: an open loop.
    Poisson,
}

impl Arrivals {
    /// All names, in the order of the variants.
    pub const NAMES: &'static [&'static str] = &["closed", "fixed", "poisson"];

    /// Name in options and files.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether operations are due regardless of earlier ones.
    pub fn is_open(self) -> bool {
        self != Arrivals::Closed
    }

    /// Checks that other options fit these arrivals. `waits` names the things that think in the message.
    /// `windows` is the option by which a window begins when the previous one has ended, if it is given.
    ///
    /// # Errors
    /// One sentence if an option does not fit.
    pub fn refuse(
        self,
        rate: u64,
        think: Duration,
        waits: &str,
        windows: Option<&str>,
    ) -> Result<(), String> {
        let (arrivals, open) = (self.name(), self.is_open());
        if open && rate == 0 {
            return Err(format!("arrivals are {arrivals}, but no rate is given"));
        }
        if !open && rate > 0 {
            return Err(format!(
                "rate is {rate}, but arrivals are closed: a rate applies to fixed and \
                 poisson only"
            ));
        }
        if open && think.span() > Span::ZERO {
            return Err(format!(
                "think is {think}, but arrivals are {arrivals}: {waits} think only with closed arrivals"
            ));
        }
        match windows.filter(|_| open) {
            Some(said) => Err(format!(
                "{said}, but arrivals are {arrivals}: windows apply to closed \
                 arrivals only"
            )),
            None => Ok(()),
        }
    }
}
