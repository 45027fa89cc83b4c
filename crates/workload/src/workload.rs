//! Workloads as users describe them.

use crate::error::{WorkloadError, invalid};
use crate::file::{given_of_file, given_of_json};
use crate::older::as_meant;
use crate::{Addresses, Mix, Pattern, Pieces, RemoteAddresses, RemoteMemory, Verb, Window, keys};
use doorbell_nic::{LinkChange, PcieSlot, Profile};
use doorbell_schema::{
    Arrivals, Duration, Field, Flag, Given, Schema, Settings, Share, Until, Value, schema,
};
use doorbell_verbs::QpType;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// Names of the transports.
const TRANSPORTS: &[&str] = &["rc", "uc", "ud"];
/// Description of a host.
const HOST: &str = "Host that holds the NIC: a host's name, such as e7520, or a profile with this host";
/// Description of the slot of a NIC.
const PCIE: &str = "PCIe generation, 1 to 6, and lanes of the NICs' slots, such as gen4x16; generation 6 is in \
     FLIT mode";
/// Description of another link.
const LINK: &str = "Rate of the link after encoding in Gb/s, its fabric (ib or roce), or both, such as 200, \
     roce or 100roce";
/// Description of parameters that are set.
const SET: &str = "Parameters of the profile to override, by their names in `doorbell profiles NAME`, such \
     as tx.send_ns=20";
/// Upper bound of counts that only hardware limits.
const ANY: u64 = u32::MAX as u64;

/// A group of like machines, as a workload describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineGroup {
    /// Name of a built-in profile, or path of a profile's TOML file.
    pub profile: String,
    /// Number of machines.
    #[serde(default = "one")]
    pub count: u32,
    /// The host that holds the NIC, if it is not the profile's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The slot of the NIC, if it is not the profile's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<PcieSlot>,
    /// The change of the profile's link, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkChange>,
    /// Parameters of the profile to override, each in its unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<Settings>,
}

fn one() -> u32 {
    1
}

impl MachineGroup {
    const FIELDS: &'static [Field] = &[
        Field::text()
            .required()
            .named(Workload::profile.key, "Built-in profile or path of a profile's TOML file"),
        Field::count(1, ANY).usual("1").named("count", "Number of machines"),
        Field::text().usual("the profile's own").named(Workload::host.key, HOST),
        Field::text().usual("the profile's own").named(Workload::pcie.key, PCIE),
        Field::text().usual("the profile's own").named(Workload::link.key, LINK),
        Field::settings().usual("none").named(Workload::set.key, SET),
    ];

    /// This group with the names of built-in profiles and hosts as Doorbell writes them.
    pub(crate) fn canonical(&self) -> MachineGroup {
        let host = self.host.as_deref().map(|host| Profile::canonical_host(host).to_owned());
        MachineGroup { profile: Profile::canonical(&self.profile).to_owned(), host, ..self.clone() }
    }
}

/// Number of machines in all groups.
pub(crate) fn sum(groups: &[MachineGroup]) -> u32 {
    groups.iter().fold(0, |sum, group| sum.saturating_add(group.count))
}

