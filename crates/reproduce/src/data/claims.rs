//! The papers' claims and how a claim is compared with a finding.

use super::bottlenecks::PaperLimit;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// A value as a claim states it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A number in the claim's unit.
    Number(f64),
    /// An ordering, a shape or a formula, in words.
    Text(String),
}

/// Kind of statement that a claim makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A measurement.
    Measured,
    /// A statement that follows from a formula of the paper.
    Analytic,
    /// Ratio of two measurements.
    Ratio,
    /// Order of several quantities.
    Ordering,
    /// Shape of a curve or behaviour.
    Shape,
    /// A property of the hardware.
    HardwareParameter,
}

/// Precision that a claim's number is meant to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Qualifier {
    /// About this much: 5% more or less agrees fully.
    Approx,
    /// At most.
    UpTo,
    /// At least.
    AtLeast,
    /// Less than.
    LessThan,
    /// More than.
    GreaterThan,
    /// Between zero and this much.
    Within,
    /// From the claim's `value_lo` to its `value_hi`.
    Range,
    /// Computed from other numbers of the paper.
    Derived,
}

impl Qualifier {
    /// Words in front of a number with this qualifier, if any.
    pub const fn words(self) -> Option<&'static str> {
        match self {
            Qualifier::Approx => Some("about"),
            Qualifier::UpTo => Some("at most"),
            Qualifier::AtLeast => Some("at least"),
            Qualifier::LessThan => Some("less than"),
            Qualifier::GreaterThan => Some("more than"),
            Qualifier::Within => Some("within"),
            Qualifier::Range | Qualifier::Derived => None,
        }
    }
}

/// The value of [`Claim::paper`] for Doorbell's own statements.
pub const OURS: &str = "doorbell";

/// A claim of a paper (`papers/claims.toml`), or one of Doorbell's own statements (`papers/ours.toml`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Unique name.
    pub id: String,
    /// Paper that makes the claim, or [`OURS`].
    pub paper: String,
    /// Section, table or figure.
    #[serde(rename = "where")]
    pub place: String,
    /// Cluster or other hardware.
    pub hardware: String,
    /// Workload of the measurement.
    pub workload: String,
    /// Measured quantity.
    pub metric: String,
    /// Stated value.
    pub value: Value,
    /// Unit of a number.
    pub unit: String,
    /// Kind of statement.
    pub kind: Kind,
    /// Limit that the paper names, in its words.
    pub bottleneck: String,
    /// Remarks from the extraction.
    pub notes: String,
    /// Limit that the paper names, as a class.
    pub bottleneck_class: Option<PaperLimit>,
    /// Precision that the number is meant to have.
    pub qualifier: Option<Qualifier>,
    /// Lower end of a range.
    pub value_lo: Option<f64>,
    /// Upper end of a range.
    pub value_hi: Option<f64>,
    /// Formula behind the number.
    pub formula: Option<String>,
    /// Confidence in the extraction, if it is in doubt.
    pub confidence: Option<String>,
}

/// A claim about a number holds up to this relative error.
pub const TOLERANCE: f64 = 0.1;

/// Relative deviation that [`Qualifier::Approx`] allows in either direction.
const ABOUT: f64 = 0.05;

impl Claim {
    /// Lowest and highest number that agree fully with the claim. `None` if the claim states no number.
    pub fn allows(&self) -> Option<(f64, f64)> {
        if let (Some(low), Some(high)) = (self.value_lo, self.value_hi) {
            return Some((low, high));
        }
        let Value::Number(v) = self.value else { return None };
        Some(match self.qualifier {
            None | Some(Qualifier::Derived | Qualifier::Range) => (v, v),
            Some(Qualifier::Approx) => (v - v.abs() * ABOUT, v + v.abs() * ABOUT),
            Some(Qualifier::UpTo | Qualifier::LessThan) => (f64::NEG_INFINITY, v),
            Some(Qualifier::AtLeast | Qualifier::GreaterThan) => (v, f64::INFINITY),
            Some(Qualifier::Within) => (0.0, v),
        })
    }

    /// Relative distance from `found` to the nearest number that the claim allows. It is 0 if the claim
    /// allows `found`. `None` if the claim states no number.
    pub fn error(&self, found: f64) -> Option<f64> {
        let (low, high) = self.allows()?;
        let nearest = found.clamp(low, high);
        let distance = (found - nearest).abs();
        Some(if distance == 0.0 { 0.0 } else { distance / nearest.abs().max(f64::MIN_POSITIVE) })
    }

