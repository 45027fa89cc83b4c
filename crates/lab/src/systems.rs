//! Systems in virtual time.

use crate::audit;
use crate::plan::Watch;
use crate::programs::Due;
use crate::results::{
    Advice, Bottleneck, Cache, Certainty, Latency, Lift, MeasuredTime, Pcie, PhaseTime, SentAgain, Shown,
    TogetherLift, UncoreUse, Utilization, hash_text, rate,
};
use crate::simulate::{self, SimulateError};
use crate::steady::{Stop, Wanted};
use crate::{asked, explain, vector_io};
use doorbell_nic::{Profile, Resource, counted};
use doorbell_schema::json_schema::{self, Presence};
use doorbell_schema::{Duration, Field, Given, Settings, Value};
use doorbell_sim::{SimCluster, SimConfig};
use doorbell_systems::config::{Clients, Timing};
use doorbell_systems::site::{self, SiteError};
use doorbell_systems::{Interval, Measured, System, SystemShape, Visit};
use doorbell_verbs::{RunError, Span, Time};
use doorbell_workload::{Workload, WorkloadError};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;
use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// Version of the JSON of a [`SystemOutcome`]; fields are only ever added.
pub const SYSTEM_SCHEMA: u32 = 1;

/// What is done with a system in virtual time, whichever it is.
trait Simulated: Debug + Send + Sync {
    fn name(&self) -> &'static str;
    fn values(&self) -> Vec<(&'static str, Option<Value>)>;
    /// Its shape where its parameters are as usual.
    fn usual_shape(&self) -> SystemShape;
    fn timing(&self) -> &Timing;
    fn timed(&self, timing: Timing) -> SystemWorkload;
    fn decided(&self, profile: &Profile) -> SystemWorkload;
    fn run(
        &self,
        cluster: &mut SimCluster,
        course: site::Course,
    ) -> Result<Option<site::Ended<Measured>>, SiteError>;
}

impl<S: System> Simulated for S {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn values(&self) -> Vec<(&'static str, Option<Value>)> {
        doorbell_schema::Schema::values(self)
    }

    fn usual_shape(&self) -> SystemShape {
        S::usual().shape()
    }

    fn timing(&self) -> &Timing {
        System::timing(self)
    }

    fn timed(&self, timing: Timing) -> SystemWorkload {
        let mut system = self.clone();
        *system.as_mut() = timing;
        system.into()
    }

    fn decided(&self, profile: &Profile) -> SystemWorkload {
        let mut system = self.clone();
        system.decide(&|calls| vector_io::best(profile, calls));
        system.into()
    }

    fn run(
        &self,
        cluster: &mut SimCluster,
        course: site::Course,
    ) -> Result<Option<site::Ended<Measured>>, SiteError> {
        System::run(self, cluster, course)
    }
}

/// A system with its parameters, whichever it is. Machine 0 is the server.
#[derive(Clone, Debug)]
pub struct SystemWorkload {
    /// Name of a built-in profile, or path of a profile's file, if one is named.
    pub profile: Option<String>,
    /// The host that the NICs are in, where it is not the profile's own.
    pub host: Option<String>,
    /// Parameters of the profile that have other values.
    pub set: Option<Settings>,
    system: Arc<dyn Simulated>,
    shape: SystemShape,
}

impl<S: System> From<S> for SystemWorkload {
    fn from(system: S) -> SystemWorkload {
        let shape = system.shape();
        SystemWorkload { profile: None, host: None, set: None, system: Arc::new(system), shape }
    }
}

impl SystemWorkload {
    /// What a latency is of, where it is not from the start of an operation to its end.
    pub fn latency_of(&self) -> Option<&'static str> {
        self.shape.latency_of
    }

    /// Bytes that an operation moves, where how many a second is what is asked for.
    pub(crate) fn moved_bytes(&self) -> Option<u64> {
        self.shape.moved_bytes
    }

    /// Its clients.
    pub fn clients(&self) -> &Clients {
        &self.shape.clients
    }

