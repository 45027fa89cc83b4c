//! Workloads: as people describe them, and with everything filled in.

use crate::{Duration, Profiles, topology};
use doorbell_nic::{Profile, ProfileError};
use doorbell_verbs::{Opcode, PageSize, QpType, Span};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::path::Path;
use thiserror::Error;

/// A verb of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// SEND, with immediate where it is header-only.
    Send,
    /// WRITE.
    Write,
    /// READ.
    Read,
    /// Fetch-and-add on 8 bytes.
    FetchAdd,
    /// Compare-and-swap on 8 bytes.
    CompareSwap,
}

impl Verb {
    /// All verbs with their names.
    pub const ALL: [(&str, Verb); 5] = [
        ("send", Verb::Send),
        ("write", Verb::Write),
        ("read", Verb::Read),
        ("fetch-add", Verb::FetchAdd),
        ("compare-swap", Verb::CompareSwap),
    ];

    /// Its opcode.
    pub fn opcode(self, header_only: bool) -> Opcode {
        match self {
            Verb::Send if header_only => Opcode::SendWithImm,
            Verb::Send => Opcode::Send,
            Verb::Write => Opcode::Write,
            Verb::Read => Opcode::Read,
            Verb::FetchAdd => Opcode::FetchAdd,
            Verb::CompareSwap => Opcode::CompareSwap,
        }
    }

    fn is_atomic(self) -> bool {
        self.opcode(false).is_atomic()
    }

    /// Whether its messages take RECVs.
    pub(crate) fn consumes_recv(self) -> bool {
        self.opcode(false).consumes_recv()
    }

    /// Whether its requests carry payload.
    fn carries_payload(self) -> bool {
        matches!(self, Verb::Send | Verb::Write)
    }

    /// The transport that ATC'16 studies it on (Figure 3).
    fn usual_transport(self) -> QpType {
        match self {
            Verb::Send => QpType::Ud,
            Verb::Write => QpType::Uc,
            Verb::Read | Verb::FetchAdd | Verb::CompareSwap => QpType::Rc,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verb::Send => "SEND",
            Verb::Write => "WRITE",
            Verb::Read => "READ",
            Verb::FetchAdd => "fetch-and-add",
            Verb::CompareSwap => "compare-and-swap",
        })
    }
}

/// Who posts to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// The threads of machine 0 post to the other machines.
    Outbound,
    /// The threads of the other machines post to machine 0.
    Inbound,
    /// All threads post to the other machines.
    AllToAll,
}

impl Pattern {
    /// All patterns with their names.
    pub const ALL: [(&str, Pattern); 3] =
        [("outbound", Pattern::Outbound), ("inbound", Pattern::Inbound), ("all-to-all", Pattern::AllToAll)];
}

/// Like machines, as a workload names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineGroup {
    /// Name of a built-in profile, or path of a profile's TOML file.
    pub profile: String,
    /// How many there are.
    #[serde(default = "one")]
    pub count: u32,
}

fn one() -> u32 {
    1
}

/// How many machines groups are together.
fn sum(groups: &[MachineGroup]) -> u32 {
    groups.iter().fold(0, |sum, group| sum.saturating_add(group.count))
}

/// A workload as it is described; what is not given takes its usual value.
///
/// TOML and JSON files have these keys; [`Workload::resolve`] says what each may be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    /// Name of a built-in profile, or path of a profile's TOML file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Where machines differ: groups of like ones, in the order of their numbers. They take the place of
    /// `profile` and `machines`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Vec<MachineGroup>>,
    /// The verb.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<Verb>,
    /// The transport.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<QpType>,
    /// Payload in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Number of machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<u32>,
    /// Threads of each machine, one per core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// QPs of each thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qps: Option<u32>,
    /// Operations outstanding per thread; per QP where not each is signalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// Work requests per doorbell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// Each so many-th operation of a QP is signalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal_every: Option<u32>,
    /// Whether payload is copied into the WQE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<bool>,
    /// Whether messages have no payload but an immediate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_only: Option<bool>,
    /// Whether payload comes in the CQE of its RECV (inline-receive).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline_recv: Option<bool>,
    /// Whether a thread fills its window only once it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<bool>,
    /// Counters of a responder machine, for atomics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<u32>,
    /// Bytes from one counter to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter_stride: Option<u32>,
    /// Whether memory is in pages of 2 MB, not 4 kB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huge_pages: Option<bool>,
    /// Who posts to whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Pattern>,
    /// Virtual time before measuring begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Duration>,
    /// Virtual time to measure for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// Seed of all random draws.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// JSON that Doorbell has written: unlike a workload by itself, it says by which schema. What else
