//! Fields.

use crate::{BadDuration, BadNumber, Duration, Given, NumberUnit, Settings, Share, Value};
use doorbell_verbs::Span;

/// One setting that a user can give: one key of a file, one or two flags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Name in TOML and JSON.
    pub key: &'static str,
    /// One sentence, without its full stop.
    pub about: &'static str,
    /// The kind of its values.
    pub kind: FieldKind,
    /// The value if it is not given, in words; empty if the text follows from a value.
    pub usual: &'static str,
    /// The flags that set it.
    pub flags: Flags,
    /// Whether a table must have it.
    pub required: bool,
    /// Names under which people look for the field. They are suggestions, not names of the field.
    pub synonyms: &'static [&'static str],
    /// Other words for its names, each with the name. They are only read, never written.
    pub also: &'static [(&'static str, &'static str)],
}

/// The kind of a field's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldKind {
    /// A whole number.
    Number {
        /// Unit.
        unit: NumberUnit,
        /// Smallest value.
        least: u64,
        /// Largest value, on any hardware.
        most: u64,
    },
    /// Yes or no.
    Switch,
    /// One of these names.
    Name(&'static [&'static str]),
    /// A span of virtual time; zero only if it has a meaning.
    Time {
        /// Whether zero is allowed.
        zero: bool,
    },
    /// A share, such as "1%", within these bounds.
    Share(Share, Share),
    /// A text.
    Text,
    /// Tables, each with these fields.
    Tables(&'static [Field]),
    /// Numbers by names. The code that uses them knows which names exist.
    Settings,
}

/// How a command line gives a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Flags {
    /// By a flag with the field's name, with `-` for `_`. The help shows its value as this text. A switch
    /// takes no value: its flag means yes.
    Own(&'static str),
    /// By these flags.
    These(&'static [Flag]),
    /// Not at all: only files can give it.
    None,
}

/// A flag of another name than its field, or one that negates it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flag {
    /// Name, without dashes.
    pub name: &'static str,
    /// The value's name in the help, or the value of a switch.
    pub says: Says,
    /// One sentence that replaces the field's; empty for the field's own.
    pub about: &'static str,
}

/// The meaning of a flag.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Says {
    /// The following argument is the value, and the help shows it as this text.
    Value(&'static str),
    /// The flag sets a switch to this value.
    Switch(bool),
}

impl Flag {
    /// A flag that sets a switch to no.
    pub const fn no(name: &'static str, about: &'static str) -> Flag {
        Flag { name, says: Says::Switch(false), about }
    }

    /// A flag that sets a switch to yes.
    pub const fn yes(name: &'static str, about: &'static str) -> Flag {
        Flag { name, says: Says::Switch(true), about }
    }

    /// A flag with another name than its field's.
    pub const fn renamed(name: &'static str, shown: &'static str) -> Flag {
        Flag { name, says: Says::Value(shown), about: "" }
    }
}

impl Field {
    const fn of(kind: FieldKind) -> Field {
        Field {
            key: "",
            about: "",
            kind,
            usual: "",
            flags: Flags::Own("N"),
            required: false,
            synonyms: &[],
            also: &[],
        }
    }

    /// A count from `least` to `most`.
    pub const fn count(least: u64, most: u64) -> Field {
        Field::of(FieldKind::Number { unit: NumberUnit::Count, least, most })
    }

    /// A number of things per second from `least` to `most`.
    pub const fn per_second(least: u64, most: u64) -> Field {
        Field::of(FieldKind::Number { unit: NumberUnit::PerSecond, least, most })
    }

    /// A number of bytes from `least` to `most`.
    pub const fn bytes(least: u64, most: u64) -> Field {
        Field::of(FieldKind::Number { unit: NumberUnit::Bytes, least, most }).shown("BYTES")
    }

    /// A number of thousandths, from none to all.
    pub const fn permille() -> Field {
        Field::of(FieldKind::Number { unit: NumberUnit::Permille, least: 0, most: 1000 })
    }

