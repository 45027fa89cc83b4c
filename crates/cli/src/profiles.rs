//! `doorbell profiles`.

use crate::args::ProfilesArgs;
use crate::exit::{self, Exit};
use crate::flags;
use crate::table::{self, Align};
use doorbell_lab::name_of;
use doorbell_nic::{Basis, Calibrated, DeviceId, Generation, Measured, Parameter, Profile, Unit};
use doorbell_schema::{Real, Settings};
use schemars::JsonSchema;
use serde::Serialize;

/// JSON output of a profile.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Described<'a> {
    name: &'a str,
    title: &'a str,
    generation: Generation,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_id: Option<&'a DeviceId>,
    /// Parameters that were set by the user.
    #[serde(skip_serializing_if = "Settings::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, f64>")]
    set: Settings,
    parameters: &'a [Parameter],
    /// The measurements behind the profile.
    measured: &'a Measured,
    /// Reasons why these measurements do not support the profile's values, one sentence each; empty if they
    /// do.
    unsupported: Vec<String>,
    /// Errors of the profile for these measurements; absent if it was set by hand, or if they do not support
    /// its values.
    #[serde(skip_serializing_if = "Option::is_none")]
    calibrated: Option<&'a Calibrated>,
}

impl<'a> Described<'a> {
    fn of(profile: &'a Profile) -> Described<'a> {
        let unsupported = doorbell_lab::unsupported(profile);
        Described {
            name: &profile.name,
            title: &profile.title,
            generation: profile.device.generation,
            device_id: profile.device_id.as_ref(),
            set: profile.set().filter_map(|p| Some((p.name.clone(), Real::new(p.value)?))).collect(),
            parameters: &profile.parameters,
            measured: &profile.measured,
            calibrated: profile.calibrated.as_ref().filter(|_| unsupported.is_empty()),
            unsupported,
        }
    }
}

pub(crate) fn run(args: ProfilesArgs) -> Result<(), Exit> {
    match args.name {
        Some(name) => {
            let profile = Profile::named_or_file(&name).map_err(Exit::bad_input)?;
            let set = flags::settings(&args.set).map_err(Exit::bad_input)?;
            let profile = doorbell_lab::with_set(&profile, &set).map_err(Exit::bad_input)?;
            if args.data {
                exit::print(&doorbell_lab::page(&profile))
            } else if args.record {
                exit::print(&profile.as_measured().to_string())
            } else if args.json {
                exit::print_json(&Described::of(&profile))
            } else {
                exit::tell(&parameters(&profile))
            }
        }
        None => {
            let named = Profile::names().map(Profile::named);
            let profiles = named.collect::<Result<Vec<_>, _>>().map_err(Exit::failed)?;
            if args.json {
                exit::print_json(&profiles.iter().map(Described::of).collect::<Vec<_>>())
            } else {
                exit::tell(&list(&profiles))
            }
        }
    }
}

fn list(profiles: &[Profile]) -> String {
    let count =
        |p: &Profile, name: &str| p.parameters.iter().filter(|x| basis(x).0 == name).count().to_string();
    let row = |p: &Profile| {
        let counts = ["published", "calibrated", "assumed"].map(|name| count(p, name));
        let [published, calibrated, assumed] = counts;
        vec![p.name.clone(), published, calibrated, assumed, p.title.clone()]
    };
    let header = [
        ("", Align::Left),
        ("published", Align::Right),
        ("calibrated", Align::Right),
        ("assumed", Align::Right),
        ("", Align::Left),
    ];
    let table = table::columns(&header, profiles.iter().map(row).collect());
    format!("Profiles, and the number of their parameters by basis\n{table}")
}

/// A parameter's value, as a profile's file states it.
fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Flag => (value != 0.0).to_string(),
        _ => value.to_string(),
    }
}

/// Name of a parameter's basis, and a note about the basis.
fn basis(p: &Parameter) -> (&'static str, String) {
    match &p.basis {
        Basis::Published { source } => ("published", source.clone()),
        Basis::Calibrated { claims, measurements, how, .. } => {
            let from: Vec<&str> = claims.iter().chain(measurements).map(String::as_str).collect();
            ("calibrated", format!("{how} (from {})", from.join(", ")))
        }
        Basis::Assumed { reason, alternative, .. } => {
            ("assumed", format!("{reason}; could be {alternative}"))
        }
        Basis::Set { instead_of } => ("set by you", format!("instead of {}", value(*instead_of, p.unit))),
    }
}

fn parameters(profile: &Profile) -> String {
    let row = |p: &Parameter| {
        let (name, note) = basis(p);
        let note = p.base.as_ref().map_or(note.clone(), |base| format!("from {base}: {note}"));
        vec![p.name.clone(), value(p.value, p.unit), p.unit.to_string(), name.to_owned(), note]
    };
    let header = [
        ("parameter", Align::Left),
        ("value", Align::Right),
        ("unit", Align::Left),
        ("basis", Align::Left),
        ("from", Align::Left),
    ];
    let table = table::prose(&header, profile.parameters.iter().map(row).collect());
    let id = profile.device_id.as_ref().map_or(String::new(), |id| {
        format!("vendor_id {:#06x}, vendor_part_id {} ({})\n", id.vendor_id, id.vendor_part_id, id.source)
    });
    let measured = measured(&profile.measured) + &differences(profile);
    format!("{} ({}): {}\n{id}\n{table}\n{measured}", profile.name, profile.device.generation, profile.title)
}

/// The reasons why the measurements do not support the profile's values, a line each.
fn differences(profile: &Profile) -> String {
    // Text about the measurements states that there are none.
    let reasons = if profile.measured.is_empty() { Vec::new() } else { doorbell_lab::unsupported(profile) };
    reasons.into_iter().map(|reason| format!("{reason}\n")).collect()
}

/// Text about the measurements behind a profile.
fn measured(all: &Measured) -> String {
    if all.is_empty() {
        return "The profile names no measurements behind its parameters, so all of its results are \
             extrapolated\n"
            .into();
    }
    let of_verbs = all.verbs.iter().map(|m| {
        let what = format!("{} over {}, {}", name_of(m.verb), m.transport, name_of(m.pattern));
        let ranges = [
            ("size", m.size),
            ("batch", m.batch),
            ("qps", m.qps),
            ("machines", m.machines),
            ("threads", m.threads),
            ("window", m.window),
        ];
        let ranges = ranges.into_iter().filter_map(|(name, bounds)| Some(format!("{name} {}", bounds?)));
        vec![what, m.source.clone(), ranges.collect::<Vec<_>>().join(", ")]
    });
    let of_systems = all.systems.iter().map(|m| {
        let ranges = m.within.iter().map(|(name, bounds)| format!("{name} {bounds}"));
        let names = m.of.iter().map(|(name, values)| format!("{name} {}", values.join(", ")));
        vec![m.system.clone(), m.source.clone(), ranges.chain(names).collect::<Vec<_>>().join(", ")]
    });
    let header = [("", Align::Left), ("", Align::Left), ("", Align::Left)];
    let table = table::prose(&header, of_verbs.chain(of_systems).collect());
    format!("Measurements behind the profile; results outside these ranges are extrapolated\n{table}")
}
