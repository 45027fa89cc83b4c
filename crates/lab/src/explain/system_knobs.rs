//! Candidates for a higher rate: parameters that a system can change.

use super::typed::Change;
use crate::asked::SystemWorkload;
use doorbell_nic::Profile;
use doorbell_schema::{Field, Value};
use doorbell_systems::config::{Clients, Travel, Workers};

const CLIENTS: &Field = Field::called(Clients::FIELDS, "clients");
const OUTSTANDING: &Field = Field::called(Clients::FIELDS, "outstanding");
const CORES: &Field = Field::called(Workers::FIELDS, "cores");
const GATHER: &Field = Field::called(Workers::FIELDS, "gather");
const BATCHING: &Field = Field::called(Workers::FIELDS, "batching");
const DATAGRAMS: &Field = Field::called(Travel::FIELDS, "datagrams");

/// Changes of the system's parameters, the likeliest first.
pub(super) fn candidates(profile: &Profile, w: &SystemWorkload) -> Vec<Change> {
    let number = |field: &Field| w.get(field.key);
    let times = |field: &'static Field, factors: &[(u64, u64)]| {
        let to = |now: u64| factors.iter().map(move |(num, den)| (now.saturating_mul(*num) / den).max(1));
        let all = number(field).into_iter().flat_map(to);
        all.map(|to| Change::to(field.key, Value::Number(to))).collect::<Vec<_>>()
    };
    let most = Value::Number(profile.host.cores.into());
    let mut all: Vec<Change> = number(CORES).map(|_| Change::to(CORES.key, most)).into_iter().collect();
    all.extend(times(CORES, &[(2, 1)]));
    all.extend(times(OUTSTANDING, &[(4, 1), (1, 4)]));
    all.extend([BATCHING, DATAGRAMS].into_iter().filter_map(|field| toggled(w, field)));
    all.extend(times(GATHER, &[(4, 1)]));
    all.extend(times(CLIENTS, &[(2, 1)]));
    all
}

/// Toggles a switch. If no flag sets the new value, the change leaves the parameter out, so that it has its
/// usual value.
fn toggled(w: &SystemWorkload, field: &'static Field) -> Option<Change> {
    match w.value(field.key)? {
        // Only a flag turns batching off; its usual value is on.
        Value::Switch(false) if field.key == BATCHING.key => Some(Change::default().without(field.key)),
        Value::Switch(true) if field.key != BATCHING.key => Some(Change::default().without(field.key)),
        Value::Switch(now) => Some(Change::to(field.key, Value::Switch(!now))),
        _ => None,
    }
}
