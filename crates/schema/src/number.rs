//! Whole numbers as users write them. Each form has one meaning in each unit.
//!
//! | unit | forms | meaning |
//! |---|---|---|
//! | count, number per second | `45`, `45k`, `45M`, `45G`, `45T`, `4.5M`, `45e6`, `45_000` | powers of 1000 |
//! | bytes | `64`, `64B`, `4k`, `4KiB`, `2M`, `2MiB`, `1G`, `1T` | powers of 1024, as in fio |
//! | thousandths | `50`, `5%`, `0.5%` | `5%` is 50 thousandths |

use crate::Share;

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberUnit {
    /// Things.
    Count,
    /// Things per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// Parts of a thousand.
    Permille,
}

/// The reason why a text is not a number of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadNumber {
    /// It is not written as a number of the unit.
    Form,
    /// It is negative.
    Negative,
    /// It exceeds 64 bits.
    TooLarge,
    /// It has two common readings, each in an unambiguous form.
    Ambiguous([String; 2]),
}

impl BadNumber {
    /// The readings of a text with two readings, as the end of a sentence.
    pub fn readings(&self) -> Option<String> {
        let BadNumber::Ambiguous([decimal, binary]) = self else { return None };
        Some(format!("may mean {decimal} bytes or {binary}: write one of these"))
    }
}

/// The number of a weight in a list of weights: a count, or a whole percentage such as `95%`.
///
/// # Errors
/// See [`NumberUnit::read_part`].
pub fn weight(text: &str, called: &str, wanted: &str) -> Result<u32, String> {
    NumberUnit::Count.read_part(text.strip_suffix('%').unwrap_or(text), called, wanted)
}

/// Checks that all or none of the weights in a list are percentages, and that percentages add up to 100%.
///
/// # Errors
/// One sentence if they are not.
pub fn check_percentages(weights: &[&str]) -> Result<(), String> {
    let shares: Vec<&str> = weights.iter().filter_map(|weight| weight.strip_suffix('%')).collect();
    if shares.is_empty() {
        return Ok(());
    }
    if shares.len() < weights.len() {
        return Err("some weights are percentages: write all of them with %, or none".into());
    }
    let sum = shares.iter().filter_map(|share| NumberUnit::Count.read(share).ok());
    match sum.fold(0, u64::saturating_add) {
        100 => Ok(()),
        sum => Err(format!("the weights are {sum}% together, but must be 100%")),
    }
}

impl NumberUnit {
    /// The number that a text states.
    ///
    /// # Errors
    /// If the text states no number of this unit, or two numbers.
    pub fn read(self, text: &str) -> Result<u64, BadNumber> {
        if let Some(rest) = text.strip_prefix('-') {
            // Only a number can be negative.
            return Err(self.read(rest).map_or(BadNumber::Form, |_| BadNumber::Negative));
        }
        match self {
            NumberUnit::Count | NumberUnit::PerSecond => count(text),
            NumberUnit::Bytes => bytes(text),
            NumberUnit::Permille => permille(text),
        }
    }

    /// The number that a part of a text states. An error describes the part by `called`, and the number that
    /// it must be by `wanted`, such as `number of bytes`.
    ///
    /// # Errors
    /// One sentence if the part states no number of this unit, two numbers, or a number beyond `T`.
    pub fn read_part<T: TryFrom<u64>>(self, text: &str, called: &str, wanted: &str) -> Result<T, String> {
        let read = self.read(text);
        if let Some(readings) = read.as_ref().err().and_then(BadNumber::readings) {
            return Err(format!("{called} {readings}"));
        }
        let number = read.ok().and_then(|number| number.try_into().ok());
        number.ok_or_else(|| format!("{called} is not a {wanted}"))
    }

    /// The number that a text means if only its letters are wrong in case, such as `4M` for `4m`.
    pub(crate) fn meant(self, text: &str) -> Option<String> {
        let meant = text.to_ascii_uppercase().replace("IB", "iB");
        self.read(&meant).is_ok().then_some(meant)
    }

    /// The forms of a number, for messages.
    pub(crate) fn wanted(self) -> &'static str {
        match self {
            NumberUnit::Count => "a whole number, also as 45k, 45M or 45e6",
            NumberUnit::PerSecond => "a whole number per second, also as 45k, 45M or 45e6",
            NumberUnit::Bytes => "a whole number of bytes, also as 4k, 4KiB, 2M or 2G",
            NumberUnit::Permille => "a whole number of thousandths, also as 5% or 0.5%",
        }
    }
}

/// Suffixes of counts, each with its power of ten.
const THOUSANDS: [(&str, u32); 5] = [("k", 3), ("K", 3), ("M", 6), ("G", 9), ("T", 12)];