/// is in it does not matter here.
#[derive(Deserialize)]
struct Written<W> {
    schema: Option<IgnoredAny>,
    workload: Option<W>,
}

/// A workload with everything filled in and checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Resolved {
    /// Name or path of the profile; where machines differ, of the first group's.
    pub profile: String,
    /// Where machines differ: groups of like ones, in the order of their numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Vec<MachineGroup>>,
    /// The verb.
    pub verb: Verb,
    /// The transport; it offers the verb.
    pub transport: QpType,
    /// Payload in bytes; 8 for atomics.
    pub size: u32,
    /// Number of machines, at least 2.
    pub machines: u32,
    /// Threads of each machine, at most the cores of each.
    pub threads: u32,
    /// QPs of each thread that posts.
    pub qps: u32,
    /// Operations outstanding per thread where each is signalled, else per QP; at most what a queue
    /// holds.
    pub window: u32,
    /// Work requests per doorbell, at most the window.
    pub batch: u32,
    /// Each so many-th operation of a QP is signalled.
    pub signal_every: u32,
    /// Whether payload is copied into the WQE.
    pub inline: bool,
    /// Whether messages have no payload but an immediate.
    pub header_only: bool,
    /// Whether payload comes in the CQE of its RECV (inline-receive); SEND on a NIC that can.
    pub inline_recv: bool,
    /// Whether a thread fills its window only once it is empty; the last operation on each QP is
    /// signalled.
    pub drain: bool,
    /// Counters of a responder machine; atomics only.
    pub counters: Option<u32>,
    /// Bytes from one counter to the next; atomics only.
    pub counter_stride: Option<u32>,
    /// Whether memory is in pages of 2 MB, not 4 kB.
    pub huge_pages: bool,
    /// Who posts to whom.
    pub pattern: Pattern,
    /// Virtual time before measuring begins.
    pub warmup: Duration,
    /// Virtual time to measure for.
    pub duration: Duration,
    /// Seed of all random draws.
    pub seed: u64,
}

/// What is wrong with a workload: one sentence.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WorkloadError {
    /// The file cannot be read.
    #[error("cannot read workload {file}: {cause}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why not.
        cause: String,
    },
    /// Not TOML or JSON, an unknown key, or a value of the wrong kind.
    #[error("{file}:{line}: {message}")]
    Malformed {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// What Doorbell wrote about a process that posted no send work requests.
    #[error("{file} holds no workload: its process has posted no send work requests")]
    Missing {
        /// The file.
        file: String,
    },
    /// The profile.
    #[error("{0}")]
    Profile(#[from] ProfileError),
    /// A value is out of its range, or two do not go together.
    #[error("{0}")]
    Invalid(String),
}

/// Machines of a run at most.
const MAX_MACHINES: u32 = 1024;
/// QPs of a run at most.
const MAX_QPS: u64 = 1 << 22;
/// Bytes that all counters of a machine may span.
const MAX_COUNTER_BYTES: u64 = 1 << 30;
/// Payload bytes at most, and what the buffers of all threads may take together.
const MAX_BYTES: u64 = 4 << 30;

fn invalid<T>(message: String) -> Result<T, WorkloadError> {
    Err(WorkloadError::Invalid(message))
}

/// Refuses unless `low <= value <= high`.
fn within(name: &str, value: u32, low: u32, high: u32, why: &str) -> Result<(), WorkloadError> {
    if value < low {
        return invalid(format!("{name} is {value}, but must be at least {low}"));
    }
    if value > high {
        return invalid(format!("{name} is {value}, but {why} {high}"));
    }
    Ok(())
}

/// The line, from 1, of byte `at` of `text`.
fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).map_or(1, |before| before.matches('\n').count() + 1)
}

impl Workload {
    /// Parses TOML; `file` is for messages.
    pub fn from_toml(file: &str, text: &str) -> Result<Workload, WorkloadError> {
        let parsed = toml::from_str(text).map_err(|e| WorkloadError::Malformed {
            file: file.to_owned(),
            line: line_of(text, e.span().map_or(0, |s| s.start)),
            message: e.message().replace('\n', " "),
        });
        parsed.map(Workload::without_sums)
    }