    /// A yes or no.
    pub const fn switch() -> Field {
        Field::of(FieldKind::Switch)
    }

    /// One of these names.
    pub const fn name(names: &'static [&'static str]) -> Field {
        Field::of(FieldKind::Name(names)).shown("NAME")
    }

    /// A span of virtual time; zero is allowed.
    pub const fn time() -> Field {
        Field::of(FieldKind::Time { zero: true }).shown("D")
    }

    /// A span of virtual time that is longer than zero.
    pub const fn positive_time() -> Field {
        Field::of(FieldKind::Time { zero: false }).shown("D")
    }

    /// A share from `least` to `most`.
    pub const fn share(least: Share, most: Share) -> Field {
        Field::of(FieldKind::Share(least, most)).shown("PERCENT")
    }

    /// A text.
    pub const fn text() -> Field {
        Field::of(FieldKind::Text).shown("TEXT")
    }

    /// Tables, each with these fields. Only files can give them.
    pub const fn tables(fields: &'static [Field]) -> Field {
        Field::of(FieldKind::Tables(fields)).in_files()
    }

    /// Numbers by names.
    pub const fn settings() -> Field {
        Field::of(FieldKind::Settings).shown("NAME=NUMBER")
    }

    /// This field with its usual value, in words.
    pub const fn usual(self, usual: &'static str) -> Field {
        Field { usual, ..self }
    }

    /// This field, whose flag shows its value as this text.
    pub const fn shown(self, shown: &'static str) -> Field {
        Field { flags: Flags::Own(shown), ..self }
    }

    /// This field with these flags.
    pub const fn flags(self, flags: &'static [Flag]) -> Field {
        Field { flags: Flags::These(flags), ..self }
    }

    /// This field without a flag.
    pub const fn in_files(self) -> Field {
        Field { flags: Flags::None, ..self }
    }

    /// This field, for which people look under these names.
    pub const fn synonyms(self, synonyms: &'static [&'static str]) -> Field {
        Field { synonyms, ..self }
    }

    /// This field of names, with other words for them.
    pub const fn also(self, also: &'static [(&'static str, &'static str)]) -> Field {
        Field { also, ..self }
    }

    /// This field as one that a table must have.
    pub const fn required(self) -> Field {
        Field { required: true, ..self }
    }

    /// For [`crate::schema!`]: adds the key and the doc comment of the type's field.
    #[doc(hidden)]
    pub const fn named(self, key: &'static str, about: &'static str) -> Field {
        let about = about.trim_ascii();
        let about = match about.split_at_checked(about.len().saturating_sub(1)) {
            Some((sentence, end)) if matches!(end.as_bytes(), b".") => sentence,
            _ => about,
        };
        Field { key, about, ..self }
    }

    /// The value in `text`, the argument of a flag.
    ///
    /// # Errors
    /// One sentence if the field cannot have this value.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self.kind {
            FieldKind::Switch => Value::Switch(text.parse().map_err(|_| self.refuse(text, "true or false"))?),
            FieldKind::Tables(_) => {
                return Err(format!(
                    "{} consists of tables, so it can only be set in a \
                 file",
                    self.key
                ));
            }
            FieldKind::Settings => Value::Settings(self.setting(text)?),
            _ => self.of_text(text)?,
        };
        check(self, &value).map(|()| value)
    }

    /// The value in a text, which a flag or a file gives.
    ///
    /// # Errors
    /// One sentence if the text is not a number of the field.
    pub(crate) fn of_text(&self, text: &str) -> Result<Value, String> {
        match self.kind {
            FieldKind::Number { unit, .. } => {
                unit.read(text).map(Value::Number).map_err(|bad| self.refuse_number(text, &bad))
            }
            FieldKind::Name(names) => {
                Ok(Value::Text(named(names, self.also, text).unwrap_or(text).to_owned()))
            }
            _ => Ok(Value::Text(text.to_owned())),
        }
    }

    /// A setting written as `name=number`.
    fn setting(&self, text: &str) -> Result<Settings, String> {
        let Some((name, number)) = text.split_once('=') else {
            return Err(format!("{} is `{text}`, but must be a name, =, and a number", self.key));
        };
        let (name, number) = (name.trim(), number.trim());
        if name.is_empty() {
            return Err(format!("{} is `{text}`, which has no name before its =", self.key));
        }
        let number = number
            .parse()
            .map_err(|wanted| format!("{}: {name} is `{number}`, but must be {wanted}", self.key))?;
        Ok(Settings::from([(name.to_owned(), number)]))
    }

    pub(crate) fn refuse(&self, got: impl std::fmt::Display, wanted: &str) -> String {
        format!("{} is {got}, but must be {wanted}", self.key)
    }

    fn refuse_number(&self, text: &str, bad: &BadNumber) -> String {
        let FieldKind::Number { unit, least, most } = self.kind else {
            return self.refuse(text, "a whole number");
        };
        match bad {
            BadNumber::Negative => self.refuse(text, &format!("at least {least}")),
            BadNumber::TooLarge => self.refuse(text, &format!("at most {most}")),
            BadNumber::Form if text.is_empty() => self.refuse("empty", unit.wanted()),
            BadNumber::Form => {
                let meant = unit.meant(text).map(|meant| format!("; did you mean {meant}?"));
                self.refuse(text, unit.wanted()) + &meant.unwrap_or_default()
            }
            BadNumber::Ambiguous(_) => {
                format!("{} is {text}, which {}", self.key, bad.readings().unwrap_or_default())
            }
        }
    }

    /// Range or names of the field, for pages.
    pub fn range(&self) -> String {
        match self.kind {
            FieldKind::Number { unit, least, most } => {
                let unit = if unit == NumberUnit::Bytes { " B" } else { "" };
                // A number that only hardware limits has no upper bound here.
                match most >= u64::from(u32::MAX) {
                    true => format!("from {least}{unit}"),
                    false => format!("{least} to {most}{unit}"),
                }
            }
            FieldKind::Switch => "true, false".into(),
            FieldKind::Name(names) => names.join(", "),
            FieldKind::Time { .. } => "a time, such as `500us`".into(),
            FieldKind::Share(least, most) => format!("{least} to {most}"),
            FieldKind::Text => "text".into(),
            FieldKind::Tables(fields) => {
                let keys: Vec<&str> = fields.iter().map(|field| field.key).collect();
                format!("tables of {}", keys.join(", "))
            }
            FieldKind::Settings => "names with numbers".into(),
        }
    }

    /// Flags of the field with their names, meanings and descriptions.
    pub fn all_flags(&self) -> Vec<(String, Says, &'static str)> {
        match self.flags {
            Flags::None => Vec::new(),
            Flags::Own(shown) => {
                let says =
                    if self.kind == FieldKind::Switch { Says::Switch(true) } else { Says::Value(shown) };
                vec![(self.key.replace('_', "-"), says, self.about)]
            }
            Flags::These(flags) => {
                let about = |flag: &Flag| if flag.about.is_empty() { self.about } else { flag.about };
                flags.iter().map(|flag| (flag.name.to_owned(), flag.says, about(flag))).collect()
            }
        }
    }
}