schema! {
    /// A workload as a user describes it. [`Workload::resolve`] fills in the usual values of missing fields.
    pub struct Workload;

    /// Built-in profile or path of a profile's TOML file; if machines differ, the first group's.
    profile: String = Field::text().synonyms(&["nic", "card", "hca", "rnic"]).shown("NAME").usual("cib"),
    /// Host that holds the NIC: a host's name, such as e7520, or a profile with this host.
    host: String | absent = Field::text().shown("NAME").usual("the profile's own"),
    /// PCIe generation, 1 to 6, and lanes of the NICs' slots, such as gen4x16; generation 6 is in FLIT mode.
    pcie: PcieSlot | absent = Field::text().shown("SLOT").usual("the profile's own"),
    /// Rate of the link after encoding in Gb/s, its fabric (ib or roce), or both, such as 200, roce or
    /// 100roce.
    link: LinkChange | absent = Field::text().shown("LINK").usual("the profile's own"),
    /// Parameters of the profile to override, by their names in `doorbell profiles NAME`, such as
    /// tx.send_ns=20.
    set: Settings | absent = Field::settings().usual("none"),
    /// If machines differ: groups of like machines in the order of their numbers, instead of profile, host,
    /// pcie, link, set and machines.
    machine: Vec<MachineGroup> | absent = Field::tables(MachineGroup::FIELDS).usual("one group"),
    /// If threads differ: classes of like threads in the order of their numbers, instead of threads; a class
    /// inherits the other options of the workload.
    class: Vec<ThreadClass> | absent = Field::tables(ThreadClass::FIELDS).usual("one class"),
    /// Verb.
    verb: Verb | null = Field::name(Verb::NAMES)
        .also(Verb::ALSO)
        .synonyms(&["op", "operation", "opcode"])
        .usual("send, if no mix is given"),
    /// Operations to draw from, instead of verb: items VERB:WEIGHT or, with a size of their own,
    /// VERB/SIZE:WEIGHT, such as read:95,write:5.
    mix: Mix | absent = Field::text().shown("ITEMS").usual("none"),
    /// Transport.
    transport: QpType = Field::name(TRANSPORTS)
        .synonyms(&["qp_type", "service"])
        .usual("ud for send, uc for write, rc for other verbs; rc for a mix of these"),
    /// Payload in bytes.
    size: u32 | null = Field::bytes(0, ANY)
        .synonyms(&["payload", "message_size", "msg_size", "length", "len", "bs", "block_size"])
        .usual("32, atomics 8"),
    /// Machines, at least 2.
    machines: u32 = Field::count(2, 1024).synonyms(&["nodes", "hosts", "servers"]).shown("M").usual("8"),
    /// Threads of each machine, one per core.
    threads: u32 = Field::count(1, ANY).shown("T").usual("all cores of a socket"),
    /// QPs of each posting thread.
    qps: u32 = Field::count(1, ANY)
        .synonyms(&["queue_pairs", "connections"])
        .shown("Q")
        .usual("one per peer; one on UD"),
    /// Operations outstanding per thread, on all its QPs together.
    window: u32 | null = Field::count(1, ANY)
        .synonyms(&["depth", "queue_depth", "iodepth", "inflight", "tx_depth"])
        .shown("W")
        .usual("16, or 2B of batch, if each operation is signalled and window_per_qp is not given"),
    /// Operations outstanding per QP, instead of per thread.
    window_per_qp: u32 | null = Field::count(1, ANY)
        .shown("W")
        .usual("64, or as many as batch and signal_every need, if not each operation is signalled and \
             window is not given"),
    /// Most READs or atomics that a QP has outstanding.
    max_rd_atomic: u32 | absent = Field::count(1, 255).shown("N").usual("as many as the NICs support"),
    /// Ports of each machine that its threads use; thread t uses port t modulo this number.
    ports: u32 | absent = Field::count(1, ANY).shown("P").usual("as many as each machine has"),
    /// Socket whose cores run the posting threads, from 0; the first NIC is at 0, and if each socket has a
    /// NIC, threads use their own socket's.
    socket: u32 | absent = Field::count(0, 3).shown("S").usual("the first, and the next ones if there are \
         more threads"),
    /// Socket that holds the memory of the posting threads.
    memory_socket: u32 | absent = Field::count(0, 3).shown("S").usual("the socket of each thread's core"),
    /// Socket whose cores run the responding threads.
    peer_socket: u32 | absent = Field::count(0, 3).shown("S").usual("the first, and the next ones if there \
         are more threads"),
    /// Socket that holds the memory of the responding threads.
    peer_memory_socket: u32 | absent = Field::count(0, 3).shown("S").usual("the socket of each thread's core"),
    /// Work requests per doorbell, at most the window.
    batch: u32 = Field::count(1, ANY).synonyms(&["postlist", "post_list"]).shown("B").usual("1"),
    /// Signal one of this many operations of a QP.
    signal_every: u32 = Field::count(1, ANY)
        .synonyms(&["signal", "signaled", "cq_mod"])
        .shown("S")
        .usual("16 for send and write and a mix of these, fewer if the window needs it, else 1; 1 with think and open arrivals"),
    /// Give each QP a CQ of its own instead of one per thread; with a shared window, a thread polls only the
    /// CQ of its oldest operation, one completion at a time.
    cq_per_qp: bool | absent = Field::switch().usual("false"),
    /// Whether payload is copied into the WQE.
    inline: bool = Field::switch().usual("if it fits, unless several sges or local_region are given, or DMA is faster by more than 5%").flags(&[
        Flag::yes("inline", "Copy payload into the WQE"),
        Flag::no("no-inline", "Let the NIC read payload by DMA"),
    ]),
    /// Largest payload of a mix that is copied into the WQE, if any is.
    inline_up_to: u32 | absent = Field::bytes(1, ANY).usual("the most that the NICs inline"),
    /// SGEs of each work request, with its payload spread evenly; not for inline payload.
    sges: u32 | absent = Field::count(1, 256).shown("N").usual("1"),
    /// Layout of the pieces of several SGEs: side by side, or each in cache lines of its own.
    pieces: Pieces | absent = Field::name(Pieces::NAMES).usual("contiguous"),
    /// Byte of a cache line at which each buffer begins: local, remote and RECV buffers.
    offset: u32 | absent = Field::bytes(0, 63).usual("0"),
    /// Begin each buffer at a random byte of a cache line.
    random_offset: bool | absent = Field::switch().usual("false"),
    /// Memory of each posting thread that its operations use, from which the NIC reads or to which it writes.
    local_region: u64 | absent = Field::bytes(1, 4 << 30).usual("a buffer for each operation of the window, \
         up to 1 MiB"),
    /// Memory of each responding thread that WRITEs or READs use.
    remote_region: u64 | absent = Field::bytes(1, 4 << 30).usual("a buffer for each operation of the \
         window, up to 1 MiB"),
    /// Addresses of operations in a region: its buffers one after the other, random buffers, or a random byte
    /// for each operation.
    addresses: Addresses | absent = Field::name(Addresses::NAMES).usual("sequential"),
    /// Addresses of operations at the responder: buffers of remote_region in turn or at random, or one buffer
    /// of the machine for all operations.
    remote_addresses: RemoteAddresses | absent = Field::name(RemoteAddresses::NAMES).usual("as addresses"),
    /// Memory that WRITEs, READs and atomics access: the responder's host memory, or memory on its NIC
    /// (ibv_alloc_dm).
    remote_memory: RemoteMemory | absent = Field::name(RemoteMemory::NAMES).usual("host"),
    /// SEND an immediate and no payload.
    header_only: bool = Field::switch().usual("false"),
    /// Receive payload in the CQE (inline-receive), on NICs that can.
    inline_recv: bool = Field::switch().usual("false"),
    /// Fill the window only once it is empty.
    drain: bool = Field::switch().usual("false"),
    /// When operations are due: as earlier ones end, or at a rate regardless of earlier ones.
    arrivals: Arrivals | absent = Field::name(Arrivals::NAMES).usual("closed"),
    /// Operations due per second, of all clients or posting threads together, if arrivals have a rate.
    rate: u64 | absent = Field::per_second(0, 10_000_000_000).synonyms(&["iops", "throughput"]).usual("none"),
    /// Time from the end of an operation, or a window, until the next begins in its place, such as 2us.
    think: Duration | absent = Field::time().usual("0s"),
    /// Counters of a responder machine, for atomics.
    counters: u32 | null = Field::count(1, ANY).shown("Z").usual("1"),
    /// Bytes from one counter to the next, for atomics.
    counter_stride: u32 | null = Field::bytes(8, ANY).usual("8"),
    /// Memory in pages of 2 MB instead of 4 kB.
    huge_pages: bool = Field::switch()
        .usual("true")
        .flags(&[Flag::no("small-pages", "Memory in pages of 4 kB instead of 2 MB")]),
    /// Posting pattern: machine 0 to all other machines, these to machine 0, or all to all.
    pattern: Pattern = Field::name(Pattern::NAMES).usual("outbound for send and write and a mix of these, else inbound"),
    /// Virtual time before measurement begins, such as 500us.
    warmup: Duration | absent = Field::time().usual("until rate and latency are steady"),
    /// Virtual time to measure, such as 2ms.
    duration: Duration | absent = Field::positive_time()
        .synonyms(&["runtime", "time"])
        .usual("until the intervals are within the precision"),
    /// Half-width of the 95% intervals of rate and mean latency at which a run ends, if no duration is given.
    precision: Share = Field::share(Share::of_millionths(100), Share::of_percent(50)).usual("1%"),
    /// Number that a run must know, besides rate and mean latency, before it ends, if no duration is given: a
    /// percentile of latency, or none.
    until: Until | absent = Field::name(Until::NAMES).usual("p99 if that takes at most twice the time, else \
         mean"),
    /// Virtual time after which a run ends even if it is not settled, if no duration is given; a run that
    /// does not become steady is measured from two thirds of this time on.
    max_time: Duration = Field::positive_time().usual("1s"),
    /// Seed of all random draws.
    seed: u64 = Field::count(0, u64::MAX).usual("1"),
}

/// A class of like threads of each machine, as a workload describes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BTreeMap<String, serde_json::Value>")]
pub struct ThreadClass {
    /// Name of the class; without one it is called by its number, counted from 0.
    pub name: Option<String>,
    /// Threads of each machine.
    pub threads: u32,
    /// Options from [`ThreadClass::FIELDS`] that the class gives itself. It inherits the other options.
    pub says: Workload,
}

impl ThreadClass {
    /// Key of the name of a class.
    pub const NAME: &'static str = "name";

