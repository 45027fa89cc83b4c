//! Measurements that no paper prints (`papers/rc-swarm.toml`, `papers/cluster21-reads.toml`). Some may set
//! parameters; the rest serve as checks.

use crate::data::claims;
use crate::data::holdout::hash;
use doorbell_nic::counted;
use doorbell_workload::Verb;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Of this many measurements that are neither exempt nor `earlier`, one may set parameters.
const PARTS: usize = 3;
/// At most this many claims about systems may become calibration data.
const MOST_OF_SYSTEMS: usize = 4;

/// Role of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Parameters may be set from it.
    Usable,
    /// No parameter is set from it; it checks the model.
    Checking,
    /// It neither sets parameters nor checks the model.
    Exempt,
}

impl Role {
    /// Name of the role in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Usable => "usable",
            Role::Checking => "checking",
            Role::Exempt => "exempt",
        }
    }
}

/// A sequencer over HERD's RPCs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Design {
    /// Each reply is posted on its own.
    Baseline,
    /// Replies are posted in lists.
    Batching,
    /// Replies are posted in lists over three QPs per port.
    MultiQueue,
}

/// The run behind a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum What {
    /// A run of rc-swarm.
    #[serde(rename_all = "kebab-case")]
    AllToAll(AllToAll),
    /// READs of one QP.
    OneQp(OneQp),
    /// A run of ws-sequencer.
    Sequencer {
        /// Design of the sequencer.
        design: Design,
        /// Cores of the server.
        cores: u32,
    },
    /// Atomics of many clients on the memory of one machine.
    Atomics {},
    /// A run that no experiment repeats, with the reason.
    NotRun(String),
}

/// A run of rc-swarm: the operations that each thread posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AllToAll {
    pub(crate) verb: Verb,
    pub(crate) machines: u32,
    /// Threads of each machine.
    pub(crate) threads: u32,
    /// QPs of each thread, including QPs to its own machine.
    pub(crate) qps: u32,
    /// Bytes of payload.
    pub(crate) size: u32,
    /// Outstanding operations of a thread.
    pub(crate) window: u32,
}

/// READs of one QP, as perftest's `ib_read_bw` posts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneQp {
    /// Bytes of each READ.
    pub(crate) size: u32,
}

/// A measurement that is not a claim.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measurement {
    pub(crate) id: String,
    /// Profile of the machines.
    pub(crate) cluster: String,
    /// Operations, or requests of a system, in millions per second: the mean over the measured machines.
    pub(crate) mops: f64,
    pub(crate) what: What,
    pub(crate) note: Option<String>,
    /// Parameters that were set from this measurement before all measurements were handed out.
    pub(crate) known: Option<String>,
    /// Reason why this measurement neither sets parameters nor checks the model.
    pub(crate) exempt: Option<String>,
    /// Purpose for which this measurement was handed out before the rest. Parameters may be set from it. The
    /// hash does not choose among such measurements.
    pub(crate) earlier: Option<String>,
}

/// Claims about systems. At first, all of them were predicted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Systems {
    /// Ids of all claims about systems.
    predicted: BTreeSet<String>,
    /// Ids of the claims that have become calibration data since.
    calibration: BTreeSet<String>,
}

/// Contents of a file of measurements. Only `papers/rc-swarm.toml` has `systems`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    measurement: Vec<Measurement>,
    systems: Option<Systems>,
}

/// A set of measurements, each with its role.
struct Set {
    /// Name of the set and of its file.
    name: &'static str,
    /// Introduction in reports.
    about: &'static str,
    all: Vec<(Measurement, Role)>,
}

/// Contents of all files of measurements.
struct Measurements {
    sets: Vec<Set>,
    systems: Systems,
}

