//! Parts of a sweep, and putting them together.

use super::{MOST_POINTS, Sweep, SweepError};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Every so many-th point of a sweep, written `2/4`: the second, the sixth and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    /// From 1 to `of`.
    number: usize,
    /// How many there are.
    of: usize,
}

impl Shard {
    /// Whether it has a point, by the point's number.
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
        let wrong = || format!("`{text}` is no part of a sweep: write 1/4 for the first of four");
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        let read = |text: &str| text.parse::<usize>().map_err(|_| wrong());
        let shard = Shard { number: read(number)?, of: read(of)? };
        if (1..=shard.of).contains(&shard.number) { Ok(shard) } else { Err(wrong()) }
    }
}

/// Puts the parts of one sweep together, each with the name of its file.
///
/// # Errors
/// One sentence where they are not of one sweep, or a point is there twice or not at all.
pub fn merge(parts: Vec<(String, Sweep)>) -> Result<Sweep, SweepError> {
    let refused = |why: String| Err(SweepError::Refused(why));
    let mut parts = parts.into_iter();
    let Some((first, mut whole)) = parts.next() else {
        return refused("there is no file to put together".into());
    };
    if whole.knee.is_some() {
        return refused(format!("{first} is a search, which has no parts"));
    }
    if whole.size() > MOST_POINTS {
        return refused(format!(
            "{first} is of {} points, but a sweep has at most {MOST_POINTS}",
            whole.size()
        ));
    }
    let mut from: Vec<String> = vec![first.clone(); whole.points.len()];
    for (file, part) in parts {
        if let Some(differs) = difference(&whole, &part) {
            return refused(format!("{first} and {file} are parts of different sweeps: {differs}"));
        }
        for point in part.points {
            if let Some(at) = whole.points.iter().position(|other| other.number == point.number) {
                return refused(format!("point {} is both in {} and in {file}", point.number, from[at]));
            }
            whole.points.push(point);
            from.push(file.clone());
        }
    }
    // What one part lacks another may have.
    whole.missing.clear();
    let of = whole.shard.take();
    whole.points.sort_by_key(|point| point.number);
    let Some(missing) = whole.numbers_missing().first().copied() else { return Ok(whole) };
    let which = of.map_or(String::new(), |shard| {
        format!(", which --shard {}/{} makes", missing % shard.of + 1, shard.of)
    });
    refused(format!(
        "{} of {} points are in none of the files, the first of them point {missing}{which}",
        whole.numbers_missing().len(),
        whole.size()
    ))
}

/// In what two sweeps differ, if they do.
fn difference(one: &Sweep, other: &Sweep) -> Option<&'static str> {
    let differs = [
        (one.schema != other.schema, "their schemas differ"),
        (one.over != other.over, "they go over different values"),
        (one.workload != other.workload, "their workloads differ"),
        (one.explained != other.explained, "only one was made with --explain"),
        (other.knee.is_some(), "one is a search"),
        (one.sweep != other.sweep, "their profiles or versions of Doorbell differ"),
    ];
    differs.into_iter().find_map(|(differs, what)| differs.then_some(what))
}
