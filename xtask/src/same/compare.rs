//! Compares the output of two runs.

use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// The field with the wall time of a run, which is not a result.
const TIME: &str = "wall_seconds";

/// Fields that a faster simulator may change without changing its results.
const OF_EVENTS: [&str; 2] = ["events", "event_hash"];

/// The path of a difference between runs if at least one of them has no JSON result.
const ENDED: &str = "end";

/// The values of a JSON document by path, as text, because parsed numbers would be rounded.
pub(crate) type Fields = BTreeMap<String, String>;

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A JSON document.
    Json(Fields),
    /// An exit code or a signal, and an error sentence.
    Ended(String, String),
    /// The run exceeded the time limit.
    Late,
}

impl Said {
    /// Reads the JSON of a run that succeeded.
    pub(crate) fn json(text: &str) -> Said {
        let mut fields = Fields::new();
        match serde_json::from_str(text).and_then(|value| collect(String::new(), value, &mut fields)) {
            Ok(()) => Said::Json(fields),
            Err(error) => Said::Ended("no JSON".into(), error.to_string()),
        }
    }

    fn text(&self) -> String {
        match self {
            Said::Json(_) => "a result".into(),
            Said::Ended(how, sentence) => format!("{how}: {sentence}"),
            Said::Late => "no end in time".into(),
        }
    }
}

/// Adds the values in `value` to `fields`. An array also adds its length, which distinguishes an empty array
/// from a missing one.
fn collect(path: String, value: &RawValue, fields: &mut Fields) -> serde_json::Result<()> {
    let text = value.get();
    if text.starts_with('{') {
        for (name, value) in serde_json::from_str::<BTreeMap<String, &RawValue>>(text)? {
            collect(if path.is_empty() { name } else { format!("{path}.{name}") }, value, fields)?;
        }
    } else if text.starts_with('[') {
        let values: Vec<&RawValue> = serde_json::from_str(text)?;
        fields.insert(format!("{path}.length"), values.len().to_string());
        for (i, value) in values.into_iter().enumerate() {
            collect(format!("{path}[{i}]"), value, fields)?;
        }
    } else {
        fields.insert(path, text.to_owned());
    }
    Ok(())
}

/// Removes the array indices from a path, so that all elements of an array have equal paths.
fn general(path: &str) -> String {
    let mut parts = path.split('[');
    let mut general = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        general += "[";
        general += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    general
}

/// A run of both programs.
pub(crate) struct RunPair {
    /// Command line.
    pub(crate) run: String,
    pub(crate) before: Said,
    pub(crate) now: Said,
}

impl RunPair {
    /// The kind of the run. Runs of one kind have equal fields.
    fn kind(&self) -> String {
        let command = self.run.split(' ').next().unwrap_or_default();
        if self.run.contains(" --system ") { format!("{command} --system") } else { command.to_owned() }
    }

    /// Whether both programs refused the run, so that only exit statuses and error sentences can be compared.
    pub(crate) fn is_refused(&self) -> bool {
        matches!((&self.before, &self.now), (Said::Ended(..), Said::Ended(..)))
    }
}

/// Fields as pairs: the kind of the run, and the field's path without indices.
type KnownFields = BTreeSet<(String, String)>;

/// Fields that only one of the programs knows: it prints them in some run, and the other program prints them
/// in none. A field that a program omits in only some runs is a difference.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unknown {
    to_before: KnownFields,
    to_now: KnownFields,
}

impl Unknown {
    /// Compares the fields of all runs.
    pub(crate) fn of(pairs: &[RunPair]) -> Unknown {
        let (mut before, mut now) = (KnownFields::new(), KnownFields::new());
        for pair in pairs {
            // A refused run shows no fields.
            let (Said::Json(b), Said::Json(n)) = (&pair.before, &pair.now) else { continue };
            let kind = pair.kind();
            before.extend(b.keys().map(|path| (kind.clone(), general(path))));
            now.extend(n.keys().map(|path| (kind.clone(), general(path))));
        }
        Unknown { to_before: &now - &before, to_now: &before - &now }
    }

    fn has(&self, kind: &str, path: &str) -> bool {
        let field = (kind.to_owned(), general(path));
        self.to_before.contains(&field) || self.to_now.contains(&field)
    }

    /// Whether the hash of all events is not compared.
    pub(crate) fn lacks_hash(&self) -> bool {
        self.to_before.iter().chain(&self.to_now).any(|(_, path)| path == "event_hash")
    }

    /// One sentence for each program that lacks fields.
    pub(crate) fn sentences(&self, commit: &str) -> Vec<String> {
        let sides = [(&self.to_before, commit), (&self.to_now, "the work tree")];
        let sides = sides.into_iter().filter(|(fields, _)| !fields.is_empty());
        sides
            .map(|(fields, who)| {
                let names: Vec<String> =
                    fields.iter().map(|(kind, path)| format!("{path} of {kind}")).collect();
                format!("not compared, as {who} does not tell it: {}", names.join(", "))
            })
            .collect()
    }
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) path: String,
    pub(crate) before: String,
    pub(crate) now: String,
}

