//! Files of series.

use super::keys::keys_of;
use super::measurement::{Measurement, SeriesPoint, Setup};
use super::workload::MeasuredWorkload;
use doorbell_schema::{SchemaError, line_of, nearest};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Key of the array of tables that holds the series.
const SERIES: &str = "measurement";
/// Key of the measured values.
const VALUE: &str = "value";
/// Key of the workload.
const WORKLOAD: &str = "workload";
/// Keys of other tables.
const PCIE: &str = "pcie";
const SYSTEM: &str = "system";

/// A file of series, in the order of the file. Its TOML has a table `[[measurement]]` for each series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesFile {
    /// The series. Their ids are unique.
    pub series: Vec<Measurement>,
}

/// A table of the file's text.
type Table<'t> = Spanned<DeTable<'t>>;
/// An error, and the byte at which it is.
type Wrong = (usize, String);

impl SeriesFile {
    /// Reads TOML; `file` is its name for messages.
    ///
    /// # Errors
    /// If the text is not TOML, a key is missing or unknown, or a value is not valid for its key: one
    /// sentence with the line.
    pub fn parse(file: &str, text: &str) -> Result<SeriesFile, SchemaError> {
        let wrong =
            |(at, message): Wrong| SchemaError { file: file.to_owned(), line: line_of(text, at), message };
        let table = DeTable::parse(text).map_err(|error| wrong(of_toml(&error)).not("TOML"))?;
        let mut ids = BTreeSet::new();
        let mut series = Vec::new();
        for table in tables(table).map_err(wrong)? {
            let at = table.span().start;
            let measurement = measurement(table).map_err(wrong)?;
            let id = &measurement.setup.id;
            if !ids.insert(id.clone()) {
                return Err(wrong((at, format!("the id {id} occurs twice, but ids are unique in a file"))));
            }
            series.push(measurement);
        }
        Ok(SeriesFile { series })
    }

    /// The file as TOML. [`SeriesFile::parse`] reads an equal file from it.
    pub fn to_toml(&self) -> String {
        self.series.iter().map(toml_of).collect::<Vec<_>>().join("\n")
    }
}

fn of_toml(error: &toml::de::Error) -> Wrong {
    (error.span().map_or(0, |span| span.start), error.message().replace('\n', " "))
}

