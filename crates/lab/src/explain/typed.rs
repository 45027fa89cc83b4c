//! The command that a user typed, and changes of it.

use crate::asked::fields;
use crate::results::Longer;
use doorbell_schema::{Field, FieldKind, Given, Says, Settings, Value};
use doorbell_workload::{Workload, WorkloadError, keys};

/// The options of a command for a workload or a system.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Typed {
    /// The workload file: its name on the command line, and its contents.
    pub file: Option<(String, Given)>,
    /// Options from flags, which override the file.
    pub flags: Given,
    /// Profile parameters that flags set for single machine groups, each with the number of the group.
    pub of_groups: Vec<(usize, Settings)>,
}

/// Changes of options.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Change {
    /// Options with their new values.
    pub(super) set: Vec<(&'static Field, Value)>,
    /// Options to leave out.
    pub(super) unset: Vec<&'static Field>,
}

impl Change {
    /// Sets one option.
    pub(super) fn to(field: &'static Field, value: Value) -> Change {
        Change { set: vec![(field, value)], unset: Vec::new() }
    }

    /// Also sets another option.
    pub(super) fn and(mut self, field: &'static Field, value: Value) -> Change {
        self.set.push((field, value));
        self
    }

    /// Also leaves out another option.
    pub(super) fn without(mut self, field: &'static Field) -> Change {
        self.unset.push(field);
        self
    }
}

impl Typed {
    /// All options: the file, overridden by flags.
    ///
    /// # Errors
    /// If a flag names a machine group that does not exist.
    pub fn given(&self) -> Result<Given, WorkloadError> {
        let flags = self.flags.clone();
        let all = match &self.file {
            None => flags,
            Some((_, below)) => Workload::flags_over(flags, below.clone())?,
        };
        self.of_groups
            .iter()
            .try_fold(all, |given, (group, set)| Workload::with_set_of_group(given, *group, set.clone()))
    }

    /// Whether the file or a flag sets this option.
    pub(super) fn says(&self, field: &Field) -> bool {
        let below = self.file.as_ref().is_some_and(|(_, below)| below.get(field.key).is_some());
        below || self.flags.get(field.key).is_some()
    }

    /// Applies a change. Returns `None` if no flags, added to the file, can express the change.
    pub(super) fn with(&self, change: &Change) -> Option<Typed> {
        let mut typed = self.clone();
        for (field, value) in &change.set {
            words(field, value)?;
            typed.flags.set(field, value.clone()).ok()?;
        }
        let below = self.file.as_ref().map(|(_, below)| below);
        for field in &change.unset {
            typed.flags.remove(field.key);
            if below.is_some_and(|below| below.get(field.key).is_some()) {
                return None;
            }
        }
        Some(typed)
    }

    /// The options for a run that lasts longer, until it knows a percentile. They replace a duration. `None`
    /// if the maximum of the virtual time is out of its range.
    pub fn longer(&self, longer: &Longer) -> Option<Typed> {
        let change = Change::to(&Workload::until, Value::Text(longer.until.name().to_owned()));
        let max_time = longer.max_time.map(|time| Workload::max_time.parse(&time.to_string()).ok());
        let change = match max_time {
            Some(time) => change.and(&Workload::max_time, time?),
            None => change,
        };
        let mut typed = self.with(&change)?;
        typed.flags.remove(Workload::duration.key);
        Some(typed)
    }

    /// The options with a rate in place of a load.
    pub fn at_rate(&self, rate: u64) -> Typed {
        let mut typed = self.clone();
        typed.flags.remove(keys::LOAD);
        if let Some((_, below)) = &mut typed.file {
            below.remove(keys::LOAD);
        }
        typed.flags.set(&Workload::rate, Value::Number(rate)).expect("a rate is a number");
        typed
    }

    /// The command line for these options.
    pub fn command(&self) -> String {
        let file = self.file.iter().map(|(name, _)| quoted(name));
        let of_fields = fields().into_iter().flat_map(|field| {
            let value = self.flags.get(field.key);
            value.and_then(|value| words(field, value)).unwrap_or_default()
        });
        let of_groups = self.of_groups.iter().flat_map(|(group, set)| {
            set.iter()
                .map(move |(name, number)| format!("--set {}", quoted(&format!("{group}:{name}={number}"))))
        });
        let words = std::iter::once("doorbell simulate".to_owned());
        words.chain(file).chain(of_fields).chain(of_groups).collect::<Vec<_>>().join(" ")
    }
}