    /// Parses JSON: a workload, or what Doorbell itself has written about one (statistics of
    /// `doorbell run`, results), of which it takes the `workload`. `file` is for messages.
    pub fn from_json(file: &str, text: &str) -> Result<Workload, WorkloadError> {
        let malformed = |e: serde_json::Error| {
            // The parser appends the position, which we give in front.
            let message = e.to_string();
            let message = message.split(" at line ").next().unwrap_or_default().to_owned();
            WorkloadError::Malformed { file: file.to_owned(), line: e.line().max(1), message }
        };
        serde_json::from_str::<IgnoredAny>(text).map_err(malformed)?;
        if !serde_json::from_str::<Written<IgnoredAny>>(text).is_ok_and(|w| w.schema.is_some()) {
            return serde_json::from_str(text).map(Workload::without_sums).map_err(malformed);
        }
        let written: Written<Workload> = serde_json::from_str(text).map_err(malformed)?;
        let workload = written.workload.ok_or_else(|| WorkloadError::Missing { file: file.to_owned() })?;
        Ok(workload.without_sums())
    }

    /// A resolved workload with groups says also what follows from them; this leaves it out.
    fn without_sums(self) -> Workload {
        let Some(groups) = &self.machine else { return self };
        let first = groups.first().map(|group| &group.profile);
        match self.profile.as_ref() == first && self.machines == Some(sum(groups)) {
            true => Workload { profile: None, machines: None, ..self },
            false => self,
        }
    }

