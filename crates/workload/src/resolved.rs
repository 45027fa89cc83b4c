//! A workload with everything filled in and checked.

use crate::workload::{MachineGroup, Workload, ranges};
use crate::{Addresses, Item, Mix, Pattern, Pieces, RemoteAddresses, RemoteMemory, Verb, Window};
use doorbell_nic::{LinkChange, PcieSlot};
use doorbell_schema::{Arrivals, Duration, Settings, Share, Until};
use doorbell_verbs::{Opcode, PageSize, QpType};
use serde::Deserialize;
use std::ops::Range;

/// A workload with everything filled in and checked against the profiles of its machines.
///
/// It is serialized as the [`crate::Workload`] that gives all its values. If the threads are in classes, each
/// class is a workload of its own, see [`Resolved::classes`]. The options of the whole workload are then
/// absent or have the first class's values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Workload")]
#[non_exhaustive]
pub struct Resolved {
    /// Built-in profile or path of a profile's TOML file; if machines differ, the first group's.
    pub profile: String,
    /// Host that holds the NIC, if it is not the profile's own.
    pub host: Option<String>,
    /// Slot of the NICs, if it is not the profile's own.
    pub pcie: Option<PcieSlot>,
    /// Change of the profile's link, if there is one.
    pub link: Option<LinkChange>,
    /// Overridden parameters of the profile, by their names.
    pub set: Option<Settings>,
    /// Groups of like machines in the order of their numbers, if machines differ.
    pub machine: Option<Vec<MachineGroup>>,
    /// The operations of the threads, and when the threads post them.
    pub work: ThreadWork,
    /// Transport.
    pub transport: QpType,
    /// Machines, at least 2.
    pub machines: u32,
    /// Threads of each machine, one per core.
    pub threads: u32,
    /// QPs of each posting thread.
    pub qps: u32,
    /// Most READs or atomics that a QP has outstanding, if lower than the NICs' limit.
    pub max_rd_atomic: Option<u32>,
    /// Ports of each machine that its threads use, if not all.
    pub ports: Option<u32>,
    /// Socket whose cores run the posting threads.
    pub socket: Option<u32>,
    /// Socket that holds the memory of the posting threads, if not each core's own.
    pub memory_socket: Option<u32>,
    /// Socket whose cores run the responding threads.
    pub peer_socket: Option<u32>,
    /// Socket that holds the memory of the responding threads, if not each core's own.
    pub peer_memory_socket: Option<u32>,
    /// Work requests per doorbell.
    pub batch: u32,
    /// One of this many operations of a QP is signalled.
    pub signal_every: u32,
    /// Whether each QP has a CQ of its own for its operations.
    pub cq_per_qp: bool,
    /// SGEs of each work request, if given.
    pub sges: Option<u32>,
    /// Layout of the pieces of several SGEs, if given.
    pub pieces: Option<Pieces>,
    /// Byte of a cache line at which buffers begin, if given.
    pub offset: Option<BufferOffset>,
    /// Bytes of memory of each posting thread that its operations use, if given.
    pub local_region: Option<u64>,
    /// Bytes of memory of each responding thread that WRITEs or READs use, if given.
    pub remote_region: Option<u64>,
    /// Addresses of operations in a region, if given.
    pub addresses: Option<Addresses>,
    /// Addresses of operations at the responder, if given.
    pub remote_addresses: Option<RemoteAddresses>,
    /// Memory that one-sided operations access, if given.
    pub remote_memory: Option<RemoteMemory>,
    /// Whether SENDs have an immediate and no payload.
    pub header_only: bool,
    /// Whether payload is received in the CQE.
    pub inline_recv: bool,
    /// Whether a window is filled only once it is empty.
    pub drain: bool,
    /// The counters of a responder machine; only for atomics.
    pub counters: Option<AtomicCounters>,
    /// Whether memory has pages of 2 MB instead of 4 kB.
    pub huge_pages: bool,
    /// Which machines post to which.
    pub pattern: Pattern,
    /// Virtual time before measurement begins, if given.
    pub warmup: Option<Duration>,
    /// Virtual time to measure, if given.
    pub duration: Option<Duration>,
    /// Half-width of the 95% intervals at which a run ends.
    pub precision: Share,
    /// Number that a run must know before it ends, if given.
    pub until: Option<Until>,
    /// Virtual time after which a run ends.
    pub max_time: Duration,
    /// Seed of all random draws.
    pub seed: u64,
}

