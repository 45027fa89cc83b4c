//! Parameters with their provenance, and how they are read from TOML.

use doorbell_verbs::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use thiserror::Error;
use toml::Spanned;

/// Where the value of a parameter comes from.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "basis", rename_all = "lowercase")]
pub enum Basis {
    /// Stated in a publication.
    Published {
        /// The publication, and the place in it.
        source: String,
    },
    /// Set so that the model meets a few measurements.
    Calibrated {
        /// Ids of the claims used.
        claims: Vec<String>,
        /// Ids of used measurements that are not claims.
        measurements: Vec<String>,
        /// How the value follows from the data.
        how: String,
        /// The range that is known without the data, from the least to the most, in the parameter's unit.
        #[serde(skip_serializing_if = "Option::is_none")]
        range: Option<[f64; 2]>,
    },
    /// Chosen without data.
    Assumed {
        /// Reason for the value.
        reason: String,
        /// Other possible values.
        alternative: String,
        /// The possible values as a range, from the least to the most, in the parameter's unit.
        #[serde(skip_serializing_if = "Option::is_none")]
        range: Option<[f64; 2]>,
        /// The parameter whose value this one always has.
        #[serde(skip_serializing_if = "Option::is_none")]
        same_as: Option<String>,
    },
    /// Set by the user, over the profile's value.
    Set {
        /// The profile's own value.
        instead_of: f64,
    },
}

/// Unit in which a profile states a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Unit {
    /// A number of things.
    #[serde(rename = "")]
    Count,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// GHz.
    #[serde(rename = "GHz")]
    Gigahertz,
    /// 10^6 bytes per second.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    /// 10^9 bits per second.
    #[serde(rename = "Gb/s")]
    GigabitsPerSecond,
    /// True or false.
    #[serde(rename = "bool")]
    Flag,
}

impl Unit {
    /// Base units (ps, Hz, B/s) in one of this unit.
    const fn base(self) -> f64 {
        match self {
            Unit::Count | Unit::Bytes | Unit::Flag => 1.0,
            Unit::Nanoseconds => 1e3,
            Unit::Gigahertz => 1e9,
            Unit::MegabytesPerSecond => 1e6,
            Unit::GigabitsPerSecond => 1e9 / 8.0,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Count => "",
            Unit::Bytes => "B",
            Unit::Nanoseconds => "ns",
            Unit::Gigahertz => "GHz",
            Unit::MegabytesPerSecond => "MB/s",
            Unit::GigabitsPerSecond => "Gb/s",
            Unit::Flag => "bool",
        })
    }
}

/// A parameter of a profile, for reports.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Parameter {
    /// Section and key, such as `tx.send_ns`.
    pub name: String,
    /// Value in `unit`; a flag is 0 or 1.
    pub value: f64,
    /// Unit of the value.
    pub unit: Unit,
    /// Origin of the value.
    #[serde(flatten)]
    pub basis: Basis,
    /// The profile whose file gives the value, if this profile inherits it from a base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

impl Parameter {
    /// This parameter as inherited by a profile that is based on `profile`.
    pub(super) fn inherited_from(&self, profile: &str) -> Parameter {
        Parameter { base: Some(self.base.clone().unwrap_or_else(|| profile.to_owned())), ..self.clone() }
    }

    /// The basis in words.
    pub fn note(&self) -> String {
        match &self.basis {
            Basis::Published { source } => source.clone(),
            Basis::Calibrated { claims, measurements, how, .. } => {
                let used: Vec<&str> = claims.iter().chain(measurements).map(String::as_str).collect();
                format!("{how} (from {})", used.join("; "))
            }
            Basis::Assumed { reason, alternative, .. } => format!("{reason} (could be {alternative})"),
            Basis::Set { instead_of } => format!("set by you, instead of {instead_of}"),
        }
    }
}

