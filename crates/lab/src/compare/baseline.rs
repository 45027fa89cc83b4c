//! Compares results with earlier results. A result is from `simulate`, from `sweep`, or the statistics of a
//! program.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Largest relative change to accept: `5%` is 0.05.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance(f64);

impl FromStr for Tolerance {
    type Err = String;

    fn from_str(text: &str) -> Result<Tolerance, String> {
        let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<f64>().ok());
        let share = percent.filter(|percent| (0.0..=1e6).contains(percent)).map(|percent| percent / 100.0);
        share.map(Tolerance).ok_or_else(|| {
            format!(
                "`{text}` is not a tolerance: write a percentage, such \
             as 5%"
            )
        })
    }
}

/// Name of a number in a result. JSON and texts show it as one text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumberName {
    /// The point of a sweep that the number belongs to, such as `size=64`; `None` outside of sweeps.
    pub point: Option<String>,
    /// Name of the number within its point or result.
    pub name: String,
}

impl fmt::Display for NumberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.point {
            Some(point) => write!(f, "{point}: {}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl Serialize for NumberName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The change of a number that both results have.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// Name of the number.
    #[schemars(with = "String")]
    pub what: NumberName,
    /// Earlier value.
    pub before: f64,
    /// New value; null if the new result does not know it.
    pub now: Option<f64>,
    /// Relative change; null if the new value is not known, or the earlier one is 0.
    pub change: Option<f64>,
    /// Whether the change is beyond the tolerance.
    pub beyond: bool,
}

/// Comparison of a result with an earlier one, as its JSON output.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Changes {
    /// Always 1. Later versions only add fields.
    pub schema: u32,
    /// Relative change that is tolerated.
    pub tolerance: f64,
    /// Numbers that both results have.
    pub numbers: Vec<Change>,
    /// Numbers that only the earlier result has.
    #[schemars(with = "Vec<String>")]
    pub only_before: Vec<NumberName>,
    /// Numbers that only the new result has.
    #[schemars(with = "Vec<String>")]
    pub only_now: Vec<NumberName>,
    /// Workload options that differ.
    pub options: Vec<String>,
}

/// Numbers by name; `None` is an unknown number.
type Numbers = BTreeMap<NumberName, Option<f64>>;

/// The kind of a results file.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Simulation,
    Sweep,
    Statistics,
}

impl Kind {
    fn of(json: &Value) -> Option<Kind> {
        let has = |key: &str| json.get(key).is_some();
        match () {
            () if has("points") && has("over") => Some(Kind::Sweep),
            () if has("latency_ns") && (has("mops") || has("mrps")) => Some(Kind::Simulation),
            () if has("total") && has("workload_share") => Some(Kind::Statistics),
            () => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Simulation => "a result of simulate",
            Kind::Sweep => "a sweep",
            Kind::Statistics => "statistics of run",
        }
    }

    fn numbers(self, json: &Value) -> Numbers {
        match self {
            Kind::Simulation => simulation(None, json),
            Kind::Sweep => json["points"].as_array().into_iter().flatten().flat_map(point).collect(),
            Kind::Statistics => statistics(json),
        }
    }
}

/// The measurements of a run, which is a point of a sweep or no point.
fn simulation(point: Option<&str>, json: &Value) -> Numbers {
    let rate = ["mops", "mrps"].into_iter().filter_map(|key| Some((key.to_owned(), json.get(key)?)));
    let latency = |key: &str| Some((format!("latency {key}, ns"), json["latency_ns"].get(key)?));
    let all = rate.chain(["mean", "p50", "p99"].into_iter().filter_map(latency));
    let named = |name| NumberName { point: point.map(str::to_owned), name };
    all.map(|(name, value)| (named(name), value.as_f64())).collect()
}

fn point(json: &Value) -> Numbers {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let at = json["at"].as_object().into_iter().flatten();
    let at: Vec<String> = at.map(|(key, value)| format!("{key}={}", shown(value))).collect();
    simulation(Some(&at.join(" ")), json)
}