/// The flags that set a field to this value; `None` if no flag can.
fn words(field: &Field, value: &Value) -> Option<Vec<String>> {
    let flags = field.all_flags();
    if let (FieldKind::Switch, Value::Switch(said)) = (field.kind, value) {
        let says = |says: &Says| *says == Says::Switch(*said);
        let (name, ..) = flags.iter().find(|(_, of, _)| says(of))?;
        return Some(vec![format!("--{name}")]);
    }
    let (name, ..) = flags.iter().find(|(_, says, _)| matches!(says, Says::Value(_)))?;
    let texts = match value {
        Value::Number(number) => vec![number.to_string()],
        Value::Text(text) => vec![text.clone()],
        Value::Settings(set) => set.iter().map(|(name, number)| format!("{name}={number}")).collect(),
        Value::Switch(_) | Value::Tables(_) => return None,
    };
    Some(texts.iter().map(|text| format!("--{name} {}", quoted(text))).collect())
}

/// Quotes a word for a shell, if necessary.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+%@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_schema::{Schema, Until};

    fn given(toml: &str) -> Given {
        Given::from_toml("w.toml", toml, &Workload::fields()).unwrap()
    }

    fn number(number: u64) -> Value {
        Value::Number(number)
    }

    #[test]
    fn a_command_says_all_that_was_typed_and_the_change() {
        let flags = given(
            "verb = \"read\"\nqps = 4\nhuge_pages = false\nduration = \"50us\"\n[set]\ntx.send_ns = 20.5",
        );
        let typed = Typed { flags, ..Typed::default() };
        let changed = typed.with(&Change::to(&Workload::qps, number(1))).unwrap();
        assert_eq!(
            changed.command(),
            "doorbell simulate --set tx.send_ns=20.5 --verb read --qps 1 --small-pages --duration 50us"
        );
        let pages = Change::default().without(&Workload::huge_pages);
        assert!(!typed.with(&pages).unwrap().command().contains("small-pages"));
    }

    #[test]
    fn flags_over_a_file_say_what_they_can() {
        let below = given("verb = \"write\"\nwindow_per_qp = 64\nhuge_pages = false\ninline = false");
        let typed = Typed { file: Some(("my work.toml".into(), below)), ..Typed::default() };
        let with = |change| typed.with(&change);
        let inline = with(Change::to(&Workload::inline, Value::Switch(true))).unwrap();
        assert_eq!(inline.command(), "doorbell simulate 'my work.toml' --inline");
        let window = with(Change::to(&Workload::window, number(16))).unwrap();
        assert_eq!(window.given().unwrap().get("window_per_qp"), None);
        assert_eq!(
            with(Change::default().without(&Workload::huge_pages)),
            None,
            "no flag takes back what the file says"
        );
        assert_eq!(
            with(Change::to(&Workload::huge_pages, Value::Switch(true))),
            None,
            "nor is there one for it"
        );
    }

    #[test]
    fn a_percentile_replaces_a_duration() {
        let flags = given("verb = \"read\"\nduration = \"50us\"");
        let typed = Typed { flags, ..Typed::default() };
        let until = |until| Longer { until, max_time: None, max_wall: None };
        let longer = typed.longer(&until(Until::P999)).unwrap();
        assert_eq!(longer.command(), "doorbell simulate --verb read --until p99.9");
        let most = |text: &str| Longer { max_time: Some(text.parse().unwrap()), ..until(Until::P99) };
        let longer = typed.longer(&most("1600ms")).unwrap();
        assert_eq!(longer.command(), "doorbell simulate --verb read --until p99 --max-time 1600ms");
        assert_eq!(typed.longer(&most("2000s")), None, "virtual time is limited");
        let file = Some(("w.toml".into(), given("duration = \"50us\"")));
        let longer = Typed { file, ..Typed::default() }.longer(&until(Until::P99)).unwrap();
        assert_eq!(longer.command(), "doorbell simulate w.toml --until p99");
        assert_eq!(longer.given().unwrap().get("duration"), None);
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("a/b-c.toml"), "a/b-c.toml");
    }
}