impl Difference {
    fn of_events(&self) -> bool {
        OF_EVENTS.contains(&self.path.as_str())
    }

    /// Whether the difference is between two sentences with equal numbers. Exit statuses of refused runs must
    /// also be equal.
    pub(crate) fn of_words(&self) -> bool {
        let is_sentence = |text: &str| text.contains(' ') && (text.starts_with('"') || self.path == ENDED);
        let numbers = |text: &str| {
            let mut all: Vec<String> = text
                .split(|c: char| !c.is_ascii_digit() && !"+-.".contains(c))
                .map(|number| number.trim_matches('.').to_owned())
                .filter(|number| number.contains(|c: char| c.is_ascii_digit()))
                .collect();
            all.sort();
            all
        };
        let code = |text: &str| match self.path == ENDED {
            true => text.splitn(3, ": ").take(2).map(str::to_owned).collect::<Vec<_>>(),
            false => Vec::new(),
        };
        // Nothing is known of a run that exceeded the time limit.
        let late = Said::Late.text();
        self.before != late
            && self.now != late
            && is_sentence(&self.before)
            && is_sentence(&self.now)
            && numbers(&self.before) == numbers(&self.now)
            && code(&self.before) == code(&self.now)
    }
}

/// Degree of agreement of two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DifferenceClass {
    Identical,
    /// The results agree, but the events differ.
    Events,
    Results,
}

/// The differences of a run. Fields of the whole run come before fields of single resources, and event counts
/// and hashes come last.
pub(crate) fn differences(pair: &RunPair, unknown: &Unknown) -> Vec<Difference> {
    let (before, now) = match (&pair.before, &pair.now) {
        (Said::Json(before), Said::Json(now)) => (before, now),
        (before, now) if before == now && *now != Said::Late => return Vec::new(),
        (before, now) => {
            return vec![Difference { path: ENDED.into(), before: before.text(), now: now.text() }];
        }
    };
    let kind = pair.kind();
    let paths: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let compared = paths.into_iter().filter(|path| *path != TIME && !unknown.has(&kind, path));
    let differ = compared.filter(|path| before.get(*path) != now.get(*path));
    let text = |value: Option<&String>| value.map_or("absent", String::as_str).to_owned();
    let mut all: Vec<Difference> = differ
        .map(|path| Difference {
            path: path.clone(),
            before: text(before.get(path)),
            now: text(now.get(path)),
        })
        .collect();
    all.sort_by_key(|d| (d.of_events(), d.path.matches(['.', '[']).count()));
    all
}