/// An error in a profile.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// Neither a built-in name nor a readable file.
    #[error("{0}")]
    NotFound(String),
    /// The text is not the TOML of a profile.
    #[error("{file}:{line}: {message}")]
    Content {
        /// The file, or the name of a built-in profile.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The error, with its key.
        message: String,
    },
    /// A parameter that was set is not a parameter of the profile, or its value is out of range.
    #[error("set: {0}")]
    Set(String),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BasisName {
    Published,
    Calibrated,
    Assumed,
}

/// An entry as it is written in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with value, basis and the notes of that basis")]
pub(super) struct ParameterEntry {
    value: toml::Value,
    basis: BasisName,
    source: Option<String>,
    #[serde(default)]
    claims: Vec<String>,
    #[serde(default)]
    measurements: Vec<String>,
    how: Option<String>,
    reason: Option<String>,
    alternative: Option<String>,
    range: Option<[f64; 2]>,
    same_as: Option<String>,
}

impl ParameterEntry {
    /// The basis, if the entry has exactly the notes that the basis needs.
    fn basis(&self) -> Result<Basis, String> {
        if let Some([least, most]) = self.range
            && least >= most
        {
            return Err(format!("has a range that begins at {least}, but ends at {most}"));
        }
        match self.basis {
            BasisName::Published => self.published(),
            BasisName::Calibrated => self.calibrated(),
            BasisName::Assumed => self.assumed(),
        }
    }

    fn used_data(&self) -> bool {
        !self.claims.is_empty() || !self.measurements.is_empty()
    }

    /// Whether the entry gives other possible values: in words, as a range, or as another parameter.
    fn has_other(&self) -> bool {
        self.alternative.is_some() || self.range.is_some() || self.same_as.is_some()
    }

    fn published(&self) -> Result<Basis, String> {
        match (&self.source, &self.how, &self.reason) {
            (Some(source), None, None) if !self.used_data() && !self.has_other() => {
                Ok(Basis::Published { source: source.clone() })
            }
            _ => Err("is published: it needs `source` and no other note".into()),
        }
    }

    fn calibrated(&self) -> Result<Basis, String> {
        let others = [&self.source, &self.reason, &self.alternative, &self.same_as];
        match &self.how {
            Some(how) if self.used_data() && others.into_iter().all(Option::is_none) => {
                Ok(Basis::Calibrated {
                    claims: self.claims.clone(),
                    measurements: self.measurements.clone(),
                    how: how.clone(),
                    range: self.range,
                })
            }
            _ => {
                let needs = "is calibrated: it needs `claims` or `measurements`, `how`, and no other note than `range`";
                Err(needs.into())
            }
        }
    }

    fn assumed(&self) -> Result<Basis, String> {
        let alternative = match (&self.alternative, self.range, &self.same_as) {
            (Some(alternative), None, None) => Some(alternative.clone()),
            (None, Some([least, most]), None) => Some(format!("{least} to {most}")),
            (None, None, Some(other)) => Some(format!("any value that {other} also has")),
            _ => None,
        };
        match (&self.reason, alternative) {
            (Some(reason), Some(alternative))
                if !self.used_data() && self.source.is_none() && self.how.is_none() =>
            {
                let (range, same_as) = (self.range, self.same_as.clone());
                Ok(Basis::Assumed { reason: reason.clone(), alternative, range, same_as })
            }
            _ => {
                let needs = "is assumed: it needs `reason` and one of `range`, `same_as` and `alternative`, and no other note";
                Err(needs.into())
            }
        }
    }
}

/// Least similarity at which an unknown name may be a misspelt parameter. Equal names have similarity 1.
const LIKE: f64 = 0.8;

/// A type that a parameter can have in a [`crate::Profile`].
pub(super) trait FromBase: Sized {
    /// Converts a value in base units that is already within its range.
    fn from_base(base: f64) -> Self;
}

impl FromBase for u32 {
    fn from_base(base: f64) -> u32 {
        base as u32
    }
}

impl FromBase for u64 {
    fn from_base(base: f64) -> u64 {
        base as u64
    }
}