/// Suffixes of bytes, each with its power of two. Longer suffixes come before their ends.
const BINARY: [(&str, u32); 10] = [
    ("KiB", 10),
    ("MiB", 20),
    ("GiB", 30),
    ("TiB", 40),
    ("k", 10),
    ("K", 10),
    ("M", 20),
    ("G", 30),
    ("T", 40),
    ("B", 0),
];

/// The number before a suffix, and the suffix's power.
fn without_suffix<'t>(text: &'t str, suffixes: &[(&str, u32)]) -> Option<(&'t str, u32)> {
    suffixes.iter().find_map(|(suffix, power)| Some((text.strip_suffix(suffix)?, *power)))
}

/// Decimal digits, also in groups, such as `45_000`.
fn digits(text: &str) -> Result<u64, BadNumber> {
    let is_number = |group: &str| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit());
    if !text.split('_').all(is_number) {
        return Err(BadNumber::Form);
    }
    // Digits that do not parse are too many.
    text.replace('_', "").parse().map_err(|_| BadNumber::TooLarge)
}

/// `number` times `base` to the power of `power`.
fn scaled(number: u64, base: u64, power: u32) -> Result<u64, BadNumber> {
    let factor = base.checked_pow(power).ok_or(BadNumber::TooLarge);
    if number == 0 { Ok(0) } else { number.checked_mul(factor?).ok_or(BadNumber::TooLarge) }
}

fn count(text: &str) -> Result<u64, BadNumber> {
    let exponent = || {
        let (number, exponent) = text.split_once(['e', 'E'])?;
        Some(digits(exponent).map(|power| (number, power.try_into().unwrap_or(u32::MAX))))
    };
    let by_suffix = without_suffix(text, &THOUSANDS).map(Ok);
    let (number, power) = by_suffix.or_else(exponent).unwrap_or(Ok((text, 0)))?;
    let Some((whole, fraction)) = number.split_once('.') else {
        return scaled(digits(number)?, 10, power);
    };
    let whole = scaled(digits(whole)?, 10, power)?;
    digits(fraction)?;
    let fraction = fraction.trim_end_matches('0');
    let places = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
    let rest = power.checked_sub(places).ok_or(BadNumber::Form)?;
    let parts = if fraction.is_empty() { 0 } else { scaled(digits(fraction)?, 10, rest)? };
    whole.checked_add(parts).ok_or(BadNumber::TooLarge)
}

fn bytes(text: &str) -> Result<u64, BadNumber> {
    match readings(text) {
        // Both readings are equal.
        Some((0, _)) => return Ok(0),
        Some((_, readings)) => return Err(BadNumber::Ambiguous(readings)),
        None => (),
    }
    let (number, power) = without_suffix(text, &BINARY).unwrap_or((text, 0));
    scaled(digits(number)?, 2, power)
}

/// The number and the readings of a text such as `4KB`: powers of 1000 by the international standard, powers
/// of 1024 in many programs.
fn readings(text: &str) -> Option<(u64, [String; 2])> {
    let rest = text.strip_suffix(['b', 'B'])?;
    let (number, letter) = rest.split_at_checked(rest.len().checked_sub(1)?)?;
    let at = ["k", "m", "g", "t"].iter().position(|known| letter.eq_ignore_ascii_case(known))?;
    let number = digits(number).ok()?;
    let decimal = scaled(number, 1000, at as u32 + 1).ok()?;
    Some((number, [decimal.to_string(), format!("{number}{}iB", letter.to_ascii_uppercase())]))
}

