//! Mechanisms of NICs that belong to optional sections of a profile.

use doorbell_lab::{Control, Outcome, Profiles, Run, Workload};
use doorbell_nic::{Profile, Resource};

/// Profile `cib` with another section. Entries are keys with their values.
fn cib_with(section: &str, entries: &[(&str, f64)]) -> Profiles {
    let entry = |(key, value): &(&str, f64)| {
        format!("{key} = {{ value = {value}, basis = \"assumed\", reason = \"r\", range = [0, 9999] }}\n")
    };
    let entries: String = entries.iter().map(entry).collect();
    let text = format!("name = \"x\"\ntitle = \"x\"\nbase = \"cib\"\n[{section}]\n{entries}");
    Profile::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}")).into()
}

/// Explains a workload on machines with these profiles. Checks that the rate is within the bounds.
fn explained(profiles: &Profiles, toml: &str) -> Outcome {
    let workload = Workload::from_toml("test", toml).unwrap().resolve(profiles).unwrap();
    let bound = doorbell_lab::limits(profiles, &workload)[0].mops;
    let run = Run::verbs(profiles.clone(), workload);
    let outcome = doorbell_lab::explain(&run, &Control::quiet()).unwrap();
    assert!(outcome.mops <= bound * 1.001, "{} M/s, but the bound is {bound}", outcome.mops);
    outcome
}

/// The gain from more of a resource, if there was a rerun.
fn gain(outcome: &Outcome, resource: Resource) -> Option<f64> {
    outcome.lift.iter().find(|lift| lift.resource == resource).map(|lift| lift.gain)
}

#[test]
fn a_pipeline_limits_a_nic_and_is_named() {
    const WRITES: &str = "verb = \"write\"\ntransport = \"uc\"\nmachines = 2\nthreads = 4\nqps = 2\n\
                          pattern = \"outbound\"\nwarmup = \"30us\"\nduration = \"200us\"";
    let limited = explained(&cib_with("pipeline", &[("request_ns", 50.0)]), WRITES);
    assert_eq!(limited.bottleneck.class, Some(Resource::TxPipeline), "{:?}", limited.bottleneck);
    assert!((limited.mops / 20.0 - 1.0).abs() < 0.01, "{} M/s", limited.mops);
    assert!(gain(&limited, Resource::TxPipeline).is_some_and(|gain| gain > 0.09), "{:?}", limited.lift);
    let plain = explained(&Profile::named("cib").unwrap().into(), WRITES);
    assert_eq!(gain(&plain, Resource::TxPipeline), None, "no machine has a pipeline");
    assert!(plain.mops > 22.0, "{} M/s", plain.mops);
}

#[test]
fn a_store_of_requests_limits_deep_windows_and_is_named() {
    let reads = |window: u32| {
        format!(
            "verb = \"read\"\nmachines = 2\nthreads = 14\nqps = 1\nwindow = {window}\ndrain = true\n\
             pattern = \"outbound\"\nwarmup = \"50us\"\nduration = \"200us\""
        )
    };
    let store = cib_with("requests", &[("entries", 64.0), ("stall_ns", 400.0)]);
    let [shallow, deep] = [2, 16].map(|window| explained(&store, &reads(window)));
    assert_ne!(shallow.bottleneck.class, Some(Resource::WqeCache), "{:?}", shallow.bottleneck);
    assert_eq!(deep.bottleneck.class, Some(Resource::WqeCache), "{:?}", deep.bottleneck);
    assert!(gain(&deep, Resource::WqeCache).is_some_and(|gain| gain > 0.2), "{:?}", deep.lift);
}