impl FromBase for bool {
    fn from_base(base: f64) -> bool {
        base != 0.0
    }
}

impl FromBase for Span {
    fn from_base(base: f64) -> Span {
        Span::from_ps(base as u64)
    }
}

/// The entries of a section, by key.
pub(super) type Section = BTreeMap<String, Spanned<ParameterEntry>>;

/// A section of one file, from which parameters are taken. A missing section is empty.
pub(super) struct OpenSection {
    name: &'static str,
    /// Byte offset of its beginning.
    at: usize,
    entries: Section,
}

/// A profile that another one is based on.
pub(super) struct ProfileBase {
    pub(super) name: String,
    pub(super) parameters: Vec<Parameter>,
}

/// Reads parameters from one file, and missing ones from the file's base. Also applies values that are set
/// over a profile. In that case there is no file.
pub(super) struct ProfileReader<'a> {
    file: &'a str,
    text: &'a str,
    pub(super) base: Option<ProfileBase>,
    set: Option<BTreeMap<String, f64>>,
    parameters: Vec<Parameter>,
}

/// The message for a key that a file gives twice.
fn given_twice(key: &str) -> String {
    let both = "a file either names the host of another profile, such as host = \"e7520\", or has \
         parameters in [host]";
    match key {
        "host" => format!("host is given twice: {both}"),
        key => format!("{key} is given twice"),
    }
}