const GIB: u64 = 1 << 30;

/// The name that a text means: the name itself in capitals or small letters, with `_` for `-`, or another
/// word for the name.
pub fn named(
    names: &[&'static str],
    also: &[(&'static str, &'static str)],
    text: &str,
) -> Option<&'static str> {
    let written = text.replace('_', "-");
    let is_meant = |name: &str| name.eq_ignore_ascii_case(&written);
    let own = names.iter().copied().find(|name| is_meant(name));
    own.or_else(|| also.iter().find(|(word, _)| is_meant(word)).map(|(_, name)| *name))
}

/// The longest time that a field may have. Nobody simulates longer, and it is far from the end of a 64-bit
/// clock of picoseconds, which is after 213 days.
const LONGEST: Span = Span::from_ms(1_000_000);

/// Checks that a value is valid for the field.
///
/// # Errors
/// One sentence if it is not valid.
pub fn check(field: &Field, value: &Value) -> Result<(), String> {
    let Field { key, .. } = field;
    match (field.kind, value) {
        (FieldKind::Number { least, .. }, Value::Number(n)) if *n < least => {
            Err(format!("{key} is {n}, but must be at least {least}"))
        }
        (FieldKind::Number { unit, most, .. }, Value::Number(n)) if *n > most => {
            let gib = (unit == NumberUnit::Bytes && most >= GIB && most.is_multiple_of(GIB))
                .then(|| format!(" ({}GiB)", most / GIB));
            Err(format!("{key} is {n}, but must be at most {most}{}", gib.unwrap_or_default()))
        }
        (FieldKind::Number { .. }, Value::Number(_))
        | (FieldKind::Switch, Value::Switch(_))
        | (FieldKind::Text, Value::Text(_))
        | (FieldKind::Settings, Value::Settings(_)) => Ok(()),
        (FieldKind::Name(names), Value::Text(name)) => match names.contains(&name.as_str()) {
            true => Ok(()),
            false => Err(format!("{key} is `{name}`, but must be {}", one_of(names))),
        },
        (FieldKind::Time { zero }, Value::Text(text)) => match text.parse::<Duration>() {
            Ok(time) if time.span() == Span::ZERO && !zero => {
                Err(format!("{key} is {time}, but must be longer"))
            }
            Ok(time) if time.span() > LONGEST => {
                Err(format!("{key} is {time}, but must be at most {}", Duration::new(LONGEST)))
            }
            Ok(_) => Ok(()),
            Err(BadDuration::TooLong(text)) => {
                Err(format!("{key} is {text}, but must be at most {}", Duration::new(LONGEST)))
            }
            Err(error) => Err(format!("{key}: {error}")),
        },
        (FieldKind::Share(least, most), Value::Text(text)) => match text.parse::<Share>() {
            Ok(share) if share < least => Err(format!("{key} is {share}, but must be at least {least}")),
            Ok(share) if share > most => Err(format!("{key} is {share}, but must be at most {most}")),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{key}: {error}")),
        },
        (FieldKind::Tables(fields), Value::Tables(tables)) => check_tables(fields, tables),
        (kind, value) => Err(field.refuse(value, kind.wanted())),
    }
}

