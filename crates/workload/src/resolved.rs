//! A workload with everything filled in and checked.

use crate::workload::{MachineGroup, Workload, ranges};
use crate::{Addresses, Item, Mix, Pattern, Pieces, Verb, Window};
use doorbell_schema::{Arrivals, Duration, Settings, Share};
use doorbell_verbs::{Opcode, PageSize, QpType};
use serde::Deserialize;
use std::ops::Range;

/// A workload with everything filled in and checked against the profiles of its machines.
///
/// It is written as the [`crate::Workload`] that says all of it. Where its threads are in classes, each class is a
/// workload of its own, see [`Resolved::classes`]; the whole then has the first class's values of what all workloads have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Workload")]
#[non_exhaustive]
pub struct Resolved {
    /// Built-in profile or path of a profile's TOML file; where machines differ, of the first group.
    pub profile: String,
    /// Host that the NIC is in, where it is not the profile's own.
    pub host: Option<String>,
    /// Parameters of the profile with other values, by their names.
    pub set: Option<Settings>,
    /// Groups of like machines in the order of their numbers, where machines differ.
    pub machine: Option<Vec<MachineGroup>>,
    /// What its threads post, and when.
    pub work: ThreadWork,
    /// Transport.
    pub transport: QpType,
    /// Machines, at least 2.
    pub machines: u32,
    /// Threads of each machine, one per core.
    pub threads: u32,
    /// QPs of each thread that posts.
    pub qps: u32,
    /// READs or atomics that a QP has in flight at most, where it is not what the NICs can.
    pub max_rd_atomic: Option<u32>,
    /// Ports of each machine that its threads use, where it is not all.
    pub ports: Option<u32>,
    /// Socket whose cores run the threads that post.
    pub socket: Option<u32>,
    /// Socket whose memory the threads that post have, where it is not each core's own.
    pub memory_socket: Option<u32>,
    /// Socket whose cores run the threads that are posted to.
    pub peer_socket: Option<u32>,
    /// Socket whose memory the threads that are posted to have, where it is not each core's own.
    pub peer_memory_socket: Option<u32>,
    /// Work requests per doorbell.
    pub batch: u32,
    /// Each so many-th operation of a QP is signalled.
    pub signal_every: u32,
    /// Whether each QP has a CQ of its own for what it posts.
    pub cq_per_qp: bool,
    /// SGEs of each work request, where that is given.
    pub sges: Option<u32>,
    /// How the pieces that several SGEs give lie, where that is given.
    pub pieces: Option<Pieces>,
    /// At which byte of a cache line buffers begin, where that is given.
    pub offset: Option<BufferOffset>,
    /// Bytes of memory of each posting thread over which its operations go, where a region is given.
    pub local_region: Option<u64>,
    /// Bytes of memory of each thread that is posted to over which WRITEs or READs go, where a region is given.
    pub remote_region: Option<u64>,
    /// Where in a region operations go, where that is given.
    pub addresses: Option<Addresses>,
    /// Where in `remote_region` operations go, where that is given.
    pub remote_addresses: Option<Addresses>,
    /// Whether SENDs have an immediate and no payload.
    pub header_only: bool,
    /// Whether payload is received in the CQE.
    pub inline_recv: bool,
    /// Whether a window is filled only once it is empty.
    pub drain: bool,
    /// The counters of a responder machine; of atomics only.
    pub counters: Option<AtomicCounters>,
    /// Memory in pages of 2 MB, not 4 kB.
    pub huge_pages: bool,
    /// Which machines post to which.
    pub pattern: Pattern,
    /// Virtual time before measuring begins, where it is given.
    pub warmup: Option<Duration>,
    /// Virtual time to measure for, where it is given.
    pub duration: Option<Duration>,
    /// Width to each side of the 95% intervals at which a run ends.
    pub precision: Share,
    /// Virtual time after which a run ends.
    pub max_time: Duration,
    /// Seed of all random draws.
    pub seed: u64,
}

/// What the threads of each machine post, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadWork {
    /// All threads do the same.
    Uniform(UniformWork),
    /// The threads of each class do the same.
    Classes(ClassWork),
}

/// What threads post that all do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniformWork {
    /// What they post.
    pub posts: Posts,
    /// How much of it may be outstanding.
    pub window: Window,
    /// When they post it.
    pub pace: LoadLoop,
}

/// The classes of threads of a workload: one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassWork {
    classes: Vec<NamedWork>,
    /// What each class posts, one class after the other.
    operations: Vec<Operation>,
}

/// A class of threads: its name, where it has one, and its threads as a workload of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedWork {
    pub(crate) name: Option<String>,
    pub(crate) workload: Resolved,
}

/// What a thread posts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posts {
    /// Operations that are all alike.
    One(Operation),
    /// Operations that are drawn from several: one at least.
    Mix {
        /// What they are drawn from.
        operations: Vec<Operation>,
        /// Payload up to which bytes is copied into WQEs; none where no payload is.
        inline_up_to: Option<u32>,
    },
}

