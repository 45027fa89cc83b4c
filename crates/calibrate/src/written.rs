//! Writes the fit's values into the text of the profile and keeps its other lines.

use crate::draws::Draws;
use crate::fit::Fit;
use crate::space::Space;
use crate::sure::Sure;
use doorbell_nic::{MeasuredMachine, Profile};
use doorbell_reproduce::calibration::Datum;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

/// Rounding of results and errors in the written text: four decimals.
const DIGITS: f64 = 1e4;

/// Rounding of standard deviations: two decimals.
const DIGITS_OF_STEPS: f64 = 1e2;

fn short(x: f64) -> f64 {
    // Adding 0.0 turns -0.0 into 0.0.
    (x * DIGITS).round() / DIGITS + 0.0
}

/// The text of a profile with the values of a fit and their uncertainty. `file` is its name, from which paths
/// of a base start.
///
/// # Errors
/// One sentence, if the text is not a profile or lacks a parameter.
pub(crate) fn with(
    file: &str,
    text: &str,
    space: &Space,
    data: &[Datum],
    fit: &Fit,
    sure: &Sure,
    draws: &Draws,
) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|e| format!("the profile cannot be read: {e}"))?;
    for (name, value) in space.values(&fit.z) {
        set(&mut document, &name, value).ok_or_else(|| format!("{name} is not in the file itself"))?;
    }
    let read = Profile::parse(file, &document.to_string()).map_err(|error| error.to_string())?;
    record(&mut document, &read.as_measured())?;
    document["calibrated"] = Item::Table(calibrated(space, data, fit, sure, draws));
    Ok(document.to_string())
}

/// Writes the values that the data now support into `[measured.machine]`.
fn record(document: &mut DocumentMut, machine: &MeasuredMachine) -> Result<(), String> {
    let new: DocumentMut = machine.to_string().parse().map_err(|e| format!("[measured.machine]: {e}"))?;
    let new = new["measured"]["machine"].as_table().ok_or("[measured.machine] is not a table")?;
    let measured = document["measured"].or_insert(Item::Table(Table::new()));
    let table = measured["machine"].or_insert(Item::Table(Table::new()));
    let table = table.as_table_mut().ok_or("measured.machine is not a table")?;
    table.retain(|section, _| new.contains_key(section));
    for (section, values) in new {
        table[section] = values.clone();
    }
    Ok(())
}

fn set(document: &mut DocumentMut, name: &str, value: f64) -> Option<()> {
    let (section, key) = name.split_once('.')?;
    let entry = document.get_mut(section)?.get_mut(key)?.as_inline_table_mut()?;
    let number = entry.get_mut("value")?;
    let whole = value.fract() == 0.0;
    let mut new = if whole { Value::from(value as i64) } else { Value::from(value) };
    *new.decor_mut() = number.decor().clone();
    *number = new;
    Some(())
}

fn list<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Array {
    let mut list = Array::new();
    for item in items {
        list.push_formatted(item.into().decorated("\n  ", ""));
    }
    list.set_trailing("\n");
    list.set_trailing_comma(true);
    list
}

fn calibrated(space: &Space, data: &[Datum], fit: &Fit, sure: &Sure, draws: &Draws) -> Table {
    let mut table = Table::new();
    table
        .decor_mut()
        .set_prefix("\n# Written by `cargo xtask calibrate`: docs/calibration.md says what it is.\n");
    let met = data.iter().zip(&fit.found).zip(&sure.errors).map(|((datum, &found), errors)| {
        let mut met = InlineTable::new();
        met.insert("id", datum.id.as_str().into());
        met.insert("found", short(found).into());
        if let Some((error, left_out)) = errors {
            met.insert("error", short(*error).into());
            met.insert("left_out", short(*left_out).into());
        }
        met
    });
    table["data"] = list(met).into();
    table["model"] = InlineTable::from_iter([
        ("verbs", Value::from(short(sure.model.verbs))),
        ("systems", short(sure.model.systems).into()),
    ])
    .into();
    table["draws"] = Item::Table(written(space, fit, draws));
    table
}

/// For each parameter, the distances of all draws from its value.
fn written(space: &Space, fit: &Fit, draws: &Draws) -> Table {
    let mut table = Table::new();
    for (i, free) in space.free.iter().chain(&space.assumed).enumerate() {
        let value = fit.z.get(i).copied().unwrap_or(0.0);
        let steps = draws.places.iter().map(|z| ((z[i] - value) * DIGITS_OF_STEPS).round() / DIGITS_OF_STEPS);
        table[&free.name] = Value::Array(steps.map(|step| step + 0.0).collect()).into();
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_reproduce::calibration;
    use nalgebra::DMatrix;

    /// Removes the value of a parameter from a line.
    fn without_value(line: &str) -> String {
        match line.split_once("value = ").map(|(key, rest)| (key, rest.split_once(','))) {
            Some((key, Some((_, notes)))) => format!("{key}{notes}"),
            _ => line.to_owned(),
        }
    }

    /// Removes the values of `[measured.machine]`.
    fn without_record(text: &str) -> String {
        let (before, machine) = text.split_once("[measured.machine]\n").unwrap();
        format!("{before}{}", machine.split_once("\n\n").unwrap().1)
    }

    #[test]
    fn values_change_and_other_lines_stay() {
        let text = include_str!("../../../profiles/cx.toml");
        let space = Space::of(&Profile::parse("cx.toml", text).unwrap(), text).unwrap();
        let data = calibration::data(&Profile::named("cx").unwrap()).unwrap();
        let z: Vec<f64> = (0..space.free.len()).map(|i| i as f64 / 10.0).collect();
        let slopes = DMatrix::from_element(data.len(), z.len(), 0.5);
        let assumed =
            [0.001, 0.002].map(|slope| DMatrix::from_element(data.len(), space.assumed.len(), slope));
        let (found, moves) = (vec![10.0; data.len()], [slopes.clone(), slopes.clone()]);
        let fit = Fit { found, looks: 1, ended: String::new(), z, slopes, moves, assumed };
        let sure = Sure::of(&Profile::named("cx").unwrap(), &fit, &data).unwrap();
        let places = vec![[fit.z.clone(), vec![0.5; space.assumed.len()]].concat(); 3];
        let draws = Draws { places, off: Vec::new(), worth: 1.0 };
        let written = with("cx.toml", text, &space, &data, &fit, &sure, &draws).unwrap();
        let profile = Profile::parse("cx.toml", &written).unwrap();
        for (name, value) in space.values(&fit.z) {
            let found = profile.parameters.iter().find(|p| p.name == name).unwrap();
            assert_eq!(found.value, value, "{name}");
        }
        assert!(profile.is_measured_machine(), "{:?}", profile.differences());
        let calibrated = profile.calibrated.unwrap();
        let away = |free: &[crate::space::Free], steps: f64| {
            free.iter().all(|free| calibrated.draws[&free.name] == [steps; 3])
        };
        assert!(away(&space.free, 0.0) && away(&space.assumed, 0.5), "{:?}", calibrated.draws);
        assert_eq!(calibrated.data.len(), data.len());
        let lines = |text: &str| -> Vec<String> {
            let before = text.split("\n# Written by").next().unwrap_or(text);
            before.trim_end().lines().map(without_value).collect()
        };
        let (before, after) = (without_record(text), without_record(&written));
        assert_eq!(lines(&before), lines(&after));
        // A second pass changes nothing.
        let again = with("cx.toml", &written, &space, &data, &fit, &sure, &draws).unwrap();
        assert_eq!(again, written);
    }
}