/// The tables of the series, with a span each.
fn tables(file: Table<'_>) -> Result<Vec<Table<'_>>, Wrong> {
    let mut series = Vec::new();
    for (key, value) in file.into_inner() {
        let (at, value) = (value.span(), value.into_inner());
        match value {
            DeValue::Array(array) if key.get_ref() == SERIES => {
                for table in array {
                    let span = table.span();
                    let DeValue::Table(table) = table.into_inner() else {
                        return Err((span.start, format!("{SERIES} must be a list of tables")));
                    };
                    series.push(Spanned::new(span, table));
                }
            }
            _ if key.get_ref() == SERIES => {
                return Err((at.start, format!("{SERIES} must be a list of tables: [[{SERIES}]]")));
            }
            _ => {
                let message =
                    format!("unknown key `{}`; a file of series has [[{SERIES}]] alone", key.get_ref());
                return Err((key.span().start, message));
            }
        }
    }
    Ok(series)
}

fn measurement(table: Table<'_>) -> Result<Measurement, Wrong> {
    let at = table.span();
    let (mut setup, mut columns) = (DeTable::new(), BTreeMap::new());
    for (key, value) in table.into_inner() {
        match value.get_ref() {
            DeValue::Array(_) => {
                drop(columns.insert(key.get_ref().to_string(), column(key.get_ref(), value)?))
            }
            _ => drop(setup.insert(key, value)),
        }
    }
    check_keys(&setup, "a series", keys_of::<Setup>())?;
    if let Some(DeValue::Table(workload)) = setup.get(WORKLOAD).map(Spanned::get_ref) {
        check_keys(workload, WORKLOAD, keys_of::<MeasuredWorkload>())?;
    }
    let setup = toml::de::Deserializer::from(Spanned::new(at.clone(), setup));
    let setup = Setup::deserialize(setup).map_err(|error| of_toml(&error))?;
    points(setup, columns).map_err(|message| (at.start, message))
}

/// The numbers of an array.
fn column(key: &str, array: Spanned<DeValue<'_>>) -> Result<Vec<f64>, Wrong> {
    let at = array.span().start;
    let numbers = Vec::deserialize(toml::de::ValueDeserializer::from(array));
    numbers.map_err(|error| {
        let at = error.span().map_or(at, |span| span.start);
        (at, format!("{key} must be a list of numbers: {}", error.message().replace('\n', " ")))
    })
}

/// Checks that a table has no key besides the known ones. Arrays of a series are not among its keys.
fn check_keys(table: &DeTable<'_>, what: &str, known: &[&str]) -> Result<(), Wrong> {
    let Some((key, _)) = table.iter().find(|(key, _)| !known.contains(&&**key.get_ref())) else {
        return Ok(());
    };
    let right = match nearest(key.get_ref(), known.iter().copied()) {
        Some(like) => format!("did you mean `{like}`?"),
        None => format!("it has {}", known.join(", ")),
    };
    Err((key.span().start, format!("unknown key `{}` of {what}; {right}", key.get_ref())))
}

/// Makes points of the axis and the values.
fn points(setup: Setup, mut columns: BTreeMap<String, Vec<f64>>) -> Result<Measurement, String> {
    let (id, axis) = (&setup.id, &setup.workload.axis);
    let values =
        columns.remove(VALUE).ok_or_else(|| format!("{id} has no `{VALUE}`, the measured values"))?;
    let xs = columns.remove(axis).ok_or_else(|| match nearest(axis, columns.keys().map(String::as_str)) {
        Some(like) => format!("{id} has axis \"{axis}\", but no array `{axis}`; did you mean `{like}`?"),
        None => format!("{id} has axis \"{axis}\", so it needs an array `{axis}`"),
    })?;
    let lengths = [(axis, &xs)].into_iter().chain(columns.iter());
    for (key, numbers) in lengths {
        if numbers.len() != values.len() {
            return Err(format!(
                "{id} has {} elements in `{key}`, but {} values",
                numbers.len(),
                values.len()
            ));
        }
    }
    if values.is_empty() {
        return Err(format!("{id} has no values"));
    }
    let points = xs.into_iter().zip(values).map(|(x, value)| SeriesPoint { x, value }).collect();
    Ok(Measurement { setup, points, columns })
}

/// The TOML of a series.
fn toml_of(measurement: &Measurement) -> String {
    let Measurement { setup, points, columns } = measurement;
    let mut text = format!("[[{SERIES}]]\n");
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key} = {value}");
    };
    let values = toml::Table::try_from(setup).expect("a setup is TOML");
    for key in keys_of::<Setup>() {
        match values.get(*key) {
            Some(_) if *key == WORKLOAD => line(key, &inline(&setup.workload)),
            Some(_) if *key == PCIE => line(key, &inline(&setup.pcie)),
            Some(_) if *key == SYSTEM => line(key, &inline(&setup.system)),
            Some(toml::Value::Float(number)) => line(key, &number.to_string()),
            Some(value) => line(key, &value.to_string()),
            None => {}
        }
    }
    line(&setup.workload.axis, &list(points.iter().map(|point| point.x)));
    line(VALUE, &list(points.iter().map(|point| point.value)));
    for (key, numbers) in columns {
        line(key, &list(numbers.iter().copied()));
    }
    text
}

/// A value on one line, with its keys in the order of its type.
fn inline(value: &impl Serialize) -> String {
    let mut text = String::new();
    value.serialize(toml::ser::ValueSerializer::new(&mut text)).expect("it is TOML");
    text
}

