//! A request: a workload of verbs, or a system. One set of fields describes both.

mod fields;
mod system_workload;

pub use fields::{
    SYSTEM_SELECTORS, both, designed, fields, say, system_fields, systems_with, usual_of, usual_of_systems,
};
pub(crate) use fields::{canonical, option};
pub use system_workload::SystemWorkload;

use doorbell_nic::Profile;
use doorbell_programs::systems::{SYSTEMS, SystemEntry};
use doorbell_schema::{Given, Schema, Value};
use doorbell_systems::config::Workers;
use doorbell_systems::shuffle::Shuffle;
use doorbell_workload::{Profiles, Workload, WorkloadError, keys};
use fields::called;
use std::fmt;

/// A request of a user.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// A workload of verbs.
    Verbs(Box<Workload>),
    /// A system, and the profiles of its machines.
    System(SystemWorkload, Box<Profiles>),
}

fn invalid<T>(message: String) -> Result<T, WorkloadError> {
    Err(WorkloadError::Invalid(message))
}

/// Finds the entry for a system or task name and a design.
fn entry(name: &str, design: Option<String>) -> Result<&'static SystemEntry, WorkloadError> {
    let does = |entry: &&SystemEntry| entry.design.is_some_and(|(does, _)| does == name);
    if let Some(entry) = SYSTEMS.iter().find(|entry| entry.name == name) {
        return match design {
            None => Ok(entry),
            Some(_) => {
                let designed = designed().join(" or ");
                invalid(format!("design (--design) applies only to --system {designed}"))
            }
        };
    }
    let is_it = |entry: &&SystemEntry| {
        design.as_deref().is_none_or(|d| entry.design.is_some_and(|(_, own)| own == d))
    };
    match SYSTEMS.iter().filter(does).find(is_it) {
        Some(entry) => Ok(entry),
        None => {
            let designs = SYSTEMS.iter().filter(does).filter_map(|entry| Some(entry.design?.1));
            let designs: Vec<&str> = designs.collect();
            let asked = design.unwrap_or_default();
            invalid(format!("design is {asked}, but the designs of {name} are {}", designs.join(", ")))
        }
    }
}

/// Adds to `given` those usual values that depend on the profile: server cores up to the number that the
/// profile has, and the sockets of its machines.
fn usual_on(profile: &Profile, entry: &SystemEntry, given: &Given) -> Given {
    let mut all = given.clone();
    let mut usually = |key: &str, on_profile: &dyn Fn(u64) -> u64| {
        let field = entry.fields.iter().find(|field| field.key == key && given.get(key).is_none());
        if let (Some(field), Some(Value::Number(usual))) = (field, entry.usual.get(key)) {
            let number = Value::Number(on_profile(*usual));
            all.set(field, number).expect("a profile has cores, and usual values are in range");
        }
    };
    let cores = u64::from(profile.host.cores);
    usually(Workers::cores.key, &|usual| usual.min(cores));
    usually(Shuffle::sockets.key, &|_| profile.socket_count().into());
    usually(Shuffle::cores_per_socket.key, &|_| cores);
    all
}

fn read(given: &Given, key: &str) -> Result<Option<String>, WorkloadError> {
    given.read(key).map_err(WorkloadError::Invalid)
}

/// Finds the system that the given fields ask for, if any.
///
/// # Errors
/// If there is no such system, or the system lacks one of the given fields.
pub fn system_of(given: &Given) -> Result<Option<&'static SystemEntry>, WorkloadError> {
    let Some(name) = read(given, keys::SYSTEM)? else { return Ok(None) };
    let entry = entry(&name, read(given, keys::DESIGN)?)?;
    if given.get(Workload::machine.key).is_some() {
        return invalid(
            "with --system all machines are alike: a file must not have [[machine]] tables".into(),
        );
    }
    let has =
        |key: &str| SYSTEM_SELECTORS.contains(&key) || entry.fields.iter().any(|field| field.key == key);
    match given.keys().find(|key| !has(key)) {
        Some(key) => invalid(format!("{} does not apply to {}", called(key), entry.name)),
        None => Ok(Some(entry)),
    }
}