/// The operations that the threads of each machine post, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadWork {
    /// All threads work alike.
    Uniform(UniformWork),
    /// The threads of each class work alike.
    Classes(ClassWork),
}

/// The work of threads that all work alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniformWork {
    /// The operations that they post.
    pub posts: Posts,
    /// The operations that may be outstanding.
    pub window: Window,
    /// When they post operations.
    pub pace: LoadLoop,
}

/// The classes of threads of a workload; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassWork {
    classes: Vec<NamedWork>,
    /// Operations of all classes, one class after the other.
    operations: Vec<Operation>,
}

/// A class of threads: its name, if it has one, and its threads as a workload of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedWork {
    pub(crate) name: Option<String>,
    pub(crate) workload: Resolved,
}

/// The operations that a thread posts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posts {
    /// Operations that are all alike.
    One(Operation),
    /// Operations that are drawn from a mix. The mix has at least one kind.
    Mix {
        /// The kinds of operations to draw from.
        operations: Vec<Operation>,
        /// The largest payload in bytes that is copied into WQEs; `None` if no payload is.
        inline_up_to: Option<u32>,
    },
}

/// Like operations: all operations of a workload of one verb, or of an item of its mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Verb.
    pub verb: Verb,
    /// Payload in bytes.
    pub size: u32,
    /// Relative frequency among the weights of all operations.
    pub weight: u32,
    /// Opcode of the work requests.
    pub opcode: Opcode,
    /// Whether the payload is copied into the WQE.
    pub inline: bool,
    /// SGEs of each work request.
    pub sges: u32,
}

/// When threads post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadLoop {
    /// An operation, or a window, is posted after an earlier one has ended.
    Closed {
        /// Time between the end of the earlier one and the post, if it is not zero.
        think: Option<Duration>,
    },
    /// Operations are due at a rate regardless of earlier ones.
    Open {
        /// The arrival process.
        arrivals: Arrivals,
        /// Operations per second, of all posting threads together.
        rate: u64,
    },
}

/// The counters of a responder machine that atomics change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicCounters {
    /// Number of counters.
    pub count: u32,
    /// Bytes from one counter to the next.
    pub stride: u32,
}

/// The byte of a cache line at which buffers begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferOffset {
    /// All buffers begin at this byte.
    At(u32),
    /// Each buffer begins at a random byte.
    Drawn,
}

/// A class of threads of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedClass<'w> {
    /// Name of the class.
    pub name: String,
    /// The numbers of the class's threads on each machine.
    pub threads: Range<u32>,
    /// The workload of these threads alone.
    pub workload: &'w Resolved,
}

/// The name of a class, or its number.
pub(crate) fn name_of(number: usize, name: Option<&str>) -> String {
    name.map_or_else(|| number.to_string(), str::to_owned)
}

impl ClassWork {
    /// # Panics
    /// If there are no classes, or one has classes itself.
    fn of(classes: Vec<NamedWork>) -> ClassWork {
        assert!(!classes.is_empty(), "a workload in classes has one at least");
        assert!(classes.iter().all(|class| !class.workload.has_classes()), "a class has no classes");
        let operations = classes.iter().flat_map(|class| class.workload.operations()).copied().collect();
        ClassWork { classes, operations }
    }

    pub(crate) fn all(&self) -> &[NamedWork] {
        &self.classes
    }
}

impl Posts {
    /// All operations, in the order of the mix.
    pub fn operations(&self) -> &[Operation] {
        match self {
            Posts::One(operation) => std::slice::from_ref(operation),
            Posts::Mix { operations, .. } => operations,
        }
    }

    /// The mix from which the operations are drawn; `None` if all operations are alike.
    pub fn mix(&self) -> Option<Mix> {
        let item = |o: &Operation| Item { verb: o.verb, size: Some(o.size), weight: o.weight };
        match self {
            Posts::One(_) => None,
            Posts::Mix { operations, .. } => Some(Mix::of(operations.iter().map(item).collect())),
        }
    }
}

impl Operation {
    /// The operation in words.
    pub fn name(&self) -> String {
        format!("{} of {} B", self.verb, self.size)
    }
}

impl BufferOffset {
    /// The byte, if it is fixed for all buffers.
    pub fn byte(self) -> Option<u32> {
        match self {
            BufferOffset::At(byte) => Some(byte),
            BufferOffset::Drawn => None,
        }
    }
}

impl AtomicCounters {
    /// Bytes of all counters together.
    pub fn bytes(self) -> u64 {
        u64::from(self.count) * u64::from(self.stride)
    }
}

