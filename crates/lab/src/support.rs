//! Data that support an answer, and the error to expect. This is the error for these data of a profile that
//! was set without them.

use crate::asked::SystemWorkload;
use crate::extrapolation::{Stated, Target, dimensions, unsupported};
use crate::median::median;
use doorbell_nic::{Calibrated, Profile, SystemMeasured, VerbsMeasured};
use doorbell_workload::limits::{connected_qps, nic_pattern};
use doorbell_workload::{Operation, Profiles, Resolved};
use schemars::JsonSchema;
use serde::Serialize;

/// Data that support an answer about one operation kind or system, on one profile.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Support {
    /// Operation or system, and profile.
    pub of: String,
    /// Ids of supporting claims and measurements; empty if the answer lies outside of all.
    pub data: Vec<String>,
    /// Number of these that are numbers with a known error of the profile set without them. The rest are
    /// statements.
    pub numbers: usize,
    /// Median of these relative errors; `None` if unknown.
    pub median_error: Option<f64>,
    /// Largest of these relative errors; `None` if unknown.
    pub largest_error: Option<f64>,
}

impl Support {
    fn of(of: String, profile: &Profile, ids: Vec<&String>) -> Support {
        // The known errors do not apply to a profile with other values.
        let known = profile.calibrated.as_ref().filter(|_| profile.is_measured_machine());
        let errors = known.map_or(Vec::new(), |known| errors(known, &ids));
        Support {
            of,
            data: ids.into_iter().cloned().collect(),
            numbers: errors.len(),
            median_error: median(&errors),
            largest_error: errors.iter().copied().max_by(f64::total_cmp),
        }
    }
}

/// Relative errors of those data with these ids that are numbers.
fn errors(known: &Calibrated, ids: &[&String]) -> Vec<f64> {
    let of_it = known.data.iter().filter(|datum| ids.contains(&&datum.id));
    of_it.filter_map(|datum| Some(datum.left_out?.abs())).collect()
}

/// Lists the supporting data of a workload by profile, class and operation.
pub(crate) fn of_workload(profiles: &Profiles, w: &Resolved) -> Vec<Support> {
    let qps = connected_qps(w);
    let mut all: Vec<Support> = Vec::new();
    for profile in profiles.all() {
        for class in w.classes() {
            for operation in class.workload.operations() {
                let support = of_operation(profile, class.workload, operation, qps);
                if !all.contains(&support) {
                    all.push(support);
                }
            }
        }
    }
    all
}

fn of_operation(profile: &Profile, w: &Resolved, operation: &Operation, qps: Option<u64>) -> Support {
    let dimensions = dimensions(w, operation.size, qps);
    let holds = |m: &&VerbsMeasured| {
        let same = (m.verb, m.transport, m.pattern)
            == (operation.verb.opcode(false), w.transport, nic_pattern(w.pattern));
        let same = same && Target::of(w, operation).is_of(m);
        same && dimensions.iter().all(|d| (d.range)(m).is_none_or(|range| range.side(d.number).is_none()))
    };
    let here = profile.measured.verbs.iter().filter(holds);
    let ids = here.flat_map(|m| m.claims.iter().chain(&m.runs)).collect();
    let of = format!("{} of {} B over {} on {}", operation.verb, operation.size, w.transport, profile.name);
    Support::of(of, profile, ids)
}

/// Lists the supporting data of a system.
pub(crate) fn of_system(profile: &Profile, w: &SystemWorkload) -> Vec<Support> {
    let value = |key: &str| Stated::of(w.value(key)?);
    let holds = |m: &&SystemMeasured| {
        let within = m.within.iter().all(|(key, bounds)| match value(key) {
            Some(Stated::Number(number)) => bounds.side(number).is_none(),
            _ => false,
        });
        let named = m.of.iter().all(|(key, names)| match value(key) {
            Some(Stated::Name(name)) => names.contains(&name),
            _ => false,
        });
        m.system == w.name() && within && named
    };
    let here = profile.measured.systems.iter().filter(holds);
    let ids = here.flat_map(|m| m.claims.iter().chain(&m.runs)).collect();
    vec![Support::of(format!("{} on {}", w.name(), profile.name), profile, ids)]
}

/// A Markdown page about the supporting data of a profile, and about the errors for these data. If the data
/// do not support the profile's values, the page lists the reasons, and has no errors.
pub fn page(profile: &Profile) -> String {
    let name = &profile.name;
    let reasons = unsupported(profile);
    let mut text = format!("# Data behind {name}\n\n{}.\n\n", profile.title);
    if reasons.is_empty() {
        text += &format!("{WITH_ERRORS} Written from profile `{name}`.\n\n");
    } else {
        let reasons: String = reasons.iter().map(|reason| format!("- {reason}\n")).collect();
        text += &format!("{WITHOUT_ERRORS}\n\n{reasons}\n");
    }
    let known = profile.calibrated.as_ref();
    if known.is_none() && reasons.is_empty() {
        return text
            + "Its parameters were set by hand, so its error without a single number is not known.\n";
    }
    // The known errors do not apply to a profile with other values.
    let known = known.filter(|_| reasons.is_empty());
    text += match known {
        Some(_) => "| what | where | datum | off | left out |\n|---|---|---|---|---|\n",
        None => "| what | where | datum |\n|---|---|---|\n",
    };
    for m in &profile.measured.verbs {
        let ranges = [
            ("size", m.size),
            ("batch", m.batch),
            ("QPs", m.qps),
            ("machines", m.machines),
            ("threads", m.threads),
            ("window", m.window),
        ];
        let ranges = ranges.into_iter().filter_map(|(name, bounds)| Some(format!("{name} {}", bounds?)));
        let what = format!("{} over {}, {}", name_of(m.verb), m.transport, name_of(m.pattern));
        text += &rows(known, &what, &ranges.collect::<Vec<_>>().join(", "), m.claims.iter().chain(&m.runs));
    }
    for m in &profile.measured.systems {
        let ranges = m.within.iter().map(|(name, bounds)| format!("{name} {bounds}"));
        let names = m.of.iter().map(|(name, values)| format!("{name} {}", values.join(", ")));
        let ranges: Vec<String> = ranges.chain(names).collect();
        text += &rows(known, &m.system, &ranges.join(", "), m.claims.iter().chain(&m.runs));
    }
    text
}

