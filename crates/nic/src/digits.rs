//! Numbers formatted for people.

use std::fmt;

/// Fewest significant digits that a number shows.
const SIGNIFICANT: i32 = 3;
/// Maximum number of decimals that a number shows; a smaller number shows as zero.
const MOST_DECIMALS: i32 = 12;

/// A number with at least the given decimals, and more if three significant digits need them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Digits(
    /// The number.
    pub f64,
    /// The least number of decimals.
    pub usize,
);

impl fmt::Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Digits(number, decimals) = *self;
        let before =
            if number == 0.0 { SIGNIFICANT } else { (number.abs().log10().floor() as i32).saturating_add(1) };
        let needed = (SIGNIFICANT - before).clamp(0, MOST_DECIMALS) as usize;
        // An empty sum is -0.0.
        write!(f, "{:.1$}", number + 0.0, decimals.max(needed))
    }
}

/// A count with its noun, such as `1 core` or `2 cores`.
pub fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_told_as_one() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "port")), ["0 ports", "1 port", "2 ports"]);
    }

    #[test]
    fn three_digits_are_shown() {
        for (number, decimals, shown) in [
            (35.25, 2, "35.25"),
            (3.256, 1, "3.26"),
            (0.00123456, 2, "0.00123"),
            (0.5, 2, "0.500"),
            (-0.5, 1, "-0.500"),
            (1234.5, 0, "1234"),
            (52.34, 0, "52.3"),
            (0.0, 2, "0.00"),
            (-0.0, 3, "0.000"),
            (1e-30, 2, "0.000000000000"),
            (f64::INFINITY, 2, "inf"),
        ] {
            assert_eq!(Digits(number, decimals).to_string(), shown);
        }
    }
}