impl Measurements {
    fn read() -> Result<Measurements, String> {
        let swarm: File =
            claims::read("papers/rc-swarm.toml", include_str!("../../../../papers/rc-swarm.toml"))?;
        let reads: File = claims::read(
            "papers/cluster21-reads.toml",
            include_str!("../../../../papers/cluster21-reads.toml"),
        )?;
        let systems = swarm.systems.ok_or("papers/rc-swarm.toml: systems is missing")?;
        let calibration = systems.calibration.len();
        if calibration > MOST_OF_SYSTEMS {
            return Err(format!(
                "papers/rc-swarm.toml: calibration names {calibration} numbers of systems, but at most {MOST_OF_SYSTEMS} may become calibration data"
            ));
        }
        let usable = usable(&swarm.measurement);
        let of_swarm = |m: &Measurement| match &m.exempt {
            Some(_) => Role::Exempt,
            None if m.earlier.is_some() || usable.contains(&m.id) => Role::Usable,
            None => Role::Checking,
        };
        let set = |name, about, all: Vec<Measurement>, role: &dyn Fn(&Measurement) -> Role| Set {
            name,
            about,
            all: all.into_iter().map(|m| (m.clone(), role(&m))).collect(),
        };
        let sets = vec![
            set("rc-swarm", ABOUT, swarm.measurement, &of_swarm),
            set("cluster21-reads", ABOUT_READS, reads.measurement, &|_| Role::Usable),
        ];
        Ok(Measurements { sets, systems })
    }
}

/// Ids of the measurements that the hash allows to set parameters: a third of those that are neither exempt
/// nor `earlier`. Known measurements come first, then the ids with the least hash.
fn usable(all: &[Measurement]) -> BTreeSet<String> {
    let mut rest: Vec<&Measurement> =
        all.iter().filter(|m| m.exempt.is_none() && m.earlier.is_none()).collect();
    let most = rest.len() / PARTS;
    rest.sort_by_key(|m| (Reverse(m.known.is_some()), hash(&m.id)));
    rest.into_iter().take(most).map(|m| m.id.clone()).collect()
}

static MEASUREMENTS: LazyLock<Result<Measurements, String>> = LazyLock::new(Measurements::read);

/// The contents of the files, which are compiled into the program.
fn measurements() -> &'static Measurements {
    MEASUREMENTS.as_ref().unwrap_or_else(|error| panic!("{error}"))
}

/// Checks that the compiled-in files can be read.
///
/// # Errors
/// If a file is malformed: one sentence, with the line.
pub(crate) fn check() -> Result<(), String> {
    MEASUREMENTS.as_ref().map(|_| ()).map_err(String::clone)
}

/// All measurements with their roles, in the order of the files.
pub(crate) fn all() -> impl Iterator<Item = (&'static Measurement, Role)> {
    measurements().sets.iter().flat_map(|set| &set.all).map(|(measurement, role)| (measurement, *role))
}

/// Measurements of one set with their roles.
pub(crate) fn of_set(name: &str) -> impl Iterator<Item = (&'static Measurement, Role)> {
    set(name).all.iter().map(|(measurement, role)| (measurement, *role))
}

fn set(name: &str) -> &'static Set {
    let found = measurements().sets.iter().find(|set| set.name == name);
    found.unwrap_or_else(|| panic!("there is no set of measurements {name}"))
}

/// Introduction to a set in reports.
pub(crate) fn about(name: &str) -> &'static str {
    set(name).about
}

/// Ids of the claims about systems that were predicted before these measurements were handed out, and are
/// still predicted.
pub(crate) fn predicted_of_systems() -> impl Iterator<Item = &'static str> {
    let Systems { predicted, calibration } = &measurements().systems;
    predicted.difference(calibration).map(String::as_str)
}

/// Introduction to the run of CLUSTER'21's first author.
const ABOUT_READS: &str = "A run of READs by the first author of CLUSTER'21 that no paper prints. The \
     numbers are not claims, and Doorbell's results for them are not predictions, because the numbers were \
     in view. At most three parameters are set from them. Other sizes of this run are kept for a check.";

