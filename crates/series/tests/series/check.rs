//! The check of a profile.

use doorbell_lab::{Control, Known, Share, SimulateError};
use doorbell_nic::Profile;
use doorbell_series::{CheckError, CheckOptions, Checked, SeriesFile, SeriesRole, check};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Two answered series, one with a refused point, a refused series and a series of another NIC.
const FILE: &str = r#"
[[measurement]]
id = "rates"
nic = "Connect-IB"
unit = "Mops/s"
role = "calibrate"
host = "cib"
workload = { verb = "read", transport = "rc", metric = "rate", axis = "threads", window = 1, size = 32, doorbell_registers = "shared16" }
threads = [1, 2]
value = [0.5, 1]

[[measurement]]
id = "latency"
nic = "Connect-IB"
unit = "us"
role = "check"
host = "far"
workload = { verb = "read", transport = "rc", metric = "latency-full", axis = "size" }
size = [32, 4096]
value = [2, 2.5]

[[measurement]]
id = "rc-swarm-cib-read-6x14-q6-w16-32b"
nic = "Connect-IB"
unit = "Mops/s"
role = "reference"
host = "cib"
workload = { verb = "read", transport = "rc", metric = "rate", axis = "size", window = 1, memory = "gpu" }
size = [32, 64]
value = [1, 1]

[[measurement]]
id = "elsewhere"
nic = "ConnectX-3"
unit = "Mops/s"
role = "reference"
host = "cx3"
workload = { verb = "read", transport = "rc", metric = "rate", axis = "size", window = 1 }
size = [32]
value = [1]
"#;

fn checked(text: &str, profile: &Profile, control: &Control<'_>) -> Result<Checked, CheckError> {
    let file = SeriesFile::parse("m.toml", text).unwrap();
    let options = CheckOptions { precision: Some(Share::of_percent(5)) };
    check(&file, profile, options, &Known::default(), control)
}

fn cib() -> Profile {
    Profile::named("cib").unwrap()
}

#[test]
fn measurements_stand_beside_the_model() {
    let found = checked(FILE, &cib(), &Control::quiet()).unwrap();
    let [rates, latency, refused] = &found.series[..] else { panic!("{found:?}") };
    assert_eq!((rates.role.clone(), rates.calibrated), (SeriesRole::Calibrate, false));
    // The profile was set from the series of this id.
    assert_eq!((refused.role.clone(), refused.calibrated), (SeriesRole::Reference, true));
    let point = &rates.points[0];
    let (model, limit, error) = (point.model.unwrap(), point.limit.unwrap(), point.error.unwrap());
    assert!((0.2..1.0).contains(&model) && limit >= model * 0.99, "{point:?}");
    assert!((error - (model / 0.5 - 1.0)).abs() < 1e-12, "{point:?}");
    let second = &rates.points[1];
    assert_eq!((second.model, second.error), (None, None));
    assert!(second.refused.as_ref().unwrap().starts_with("doorbell_registers is shared16"), "{second:?}");
    assert_eq!(
        (rates.refused.as_ref(), rates.median, rates.worst),
        (None, Some(error.abs()), Some(error.abs()))
    );
    // A latency is at least its limit, and rises with the size.
    let values: Vec<(f64, f64)> =
        latency.points.iter().map(|point| (point.model.unwrap(), point.limit.unwrap())).collect();
    assert!(values.iter().all(|(model, limit)| model >= limit), "{values:?}");
    assert!(values[0].0 < values[1].0 && (1.0..4.0).contains(&values[0].0), "{values:?}");
    assert_eq!(refused.refused.as_deref(), Some("memory is gpu, but the model has no memory of GPUs"));
    assert_eq!((refused.median, refused.points.len()), (None, 2));
    let other = &found.others[0];
    assert_eq!(
        (other.id.as_str(), other.nic.as_str(), other.host.as_str()),
        ("elsewhere", "ConnectX-3", "cx3")
    );
    assert!(other.profiles.contains(&"cx3".to_owned()) && !other.profiles.contains(&"cib".to_owned()));
    assert_eq!(found.missing, 0);
}