/// Counts of a program, divided by its work requests because runs may differ in length. Leaves out counts
/// that depend on the timing of this device. Attributes of QPs are not divided.
fn statistics(json: &Value) -> Numbers {
    let total = &json["total"];
    let each = total["work_requests"].as_f64().filter(|n| *n > 0.0);
    let named = |name| NumberName { point: None, name };
    let mut numbers = Numbers::new();
    flatten("", total, &mut |name, number| {
        let of_timing = ["outstanding", "rnr", "timeouts", "retries"];
        let depends_on_timing = of_timing.iter().any(|prefix| name.starts_with(prefix));
        if ["path_mtu", "max_rd_atomic", "peer_max_dest_rd_atomic"].contains(&name) {
            numbers.insert(named(name.to_owned()), Some(number));
        } else if !depends_on_timing && name != "work_requests" {
            let value = each.map(|each| number / each);
            numbers.insert(named(format!("{name} per work request")), value);
        }
    });
    numbers
}

/// Calls `show` with each number of a JSON tree. The name of a number is its path.
fn flatten(name: &str, json: &Value, show: &mut impl FnMut(&str, f64)) {
    match json {
        Value::Number(number) => show(name, number.as_f64().unwrap_or(f64::NAN)),
        Value::Object(fields) => {
            for (key, value) in fields {
                let name = if name.is_empty() { key.clone() } else { format!("{name} {key}") };
                flatten(&name, value, show);
            }
        }
        _ => {}
    }
}

/// Keys with different values.
fn options(before: &Value, now: &Value) -> Vec<String> {
    let keys = [before, now].into_iter().filter_map(Value::as_object).flat_map(|fields| fields.keys());
    let mut keys: Vec<String> =
        keys.filter(|key| before[key.as_str()] != now[key.as_str()]).cloned().collect();
    keys.sort();
    keys.dedup();
    keys
}

fn change(what: &NumberName, before: f64, now: Option<f64>, tolerance: Tolerance) -> Change {
    let change = now.filter(|_| before != 0.0).map(|now| now / before - 1.0);
    let beyond = match (now, change) {
        (None, _) => true,
        (Some(_), Some(change)) => change.abs() > tolerance.0,
        (Some(now), None) => now != 0.0,
    };
    Change { what: what.clone(), before, now, change, beyond }
}