    /// Fields of a class table.
    pub const FIELDS: &'static [Field] = &[
        Field::count(1, ANY).required().named(Workload::threads.key, "Threads of each machine, one per core"),
        Field::text().usual("its number").named(ThreadClass::NAME, "Name"),
        Workload::verb,
        Workload::mix,
        Workload::transport,
        Workload::size,
        Workload::qps,
        Workload::cq_per_qp,
        Workload::window,
        Workload::window_per_qp,
        Workload::max_rd_atomic,
        Workload::batch,
        Workload::signal_every,
        Workload::inline,
        Workload::inline_up_to,
        Workload::sges,
        Workload::pieces,
        Workload::offset,
        Workload::random_offset,
        Workload::local_region,
        Workload::remote_region,
        Workload::addresses,
        Workload::remote_addresses,
        Workload::header_only,
        Workload::inline_recv,
        Workload::drain,
        Workload::arrivals,
        Workload::rate,
        Workload::think,
        Workload::pattern,
    ];

    /// Whether a class can give this field of a workload.
    pub(crate) fn says_field(key: &str) -> bool {
        key != Workload::threads.key && ThreadClass::FIELDS.iter().any(|field| field.key == key)
    }
}

impl TryFrom<BTreeMap<String, serde_json::Value>> for ThreadClass {
    type Error = String;

    fn try_from(table: BTreeMap<String, serde_json::Value>) -> Result<ThreadClass, String> {
        let mut given = Given::default();
        for (key, value) in table {
            let field = ThreadClass::FIELDS.iter().find(|field| field.key == key);
            let field = field.ok_or_else(|| format!("{key} cannot be set for a class"))?;
            Value::of(&value).map_or(Ok(()), |value| given.set(field, value))?;
        }
        let name = given.read(ThreadClass::NAME)?;
        let threads = given.read(Workload::threads.key)?.ok_or("a class needs threads")?;
        [ThreadClass::NAME, Workload::threads.key].iter().for_each(|key| drop(given.remove(key)));
        let mut says = Workload::default();
        says.apply(&given)?;
        Ok(ThreadClass { name, threads, says })
    }
}

impl Serialize for ThreadClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own =
            [(ThreadClass::NAME, Value::of(&self.name)), (Workload::threads.key, Value::of(&self.threads))];
        let all = own.into_iter().chain(self.says.values());
        serializer.collect_map(all.filter_map(|(key, value)| Some((key, value?))))
    }
}

/// Pairs of options that replace each other.
const ALTERNATIVES: [[&str; 2]; 4] = [
    [Workload::window.key, Workload::window_per_qp.key],
    [Workload::verb.key, Workload::mix.key],
    [Workload::rate.key, keys::LOAD],
    [Workload::duration.key, Workload::until.key],
];

/// The option itself, and the option that it replaces.
pub(crate) fn alternatives(key: &str) -> impl Iterator<Item = &str> {
    let pair = ALTERNATIVES.into_iter().find(|pair| pair.contains(&key));
    std::iter::once(key).chain(pair.into_iter().flatten().filter(move |other| *other != key))
}

impl Workload {
    /// The workload of these values.
    ///
    /// # Errors
    /// If a value does not fit the type of its field.
    pub fn of(given: &Given) -> Result<Workload, WorkloadError> {
        let mut workload = Workload::default();
        workload.apply(&as_meant(given.clone(), Workload::FIELDS)).map_err(WorkloadError::Invalid)?;
        Ok(workload.without_sums())
    }

    /// Reads TOML; `file` is for messages.
    ///
    /// # Errors
    /// See [`Given::from_toml`].
    pub fn from_toml(file: &str, text: &str) -> Result<Workload, WorkloadError> {
        Workload::of(&Given::from_toml(file, text, &Workload::fields())?)
    }

    /// Reads JSON: a workload, or Doorbell's output with a workload (statistics of `doorbell run`, results).
    /// `file` is for messages.
    ///
    /// # Errors
    /// If the text is not JSON, has no workload, has an unknown key, or has a value that is not valid for its
    /// field.
    pub fn from_json(file: &str, text: &str) -> Result<Workload, WorkloadError> {
        Workload::of(&given_of_json(file, text, &Workload::fields())?)
    }

    /// Reads a file, TOML or JSON.
    ///
    /// # Errors
    /// See [`Workload::given_of_file`].
    pub fn read(path: &Path) -> Result<Workload, WorkloadError> {
        Workload::of(&Workload::given_of_file(path, &Workload::fields())?)
    }

