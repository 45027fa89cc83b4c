//! Measurements that no paper prints (`papers/rc-swarm.toml`, `papers/cluster21-reads.toml`). Some may set
//! parameters; the rest serve as checks.

use crate::data::claims;
use doorbell_nic::counted;
use doorbell_series::{
    self as series, MeasuredUnit, MeasuredVerb, PostingPattern, RoleReason, SeriesFile, SeriesPoint,
    SeriesRole, Setup,
};
use doorbell_workload::Verb;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::LazyLock;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    /// Each reply is posted on its own.
    Baseline,
    /// Replies are posted in lists.
    Batching,
    /// Replies are posted in lists over three QPs per port.
    MultiQueue,
}

/// The run behind a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A run of rc-swarm.
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
    Atomics,
    /// A run that no experiment repeats, with the reason.
    NotRun(String),
}

/// A run of rc-swarm: the operations that each thread posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OneQp {
    /// Bytes of each READ.
    pub(crate) size: u32,
}

/// A measurement that is not a claim: a series of one point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measurement {
    pub(crate) id: String,
    /// Profile of the machines.
    pub(crate) cluster: String,
    /// Operations, or requests of a system, in millions per second: the mean over the measured machines.
    pub(crate) mops: f64,
    pub(crate) what: What,
    pub(crate) note: Option<String>,
    /// Reason of the role, if the rule of the file does not give it.
    pub(crate) reason: Option<RoleReason>,
    pub(crate) role: Role,
}

impl Measurement {
    /// The measurement of a series. The name of its host is the name of a profile.
    ///
    /// # Errors
    /// If no experiment knows how to run it: one sentence.
    fn of(series: series::Measurement) -> Result<Measurement, String> {
        let refused = |why: &str| format!("{}: {why}", series.setup.id);
        let [SeriesPoint { x, value }] = series.points[..] else {
            return Err(refused("a measurement of a paper's authors is a series of one point"));
        };
        if series.setup.unit != MeasuredUnit::MopsPerSecond {
            return Err(refused("unit must be Mops/s"));
        }
        let what = What::of(&series.setup, x).ok_or_else(|| refused("no experiment runs this workload"))?;
        let role = match series.setup.role {
            SeriesRole::Calibrate => Role::Usable,
            SeriesRole::Check => Role::Checking,
            SeriesRole::Reference => Role::Exempt,
            SeriesRole::Other(_) => return Err(refused("role must be calibrate, check or reference")),
        };
        let Setup { id, host: cluster, notes: note, role_reason: reason, .. } = series.setup;
        Ok(Measurement { id, cluster, mops: value, what, note, reason, role })
    }
}

impl What {
    /// The run of a series with one point; `None` if no experiment runs it.
    fn of(setup: &Setup, x: f64) -> Option<What> {
        let w = &setup.workload;
        if let Some(why) = &setup.not_run {
            return Some(What::NotRun(why.clone()));
        }
        if let Some(system) = &setup.system {
            let design = match system.variant.as_deref()? {
                "baseline" => Design::Baseline,
                "batching" => Design::Batching,
                "multi-queue" => Design::MultiQueue,
                _ => return None,
            };
            return Some(What::Sequencer { design, cores: system.cores? });
        }
        let verb = match w.verb {
            MeasuredVerb::Read => Verb::Read,
            MeasuredVerb::Write => Verb::Write,
            MeasuredVerb::FetchAdd => return Some(What::Atomics),
            _ => return None,
        };
        // The size is the axis.
        let size = Some(x as u32).filter(|_| w.axis == "size")?;
        match w.pattern {
            Some(PostingPattern::AllToAll) => Some(What::AllToAll(AllToAll {
                verb,
                machines: w.machines?,
                threads: w.threads?,
                qps: w.qps_per_thread?,
                size,
                window: w.window_per_thread?,
            })),
            _ => Some(What::OneQp(OneQp { size })),
        }
    }
}

