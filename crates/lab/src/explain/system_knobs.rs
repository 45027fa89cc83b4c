//! Parameters that a system can have otherwise: candidates for a higher rate.

use super::typed::Change;
use crate::asked::SystemWorkload;
use doorbell_nic::Profile;
use doorbell_schema::Value;

/// Changes of the parameters that a system has, the likeliest first.
pub(super) fn candidates(profile: &Profile, w: &SystemWorkload) -> Vec<Change> {
    let times = |key: &'static str, factors: &[(u64, u64)]| {
        let now = w.get(key);
        let to = |now: u64| factors.iter().map(move |(num, den)| (now.saturating_mul(*num) / den).max(1));
        now.into_iter().flat_map(to).map(|to| Change::to(key, Value::Number(to))).collect::<Vec<_>>()
    };
    let cores = |wanted: Vec<Change>| {
        let most = Value::Number(profile.host.cores.into());
        let all = w.get("cores").map(|_| Change::to("cores", most));
        all.into_iter().chain(wanted)
    };
    let mut all: Vec<Change> = cores(times("cores", &[(2, 1)])).collect();
    all.extend(times("outstanding", &[(4, 1), (1, 4)]));
    all.extend(times("multi_queue", &[(3, 1), (1, 3)]));
    all.extend(["batching", "continuous", "datagrams"].into_iter().filter_map(|key| toggled(w, key)));
    all.extend(times("gather", &[(4, 1)]));
    all.extend(times("clients", &[(2, 1)]));
    all
}

/// A switch the other way round. Where no flag says so, nothing is said of it.
fn toggled(w: &SystemWorkload, key: &'static str) -> Option<Change> {
    match w.value(key)? {
        // The usual way of the one that only a flag turns off.
        Value::Switch(false) if key == "batching" => Some(Change::default().without(key)),
        Value::Switch(true) if key != "batching" => Some(Change::default().without(key)),
        Value::Switch(now) => Some(Change::to(key, Value::Switch(!now))),
        _ => None,
    }
}