/// The value of an all-to-all series is one machine's, and so are model and limit.
#[test]
fn many_machines_share_a_rate() {
    let text = r#"
[[measurement]]
id = "all"
nic = "Connect-IB"
unit = "Mops/s"
role = "check"
host = "cib"
workload = { verb = "read", transport = "rc", metric = "rate", axis = "size", threads = 1, qps_per_thread = 3, window_per_thread = 4, machines = 3, pattern = "all-to-all" }
size = [32]
value = [1]
"#;
    let point = checked(text, &cib(), &Control::quiet()).unwrap().series[0].points[0].clone();
    let (model, limit) = (point.model.unwrap(), point.limit.unwrap());
    assert!((0.5..=1.02).contains(&(model / limit)), "{point:?}");
}

#[test]
fn answers_and_refusals_stand_beside_medians() {
    let found = checked(FILE, &cib(), &Control::quiet()).unwrap();
    let counts: Vec<_> = found
        .summary
        .iter()
        .map(|of| (of.role.as_deref(), of.answered, of.refused, of.points, of.refused_points, of.hosts))
        .collect();
    assert_eq!(
        counts,
        [
            (Some("calibrate"), 1, 0, 1, 1, 1),
            (Some("check"), 1, 0, 2, 0, 1),
            (Some("reference"), 0, 1, 0, 2, 0),
            (None, 2, 1, 3, 3, 2),
        ]
    );
    let medians: Vec<f64> = found.series.iter().filter_map(|series| series.median).collect();
    let all = found.summary.last().unwrap();
    assert_eq!(all.median, Some((medians[0] + medians[1]) / 2.0));
    assert_eq!(all.median_of_hosts, all.median);
    let worst = found.series.iter().filter_map(|series| series.worst).fold(0.0, f64::max);
    assert_eq!(all.worst, Some(worst));
}

#[test]
fn the_json_has_the_promised_keys() {
    let found = checked(FILE, &cib(), &Control::quiet()).unwrap();
    let json = serde_json::to_value(&found).unwrap();
    let first = &json["series"][0];
    assert_eq!(
        (&first["id"], &first["role"], &first["host"]),
        (&"rates".into(), &"calibrate".into(), &"cib".into())
    );
    assert!(first["median"].is_f64() && first["worst"].is_f64() && first["refused"].is_null());
    let point = &first["points"][0];
    for key in ["x", "measured", "model", "limit", "error"] {
        assert!(point[key].is_f64(), "{key}: {point}");
    }
    assert!(json["series"][2]["refused"].is_string());
}

#[test]
fn an_interrupted_check_says_how_many_points_are_missing() {
    let control = Control { interrupt: Arc::new(AtomicBool::new(true)), ..Control::quiet() };
    let found = checked(FILE, &cib(), &control).unwrap();
    // A refused point is not missing.
    assert_eq!((found.missing, found.summary.last().unwrap().answered), (3, 0));
    assert!(found.series[1].points.iter().all(|point| point.model.is_none() && point.limit.is_some()));
    assert_eq!(found.series[1].refused, None);
}

#[test]
fn a_profile_without_series_is_refused() {
    let said = |profile: &Profile| checked(FILE, profile, &Control::quiet()).unwrap_err().to_string();
    assert_eq!(
        said(&Profile::named("cx").unwrap()),
        "profile cx states no measured_as, so no series is of its NIC: list the NIC's names in it; the file has \
         series of \"Connect-IB\", \"ConnectX-3\""
    );
    let mine = "name = \"mine\"\ntitle = \"mine\"\nbase = \"cib\"\nmeasured_as = [\"ConnectX-9\"]\n";
    assert_eq!(
        said(&Profile::parse("mine.toml", mine).unwrap()),
        "no series is of the NIC of profile mine (ConnectX-9); the file has series of Connect-IB, ConnectX-3"
    );
}

/// A series that cannot be simulated does not hide the others.
#[test]
fn a_run_that_this_machine_cannot_make_is_refused() {
    let large = FILE.replace(
        "window = 1, size = 32, doorbell_registers = \"shared16\"",
        "window = 4096, size = 1000000000",
    );
    let found = checked(&large, &cib(), &Control::quiet()).unwrap();
    let why = found.series[0].refused.as_ref().expect("it is refused");
    assert!(why.contains("size") || *why == SimulateError::OutOfTime.to_string(), "{why}");
    assert!(found.series[1].median.is_some());
}