    /// The values that a TOML or JSON file gives to `fields`, with their meaning of today. The path of a
    /// profile is relative to the file's folder.
    ///
    /// # Errors
    /// If the file cannot be read, and in the cases of [`Workload::from_json`].
    pub fn given_of_file(file: &Path, fields: &[&'static Field]) -> Result<Given, WorkloadError> {
        let mut given = as_meant(given_of_file(file, fields)?, Workload::FIELDS);
        let directory = file.parent().unwrap_or(Path::new(""));
        for field in [Workload::profile, Workload::host, Workload::machine] {
            if let Some(value) = given.get(field.key).map(|value| moved(value, directory)) {
                given.set(&field, value).expect("it remains a name or a path");
            }
        }
        Ok(given)
    }

    /// The values of `flags`, and the values of `file` for fields that `flags` does not give. `window` in
    /// `flags` also replaces `window_per_qp` in `file`, and so do the other pairs of options that exclude
    /// each other: `mix` and `verb`, `load` and `rate`, `until` and `duration`.
    ///
    /// # Errors
    /// See [`Workload::check_over_classes`].
    pub fn flags_over(flags: Given, file: Given) -> Result<Given, WorkloadError> {
        let mut file = file;
        for key in flags.keys() {
            Workload::check_over_classes(&file, key)?;
            alternatives(key).skip(1).for_each(|other| drop(file.remove(other)));
        }
        Ok(flags.over(file))
    }

    /// The values without totals that a resolved workload derives from groups and classes.
    pub fn without_sums_of(given: Given) -> Given {
        let mut rest = given;
        if let Ok(said) = Workload::of(&rest) {
            let follows = [
                (Workload::profile.key, said.machine.is_some() && said.profile.is_none()),
                (Workload::machines.key, said.machine.is_some() && said.machines.is_none()),
                (Workload::threads.key, said.class.is_some() && said.threads.is_none()),
            ];
            follows.iter().filter(|(_, follows)| *follows).for_each(|(key, _)| drop(rest.remove(key)));
        }
        rest
    }

    /// The values, with the parameters `set` for the profile of one group of machines. Groups are counted
    /// from 0.
    ///
    /// # Errors
    /// If there is no such group.
    pub fn with_set_of_group(given: Given, group: usize, set: Settings) -> Result<Given, WorkloadError> {
        let Some(Value::Tables(mut tables)) = given.get(Workload::machine.key).cloned() else {
            return invalid(format!(
                "--set {group}: names a group of machines, but all machines are alike: leave {group}: out"
            ));
        };
        let most = tables.len().max(1) - 1;
        let Some(table) = tables.get_mut(group) else {
            return invalid(format!(
                "--set {group}: names a group of machines, but the groups are 0 to {most}"
            ));
        };
        let set_of = MachineGroup::FIELDS.iter().find(|field| field.key == Workload::set.key);
        let mut above = Given::default();
        above.set(set_of.expect("groups have it"), Value::Settings(set)).map_err(WorkloadError::Invalid)?;
        *table = above.over(std::mem::take(table));
        let mut all = given;
        all.set(&Workload::machine, Value::Tables(tables)).map_err(WorkloadError::Invalid)?;
        Ok(all)
    }

    /// Threads of all classes, if there are classes.
    pub(crate) fn threads_of_classes(&self) -> Option<u32> {
        let classes = self.class.as_ref()?;
        Some(classes.iter().fold(0, |sum, class| sum.saturating_add(class.threads)))
    }

    /// The window that is given.
    ///
    /// # Errors
    /// If both windows are given.
    pub(crate) fn given_window(&self) -> Result<Option<Window>, WorkloadError> {
        match (self.window, self.window_per_qp) {
            (Some(thread), Some(qp)) => invalid(format!(
                "window is {thread} and window_per_qp is {qp}, but only one of them can be given: \
                 operations outstanding per thread or per QP"
            )),
            (Some(operations), None) => Ok(Some(Window::PerThread(operations))),
            (None, Some(operations)) => Ok(Some(Window::PerQp(operations))),
            (None, None) => Ok(None),
        }
    }

    /// Removes totals that a resolved workload derives from groups or classes.
    fn without_sums(self) -> Workload {
        let follows = self.threads.is_some() && self.threads == self.threads_of_classes();
        let threads = self.threads.filter(|_| !follows);
        Workload { threads, ..self }.without_machines()
    }

    fn without_machines(self) -> Workload {
        let Some(groups) = &self.machine else { return self };
        let first = groups.first().map(|group| &group.profile);
        match self.profile.as_ref() == first && self.machines == Some(sum(groups)) {
            true => Workload { profile: None, machines: None, ..self },
            false => self,
        }
    }

    /// Name or path of the workload's profile. With groups, the profile of the first group.
    pub fn profile_name(&self) -> &str {
        let of_group = || self.machine.as_ref()?.first().map(|group| group.profile.as_str());
        Profile::canonical(self.profile.as_deref().or_else(of_group).unwrap_or("cib"))
    }

    /// Checks that groups replace `profile` and `machines`, and that they are valid.
    pub(crate) fn check_groups(&self) -> Result<(), WorkloadError> {
        let Some(groups) = &self.machine else { return Ok(()) };
        if groups.is_empty() {
            return invalid("machine is an empty list, but a run has at least 2 machines".into());
        }
        if let Some(none) = groups.iter().find(|group| group.count == 0) {
            let profile = &none.profile;
            return invalid(format!(
                "count of the machines of profile {profile} is 0, but must be at least 1"
            ));
        }
        if let Some(profile) = &self.profile {
            return invalid(format!(
                "profile is {profile}, but the workload's [[machine]] tables name the profiles"
            ));
        }
        if let Some(host) = &self.host {
            return invalid(format!("host is {host}, but the workload's [[machine]] tables name the hosts"));
        }
        let changes = [
            (Workload::pcie.key, self.pcie.map(|slot| slot.to_string())),
            (Workload::link.key, self.link.map(|link| link.to_string())),
        ];
        if let Some((key, value)) = changes.into_iter().find_map(|(key, value)| Some((key, value?))) {
            return invalid(format!(
                "{key} is {value}, but machines differ: set it in the workload's [[machine]] tables"
            ));
        }
        if let Some((name, number)) = self.set.iter().flatten().next() {
            return invalid(format!(
                "set applies to one profile, but the workload's [[machine]] tables name the profiles: give \
                 the number of a group, from 0, such as --set 0:{name}={number}"
            ));
        }
        if let Some(machines) = self.machines {
            return invalid(format!(
                "machines is {machines}, but the workload's [[machine]] tables set the number of machines"
            ));
        }
        Ok(())
    }
}

/// Rebases a path on this directory, also in tables. A profile's name stays.
fn moved(value: &Value, directory: &Path) -> Value {
    match value {
        Value::Text(name) if Profile::is_path(name) => {
            Value::Text(directory.join(name).to_string_lossy().into_owned())
        }
        Value::Tables(groups) => {
            Value::Tables(groups.iter().map(|group| moved_group(group, directory)).collect())
        }
        other => other.clone(),
    }
}

fn moved_group(group: &Given, directory: &Path) -> Given {
    let mut group = group.clone();
    let paths = [Workload::profile.key, Workload::host.key];
    for field in MachineGroup::FIELDS.iter().filter(|field| paths.contains(&field.key)) {
        if let Some(value) = group.get(field.key).map(|value| moved(value, directory)) {
            group.set(field, value).expect("it remains a name or a path");
        }
    }
    group
}

/// The machines of each group. Without groups there is one range of all machines.
pub(crate) fn ranges(groups: Option<&[MachineGroup]>, machines: u32) -> Vec<Range<u32>> {
    let mut end = 0u32;
    let mut next = |count: u32| {
        let start = end;
        end = end.saturating_add(count);
        start..end
    };
    match groups {
        Some(groups) => groups.iter().map(|group| next(group.count)).collect(),
        None => std::iter::once(next(machines)).collect(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Profiles, Resolved, Window};

    pub(crate) fn resolved(verb: &str) -> Resolved {
        from(&format!("verb = \"{verb}\"")).unwrap()
    }

    fn from(toml: &str) -> Result<Resolved, WorkloadError> {
        let workload = Workload::from_toml("w.toml", toml)?;
        workload.resolve(&workload.load_profiles()?)
    }

    #[test]
    fn usual_values() {
        for (verb, transport, size, pattern, signal_every, inline, qps) in [
            ("send", QpType::Ud, 32, Pattern::Outbound, 16, true, 1),
            ("write", QpType::Uc, 32, Pattern::Outbound, 16, false, 7),
            ("read", QpType::Rc, 32, Pattern::Inbound, 1, false, 1),
            ("fetch-add", QpType::Rc, 8, Pattern::Inbound, 1, false, 1),
            ("compare-swap", QpType::Rc, 8, Pattern::Inbound, 1, false, 1),
        ] {
            let r = resolved(verb);
            let got = (r.transport, r.longest(), r.pattern, r.signal_every, r.inlines(), r.qps);
            assert_eq!(got, (transport, size, pattern, signal_every, inline, qps), "{verb}");
            assert_eq!(r.profile, "cib");
            assert_eq!(r.threads, 14);
        }
        assert!(!from("size = 4000").unwrap().inlines(), "too long to inline");
        assert_eq!(from("header_only = true").unwrap().longest(), 0);
    }

    #[test]
    fn what_is_not_given_adapts_to_what_is() {
        let (thread, qp) = (Window::PerThread, Window::PerQp);
        for (toml, window, signal_every) in [
            ("verb = \"read\"", thread(16), 1),
            ("verb = \"read\"\nwindow = 3", thread(3), 1),
            ("verb = \"read\"\nwindow_per_qp = 3", qp(3), 1),
            ("", qp(64), 16),
            ("verb = \"write\"", qp(64), 16),
            ("signal_every = 64", qp(128), 64),
            ("signal_every = 1\nbatch = 32", thread(64), 1),
            ("window = 1", thread(1), 1),
            ("verb = \"write\"\nwindow = 1", thread(1), 1),
            ("window = 16", thread(16), 8),
            ("window = 64", thread(64), 16),
            ("window_per_qp = 1", qp(1), 1),
            ("verb = \"write\"\nwindow_per_qp = 16", qp(16), 8),
            // Seven QPs share the window.
            ("verb = \"write\"\nwindow = 64", thread(64), 4),
            ("verb = \"write\"\nwindow = 64\nbatch = 60", thread(64), 1),
            ("window = 16\nbatch = 14", thread(16), 3),
            ("window = 16\nsignal_every = 16", thread(16), 16),
            ("verb = \"write\"\nwindow = 106\nsignal_every = 16", thread(106), 16),
            ("verb = \"write\"\nwindow_per_qp = 16\nsignal_every = 16", qp(16), 16),
        ] {
            let r = from(toml).expect(toml);
            assert_eq!((r.window(), r.signal_every), (window, signal_every), "{toml}");
        }
    }

    #[test]
    fn older_files_are_read_as_they_were_meant() {
        let qp = |operations| (None, Some(operations));
        for (fields, window, signal_every) in [
            (r#""verb": "write", "window": 64, "signal_every": 16"#, qp(64), Some(16)),
            (r#""verb": "write", "window": 1"#, qp(32), Some(16)),
            (r#""window": 16, "signal_every": 4, "batch": 16"#, qp(20), Some(4)),
            (r#""verb": "read", "window": 3"#, (Some(3), None), None),
            (r#""window": 16, "drain": true"#, (Some(16), None), None),
            (r#""window": 16, "signal_every": 1"#, (Some(16), None), Some(1)),
        ] {
            let read = |schema| {
                let json = format!("{{\"schema\": {schema}, \"workload\": {{{fields}}}}}");
                Workload::from_json("w.json", &json).unwrap()
            };
            let old = read(1);
            assert_eq!((old.window, old.window_per_qp), window, "{fields}");
            assert_eq!(old.signal_every, signal_every, "{fields}");
            assert_eq!(read(2).window_per_qp, None, "{fields}");
        }
        let toml = |schema| Workload::from_toml("w.toml", &format!("{schema}\nwindow = 64")).unwrap();
        assert_eq!(toml("schema = 1").window_per_qp, Some(64));
        assert_eq!((toml("schema = 2").window, toml("").window), (Some(64), Some(64)));
        let error = Workload::from_toml("w.toml", "schema = 3").unwrap_err().to_string();
        assert_eq!(error, "w.toml:1: schema is 3, but must be at most 2");
    }

    #[test]
    fn a_flag_takes_the_place_of_its_alternative_in_the_file() {
        let given = |toml| Given::from_toml("w.toml", toml, &Workload::fields()).unwrap();
        let over =
            |flags, file| Workload::of(&Workload::flags_over(given(flags), given(file)).unwrap()).unwrap();
        let both = over("window = 3", "window_per_qp = 64\nsize = 8");
        assert_eq!((both.window, both.window_per_qp, both.size), (Some(3), None, Some(8)));
        let mix = over("mix = \"read:1\"", "verb = \"send\"\nsize = 8");
        assert_eq!((mix.verb, mix.mix.map(String::from), mix.size), (None, Some("read:1".into()), Some(8)));
        let verb = over("verb = \"send\"", "mix = \"read:1\"");
        assert_eq!((verb.verb, verb.mix), (Some(Verb::Send), None));
        let both = over("size = 9", "window_per_qp = 64\nsize = 8");
        assert_eq!((both.window, both.window_per_qp, both.size), (None, Some(64), Some(9)));
    }

    /// Resolves on a `cx3` with these parameters, for example 64 cores, or smaller limits of a queue or a CQ.
    fn unusual(workload: &str, section: &str, parameters: &[(&str, u32)]) -> Result<Resolved, WorkloadError> {
        let assumed = |(key, value): &(&str, u32)| {
            format!(
                "{key} = {{ value = {value}, basis = \"assumed\", reason = \"r\", alternative = \"a\" }}\n"
            )
        };
        let parameters: String = parameters.iter().map(assumed).collect();
        let text = format!("name = \"odd\"\ntitle = \"\"\nbase = \"cx3\"\n[{section}]\n{parameters}");
        let profile = Profile::parse("odd.toml", &text).unwrap();
        Workload::from_toml("w.toml", workload)?.resolve(&Profiles::from(profile))
    }

    #[test]
    fn threads_are_no_more_than_there_are_stacks_for() {
        let cores = [("cores", 64)];
        let error = unusual("machines = 513", "host", &cores).unwrap_err().to_string();
        assert!(error.starts_with("513 machines of 64 threads are 32832 threads, but"), "{error}");
        unusual("machines = 513\nthreads = 58", "host", &cores).unwrap();
    }

    #[test]
    fn what_is_usual_fits_the_device() {
        for room in [1, 2, 3, 8, 16, 31, 200] {
            for max_cqe in [1, 2, 7, 100, 5000] {
                let limits = [("max_qp_wr", room), ("max_cqe", max_cqe)];
                for verb in ["send", "read", "fetch-add"] {
                    let text = format!("verb = \"{verb}\"\nmachines = 2");
                    unusual(&text, "nic", &limits).unwrap_or_else(|e| panic!("{verb} {limits:?}: {e}"));
                }
            }
        }
    }

    #[test]
    fn completions_have_room_in_their_cq() {
        let cq = |entries| [("max_cqe", entries)];
        let refused =
            |workload: &str, entries| unusual(workload, "nic", &cq(entries)).expect_err(workload).to_string();
        for (workload, least) in [
            ("verb = \"read\"\nwindow = 101", 101),
            ("verb = \"write\"\nwindow_per_qp = 160\nsignal_every = 16\nqps = 20", 200),
            ("verb = \"send\"\ntransport = \"rc\"\npattern = \"inbound\"\nmachines = 20\nqps = 5", 95),
        ] {
            unusual(workload, "nic", &cq(least)).unwrap();
            let error = refused(workload, least - 1);
            assert!(error.starts_with("a CQ of odd holds at most "), "{workload}: {error}");
        }
    }

    #[test]
    fn refusals_are_one_sentence() {
        for (toml, part) in [
            ("profile = \"cx9\"", "no profile cx9"),
            ("verb = \"read\"\ntransport = \"ud\"", "UD does not offer READ, use RC"),
            ("verb = \"read\"\ntransport = \"uc\"", "UC does not offer READ, use RC"),
            ("verb = \"write\"\ntransport = \"ud\"", "UD does not offer WRITE, use RC or UC"),
            ("verb = \"fetch-add\"\ntransport = \"uc\"", "UC does not offer fetch-and-add"),
            ("inline = true\nsize = 4096", "inlines at most"),
            ("inline = true\nverb = \"read\"", "no payload that could be inlined"),
            ("header_only = true\nsize = 8", "header-only messages have no payload"),
            ("header_only = true\nverb = \"write\"", "header-only is for SEND"),
            ("size = 5000", "one packet"),
            ("verb = \"write\"\nsize = 4000000000", "4 GiB"),
            ("verb = \"fetch-add\"\nsize = 16", "works on 8 bytes"),
            ("inline_recv = true\nverb = \"write\"", "inline-receive is for SEND"),
            ("inline_recv = true", "cib does not receive 32 bytes inline on UD"),
            ("profile = \"cx3\"\ninline_recv = true\nsize = 65", "does not receive 65 bytes inline"),
            ("drain = true\nsignal_every = 2", "batch and signal_every must be 1"),
            ("counters = 4", "counters are for"),
            ("sges = 2\nheader_only = true", "sges applies to payload, but size is 0"),
            ("verb = \"fetch-add\"\noffset = 8", "offset does not apply to fetch-and-add, which works on 8"),
            ("sges = 2\ninline = true", "sges is 2, but inline payload is in the WQE"),
            ("sges = 33\nsize = 64", "sges is 33, but a work request of profile cib has at most"),
            ("sges = 5\nsize = 4", "sges is 5, but each takes at least one byte, and size is 4"),
            ("pieces = \"apart\"", "pieces sets the layout of several SGEs, but sges is 1"),
            ("offset = 64", "offset is 64, but must be at most 63"),
            ("offset = 3\nrandom_offset = true", "offset is 3, but random_offset draws an offset for each"),
            (
                "transport = \"rc\"\nprofile = \"cx3\"\ninline_recv = true\noffset = 3",
                "offset does not apply to payload that is inline at both ends",
            ),
            ("addresses = \"random\"", "neither local_region nor remote_region is given"),
            (
                "verb = \"read\"\nremote_region = 4096\naddresses = \"any-byte\"\noffset = 1",
                "addresses is any-byte, which already sets where payload begins: leave offset out",
            ),
            (
                "verb = \"read\"\nsize = 100\nremote_region = 99\naddresses = \"any-byte\"",
                "remote_region is 99, but one buffer takes 100 bytes",
            ),
            ("inline = true\nlocal_region = 4096", "local_region holds payload that the NIC reads"),
            ("verb = \"send\"\nremote_region = 4096", "remote_region is for WRITE and READ, not for SEND"),
            (
                "verb = \"read\"\nsize = 100\nremote_region = 127",
                "remote_region is 127, but one buffer takes 128 bytes",
            ),
            (
                "verb = \"read\"\nlocal_region = 100000000",
                "the regions of all threads, 14 on each of 8 machines, take 9.1 GiB together, but must be at most 4 GiB: use smaller ones, or fewer threads or machines",
            ),
            ("ports = 3", "ports is 3, but a machine of profile cib has 2 ports"),
            ("ports = 2\nthreads = 1", "ports is 2, but each thread uses one, and threads is 1"),
            ("verb = \"write\"\nmax_rd_atomic = 4", "max_rd_atomic is for READ, fetch-and-add and"),
            (
                "verb = \"read\"\nmax_rd_atomic = 200",
                "max_rd_atomic is 200, but a QP of profile cib has at most",
            ),
            ("verb = \"fetch-add\"\ncounters = 0", "counters is 0"),
            ("verb = \"fetch-add\"\ncounter_stride = 12", "multiple of 8"),
            ("verb = \"fetch-add\"\ncounters = 4000000000", "1 GiB"),
            ("machines = 0", "machines is 0"),
            ("machines = 1", "at least 2"),
            ("machines = 2000", "at most 1024"),
            (
                "verb = \"fetch-add\"\npattern = \"all-to-all\"\ncounters = 100000000",
                "100000000 counters 8 bytes apart on each of 8 machines take more than 4 GiB",
            ),
            (
                "verb = \"read\"\npattern = \"all-to-all\"\nmachines = 1024\nqps = 2",
                "the run would have 14680064 QPs, more than",
            ),
            (
                "pattern = \"all-to-all\"\nmachines = 1024\nqps = 2",
                "the UD QPs of the run would have 29331456 destinations together, more than",
            ),
            ("batch = 17000", "batch is 17000, but a queue of cib holds at most 16351"),
            ("signal_every = 16000", "signal_every 16000 needs a window of 32000, but a queue of cib"),
            (
                "signal_every = 9000\nbatch = 9000",
                "signal_every 9000 with batch 9000 needs a window of 18000, but a queue of cib",
            ),
            ("threads = 0", "threads is 0"),
            ("threads = 15", "threads is 15"),
            ("qps = 0", "qps is 0"),
            ("qps = 4000000000", "QPs, more than"),
            ("verb = \"read\"\npattern = \"all-to-all\"\nqps = 1", "at least 2"),
            ("window = 0", "window is 0"),
            ("window = 4000000000", "a queue of cib holds at most"),
            ("batch = 0", "batch is 0"),
            ("batch = 32\nwindow = 16", "batch is 32, but the window is 16"),
            ("window = 8\nwindow_per_qp = 8", "only one of them can be given"),
            ("window_per_qp = 4000000000", "window_per_qp is 4000000000, but a queue of cib"),
            ("batch = 32\nwindow_per_qp = 16", "batch is 32, but the window_per_qp is 16"),
            (
                "window = 15\nsignal_every = 16",
                "window is 15, but signal_every 16 with batch 1 needs at least 16",
            ),
            (
                "verb = \"write\"\nwindow = 105\nsignal_every = 16",
                "window is 105, but signal_every 16 over 7 QPs with batch 1 needs at least 106",
            ),
            (
                "window_per_qp = 16\nsignal_every = 16\nbatch = 3",
                "window_per_qp is 16, but signal_every 16 with batch 3 needs at least 18",
            ),
            ("drain = true\nwindow_per_qp = 16", "drain applies to the window of a thread"),
            ("signal_every = 0", "signal_every is 0"),
            ("signal_every = 4000000000", "signal_every is 4000000000"),
            ("duration = \"0ms\"", "duration is 0s"),
            ("warmup = \"1000001ms\"", "w.toml:1: warmup is 1000001ms, but must be at most 1000s"),
            ("duration = \"2 parsecs\"", "w.toml:1: duration: `2 parsecs` is not a duration"),
            ("verb = \"send\"\n\nthreadz = 3", "w.toml:3: unknown field `threadz`"),
            (
                "verb = \"sned\"",
                "w.toml:1: verb is `sned`, but must be send, write, read, fetch-add or compare-swap",
            ),
            ("verb = ", "w.toml:1: "),
            ("size = -1", "w.toml:1: size is -1, but must be at least 0"),
            ("size = 1e9", "w.toml:1: size is 1000000000.0, but must be a whole number"),
            ("size = 99999999999999999999", "size is 99999999999999999999, but must be at most 4294967295"),
            ("size = -99999999999999999999", "size is -99999999999999999999, but must be at least 0"),
            ("verb = 99999999999999999999", "verb is 99999999999999999999, but must be a text"),
            ("no_inline = true", "unknown field `no_inline`; did you mean `inline = false`?"),
            ("small_pages = true", "unknown field `small_pages`; did you mean `huge_pages = false`?"),
            ("size = [1]", "w.toml:1: size is a list, but must be a whole number"),
            ("verb = -1", "w.toml:1: verb is -1, but must be a text"),
            ("duration = 1.5", "w.toml:1: duration is 1.5, but must be a time, such as \"500us\""),
            ("drain = {}", "w.toml:1: drain is a table, but must be true or false"),
            ("machine = []", "machine is an empty list"),
            ("[[machine]]\ncount = 2", "w.toml:1: missing field `profile`"),
            ("[[machine]]\nprofile = \"cx9\"\ncount = 2", "no profile cx9"),
            ("[[machine]]\nprofile = \"cib\"\ncounts = 2", "w.toml:3: unknown field `counts`"),
            ("[[machine]]\nprofile = \"cib\"\ncount = -2", "w.toml:3: "),
            (
                "[[machine]]\nprofile = \"cib\"\ncount = 0\n[[machine]]\nprofile = \"cx\"\ncount = 9",
                "w.toml:3: count is 0, but must be at least 1",
            ),
            ("[[machine]]\nprofile = \"cib\"", "machines is 1, but must be at least 2"),
            (
                "[[machine]]\nprofile = \"cib\"\ncount = 4294967295\n[[machine]]\nprofile = \"cx\"\ncount = 9",
                "machines is 4294967295, but must be at most 1024",
            ),
            (
                "profile = \"cib\"\n[[machine]]\nprofile = \"cib\"\ncount = 2",
                "profile is cib, but the workload's [[machine]]",
            ),
            (
                "machines = 2\n[[machine]]\nprofile = \"cib\"\ncount = 2",
                "machines is 2, but the workload's [[machine]]",
            ),
            (
                "profile = \"cx\"\nmachines = 2\n[[machine]]\nprofile = \"cib\"\ncount = 2",
                "profile is cx, but the workload's [[machine]]",
            ),
            ("machine = 3", "w.toml:1: machine is 3, but must be a list of tables"),
        ] {
            let error = from(toml).expect_err(toml).to_string();
            assert!(error.contains(part), "{toml}: {error}");
            assert!(!error.contains('\n'), "{toml}: {error}");
        }
    }

    /// Groups in which one `cib` posts to three `cx`. A cx has four cores.
    const MIXED: &str = "[[machine]]\nprofile = \"cib\"\n[[machine]]\nprofile = \"cx\"\ncount = 3\n";

    #[test]
    fn groups_take_the_place_of_profile_and_machines() {
        let r = from(MIXED).unwrap();
        assert_eq!((r.profile.as_str(), r.machines, r.threads), ("cib", 4, 4));
        assert_eq!(r.groups(), [0..1, 1..4]);
        assert_eq!(r.group_names(), ["machine 0 (cib)", "machines 1 to 3 (cx)"]);
        assert_eq!(r.machine_name(2), "machine 2 (cx)");
        assert_eq!(resolved("send").machine_name(2), "machine 2");
        let like = serde_json::to_value(resolved("send")).unwrap();
        assert!(like.get("machine").is_none(), "{like}");
    }

    #[test]
    fn a_nic_is_in_the_host_that_is_named() {
        let load = |toml: &str| Workload::from_toml("w.toml", toml).unwrap().load_profiles();
        let cores = |toml: &str| load(toml).unwrap().all().map(|p| p.host.cores).collect::<Vec<_>>();
        assert_eq!(cores("profile = \"cx3\"\nhost = \"e7520\""), [4]);
        let mixed = format!("{MIXED}host = \"e5-2450\"\n");
        assert_eq!(cores(&mixed), [14, 8]);
        let r = from(&mixed).unwrap();
        assert_eq!(r.group_names(), ["machine 0 (cib)", "machines 1 to 3 (cx on e5-2450)"]);
        let like = from("host = \"e7520\"").unwrap();
        assert_eq!((like.host.as_deref(), like.threads), (Some("e7520"), 4));
        for (toml, part) in [
            ("host = \"e7\"".to_owned(), "there is no host e7; there are e5-2683-v3, "),
            (format!("host = \"e7520\"\n{MIXED}"), "host is e7520, but the workload's [[machine]] tables"),
            ("host = \"no.toml\"".to_owned(), "cannot read profile no.toml"),
            ("host = 7".to_owned(), "w.toml:1: host is 7, but must be a text"),
        ] {
            let error = from(&toml).expect_err(&toml).to_string();
            assert!(error.contains(part), "{toml}: {error}");
        }
    }

    #[test]
    fn the_message_names_the_profile_that_forbids() {
        for (toml, part) in [
            ("threads = 5", "threads is 5, but a machine of profile cx has 4 cores"),
            ("verb = \"send\"\nsize = 2049", "at most 2048 bytes (the MTU of cx)"),
            // Responders do not inline payload, and posters do not receive payload.
            ("pattern = \"inbound\"\nsize = 401\ninline = true", "cx inlines at most 400 bytes"),
            ("pattern = \"all-to-all\"\nsize = 401\ninline = true", "cx inlines at most 400 bytes"),
            ("transport = \"rc\"\ninline_recv = true", "cx does not receive 32 bytes inline on RC"),
        ] {
            let error = from(&format!("{toml}\n{MIXED}")).expect_err(toml).to_string();
            assert!(error.contains(part), "{toml}: {error}");
        }
        for toml in
            ["size = 401\ninline = true", "pattern = \"inbound\"\ntransport = \"rc\"\ninline_recv = true"]
        {
            from(&format!("{toml}\n{MIXED}")).expect(toml);
        }
    }

    #[test]
    fn slots_and_links_are_parameters_that_are_set() {
        let loaded = |toml: &str| {
            let workload = Workload::from_toml("w.toml", toml)?;
            Ok::<_, WorkloadError>((workload.load_profiles()?, workload))
        };
        let set = |profile: &Profile| -> Vec<String> {
            profile.set().map(|p| format!("{}={}", p.name, p.value)).collect()
        };
        for (toml, wanted) in [
            ("pcie = \"gen4x16\"", "pcie.lanes=16 pcie.lane_mb_per_s=1969.2"),
            ("pcie = \"GEN5x4\"", "pcie.lanes=4 pcie.lane_mb_per_s=3938.5"),
            ("link = \"200\"", "link.port_rate_gbps=200"),
            ("link = \"200ib\"", "link.port_rate_gbps=200"),
            ("link = \"100RoCE\"", "link.port_rate_gbps=100 link.packet_overhead_bytes=20 link.roce=1"),
            // Parameters that are set by their names come last.
            ("link = \"100\"\nset = { link.port_rate_gbps = 99 }", "link.port_rate_gbps=99"),
            ("profile = \"e7520-t4\"\nlink = \"40\"", "link.port_rate_gbps=40"),
            ("host = \"e7520\"\npcie = \"gen1x1\"", "pcie.lanes=1 pcie.lane_mb_per_s=250"),
        ] {
            let (profiles, workload) = loaded(toml).expect(toml);
            assert_eq!(set(profiles.first()).join(" "), wanted, "{toml}");
            let json = serde_json::to_string(&workload.resolve(&profiles).expect(toml)).unwrap();
            let again = Workload::from_json("w", &json).unwrap();
            assert_eq!(again.load_profiles().unwrap(), profiles, "{json}");
        }
        let of_group = "[[machine]]\nprofile = \"cib\"\n[[machine]]\nprofile = \"cx3\"\nlink = \"10\"\npcie = \"gen4x4\"";
        let (profiles, _) = loaded(of_group).unwrap();
        let each: Vec<usize> = profiles.all().map(|profile| set(profile).len()).collect();
        assert_eq!(each, [0, 3]);
        let roce = of_group.replace("\"10\"", "\"roce\"");
        for (toml, part) in [
            ("pcie = \"gen7x16\"", "pcie is `gen7x16`, but must be a generation from 1 to 6 and"),
            ("link = \"fast\"", "link is `fast`, but must be Gb/s after encoding"),
            ("link = \"0\"", "set: link.port_rate_gbps is 0, not within 0.1 to 3200"),
            ("link = 100", "link is 100, but must be a text"),
            ("profile = \"e7520-t4\"\nlink = \"10roce\"", "link is 10roce, but profile e7520-t4 is an iWARP"),
            (&format!("link = \"10\"\n{of_group}"), "link is 10, but machines differ: set it in"),
            (&format!("pcie = \"gen3x8\"\n{of_group}"), "pcie is gen3x8, but machines differ"),
            (&roce, "a machine of profile cib has InfiniBand, but a machine of profile cx3 has RoCE"),
        ] {
            let error = from(toml).expect_err(toml).to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{toml}: {error}");
        }
    }

    #[test]
    fn parameters_are_set_of_the_profile_that_is_meant() {
        let send = |w: &Workload| {
            w.load_profiles().unwrap().all().map(|p| p.device.tx.send.as_ps() / 1000).collect::<Vec<_>>()
        };
        let like = Workload::from_toml("w.toml", "[set]\ntx.send_ns = 20").unwrap();
        assert_eq!(send(&like), [20]);
        let resolved = like.resolve(&like.load_profiles().unwrap()).unwrap();
        let json = serde_json::to_value(&resolved).unwrap();
        assert_eq!(json["set"].to_string(), r#"{"tx.send_ns":20}"#);
        assert_eq!(send(&Workload::from_json("w", &json.to_string()).unwrap()), [20]);

        let file = Given::from_toml("w.toml", MIXED, &Workload::fields()).unwrap();
        let setting: Settings = [("tx.send_ns".to_owned(), "20".parse().unwrap())].into();
        let of_group = |n| Workload::with_set_of_group(file.clone(), n, setting.clone());
        let usual = |name| Profile::named(name).unwrap().device.tx.send.as_ps() / 1000;
        assert_eq!(send(&Workload::of(&of_group(0).unwrap()).unwrap()), [20, usual("cx")]);
        let second = Workload::of(&of_group(1).unwrap()).unwrap();
        assert_eq!(send(&second), [usual("cib"), 20]);
        let json = serde_json::to_value(second.resolve(&second.load_profiles().unwrap()).unwrap()).unwrap();
        assert_eq!(json["machine"][1]["set"].to_string(), r#"{"tx.send_ns":20}"#);
        assert_eq!(send(&Workload::from_json("w", &json.to_string()).unwrap()), [usual("cib"), 20]);

        let whole = format!("set = {{ tx.send_ns = 20 }}\n{MIXED}");
        let none = Workload::with_set_of_group(Given::default(), 1, setting.clone());
        for (error, part) in [
            (from(&whole).unwrap_err(), "give the number of a group, from 0, such as --set 0:tx.send_ns=20"),
            (of_group(2).unwrap_err(), "--set 2: names a group of machines, but the groups are 0 to 1"),
            (none.unwrap_err(), "--set 1: names a group of machines, but all machines are alike"),
            (from("[set]\ntx.units = 0").unwrap_err(), "set: tx.units is 0, not within 1 to 256"),
        ] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn a_flag_over_groups_is_refused() {
        let file = || Workload::from_toml("w.toml", MIXED).unwrap();
        for (flags, part) in [
            (Workload { profile: Some("cib".into()), ..Workload::default() }, "profile is cib, but"),
            (Workload { machines: Some(4), ..Workload::default() }, "machines is 4, but"),
        ] {
            let error = flags.over(file()).load_profiles().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("[[machine]]"), "{error}");
        }
    }

    #[test]
    fn json_says_the_same() {
        let json = r#"{"verb": "write", "size": 28, "pattern": "all-to-all", "warmup": "5us"}"#;
        let toml = "verb = \"write\"\nsize = 28\npattern = \"all-to-all\"\nwarmup = \"5us\"";
        assert_eq!(Workload::from_json("w", json), Workload::from_toml("w", toml));
        for (json, part) in [
            ("{\n\n\"threadz\": 3}", "w.json:3: unknown field `threadz`"),
            ("{\"verb\": \"send\"", "w.json:1: this is not JSON: it ends too early"),
            ("", "w.json:1: this is not JSON: it ends too early"),
        ] {
            let error = Workload::from_json("w.json", json).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains(" line "), "{json}: {error}");
        }
    }

    #[test]
    fn what_doorbell_writes_is_a_workload() {
        let written = r#"{"schema": 1, "total": {"size": 9}, "workload": {"verb": "read", "size": 8}}"#;
        let workload = Workload::from_json("w.json", written).unwrap();
        assert_eq!((workload.verb, workload.size), (Some(Verb::Read), Some(8)));
        for (json, message) in [
            // A plain workload has no such keys.
            (r#"{"size": 8, "workload": {}}"#, "w.json:1: unknown field `workload`"),
            (r#"{"verb": "read", "total": 1}"#, "w.json:1: unknown field `total`"),
            ("{\"schema\": 1,\n\"workload\": {\"threadz\": 1}}", "w.json:2: unknown field `threadz`"),
            (r#"{"schema": 1, "workload": null}"#, "w.json contains no workload: its process posted no"),
            (r#"{"schema": 1}"#, "w.json contains no workload"),
            (r#"{"schema": 1, "size": 8}"#, "w.json contains no workload"),
            (r#"[{"schema": 1}]"#, "w.json is not a workload: it is a list, but"),
            ("{\n\"schema\": 3,\n\"workload\": {}}", "w.json:2: schema is 3, but this program reads"),
            (
                "{\"schema\": 1, \"workload\": {\"size\": 8},\n\"workload\": {}}",
                "w.json:2: duplicate field `workload`",
            ),
            (r#"{"schema": "1", "workload": {}}"#, "w.json:1: schema is \"1\", but"),
            (r#"{"schema": 1} {"schema": 1}"#, "w.json:1: this is not JSON: trailing characters"),
        ] {
            let error = Workload::from_json("w.json", json).unwrap_err().to_string();
            assert!(error.starts_with(message) && !error.contains('\n'), "{json}: {error}");
        }
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = Workload { size: Some(8), threads: Some(2), ..Workload::default() };
        let flags = Workload { size: Some(16), ..Workload::default() };
        let both = flags.over(file);
        assert_eq!((both.size, both.threads), (Some(16), Some(2)));
    }

    #[test]
    fn resolved_is_a_workload_again() {
        let like = Verb::ALL.map(|(verb, _)| resolved(verb));
        let unlike = Verb::ALL.map(|(verb, _)| from(&format!("verb = \"{verb}\"\n{MIXED}")).unwrap());
        for r in like.into_iter().chain(unlike) {
            let json = serde_json::to_value(&r).unwrap();
            let again = Workload::from_json("w", &json.to_string()).unwrap();
            assert_eq!(again.resolve(&again.load_profiles().unwrap()).unwrap(), r);
        }
    }
}
