//! `doorbell profiles`.

use crate::args::ProfilesArgs;
use crate::exit::{self, Exit};
use crate::flags;
use crate::table::{self, Align};
use doorbell_lab::name_of;
use doorbell_nic::{
    Announced, Basis, Calibrated, DeviceId, Generation, Measured, NicModel, Parameter, Profile, Unit,
};
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
    #[serde(skip_serializing_if = "Option::is_none")]
    announced: Option<&'a Announced>,
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
            announced: profile.announced.as_ref(),
            set: profile.set().filter_map(|p| Some((p.name.clone(), Real::new(p.value)?))).collect(),
            parameters: &profile.parameters,
            measured: &profile.measured,
            calibrated: profile.calibrated.as_ref().filter(|_| unsupported.is_empty()),
            unsupported,
        }
    }
}

/// JSON output of a NIC's model that has no profile.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DescribedModel<'a> {
    name: &'a str,
    title: &'a str,
    generation: Generation,
    device_id: &'a DeviceId,
    announced: &'a Announced,
    /// The limits that the NIC reports to programs.
    limits: &'a [Parameter],
}

impl<'a> DescribedModel<'a> {
    fn of(model: &'a NicModel) -> DescribedModel<'a> {
        let NicModel { name, title, generation, device_id, announced, parameters, .. } = model;
        DescribedModel { name, title, generation: *generation, device_id, announced, limits: parameters }
    }
}

/// Whether there is a built-in profile of this name.
fn is_built_in(name: &str) -> bool {
    Profile::names().any(|known| known.eq_ignore_ascii_case(name))
}

/// The models of NICs without a profile.
fn models_alone() -> impl Iterator<Item = NicModel> {
    let alone = NicModel::names().filter(|name| !is_built_in(name));
    alone.map(|name| NicModel::named(name).unwrap_or_else(|error| panic!("a model's own name: {error}")))
}

pub(crate) fn run(args: ProfilesArgs) -> Result<(), Exit> {
    let whole = args.set.is_empty() && !args.data && !args.record;
    let model = args.name.as_ref().filter(|name| whole && !Profile::is_path(name) && !is_built_in(name));
    if let Some(model) = model.and_then(|name| NicModel::named(name).ok()) {
        return if args.json {
            exit::print_json(&DescribedModel::of(&model))
        } else {
            exit::tell(&limits_of(&model))
        };
    }
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
    let of_profile = |p: &Profile| Listed {
        year: p.announced.as_ref().map(|announced| announced.year),
        name: p.name.clone(),
        counts: counts(&p.parameters),
        title: p.title.clone(),
    };
    let of_model = |model: NicModel| Listed {
        year: Some(model.announced.year),
        counts: counts(&model.parameters),
        title: format!("{}: only ids and limits, for `doorbell run --as {}`", model.title, model.name),
        name: model.name,
    };
    let mut all: Vec<Listed> = profiles.iter().map(of_profile).chain(models_alone().map(of_model)).collect();
    all.sort_by_key(|listed| listed.year);
    let groups = all.chunk_by(|one, next| one.year == next.year);
    let rows = groups.flat_map(|group| group.iter().enumerate().map(|(at, listed)| listed.row(at == 0)));
    let header = [
        ("", Align::Left),
        ("", Align::Left),
        ("published", Align::Right),
        ("calibrated", Align::Right),
        ("assumed", Align::Right),
        ("", Align::Left),
    ];
    let table = table::columns(&header, rows.collect());
    format!("Profiles by the year of their NIC, and the number of their parameters by basis\n{table}")
}

/// A profile, or a model without a profile, in the list.
struct Listed {
    year: Option<u16>,
    name: String,
    /// Parameters that are published, calibrated and assumed.
    counts: [usize; 3],
    title: String,
}

impl Listed {
    /// The row of the list. Only the first row of a group shows the year.
    fn row(&self, is_first: bool) -> Vec<String> {
        let year = self.year.filter(|_| is_first).map_or(String::new(), |year| year.to_string());
        let counts = self.counts.iter().map(usize::to_string);
        [year, self.name.clone()].into_iter().chain(counts).chain([self.title.clone()]).collect()
    }
}

/// The numbers of published, calibrated and assumed parameters.
fn counts(parameters: &[Parameter]) -> [usize; 3] {
    ["published", "calibrated", "assumed"]
        .map(|name| parameters.iter().filter(|parameter| basis(parameter).0 == name).count())
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

/// The ids, the year and the limits of a model without a profile.
fn limits_of(model: &NicModel) -> String {
    let head = format!("{} ({}): {}", model.name, model.generation, model.title);
    let about = about(Some(&model.device_id), Some(&model.announced));
    let table = parameter_table(&model.parameters);
    let name = &model.name;
    format!(
        "{head}\n{about}There is no profile {name} yet: only `doorbell run --as {name}` takes it\n\n{table}"
    )
}

/// The ids and the year of a NIC, a line each.
fn about(id: Option<&DeviceId>, announced: Option<&Announced>) -> String {
    let id = id.map_or(String::new(), |id| {
        format!("vendor_id {:#06x}, vendor_part_id {} ({})\n", id.vendor_id, id.vendor_part_id, id.source)
    });
    let year = announced.map_or(String::new(), |announced| {
        format!("announced in {} ({})\n", announced.year, announced.source)
    });
    id + &year
}

fn parameters(profile: &Profile) -> String {
    let about = about(profile.device_id.as_ref(), profile.announced.as_ref());
    let table = parameter_table(&profile.parameters);
    let measured = measured(&profile.measured) + &differences(profile);
    format!(
        "{} ({}): {}\n{about}\n{table}\n{measured}",
        profile.name, profile.device.generation, profile.title
    )
}

fn parameter_table(parameters: &[Parameter]) -> String {
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
    table::prose(&header, parameters.iter().map(row).collect())
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