    /// Reads a file: JSON where its name ends in `.json` or it begins with a brace, else TOML.
    pub fn read(path: &Path) -> Result<Workload, WorkloadError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| WorkloadError::Unreadable { file: file.clone(), cause: e.to_string() })?;
        let named_json = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
        // No TOML begins with a brace.
        match named_json || text.trim_start().starts_with('{') {
            true => Workload::from_json(&file, &text),
            false => Workload::from_toml(&file, &text),
        }
    }

    /// This workload, and where it says nothing, `base`.
    pub fn over(self, base: Workload) -> Workload {
        Workload {
            profile: self.profile.or(base.profile),
            machine: self.machine.or(base.machine),
            verb: self.verb.or(base.verb),
            transport: self.transport.or(base.transport),
            size: self.size.or(base.size),
            machines: self.machines.or(base.machines),
            threads: self.threads.or(base.threads),
            qps: self.qps.or(base.qps),
            window: self.window.or(base.window),
            batch: self.batch.or(base.batch),
            signal_every: self.signal_every.or(base.signal_every),
            inline: self.inline.or(base.inline),
            header_only: self.header_only.or(base.header_only),
            inline_recv: self.inline_recv.or(base.inline_recv),
            drain: self.drain.or(base.drain),
            counters: self.counters.or(base.counters),
            counter_stride: self.counter_stride.or(base.counter_stride),
            huge_pages: self.huge_pages.or(base.huge_pages),
            pattern: self.pattern.or(base.pattern),
            warmup: self.warmup.or(base.warmup),
            duration: self.duration.or(base.duration),
            seed: self.seed.or(base.seed),
        }
    }

    /// Name or path of its profile; of the first group's, where there are groups.
    pub fn profile_name(&self) -> &str {
        let of_group = || self.machine.as_ref()?.first().map(|group| group.profile.as_str());
        self.profile.as_deref().or_else(of_group).unwrap_or("cib")
    }

    /// The profiles of its machines.
    pub fn load_profiles(&self) -> Result<Profiles, WorkloadError> {
        self.check_groups()?;
        let first = Profile::named_or_file(self.profile_name())?;
        let others = self.machine.iter().flatten().skip(1).map(|g| Profile::named_or_file(&g.profile));
        Ok(Profiles::of_groups(first, others.collect::<Result<_, _>>()?))
    }

    /// Groups say what `profile` and `machines` say of like machines.
    fn check_groups(&self) -> Result<(), WorkloadError> {
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
                "profile is {profile}, but the workload's [[machine]] tables say the profiles"
            ));
        }
        if let Some(machines) = self.machines {
            return invalid(format!(
                "machines is {machines}, but the workload's [[machine]] tables say how many there are"
            ));
        }
        Ok(())
    }

    /// Fills in what is not given, and checks everything against the profiles of its machines.
    pub fn resolve(&self, profiles: &Profiles) -> Result<Resolved, WorkloadError> {
        self.check_groups()?;
        let verb = self.verb.unwrap_or(Verb::Send);
        let selective = verb.carries_payload() && self.drain != Some(true);
        let signal_every = self.signal_every.unwrap_or(if selective { 16 } else { 1 });
        let batch = self.batch.unwrap_or(1);
        let header_only = self.header_only.unwrap_or(false);
        let size = self.size.unwrap_or(usual_size(verb, header_only));
        let pattern = self.pattern.unwrap_or(usual_pattern(verb));
        let transport = self.transport.unwrap_or(verb.usual_transport());
        let machines = self.machine.as_deref().map_or(self.machines.unwrap_or(8), sum);
        let taking = Taking::of(profiles, pattern, &ranges(self.machine.as_deref(), machines))?;
        let inlines = verb.carries_payload() && size > 0;
        let resolved = Resolved {
            profile: self.profile_name().to_owned(),
            machine: self.machine.clone(),
            verb,
            transport,
            size,
            machines,
            threads: self.threads.unwrap_or(least(&taking.all, cores).1),
            qps: self.qps.unwrap_or(usual_qps(transport, pattern, machines)),
            window: self.effective_window(signal_every, batch, least(&taking.posters, queue).1),
            batch,
            signal_every,
            inline: inlines && self.inline.unwrap_or(size <= least(&taking.posters, inlined).1),
            header_only,
            inline_recv: self.inline_recv.unwrap_or(false),
            drain: self.drain.unwrap_or(false),
            counters: self.counters.or(verb.is_atomic().then_some(1)),
            counter_stride: self.counter_stride.or(verb.is_atomic().then_some(8)),
            huge_pages: self.huge_pages.unwrap_or(true),
            pattern,
            warmup: self.warmup.unwrap_or(Duration::new(Span::from_us(200))),
            duration: self.duration.unwrap_or(Duration::new(Span::from_ms(1))),
            seed: self.seed.unwrap_or(1),
        };
        self.check_combinations(&resolved)?;
        resolved.check_counts(&taking)?;
        resolved.check_payload(&taking)?;
        resolved.check_queues(self.window, &taking)?;
        Ok(resolved)
    }

    /// Where not each operation is signalled, the window must hold two signalled ones, and a whole
    /// batch beside those that no completion has covered yet.
    fn effective_window(&self, signal_every: u32, batch: u32, max_qp_wr: u32) -> u32 {
        let needed = match signal_every {
            0 | 1 => 1,
            s => s.saturating_mul(2).max(batch.saturating_add(s)),
        };
        match self.window {
            Some(0) => 0,
            Some(window) => window.max(needed),
            None => needed
                .max(if signal_every > 1 { 64 } else { 16 })
                .max(batch.saturating_mul(2))
                .min(max_qp_wr.max(needed)),
        }
    }

    fn check_combinations(&self, r: &Resolved) -> Result<(), WorkloadError> {
        let verb = r.verb;
        let (opcode, transport) = (verb.opcode(r.header_only), r.transport);
        if !opcode.is_offered_by(transport) {
            let offering: Vec<String> = [QpType::Rc, QpType::Uc, QpType::Ud]
                .into_iter()
                .filter(|t| opcode.is_offered_by(*t))
                .map(|t| t.to_string())
                .collect();
            return invalid(format!("{transport} does not offer {verb}, use {}", offering.join(" or ")));
        }
        if r.header_only && verb != Verb::Send {
            return invalid(format!("header-only is for SEND, not for {verb}"));
        }
        if r.header_only && r.size > 0 {
            return invalid(format!("header-only messages have no payload, but size is {} bytes", r.size));
        }
        if self.inline == Some(true) && !verb.carries_payload() {
            return invalid(format!("a {verb} request carries no payload that could be inlined"));
        }
        if r.inline_recv && verb != Verb::Send {
            return invalid(format!("inline-receive is for SEND, not for {verb}"));
        }
        if r.drain && (r.batch > 1 || r.signal_every > 1 || r.pattern == Pattern::AllToAll) {
            return invalid(
                "a window that is drained takes its QPs in turn, so batch and signal_every must be 1 and the pattern not all-to-all"
                    .into(),
            );
        }
        if !verb.is_atomic() && (self.counters.is_some() || self.counter_stride.is_some()) {
            return invalid(format!("counters are for fetch-and-add and compare-and-swap, not for {verb}"));
        }
        Ok(())
    }
}