    /// Worker threads of its server, where a parameter says how many.
    pub fn workers(&self) -> Option<u32> {
        self.shape.workers
    }

    /// Whether its bytes travel by kernel TCP.
    pub fn is_over_tcp(&self) -> bool {
        self.shape.over_tcp
    }

    /// Operations that are due in a second, where they are due at a rate.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.shape.rate
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.system.name()
    }

    /// Its parameters with their values.
    pub fn values(&self) -> Vec<(&'static str, Option<Value>)> {
        self.system.values()
    }

    /// The value of a parameter; `None` where the system has none of this name.
    pub fn value(&self, key: &str) -> Option<Value> {
        self.system.values().into_iter().find(|(name, _)| *name == key)?.1
    }

    /// The same of one that is a number.
    pub fn get(&self, key: &str) -> Option<u64> {
        match self.value(key) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// The same where the system is known to have it.
    ///
    /// # Panics
    /// If it has not.
    pub fn number(&self, key: &str) -> u64 {
        self.get(key).unwrap_or_else(|| panic!("{} has no number called {key}", self.system.name()))
    }

    /// What is measured of it.
    pub fn timing(&self) -> &Timing {
        self.system.timing()
    }

    /// Virtual time before its clients begin.
    pub(crate) fn set_up(&self) -> Span {
        self.shape.begin() - Time::START
    }

    /// Its profile, host and settings with the parameters of another.
    fn with(&self, other: SystemWorkload) -> SystemWorkload {
        let (profile, host, set) = (self.profile.clone(), self.host.clone(), self.set.clone());
        SystemWorkload { profile, host, set, ..other }
    }

    /// The system measured at other times.
    pub(crate) fn timed(&self, timing: Timing) -> SystemWorkload {
        self.with(self.system.timed(timing))
    }

    /// The system with what its parameters leave to the profile decided.
    pub(crate) fn decided(&self, profile: &Profile) -> SystemWorkload {
        self.with(self.system.decided(profile))
    }

    /// From when to when is measured, as far as that is said.
    pub(crate) fn wanted(&self) -> Wanted {
        let Timing { warmup, duration, precision, max_time, .. } = self.timing();
        let Clients { clients, outstanding, .. } = self.clients();
        let under_way = u64::from(*clients) * u64::from(*outstanding);
        Wanted {
            begin: self.shape.begin(),
            warmup: warmup.map(Duration::span),
            duration: duration.map(Duration::span),
            precision: *precision,
            max_time: max_time.span(),
            due: self.rate().map(|rate| Due { class: None, rate, under_way }).into_iter().collect(),
            think: self.shape.think,
            round: self.shape.round,
            held: self.shape.held_back,
            // What a client counts has been answered.
            unacknowledged: false,
        }
    }

    /// Whether its clients are threads of one machine that ask at once again for what another has.
    pub(crate) fn retries_on_one_machine(&self) -> bool {
        self.shape.retries_at_once && self.shape.one_machine
    }

    /// Bytes that the server takes: its store, and what each of its threads has for the clients.
    pub(crate) fn server_bytes(&self) -> u64 {
        let SystemShape { store_bytes, warmed_bytes, workers, .. } = self.shape;
        store_bytes + warmed_bytes * u64::from(workers.unwrap_or(1))
    }

    /// Bytes of the buffers that all clients have.
    pub(crate) fn client_bytes(&self) -> u64 {
        self.shape.client_bytes * u64::from(self.clients().clients)
    }

    /// Refuses what a machine of this profile has not. How many clients run on a machine is free, as the
    /// papers' machines have more cores than those of one socket.
    pub(crate) fn check(&self, profile: &Profile) -> Result<(), WorkloadError> {
        let Profile { name, host, .. } = profile;
        let shape = &self.shape;
        if let Some(cores) = shape.workers.filter(|cores| *cores > host.cores) {
            let whose = if profile.socket_count() > 1 { "socket" } else { "machine" };
            let has = counted(host.cores.into(), "core");
            let why = format!("cores is {cores}, but a {whose} of profile {name} has {has}");
            return Err(WorkloadError::Invalid(why));
        }
        let most = profile.device.nic.max_inline;
        let is_usual = || self.system.usual_shape().inline_bytes == shape.inline_bytes;
        if let Some(bytes) = shape.inline_bytes.filter(|bytes| *bytes > most && !is_usual()) {
            let why =
                format!("inline_bytes is {bytes}, but a device of profile {name} inlines at most {most}");
            return Err(WorkloadError::Invalid(why));
        }
        let last = profile.all_cores() - 1;
        if let Some((key, core)) = shape.cores.iter().find(|(_, core)| *core > last) {
            let why = format!("{key} is {core}, but a machine of profile {name} has cores 0 to {last}");
            return Err(WorkloadError::Invalid(why));
        }
        let threads = self.clients().clients;
        if shape.one_machine && threads > profile.all_cores() {
            let why = format!(
                "clients is {threads}, all threads of one machine, but one of profile {name} has {} cores",
                profile.all_cores()
            );
            return Err(WorkloadError::Invalid(why));
        }
        let own = (profile.socket_count(), host.cores);
        if let Some((sockets, cores)) = shape.sockets.filter(|asked| *asked != own) {
            let why = format!(
                "a machine is to have {sockets} sockets of {cores} cores (--sockets, --cores-per-socket), but one of profile {name} has {} of {}; those of cx3-dual and cx3-dual-split have 2 of 8",
                own.0, own.1
            );
            return Err(WorkloadError::Invalid(why));
        }
        if shape.over_tcp && profile.tcp.is_none() {
            let why = format!(
                "stack is tcp, but profile {name} has no section [tcp], which says what it costs: --host names a host that has"
            );
            return Err(WorkloadError::Invalid(why));
        }
        if let Some((key, value)) = shape.needs_sizes.as_ref().filter(|_| profile.hierarchy.is_none()) {
            let why = format!(
                "{key} is {value}, but means nothing on profile {name}, which says no sizes of caches: --host names a host that does, as e7520"
            );
            return Err(WorkloadError::Invalid(why));
        }
        let (mtu, longest) = (profile.device.link.mtu, shape.datagram);
        if let Some((parameter, bytes)) = longest.filter(|(_, bytes)| *bytes > mtu) {
            let value = self.value(parameter).map_or_else(String::new, |value| value.to_string());
            let why = format!(
                "{parameter} is {value}, but makes UD messages of {bytes} bytes, which are one packet of at most {mtu} (the MTU of {name})"
            );
            return Err(WorkloadError::Invalid(why));
        }
        Ok(())
    }

    /// Of the use of resources that which operations depend on.
    pub(crate) fn of_operations(&self, all: &[Utilization]) -> Vec<Utilization> {
        let beside = self.shape.beside.map(|thread| format!("core {thread}"));
        let is_beside = |r: &Utilization| r.machine == 0 && Some(&r.name) == beside.as_ref();
        all.iter().filter(|r| !is_beside(r)).cloned().collect()
    }
}

