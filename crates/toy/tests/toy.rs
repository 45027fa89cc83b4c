//! Tests the toy system and the toy experiment through Doorbell's public interfaces.

use doorbell_lab::{Control, Given, Run, Stored, SystemEntry, SystemWorkload, simulate};
use doorbell_nic::Profile;
use doorbell_reproduce::{Basis, Ctx, judge};
use doorbell_sim::{SimCluster, SimConfig};
use doorbell_systems::{System, Visit};
use doorbell_systems_suite::{Scale, run_all};
use doorbell_toy::ping::{self, Ping};
use doorbell_verbs::{Span, Time};
use std::path::PathBuf;
use std::sync::Arc;

fn profile() -> Profile {
    Profile::named("cib").expect("a built-in profile")
}

#[test]
fn its_checks_pass_in_virtual_time() {
    let end = Time::START + Scale::SMALL.patience + Span::from_ms(10);
    let mut make = |machines| SimCluster::new(&profile(), SimConfig { end, ..SimConfig::new(machines) });
    let checks = ping::checks();
    let report = run_all(&checks, &mut make, None, &Scale::SMALL, &mut |result| println!("{result}"));
    assert!(report.failed().is_empty(), "{report}");
    assert_eq!(report.counts().0, checks.len());
}

/// `doorbell simulate FILE` does this with registered systems.
#[test]
fn it_is_read_from_a_file_and_simulated() {
    let entry = SystemEntry::new::<Ping>();
    let file = |text| Given::from_toml("ping.toml", text, &entry.fields);
    let run = |text| {
        let system = SystemWorkload::of(entry.with(&file(text).unwrap()).unwrap());
        simulate(&Run::system(&profile(), system), &Control::quiet()).unwrap()
    };
    let (one, many) = (run("clients = 1"), run("clients = 6\noutstanding = 2"));
    assert!(one.mops > 0.0 && many.mops > 2.0 * one.mops, "{} and {} Mrps", one.mops, many.mops);
    let json = serde_json::to_value(&many).unwrap();
    assert_eq!((&json["workload"]["system"], &json["workload"]["outstanding"]), (&"ping".into(), &2.into()));
    let wrong = file("clients = 1\nservice = \"often\"").unwrap_err().to_string();
    assert!(wrong.starts_with("ping.toml:2: "), "{wrong}");
}

#[test]
fn it_is_in_the_register_beside_the_others() {
    struct Names(Vec<&'static str>);
    impl Visit for Names {
        fn visit<S: System>(&mut self) {
            self.0.push(S::NAME);
        }
    }
    let (mut ours, mut all) = (Names(Vec::new()), Names(Vec::new()));
    doorbell_systems::visit_all(&mut ours);
    doorbell_toy::visit_all(&mut all);
    assert_eq!(all.0.strip_prefix(&ours.0[..]), Some(&["ping"][..]));
    let deployed = "systems/deployed/ping";
    assert_eq!(doorbell_toy::checks::<SimCluster>().iter().filter(|c| c.name() == deployed).count(), 1);
}

#[test]
fn the_experiment_is_judged_by_its_claims() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("stored");
    let _ = std::fs::remove_dir_all(&dir);
    let ctx = Ctx::new(false, Control::quiet()).unwrap().stored_in(Arc::new(Stored::new(dir.clone())));
    let claims = doorbell_toy::claims();
    for experiment in doorbell_toy::EXPERIMENTS {
        let reports = judge(&ctx, experiment, &claims).unwrap();
        let ids: Vec<&str> = reports.iter().map(|report| report.id.as_str()).collect();
        assert_eq!(ids, experiment.claims);
        for report in reports {
            assert!(report.error == Some(0.0) && report.holds, "{report:?}");
            assert_eq!(report.basis, Basis::Ours, "it counts in no paper's accuracy");
        }
    }
    assert!(!dir.exists(), "stored results do not know of sources of this crate");
}
