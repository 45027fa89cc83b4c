//! Merges the parts of a sweep.

use super::error::SweepError;
use super::result::Sweep;
use super::shards::MOST_POINTS;

/// Merges the parts of one sweep, each with its file name.
///
/// # Errors
/// One sentence if the parts belong to different sweeps, or a point is duplicated or missing.
pub fn merge(parts: Vec<(String, Sweep)>) -> Result<Sweep, SweepError> {
    let refused = |why: String| Err(SweepError::Refused(why));
    let mut parts = parts.into_iter();
    let Some((first, mut whole)) = parts.next() else {
        return refused("there is no file to merge".into());
    };
    if whole.knee.is_some() {
        return refused(format!("{first} is a search for a knee, which has no parts"));
    }
    if whole.size() > MOST_POINTS {
        return refused(format!(
            "{first} has {} points, but a sweep has at most {MOST_POINTS}",
            whole.size()
        ));
    }
    let mut from: Vec<String> = vec![first.clone(); whole.points.len()];
    // Each part lists its own missing points. Another part may have them, unless they can have no result.
    whole.missing.retain(|point| point.why.is_some());
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
        whole.missing.extend(part.missing.into_iter().filter(|point| point.why.is_some()));
    }
    let of = whole.shard.take();
    whole.points.sort_by_key(|point| point.number);
    whole.missing.sort_by_key(|point| point.number);
    whole.missing.dedup_by_key(|point| point.number);
    let has_reason = |number: &usize| whole.missing.iter().any(|point| point.number == *number);
    let mut numbers = whole.numbers_missing();
    numbers.retain(|number| !has_reason(number));
    let Some(missing) = numbers.first().copied() else { return Ok(whole) };
    let which = of.map_or(String::new(), |shard| {
        format!(", which --shard {}/{} runs", missing % shard.of + 1, shard.of)
    });
    refused(format!(
        "{} of {} points are missing from all files; the first is point {missing}{which}",
        numbers.len(),
        whole.size()
    ))
}

/// A difference between two sweeps; `None` if they are equal.
fn difference(one: &Sweep, other: &Sweep) -> Option<&'static str> {
    let differs = [
        (one.schema != other.schema, "their schemas differ"),
        (one.over != other.over, "they sweep over different values"),
        (one.workload != other.workload, "their workloads differ"),
        (one.explained != other.explained, "only one was made with --explain"),
        (other.knee.is_some(), "one is a search for a knee"),
        (one.sweep != other.sweep, "their profiles or versions of Doorbell differ"),
    ];
    differs.into_iter().find_map(|(differs, what)| differs.then_some(what))
}