/// A list of numbers. Whole numbers have no point.
fn list(numbers: impl Iterator<Item = f64>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::names::{MeasuredUnit, MeasuredVerb, RemoteMemory, SeriesRole};

    const SMALL: &str = r#"
[[measurement]]
id = "mine"
nic = "ConnectX-5"
unit = "Mops/s"
role = "calibrate"
host = "pair"
link_gbps = 100
pcie = { gen = 3, lanes = 16 }
workload = { verb = "faa", transport = "rc", metric = "rate", axis = "window", threads = 1, memory = "host" }
window = [1, 2]
value = [0.5, 1]
mpps = [0.5, 1.0]
"#;

    #[test]
    fn a_series_is_read_and_written() {
        let file = SeriesFile::parse("m.toml", SMALL).unwrap();
        let Measurement { setup, points, columns } = &file.series[0];
        assert_eq!(
            (&*setup.id, &setup.role, &setup.unit),
            ("mine", &SeriesRole::Calibrate, &MeasuredUnit::MopsPerSecond)
        );
        assert_eq!((setup.pcie.unwrap().generation, setup.pcie.unwrap().lanes), (3, Some(16)));
        assert_eq!(
            (&setup.workload.verb, &setup.workload.memory),
            (&MeasuredVerb::FetchAdd, &Some(RemoteMemory::Host))
        );
        assert_eq!(points, &[SeriesPoint { x: 1.0, value: 0.5 }, SeriesPoint { x: 2.0, value: 1.0 }]);
        assert_eq!(columns["mpps"], [0.5, 1.0]);
        let written = file.to_toml();
        assert_eq!(SeriesFile::parse("m.toml", &written).unwrap(), file);
        assert!(
            written.contains("pcie = { gen = 3, lanes = 16 }\nworkload = { verb = \"faa\", transport"),
            "{written}"
        );
        assert!(written.contains("window = [1, 2]\nvalue = [0.5, 1]\nmpps = [0.5, 1]"), "{written}");
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        for (from, to, message) in [
            (
                "threads = 1",
                "thread = 1",
                "m.toml:10: unknown key `thread` of workload; did you mean `threads`?",
            ),
            (
                "threads = 1",
                "zebra = 1",
                "m.toml:10: unknown key `zebra` of workload; it has verb, transport, ",
            ),
            ("nic = ", "nick = ", "m.toml:4: unknown key `nick` of a series; did you mean `nic`?"),
            ("nic = \"ConnectX-5\"\n", "", "m.toml:2: missing field `nic`"),
            ("threads = 1", "threads = -1", "m.toml:10: invalid value: integer `-1`, expected u32"),
            ("threads = 1", "threads = \"one\"", "m.toml:10: invalid type: string \"one\", expected u32"),
            ("[1, 2]", "[1, \"two\"]", "m.toml:11: window must be a list of numbers: "),
            (
                "window = [1, 2]",
                "windows = [1, 2]",
                "m.toml:2: mine has axis \"window\", but no array `window`; did you mean `windows`?",
            ),
            ("window = [1, 2]\n", "", "m.toml:2: mine has axis \"window\", so it needs an array `window`"),
            ("value = [0.5, 1]\n", "", "m.toml:2: mine has no `value`, the measured values"),
            ("[0.5, 1]", "[0.5]", "m.toml:2: mine has 2 elements in `window`, but 1 values"),
            (
                "[[measurement]]",
                "[measurement]",
                "m.toml:2: measurement must be a list of tables: [[measurement]]",
            ),
            (
                "[[measurement]]",
                "[[measurements]]",
                "m.toml:2: unknown key `measurements`; a file of series has",
            ),
            ("unit = ", "unit ", "m.toml:5: this is not TOML: "),
            ("gen = 3", "generation = 3", "m.toml:9: unknown field `generation`, expected one of `gen`"),
        ] {
            let error = SeriesFile::parse("m.toml", &SMALL.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.starts_with(message) && !error.contains('\n'), "{error}");
        }
        let twice = SeriesFile::parse("m.toml", &SMALL.repeat(2)).unwrap_err().to_string();
        assert_eq!(twice, "m.toml:15: the id mine occurs twice, but ids are unique in a file");
    }

    #[test]
    fn unknown_words_are_kept() {
        let file = SeriesFile::parse("m.toml", &SMALL.replace("\"host\"", "\"moon\"")).unwrap();
        assert_eq!(file.series[0].setup.workload.memory, Some(RemoteMemory::Other("moon".into())));
        assert!(file.to_toml().contains("memory = \"moon\""));
    }
}