/// Operations that are alike: those of a workload of one verb, or of an item of its mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Verb.
    pub verb: Verb,
    /// Payload in bytes.
    pub size: u32,
    /// How often it is drawn, beside the weights of the others.
    pub weight: u32,
    /// Its opcode.
    pub opcode: Opcode,
    /// Whether its payload is copied into the WQE.
    pub inline: bool,
    /// SGEs of its work requests.
    pub sges: u32,
}

/// When threads post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadLoop {
    /// An operation, or a window, is posted when an earlier one has ended.
    Closed {
        /// How long after that, where that is not at once.
        think: Option<Duration>,
    },
    /// Operations are due at a rate, whatever becomes of earlier ones.
    Open {
        /// At which distances.
        arrivals: Arrivals,
        /// Operations in a second, of all posting threads together.
        rate: u64,
    },
}

/// The counters of a responder machine that atomics change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicCounters {
    /// How many there are.
    pub count: u32,
    /// Bytes from one counter to the next.
    pub stride: u32,
}

/// At which byte of a cache line buffers begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferOffset {
    /// At this one.
    At(u32),
    /// Each at one that is drawn.
    Drawn,
}

/// A class of threads of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedClass<'w> {
    /// What it is called.
    pub name: String,
    /// Its threads, by their numbers on each machine.
    pub threads: Range<u32>,
    /// What they do: a workload of these threads alone.
    pub workload: &'w Resolved,
}

/// What a class is called.
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
    /// All that is posted, in the order of the mix.
    pub fn operations(&self) -> &[Operation] {
        match self {
            Posts::One(operation) => std::slice::from_ref(operation),
            Posts::Mix { operations, .. } => operations,
        }
    }

    /// The mix that its operations are drawn from, where there are several.
    pub fn mix(&self) -> Option<Mix> {
        let item = |o: &Operation| Item { verb: o.verb, size: Some(o.size), weight: o.weight };
        match self {
            Posts::One(_) => None,
            Posts::Mix { operations, .. } => Some(Mix::of(operations.iter().map(item).collect())),
        }
    }
}

impl Operation {
    /// In words.
    pub fn name(&self) -> String {
        format!("{} of {} B", self.verb, self.size)
    }
}

impl BufferOffset {
    /// The byte, where it is one for all buffers.
    pub fn byte(self) -> Option<u32> {
        match self {
            BufferOffset::At(byte) => Some(byte),
            BufferOffset::Drawn => None,
        }
    }
}

impl AtomicCounters {
    /// Bytes that they take together.
    pub fn bytes(self) -> u64 {
        u64::from(self.count) * u64::from(self.stride)
    }
}

