//! Sizes of messages.

use crate::random::Random;
use doorbell_schema::NumberUnit;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A range of sizes, and the weight of these messages among all messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SizePart {
    least: u32,
    most: u32,
    weight: u32,
}

/// Distribution of message sizes: written as `64`, `64-512` (uniform) or `64:90,4096:10` (nine of ten
/// messages have 64 bytes).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sizes {
    parts: Vec<SizePart>,
}

impl Sizes {
    /// All messages have this many bytes.
    pub fn fixed(bytes: u32) -> Sizes {
        Sizes { parts: vec![SizePart { least: bytes, most: bytes, weight: 1 }] }
    }

    /// The largest size, in bytes.
    pub fn longest(&self) -> u32 {
        self.parts.iter().map(|part| part.most).max().unwrap_or(0)
    }

    /// Draws a size. If there is only one size, uses no random number.
    pub(super) fn draw(&self, random: &mut Random) -> u32 {
        let [part] = &self.parts[..] else {
            let total = self.parts.iter().map(|part| u64::from(part.weight)).sum();
            let mut at = random.below(total);
            for part in &self.parts {
                match at.checked_sub(part.weight.into()) {
                    Some(rest) => at = rest,
                    None => return part.draw(random),
                }
            }
            unreachable!("a draw is below the sum of all weights");
        };
        part.draw(random)
    }
}

impl SizePart {
    fn draw(&self, random: &mut Random) -> u32 {
        let others = self.most - self.least;
        if others == 0 { self.least } else { self.least + random.below(u64::from(others) + 1) as u32 }
    }
}

impl FromStr for SizePart {
    type Err = String;

    fn from_str(text: &str) -> Result<SizePart, String> {
        const HOW: &str = "write sizes as 64, 64-512 or 64:90,4096:10";
        let bytes = |text: &str| {
            NumberUnit::Bytes.read_part(text, &format!("`{text}`"), &format!("number of bytes; {HOW}"))
        };
        let (sizes, weight) = text.split_once(':').unwrap_or((text, "1"));
        let (least, most) = sizes.split_once('-').unwrap_or((sizes, sizes));
        let part = SizePart {
            least: bytes(least)?,
            most: bytes(most)?,
            weight: doorbell_schema::weight(weight, &format!("`{weight}`"), &format!("weight; {HOW}"))?,
        };
        match part {
            SizePart { weight: 0, .. } => Err(format!("the weight of `{text}` is 0, but must be at least 1")),
            SizePart { least, most, .. } if least > most => {
                Err(format!("`{sizes}` ends before it begins; write {most}-{least}"))
            }
            part => Ok(part),
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        let mut parts: Vec<SizePart> = text.split(',').map(str::parse).collect::<Result<_, String>>()?;
        let weights = text.split(',').map(|part| part.split_once(':').map_or("1", |(_, weight)| weight));
        doorbell_schema::check_percentages(&weights.collect::<Vec<_>>())?;
        if let [only] = parts.as_mut_slice() {
            // All messages are of the only part, whatever its weight is.
            only.weight = 1;
        }
        Ok(Sizes { parts })
    }
}

impl TryFrom<String> for Sizes {
    type Error = String;

    fn try_from(text: String) -> Result<Sizes, String> {
        text.parse()
    }
}

impl From<Sizes> for String {
    fn from(sizes: Sizes) -> String {
        sizes.to_string()
    }
}

impl fmt::Display for SizePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SizePart { least, most, weight } = self;
        write!(f, "{least}")?;
        if most != least {
            write!(f, "-{most}")?;
        }
        if *weight == 1 { Ok(()) } else { write!(f, ":{weight}") }
    }
}

/// Equal sizes are written alike, whichever form they were parsed from.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.parts.iter().map(SizePart::to_string).collect();
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn sizes_are_drawn_as_often_as_they_say() {
        let sizes: Sizes = "64:90,100-103:8,4k:2".parse().unwrap();
        assert_eq!((sizes.longest(), sizes.to_string()), (4096, "64:90,100-103:8,4096:2".into()));
        let mut random = Random::new(7, 0);
        let mut seen = BTreeMap::new();
        (0..100_000).for_each(|_| *seen.entry(sizes.draw(&mut random)).or_insert(0i64) += 1);
        let wanted = [(64, 90_000), (100, 2_000), (101, 2_000), (102, 2_000), (103, 2_000), (4096, 2_000)];
        assert_eq!(seen.len(), wanted.len());
        for (size, times) in wanted {
            assert!((seen[&size] - times).abs() < times / 10, "{size}: {}", seen[&size]);
        }
        let one = Sizes::fixed(9);
        assert_eq!(("9".parse(), one.draw(&mut random)), (Ok(one.clone()), 9));
    }

    #[test]
    fn equal_sizes_are_equal_in_each_form() {
        for (text, other) in [
            ("4k", "4096"),
            ("64:90", "64"),
            ("1k-2k:2,8:1", "1024-2048:2,8"),
            ("8-8", "8B"),
            ("8:90%,9:10%", "8:90,9:10"),
        ] {
            let (sizes, others): (Sizes, Sizes) = (text.parse().unwrap(), other.parse().unwrap());
            assert_eq!((&sizes, sizes.to_string()), (&others, others.to_string()), "{text}");
            assert_eq!(sizes.to_string().parse(), Ok(sizes));
        }
    }

    #[test]
    fn what_is_no_size_is_refused_in_one_sentence() {
        let how = "write sizes as 64, 64-512 or 64:90,4096:10";
        for (text, said) in [
            ("", format!("`` is not a number of bytes; {how}")),
            ("64,", format!("`` is not a number of bytes; {how}")),
            ("-5", format!("`` is not a number of bytes; {how}")),
            ("+5", format!("`+5` is not a number of bytes; {how}")),
            ("5000000000", format!("`5000000000` is not a number of bytes; {how}")),
            ("4KB", "`4KB` may mean 4000 bytes or 4KiB: write one of these".into()),
            ("64:90%,8:9%", "the weights are 99% together, but must be 100%".into()),
            ("64:x", format!("`x` is not a weight; {how}")),
            ("64:0", "the weight of `64:0` is 0, but must be at least 1".into()),
            ("9-4:2", "`9-4` ends before it begins; write 4-9".into()),
        ] {
            assert_eq!(text.parse::<Sizes>(), Err(said));
        }
    }
}
