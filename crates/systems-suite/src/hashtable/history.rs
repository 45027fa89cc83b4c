//! Checks whether the observations of front-ends are as the hashtable guarantees.

use doorbell_systems::Record;
use doorbell_verbs::Time;
use std::collections::BTreeMap;
use std::fmt;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A value was read. A value without a version is the front-end's own, which it had not published.
    Read,
    /// A write was acknowledged. A write without a version is published later.
    Wrote,
    /// A write was published, together with the key's writes before it.
    Published,
}

/// An event of a front-end. Events are in the front-end's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub kind: EventKind,
    pub key: u64,
    /// The number of the write that wrote the value. Each write has a number of its own, and 0 is the first
    /// value.
    pub number: u64,
    /// The value's version, if it has one.
    pub version: Option<u64>,
    pub began: Time,
    pub ended: Time,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { kind, key, number, version, began, ended } = self;
        write!(f, "{began:?} to {ended:?}: {kind:?} key {key}, number {number:x}, version {version:?}")
    }
}

/// The events of a front-end, and counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// The events, in the front-end's order.
    pub events: Vec<Event>,
    /// READs that were repeated because the value was being written.
    pub again: u64,
    /// Numbers that writers gave up.
    pub given_up: u64,
    /// Attempts to publish that failed.
    pub overtaken: u64,
    /// The longest span from the end of a write to the end of its publication, in picoseconds.
    pub oldest: u64,
    /// The longest span from the end of a write to the begin of its publication, in picoseconds.
    pub waited: u64,
}

impl Record for History {
    fn to_words(&self) -> Vec<u64> {
        let History { events, again, given_up, overtaken, oldest, waited } = self;
        let of = |event: &Event| {
            let kind = event.kind as u64;
            let Event { key, number, version, began, ended, .. } = *event;
            [kind, key, number, version.unwrap_or(u64::MAX), began.as_ps(), ended.as_ps()]
        };
        [*again, *given_up, *overtaken, *oldest, *waited]
            .into_iter()
            .chain(events.iter().flat_map(of))
            .collect()
    }

    fn from_words(words: &[u64]) -> Option<History> {
        let (&[again, given_up, overtaken, oldest, waited], rest) = words.split_first_chunk()?;
        let (events, []) = rest.as_chunks::<6>() else { return None };
        let event = |&[kind, key, number, version, began, ended]: &[u64; 6]| {
            let kind = match kind {
                0 => EventKind::Read,
                1 => EventKind::Wrote,
                2 => EventKind::Published,
                _ => return None,
            };
            let (began, ended) = (Time::from_ps(began), Time::from_ps(ended));
            Some(Event { kind, key, number, version: Some(version).filter(|v| *v != u64::MAX), began, ended })
        };
        let events = events.iter().map(event).collect::<Option<_>>()?;
        Some(History { events, again, given_up, overtaken, oldest, waited })
    }
}

impl History {
    /// The last version of a key that this front-end knows.
    pub(crate) fn version(&self, key: u64) -> Option<u64> {
        self.events.iter().rev().filter(|event| event.key == key).find_map(|event| event.version)
    }
}

/// The counts of all histories together, if the check finds nothing wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenValue {
    /// READs that were repeated because the value was being written.
    pub again: u64,
    /// Numbers that writers gave up.
    pub given_up: u64,
    /// Attempts to publish that failed.
    pub overtaken: u64,
    /// The longest span from the end of a write to the end of its publication, in picoseconds.
    pub oldest: u64,
    /// The longest span from the end of a write to the begin of its publication, in picoseconds.
    pub waited: u64,
}

/// The front-ends without a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// None.
    Nothing,
    /// Front-ends that were killed.
    OfTheKilled,
}