/// The class of a run with these differences.
pub(crate) fn class(differences: &[Difference]) -> DifferenceClass {
    match differences {
        [] => DifferenceClass::Identical,
        all if all.iter().all(Difference::of_events) => DifferenceClass::Events,
        _ => DifferenceClass::Results,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(run: &str, before: &str, now: &str) -> RunPair {
        RunPair { run: run.into(), before: Said::json(before), now: Said::json(now) }
    }

    /// The differences of each run. `pairs` has all runs.
    fn all_of(pairs: &[RunPair]) -> Vec<Vec<String>> {
        let unknown = Unknown::of(pairs);
        let text = |d: Difference| format!("{}: {} -> {}", d.path, d.before, d.now);
        pairs.iter().map(|p| differences(p, &unknown).into_iter().map(text).collect()).collect()
    }

    fn one(before: &str, now: &str) -> Vec<String> {
        all_of(&[pair("simulate", before, now)]).remove(0)
    }

    #[test]
    fn a_difference_is_found_with_its_path() {
        let before = r#"{"pcie": [{"itom": 1}, {"itom": 2}], "mops": 1.5, "text": "a"}"#;
        let now = r#"{"mops": 1.25, "pcie": [{"itom": 1}, {"itom": 3}], "text": "a"}"#;
        assert_eq!(one(before, now), ["mops: 1.5 -> 1.25", "pcie[1].itom: 2 -> 3"]);
        assert_eq!(one(before, before), [""; 0]);
    }

    #[test]
    fn numbers_are_compared_as_written() {
        // Parsed as floating-point numbers, both values would be equal.
        let (before, now) = (r#"{"x": 0.30000000000000004}"#, r#"{"x": 0.3000000000000000444}"#);
        assert_eq!(one(before, now).len(), 1);
        assert_eq!(one(r#"{"x": 1}"#, r#"{"x": "1"}"#), [r#"x: 1 -> "1""#]);
        assert_eq!(one(r#"{"x": null}"#, r#"{"x": 0}"#), ["x: null -> 0"]);
    }

    #[test]
    fn wall_seconds_are_not_compared() {
        assert_eq!(one(r#"{"wall_seconds": 1.0}"#, r#"{"wall_seconds": 2.0}"#), [""; 0]);
        assert_eq!(one(r#"{"a": {"wall_seconds": 1.0}}"#, r#"{"a": {"wall_seconds": 2.0}}"#).len(), 1);
    }

    #[test]
    fn a_field_that_only_one_program_knows_is_not_compared() {
        let pairs = [
            pair("simulate a", r#"{"events": 1}"#, r#"{"events": 1, "event_hash": "ab"}"#),
            pair("simulate b", r#"{"events": 1}"#, r#"{"events": 1, "event_hash": "cd"}"#),
        ];
        assert_eq!(all_of(&pairs), [[""; 0]; 2]);
        let unknown = Unknown::of(&pairs);
        assert!(unknown.lacks_hash());
        let sentence = "not compared, as abc does not tell it: event_hash of simulate";
        assert_eq!(unknown.sentences("abc"), [sentence]);
    }

    #[test]
    fn a_field_that_is_missing_in_some_runs_is_compared() {
        let pairs = [
            pair("simulate a", r#"{"x": 1, "rows": [{"y": 1}]}"#, r#"{"x": 1, "rows": []}"#),
            pair("simulate b", r#"{"x": 1, "rows": []}"#, r#"{"rows": [{"y": 1}]}"#),
        ];
        let first = ["rows.length: 1 -> 0", "rows[0].y: 1 -> absent"].map(str::to_owned).to_vec();
        let second = ["x: 1 -> absent", "rows.length: 0 -> 1", "rows[0].y: absent -> 1"];
        assert_eq!(all_of(&pairs), [first, second.map(str::to_owned).to_vec()]);
        // Other kinds of runs do not count.
        let pairs = [
            pair("simulate a", r#"{"x": 1}"#, r#"{"x": 1}"#),
            pair("simulate --system a", r#"{"x": 1}"#, r#"{"z": 1}"#),
        ];
        assert_eq!(all_of(&pairs), [[""; 0]; 2]);
        assert_eq!(Unknown::of(&pairs).sentences("abc").len(), 2);
    }

    #[test]
    fn an_array_that_has_become_empty_everywhere_is_a_difference() {
        assert_eq!(one(r#"{"lift": [{"gain": 1}]}"#, r#"{"lift": []}"#), ["lift.length: 1 -> 0"]);
    }

    #[test]
    fn events_alone_are_a_class_of_their_own() {
        let class_of = |now: &str| {
            let before = r#"{"events": 1, "event_hash": "ab", "mops": 2.0}"#;
            class(&differences(&pair("simulate", before, now), &Unknown::default()))
        };
        assert_eq!(class_of(r#"{"events": 1, "event_hash": "ab", "mops": 2.0}"#), DifferenceClass::Identical);
        assert_eq!(class_of(r#"{"events": 1, "event_hash": "cd", "mops": 2.0}"#), DifferenceClass::Events);
        assert_eq!(class_of(r#"{"events": 3, "event_hash": "cd", "mops": 2.0}"#), DifferenceClass::Events);
        assert_eq!(class_of(r#"{"events": 3, "event_hash": "cd", "mops": 2.5}"#), DifferenceClass::Results);
    }

    #[test]
    fn sentences_with_equal_numbers_differ_in_words() {
        let of_words = |path: &str, before: &str, now: &str| {
            Difference { path: path.into(), before: before.into(), now: now.into() }.of_words()
        };
        assert!(of_words("text", r#""10% more of cpu""#, r#""with cpu 10% faster""#));
        assert!(!of_words("text", r#""10% more of cpu""#, r#""11% more of cpu""#));
        assert!(!of_words("text", r#""cpu changes it by +5.2%""#, r#""cpu changes it by -5.2%""#));
        assert!(!of_words("end", &Said::Late.text(), &Said::Late.text()));
        assert!(!of_words("class", r#""cpu""#, r#""dma-bw""#), "a name is no sentence");
        assert!(!of_words("mops", "1.5", "1.5 2"));
        assert!(of_words("end", "exit status: 2: no 5 such", "exit status: 2: there is no 5"));
        assert!(!of_words("end", "exit status: 2: no such", "exit status: 1: no such thing"));
    }

    #[test]
    fn what_is_refused_is_compared_by_its_sentence() {
        let ended = |code: &str, sentence: &str| Said::Ended(code.into(), sentence.into());
        let differs = |before: &Said, now: &Said| {
            let pair = RunPair { run: "simulate".into(), before: before.clone(), now: now.clone() };
            class(&differences(&pair, &Unknown::default())) == DifferenceClass::Results
        };
        let refused = ended("2", "no such profile");
        assert!(!differs(&refused, &refused));
        assert!(differs(&refused, &ended("2", "no profile")));
        assert!(differs(&refused, &ended("1", "no such profile")));
        assert!(differs(&refused, &Said::json("{}")));
        assert!(differs(&Said::Late, &Said::Late), "nothing is known of runs that did not end");
        assert!(matches!(Said::json("{"), Said::Ended(..)));
    }
}
