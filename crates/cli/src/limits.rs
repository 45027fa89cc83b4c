//! `doorbell limits`.

use crate::args::LimitsArgs;
use crate::exit::{self, Exit};
use crate::extrapolation::Told;
use crate::table::{self, Align};
use crate::workload;
use doorbell_lab::{ClassLimits, Profiles, Resolved, Run};
use doorbell_nic::Digits;
use doorbell_nic::limits::Limit;
use schemars::JsonSchema;
use serde::Serialize;

/// The JSON output.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Limits {
    schema: u32,
    workload: Resolved,
    /// Bounds, lowest first. The first is the one that binds.
    limits: Vec<Limit>,
    /// Bounds of each thread class as if it ran alone; absent without classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    classes: Vec<ClassLimits>,
}

pub(crate) fn run(args: LimitsArgs) -> Result<(), Exit> {
    let workload = args.workload.workload().map_err(Exit::bad_input)?;
    let profiles = workload.load_profiles().map_err(Exit::bad_input)?;
    let workload = workload.resolve(&profiles).map_err(Exit::bad_input)?;
    let limits = doorbell_lab::limits(&profiles, &workload);
    let classes = doorbell_lab::limits_of_classes(&profiles, &workload);
    let run = Run::verbs(profiles.clone(), workload.clone());
    let (extrapolates, supports) = (run.extrapolates(), run.supports());
    let limits = Limits { schema: doorbell_lab::SCHEMA, workload, limits, classes };
    let told = Told {
        load: None,
        typed: None,
        result: &limits,
        unit: "Mops",
        extrapolates: &extrapolates,
        supports: &supports,
        uncertainty: None,
        breakdown: None,
    };
    match args.json {
        true => exit::print_json(&told),
        false => exit::tell(&(report(&limits, &profiles) + &told.text())),
    }
}

fn bounds(limits: &[Limit]) -> String {
    let row = |(i, l): (usize, &Limit)| {
        let binds = if i == 0 { "binds" } else { "" };
        vec![l.resource.to_string(), Digits(l.mops, 2).to_string(), binds.to_owned(), l.text.clone()]
    };
    let rows = limits.iter().enumerate().map(row).collect();
    let header = [("", Align::Left), ("Mops at most", Align::Right), ("", Align::Left), ("", Align::Left)];
    table::columns(&header, rows)
}

fn report(limits: &Limits, profiles: &Profiles) -> String {
    let w = &limits.workload;
    let workload = table::pairs(workload::rows(profiles, w)) + &workload::classes(profiles, w);
    let of_class =
        |class: &ClassLimits| format!("\nBounds of class {} alone\n{}", class.name, bounds(&class.limits));
    let classes: String = limits.classes.iter().map(of_class).collect();
    let of_all = if classes.is_empty() {
        "each resource alone"
    } else {
        "each resource alone, for all classes together"
    };
    format!("Workload\n{workload}\nBounds, {of_all}\n{}{classes}", bounds(&limits.limits))
}