impl<'a> ProfileReader<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> ProfileReader<'a> {
        ProfileReader { file, text, base: None, set: None, parameters: Vec::new() }
    }

    /// A reader of parameters that are set over a profile.
    pub(super) fn of_set(profile: ProfileBase, set: &BTreeMap<String, f64>) -> ProfileReader<'static> {
        ProfileReader { base: Some(profile), set: Some(set.clone()), ..ProfileReader::new("", "") }
    }

    /// The file's name for messages.
    pub(super) fn file(&self) -> &'a str {
        self.file
    }

    /// An error at byte `at` of the text.
    pub(super) fn error(&self, at: usize, message: String) -> ProfileError {
        if self.set.is_some() {
            return ProfileError::Set(message);
        }
        let line = self.text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
        ProfileError::Content { file: self.file.to_owned(), line, message }
    }

    /// The TOML parser's error, with the key of its line.
    pub(super) fn malformed(&self, error: &toml::de::Error) -> ProfileError {
        let span = error.span().unwrap_or(0..0);
        let at = span.start;
        if error.message() == "duplicate key" {
            return self.error(
                at,
                given_twice(self.text.get(span).unwrap_or("a key").trim_matches(['[', ']', ' '])),
            );
        }
        let message = error.message().replace('\n', " ").replace("expected a map", "expected a table");
        // If a key and `=` precede the error in its line, the error is about the value of this key.
        let begins = self.text.get(..at).map_or(0, |before| before.rfind('\n').map_or(0, |end| end + 1));
        let key = self.text.get(begins..at).and_then(|line| line.split_once('=')).map(|(key, _)| key.trim());
        self.error(at, key.map_or(message.clone(), |key| format!("{key}: {message}")))
    }

    /// Opens a section.
    pub(super) fn section(&self, name: &'static str, section: Option<Spanned<Section>>) -> OpenSection {
        let at = section.as_ref().map_or(0, |section| section.span().start);
        OpenSection { name, at, entries: section.map_or_else(Section::new, Spanned::into_inner) }
    }

    /// Takes one parameter out of its section, or out of the base.
    pub(super) fn take<T: FromBase>(
        &mut self,
        section: &mut OpenSection,
        key: &str,
        unit: Unit,
        range: RangeInclusive<f64>,
    ) -> Result<T, ProfileError> {
        let name = format!("{}.{key}", section.name);
        let set = self.set.as_mut().and_then(|set| set.remove(&name));
        let parameter = match (set, section.entries.remove(key), self.inherited(&name)) {
            (Some(value), _, Some(own)) => self.set(own, value, range)?,
            (_, Some(entry), _) => self.given(name, entry, unit, range)?,
            (_, None, Some(inherited)) => inherited,
            (_, None, None) => return Err(self.error(section.at, format!("parameter {name} is missing"))),
        };
        let value = T::from_base((parameter.value * unit.base()).round());
        self.parameters.push(parameter);
        Ok(value)
    }

    /// Takes one parameter as [`ProfileReader::take`] does. If neither the file nor its base gives the
    /// parameter, its value is `usual`, and the profile has no such parameter, so the mechanism that the
    /// parameter describes is off.
    pub(super) fn take_or<T: FromBase>(
        &mut self,
        section: &mut OpenSection,
        key: &str,
        unit: Unit,
        range: RangeInclusive<f64>,
        usual: f64,
    ) -> Result<T, ProfileError> {
        let name = format!("{}.{key}", section.name);
        if section.entries.contains_key(key) || self.inherited(&name).is_some() {
            return self.take(section, key, unit, range);
        }
        let value = match self.set.as_mut().and_then(|set| set.remove(&name)) {
            None => usual,
            Some(value) => {
                let basis = Basis::Set { instead_of: usual };
                let parameter =
                    self.set(Parameter { name, value: usual, unit, basis, base: None }, value, range)?;
                self.parameters.push(parameter);
                value
            }
        };
        Ok(T::from_base((value * unit.base()).round()))
    }

    /// A parameter that the file gives.
    fn given(
        &self,
        name: String,
        entry: Spanned<ParameterEntry>,
        unit: Unit,
        range: RangeInclusive<f64>,
    ) -> Result<Parameter, ProfileError> {
        let at = entry.span().start;
        let entry = entry.into_inner();
        let basis = entry.basis().map_err(|why| self.error(at, format!("{name} {why}")))?;
        let value = number(&entry.value, unit)
            .map_err(|kind| self.error(at, format!("{name} is {}, but must be {kind}", entry.value)))?;
        within(&name, value, range).map_err(|why| self.error(at, why))?;
        self.check(&name, value, &basis).map_err(|why| self.error(at, why))?;
        Ok(Parameter { name, value, unit, basis, base: None })
    }

    /// Checks that a value lies within the range of its basis, and equals the earlier parameter that
    /// `same_as` names.
    fn check(&self, name: &str, value: f64, basis: &Basis) -> Result<(), String> {
        if let Basis::Calibrated { range: Some(range), .. } | Basis::Assumed { range: Some(range), .. } =
            basis
        {
            within(name, value, range[0]..=range[1])?;
        }
        let Basis::Assumed { same_as: Some(other), .. } = basis else { return Ok(()) };
        match self.parameters.iter().find(|p| p.name == *other) {
            Some(p) if p.value == value => Ok(()),
            Some(p) => Err(format!("{name} is {value}, but must equal {other}, which is {}", p.value)),
            None => Err(format!("{name} must equal {other}, which is not an earlier parameter")),
        }
    }

    /// A parameter of the base with a new value.
    fn set(&self, own: Parameter, value: f64, range: RangeInclusive<f64>) -> Result<Parameter, ProfileError> {
        let Parameter { name, unit, value: instead_of, .. } = own;
        match unit {
            Unit::Flag if value != 0.0 && value != 1.0 => {
                return Err(self.error(0, format!("{name} is {value}, but must be true or false")));
            }
            Unit::Count | Unit::Bytes if value.fract() != 0.0 => {
                return Err(self.error(0, format!("{name} is {value}, but must be a whole number")));
            }
            _ => within(&name, value, range).map_err(|why| self.error(0, why))?,
        }
        // If a value was set before, the profile's own value is in that basis.
        let instead_of = match own.basis {
            Basis::Set { instead_of } => instead_of,
            _ => instead_of,
        };
        Ok(Parameter { name, value, unit, basis: Basis::Set { instead_of }, base: None })
    }

    /// A parameter of the base.
    fn inherited(&self, name: &str) -> Option<Parameter> {
        let base = self.base.as_ref()?;
        let parameter = base.parameters.iter().find(|p| p.name == name)?;
        // A profile over which values are set is not a base.
        Some(if self.set.is_some() { parameter.clone() } else { parameter.inherited_from(&base.name) })
    }

    /// Refuses keys that no parameter has taken.
    pub(super) fn finish(&self, section: OpenSection) -> Result<(), ProfileError> {
        match section.entries.iter().next() {
            None => Ok(()),
            Some((key, entry)) => {
                let message = format!("{}.{key} is not a parameter of a profile", section.name);
                Err(self.error(entry.span().start, message))
            }
        }
    }

    /// Refuses names that are set but are not parameters of the profile.
    pub(super) fn finish_set(&self) -> Result<(), ProfileError> {
        let Some((name, _)) = self.set.iter().flatten().next() else { return Ok(()) };
        let likeness = |p: &&Parameter| strsim::jaro(&p.name, name);
        let nearest = self.parameters.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let profile = self.base.as_ref().map_or("", |base| &base.name);
        let hint = match nearest.filter(|p| likeness(p) > LIKE) {
            Some(p) => format!("; did you mean {}?", p.name),
            None => ": `doorbell profiles NAME` lists the parameters of a profile".to_owned(),
        };
        Err(self.error(0, format!("{name} is not a parameter of {profile}{hint}")))
    }

    pub(super) fn into_parameters(self) -> Vec<Parameter> {
        self.parameters
    }
}