impl PartialEq for SystemWorkload {
    fn eq(&self, other: &SystemWorkload) -> bool {
        let of = |w: &SystemWorkload| {
            (w.profile.clone(), w.host.clone(), w.set.clone(), w.system.name(), w.system.values())
        };
        of(self) == of(other)
    }
}

impl Serialize for SystemWorkload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = Some(Value::Text(self.system.name().to_owned()));
        let profile = self.profile.clone().map(|profile| ("profile", Some(Value::Text(profile))));
        let host = self.host.clone().map(|host| ("host", Some(Value::Text(host))));
        let set = self.set.clone().map(|set| ("set", Some(Value::Settings(set))));
        let told = [("system", name)].into_iter().chain(profile).chain(host).chain(set);
        let own = told.chain(self.system.values());
        serializer.collect_map(own.filter_map(|(key, value)| Some((key, value?))))
    }
}

/// Of each system of the register what is written above.
impl JsonSchema for SystemWorkload {
    fn schema_name() -> Cow<'static, str> {
        "SystemWorkload".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let named = Workload::FIELDS.iter().filter(|f| ["profile", "host", "set"].contains(&f.key));
        let named: Vec<_> = named.map(|field| (field, Presence::OrAbsent)).collect();
        let one = |entry: &Entry| {
            // What has no usual value need not be said.
            let presence = |field: &Field| match entry.usual.get(field.key) {
                Some(_) => Presence::Always,
                None => Presence::OrAbsent,
            };
            let own = entry.fields.iter().map(|field| (*field, presence(field)));
            let mut schema = json_schema::of_object(named.iter().copied().chain(own)).to_value();
            schema["properties"]["system"] = json!({ "const": entry.name, "description": entry.about });
            schema["required"].as_array_mut().expect("objects of fields have it").insert(0, "system".into());
            schema
        };
        schemars::json_schema!({ "oneOf": SYSTEMS.iter().map(one).collect::<Vec<_>>() })
    }
}