/// Compares the numbers in `now` with the numbers in `before`. Both are pairs of a file name and its JSON.
///
/// # Errors
/// One sentence if a file is not a result, the kinds differ, or no number is in both.
pub fn against(before: (&str, &str), now: (&str, &str), tolerance: Tolerance) -> Result<Changes, String> {
    let read = |(file, text): (&str, &str)| {
        let json: Value =
            serde_json::from_str(text).map_err(|error| format!("{file} is not JSON: {error}"))?;
        let kind = Kind::of(&json).ok_or_else(|| {
            format!("{file} is not a result: write one by simulate --json, sweep --json or run --stats-json")
        })?;
        Ok::<_, String>((json, kind))
    };
    let ((old, old_kind), (new, new_kind)) = (read(before)?, read(now)?);
    if old_kind != new_kind {
        let (one, other) = (old_kind.name(), new_kind.name());
        return Err(format!(
            "{} is {one}, but {} is {other}: compare two results of one kind",
            before.0, now.0
        ));
    }
    let (old_numbers, new_numbers) = (old_kind.numbers(&old), new_kind.numbers(&new));
    let both = |(what, before): (&NumberName, &Option<f64>)| {
        Some(change(what, (*before)?, *new_numbers.get(what)?, tolerance))
    };
    let mut numbers: Vec<Change> = old_numbers.iter().filter_map(both).collect();
    numbers.sort_by_cached_key(|number| number.what.to_string());
    if numbers.is_empty() {
        return Err(format!("{} and {} have no number in common", before.0, now.0));
    }
    let only = |some: &Numbers, others: &Numbers| {
        let known = |numbers: &Numbers, what: &NumberName| numbers.get(what).is_some_and(Option::is_some);
        let is_only = |what: &&NumberName| known(some, what) && !others.contains_key(*what);
        let mut only: Vec<NumberName> = some.keys().filter(is_only).cloned().collect();
        only.sort_by_cached_key(NumberName::to_string);
        only
    };
    let compared = if old_kind == Kind::Statistics {
        let profile = |json: &Value| serde_json::json!({ "profile": json["profile"] });
        options(&profile(&old), &profile(&new))
    } else {
        options(&old["workload"], &new["workload"])
    };
    Ok(Changes {
        schema: 1,
        tolerance: tolerance.0,
        only_before: only(&old_numbers, &new_numbers),
        only_now: only(&new_numbers, &old_numbers),
        numbers,
        options: compared,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(mops: &str, p99: &str) -> String {
        format!(
            r#"{{"workload": {{"size": 64}}, "mops": {mops}, "latency_ns": {{"mean": 0, "p50": 5, "p99": {p99}}}}}"#
        )
    }

    fn beyond(before: &str, now: &str, tolerance: &str) -> Vec<String> {
        let changes = against(("a", before), ("b", now), tolerance.parse().unwrap()).unwrap();
        let beyond = changes.numbers.into_iter().filter(|number| number.beyond);
        beyond.map(|number| number.what.to_string()).collect()
    }

    #[test]
    fn what_changed_by_more_than_the_tolerance_is_found() {
        let before = result("10", "100");
        assert_eq!(beyond(&before, &result("10.4", "96"), "5%"), [""; 0]);
        assert_eq!(beyond(&before, &result("10.4", "94"), "5%"), ["latency p99, ns"]);
        assert_eq!(beyond(&before, &result("9.4", "96"), "5%"), ["mops"]);
        assert_eq!(beyond(&before, &result("9.4", "96"), "10%"), [""; 0]);
        assert_eq!(beyond(&before, &before, "0%"), [""; 0]);
        // If nothing completes any more, this is more than any tolerance.
        assert_eq!(beyond(&before, &result("null", "null"), "50%"), ["latency p99, ns", "mops"]);
        assert_eq!(beyond(&result("0", "1"), &result("1", "1"), "50%"), ["mops"]);
    }

    #[test]
    fn counts_are_those_of_a_work_request() {
        let stats = |n: u64, doorbells: u64| {
            format!(
                r#"{{"profile": "cib", "workload_share": 1, "total": {{"work_requests": {n}, "doorbells": {doorbells},
                 "outstanding_mean": {n}, "rnr_naks": {doorbells}, "pcie": {{"mmio_writes": {doorbells}}}, "verbs": {{"write": {n}}}}}}}"#
            )
        };
        assert_eq!(beyond(&stats(100, 10), &stats(3000, 300), "1%"), [""; 0]);
        let more = beyond(&stats(100, 10), &stats(100, 12), "1%");
        assert_eq!(more, ["doorbells per work request", "pcie mmio_writes per work request"]);
    }

    #[test]
    fn what_has_no_counterpart_is_said() {
        let point = |size: u64| format!(r#"{{"at": {{"size": {size}}}, "mops": 1.0, "latency_ns": {{}}}}"#);
        let sweep = |points: &[u64]| {
            let points: Vec<String> = points.iter().map(|size| point(*size)).collect();
            format!(r#"{{"over": [], "workload": {{}}, "points": [{}]}}"#, points.join(","))
        };
        let tolerance = "5%".parse().unwrap();
        let changes = against(("a", &sweep(&[1, 2])), ("b", &sweep(&[2, 3])), tolerance).unwrap();
        let json = serde_json::to_value(&changes).unwrap();
        assert_eq!((changes.numbers.len(), &json["numbers"][0]["what"]), (1, &"size=2: mops".into()));
        let only = (&json["only_before"], &json["only_now"]);
        assert_eq!(only, (&vec!["size=1: mops"].into(), &vec!["size=3: mops"].into()));
        // JSON lists the numbers in the order of their whole texts.
        let changes = against(("a", &sweep(&[1, 10])), ("b", &sweep(&[1, 10])), tolerance).unwrap();
        let order: Vec<String> = changes.numbers.iter().map(|number| number.what.to_string()).collect();
        assert_eq!(order, ["size=10: mops", "size=1: mops"]);
        for (before, now, wanted) in [
            (sweep(&[1]), sweep(&[2]), "a and b have no number in common"),
            (sweep(&[1]), result("1", "1"), "a is a sweep, but b is a result of simulate"),
            ("{}".into(), sweep(&[1]), "a is not a result: "),
            (sweep(&[1]), "[".into(), "b is not JSON: "),
        ] {
            let error = against(("a", &before), ("b", &now), tolerance).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
        for text in ["5", "-5%", "%", "many%", "NaN%"] {
            assert!(text.parse::<Tolerance>().is_err(), "{text}");
        }
    }
}