/// Work of the threads.
impl Resolved {
    /// The whole workload of several classes of threads. Each class is a workload of its own.
    ///
    /// # Panics
    /// If there are no classes, or one has classes itself.
    pub(crate) fn of_classes(classes: Vec<NamedWork>) -> Resolved {
        let work = ClassWork::of(classes);
        let of_classes = || work.classes.iter().map(|class| &class.workload);
        Resolved {
            threads: of_classes().fold(0, |sum, own| sum.saturating_add(own.threads)),
            counters: of_classes().find_map(|own| own.counters),
            remote_memory: of_classes().find_map(|own| own.remote_memory),
            max_rd_atomic: None,
            cq_per_qp: false,
            sges: None,
            pieces: None,
            offset: None,
            local_region: None,
            remote_region: None,
            addresses: None,
            remote_addresses: None,
            ..work.classes[0].workload.clone()
        }
        .with_work(ThreadWork::Classes(work))
    }

    fn with_work(self, work: ThreadWork) -> Resolved {
        Resolved { work, ..self }
    }

    /// The work of all threads; `None` if they are in classes.
    pub fn uniform(&self) -> Option<&UniformWork> {
        match &self.work {
            ThreadWork::Uniform(work) => Some(work),
            ThreadWork::Classes(_) => None,
        }
    }

    /// The classes in the order of their threads. Without classes, the whole workload is one class.
    pub fn classes(&self) -> Vec<ResolvedClass<'_>> {
        let ThreadWork::Classes(work) = &self.work else {
            return vec![ResolvedClass { name: name_of(0, None), threads: 0..self.threads, workload: self }];
        };
        let (mut all, mut end) = (Vec::with_capacity(work.classes.len()), 0);
        for (number, NamedWork { name, workload }) in work.classes.iter().enumerate() {
            let threads = end..end + workload.threads;
            end = threads.end;
            all.push(ResolvedClass { name: name_of(number, name.as_deref()), threads, workload });
        }
        all
    }

    /// Whether the threads are in classes. Each class has its own results.
    pub fn has_classes(&self) -> bool {
        matches!(self.work, ThreadWork::Classes(_))
    }

    /// The operations that may be outstanding.
    ///
    /// # Panics
    /// If the threads are in classes, because each class has its own window.
    pub fn window(&self) -> Window {
        self.uniform().expect("each class of threads has a window of its own").window
    }

    /// The operations that are posted: one kind, or the items of the mix in order. With classes, the
    /// operations of each class, one class after the other.
    pub fn operations(&self) -> &[Operation] {
        match &self.work {
            ThreadWork::Uniform(work) => work.posts.operations(),
            ThreadWork::Classes(work) => &work.operations,
        }
    }

    /// The operation that is posted, if there is only one verb and size.
    pub fn only_operation(&self) -> Option<&Operation> {
        match &self.uniform()?.posts {
            Posts::One(operation) => Some(operation),
            Posts::Mix { .. } => None,
        }
    }

    /// Whether the operations are drawn from a mix.
    pub fn is_mix(&self) -> bool {
        self.uniform().is_some_and(|work| matches!(work.posts, Posts::Mix { .. }))
    }

    /// The mix from which the operations are drawn, if there is one.
    pub fn mix(&self) -> Option<Mix> {
        self.uniform()?.posts.mix()
    }

    /// Whether payload is copied into WQEs; with classes, in the first class.
    pub fn inlines(&self) -> bool {
        match &self.work {
            ThreadWork::Uniform(work) => work.posts.operations().iter().any(|operation| operation.inline),
            ThreadWork::Classes(work) => work.classes[0].workload.inlines(),
        }
    }

    /// The largest payload of a mix that is copied into WQEs, if any is.
    pub fn inline_up_to(&self) -> Option<u32> {
        match self.uniform()?.posts {
            Posts::One(_) => None,
            Posts::Mix { inline_up_to, .. } => inline_up_to,
        }
    }

    /// The arrival process and the operations per second, if operations are due regardless of earlier ones.
    pub fn open_loop(&self) -> Option<(Arrivals, u64)> {
        match self.uniform()?.pace {
            LoadLoop::Open { arrivals, rate } => Some((arrivals, rate)),
            LoadLoop::Closed { .. } => None,
        }
    }

    /// Time from the end of an operation, or of a window, until the next one begins. `None` if it is zero.
    pub fn think(&self) -> Option<Duration> {
        match self.uniform()?.pace {
            LoadLoop::Closed { think } => think,
            LoadLoop::Open { .. } => None,
        }
    }

    /// The verbs in words.
    pub(crate) fn verb_names(&self) -> String {
        let mut names = Vec::new();
        for operation in self.operations() {
            let name = operation.verb.to_string();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(" and ")
    }

    /// The longest payload in bytes.
    pub fn longest(&self) -> u32 {
        self.operations().iter().map(|operation| operation.size).max().unwrap_or(0)
    }

    /// The longest payload of a SEND in bytes.
    pub fn longest_send(&self) -> u32 {
        let sends = self.operations().iter().filter(|operation| operation.verb.consumes_recv());
        sends.map(|operation| operation.size).max().unwrap_or(0)
    }

    /// The longest payload in bytes that is copied into WQEs; 0 if none is.
    pub fn longest_inline(&self) -> u32 {
        let inline = self.operations().iter().filter(|operation| operation.inline);
        inline.map(|operation| operation.size).max().unwrap_or(0)
    }

    /// Whether some messages of the workload consume RECVs.
    pub fn consumes_recvs(&self) -> bool {
        self.operations().iter().any(|operation| operation.verb.consumes_recv())
    }

    /// Whether one-sided operations access memory on the responder's NIC.
    pub fn in_device_memory(&self) -> bool {
        self.remote_memory == Some(RemoteMemory::Device)
    }

    /// Whether all WRITEs and READs to a machine access one buffer of it.
    pub fn at_one_address(&self) -> bool {
        self.remote_addresses == Some(RemoteAddresses::Same)
    }

    /// Whether some operations access buffers of the peer by their addresses.
    pub fn reaches_buffers(&self) -> bool {
        self.operations().iter().any(|operation| operation.verb.reaches_buffers())
    }

    /// This workload with `max_rd_atomic` changed by `change`, also in each class that sets it.
    pub fn with_reads_under_way(&self, change: impl Fn(u32) -> u32) -> Resolved {
        let mut more = self.clone();
        more.max_rd_atomic = more.max_rd_atomic.map(&change);
        if let ThreadWork::Classes(work) = &mut more.work {
            for class in &mut work.classes {
                class.workload.max_rd_atomic = class.workload.max_rd_atomic.map(&change);
            }
        }
        more
    }
}

