//! Experiments and reports.

use doorbell_lab::Control;
use doorbell_nic::Profile;
use doorbell_reproduce::papers::REGISTER;
use doorbell_reproduce::{Basis, Ctx, Report, Selection};

fn ctx() -> Ctx<'static> {
    Ctx::new(false, Control::quiet()).unwrap()
}

fn reproduce(ctx: &Ctx<'_>, selectors: &[&str]) -> Report {
    let selectors: Vec<String> = selectors.iter().map(|s| (*s).to_owned()).collect();
    doorbell_reproduce::reproduce(ctx, &Selection::new(&REGISTER, &selectors).unwrap(), &|_, _| ()).unwrap()
}

const WITHOUT_SIMULATION: [&str; 3] = ["atc16/fig2", "atc16/appA", "atc16/tab1"];

#[test]
fn analytic_and_given_claims_are_exact() {
    let report = reproduce(&ctx(), &WITHOUT_SIMULATION);
    assert!(report.claims.len() > 30);
    for claim in &report.claims {
        assert!(claim.holds, "{claim:?}");
        assert!(claim.error.is_none_or(|e| e == 0.0), "{claim:?}");
        assert!(matches!(claim.basis, Basis::Analytic | Basis::Given), "{claim:?}");
    }
}

#[test]
fn claims_fail_on_other_hardware() {
    let mut other = ctx();
    for profile in &mut other.profiles {
        profile.device.pcie.completion_header = 90;
        profile.device.pcie.dllp_millibytes = 9000;
    }
    let report = reproduce(&other, &WITHOUT_SIMULATION);
    for id in [
        "atc16-fig2a-gen3-completion-hdr",
        "atc16-s21-header-range",
        "atc16-fig2b-dma-bytes",
        "atc16-fig2b-dma-lt-mmio",
        "atc16-s31-doorbell-bytes",
        "atc16-s31-doorbell-saves",
        "atc16-appA-tdb",
        "atc16-appA-linklayer-overhead",
    ] {
        let claim = report.claims.iter().find(|c| c.id == id).unwrap_or_else(|| panic!("no {id}"));
        assert!(!claim.holds, "{claim:?}");
    }
}

#[test]
fn one_claim_alone() {
    let report = reproduce(&ctx(), &["atc16-appA-tdb"]);
    assert_eq!(report.claims.len(), 1);
    assert_eq!(report.claims[0].id, "atc16-appA-tdb");
    assert!(report.not_checked.is_empty());
}

#[test]
fn what_is_not_checked_comes_with_its_reason() {
    let report = reproduce(&ctx(), &["cluster21-fig4-sp-vs-local-read", "cluster21-fig4-sp-vs-local-write"]);
    assert!(report.claims.is_empty());
    assert_eq!(report.not_checked.len(), 2);
    assert!(report.not_checked.iter().all(|n| n.id.starts_with("cluster21-") && !n.reason.is_empty()));
}

#[test]
fn what_the_machines_of_conext13_are_is_as_the_paper_says_but_for_the_first_level() {
    let report = reproduce(&ctx(), &["conext13/tab2"]);
    let missed: Vec<&str> = report.claims.iter().filter(|c| !c.holds).map(|c| c.id.as_str()).collect();
    assert_eq!(missed, ["conext13-hw-l1-size"]);
    assert!(report.claims.iter().all(|c| c.basis == Basis::Given));
}

#[test]
fn table_3_of_conext13_is_met() {
    let report = reproduce(&ctx(), &["conext13/tab3"]);
    for claim in report.claims.iter().filter(|c| c.unit == "us") {
        assert!(claim.error.is_some_and(|error| error < 0.05), "{claim:?}");
    }
    assert!(report.claims.iter().all(|c| c.basis == Basis::Calibrated), "none of them is a prediction");
}

/// Four cells miss. All are rates of WRITEs with the cores of both ends at the other socket. Each has an
/// explanation.
#[test]
fn table_iii_of_cluster21_is_met_but_for_four() {
    let report = reproduce(&ctx(), &["cluster21/tab3", "cluster21/tab3-latency"]);
    let cells: Vec<_> = report.claims.iter().filter(|c| c.id.starts_with("cluster21-tab3-r")).collect();
    assert_eq!(cells.len(), 64);
    let missed: Vec<_> = cells.iter().filter(|c| c.error.is_none_or(|error| error > 0.15)).collect();
    assert_eq!(missed.len(), 4, "{missed:?}");
    assert!(missed.iter().all(|c| c.id.ends_with("write-tput") && c.explanation.is_some()));
}

#[test]
fn json_has_the_fields_of_the_interface() {
    let json = serde_json::to_value(reproduce(&ctx(), &WITHOUT_SIMULATION)).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(
        keys(&json).join(" "),
        "accuracy checked claims curves headlines not_checked parameters runs schema sensitivity unsettled"
    );
    assert_eq!(
        keys(&json["claims"][0]).join(" "),
        "basis bottleneck contested error experiment explanation held_out holds id kind note paper paper_value profile restates simulated unit where"
    );
    assert_eq!(keys(&json["claims"][0]["bottleneck"]).join(" "), "observed paper");
    let mut profiles: Vec<&str> = Profile::names().collect();
    profiles.sort();
    assert_eq!(keys(&json["parameters"]), profiles);
    assert_eq!(keys(&json["parameters"]["cib"]).join(" "), "assumed calibrated published");
    assert_eq!(json["schema"], 2);
    let curve = &json["curves"][0];
    assert_eq!(keys(curve).join(" "), "experiment name points profile x y");
    assert!(curve["points"].as_array().unwrap().len() >= 64);
}

#[test]
fn runs_may_end_when_they_are_known() {
    let precision = "5%".parse().unwrap();
    let report = reproduce(&ctx().with_precision(precision), &["atc16/inline-recv"]);
    assert_eq!((report.precision, report.unsettled), (Some(precision), 0));
    assert!(report.runs > 0, "of runs");
    let said = reproduce(&ctx(), &["atc16/inline-recv"]);
    assert_eq!(said.precision, None);
    assert!(
        said.claims.iter().zip(&report.claims).any(|(a, b)| a.simulated != b.simulated),
        "both are the same"
    );
}