/// What its threads do.
impl Resolved {
    /// The whole workload of classes of threads, each of which is a workload of its own.
    ///
    /// # Panics
    /// If there are no classes, or one has classes itself.
    pub(crate) fn of_classes(classes: Vec<NamedWork>) -> Resolved {
        let work = ClassWork::of(classes);
        let of_classes = || work.classes.iter().map(|class| &class.workload);
        Resolved {
            threads: of_classes().fold(0, |sum, own| sum.saturating_add(own.threads)),
            counters: of_classes().find_map(|own| own.counters),
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

    /// What all its threads do; none where they are in classes.
    pub fn uniform(&self) -> Option<&UniformWork> {
        match &self.work {
            ThreadWork::Uniform(work) => Some(work),
            ThreadWork::Classes(_) => None,
        }
    }

    /// What its threads do, in the order of their numbers: each class as a workload of its own, or the whole as one.
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

    /// Whether its threads are in classes, of which each has results of its own.
    pub fn has_classes(&self) -> bool {
        matches!(self.work, ThreadWork::Classes(_))
    }

    /// How many operations may be outstanding.
    ///
    /// # Panics
    /// If its threads are in classes: each class has a window of its own.
    pub fn window(&self) -> Window {
        self.uniform().expect("each class of threads has a window of its own").window
    }

    /// What is posted: one thing, or the items of the mix in its order; where threads are in classes, what each of these
    /// posts, one class after the other.
    pub fn operations(&self) -> &[Operation] {
        match &self.work {
            ThreadWork::Uniform(work) => work.posts.operations(),
            ThreadWork::Classes(work) => &work.operations,
        }
    }

    /// What is posted, where that is of one verb and size.
    pub fn only_operation(&self) -> Option<&Operation> {
        match &self.uniform()?.posts {
            Posts::One(operation) => Some(operation),
            Posts::Mix { .. } => None,
        }
    }

    /// Whether its operations are drawn from several.
    pub fn is_mix(&self) -> bool {
        self.uniform().is_some_and(|work| matches!(work.posts, Posts::Mix { .. }))
    }

    /// The mix that is posted, if it is one.
    pub fn mix(&self) -> Option<Mix> {
        self.uniform()?.posts.mix()
    }

    /// Whether payload is copied into WQEs; of a workload in classes the first class's.
    pub fn inlines(&self) -> bool {
        match &self.work {
            ThreadWork::Uniform(work) => work.posts.operations().iter().any(|operation| operation.inline),
            ThreadWork::Classes(work) => work.classes[0].workload.inlines(),
        }
    }

    /// Payload of a mix up to which bytes is copied into WQEs, if any is.
    pub fn inline_up_to(&self) -> Option<u32> {
        match self.uniform()?.posts {
            Posts::One(_) => None,
            Posts::Mix { inline_up_to, .. } => inline_up_to,
        }
    }

    /// When its operations are due whatever becomes of earlier ones: at which distances, and how many in a second.
    pub fn open_loop(&self) -> Option<(Arrivals, u64)> {
        match self.uniform()?.pace {
            LoadLoop::Open { arrivals, rate } => Some((arrivals, rate)),
            LoadLoop::Closed { .. } => None,
        }
    }

    /// Time from the end of an operation, or a window, until the next one begins, where there is any.
    pub fn think(&self) -> Option<Duration> {
        match self.uniform()?.pace {
            LoadLoop::Closed { think } => think,
            LoadLoop::Open { .. } => None,
        }
    }

    /// The verbs in words.
    pub(crate) fn verb_names(&self) -> String {
        let mut names: Vec<String> = self.operations().iter().map(|o| o.verb.to_string()).collect();
        names.dedup();
        names.join(" and ")
    }

    /// The longest payload.
    pub fn longest(&self) -> u32 {
        self.operations().iter().map(|operation| operation.size).max().unwrap_or(0)
    }

    /// The longest payload of a SEND.
    pub fn longest_send(&self) -> u32 {
        let sends = self.operations().iter().filter(|operation| operation.verb.consumes_recv());
        sends.map(|operation| operation.size).max().unwrap_or(0)
    }

    /// The longest payload that is copied into WQEs; 0 where none is.
    pub fn longest_inline(&self) -> u32 {
        let inline = self.operations().iter().filter(|operation| operation.inline);
        inline.map(|operation| operation.size).max().unwrap_or(0)
    }

    /// Whether some of its messages take RECVs.
    pub fn consumes_recvs(&self) -> bool {
        self.operations().iter().any(|operation| operation.verb.consumes_recv())
    }

    /// Whether some of its operations are of buffers at the peer that they name.
    pub fn reaches_buffers(&self) -> bool {
        self.operations().iter().any(|operation| operation.verb.reaches_buffers())
    }

    /// The same workload, where each class asks for another number of READs in flight, if it asks for one.
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

/// Its machines.
impl Resolved {
    /// The machines of each group of like ones, by their numbers.
    pub fn groups(&self) -> Vec<Range<u32>> {
        ranges(self.machine.as_deref(), self.machines)
    }

    /// Names of the profiles of the groups, and of their hosts where they are others'.
    fn profile_of_group(&self, group: usize) -> String {
        let named = self.machine.as_ref().and_then(|groups| groups.get(group));
        let (profile, host) =
            named.map_or((&self.profile, &self.host), |group| (&group.profile, &group.host));
        host.as_ref().map_or_else(|| profile.clone(), |host| format!("{profile} on {host}"))
    }

    /// Whether the machines are in several groups, which then have names.
    pub fn has_groups(&self) -> bool {
        self.machine.as_ref().is_some_and(|groups| groups.len() > 1)
    }

    /// Machines of a group in words: as `machines 1 to 6 (cib)`.
    pub fn name_of(&self, group: usize, machines: &Range<u32>) -> String {
        let profile = self.profile_of_group(group);
        match machines.len() {
            1 => format!("machine {} ({profile})", machines.start),
            _ => format!("machines {} to {} ({profile})", machines.start, machines.end.max(1) - 1),
        }
    }

    /// The groups in words.
    pub fn group_names(&self) -> Vec<String> {
        self.groups().iter().enumerate().map(|(i, machines)| self.name_of(i, machines)).collect()
    }

    /// A machine in words, with its profile where machines differ.
    pub fn machine_name(&self, machine: u32) -> String {
        match self.groups().iter().position(|group| group.contains(&machine)) {
            Some(group) if self.has_groups() => self.name_of(group, &(machine..machine + 1)),
            _ => format!("machine {machine}"),
        }
    }

    /// Machine 0, and what is left of each group: machines that take the same part, and are alike.
    pub fn parts(&self) -> Vec<(usize, Range<u32>)> {
        let rest = self.groups().into_iter().map(|group| group.start.max(1)..group.end).enumerate();
        std::iter::once((0, 0..1)).chain(rest.filter(|(_, machines)| !machines.is_empty())).collect()
    }

    /// Pages of its memory.
    pub fn page_size(&self) -> PageSize {
        if self.huge_pages { PageSize::Huge } else { PageSize::Small }
    }
}
