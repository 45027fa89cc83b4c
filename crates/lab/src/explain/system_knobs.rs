//! Candidates for a higher rate: parameters that a system can change.

use super::typed::Change;
use crate::asked::SystemWorkload;
use doorbell_nic::Profile;
use doorbell_schema::{Field, Value};
use doorbell_systems::config::{Clients, Travel, Workers};

/// Changes of the system's parameters, the likeliest first.
pub(super) fn candidates(profile: &Profile, w: &SystemWorkload) -> Vec<Change> {
    let number = |field: &Field| w.get(field.key);
    let times = |field: &'static Field, factors: &[(u64, u64)]| {
        let to = |now: u64| factors.iter().map(move |(num, den)| (now.saturating_mul(*num) / den).max(1));
        let all = number(field).into_iter().flat_map(to);
        all.map(|to| Change::to(field, Value::Number(to))).collect::<Vec<_>>()
    };
    let most = Value::Number(profile.host.cores.into());
    let mut all: Vec<Change> =
        number(&Workers::cores).map(|_| Change::to(&Workers::cores, most)).into_iter().collect();
    all.extend(times(&Workers::cores, &[(2, 1)]));
    all.extend(times(&Clients::outstanding, &[(4, 1), (1, 4)]));
    all.extend([&Workers::batching, &Travel::datagrams].into_iter().filter_map(|field| toggled(w, field)));
    all.extend(times(&Workers::gather, &[(4, 1)]));
    all.extend(times(&Clients::clients, &[(2, 1)]));
    all
}

/// Toggles a switch. If no flag sets the new value, the change leaves the parameter out, so that it has its
/// usual value.
fn toggled(w: &SystemWorkload, field: &'static Field) -> Option<Change> {
    let is_batching = field.key == Workers::batching.key;
    match w.value(field.key)? {
        // Only a flag turns batching off; its usual value is on.
        Value::Switch(false) if is_batching => Some(Change::default().without(field)),
        Value::Switch(true) if !is_batching => Some(Change::default().without(field)),
        Value::Switch(now) => Some(Change::to(field, Value::Switch(!now))),
        _ => None,
    }
}
