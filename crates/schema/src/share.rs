//! Shares as users write them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A share, written as `1%` or `0.25%`: a whole number of millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Share(u32);

/// A text that is not a share.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a share; write a number with at most four decimals and %, such as 1% or 0.5%")]
pub struct BadShare(String);

/// Millionths in a percent.
const PERCENT: u32 = 10_000;

impl Share {
    /// A share of this many millionths.
    pub const fn of_millionths(millionths: u32) -> Share {
        Share(millionths)
    }

    /// A share of this many percent.
    pub const fn of_percent(percent: u32) -> Share {
        Share(percent * PERCENT)
    }

    /// The share in millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// The share as a fraction of one.
    pub fn of_one(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}

impl FromStr for Share {
    type Err = BadShare;

    fn from_str(text: &str) -> Result<Share, BadShare> {
        let bad = || BadShare(text.to_owned());
        let number = text.strip_suffix('%').ok_or_else(bad)?.trim_end();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 4 {
            return Err(bad());
        }
        let whole: u32 = whole.parse().map_err(|_| bad())?;
        let parts: u32 = format!("{fraction:0<4}").parse().map_err(|_| bad())?;
        let all = whole.checked_mul(PERCENT).and_then(|all| all.checked_add(parts));
        all.map(Share).ok_or_else(bad)
    }
}

impl TryFrom<String> for Share {
    type Error = BadShare;

    fn try_from(text: String) -> Result<Share, BadShare> {
        text.parse()
    }
}

impl From<Share> for String {
    fn from(share: Share) -> String {
        share.to_string()
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, parts) = (self.0 / PERCENT, self.0 % PERCENT);
        match parts {
            0 => write!(f, "{whole}%"),
            _ => write!(f, "{whole}.{}%", format!("{parts:04}").trim_end_matches('0')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for (text, millionths, shown) in [
            ("1%", 10_000, "1%"),
            ("0.5 %", 5_000, "0.5%"),
            ("0.0001%", 1, "0.0001%"),
            ("100.0%", 1_000_000, "100%"),
            ("0%", 0, "0%"),
        ] {
            let share: Share = text.parse().unwrap();
            assert_eq!((share, share.to_string().as_str()), (Share::of_millionths(millionths), shown));
        }
        assert_eq!(Share::of_percent(2).of_one(), 0.02);
    }

    #[test]
    fn refuses() {
        for text in ["", "1", "%", "-1%", "1.%", ".5%", "0.00001%", "1e1%", "99999999%", "one%"] {
            assert_eq!(text.parse::<Share>(), Err(BadShare(text.into())));
        }
    }
}
