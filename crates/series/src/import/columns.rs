//! Files of comma-separated values.

use super::about::About;
use super::facts::SeriesNames;
use super::{Imported, NamedText};
use crate::format::MeasuredUnit;
use crate::format::MeasuredWorkload;
use crate::format::SeriesFile;
use crate::format::keys_of;
use crate::format::{Measurement, SeriesPoint};
use doorbell_schema::{SchemaError, nearest};
use std::collections::BTreeMap;

/// A column of the file, and the key that it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvColumn {
    /// Title of the column.
    pub title: String,
    /// The key: the axis, `value`, a key of the workload, or a name for a further column.
    pub key: String,
}

/// How a file of comma-separated values becomes series.
#[derive(Clone, Debug, PartialEq)]
pub struct CsvLayout {
    /// The columns. Each row with other numbers in keys of the workload belongs to another series.
    pub columns: Vec<CsvColumn>,
    /// The workload, with its axis. Columns set further keys.
    pub workload: MeasuredWorkload,
    /// Unit of the values.
    pub unit: MeasuredUnit,
    /// Separator of columns.
    pub separator: u8,
}

/// The key of the values.
const VALUE: &str = "value";

/// The roles of the columns.
struct Roles {
    /// Index of the axis.
    axis: usize,
    /// Index of the values.
    value: usize,
    /// Indices of columns that are keys of the workload, by key.
    keys: Vec<(String, usize)>,
    /// Indices of further columns, by key.
    further: Vec<(String, usize)>,
}

/// A series, while its rows are read: the numbers of each column.
#[derive(Default)]
struct Rows {
    points: Vec<SeriesPoint>,
    further: BTreeMap<String, Vec<f64>>,
}

/// Reads a file of comma-separated values with a line of titles.
///
/// # Errors
/// If a column is missing, a cell is not a number, or the NIC is not known: one sentence with the line.
pub fn csv(file: NamedText<'_>, layout: &CsvLayout, about: &About) -> Result<Imported, SchemaError> {
    let mut reader = ::csv::ReaderBuilder::new()
        .delimiter(layout.separator)
        .trim(::csv::Trim::All)
        .from_reader(file.text.as_bytes());
    let titles = reader.headers().map_err(|error| wrong(file, &error))?.clone();
    let roles = roles(layout, &titles).map_err(|why| file.error(1, why))?;
    // Series in the order of their first rows, by the numbers of their keys.
    let mut series: Vec<(Vec<f64>, Rows)> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| wrong(file, &error))?;
        let line = record.position().map_or(1, |position| position.line() as usize);
        let cell = |at: usize| cell(&record, at, &titles).map_err(|why| file.error(line, why));
        let keys = roles.keys.iter().map(|(_, at)| cell(*at)).collect::<Result<Vec<f64>, _>>()?;
        let point = SeriesPoint { x: cell(roles.axis)?, value: cell(roles.value)? };
        let at = series.iter().position(|(known, _)| *known == keys).unwrap_or(series.len());
        if at == series.len() {
            series.push((keys, Rows::default()));
        }
        let (_, rows) = &mut series[at];
        rows.points.push(point);
        for (key, at) in &roles.further {
            rows.further.entry(key.clone()).or_default().push(cell(*at)?);
        }
    }
    if series.is_empty() {
        return Err(file.error(1, "the file has titles, but no rows"));
    }
    let made = series.into_iter().enumerate().map(|(number, (keys, rows))| {
        measurement(layout, about, &roles, (number, &keys), rows).map_err(|why| file.error(1, why))
    });
    Ok(Imported { file: SeriesFile { series: made.collect::<Result<_, _>>()? }, notes: Vec::new() })
}

/// The error of the CSV parser.
fn wrong(file: NamedText<'_>, error: &::csv::Error) -> SchemaError {
    let line = error.position().map_or(1, |position| position.line() as usize);
    let message = match error.kind() {
        ::csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("the row has {len} cells, but the file has {expected_len} titles")
        }
        _ => format!("this is not a file of comma-separated values: {error}").replace('\n', " "),
    };
    file.error(line, message)
}

/// The number in a cell.
fn cell(record: &::csv::StringRecord, at: usize, titles: &::csv::StringRecord) -> Result<f64, String> {
    let text = record.get(at).unwrap_or_default();
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("{text:?} in column {} is not a number", titles.get(at).unwrap_or_default()))
}

