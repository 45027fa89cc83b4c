//! Tests of measurement files, of their mapping to runs, and of the check of a profile.

mod check;
mod format;
mod mapping;
mod refusals;

use doorbell_lab::{Resolved, Run};
use doorbell_nic::Profile;
use doorbell_series::{Hosts, Measurement, PlannedSeries, Refusal, SeriesFile, plan};

/// A series of 8-byte WRITEs with this table `workload`, and with further keys. `arrays` has the axis and the
/// values.
fn series(keys: &str, workload: &str, arrays: &str) -> String {
    format!(
        "[[measurement]]\nid = \"it\"\nnic = \"Connect-IB\"\nunit = \"Mops/s\"\nrole = \"calibrate\"\nhost = \
         \"cib\"\n{keys}\nworkload = {{ {workload} }}\n{arrays}\n"
    )
}

fn parsed(text: &str) -> Measurement {
    let mut file = SeriesFile::parse("m.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    file.series.remove(0)
}

/// The plan of a series on the profile `cib`.
fn planned(text: &str) -> Result<PlannedSeries, Refusal> {
    let cib = Profile::named("cib").expect("a built-in profile");
    plan(&parsed(text), &cib, &Hosts::built_in().expect("built-in profiles"), None)
}

/// The workload of a run of verbs.
fn verbs(run: &Result<Run, Refusal>) -> &Resolved {
    run.as_ref().unwrap_or_else(|refusal| panic!("{refusal}")).as_verbs().expect("verbs")
}