/// Checks the histories of all front-ends. The last front-end read each of the `keys` keys after the others
/// had ended.
///
/// # Errors
/// A description of the failure.
pub(crate) fn check(histories: &[History], missing: Missing, keys: u64) -> Result<SeenValue, String> {
    for history in histories {
        (0..keys).try_for_each(|key| check_own(&of_key(&history.events, key)))?;
    }
    for key in 0..keys {
        let all: Vec<Event> = histories.iter().flat_map(|history| of_key(&history.events, key)).collect();
        check_versions(&all, missing)?;
        check_times(&all)?;
        check_end(&all, missing, histories.last().map(|looked| of_key(&looked.events, key)))?;
    }
    let sum = |of: fn(&History) -> u64| histories.iter().map(of).sum();
    let most = |of: fn(&History) -> u64| histories.iter().map(of).max().unwrap_or(0);
    Ok(SeenValue {
        again: sum(|history| history.again),
        given_up: sum(|history| history.given_up),
        overtaken: sum(|history| history.overtaken),
        oldest: most(|history| history.oldest),
        waited: most(|history| history.waited),
    })
}

fn of_key(events: &[Event], key: u64) -> Vec<Event> {
    events.iter().filter(|event| event.key == key).copied().collect()
}

fn wrong<T>(what: &str, events: &[Event]) -> Result<T, String> {
    let lines: Vec<String> = events.iter().map(|event| format!("\n  {event}")).collect();
    Err(format!("{what}:{}", lines.concat()))
}

/// A front-end reads its own writes, and versions do not go back.
fn check_own(events: &[Event]) -> Result<(), String> {
    let (mut newest, mut pending) = (0, None);
    for (at, event) in events.iter().enumerate() {
        let so_far = &events[..=at];
        match (event.kind, event.version) {
            (EventKind::Wrote, None) => pending = Some(event.number),
            (EventKind::Published, _) if pending == Some(event.number) => pending = None,
            (EventKind::Read, None) if pending != Some(event.number) => {
                return wrong("a front-end's read of its own last write found another value", so_far);
            }
            (EventKind::Read, Some(_)) if pending.is_some() => {
                return wrong("a front-end did not read its own last write", so_far);
            }
            _ => {}
        }
        if let Some(version) = event.version {
            // A write is newer than all versions that its front-end knows.
            let least = if event.kind == EventKind::Read { newest } else { newest + 1 };
            if version < least {
                return wrong("the versions of a key went back", so_far);
            }
            newest = version;
        }
    }
    match pending {
        None => Ok(()),
        Some(_) => wrong("a write was never published", events),
    }
}

/// A version belongs to one write, and that write exists.
fn check_versions(events: &[Event], missing: Missing) -> Result<(), String> {
    let mut numbers = BTreeMap::from([(0, 0)]);
    for event in events {
        let Some(version) = event.version else { continue };
        if *numbers.entry(version).or_insert(event.number) != event.number {
            return wrong("a version has two values", events);
        }
    }
    if missing == Missing::OfTheKilled {
        return Ok(());
    }
    let wrote: Vec<u64> = events.iter().filter(|e| e.kind == EventKind::Wrote).map(|e| e.number).collect();
    let unknown = events.iter().find(|event| event.number != 0 && !wrote.contains(&event.number));
    unknown.map_or(Ok(()), |event| wrong("a read found a value that no front-end wrote", &[*event]))
}

/// An event with a version is no older than any event that had ended when it began. A write is newer.
fn check_times(events: &[Event]) -> Result<(), String> {
    let with_version = |event: &Event| event.version.map(|version| (version, *event));
    let mut by_end: Vec<(u64, Event)> = events.iter().filter_map(with_version).collect();
    let mut by_begin = by_end.clone();
    by_end.sort_by_key(|(_, event)| event.ended);
    by_begin.sort_by_key(|(_, event)| event.began);
    let mut ended = by_end.into_iter().peekable();
    let mut newest: Option<(u64, Event)> = None;
    for (version, event) in by_begin {
        while let Some(before) = ended.next_if(|(_, before)| before.ended < event.began) {
            if newest.is_none_or(|(newest, _)| before.0 > newest) {
                newest = Some(before);
            }
        }
        let Some((newest, before)) = newest else { continue };
        if version < newest || event.kind != EventKind::Read && version == newest {
            return wrong(
                "an operation missed the version of an operation that ended before",
                &[before, event],
            );
        }
    }
    Ok(())
}