/// Reads what is written above.
impl<'de> Deserialize<'de> for SystemWorkload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SystemWorkload, D::Error> {
        let json = serde_json::Value::deserialize(deserializer)?;
        let given = Given::from_json("", &json.to_string(), &asked::fields()).map_err(D::Error::custom)?;
        let read = |key| given.read::<String>(key).map_err(D::Error::custom);
        let (name, profile, host) = (read("system")?.unwrap_or_default(), read("profile")?, read("host")?);
        let entry = SYSTEMS.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| D::Error::custom(format!("`{name}` is no system")))?;
        let set = given.read("set").map_err(D::Error::custom)?;
        Ok(SystemWorkload { profile, host, set, ..entry.with(&given).map_err(D::Error::custom)? })
    }
}

/// A system of the register.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Where several do the same: what that is, and the name of this design of it.
    pub design: Option<(&'static str, &'static str)>,
    /// Its parameters.
    pub fields: Vec<&'static Field>,
    /// What is usual.
    pub usual: Given,
    /// It with parameters.
    of: fn(&Given) -> Result<SystemWorkload, String>,
}

impl Entry {
    /// A system.
    pub fn new<S: System>() -> Entry {
        Entry {
            name: S::NAME,
            about: S::ABOUT,
            design: S::DESIGN,
            fields: S::fields(),
            usual: S::usual().given(),
            of: |given| S::of(given).map(SystemWorkload::from),
        }
    }

    /// It with parameters as given, else as usual.
    ///
    /// # Errors
    /// One sentence where a value is out of its range.
    pub fn with(&self, given: &Given) -> Result<SystemWorkload, String> {
        (self.of)(given)
    }
}

/// All systems, in the order of lists.
pub static SYSTEMS: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    struct Collect(Vec<Entry>);
    impl Visit for Collect {
        fn visit<S: System>(&mut self) {
            self.0.push(Entry::new::<S>());
        }
    }
    let mut all = Collect(Vec::new());
    doorbell_systems::visit_all(&mut all);
    all.0
});