/// The profiles of the machines that post, of those that are posted to, and of all.
struct Taking<'a> {
    posters: Vec<&'a Profile>,
    responders: Vec<&'a Profile>,
    all: Vec<&'a Profile>,
}

impl<'a> Taking<'a> {
    fn of(
        profiles: &'a Profiles,
        pattern: Pattern,
        groups: &[Range<u32>],
    ) -> Result<Taking<'a>, WorkloadError> {
        let all: Vec<&Profile> = profiles.all().collect();
        if all.len() != groups.len() {
            return invalid(format!("{} profiles do not fit {} groups of machines", all.len(), groups.len()));
        }
        let those = |take: fn(Pattern, u32) -> bool| {
            // Of a group, at most machine 0 takes another part than the last one.
            let any = |group: &Range<u32>| take(pattern, group.start) || take(pattern, group.end.max(1) - 1);
            let taking: Vec<&Profile> =
                all.iter().zip(groups).filter(|(_, group)| any(group)).map(|(profile, _)| *profile).collect();
            // Where there are too few machines, which is refused later.
            if taking.is_empty() { all.clone() } else { taking }
        };
        let (posters, responders) = (those(topology::posts), those(topology::is_posted_to));
        Ok(Taking { posters, responders, all })
    }
}

/// The profile of which `of` is least, and what it is there.
fn least<'a>(profiles: &[&'a Profile], of: impl Fn(&Profile) -> u32) -> (&'a Profile, u32) {
    let least = profiles.iter().min_by_key(|profile| of(profile)).expect("a run has machines of each part");
    (least, of(least))
}

fn cores(profile: &Profile) -> u32 {
    profile.host.cores
}

fn queue(profile: &Profile) -> u32 {
    profile.nic.max_qp_wr
}

fn inlined(profile: &Profile) -> u32 {
    profile.nic.max_inline
}

fn mtu(profile: &Profile) -> u32 {
    profile.link.mtu
}