fn within(name: &str, value: f64, range: RangeInclusive<f64>) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    let (low, high) = range.into_inner();
    Err(format!("{name} is {value}, not within {low} to {high}"))
}

/// The number in an entry. The error is the kind of value that the unit requires.
fn number(value: &toml::Value, unit: Unit) -> Result<f64, &'static str> {
    match (value, unit) {
        (toml::Value::Boolean(flag), Unit::Flag) => Ok(f64::from(u8::from(*flag))),
        (_, Unit::Flag) => Err("true or false"),
        (toml::Value::Integer(n), _) => Ok(*n as f64),
        (_, Unit::Count | Unit::Bytes) => Err("a whole number"),
        (toml::Value::Float(x), _) => Ok(*x),
        _ => Err("a number"),
    }
}

/// Declares a section: its fields with their TOML key, unit and range. A field with `else` has this value, in
/// the unit, if neither a file nor its base gives the parameter.
macro_rules! section {
    (@take $reader:ident $section:ident $type:ty, $key:literal $unit:ident $low:literal $high:literal) => {
        $reader.take::<$type>(&mut $section, $key, Unit::$unit, ($low as f64)..=($high as f64))?
    };
    (@take $reader:ident $section:ident $type:ty, $key:literal $unit:ident $low:literal $high:literal $usual:literal) => {
        $reader.take_or::<$type>(&mut $section, $key, Unit::$unit, ($low as f64)..=($high as f64), $usual as f64)?
    };
    (
        $(#[$meta:meta])*
        $name:ident in $table:literal {
            $( $(#[$field_meta:meta])* $field:ident: $type:ty = $key:literal $unit:ident $low:literal..=$high:literal $(else $usual:literal)?; )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[doc = concat!("\n\nTOML: `", $table, ".", $key, "`, ", $low, " to ", $high, $("; ", $usual, " if absent", )? ".")]
                pub $field: $type,
            )*
        }

        impl $name {
            pub(super) fn read(reader: &mut ProfileReader<'_>, section: Option<Spanned<Section>>) -> Result<$name, ProfileError> {
                let mut section = reader.section($table, section);
                let read = $name {
                    $( $field: section!(@take reader section $type, $key $unit $low $high $($usual)?), )*
                };
                reader.finish(section)?;
                Ok(read)
            }
        }
    };
}
pub(super) use section;