/// Result of a simulated system, in the form of its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemOutcome {
    /// Version of this JSON.
    pub schema: u32,
    /// What was run.
    pub workload: SystemWorkload,
    /// Operations that clients saw done, per second, in millions.
    #[serde(with = "rate")]
    #[schemars(with = "Option<f64>")]
    pub mrps: f64,
    /// Bytes that operations moved, in GB per second; absent where the system moves none that are asked for, or nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gb_per_s: Option<f64>,
    /// Mean number of replies that the server posted at a time; `None` where it posts none.
    pub replies_per_post: Option<f64>,
    /// How sure the rate and the mean latency are.
    pub interval: Certainty,
    /// From when to when was measured.
    pub measured: MeasuredTime,
    /// Where no operation completed: what threads waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// From the start of an operation to its end.
    pub latency_ns: Latency,
    /// Share of GETs, among all operations, whose key had been evicted.
    pub missed: f64,
    /// Share of operations answered without payload.
    pub header_only: f64,
    /// Torn and stale reads, and locks that others held or took over, per operation.
    pub again: f64,
    /// How evenly clients were served that compete; absent where they do not, or nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
    /// Messages dropped for want of a RECV, whole run.
    pub dropped: u64,
    /// What reliable connections had to send again.
    pub sent_again: SentAgain,
    /// What limits the rate.
    pub bottleneck: Bottleneck,
    /// What more of each resource brings; empty unless asked for.
    pub lift: Vec<Lift>,
    /// Resources that limit the rate together; absent where one alone does, or it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<TogetherLift>,
    /// Other parameters with which the rate is higher, best first; absent unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Vec<Advice>>,
    /// Use of each resource.
    pub resources: Vec<Utilization>,
    /// Hits and misses of each cache of the NICs.
    pub caches: Vec<Cache>,
    /// PCIe traffic of each machine.
    pub pcie: Vec<Pcie>,
    /// What the uncore of each machine counted; none where caches have no size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncore: Vec<UncoreUse>,
    /// What threads spent their time on, where the system tells it apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseTime>,
    /// Events of the simulator, whole run.
    pub events: u64,
    /// Hash over all of them in order, 16 hexadecimal digits.
    pub event_hash: String,
    /// Wall-clock seconds of the run.
    pub wall_seconds: f64,
}

/// How evenly clients that compete were served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Served {
    /// Operations of the client that saw fewest done, by those of a client on average.
    pub least: f64,
    /// Operations of the client that saw most done, by those of a client on average.
    pub most: f64,
}

impl Served {
    /// Of operations that each client saw done; `None` where none did.
    fn of(done: impl Iterator<Item = u64> + Clone) -> Option<Served> {
        let (all, clients) = (done.clone().sum::<u64>(), done.clone().count());
        let part = |done: Option<u64>| done.unwrap_or(0) as f64 * clients as f64 / all as f64;
        (all > 0).then(|| Served { least: part(done.clone().min()), most: part(done.max()) })
    }
}

/// Latencies from this on, in nanoseconds, tell more than rates: of shorter operations enough complete to be counted as finely.
const FINE: f64 = 200.0;

impl SystemOutcome {
    /// Its rate in millions per second, as reruns are compared by. One client with one operation at a time does few in
    /// the time that is measured; its latency tells the same, and finer than their number.
    pub(crate) fn rate(&self) -> f64 {
        self.mean_alone().map_or(self.mrps, |ns| 1e3 / ns)
    }

    /// How sure that is: half of its interval.
    pub(crate) fn rate_half(&self) -> Option<f64> {
        match self.mean_alone() {
            Some(ns) => self.interval.latency_ns.map(|half| 1e3 / ns * half / ns),
            None => self.interval.mops,
        }
    }

    /// The mean latency of one client with one operation at a time.
    fn mean_alone(&self) -> Option<f64> {
        let Clients { clients, outstanding, .. } = self.workload.clients();
        let alone = (*clients, *outstanding) == (1, 1);
        self.latency_ns.mean.filter(|mean| alone && *mean >= FINE)
    }
}

/// That some clients of those that compete saw nothing done, if so.
fn starved(done: impl Iterator<Item = u64>) -> Option<String> {
    let (mut clients, mut never) = (0, 0);
    for done in done {
        clients += 1;
        never += u32::from(done == 0);
    }
    (0 < never && never < clients)
        .then(|| format!("{never} of {clients} clients were never served, and the latency is of the others"))
}

