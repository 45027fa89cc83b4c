//! Compares results with earlier results, for continuous integration.

use crate::args::CompareArgs;
use crate::exit::{self, Exit};
use crate::table::{self, Align};
use doorbell_lab::compare::{Change, Changes, NumberName, Tolerance, against};
use doorbell_nic::Digits;
use std::fmt::Write;
use std::path::Path;

pub(super) fn run(args: &CompareArgs, file: &Path) -> Result<(), Exit> {
    let [new] = &args.side[..] else {
        return Err(Exit::bad_input("--baseline needs one file of new results to compare with"));
    };
    let usual = || "5%".parse::<Tolerance>().expect("a percentage");
    let tolerance = args.tolerance.unwrap_or_else(usual);
    let old = file.display().to_string();
    let changes = against((&old, &read(&old)?), (new, &read(new)?), tolerance).map_err(Exit::bad_input)?;
    if args.json {
        exit::print_json(&changes)?;
    } else {
        exit::tell(&report(&changes, &old, new))?;
    }
    match changes.numbers.iter().filter(|number| number.beyond).count() {
        0 => Ok(()),
        beyond => Err(Exit::beyond_tolerance(format!(
            "{} more than {} off {old}",
            match beyond {
                1 => format!("1 number of {new} is"),
                n => format!("{n} numbers of {new} are"),
            },
            shown(&changes)
        ))),
    }
}

fn read(file: &str) -> Result<String, Exit> {
    std::fs::read_to_string(file).map_err(|error| Exit::bad_input(format!("cannot read {file}: {error}")))
}

fn shown(changes: &Changes) -> String {
    format!("{}%", Digits(changes.tolerance * 100.0, 1))
}

/// Names of the compared results, each once: a number's point, if the number belongs to a point of a sweep,
/// else the number itself.
fn places(numbers: &[NumberName]) -> Vec<&str> {
    let mut places: Vec<&str> = Vec::new();
    for number in numbers {
        let place = number.point.as_deref().unwrap_or(&number.name);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

fn report(changes: &Changes, old: &str, new: &str) -> String {
    let header = [
        ("", Align::Left),
        ("before", Align::Right),
        ("now", Align::Right),
        ("change", Align::Right),
        ("", Align::Left),
    ];
    let row = |number: &Change| {
        vec![
            number.what.to_string(),
            Digits(number.before, 2).to_string(),
            number.now.map_or("-".to_owned(), |now| Digits(now, 2).to_string()),
            number.change.map_or("-".to_owned(), doorbell_lab::percent),
            if number.beyond { format!("more than {}", shown(changes)) } else { String::new() },
        ]
    };
    let mut text = table::columns(&header, changes.numbers.iter().map(row).collect());
    for (file, only) in [(old, &changes.only_before), (new, &changes.only_now)] {
        if !only.is_empty() {
            let _ = writeln!(text, "\nOnly in {file}: {}", places(only).join("; "));
        }
    }
    if !changes.options.is_empty() {
        let _ = writeln!(text, "\nThe workloads differ in {}", changes.options.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_listed_once_and_whole() {
        let number = |point: Option<&str>, name: &str| NumberName {
            point: point.map(str::to_owned),
            name: name.to_owned(),
        };
        let point = Some("profile=odd: name.toml");
        let all = [number(point, "latency p50, ns"), number(point, "mops"), number(None, "pcie mmio_writes")];
        assert_eq!(places(&all), ["profile=odd: name.toml", "pcie mmio_writes"]);
    }
}