fn permille(text: &str) -> Result<u64, BadNumber> {
    /// Millionths in a thousandth.
    const THOUSANDTH: u32 = 1000;
    if !text.ends_with('%') {
        return count(text);
    }
    let millionths = text.parse::<Share>().map_err(|_| BadNumber::Form)?.millionths();
    let is_whole = millionths.is_multiple_of(THOUSANDTH);
    is_whole.then_some(u64::from(millionths / THOUSANDTH)).ok_or(BadNumber::Form)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(unit: NumberUnit, texts: &[(&str, Result<u64, BadNumber>)]) {
        for (text, number) in texts {
            assert_eq!(unit.read(text), *number, "{text} as {unit:?}");
        }
    }

    #[test]
    fn counts_are_in_powers_of_1000() {
        use BadNumber::{Form, Negative, TooLarge};
        all(
            NumberUnit::Count,
            &[
                ("45", Ok(45)),
                ("0", Ok(0)),
                ("45k", Ok(45_000)),
                ("45K", Ok(45_000)),
                ("45M", Ok(45_000_000)),
                ("45e6", Ok(45_000_000)),
                ("45E6", Ok(45_000_000)),
                ("4.5e7", Ok(45_000_000)),
                ("0.25M", Ok(250_000)),
                ("1.50k", Ok(1500)),
                ("3.0", Ok(3)),
                ("0e99", Ok(0)),
                ("10G", Ok(10_000_000_000)),
                ("45_000_000", Ok(45_000_000)),
                ("18446744073709551615", Ok(u64::MAX)),
                ("18446744073709551616", Err(TooLarge)),
                ("18446744073710T", Err(TooLarge)),
                ("1e99", Err(TooLarge)),
                ("1e999999999999", Err(TooLarge)),
                ("1.5", Err(Form)),
                ("1.2345k", Err(Form)),
                ("-1", Err(Negative)),
                ("-4k", Err(Negative)),
                ("-", Err(Form)),
                ("", Err(Form)),
                ("k", Err(Form)),
                ("+5", Err(Form)),
                ("45m", Err(Form)),
                ("45KiB", Err(Form)),
                ("45,000", Err(Form)),
                ("1__0", Err(Form)),
                ("_1", Err(Form)),
                (".5k", Err(Form)),
                ("1.k", Err(Form)),
                ("1e", Err(Form)),
                ("1e-3", Err(Form)),
                ("70%", Err(Form)),
                ("many", Err(Form)),
            ],
        );
    }

    #[test]
    fn bytes_are_in_powers_of_1024() {
        use BadNumber::{Form, Negative, TooLarge};
        all(
            NumberUnit::Bytes,
            &[
                ("64", Ok(64)),
                ("64B", Ok(64)),
                ("0KB", Ok(0)),
                ("4k", Ok(4096)),
                ("4K", Ok(4096)),
                ("4KiB", Ok(4096)),
                ("2M", Ok(2 << 20)),
                ("2MiB", Ok(2 << 20)),
                ("1G", Ok(1 << 30)),
                ("1T", Ok(1 << 40)),
                ("65_536", Ok(65536)),
                ("99999999999G", Err(TooLarge)),
                ("-1", Err(Negative)),
                ("1.5MiB", Err(Form)),
                ("4e3", Err(Form)),
                ("KiB", Err(Form)),
                ("4kiB", Err(Form)),
                ("4m", Err(Form)),
                ("B", Err(Form)),
                ("", Err(Form)),
            ],
        );
        let ambiguous =
            |decimal: &str, binary: &str| Err(BadNumber::Ambiguous([decimal.to_owned(), binary.to_owned()]));
        for (text, decimal, binary) in [
            ("4KB", "4000", "4KiB"),
            ("4kB", "4000", "4KiB"),
            ("1MB", "1000000", "1MiB"),
            ("2gb", "2000000000", "2GiB"),
        ] {
            assert_eq!(NumberUnit::Bytes.read(text), ambiguous(decimal, binary), "{text}");
        }
    }

    #[test]
    fn parts_of_texts_are_refused_in_a_sentence() {
        let read = |text: &str| NumberUnit::Bytes.read_part::<u32>(text, "the size", "number of bytes");
        assert_eq!(read("4k"), Ok(4096));
        assert_eq!(read("4KB"), Err("the size may mean 4000 bytes or 4KiB: write one of these".to_owned()));
        for text in ["much", "4G"] {
            assert_eq!(read(text), Err("the size is not a number of bytes".to_owned()), "{text}");
        }
    }

    #[test]
    fn weights_are_also_percentages() {
        assert_eq!((weight("95", "it", "weight"), weight("95%", "it", "weight")), (Ok(95), Ok(95)));
        assert_eq!((check_percentages(&["95%", "5%"]), check_percentages(&["3", "1"])), (Ok(()), Ok(())));
        for (weights, wanted) in
            [(["95%", "5"], "some weights are percentages"), (["95%", "6%"], "the weights are 101%")]
        {
            assert!(check_percentages(&weights).is_err_and(|error| error.starts_with(wanted)), "{weights:?}");
        }
    }

    #[test]
    fn letters_of_the_wrong_case_are_found() {
        for (unit, text, meant) in [
            (NumberUnit::Bytes, "4m", Some("4M")),
            (NumberUnit::Bytes, "4b", Some("4B")),
            (NumberUnit::Bytes, "4kib", Some("4KiB")),
            (NumberUnit::Count, "45m", Some("45M")),
            (NumberUnit::Count, "4b", None),
        ] {
            assert_eq!(unit.meant(text).as_deref(), meant, "{text}");
        }
    }

    #[test]
    fn thousandths_are_also_percent() {
        use BadNumber::Form;
        all(
            NumberUnit::Permille,
            &[
                ("50", Ok(50)),
                ("5%", Ok(50)),
                ("0.5%", Ok(5)),
                ("100%", Ok(1000)),
                ("0.05%", Err(Form)),
                ("half", Err(Form)),
            ],
        );
    }
}