/// Runs a system once. Its bottleneck is the resource that was busiest, not confirmed. Also says of which
/// resources more would have changed nothing.
pub(crate) fn run_once(
    profile: &Profile,
    w: &SystemWorkload,
    stop: &Stop,
    watch: &dyn Watch,
) -> Result<(SystemOutcome, Vec<Resource>), SimulateError> {
    let begun = Instant::now();
    let wanted = w.wanted();
    let measurement = wanted.measurement();
    let config =
        SimConfig { seed: w.timing().seed, window: wanted.window(), ..SimConfig::new(w.shape.machines) };
    let mut cluster = SimCluster::new(profile, config);
    let interval = site::Course::Fixed(Interval::shared(wanted.begin, measurement.clone()));
    let (ended, course) =
        simulate::steered(&mut cluster, wanted.clone(), &measurement, stop, watch, |cluster| {
            w.system.run(cluster, interval)
        });
    // Who was stopped before anything was known has threads that did not end.
    if course.stopped {
        return Err(RunError::Interrupted.into());
    }
    let site::Ended { server: servers, clients: all } = ended?.expect("all machines are in this process");
    let mut clients = Measured::default();
    all.iter().for_each(|client| clients.add(client));
    let served = w.shape.competes.then(|| Served::of(all.iter().map(|client| client.done))).flatten();
    let mut everybody = servers.clone();
    everybody.add(&clients);
    let starved = served.and_then(|_| starved(all.iter().map(|client| client.done)));
    drop(all);
    let m = cluster.metrics();
    if let Some(what) = audit::fault_of_devices(&m) {
        return Err(SimulateError::Fault(what));
    }
    let shown = Shown::of(&measurement, &wanted, &course);
    let share = |n: u64| n as f64 / clients.done.max(1) as f64;
    let resources: Vec<Utilization> = m.resources.iter().map(Utilization::from).collect();
    let mrps = clients.done as f64 / shown.span().as_secs_f64() / 1e6;
    let outcome = SystemOutcome {
        schema: SYSTEM_SCHEMA,
        workload: w.clone(),
        mrps,
        gb_per_s: w.moved_bytes().filter(|_| mrps > 0.0).map(|bytes| mrps * bytes as f64 / 1e3),
        interval: Certainty {
            unsettled: shown.certainty.unsettled.clone().or(starved),
            ..shown.certainty.clone()
        },
        measured: shown.measured.clone(),
        waits: shown.waits.clone(),
        replies_per_post: (servers.posts > 0).then(|| servers.replies as f64 / servers.posts as f64),
        latency_ns: shown.latency,
        missed: share(clients.missed),
        header_only: share(clients.header_only),
        again: share(clients.again),
        served,
        dropped: m.dropped,
        sent_again: SentAgain::from(&m.sent_again),
        bottleneck: explain::busiest(&w.of_operations(&resources), shown.waits.is_none(), &|machine| {
            format!("machine {machine}")
        }),
        lift: Vec::new(),
        together: None,
        advice: None,
        resources,
        caches: m.caches.iter().map(Cache::from).collect(),
        pcie: m.pcie.iter().map(Pcie::from).collect(),
        uncore: m.uncore.iter().map(UncoreUse::from).collect(),
        phases: PhaseTime::of(&everybody),
        events: m.events,
        event_hash: hash_text(m.event_hash),
        wall_seconds: begun.elapsed().as_secs_f64(),
    };
    Ok((outcome, m.without_effect))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_by_what_is_even() {
        let of = |done: &[u64]| Served::of(done.iter().copied());
        assert_eq!(of(&[3, 3, 3]), Some(Served { least: 1.0, most: 1.0 }));
        assert_eq!(of(&[0, 2, 4, 2]), Some(Served { least: 0.0, most: 2.0 }));
        assert_eq!((of(&[0, 0]), of(&[])), (None, None));
    }

    #[test]
    fn clients_that_are_never_served_are_told_where_others_are() {
        let of = |done: &[u64]| starved(done.iter().copied());
        assert_eq!(
            of(&[0, 2, 0]).unwrap(),
            "2 of 3 clients were never served, and the latency is of the others"
        );
        assert_eq!((of(&[1, 2]), of(&[0, 0]), of(&[])), (None, None, None));
    }
}
