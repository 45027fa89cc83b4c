//! Spans of virtual time as users write them.

use doorbell_verbs::Span;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A span of virtual time, written as `2ms`, `500us` or `1.5ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Duration(Span);

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadDuration {
    /// It does not have the form of a duration.
    #[error("`{0}` is not a duration; write a number and one of ps, ns, us, ms, s, such as 2ms")]
    Malformed(String),
    /// It has the form of a duration, but exceeds 64 bits of picoseconds.
    #[error("`{0}` is too long, durations are at most {seconds}s", seconds = u64::MAX / UNITS[0].1)]
    TooLong(String),
}

/// Units and their picoseconds, largest first.
const UNITS: [(&str, u64); 5] =
    [("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)];

impl Duration {
    /// The duration of this span.
    pub const fn new(span: Span) -> Duration {
        Duration(span)
    }

    /// The duration as a span of virtual time.
    pub const fn span(self) -> Span {
        self.0
    }
}

/// Picoseconds of `number` units of `scale` picoseconds each, if they are a whole number. The result
/// saturates.
fn scaled(number: &str, scale: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 12 {
        return None;
    }
    // Digits fail to parse only if there are too many.
    let whole = whole.parse().unwrap_or(u128::MAX).saturating_mul(scale.into());
    let parts = fraction.parse::<u128>().ok()? * u128::from(scale);
    let unit = 10u128.pow(fraction.len() as u32);
    parts.is_multiple_of(unit).then(|| whole.saturating_add(parts / unit))
}

impl FromStr for Duration {
    type Err = BadDuration;

    fn from_str(text: &str) -> Result<Duration, BadDuration> {
        let bad = || BadDuration::Malformed(text.to_owned());
        let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(bad)?;
        let (number, unit) = text.split_at(unit_at);
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
        let ps = scaled(number.trim_end(), *scale).ok_or_else(bad)?;
        let ps = u64::try_from(ps).map_err(|_| BadDuration::TooLong(text.to_owned()))?;
        Ok(Duration(Span::from_ps(ps)))
    }
}

impl TryFrom<String> for Duration {
    type Error = BadDuration;

    fn try_from(text: String) -> Result<Duration, BadDuration> {
        text.parse()
    }
}

impl From<Duration> for String {
    fn from(duration: Duration) -> String {
        duration.to_string()
    }
}

impl fmt::Display for Duration {
    /// Formats in the largest unit that gives a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ps = self.0.as_ps();
        let unit = UNITS.iter().find(|(_, scale)| ps >= *scale && ps.is_multiple_of(*scale));
        let (name, scale) = unit.unwrap_or(&("s", 1));
        write!(f, "{}{name}", ps / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for (text, ps, shown) in [
            ("2ms", 2_000_000_000, "2ms"),
            ("500us", 500_000_000, "500us"),
            ("1.5ms", 1_500_000_000, "1500us"),
            ("1000us", 1_000_000_000, "1ms"),
            ("7 ns", 7_000, "7ns"),
            ("0.001ns", 1, "1ps"),
            ("0s", 0, "0s"),
        ] {
            let d: Duration = text.parse().unwrap();
            assert_eq!(d.span().as_ps(), ps, "{text}");
            assert_eq!(d.to_string(), shown, "{text}");
            assert_eq!(d.to_string().parse::<Duration>().unwrap(), d, "{text}");
        }
    }

    #[test]
    fn refuses() {
        for text in ["", "2", "ms", "2m", "-1ms", "1e3ms", "1..5ms", ".5ms", "0.0001ns", "9e99s"] {
            assert_eq!(text.parse::<Duration>(), Err(BadDuration::Malformed(text.into())));
        }
        let endless = "9".repeat(60) + "ms";
        for text in ["99999999999s", "18446744.1s", "18446744073709551616ps", endless.as_str()] {
            let error = text.parse::<Duration>().unwrap_err();
            assert_eq!(error, BadDuration::TooLong(text.into()));
            assert!(error.to_string().ends_with("is too long, durations are at most 18446744s"), "{error}");
        }
        assert!("18446744s".parse::<Duration>().is_ok());
    }
}