/// Claims about systems (`papers/predicted.toml`). At first, all of them were predicted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Systems {
    /// Ids of all claims about systems.
    predicted: BTreeSet<String>,
    /// Ids of the claims that have become calibration data since.
    calibration: BTreeSet<String>,
}

/// A set of measurements, each with its role.
struct Set {
    /// Name of the set and of its file.
    name: &'static str,
    /// Introduction in reports.
    about: &'static str,
    all: Vec<Measurement>,
}

/// Contents of all files of measurements.
struct Measurements {
    sets: Vec<Set>,
    systems: Systems,
}

impl Measurements {
    fn read() -> Result<Measurements, String> {
        let systems: Systems =
            claims::read("papers/predicted.toml", include_str!("../../../../papers/predicted.toml"))?;
        let calibration = systems.calibration.len();
        if calibration > MOST_OF_SYSTEMS {
            return Err(format!(
                "papers/predicted.toml: calibration names {calibration} numbers of systems, but at most {MOST_OF_SYSTEMS} may become calibration data"
            ));
        }
        let set = |name, about, file: &str, text: &str| -> Result<Set, String> {
            let series = SeriesFile::parse(file, text).map_err(|error| error.to_string())?.series;
            let all = series.into_iter().map(Measurement::of).collect::<Result<_, _>>();
            Ok(Set { name, about, all: all.map_err(|error| format!("{file}: {error}"))? })
        };
        let swarm = include_str!("../../../../papers/rc-swarm.toml");
        let reads = include_str!("../../../../papers/cluster21-reads.toml");
        let sets = vec![
            set("rc-swarm", ABOUT, "papers/rc-swarm.toml", swarm)?,
            set("cluster21-reads", ABOUT_READS, "papers/cluster21-reads.toml", reads)?,
        ];
        Ok(Measurements { sets, systems })
    }
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
    measurements().sets.iter().flat_map(|set| &set.all).map(|m| (m, m.role))
}