/// Machines of the workload.
impl Resolved {
    /// The machines of each group of like machines, by their numbers.
    pub fn groups(&self) -> Vec<Range<u32>> {
        ranges(self.machine.as_deref(), self.machines)
    }

    /// The name of a group's profile, with the group's host if that is not the profile's own.
    fn profile_of_group(&self, group: usize) -> String {
        let named = self.machine.as_ref().and_then(|groups| groups.get(group));
        let (profile, host) =
            named.map_or((&self.profile, &self.host), |group| (&group.profile, &group.host));
        host.as_ref().map_or_else(|| profile.clone(), |host| format!("{profile} on {host}"))
    }

    /// Whether the machines are in several groups. Only then do groups have names.
    pub fn has_groups(&self) -> bool {
        self.machine.as_ref().is_some_and(|groups| groups.len() > 1)
    }

    /// Machines of a group in words, such as `machines 1 to 6 (cib)`.
    pub fn name_of(&self, group: usize, machines: &Range<u32>) -> String {
        let profile = self.profile_of_group(group);
        match machines.len() {
            1 => format!("machine {} ({profile})", machines.start),
            _ => format!("machines {} to {} ({profile})", machines.start, machines.end.max(1) - 1),
        }
    }

    /// The names of the groups.
    pub fn group_names(&self) -> Vec<String> {
        self.groups().iter().enumerate().map(|(i, machines)| self.name_of(i, machines)).collect()
    }

    /// A machine in words, with its profile if machines differ.
    pub fn machine_name(&self, machine: u32) -> String {
        match self.groups().iter().position(|group| group.contains(&machine)) {
            Some(group) if self.has_groups() => self.name_of(group, &(machine..machine + 1)),
            _ => format!("machine {machine}"),
        }
    }

    /// Sets of machines that are alike and have one role: machine 0, and the rest of each group. Each set
    /// comes with the index of its group.
    pub fn parts(&self) -> Vec<(usize, Range<u32>)> {
        let rest = self.groups().into_iter().map(|group| group.start.max(1)..group.end).enumerate();
        std::iter::once((0, 0..1)).chain(rest.filter(|(_, machines)| !machines.is_empty())).collect()
    }

    /// Page size of the workload's memory.
    pub fn page_size(&self) -> PageSize {
        if self.huge_pages { PageSize::Huge } else { PageSize::Small }
    }
}