/// Refuses two ends of one run.
fn check_end(given: &Given) -> Result<(), WorkloadError> {
    match (given.get(Workload::until.key), given.get(Workload::duration.key)) {
        (Some(until), Some(duration)) => invalid(format!(
            "until is {until}, but duration is {duration}: a run ends by one of them, so leave one out"
        )),
        _ => Ok(()),
    }
}

/// Refuses a load, which only some commands replace by a rate.
fn check_load(given: &Given) -> Result<(), WorkloadError> {
    match given.get(keys::LOAD) {
        Some(load) => invalid(no_capacity(load)),
        None => Ok(()),
    }
}

/// The message about a load whose capacity nothing has measured.
pub(crate) fn no_capacity(load: impl fmt::Display) -> String {
    format!("load is {load}, but this command measures no capacity: give a rate instead")
}

impl Asked {
    /// Reads a request from all given fields.
    ///
    /// # Errors
    /// If the workload or system lacks one of the given fields, a value is out of its range, or two fields
    /// set the end of the run.
    pub fn of(given: &Given) -> Result<Asked, WorkloadError> {
        check_end(given)?;
        check_load(given)?;
        let Some(entry) = system_of(given)? else { return Asked::verbs(given) };
        let machines = fields::of_machines(given).map_err(WorkloadError::Invalid)?;
        let host = machines.host.as_deref().map(|host| Profile::canonical_host(host).to_owned());
        let machines = Workload { profile: Some(machines.profile_name().to_owned()), host, ..machines };
        let profiles = machines.load_profiles()?;
        let profile = profiles.first();
        let system =
            SystemWorkload::of(entry.with(&usual_on(profile, entry, given)).map_err(WorkloadError::Invalid)?);
        system.check(profile)?;
        Ok(Asked::System(system.on(machines), Box::new(profiles)))
    }

    /// Names of the profiles and hosts in the request, as the user wrote them.
    pub fn named(&self) -> Vec<&str> {
        match self {
            Asked::Verbs(workload) => {
                let groups = workload.machine.iter().flatten();
                let named = groups.flat_map(|group| [Some(group.profile.as_str()), group.host.as_deref()]);
                named.chain([Some(workload.profile_name()), workload.host.as_deref()]).flatten().collect()
            }
            Asked::System(system, _) => {
                [system.profile.as_deref(), system.host.as_deref()].into_iter().flatten().collect()
            }
        }
    }

    fn verbs(given: &Given) -> Result<Asked, WorkloadError> {
        let has = |key: &str| Workload::fields().iter().any(|field| field.key == key);
        match given.keys().find(|key| !has(key)) {
            Some(key) => invalid(format!("{} applies to systems only: name one with --system", called(key))),
            None => Ok(Asked::Verbs(Box::new(Workload::of(given)?))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_schema::Field;

    #[test]
    fn parameters_that_depend_on_the_profile_have_one_key_in_all_systems() {
        for entry in SYSTEMS.iter() {
            let has = |field: &Field| entry.fields.iter().any(|own| own.key == field.key);
            let usual = entry.with(&Given::default()).unwrap().shape();
            assert!(usual.workers.is_none() || has(&Workers::cores), "{}", entry.name);
            // The log has a fixed number of sockets.
            let has_sockets = has(&Shuffle::sockets) || entry.name == "log";
            assert!(usual.sockets.is_none() || has_sockets, "{}", entry.name);
            assert!(usual.sockets.is_none() || has(&Shuffle::cores_per_socket), "{}", entry.name);
        }
    }

    #[test]
    fn a_system_that_is_printed_can_be_asked_for_again() {
        for entry in SYSTEMS.iter() {
            let set = Some([("tx.send_ns".to_owned(), "20.5".parse().unwrap())].into());
            let named = Workload {
                profile: Some("cx3".into()),
                host: Some("e5-2683-v3".into()),
                pcie: Some("gen4x16".parse().unwrap()),
                link: Some("100roce".parse().unwrap()),
                set,
                ..Workload::default()
            };
            let profiles = named.load_profiles().unwrap();
            let usual = usual_on(profiles.first(), entry, &Given::default());
            let system = SystemWorkload::of(entry.with(&usual).unwrap()).on(named);
            let json = serde_json::to_string(&system).unwrap();
            let given = Given::from_json("w", &json, &fields()).unwrap();
            assert_eq!(Asked::of(&given).unwrap(), Asked::System(system, Box::new(profiles)));
        }
    }
}
