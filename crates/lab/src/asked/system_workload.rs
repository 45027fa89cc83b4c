//! A system with its parameters, and the profile of its machines.

use super::fields::{fields, of_machines};
use crate::vector_io;
use doorbell_nic::{LinkChange, PcieSlot, Profile, counted};
use doorbell_programs::steady::Wanted;
use doorbell_programs::systems::{self, SYSTEMS, Simulated, SystemEntry, simulated};
use doorbell_programs::worker::Due;
use doorbell_schema::json_schema::{self, Presence};
use doorbell_schema::{Duration, Field, Given, Settings, Value};
use doorbell_sim::SimCluster;
use doorbell_systems::config::{Clients, Timing};
use doorbell_systems::site::{self, SiteError};
use doorbell_systems::{Measured, System, SystemShape};
use doorbell_verbs::{Span, Time};
use doorbell_workload::{Workload, WorkloadError, keys};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;
use std::borrow::Cow;
use std::sync::Arc;

/// A system with its parameters, whichever system it is. Machine 0 is the server.
#[derive(Clone, Debug)]
pub struct SystemWorkload {
    /// Name of a built-in profile or path of a profile's file, if given.
    pub profile: Option<String>,
    /// Host of the NICs, if it is not the profile's own.
    pub host: Option<String>,
    /// Slot of the NICs, if it is not the profile's own.
    pub pcie: Option<PcieSlot>,
    /// Change of the profile's link, if there is one.
    pub link: Option<LinkChange>,
    /// Profile parameters with values that differ from the profile.
    pub set: Option<Settings>,
    system: Arc<dyn Simulated>,
    shape: Arc<SystemShape>,
}

/// Converts a system of the register. A system outside of the register needs its own [`SystemEntry`] instead.
impl<S: System> From<S> for SystemWorkload {
    fn from(system: S) -> SystemWorkload {
        SystemWorkload::of(simulated(&system))
    }
}

impl SystemWorkload {
    /// A system on machines of the usual profile.
    pub fn of(system: Arc<dyn Simulated>) -> SystemWorkload {
        let shape = Arc::new(system.shape());
        SystemWorkload { profile: None, host: None, pcie: None, link: None, set: None, system, shape }
    }