/// Introduction to the runs of rc-swarm.
const ABOUT: &str = "Measurements by the authors of ATC'16 that no paper prints. They are not claims, and \
     Doorbell's results for them are not predictions, because the numbers were in view. Parameters may be \
     set only from usable measurements. The mechanisms that were proposed together with these numbers come \
     from an author with knowledge of further runs of these sweeps. The further runs are kept for a last \
     check.";

/// A measurement and the model's result for it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MeasurementReport {
    /// Its name.
    pub id: String,
    /// Profile of the machines.
    pub profile: String,
    /// Description of the measured run.
    pub what: String,
    /// Role of the measurement.
    pub role: Role,
    /// Measured rate in millions per second, the mean over the machines.
    pub measured: f64,
    /// Simulated rate in the same unit; `None` if it is not run.
    pub simulated: Option<f64>,
    /// Relative error: simulated rate by measured rate, less 1.
    pub error: Option<f64>,
    /// Remarks: why it is not run, why it is exempt, or which settings the run had to choose.
    pub note: String,
}

impl MeasurementReport {
    /// The report of a measurement. `found` holds the simulated rate and the settings that its run had to
    /// choose.
    pub(crate) fn of(m: &Measurement, role: Role, found: Option<(f64, String)>) -> MeasurementReport {
        let (simulated, chosen) = found.unzip();
        let not_run = if let What::NotRun(why) = &m.what { Some(format!("not run: {why}")) } else { None };
        let known = m.known.as_ref().map(|used| format!("known before: {used}"));
        let earlier = m.earlier.as_ref().map(|what| format!("handed out earlier: {what}"));
        let notes = [not_run, m.exempt.clone(), known, earlier, m.note.clone(), chosen];
        let notes: Vec<String> = notes.into_iter().flatten().filter(|note| !note.is_empty()).collect();
        MeasurementReport {
            id: m.id.clone(),
            profile: m.cluster.clone(),
            what: m.what.words(),
            role,
            measured: m.mops,
            simulated,
            error: simulated.map(|simulated| simulated / m.mops - 1.0),
            note: notes.join("; "),
        }
    }
}