/// In the end a key has the newest version of all events that ended. It may be newer if a killed front-end's
/// write did not end.
fn check_end(events: &[Event], missing: Missing, looked: Option<Vec<Event>>) -> Result<(), String> {
    let newest = events.iter().filter_map(|event| event.version).max().unwrap_or(0);
    match looked.as_deref() {
        Some([event]) if event.version == Some(newest) => Ok(()),
        Some([event]) if missing == Missing::OfTheKilled && event.version > Some(newest) => Ok(()),
        Some(other) => wrong(&format!("version {newest} is missing in the end"), other),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Time = |us| Time::from_ps(us * 1_000_000);

    fn event(kind: EventKind, number: u64, version: Option<u64>, (began, ended): (u64, u64)) -> Event {
        Event { kind, key: 0, number, version, began: US(began), ended: US(ended) }
    }

    fn checked(histories: &[&[Event]]) -> Result<SeenValue, String> {
        let history = |events: &&[Event]| History { events: events.to_vec(), ..History::default() };
        let all: Vec<History> = histories.iter().map(history).collect();
        assert_eq!(all.first().and_then(|one| History::from_words(&one.to_words())), all.first().cloned());
        check(&all, Missing::Nothing, 1)
    }

    #[test]
    fn each_promise_is_checked() {
        use EventKind::{Published, Read, Wrote};
        let wrote = event(Wrote, 7, Some(1), (1, 2));
        let end = |number, version| event(Read, number, Some(version), (90, 91));
        let fails = |histories: &[&[Event]], what: &str| {
            let said = checked(histories).unwrap_err();
            assert!(said.starts_with(what), "{said}");
        };
        assert!(checked(&[&[wrote], &[end(7, 1)]]).is_ok());
        fails(&[&[wrote], &[end(0, 0)]], "an operation missed the version of an operation that ended before");
        fails(&[&[wrote, event(Read, 0, Some(0), (3, 4))], &[end(7, 1)]], "the versions of a key went back");
        fails(
            &[&[wrote], &[event(Read, 0, Some(0), (3, 4))], &[end(7, 1)]],
            "an operation missed the version of an operation that ended before",
        );
        fails(&[&[wrote], &[event(Read, 8, Some(1), (3, 4))], &[end(7, 1)]], "a version has two values");
        fails(
            &[&[wrote], &[event(Read, 8, Some(2), (3, 4))], &[end(8, 2)]],
            "a read found a value that no front-end wrote",
        );
        let late = event(Wrote, 8, Some(2), (1, 50));
        fails(
            &[&[wrote], &[late], &[end(7, 1)]],
            "an operation missed the version of an operation that ended before",
        );
        // Two writes with no order between them. In the end the older one is there.
        fails(&[&[wrote], &[late], &[event(Read, 7, Some(1), (40, 41))]], "version 2 is missing in the end");
        let pending = event(Wrote, 7, None, (1, 2));
        let published = event(Published, 7, Some(1), (3, 5));
        let own = event(Read, 7, None, (2, 3));
        assert!(checked(&[&[pending, own, published], &[end(7, 1)]]).is_ok());
        fails(&[&[pending], &[end(0, 0)]], "a write was never published");
        fails(
            &[&[pending, event(Read, 0, Some(0), (2, 3)), published], &[end(7, 1)]],
            "a front-end did not read its own last write",
        );
        fails(&[&[pending, published, own], &[end(7, 1)]], "a front-end's read of its own last write");
    }
}