/// Measurements of one set with their roles.
pub(crate) fn of_set(name: &str) -> impl Iterator<Item = (&'static Measurement, Role)> {
    set(name).all.iter().map(|m| (m, m.role))
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
        let reason = m.reason.as_ref().map(|reason| match reason {
            RoleReason::Exempt(why) => why.clone(),
            RoleReason::Known(used) => format!("known before: {used}"),
            RoleReason::Earlier(what) => format!("handed out earlier: {what}"),
        });
        let notes = [not_run, reason, m.note.clone(), chosen];
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
            What::Atomics => "inbound atomics".into(),
            What::NotRun(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::holdout::{self, hash};
    use doorbell_nic::{Basis, Profile};
    use std::cmp::Reverse;

    /// Of this many measurements that are neither exempt nor earlier, one may set parameters.
    const PARTS: usize = 3;

    fn is_known(m: &Measurement) -> bool {
        matches!(m.reason, Some(RoleReason::Known(_)))
    }

    fn is_earlier(m: &Measurement) -> bool {
        matches!(m.reason, Some(RoleReason::Earlier(_)))
    }

    fn is_exempt(m: &Measurement) -> bool {
        matches!(m.reason, Some(RoleReason::Exempt(_)))
    }

    /// The role that the rule gives: a third of the measurements that are neither exempt nor earlier may set
    /// parameters. Known measurements come first, then the ids with the least hash.
    fn role_by_rule(m: &Measurement) -> Role {
        let mut rest: Vec<&Measurement> =
            swarm().map(|(m, _)| m).filter(|m| !is_exempt(m) && !is_earlier(m)).collect();
        let most = rest.len() / PARTS;
        rest.sort_by_key(|m| (Reverse(is_known(m)), hash(&m.id)));
        match &m.reason {
            Some(RoleReason::Exempt(_)) => Role::Exempt,
            Some(RoleReason::Earlier(_)) => Role::Usable,
            _ if rest[..most].iter().any(|usable| usable.id == m.id) => Role::Usable,
            _ => Role::Checking,
        }
    }

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
        let of = |role| swarm().filter(move |(m, r)| *r == role && !is_earlier(m)).count();
        let (usable, checking) = (of(Role::Usable), of(Role::Checking));
        assert!(usable > 0 && usable * PARTS <= usable + checking, "{usable} of {}", usable + checking);
        assert!(swarm().all(|(m, role)| !is_known(m) || role == Role::Usable), "what is known was used");
    }

    #[test]
    fn the_roles_of_the_file_are_those_of_the_rule() {
        for (m, role) in swarm() {
            assert_eq!(role, role_by_rule(m), "{}", m.id);
        }
        let highest = swarm().filter(|(m, role)| *role == Role::Usable && !is_known(m) && !is_earlier(m));
        let highest = highest.map(|(m, _)| hash(&m.id)).max().unwrap();
        assert!(all().filter(|(_, role)| *role == Role::Checking).all(|(m, _)| hash(&m.id) > highest));
        let (known, role) = swarm().find(|(m, _)| m.id == "rc-swarm-cib-read-6x14-q30-w16-32b").unwrap();
        assert_eq!((is_known(known), role), (true, Role::Usable));
        assert!(of_set("cluster21-reads").all(|(m, role)| role == Role::Usable && m.reason.is_none()));
    }

    #[test]
    fn what_is_not_used_or_not_run_has_a_reason() {
        for (m, _) in all() {
            let not_run = if let What::NotRun(why) = &m.what { Some(why) } else { None };
            let reason = m.reason.as_ref().map(|reason| match reason {
                RoleReason::Known(why) | RoleReason::Earlier(why) | RoleReason::Exempt(why) => why,
            });
            for reason in m.note.iter().chain(reason).chain(not_run) {
                assert!(reason.trim().len() > 10, "{}: {reason:?} says too little", m.id);
            }
            assert!(m.mops > 0.0 && Profile::named(&m.cluster).is_ok(), "{}", m.id);
        }
    }

    /// The series as `Measurement::of` reads them, with a replacement.
    fn refused(from: &str, to: &str) -> String {
        let text = "[[measurement]]\nid = \"it\"\nnic = \"n\"\nunit = \"Mops/s\"\nrole = \"check\"\nhost = \"cib\"\n\
                    workload = { verb = \"read\", transport = \"rc\", metric = \"rate\", axis = \"size\" }\n\
                    size = [8]\nvalue = [1]\n";
        assert!(text.contains(from), "{from}");
        let file = SeriesFile::parse("m.toml", &text.replace(from, to)).unwrap();
        Measurement::of(file.series.into_iter().next().unwrap()).expect_err(to)
    }

    #[test]
    fn a_series_that_no_experiment_runs_is_refused() {
        for (from, to, why) in [
            ("\"read\"", "\"send\"", "it: no experiment runs this workload"),
            ("\"size\" }\nsize", "\"qps\" }\nqps", "it: no experiment runs this workload"),
            ("Mops/s", "Gb/s", "it: unit must be Mops/s"),
            ("\"check\"", "\"guess\"", "it: role must be calibrate, check or reference"),
            (
                "[8]\nvalue = [1]",
                "[8, 9]\nvalue = [1, 2]",
                "it: a measurement of a paper's authors is a series of one point",
            ),
            (
                "host",
                "system = { name = \"s\", variant = \"odd\" }\nhost",
                "it: no experiment runs this workload",
            ),
        ] {
            assert_eq!(refused(from, to), why);
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
            assert_eq!(settled.contains(id), is_used, "{id}: profiles and papers/predicted.toml differ");
            assert!(!(is_used && holdout::is_held_out(claim)), "{id} is set aside");
        }
        assert!(calibration.is_subset(predicted));
        assert_eq!(predicted_of_systems().count(), predicted.len() - calibration.len());
    }
}