impl What {
    fn words(&self) -> String {
        match self {
            What::AllToAll(AllToAll { verb, machines, threads, qps, size, window }) => format!(
                "all-to-all {verb} of {size} B over RC: {machines} machines of {threads} threads, {qps} QPs each, window {window}"
            ),
            What::Sequencer { design, cores } => {
                let name = match design {
                    Design::Baseline => "one reply at a time",
                    Design::Batching => "batching",
                    Design::MultiQueue => "batching, three QPs per port",
                };
                format!("sequencer over HERD's RPCs, {name}: {}", counted(u64::from(*cores), "core"))
            }
            What::OneQp(OneQp { size }) => {
                format!("outbound read of {size} B over RC: one QP, 128 outstanding")
            }
            What::Atomics {} => "inbound atomics".into(),
            What::NotRun(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::holdout;
    use doorbell_nic::{Basis, Profile};

    #[test]
    fn ids_are_unique_and_those_of_no_claim() {
        let ids: BTreeSet<&str> = all().map(|(m, _)| m.id.as_str()).collect();
        assert_eq!(ids.len(), all().count(), "an id occurs twice");
        for id in ids {
            assert!(claims::find(id).is_none(), "{id} is a claim");
        }
    }

    fn swarm() -> impl Iterator<Item = (&'static Measurement, Role)> {
        of_set("rc-swarm")
    }

    #[test]
    fn at_most_three_parameters_are_set_from_the_reads() {
        let names = |measurements: &[String]| {
            of_set("cluster21-reads").any(|(m, _)| measurements.iter().any(|said| said.contains(&m.id)))
        };
        let profiles = Profile::names().map(|name| Profile::named(name).unwrap());
        // If a profile inherits a parameter from its base, the base counts it.
        let own = profiles.flat_map(|p| p.parameters).filter(|p| p.base.is_none());
        let set =
            own.filter(|p| matches!(&p.basis, Basis::Calibrated { measurements, .. } if names(measurements)));
        assert!(set.count() <= 3);
    }

    #[test]
    fn at_most_a_third_may_be_used() {
        let of = |role| swarm().filter(move |(m, r)| *r == role && m.earlier.is_none()).count();
        let (usable, checking) = (of(Role::Usable), of(Role::Checking));
        assert!(usable > 0 && usable * PARTS <= usable + checking, "{usable} of {}", usable + checking);
        assert!(swarm().all(|(m, role)| m.known.is_none() || role == Role::Usable), "what is known was used");
    }

    #[test]
    fn the_hash_says_which_may_be_used() {
        let known =
            |id: &str| swarm().find(|(m, _)| m.id == id).map(|(m, role)| (m.known.is_some(), role)).unwrap();
        let highest =
            swarm().filter(|(m, role)| *role == Role::Usable && m.known.is_none() && m.earlier.is_none());
        let highest = highest.map(|(m, _)| hash(&m.id)).max().unwrap();
        assert!(all().filter(|(_, role)| *role == Role::Checking).all(|(m, _)| hash(&m.id) > highest));
        assert_eq!(known("rc-swarm-cib-read-6x14-q30-w16-32b"), (true, Role::Usable));
    }

    #[test]
    fn what_is_not_used_or_not_run_has_a_reason() {
        for (m, _) in all() {
            let not_run = if let What::NotRun(why) = &m.what { Some(why) } else { None };
            for reason in [&m.exempt, &m.known, &m.earlier, &m.note].into_iter().flatten().chain(not_run) {
                assert!(reason.trim().len() > 10, "{}: {reason:?} says too little", m.id);
            }
            assert!(m.exempt.is_none() || m.known.is_none(), "{}", m.id);
            assert!(m.mops > 0.0 && Profile::named(&m.cluster).is_ok(), "{}", m.id);
        }
    }

    /// A parameter names the ids of the measurements that it was set from.
    #[test]
    fn no_parameter_is_set_from_what_is_for_checking() {
        for name in Profile::names() {
            for parameter in Profile::named(name).unwrap().parameters {
                let Basis::Calibrated { measurements, .. } = parameter.basis else { continue };
                let names = |id: &str| measurements.iter().any(|said| said.contains(id));
                let found = all().find(|(m, role)| *role != Role::Usable && names(&m.id));
                assert!(found.is_none(), "{} of {name} is set from {}", parameter.name, found.unwrap().0.id);
            }
        }
    }

    /// Claims that profiles name as calibration data, and claims that restate them.
    fn calibrated() -> BTreeSet<String> {
        let profiles = Profile::names().map(|name| Profile::named(name).unwrap());
        let claims = profiles.map(|p| p.calibrated_claims().into_iter().map(str::to_owned).collect());
        claims::settled_by(claims.flat_map(|ids: Vec<String>| ids))
    }

    #[test]
    fn few_numbers_of_systems_become_calibration_data() {
        let Systems { predicted, calibration } = &measurements().systems;
        assert_eq!(predicted.len(), 24);
        assert!(calibration.len() <= MOST_OF_SYSTEMS, "{calibration:?}");
        let settled = calibrated();
        for id in predicted {
            let claim = claims::find(id).unwrap_or_else(|| panic!("there is no claim {id}"));
            let is_used = calibration.contains(id);
            assert_eq!(settled.contains(id), is_used, "{id}: profiles and papers/rc-swarm.toml differ");
            assert!(!(is_used && holdout::is_held_out(claim)), "{id} is set aside");
        }
        assert!(calibration.is_subset(predicted));
        assert_eq!(predicted_of_systems().count(), predicted.len() - calibration.len());
    }
}
