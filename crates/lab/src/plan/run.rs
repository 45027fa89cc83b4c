//! A run as data: machines, and their work.

use super::work::{Planned, Work};
use super::{memory, patience};
use crate::asked::{Asked, SystemWorkload};
use crate::results::{MeasuredTime, Outcome};
use crate::run_error::SimulateError;
use crate::support::Support;
use crate::watch::Watch;
use doorbell_nic::limits::Limit;
use doorbell_nic::{More, Profile, Resource};
use doorbell_programs::steady::Stop;
use doorbell_sim::PathsOf;
use doorbell_workload::{Profiles, Resolved, Workload, WorkloadError};
use std::sync::Arc;

/// Machines and their work: everything that a result depends on.
#[derive(Clone, Debug)]
pub struct Run {
    /// Profiles of the machine groups.
    pub profiles: Arc<Profiles>,
    /// Work of the machines.
    pub(crate) work: Work,
}

/// Identity of a run: equal keys mean equal runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Run {
    /// A verbs workload on machines with these profiles.
    pub fn verbs(profiles: Profiles, workload: Resolved) -> Run {
        Run { profiles: Arc::new(profiles), work: Work::Verbs(Arc::new(workload)) }
    }

    /// A system on machines of this profile. Parameters that depend on the profile get their values.
    pub fn system(profile: &Profile, workload: SystemWorkload) -> Run {
        let work = Work::System(workload.decided(profile));
        Run { profiles: Arc::new(Profiles::from(profile)), work }
    }

    /// A requested workload or system on the profiles that it names.
    ///
    /// # Errors
    /// If a profile cannot be loaded, the request is invalid for its profile, or its operations are too long
    /// for a result.
    pub fn asked(asked: Asked) -> Result<Run, WorkloadError> {
        match asked {
            Asked::Verbs(workload) => Run::workload_on(&workload, workload.load_profiles()?),
            Asked::System(system, profiles) => Ok(Run::system(profiles.first(), system)),
        }
    }

    /// A workload on machines of these profiles, instead of the profiles that the workload names.
    ///
    /// # Errors
    /// If the workload is invalid for the profiles, or its operations are too long for a result.
    pub fn workload_on(workload: &Workload, profiles: Profiles) -> Result<Run, WorkloadError> {
        let resolved = workload.resolve(&profiles)?;
        patience::refuse(&profiles, &resolved)?;
        Ok(Run::verbs(profiles, resolved))
    }

    /// A system on machines of this profile, instead of the profile that the system names.
    ///
    /// # Errors
    /// If a machine of the profile cannot provide a parameter of the system.
    pub fn system_on(system: SystemWorkload, profile: &Profile) -> Result<Run, WorkloadError> {
        system.check(profile)?;
        Ok(Run::system(profile, system))
    }

    /// A requested workload or system on `profiles` instead of the profiles that it names.
    ///
    /// # Errors
    /// If the request is invalid for these profiles.
    pub(crate) fn asked_on(asked: Asked, profiles: &Profiles) -> Result<Run, WorkloadError> {
        match asked {
            Asked::Verbs(workload) => Ok(Run::verbs(profiles.clone(), workload.resolve(profiles)?)),
            Asked::System(system, _) => Ok(Run::system(profiles.first(), system)),
        }
    }

    /// The work as [`Planned`], the trait that all kinds of work implement.
    fn planned(&self) -> &dyn Planned {
        match &self.work {
            Work::Verbs(workload) => workload,
            Work::System(system) => system,
        }
    }

    /// The workload of verbs; `None` if the work is a system.
    pub fn as_verbs(&self) -> Option<&Resolved> {
        let Work::Verbs(workload) = &self.work else { return None };
        Some(workload)
    }

    /// The system; `None` if the work is a workload of verbs.
    pub fn as_system(&self) -> Option<&SystemWorkload> {
        let Work::System(system) = &self.work else { return None };
        Some(system)
    }

    /// Whether the work is a system.
    pub fn is_of_system(&self) -> bool {
        self.as_system().is_some()
    }

    /// Whether the machines exchange data over kernel TCP instead of QPs.
    pub fn is_over_tcp(&self) -> bool {
        self.planned().is_over_tcp()
    }

    /// The operations whose stages a trace can keep, and the number of latencies in such an operation.
    ///
    /// # Errors
    /// A sentence that says why a trace cannot follow the operations of the system.
    pub fn followed(&self) -> Result<(PathsOf, u32), String> {
        match self.as_system() {
            None => Ok((PathsOf::WorkRequests, 1)),
            Some(system) => Ok((PathsOf::MarkedOperations, system.followed()?)),
        }
    }

    /// Lists the supporting data, for verbs by profile, class and operation.
    pub fn supports(&self) -> Vec<Support> {
        self.planned().supports(&self.profiles)
    }

    /// Lists the parts that lie outside the measurements behind the profiles, a sentence for each part.
    pub fn extrapolates(&self) -> Vec<String> {
        self.planned().extrapolates(&self.profiles)
    }

    /// Upper bounds of the rate, lowest first; empty for a system, because the mix of its verbs is unknown.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        self.planned().limits(&self.profiles)
    }

    /// Number of machines to which a machine posts; `None` for a system, which decides for itself.
    pub(crate) fn reach(&self) -> Option<u32> {
        self.planned().reach()
    }

    /// The run with more of some resources on all machines.
    pub(crate) fn with(&self, all: &[More]) -> Run {
        let more = |run: Run, more: &More| {
            let work = run.planned().with(*more).unwrap_or_else(|| run.work.clone());
            Run { profiles: Arc::new(run.profiles.with(*more)), work }
        };
        all.iter().fold(self.clone(), more)
    }

    /// The run with more of a resource on the machines of one group.
    pub(crate) fn with_of_group(&self, group: usize, more: More) -> Run {
        let profiles = Arc::new(self.profiles.with_of_group(group, more));
        Run { profiles, work: self.work.clone() }
    }

    /// The run on machines of other profiles, group by group.
    ///
    /// # Panics
    /// If `profiles` is empty.
    pub(crate) fn on(&self, profiles: &[Profile]) -> Run {
        let (first, others) = (profiles[0].clone(), profiles[1..].to_vec());
        Run { profiles: Arc::new(Profiles::of_groups(first, others)), work: self.work.clone() }
    }

    /// The run with the warm-up and the duration of another run.
    pub(crate) fn timed_as(&self, measured: &MeasuredTime) -> Run {
        let work = self.planned().timed(measured.warmup, measured.duration);
        Run { profiles: self.profiles.clone(), work }
    }

    pub(crate) fn key(&self) -> Key {
        let all = (&*self.profiles, self.json());
        Key(serde_json::to_string(&all).expect("profiles and workloads are JSON"))
    }

    /// Value of a numeric option after defaults and limits; `None` if the option is absent or not a number.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.planned().number(key)
    }

    /// Number of operations per signalled one; `None` for a system, which decides for itself.
    pub(crate) fn signal_every(&self) -> Option<u64> {
        self.planned().signal_every()
    }

    /// The resolved work of the machines as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        self.planned().json()
    }

    /// Seed of the random draws.
    pub(crate) fn seed(&self) -> u64 {
        self.planned().seed()
    }

    /// Operations due per second; `None` if some threads post when earlier operations end.
    pub(crate) fn due(&self) -> Option<u64> {
        self.planned().due()
    }

    /// The word for this kind of work in messages.
    pub(crate) fn name(&self) -> &'static str {
        self.planned().name()
    }

    /// Whether the run may use the resource, so that more of it may change the run.
    pub(crate) fn may_use(&self, resource: Resource) -> bool {
        resource != Resource::OutstandingReads || self.planned().may_read()
    }

    /// Approximate run time of the simulation, in simulated operations.
    pub(crate) fn cost(&self) -> f64 {
        self.planned().cost(&self.profiles)
    }

    /// Rough upper bound of the memory in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.planned().bytes(&self.profiles)
    }

    /// Whether this machine has enough memory for the run.
    pub(crate) fn fits(&self) -> bool {
        self.bytes() <= memory::of_machine()
    }

    /// Number of simulated threads.
    pub(crate) fn threads(&self) -> u64 {
        self.planned().threads()
    }

    /// Executes the run. `watch` may request a trace.
    ///
    /// # Errors
    /// If this machine lacks the memory for the run, or the simulation fails.
    pub(crate) fn run(&self, stop: &Stop, watch: &dyn Watch) -> Result<Outcome, SimulateError> {
        let (needed, memory) = (self.bytes(), memory::of_machine());
        if needed > memory {
            return Err(SimulateError::TooLarge { needed, memory });
        }
        self.planned().run(&self.profiles, stop, watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_schema::Duration;

    #[test]
    fn a_parameter_that_is_set_makes_another_run() {
        let key = |toml: &str| run(toml).key();
        let keys =
            ["", "[set]\ntx.send_ns = 20", "[set]\ntx.send_ns = 21", "[set]\ntx.send_ns = 60"].map(key);
        for (i, one) in keys.iter().enumerate() {
            assert!(keys.iter().skip(i + 1).all(|other| other != one), "{one:?}");
        }
    }

    #[test]
    fn a_parameter_that_is_set_counts_for_systems_too() {
        let key = |toml: &str| {
            let given = doorbell_schema::Given::from_toml("w.toml", toml, &crate::fields()).unwrap();
            Run::asked(crate::Asked::of(&given).unwrap()).unwrap().profiles.first().device.link.mtu
        };
        assert_eq!(key("system = \"rpc\"\n[set]\nlink.mtu_bytes = 2048"), 2048);
    }

    #[test]
    fn buffers_of_clients_count_as_memory() {
        let bytes = |toml: &str| {
            let given = doorbell_schema::Given::from_toml("w.toml", toml, &crate::fields()).unwrap();
            Run::asked(crate::Asked::of(&given).unwrap()).unwrap().bytes()
        };
        // Each client has a source of 1 MB, and memory for four copies.
        let calls = "system = \"vector-io\"\niovcnt = 16\npiece = 65536\nclients = ";
        assert!(bytes(&format!("{calls}512")) - bytes(&format!("{calls}256")) > 256 * (9 << 20));
        let held = "system = \"consolidate\"\nblocks = ";
        assert!(bytes(&format!("{held}10000")) - bytes(&format!("{held}16")) > 2 * 9984 * 1024);
    }

    fn run(toml: &str) -> Run {
        let workload = Workload::from_toml("w.toml", toml).unwrap();
        let profiles = workload.load_profiles().unwrap();
        Run::verbs(profiles.clone(), workload.resolve(&profiles).unwrap())
    }

    #[test]
    fn a_rerun_lasts_as_long_as_the_run() {
        let time = |us| Duration::new(doorbell_verbs::Span::from_us(us));
        let (warmup, duration, ended) = (time(30), time(70), doorbell_programs::steady::Ended::Settled);
        let measured = MeasuredTime { warmup, duration, ended, warmed: None, overrun: None, known_to: None };
        let said = run("warmup = \"30us\"\nduration = \"70us\"");
        assert_ne!(run("").key(), said.key());
        assert_eq!(run("").timed_as(&measured).key(), said.key());
        assert_eq!(said.timed_as(&measured).key(), said.key());
    }

    #[test]
    fn more_reads_under_way_are_also_what_the_workload_asks_for() {
        let reads = |toml: &str| {
            let more = run(toml).with(&[More::Times(Resource::OutstandingReads, 2)]);
            let asked = more.as_verbs().expect("a workload of verbs").max_rd_atomic;
            (more.profiles.first().device.nic.max_rd_atomic, asked)
        };
        assert_eq!(reads("verb = \"read\"\nmax_rd_atomic = 3"), (32, Some(6)));
        assert_eq!(reads("verb = \"read\""), (32, None));
    }
}