    /// In words, the span that a latency covers, if this is not the time from the start to the end of an
    /// operation.
    pub fn latency_of(&self) -> Option<&'static str> {
        self.shape.latency_of
    }

    /// Number of latencies in an operation that a trace can follow from machine to machine.
    ///
    /// # Errors
    /// A sentence that says why no trace can follow the operations, and names the systems whose operations a
    /// trace can follow if they have their usual parameters.
    pub(crate) fn followed(&self) -> Result<u32, String> {
        self.shape.followed.map_err(|why| {
            let names: Vec<&str> =
                SYSTEMS.iter().filter(|entry| entry.followed).map(|entry| entry.name).collect();
            format!(
                "operations of {} cannot be followed from machine to machine, because {why}: choose verbs, or \
                 usual options of {}",
                self.name(),
                names.join(", ")
            )
        })
    }

    /// Bytes that an operation moves, for a system with a result in bytes per second.
    pub(crate) fn moved_bytes(&self) -> Option<u64> {
        self.shape.moved_bytes
    }

    /// Parameters of the clients.
    pub fn clients(&self) -> &Clients {
        &self.shape.clients
    }

    /// Number of worker threads of the server, if a parameter sets it.
    pub fn workers(&self) -> Option<u32> {
        self.shape.workers
    }

    /// Whether the system uses kernel TCP.
    pub fn is_over_tcp(&self) -> bool {
        self.shape.over_tcp
    }

    /// Shortest time from the end of an operation to the next one of its client.
    pub(crate) fn think(&self) -> Duration {
        Duration::new(self.shape.think)
    }

    /// Operations that are due per second, in an open loop.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.shape.rate
    }

    /// Name of the system.
    pub fn name(&self) -> &'static str {
        self.system.name()
    }

    /// Parameters with their values.
    pub fn values(&self) -> Vec<(&'static str, Option<Value>)> {
        self.system.values()
    }

    /// Value of a parameter; `None` if the system has no parameter of this name.
    pub fn value(&self, key: &str) -> Option<Value> {
        self.system.values().into_iter().find(|(name, _)| *name == key)?.1
    }

    /// Value of a numeric parameter; `None` if the system has no such parameter.
    pub fn get(&self, key: &str) -> Option<u64> {
        match self.value(key) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// Value of a numeric parameter that the system is known to have.
    ///
    /// # Panics
    /// If the system has no such parameter.
    pub fn number(&self, field: &Field) -> u64 {
        let key = field.key;
        self.get(key).unwrap_or_else(|| panic!("{} has no number called {key}", self.system.name()))
    }

    /// Warm-up, duration and precision of the measurement.
    pub fn timing(&self) -> &Timing {
        self.system.timing()
    }

    /// Virtual time before the clients begin.
    pub(crate) fn set_up(&self) -> Span {
        self.shape.begin() - Time::START
    }

    /// This system on the machines that a workload names, with their changes.
    pub(super) fn on(self, machines: Workload) -> SystemWorkload {
        let Workload { profile, host, pcie, link, set, .. } = machines;
        SystemWorkload { profile, host, pcie, link, set, ..self }
    }

    /// Replaces the system, and keeps its machines.
    fn with(&self, system: Arc<dyn Simulated>) -> SystemWorkload {
        let shape = Arc::new(system.shape());
        SystemWorkload { system, shape, ..self.clone() }
    }

    /// Returns the system with other measurement times.
    pub fn timed(&self, timing: Timing) -> SystemWorkload {
        self.with(self.system.timed(timing))
    }

    /// Returns the system with values for the parameters that depend on the profile.
    pub(crate) fn decided(&self, profile: &Profile) -> SystemWorkload {
        self.with(self.system.decided(&|calls| vector_io::best(profile, calls)))
    }

    /// The request for the measurement: its times, as far as they are given, and its precision.
    pub(crate) fn wanted(&self) -> Wanted {
        let Timing { warmup, duration, precision, until, max_time, .. } = self.timing();
        let Clients { clients, outstanding, .. } = self.clients();
        let under_way = u64::from(*clients) * u64::from(*outstanding);
        Wanted {
            begin: self.shape.begin(),
            warmup: warmup.map(Duration::span),
            duration: duration.map(Duration::span),
            precision: *precision,
            until: *until,
            max_time: max_time.span(),
            due: self.rate().map(|rate| Due { class: None, rate, under_way }).into_iter().collect(),
            think: self.shape.think,
            round: self.shape.round,
            held: self.shape.held_back,
            // All operations are acknowledged, because a client counts only operations that were answered.
            unacknowledged: false,
        }
    }

    /// Whether all clients are threads of one machine, and retry at once if another thread holds the object
    /// that they want.
    pub(crate) fn retries_on_one_machine(&self) -> bool {
        self.shape.retries_at_once && self.shape.one_machine
    }

    /// Bytes of the server's memory: the store, and the memory that each server thread has for the clients.
    pub(crate) fn server_bytes(&self) -> u64 {
        let SystemShape { store_bytes, warmed_bytes, workers, .. } = *self.shape;
        store_bytes + warmed_bytes * u64::from(workers.unwrap_or(1))
    }

    /// Bytes of the buffers of all clients.
    pub(crate) fn client_bytes(&self) -> u64 {
        self.shape.client_bytes * u64::from(self.clients().clients)
    }

    /// Refuses parameters that a machine of this profile cannot provide. The number of clients per machine is
    /// not checked, because the papers' machines have more cores than one socket.
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
                "clients is {threads}, all threads of one machine, but a machine of profile {name} has {} \
                 cores",
                profile.all_cores()
            );
            return Err(WorkloadError::Invalid(why));
        }
        let own = (profile.socket_count(), host.cores);
        if let Some((sockets, cores)) = shape.sockets.filter(|asked| *asked != own) {
            let why = format!(
                "machines have {sockets} sockets of {cores} cores by --sockets and --cores-per-socket, but \
                 a machine of profile {name} has {} of {}{}",
                own.0,
                own.1,
                with_sockets()
            );
            return Err(WorkloadError::Invalid(why));
        }
        if shape.over_tcp && profile.tcp.is_none() {
            let why = format!(
                "stack is tcp, but profile {name} has no section [tcp] with the costs of TCP: name a host \
                 that has this section by --host"
            );
            return Err(WorkloadError::Invalid(why));
        }
        if let Some((key, value)) = shape.needs_sizes.as_ref().filter(|_| profile.hierarchy.is_none()) {
            let why = format!(
                "{key} is {value}, but profile {name} has no cache sizes: name a host with cache sizes by \
                 --host{}",
                host_with_sizes(profile)
            );
            return Err(WorkloadError::Invalid(why));
        }
        let (mtu, longest) = (profile.device.link.mtu, shape.datagram);
        if let Some((parameter, bytes)) = longest.filter(|(_, bytes)| *bytes > mtu) {
            let value = self.value(parameter).map_or_else(String::new, |value| value.to_string());
            let why = format!(
                "{parameter} is {value}, which makes UD messages of {bytes} bytes, but a UD message is one \
                 packet of at most {mtu} bytes (the MTU of {name})"
            );
            return Err(WorkloadError::Invalid(why));
        }
        Ok(())
    }

    /// The server thread that takes no part in operations, if there is one.
    pub(crate) fn beside(&self) -> Option<u32> {
        self.shape.beside
    }

    /// Number of machines; machine 0 is the server.
    pub(crate) fn machines(&self) -> u32 {
        self.shape.machines
    }

    /// Whether clients compete for an object. Results then report the fairness.
    pub(crate) fn competes(&self) -> bool {
        self.shape.competes
    }

    /// Runs the system on simulated machines.
    pub(crate) fn run(
        &self,
        cluster: &mut SimCluster,
        course: site::Course,
    ) -> Result<Option<site::SiteEnded<Measured>>, SiteError> {
        self.system.run(cluster, course)
    }
}