/// The machines of each group; one of all where none are named.
fn ranges(groups: Option<&[MachineGroup]>, machines: u32) -> Vec<Range<u32>> {
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

fn usual_size(verb: Verb, header_only: bool) -> u32 {
    match verb {
        _ if header_only => 0,
        Verb::FetchAdd | Verb::CompareSwap => 8,
        Verb::Send | Verb::Write | Verb::Read => 32,
    }
}

fn usual_pattern(verb: Verb) -> Pattern {
    if verb.carries_payload() { Pattern::Outbound } else { Pattern::Inbound }
}

/// One QP per peer; a UD QP reaches all.
fn usual_qps(transport: QpType, pattern: Pattern, machines: u32) -> u32 {
    match (transport, pattern) {
        (QpType::Ud, _) | (_, Pattern::Inbound) => 1,
        (_, Pattern::Outbound) => machines.saturating_sub(1).max(1),
        (_, Pattern::AllToAll) => machines,
    }
}

impl Resolved {
    fn check_counts(&self, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        within("machines", self.machines, 2, MAX_MACHINES, "a run has at most")?;
        let (profile, cores) = least(&taking.all, cores);
        within(
            "threads",
            self.threads,
            1,
            cores,
            &format!("a machine of profile {} has cores", profile.name),
        )?;
        within("qps", self.qps, 1, u32::MAX, "")?;
        let all = u64::from(self.machines) * u64::from(self.threads) * u64::from(self.qps);
        if all > MAX_QPS {
            return invalid(format!("the run would have {all} QPs, more than {MAX_QPS}"));
        }
        if self.pattern == Pattern::AllToAll && self.transport != QpType::Ud && self.qps < 2 {
            return invalid("qps is 1, but all-to-all on connected QPs needs at least 2, as QP 0 of machine 0 leads to itself".into());
        }
        if let (Some(counters), Some(stride)) = (self.counters, self.counter_stride) {
            within("counters", counters, 1, u32::MAX, "")?;
            if stride == 0 || !stride.is_multiple_of(8) {
                return invalid(format!(
                    "counter_stride is {stride}, but must be a positive multiple of 8 bytes"
                ));
            }
            if u64::from(counters) * u64::from(stride) > MAX_COUNTER_BYTES {
                return invalid(format!("{counters} counters {stride} bytes apart take more than 1 GiB"));
            }
        }
        if self.duration.span() == Span::ZERO {
            return invalid("duration is 0s, but must be longer".into());
        }
        Ok(())
    }

    fn check_payload(&self, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        let size = self.size;
        if self.verb.is_atomic() && size != 8 {
            return invalid(format!("size is {size}, but {} works on 8 bytes", self.verb));
        }
        let (Profile { name, .. }, limit) = least(&taking.posters, inlined);
        if self.inline && size > limit {
            return invalid(format!("size is {size}, but {name} inlines at most {limit} bytes"));
        }
        let places = |p: &&&Profile| !p.nic.receives_inline(size, self.transport == QpType::Ud);
        if let Some(Profile { name, .. }) = taking.responders.iter().find(places).filter(|_| self.inline_recv)
        {
            let transport = self.transport;
            return invalid(format!("{name} does not receive {size} bytes inline on {transport}"));
        }
        let (Profile { name, .. }, mtu) = least(&taking.all, mtu);
        if self.transport == QpType::Ud && size > mtu {
            return invalid(format!(
                "size is {size}, but a UD message is one packet of at most {mtu} bytes (the MTU of {name})"
            ));
        }
        let threads = u64::from(self.machines) * u64::from(self.threads);
        if threads * u64::from(size) > MAX_BYTES {
            return invalid(format!(
                "size is {size}, but the buffers of {threads} threads may take at most 4 GiB together"
            ));
        }
        Ok(())
    }

    fn check_queues(&self, asked: Option<u32>, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        let (profile, limit) = least(&taking.posters, queue);
        let asked = asked.unwrap_or(self.window);
        let why = format!("a queue of {} holds at most", profile.name);
        within("signal_every", self.signal_every, 1, limit, &why)?;
        within("window", asked, 1, limit, &why)?;
        within("batch", self.batch, 1, asked, "the window is")?;
        if self.window > limit {
            let (s, b, w) = (self.signal_every, self.batch, self.window);
            return invalid(format!(
                "signal_every {s} with batch {b} needs a window of {w}, but {why} {limit}"
            ));
        }
        Ok(())
    }

    /// The machines of each group of like ones, by their numbers.
    pub fn groups(&self) -> Vec<Range<u32>> {
        ranges(self.machine.as_deref(), self.machines)
    }

    /// Names of the profiles of the groups.
    fn profile_of_group(&self, group: usize) -> &str {
        let named = self.machine.as_ref().and_then(|groups| groups.get(group));
        named.map_or(&self.profile, |group| &group.profile)
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

    /// Bytes that the counters of a responder machine take; atomics only.
    pub fn counter_bytes(&self) -> Option<u64> {
        Some(u64::from(self.counters?) * u64::from(self.counter_stride?))
    }

    /// Pages of its memory.
    pub fn page_size(&self) -> PageSize {
        if self.huge_pages { PageSize::Huge } else { PageSize::Small }
    }

    /// The opcode of its send work requests.
    pub fn opcode(&self) -> Opcode {
        self.verb.opcode(self.header_only)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

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
            ("write", QpType::Uc, 32, Pattern::Outbound, 16, true, 7),
            ("read", QpType::Rc, 32, Pattern::Inbound, 1, false, 1),
            ("fetch-add", QpType::Rc, 8, Pattern::Inbound, 1, false, 1),
            ("compare-swap", QpType::Rc, 8, Pattern::Inbound, 1, false, 1),
        ] {
            let r = resolved(verb);
            let got = (r.transport, r.size, r.pattern, r.signal_every, r.inline, r.qps);
            assert_eq!(got, (transport, size, pattern, signal_every, inline, qps), "{verb}");
            assert_eq!(r.profile, "cib");
            assert_eq!(r.threads, 14);
        }
        assert!(!from("size = 4000").unwrap().inline, "too long to inline");
        assert_eq!(from("header_only = true").unwrap().size, 0);
    }

    #[test]
    fn window_holds_what_is_not_signalled() {
        for (toml, window) in [
            ("verb = \"read\"", 16),
            ("verb = \"read\"\nwindow = 3", 3),
            ("signal_every = 64", 128),
            ("signal_every = 64\nwindow = 16", 128),
            ("signal_every = 4\nbatch = 16\nwindow = 16", 20),
            ("signal_every = 1\nbatch = 32", 64),
        ] {
            assert_eq!(from(toml).unwrap().window, window, "{toml}");
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
            ("verb = \"fetch-add\"\ncounters = 0", "counters is 0"),
            ("verb = \"fetch-add\"\ncounter_stride = 12", "multiple of 8"),
            ("verb = \"fetch-add\"\ncounters = 4000000000", "1 GiB"),
            ("machines = 0", "machines is 0"),
            ("machines = 1", "at least 2"),
            ("machines = 2000", "at most 1024"),
            ("threads = 0", "threads is 0"),
            ("threads = 15", "threads is 15"),
            ("qps = 0", "qps is 0"),
            ("qps = 4000000000", "QPs, more than"),
            ("verb = \"read\"\npattern = \"all-to-all\"\nqps = 1", "at least 2"),
            ("window = 0", "window is 0"),
            ("window = 4000000000", "a queue of cib holds at most"),
            ("batch = 0", "batch is 0"),
            ("batch = 32\nwindow = 16", "batch is 32, but the window is 16"),
            ("signal_every = 0", "signal_every is 0"),
            ("signal_every = 4000000000", "signal_every is 4000000000"),
            ("duration = \"0ms\"", "duration is 0s"),
            ("duration = \"2 parsecs\"", "w.toml:1: `2 parsecs` is not a duration"),
            ("verb = \"send\"\n\nthreadz = 3", "w.toml:3: unknown field `threadz`"),
            ("verb = \"sned\"", "w.toml:1: unknown variant `sned`"),
            ("verb = ", "w.toml:1: "),
            ("size = -1", "w.toml:1: "),
            ("machine = []", "machine is an empty list"),
            ("[[machine]]\ncount = 2", "w.toml:1: missing field `profile`"),
            ("[[machine]]\nprofile = \"cx9\"\ncount = 2", "no profile cx9"),
            ("[[machine]]\nprofile = \"cib\"\ncounts = 2", "w.toml:3: unknown field `counts`"),
            ("[[machine]]\nprofile = \"cib\"\ncount = -2", "w.toml:3: "),
            (
                "[[machine]]\nprofile = \"cib\"\ncount = 0\n[[machine]]\nprofile = \"cx\"\ncount = 9",
                "count of the machines of profile cib is 0, but must be at least 1",
            ),
            ("[[machine]]\nprofile = \"cib\"", "machines is 1, but must be at least 2"),
            (
                "[[machine]]\nprofile = \"cib\"\ncount = 4294967295\n[[machine]]\nprofile = \"cx\"\ncount = 9",
                "machines is 4294967295, but a run has at most 1024",
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
            ("machine = 3", "w.toml:1: invalid type"),
        ] {
            let error = from(toml).expect_err(toml).to_string();
            assert!(error.contains(part), "{toml}: {error}");
            assert!(!error.contains('\n'), "{toml}: {error}");
        }
    }

    /// What is left out of these is one `cib` that posts to three `cx` with two cores of four.
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
    fn the_message_names_the_profile_that_forbids() {
        for (toml, part) in [
            ("threads = 5", "threads is 5, but a machine of profile cx has cores 4"),
            ("verb = \"send\"\nsize = 2049", "at most 2048 bytes (the MTU of cx)"),
            // Who is posted to inlines nothing, and who posts receives nothing.
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
        let usual = |size: u32, pattern| {
            from(&format!("size = {size}\npattern = \"{pattern}\"\n{MIXED}")).unwrap().inline
        };
        assert!(usual(401, "outbound") && usual(400, "inbound") && !usual(401, "inbound"));
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
            ("{\"verb\": \"send\"", "w.json:1: EOF while parsing"),
            ("", "w.json:1: EOF"),
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
            // By itself, a workload has no such keys.
            (r#"{"size": 8, "workload": {}}"#, "w.json:1: unknown field `workload`"),
            (r#"{"verb": "read", "total": 1}"#, "w.json:1: unknown field `total`"),
            ("{\"schema\": 1,\n\"workload\": {\"threadz\": 1}}", "w.json:2: unknown field `threadz`"),
            (r#"{"schema": 1, "workload": null}"#, "w.json holds no workload: its process has posted no"),
            (r#"{"schema": 1}"#, "w.json holds no workload"),
            (r#"[{"schema": 1}]"#, "w.json:1: invalid type"),
            (r#"{"schema": 1} {"schema": 1}"#, "w.json:1: trailing characters"),
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