    /// The larger of two relative distances: from the stated to the found lower end, and from the stated to
    /// the found upper end. An end counts only if it is both found and stated. `None` if no end counts.
    pub fn error_of_ends(&self, low: Option<f64>, high: Option<f64>) -> Option<f64> {
        let distance = |found: f64, stated: f64| (found / stated - 1.0).abs();
        let ends = [(low, self.value_lo), (high, self.value_hi)].into_iter();
        ends.filter_map(|(found, stated)| Some(distance(found?, stated?))).reduce(f64::max)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimsFile {
    claim: Vec<Claim>,
}

/// Relations between claims (`papers/restatements.toml`). A claim that restates a calibrated claim is
/// calibrated, too.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Restatements {
    /// Groups of claim ids; the claims of a group state one number.
    pub(crate) same: Vec<Vec<String>>,
    /// Claims that the profiles or the model's structure adopt as published.
    pub(crate) taken_over: BTreeSet<String>,
    /// By claim that can be computed from other claims: these other claims.
    pub(crate) computed: BTreeMap<String, Vec<String>>,
    /// By claim that a paper contradicts: the contradicting claims.
    pub(crate) contested: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotCheckedFile {
    not_checked: Vec<NotCheckedGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotCheckedGroup {
    reason: String,
    ids: Vec<String>,
}

/// Axis of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkAxis {
    /// Horizontal axis.
    X,
    /// Vertical axis.
    Y,
}

/// Position of a claim's number in its figure (`papers/marks.toml`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Id of the claim.
    pub claim: String,
    /// Curve that the claim is about.
    pub curve: String,
    /// Text for the legend.
    pub meaning: String,
    /// Axis of the claim's number.
    pub axis: MarkAxis,
    /// The x coordinate of a number on the y axis, if the paper states it.
    pub at: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MarksFile {
    mark: Vec<Mark>,
}

/// The reason why a claim is missed (`papers/explanations.toml`).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Explanation {
    claim: String,
    pub(crate) why: String,
    /// Command whose result shows the reason.
    pub(crate) run: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplanationsFile {
    explanation: Vec<Explanation>,
}

/// Contents of the files of `papers/` about claims.
struct Papers {
    claims: Vec<Claim>,
    restatements: Restatements,
    not_checked: Vec<(String, String)>,
    marks: Vec<Mark>,
    explanations: Vec<Explanation>,
}

impl Papers {
    fn read() -> Result<Papers, String> {
        let mut claims = parse("papers/claims.toml", include_str!("../../../../papers/claims.toml"))?;
        claims.extend(parse("papers/ours.toml", include_str!("../../../../papers/ours.toml"))?);
        let restatements = include_str!("../../../../papers/restatements.toml");
        let NotCheckedFile { not_checked } =
            read("papers/not_checked.toml", include_str!("../../../../papers/not_checked.toml"))?;
        let group = |g: NotCheckedGroup| g.ids.into_iter().map(move |id| (id, g.reason.clone()));
        let MarksFile { mark } = read("papers/marks.toml", include_str!("../../../../papers/marks.toml"))?;
        let ExplanationsFile { explanation } =
            read("papers/explanations.toml", include_str!("../../../../papers/explanations.toml"))?;
        Ok(Papers {
            claims,
            restatements: read("papers/restatements.toml", restatements)?,
            not_checked: not_checked.into_iter().flat_map(group).collect(),
            marks: mark,
            explanations: explanation,
        })
    }
}

static PAPERS: LazyLock<Result<Papers, String>> = LazyLock::new(Papers::read);

/// The contents of the files, which are compiled into the program. A test checks that they can be read. If a
/// user has just changed a file, [`check`] reports its errors.
fn papers() -> &'static Papers {
    PAPERS.as_ref().unwrap_or_else(|error| panic!("{error}"))
}

/// Checks that the compiled-in files can be read.
///
/// # Errors
/// If a file is malformed: one sentence, with the line.
pub(crate) fn check() -> Result<(), String> {
    PAPERS.as_ref().map(|_| ()).map_err(String::clone)
}

/// Parses a TOML file. `file` is its name for messages.
///
/// # Errors
/// If `text` is not TOML, or `T` does not accept its contents: one sentence, with the line.
pub(crate) fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        format!("{file}:{line}: {}", error.message().replace('\n', " "))
    })
}

/// Parses a file of claims. `file` is its name for messages.
///
/// # Errors
/// If `text` is not TOML, or an entry is not a claim: one sentence, with the line.
pub fn parse(file: &str, text: &str) -> Result<Vec<Claim>, String> {
    read::<ClaimsFile>(file, text).map(|file| file.claim)
}

/// All claims in the order of the papers, then Doorbell's own statements.
pub fn all() -> &'static [Claim] {
    &papers().claims
}

/// The claim with this id.
pub fn find(id: &str) -> Option<&'static Claim> {
    all().iter().find(|c| c.id == id)
}

/// Relations between claims.
pub(crate) fn restatements() -> &'static Restatements {
    &papers().restatements
}

/// Claims that no experiment checks: id and reason.
pub fn not_checked() -> &'static [(String, String)] {
    &papers().not_checked
}

/// Positions of claims' numbers in figures.
pub fn marks() -> &'static [Mark] {
    &papers().marks
}

/// The reason why the claim is missed, if it is known.
pub(crate) fn explanation(id: &str) -> Option<&'static Explanation> {
    papers().explanations.iter().find(|e| e.claim == id)
}