impl PartialEq for SystemWorkload {
    fn eq(&self, other: &SystemWorkload) -> bool {
        let machines =
            |w: &SystemWorkload| (w.profile.clone(), w.host.clone(), w.pcie, w.link, w.set.clone());
        let system = |w: &SystemWorkload| (w.system.name(), w.system.values());
        machines(self) == machines(other) && system(self) == system(other)
    }
}

impl Serialize for SystemWorkload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = Some(Value::Text(self.system.name().to_owned()));
        let profile = self.profile.clone().map(|name| (Workload::profile.key, Some(Value::Text(name))));
        let host = self.host.clone().map(|name| (Workload::host.key, Some(Value::Text(name))));
        let changes =
            [(Workload::pcie.key, Value::of(&self.pcie)), (Workload::link.key, Value::of(&self.link))];
        let set = self.set.clone().map(|set| (Workload::set.key, Some(Value::Settings(set))));
        let told = [(keys::SYSTEM, name)].into_iter().chain(profile).chain(host).chain(changes).chain(set);
        let own = told.chain(self.system.values());
        serializer.collect_map(own.filter_map(|(key, value)| Some((key, value?))))
    }
}

/// The schema of the JSON that the `Serialize` impl writes, with one variant per system of the register.
impl JsonSchema for SystemWorkload {
    fn schema_name() -> Cow<'static, str> {
        "SystemWorkload".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let named = [&Workload::profile, &Workload::host, &Workload::pcie, &Workload::link, &Workload::set];
        let named = named.map(|field| (field, Presence::OrAbsent));
        let one = |entry: &SystemEntry| {
            // The JSON may lack a parameter that has no usual value.
            let presence = |field: &Field| match entry.usual.get(field.key) {
                Some(_) => Presence::Always,
                None => Presence::OrAbsent,
            };
            let own = entry.fields.iter().map(|field| (*field, presence(field)));
            let mut schema = json_schema::of_object(named.iter().copied().chain(own)).to_value();
            schema["properties"][keys::SYSTEM] = json!({ "const": entry.name, "description": entry.about });
            schema["required"]
                .as_array_mut()
                .expect("objects of fields have it")
                .insert(0, keys::SYSTEM.into());
            schema
        };
        schemars::json_schema!({ "oneOf": SYSTEMS.iter().map(one).collect::<Vec<_>>() })
    }
}

/// Reads the JSON that the `Serialize` impl writes.
impl<'de> Deserialize<'de> for SystemWorkload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SystemWorkload, D::Error> {
        let json = serde_json::Value::deserialize(deserializer)?;
        let given = Given::from_json("", &json.to_string(), &fields()).map_err(D::Error::custom)?;
        let read = |key| given.read::<String>(key).map_err(D::Error::custom);
        let name = read(keys::SYSTEM)?.unwrap_or_default();
        let entry =
            systems::entry(&name).ok_or_else(|| D::Error::custom(format!("`{name}` is not a system")))?;
        let machines = of_machines(&given).map_err(D::Error::custom)?;
        let system = entry.with(&given).map_err(D::Error::custom)?;
        Ok(SystemWorkload::of(system).on(machines))
    }
}

/// Lists the built-in profiles with several sockets per machine, for a message.
fn with_sockets() -> String {
    let profiles = Profile::names().filter_map(|name| Profile::named(name).ok());
    let several = profiles.filter(|profile| profile.socket_count() > 1);
    several
        .map(|p| format!("; machines of {} have {} of {}", p.name, p.socket_count(), p.host.cores))
        .collect()
}

/// Names a host with cache sizes, for a message.
fn host_with_sizes(profile: &Profile) -> String {
    let has_sizes = |host: &&str| profile.clone().on_host(host).is_ok_and(|moved| moved.hierarchy.is_some());
    Profile::host_names().find(has_sizes).map_or_else(String::new, |host| format!(", such as {host}"))
}