fn roles(layout: &CsvLayout, titles: &::csv::StringRecord) -> Result<Roles, String> {
    let workload_keys = keys_of::<MeasuredWorkload>();
    let (mut axis, mut value, mut keys, mut further) = (None, None, Vec::new(), Vec::new());
    for CsvColumn { title, key } in &layout.columns {
        let at = titles.iter().position(|known| known == title).ok_or_else(|| no_column(title, titles))?;
        match key.as_str() {
            key if key == layout.workload.axis => axis = Some(at),
            VALUE => value = Some(at),
            key if workload_keys.contains(&key) => keys.push((key.to_owned(), at)),
            key => further.push((key.to_owned(), at)),
        }
    }
    let missing = |key: &str| format!("no column is the key {key}: give --column TITLE={key}");
    Ok(Roles {
        axis: axis.ok_or_else(|| missing(&layout.workload.axis))?,
        value: value.ok_or_else(|| missing(VALUE))?,
        keys,
        further,
    })
}

fn no_column(title: &str, titles: &::csv::StringRecord) -> String {
    match nearest(title, titles.iter()) {
        Some(like) => format!("there is no column {title}; did you mean {like}?"),
        None => format!(
            "there is no column {title}; the columns are {}",
            titles.iter().collect::<Vec<_>>().join(", ")
        ),
    }
}

/// A series. `number` and `keys` tell it from the others.
fn measurement(
    layout: &CsvLayout,
    about: &About,
    roles: &Roles,
    (number, keys): (usize, &[f64]),
    rows: Rows,
) -> Result<Measurement, String> {
    let facts = about.facts_for(None)?;
    let nic = facts.nic.clone().ok_or("the file does not name the NIC: give --nic, --devinfo or --lspci")?;
    let mut workload = with_keys(&layout.workload, roles, keys)?;
    let own = workload.clone();
    facts.set(&mut workload);
    // The user's own words count more than facts that are not known.
    workload.hops = workload.hops.or(own.hops);
    workload.switched = workload.switched.or(own.switched);
    workload.loopback = workload.loopback.or(own.loopback);
    workload.socket = workload.socket.or(own.socket);
    workload.socket_of = workload.socket_of.or(own.socket_of);
    let words = [workload.verb.name(), workload.metric.name()].join("-");
    let id = match number {
        0 => format!("{}-{words}", about.host),
        number => format!("{}-{words}-{}", about.host, number + 1),
    };
    let names = SeriesNames {
        id,
        nic,
        host: about.host.clone(),
        unit: layout.unit.clone(),
        role: about.role.clone(),
    };
    let setup = facts.setup(names, workload);
    Ok(Measurement { setup, points: rows.points, columns: rows.further })
}

/// The workload with the keys that columns give.
fn with_keys(workload: &MeasuredWorkload, roles: &Roles, keys: &[f64]) -> Result<MeasuredWorkload, String> {
    let mut table = toml::Table::try_from(workload).map_err(|error| error.to_string())?;
    for ((key, _), number) in roles.keys.iter().zip(keys) {
        if number.fract() != 0.0 || !(0.0..=9e15).contains(number) {
            return Err(format!("{key} is {number}, but must be a whole number"));
        }
        table.insert(key.clone(), toml::Value::Integer(*number as i64));
    }
    table.try_into().map_err(|error: toml::de::Error| error.message().replace('\n', " "))
}

impl CsvLayout {
    /// Reads the workload from the text of an inline table: `{ verb = "write", ... }`.
    ///
    /// # Errors
    /// If the text is not such a table, or a key is missing or unknown: a sentence.
    pub fn workload(text: &str) -> Result<MeasuredWorkload, String> {
        let braced =
            if text.trim().starts_with('{') { text.trim().to_owned() } else { format!("{{ {text} }}") };
        let table: toml::Table = toml::from_str(&format!("workload = {braced}")).map_err(|error| {
            format!("{text:?} is not a table of TOML: {}", error.message().replace('\n', " "))
        })?;
        let workload = table.get("workload").cloned().unwrap_or(toml::Value::Table(toml::Table::new()));
        workload.try_into().map_err(|error: toml::de::Error| error.message().replace('\n', " "))
    }
}
