//! Shards: parts of a sweep that can run separately.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Largest number of points of a sweep.
pub(super) const MOST_POINTS: usize = 10_000;

/// Every n-th point of a sweep: `2/4` is the second, the sixth and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    /// Number of the shard, from 1 to `of`.
    number: usize,
    /// Number of shards.
    pub(super) of: usize,
}

impl Shard {
    /// Index in the shard of a point that it has.
    pub fn index(self, number: usize) -> usize {
        number / self.of
    }

    /// Whether the shard has the point with this number.
    pub(crate) fn has(self, number: usize) -> bool {
        number % self.of == self.number - 1
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> String {
        format!("{}/{}", shard.number, shard.of)
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Shard, String> {
        text.parse()
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let wrong = || format!("`{text}` is not a part of a sweep: write 1/4 for the first of four parts");
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        let read = |text: &str| text.parse::<usize>().map_err(|_| wrong());
        let shard = Shard { number: read(number)?, of: read(of)? };
        if (1..=shard.of).contains(&shard.number) { Ok(shard) } else { Err(wrong()) }
    }
}