impl Given {
    /// Sets the value of a field.
    ///
    /// # Errors
    /// One sentence if the value is not valid for the field.
    pub fn set(&mut self, field: &Field, value: Value) -> Result<(), String> {
        check(field, &value)?;
        self.put(field.key, value);
        Ok(())
    }
}

fn check_tables(fields: &[Field], tables: &[Given]) -> Result<(), String> {
    for (field, value) in tables.iter().flat_map(|table| fields.iter().map(|f| (f, table.get(f.key)))) {
        if let Some(value) = value {
            check(field, value)?;
        }
    }
    Ok(())
}

impl FieldKind {
    pub(crate) fn wanted(self) -> &'static str {
        match self {
            FieldKind::Number { .. } => "a whole number",
            FieldKind::Switch => "true or false",
            FieldKind::Name(_) | FieldKind::Text => "a text",
            FieldKind::Time { .. } => "a time, such as \"500us\"",
            FieldKind::Share(..) => "a share, such as \"1%\"",
            FieldKind::Tables(_) => "a list of tables",
            FieldKind::Settings => "a table of numbers",
        }
    }
}

/// Joins names as `a, b or c`.
pub fn one_of(names: &[&str]) -> String {
    match names {
        [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
        _ => names.join(""),
    }
}

/// A Markdown table of fields, for pages. `usual` gives the usual value of a field that does not give it
/// itself.
pub fn table<'f>(fields: impl IntoIterator<Item = &'f Field>, usual: impl Fn(&Field) -> String) -> String {
    let mut text = String::from("| field | values | usual | flags | meaning |\n|---|---|---|---|---|\n");
    for field in fields {
        let usual = if field.usual.is_empty() { usual(field) } else { field.usual.to_owned() };
        let flags: Vec<String> = field.all_flags().iter().map(|(name, ..)| format!("`--{name}`")).collect();
        let Field { key, about, .. } = field;
        text += &format!("| `{key}` | {} | {usual} | {} | {about} |\n", field.range(), flags.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Field = Field::bytes(1, 100).usual("32").named("size", " Payload in bytes.");
    const FAST: Field =
        Field::switch().flags(&[Flag::no("slow", "Take time")]).named("fast", "Whether it is fast");

    #[test]
    fn a_value_is_of_its_field() {
        for (field, text, wanted) in [
            (SIZE, "0", "size is 0, but must be at least 1"),
            (SIZE, "101", "size is 101, but must be at most 100"),
            (SIZE, "-1", "size is -1, but must be at least 1"),
            (SIZE, "99999999999999999999", "size is 99999999999999999999, but must be at most 100"),
            (SIZE, "-", "size is -, but must be a whole number of bytes, also as 4k, 4KiB, 2M or 2G"),
            (SIZE, "much", "size is much, but must be a whole number of bytes, also as 4k, 4KiB, 2M or 2G"),
            (SIZE, "4KB", "size is 4KB, which may mean 4000 bytes or 4KiB: write one of these"),
            (SIZE, "1k", "size is 1024, but must be at most 100"),
            (
                SIZE,
                "4m",
                "size is 4m, but must be a whole number of bytes, also as 4k, 4KiB, 2M or 2G; did you mean 4M?",
            ),
            (
                Field::per_second(0, 9).named("rate", ""),
                "70%",
                "rate is 70%, but must be a whole number per second, ",
            ),
            (FAST, "1", "fast is 1, but must be true or false"),
            (Field::time().named("warmup", ""), "3", "warmup: `3` is not a duration"),
            (
                Field::time().named("warmup", ""),
                "9999999999s",
                "warmup is 9999999999s, but must be at most 1000s",
            ),
            (Field::time().named("warmup", ""), "1001s", "warmup is 1001s, but must be at most 1000s"),
            (Field::name(&["a", "b", "c"]).named("way", ""), "d", "way is `d`, but must be a, b or c"),
        ] {
            let error = field.parse(text).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
        assert_eq!(SIZE.parse("64"), Ok(Value::Number(64)));
        assert_eq!(Field::bytes(1, 9000).named("size", "").parse("4k"), Ok(Value::Number(4096)));
        assert_eq!(Field::count(1, 9000).named("qps", "").parse("4k"), Ok(Value::Number(4000)));
        assert_eq!(Field::permille().named("puts", "").parse("5%"), Ok(Value::Number(50)));
        assert_eq!(FAST.parse("true"), Ok(Value::Switch(true)));
    }

    #[test]
    fn a_name_has_other_words() {
        let field = Field::name(&["read", "compare-swap"]).also(&[("cas", "compare-swap")]).named("verb", "");
        for (text, name) in [
            ("READ", "read"),
            ("Compare_Swap", "compare-swap"),
            ("cas", "compare-swap"),
            ("CAS", "compare-swap"),
        ] {
            assert_eq!(field.parse(text), Ok(Value::Text(name.to_owned())), "{text}");
        }
        assert_eq!(field.parse("faa"), Err("verb is `faa`, but must be read or compare-swap".to_owned()));
    }

    #[test]
    fn a_field_is_said_once() {
        assert_eq!(SIZE.about, "Payload in bytes");
        assert_eq!(SIZE.all_flags(), [("size".into(), Says::Value("BYTES"), "Payload in bytes")]);
        assert_eq!(FAST.all_flags(), [("slow".into(), Says::Switch(false), "Take time")]);
        let docs = table(&[SIZE, FAST], |_| "true".into());
        assert!(
            docs.ends_with("| `fast` | true, false | true | `--slow` | Whether it is fast |\n"),
            "{docs}"
        );
        assert!(docs.contains("| `size` | 1 to 100 B | 32 | `--size` | Payload in bytes |"), "{docs}");
    }
}