/// First id of the group that contains `id`. The claims of a group state one number. Returns `id` if it is in
/// no group.
pub(crate) fn first_of_group(id: &str) -> &str {
    let group = restatements().same.iter().find(|group| group.iter().any(|g| g == id));
    group.map_or(id, |group| &group[0])
}

/// Ids in `calibrated`, ids of claims that restate a calibrated claim, and ids of claims that can be computed
/// from all of these.
pub(crate) fn settled_by(calibrated: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    let mut settled: BTreeSet<String> = calibrated.into_iter().collect();
    loop {
        let before = settled.len();
        for group in &restatements().same {
            if group.iter().any(|id| settled.contains(id)) {
                settled.extend(group.iter().cloned());
            }
        }
        for (id, from) in &restatements().computed {
            if from.iter().all(|f| settled.contains(f)) {
                settled.insert(id.clone());
            }
        }
        if settled.len() == before {
            return settled;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: f64, qualifier: Option<Qualifier>) -> Claim {
        let mut claim = find("atc16-appA-tbf").unwrap().clone();
        (claim.value, claim.qualifier) = (Value::Number(value), qualifier);
        claim
    }

    #[test]
    fn both_ends_of_a_range_are_met() {
        let mut claim = number(0.0, None);
        (claim.value_lo, claim.value_hi) = (Some(2.0), Some(10.0));
        assert_eq!(claim.error_of_ends(Some(2.0), Some(9.0)), Some(0.09999999999999998));
        assert_eq!(claim.error_of_ends(Some(1.0), Some(10.0)), Some(0.5));
        assert_eq!(claim.error_of_ends(None, Some(10.0)), Some(0.0));
        assert_eq!(claim.error_of_ends(None, None), None);
    }

    #[test]
    fn data_is_well_formed() {
        let ids: BTreeSet<&str> = all().iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids.len(), all().len(), "an id occurs twice");
        let named = restatements().same.iter().flatten();
        let named =
            named.chain(restatements().computed.iter().flat_map(|(id, from)| from.iter().chain([id])));
        let named = named.chain(restatements().contested.iter().flat_map(|(id, by)| by.iter().chain([id])));
        let named =
            named.chain(&restatements().taken_over).chain(papers().explanations.iter().map(|e| &e.claim));
        for id in named.chain(not_checked().iter().map(|(id, _)| id)) {
            assert!(ids.contains(id.as_str()), "there is no claim {id}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_one_sentence() {
        for (text, wrong) in [
            ("[[claim]]\nid = \"a\"\n", "ours.toml:1: missing field `paper`"),
            ("\n[[claim]]\nid = a\n", "ours.toml:3: "),
            ("[[claim]]\nid = \"a\"\npapers = \"b\"\n", "ours.toml:3: unknown field `papers`"),
            ("claim = 3", "ours.toml:1: invalid type"),
        ] {
            let error = parse("ours.toml", text).unwrap_err();
            assert!(error.starts_with(wrong) && !error.contains('\n'), "{error}");
        }
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn marks_are_of_numbers() {
        for mark in marks() {
            let claim = find(&mark.claim).unwrap_or_else(|| panic!("there is no claim {}", mark.claim));
            assert!(matches!(claim.value, Value::Number(_)), "{}", mark.claim);
            assert!(mark.at.is_none() || mark.axis == MarkAxis::Y, "{}", mark.claim);
        }
    }

    #[test]
    fn a_qualified_number_errs_by_its_distance_outside() {
        for (qualifier, found, error) in [
            (None, 110.0, 0.1),
            (None, 90.0, 0.1),
            (Some(Qualifier::UpTo), 50.0, 0.0),
            (Some(Qualifier::UpTo), 120.0, 0.2),
            (Some(Qualifier::AtLeast), 120.0, 0.0),
            (Some(Qualifier::AtLeast), 80.0, 0.2),
            (Some(Qualifier::Within), 100.0, 0.0),
            (Some(Qualifier::Approx), 104.0, 0.0),
            (Some(Qualifier::Approx), 115.5, 0.1),
        ] {
            let got = number(100.0, qualifier).error(found).unwrap();
            assert!((got - error).abs() < 1e-9, "{qualifier:?} {found}: {got}");
        }
        let range = find("atc16-mq-4qp").unwrap();
        assert_eq!((range.error(2.5), range.error(1.0)), (Some(0.0), Some(0.5)));
        assert_eq!(find("atc16-fig2b-dma-lt-mmio").unwrap().error(1.0), None);
    }

    #[test]
    fn restatements_of_calibrated_claims_are_calibrated() {
        let settled = settled_by(["atc16-tab5-cib-recv0".to_owned(), "atc16-tab4-recv-batch".to_owned()]);
        for id in ["atc16-tab4-recv-batch-ho", "atc16-tab5-cib-recv1", "atc16-ho-recv-gain-cib"] {
            assert!(settled.contains(id), "{id}");
        }
        assert!(!settled.contains("atc16-ho-send-gain-cib"));
    }
}