/// The introduction to a table of data with errors.
const WITH_ERRORS: &str = "\
Each line is one [datum of the calibration](calibration.md#data). *Off* is Doorbell's error with this profile.
*Left out* is the error with a profile that is set without the datum (to first order). Expect an error of this
size within the ranges of column *where*. Ranges that a source does not state are missing. Outside the ranges,
only `doorbell simulate --uncertainty` estimates an error. Statements without numbers have `-`. *Set by hand*
marks data from which a parameter was set by hand.";

/// The introduction to a list of reasons, before a table of data without errors.
const WITHOUT_ERRORS: &str = "\
Each line of the table is one [datum of the calibration](calibration.md#data), with its ranges in column
*where*. Doorbell's errors for these data are not known for this profile, because the data do not support its
values:";

/// A name as used in files.
pub fn name_of(name: impl Serialize) -> String {
    serde_json::to_value(name).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
}

/// A table row for each datum, with its errors if they are known.
fn rows<'a>(
    known: Option<&Calibrated>,
    what: &str,
    ranges: &str,
    ids: impl Iterator<Item = &'a String>,
) -> String {
    let percent =
        |error: Option<f64>| error.map_or("-".to_owned(), |error| format!("{:+.1}%", error * 100.0));
    let row = |id: &String| {
        let Some(known) = known else { return format!("| {what} | {ranges} | {id} |\n") };
        let met = known.data.iter().find(|datum| datum.id == *id);
        let (off, left_out) =
            met.map_or(("set by hand".into(), "-".into()), |met| (percent(met.error), percent(met.left_out)));
        format!("| {what} | {ranges} | {id} | {off} | {left_out} |\n")
    };
    ids.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_schema::Given;

    fn asked(toml: &str) -> Vec<Support> {
        let given = Given::from_toml("w.toml", toml, &crate::fields()).unwrap();
        crate::Run::asked(crate::Asked::of(&given).unwrap()).unwrap().supports()
    }

    #[test]
    fn what_was_measured_supports_what_is_like_it() {
        let [inbound] = &asked("verb = \"read\"\nsize = 64")[..] else { panic!("one operation") };
        assert!(inbound.data.contains(&"atc16-tab4-read-64".to_owned()), "{inbound:?}");
        assert!(
            inbound.median_error.is_some_and(|error| error < 0.2)
                && inbound.largest_error >= inbound.median_error
        );
        let [large] = &asked("verb = \"read\"\nsize = 4096")[..] else { panic!("one operation") };
        assert_eq!((large.data.len(), large.median_error), (0, None));
        assert_eq!(asked("mix = \"read/64:9,read/4096:1\"").len(), 2);
        let set = &asked("verb = \"read\"\nsize = 64\nset = { tx.send_ns = 20 }")[0];
        assert_eq!((&set.data, set.median_error), (&inbound.data, None));
    }

    /// Statements count as data, but have no error.
    #[test]
    fn the_median_is_of_numbers() {
        let [atomic] = &asked("verb = \"fetch-add\"")[..] else { panic!("one operation") };
        let cib = Profile::named("cib").unwrap();
        let known = cib.calibrated.as_ref().unwrap();
        let mut left_out: Vec<f64> = errors(known, &atomic.data.iter().collect::<Vec<_>>());
        left_out.sort_by(f64::total_cmp);
        assert_eq!(left_out.len(), 2);
        assert_eq!((atomic.numbers, atomic.largest_error), (2, Some(left_out[1])));
        assert_eq!(atomic.median_error, Some((left_out[0] + left_out[1]) / 2.0));
    }

    /// `cargo xtask bless` writes these pages.
    #[test]
    fn pages_say_what_profiles_say() {
        let profiles = Profile::names().map(|name| Profile::named(name).unwrap());
        let with_data: Vec<Profile> = profiles.filter(|profile| profile.calibrated.is_some()).collect();
        assert!(with_data.len() > 3);
        for profile in with_data {
            let path = format!("{}/../../docs/data-{}.md", env!("CARGO_MANIFEST_DIR"), profile.name);
            if std::env::var_os("DOORBELL_BLESS").is_some() {
                std::fs::write(&path, page(&profile)).unwrap();
            }
            assert_eq!(
                std::fs::read_to_string(&path).unwrap_or_default(),
                page(&profile),
                "{path}: `cargo xtask bless` writes it"
            );
        }
    }
}
