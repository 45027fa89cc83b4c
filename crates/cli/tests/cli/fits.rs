//! Checks JSON against its schema in `docs/schemas`.

use jsonschema::Validator;
use serde_json::{Map, Value};

/// Fields that may be absent, either because there is nothing to say, or because a workload file may omit
/// them.
const OPTIONAL: [&str; 50] = [
    "overload",
    "cut_short",
    "not_confirmed",
    "shard",
    "knee",
    "due_mops",
    "load",
    "no_latency",
    "no_percentile",
    "known_to",
    "quantiles",
    "qps_per_nic",
    "why",
    "class",
    "classes",
    "kinds",
    "item",
    "warmup",
    "duration",
    "waits",
    "device_id",
    "group",
    "group_lift",
    "together",
    "operation_time",
    "advice",
    "base",
    "host",
    "machine",
    "count",
    "unsettled",
    "stored",
    "uncore",
    "phases",
    "served",
    "latency_covers",
    "calibrated",
    "uncertainty",
    "intervals",
    "error",
    "left_out",
    "median_error",
    "largest_error",
    "runs",
    "warmed",
    "overrun",
    "gb_per_s",
    "interrupted",
    "missing",
    "breakdown",
];
/// Names of objects whose keys are not field names.
const MAPS: [&str; 10] = [
    "undelivered_by_cause",
    "parameters",
    "claims",
    "verbs",
    "sizes",
    "wqes_per_doorbell",
    "sges_per_work_request",
    "set",
    "within",
    "of",
];
/// Workload fields that are present only if they are given.
const SAID: [&str; 16] = [
    "until",
    "arrivals",
    "rate",
    "think",
    "mix",
    "inline_up_to",
    "max_rd_atomic",
    "ports",
    "cq_per_qp",
    "sges",
    "pieces",
    "offset",
    "random_offset",
    "local_region",
    "remote_region",
    "addresses",
];

fn validator(name: &str) -> Validator {
    let path = format!("{}/../../docs/schemas/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema = std::fs::read_to_string(&path).expect("there is a schema of it");
    let schema = serde_json::from_str(&schema).expect("a schema is JSON");
    jsonschema::draft202012::new(&schema).expect("it is one of draft 2020-12")
}

fn wrong(validator: &Validator, json: &Value) -> Option<String> {
    validator.iter_errors(json).next().map(|error| format!("at {}: {error}", error.instance_path()))
}

/// Asserts that `json` fits the schema of this name. Also asserts that it does not fit if any object has a
/// field more or less.
pub(crate) fn only(name: &str, json: &Value) {
    let validator = validator(name);
    assert_eq!(wrong(&validator, json), None, "{name}");
    let mut all = Vec::new();
    objects(json, "", &mut all);
    for at in all {
        let fits_with = |change: &dyn Fn(&mut Map<String, Value>)| {
            let mut other = json.clone();
            change(other.pointer_mut(&at).and_then(Value::as_object_mut).expect("it is an object"));
            validator.is_valid(&other)
        };
        // Objects of draws may contain any parameter, and some objects any option.
        let more = |object: &mut Map<String, Value>| _ = object.insert("more".into(), 1.into());
        let takes_more = at.ends_with("/calibrated/draws") || has_any_option(name, &at);
        assert!(takes_more || !fits_with(&more), "{name}: {at}/more fits");
        let keys = json.pointer(&at).and_then(Value::as_object).expect("it is an object").keys();
        for key in keys.filter(|key| !is_optional(name, &at, key)) {
            assert!(!fits_with(&|object| _ = object.remove(key)), "{name}: fits without {at}/{key}");
        }
    }
}

/// Whether the object's fields are options of workloads or systems, of which it has some.
fn has_any_option(name: &str, at: &str) -> bool {
    match name {
        "sweep" => at == "/workload" || at.ends_with("/at"),
        "compare" => ["/options", "/same", "/workload"].iter().any(|part| at.contains(part)),
        _ => false,
    }
}

fn is_optional(name: &str, at: &str, key: &str) -> bool {
    // A side that was not run has no result.
    let of_a_result = name == "compare"
        && at.matches('/').count() == 2
        && ["mops", "interval", "latency_ns", "latency_with", "measured", "dropped", "bottleneck"]
            .contains(&key);
    let of_draws = at.ends_with("/calibrated/draws");
    // A measurement may omit some of these fields.
    let of_measurements = at.contains("/measured/")
        && (["size", "batch", "qps", "machines", "threads", "window", "claims", "within", "of"]
            .contains(&key));
    let of_the_workload = match name {
        // Only fields that follow from the process's posts are present. All other fields have their usual
        // values.
        "run-stats" | "run-stats-all" => true,
        "simulate-system" => key == "profile",
        _ => false,
    };
    // A class must give only its number of threads.
    let of_a_class = at.starts_with("/workload/class/") && key != "threads";
    // All processes together may have no workload.
    let of_all = name == "run-stats-all" && at.is_empty() && key == "workload";
    // Statistics leave out attributes that no QP of the process has.
    let of_attributes = name.starts_with("run-stats")
        && ["path_mtu", "max_rd_atomic", "peer_max_dest_rd_atomic"].contains(&key);
    OPTIONAL.contains(&key)
        || of_a_result
        || has_any_option(name, at)
        || of_draws
        || of_attributes
        || of_all
        || of_measurements
        || of_a_class
        || (at == "/workload" && (of_the_workload || SAID.contains(&key)))
}

/// Adds the paths of all objects with fields to `found`. Of a list, only the first element is searched.
fn objects(json: &Value, at: &str, found: &mut Vec<String>) {
    match json {
        Value::Object(fields) => {
            if !MAPS.iter().any(|map| at.ends_with(&format!("/{map}"))) {
                found.push(at.to_owned());
            }
            fields.iter().for_each(|(key, value)| objects(value, &format!("{at}/{key}"), found));
        }
        Value::Array(all) => all.first().into_iter().for_each(|one| objects(one, &format!("{at}/0"), found)),
        _ => {}
    }
}
