//! Describes the posts of a run's processes by one workload. The report lists the peers of each process. If
//! there are several kinds of posters, each kind is a class of threads in the workload.
//!
//! A workload has three patterns: machine 0 posts to all other machines, these post to machine 0, or each
//! machine posts to all others. All machines except machine 0 are alike. The report lists the posts that do
//! not fit into the workload. If no workload fits, the report gives the reason.

use super::posting::Posting;
use super::report::{Counts, Report, Role};
use super::workload::{Kinds, MTU, PostedKind, check, kinds_of, posted_of, workload};
use crate::counts::process::ProcessCounts;
use crate::counts::qp::QpCounts;
use crate::qp_numbers::slot_of;
use doorbell_nic::limits::gcd;
use doorbell_nic::{Profile, counted};
use doorbell_verbs::QpType;
use doorbell_workload::{Pattern, ThreadClass, Workload};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The least share of a process's posts at which a kind of work requests distinguishes the process from other
/// processes.
const SOME: f64 = 0.05;

/// A note about the values that depend on this device's timing, and would differ on a NIC.
const NOTE: &str = "the workload's windows and batches depend on the timing of this device if the programs \
                    post in response to completions";

/// The processes of a run together.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Together {
    schema: u32,
    profile: String,
    processes: Vec<Process>,
    /// The counts of all processes.
    total: Counts,
    note: &'static str,
    /// A workload for `doorbell simulate`; absent if no workload describes the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<Workload>,
    /// The share of all work requests that the workload covers.
    workload_share: f64,
    /// The parts of the run that the workload leaves out, or the reason why there is none; a sentence each.
    left_out: Vec<String>,
}

/// A process of the run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Process {
    pid: u32,
    program: String,
    role: Role,
    work_requests: u64,
    /// PIDs of the processes that it posted to, as far as they belong to this run.
    posts_to: Vec<u32>,
    /// The class of threads that stands for the process; absent if it posts nothing or there are no classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
}

/// A process and its counts.
#[derive(Clone, Debug)]
pub(super) struct RunMember {
    pid: u32,
    program: String,
    role: Role,
    work_requests: u64,
    total: Counts,
    /// The process's slot in the registry, which is part of its QP numbers.
    slot: u32,
    qps: Vec<QpCounts>,
}

impl RunMember {
    /// Reads the counts of a process; `None` if it made no QPs.
    fn of(name: &str, profile: &Profile, counts: &ProcessCounts<'_>) -> Option<RunMember> {
        let Report { pid, program, role, total, .. } = Report::new(name, profile, counts);
        let qps = counts.qps();
        let slot = slot_of(qps.first()?.qp_num);
        // The process may have posted since `total` was computed, so this number is the sum of `qps`.
        let work_requests = qps.iter().map(posted_of).sum();
        Some(RunMember { pid, program, role, work_requests, total, slot, qps })
    }

    /// QPs that posted to other processes.
    fn outward(&self) -> impl Iterator<Item = &QpCounts> {
        let leads_out = |qp: &&QpCounts| qp.peers().any(|peer| peer != self.slot);
        self.qps.iter().filter(|qp| posted_of(qp) > 0).filter(leads_out)
    }

    /// Slots of the other processes to which this process posted.
    fn peers(&self) -> BTreeSet<u32> {
        self.outward().flat_map(QpCounts::peers).filter(|peer| *peer != self.slot).collect()
    }

    fn base(&self) -> &str {
        self.program.rsplit('/').next().unwrap_or_default()
    }
}

/// The posts of a process to other processes, over its busiest transport.
struct Poster<'m> {
    member: &'m RunMember,
    transport: QpType,
    kinds: Kinds,
    qps: Vec<QpCounts>,
    posted: u64,
}

impl<'m> Poster<'m> {
    /// `None` if the process posts nothing to other processes. Describes all other posts of the process in
    /// `left_out`.
    fn of(member: &'m RunMember, left_out: &mut Vec<String>) -> Option<Poster<'m>> {
        let mut transports: BTreeMap<QpType, Vec<QpCounts>> = BTreeMap::new();
        for qp in member.outward() {
            transports.entry(qp.qp_type).or_default().push(qp.clone());
        }
        let all = |qps: &Vec<QpCounts>| qps.iter().map(posted_of).sum::<u64>();
        let transport = transports.iter().max_by_key(|(_, qps)| all(qps)).map(|(transport, _)| *transport)?;
        let qps = transports.remove(&transport)?;
        for (other, qps) in &transports {
            left_out.push(format!(
                "{} of process {} over {other}: the process posted more over {transport}",
                counted(all(qps), "work request"),
                member.pid
            ));
        }
        let within = member.work_requests - all(&qps) - transports.values().map(all).sum::<u64>();
        if within > 0 {
            left_out.push(format!("{} of process {} to itself", counted(within, "work request"), member.pid));
        }
        Some(Poster { member, transport, kinds: kinds_of(&qps), posted: all(&qps), qps })
    }

    /// The properties that distinguish kinds of posters: transport, verbs, and sizes rounded up to powers of
    /// two.
    fn sort(&self) -> (QpType, BTreeSet<PostedKind>) {
        let mut joined: BTreeMap<PostedKind, u64> = BTreeMap::new();
        for (kind, n) in self.kinds.iter().map(|(kind, posted)| (kind.rounded(), posted.work_requests())) {
            *joined.entry(kind).or_default() += n;
        }
        let some = joined.into_iter().filter(|(_, n)| *n as f64 >= SOME * self.posted as f64);
        (self.transport, some.map(|(kind, _)| kind).collect())
    }
}

/// Posters of one kind, which become a class of threads.
struct PosterGroup<'m> {
    posters: Vec<Poster<'m>>,
    pattern: Pattern,
}

impl PosterGroup<'_> {
    fn name(&self) -> String {
        let first = self.posters[0].member;
        match self.posters.len() - 1 {
            0 => format!("{} {}", first.base(), first.pid),
            more => format!("{} {} and {more} more", first.base(), first.pid),
        }
    }

    fn pids(&self) -> impl Iterator<Item = u32> {
        self.posters.iter().map(|poster| poster.member.pid)
    }

    fn posted(&self) -> u64 {
        self.posters.iter().map(|poster| poster.posted).sum()
    }

    /// A workload of `machines` machines, in which these processes are threads of `posters` machines. Also
    /// returns the number of threads of each such machine.
    fn workload(
        &self,
        name: &str,
        profile: &Profile,
        machines: u32,
        posters: u32,
        left_out: &mut Vec<String>,
    ) -> (Workload, u32) {
        let each: Vec<&[QpCounts]> = self.posters.iter().map(|poster| &poster.qps[..]).collect();
        let posting = Posting::of_processes(&each);
        let threads = posting.threads.div_ceil(posters).max(1);
        let posting = Posting { machines, posters, threads, ..posting };
        let own = workload(name, profile, &each, &posting, left_out);
        (Workload { pattern: Some(self.pattern), ..own }, threads)
    }
}

/// The pattern of posts between the processes.
enum RunPattern {
    /// All posts go to this slot, or come from it.
    Star(u32),
    /// Each process posts to all other processes.
    All,
}

impl RunPattern {
    /// # Errors
    /// A sentence if the posts have neither pattern.
    fn of(members: &[RunMember], slots: &BTreeSet<u32>) -> Result<RunPattern, String> {
        let edges: Vec<(u32, u32)> =
            members.iter().flat_map(|m| m.peers().into_iter().map(move |peer| (m.slot, peer))).collect();
        let centre = |slot: &&u32| edges.iter().all(|(from, to)| *from == **slot || *to == **slot);
        let comes = |slot: u32| edges.iter().filter(|(_, to)| *to == slot).count();
        let posts =
            |slot: u32| members.iter().filter(|m| m.slot == slot).map(|m| m.work_requests).sum::<u64>();
        // Each of two processes can be the centre. The centre is the process to which more processes post, or
        // else the process that posts less.
        let most = |slot: &&u32| (comes(**slot), u64::MAX - posts(**slot), u32::MAX - **slot);
        if let Some(slot) = slots.iter().filter(centre).max_by_key(most) {
            return Ok(RunPattern::Star(*slot));
        }
        match edges.len() == slots.len() * (slots.len() - 1) {
            true => Ok(RunPattern::All),
            false => Err(format!(
                "the posts of the {} processes fit no workload: no process takes part in every post, and not \
                 every process posts to every other process",
                slots.len()
            )),
        }
    }
}

/// A workload that describes processes.
struct Made {
    workload: Workload,
    posted: u64,
    /// The class of each process that posts, by PID, if there are classes.
    classes: BTreeMap<u32, String>,
}

/// Groups posters of one kind. The groups are in the order of their first posters.
fn grouped<'m>(posters: impl Iterator<Item = Poster<'m>>, pattern: Pattern) -> Vec<PosterGroup<'m>> {
    let mut groups: Vec<PosterGroup<'m>> = Vec::new();
    for poster in posters {
        match groups.iter_mut().find(|group| group.posters[0].sort() == poster.sort()) {
            Some(group) => group.posters.push(poster),
            None => groups.push(PosterGroup { posters: vec![poster], pattern }),
        }
    }
    groups
}

/// The processes, with posts to any slot of a process as posts to its first one. A process with many QPs has
/// several slots.
fn with_one_slot_each(members: &[RunMember]) -> Vec<RunMember> {
    let further = |m: &RunMember| -> Vec<(u32, u32)> {
        m.qps.iter().map(|qp| (slot_of(qp.qp_num), m.slot)).filter(|(slot, first)| slot != first).collect()
    };
    let first: BTreeMap<u32, u32> = members.iter().flat_map(further).collect();
    let mut members = members.to_vec();
    if !first.is_empty() {
        let qps = members.iter_mut().flat_map(|m| &mut m.qps);
        qps.for_each(|qp| qp.replace_peers(|slot| first.get(&slot).copied().unwrap_or(slot)));
    }
    members
}

/// The workload of all processes.
///
/// # Errors
/// A sentence if there is none.
fn made(
    name: &str,
    profile: &Profile,
    members: &[RunMember],
    left_out: &mut Vec<String>,
) -> Result<Made, String> {
    check_places(members)?;
    let slots: BTreeSet<u32> = members
        .iter()
        .filter(|m| m.outward().next().is_some())
        .flat_map(|m| m.peers().into_iter().chain([m.slot]))
        .collect();
    if slots.is_empty() {
        return Err("no process posted to another process".to_owned());
    }
    let unknown = slots.iter().filter(|slot| members.iter().all(|m| m.slot != **slot)).count() as u64;
    if unknown > 0 {
        left_out
            .push(format!("the posts of {} of another run or without counted QPs", counted(unknown, "peer")));
    }
    let others = slots.len() as u32 - 1;
    let (groups, machines) = match RunPattern::of(members, &slots)? {
        RunPattern::Star(hub) => star(members, hub, others, left_out),
        RunPattern::All => all_to_all(members, others, left_out)?,
    };
    joined(name, profile, &groups, machines, left_out)
}

/// Checks that no two posting processes have one slot. The slot is reused only after the first process has
/// exited.
fn check_places(members: &[RunMember]) -> Result<(), String> {
    let posting: Vec<&RunMember> = members.iter().filter(|m| m.work_requests > 0).collect();
    let later = |(at, m): (usize, &&RunMember)| {
        let earlier = posting[..at].iter().find(|other| other.slot == m.slot)?;
        Some((earlier.pid, m.pid))
    };
    match posting.iter().enumerate().find_map(later) {
        Some((one, other)) => Err(format!(
            "process {other} started after process {one} had exited, but a workload describes processes that \
             run together; simulate the file of each process"
        )),
        None => Ok(()),
    }
}

/// Groups the posts to and from the process in slot `hub`. Also returns the number of machines without the
/// machine of `hub`. Posters of one kind are machines. If there are several kinds, each machine has threads
/// of all kinds.
fn star<'m>(
    members: &'m [RunMember],
    hub: u32,
    others: u32,
    left_out: &mut Vec<String>,
) -> (Vec<PosterGroup<'m>>, u32) {
    let centre =
        members.iter().filter(|m| m.slot == hub).filter_map(|m| Poster::of(m, left_out)).collect::<Vec<_>>();
    let rest: Vec<Poster<'m>> =
        members.iter().filter(|m| m.slot != hub).filter_map(|m| Poster::of(m, left_out)).collect();
    let outbound =
        centre.into_iter().map(|poster| PosterGroup { posters: vec![poster], pattern: Pattern::Outbound });
    let inbound = grouped(rest.into_iter(), Pattern::Inbound);
    let sizes = inbound.iter().map(|group| group.posters.len() as u64);
    let groups: Vec<PosterGroup<'m>> = outbound.collect();
    let of_hub = (!groups.is_empty()).then_some(u64::from(others));
    let machines = sizes.chain(of_hub).fold(0, gcd).max(1) as u32;
    if machines < others {
        left_out.push(format!(
            "the separate NICs of {others} processes: machines that post are alike in a workload, so \
             processes that post different things become threads of {}",
            counted(machines.into(), "machine")
        ));
    }
    if !groups.is_empty() && !inbound.is_empty() {
        left_out.push(
            "the dependency of replies on requests: each class posts as fast as its window allows, and waits \
             for no other class".to_owned(),
        );
    }
    (groups.into_iter().chain(inbound).collect(), machines)
}

/// Makes one group of processes that each post to all others. They must use one transport. If they differ in
/// other ways, the group posts their average. Also returns `others`.
fn all_to_all<'m>(
    members: &'m [RunMember],
    others: u32,
    left_out: &mut Vec<String>,
) -> Result<(Vec<PosterGroup<'m>>, u32), String> {
    let posters: Vec<Poster<'m>> = members.iter().filter_map(|m| Poster::of(m, left_out)).collect();
    if posters.iter().any(|poster| poster.transport != posters[0].transport) {
        return Err(
            "the processes that post to all other processes use several transports, but all machines of \
             a workload are alike"
                .to_owned(),
        );
    }
    if posters.iter().any(|poster| poster.sort() != posters[0].sort()) {
        left_out.push(
            "the differences between processes: in the workload, each process posts the average of all \
             processes"
                .to_owned(),
        );
    }
    Ok((vec![PosterGroup { posters, pattern: Pattern::AllToAll }], others))
}

/// Joins the groups into one workload of `others` + 1 machines.
fn joined(
    name: &str,
    profile: &Profile,
    groups: &[PosterGroup<'_>],
    others: u32,
    left_out: &mut Vec<String>,
) -> Result<Made, String> {
    let all: Vec<(Workload, u32)> = groups
        .iter()
        .map(|group| {
            let posters = match group.pattern {
                Pattern::Outbound => 1,
                Pattern::Inbound => others,
                Pattern::AllToAll => others + 1,
            };
            let mut of_group = Vec::new();
            let made = group.workload(name, profile, others + 1, posters, &mut of_group);
            let whose = |what| if groups.len() > 1 { format!("{}: {what}", group.name()) } else { what };
            left_out.extend(of_group.into_iter().map(whose));
            made
        })
        .collect();
    let (threads, cores) = (all.iter().map(|(_, threads)| threads).sum::<u32>(), profile.host.cores);
    if threads > cores {
        return Err(format!(
            "the classes have {} in total, but a machine of {} has {cores} cores, and thread t belongs to \
             one class on all machines",
            counted(threads.into(), "thread"),
            profile.name
        ));
    }
    let posted = groups.iter().map(PosterGroup::posted).sum();
    let (workload, classes) = match &all[..] {
        [(one, _)] => (one.clone(), BTreeMap::new()),
        several => {
            let class = |(group, (own, threads)): (&PosterGroup<'_>, &(Workload, u32))| ThreadClass {
                name: Some(group.name()),
                threads: *threads,
                says: Workload { profile: None, set: None, machines: None, threads: None, ..own.clone() },
            };
            let classes = groups.iter().zip(several).map(class).collect();
            let names = groups.iter().flat_map(|group| group.pids().map(|pid| (pid, group.name())));
            let whole = Workload {
                profile: Some(name.to_owned()),
                set: with_common_set(several, left_out).and_then(|own| own.set.clone()),
                machines: Some(others + 1),
                class: Some(classes),
                ..Workload::default()
            };
            (whole, names.collect())
        }
    };
    check(profile, &workload)?;
    Ok(Made { workload, posted, classes })
}

/// A class whose settings of the profile are those of all classes. A shorter MTU is a setting of all classes
/// if all classes with connected QPs have it, and no class has longer datagrams.
fn with_common_set<'c>(classes: &'c [(Workload, u32)], left_out: &mut Vec<String>) -> Option<&'c Workload> {
    let (datagrams, connected): (Vec<&Workload>, Vec<&Workload>) =
        classes.iter().map(|(own, _)| own).partition(|own| own.transport == Some(QpType::Ud));
    let shorter = *connected.iter().find(|own| own.set.is_some())?;
    let mtu = shorter.set.as_ref()?.get(MTU)?.get();
    let longest = datagrams.into_iter().map(longest).max().unwrap_or(0);
    let why = if connected.iter().any(|own| own.set != shorter.set) {
        "the classes have different values".to_owned()
    } else if f64::from(longest) > mtu {
        format!("a class has {mtu}, but another class has datagrams of {longest} bytes")
    } else {
        return Some(shorter);
    };
    left_out.push(format!("path_mtu: {why}; the workload has the profile's MTU"));
    None
}

/// The longest payload of a workload in bytes.
fn longest(workload: &Workload) -> u32 {
    let of_mix = workload.mix.iter().flat_map(|mix| mix.items()).filter_map(|item| item.size);
    of_mix.chain(workload.size).max().unwrap_or(0)
}

impl Together {
    /// The counts of all processes of a run; `None` if fewer than two have made QPs. `name` is the profile's
    /// name or file as the user gave it.
    pub(crate) fn new(name: &str, profile: &Profile, all: &[ProcessCounts<'_>]) -> Option<Together> {
        let members: Vec<RunMember> =
            all.iter().filter_map(|counts| RunMember::of(name, profile, counts)).collect();
        let alive = all.iter().filter(|counts| counts.is_alive()).map(ProcessCounts::pid);
        let alive: Vec<String> =
            alive.map(|pid| format!("later posts of process {pid}, which was still running")).collect();
        (members.len() > 1).then(|| Together::of(name, profile, &members, alive))
    }

    fn of(name: &str, profile: &Profile, members: &[RunMember], mut left_out: Vec<String>) -> Together {
        let members = &*with_one_slot_each(members);
        let made = made(name, profile, members, &mut left_out);
        let all: u64 = members.iter().map(|m| m.work_requests).sum();
        let (workload, posted, classes) = match made {
            Ok(made) => (Some(made.workload), made.posted, made.classes),
            Err(why) => {
                left_out = vec![format!("everything: {why}")];
                (None, 0, BTreeMap::new())
            }
        };
        let mut total = Counts::default();
        members.iter().for_each(|m| total.add_all(&m.total));
        let pid_at = |slot: u32| members.iter().find(|m| m.slot == slot).map(|m| m.pid);
        let process = |m: &RunMember| Process {
            pid: m.pid,
            program: m.program.clone(),
            role: m.role,
            work_requests: m.work_requests,
            posts_to: m.peers().into_iter().filter_map(pid_at).collect(),
            class: classes.get(&m.pid).cloned(),
        };
        Together {
            schema: 2,
            profile: profile.name.clone(),
            processes: members.iter().map(process).collect(),
            total,
            note: NOTE,
            workload,
            workload_share: posted as f64 / all.max(1) as f64,
            left_out,
        }
    }

    /// The counts of all processes.
    pub(super) fn total(&self) -> &Counts {
        &self.total
    }

    /// The parts of the run that the workload leaves out, or the reason why there is no workload.
    pub(super) fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// A line about the number of processes, and about the machines and the classes or the pattern of the
    /// workload.
    pub(super) fn words(&self) -> String {
        let classes = |workload: &Workload| workload.class.as_ref().map_or(0, Vec::len);
        let what = match &self.workload {
            None => "no workload describes their posts".to_owned(),
            Some(workload) => {
                let share = 100.0 * self.workload_share;
                let pattern =
                    workload.pattern.map_or(String::new(), |pattern| format!(", {}", name_of(pattern)));
                let classes = match classes(workload) {
                    0 => pattern,
                    several => format!(", {several} classes of threads"),
                };
                let machines = counted(workload.machines.unwrap_or(2).into(), "machine");
                format!("workload of {machines}{classes}: {share:.0}% of the work requests")
            }
        };
        format!("{} processes together: {what}", self.processes.len())
    }
}

fn name_of(pattern: Pattern) -> &'static str {
    Pattern::ALL.iter().find(|(_, known)| *known == pattern).map_or("", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::board::Board;
    use crate::counts::qp::QpCounter;
    use crate::qp_numbers::qp_num;
    use doorbell_verbs::{RemoteAddr, SendOp, SendWr, Sge};
    use std::sync::atomic::AtomicU64;

    /// The posts of a QP: `times` requests in lists of `list` requests, to the slots `to` in turn.
    struct Posts {
        transport: QpType,
        op: SendOp,
        bytes: u32,
        times: u32,
        list: u32,
        to: Vec<u32>,
        path_mtu: Option<u32>,
    }

    const WRITE: SendOp = SendOp::Write(RemoteAddr { addr: 0, rkey: 0 });
    const READ: SendOp = SendOp::Read(RemoteAddr { addr: 0, rkey: 0 });

    fn posts(op: SendOp, bytes: u32, to: &[u32]) -> Posts {
        Posts { transport: QpType::Rc, op, bytes, times: 64, list: 1, to: to.to_vec(), path_mtu: None }
    }

    /// A process in a slot, with QPs that post.
    fn member(slot: u32, all: &[Posts]) -> RunMember {
        let (_, board) = Board::create().expect("a board");
        let list: &AtomicU64 = Box::leak(Box::default());
        let idle = Posts { times: 0, ..posts(SendOp::Send, 0, &[]) };
        for (index, posts) in [&idle].into_iter().chain(all).enumerate() {
            let num = qp_num(slot, index as u32);
            let (mut qp, _) = QpCounter::new(board, list, (num, posts.transport), 0).expect("there is room");
            qp.modified(posts.path_mtu);
            let sges = [Sge::default()];
            let wr = SendWr::new(0, posts.op, &sges);
            for (n, to) in posts.to.iter().cycle().take(posts.times as usize).enumerate() {
                qp.posted(&wr, posts.bytes, false, true, 4);
                if (n + 1).is_multiple_of(posts.list as usize) {
                    qp.list_ends(*to, || 1);
                }
            }
        }
        let qps: Vec<QpCounts> =
            board.listed(list).into_iter().filter_map(|record| QpCounts::of(board, record)).collect();
        let work_requests = qps.iter().map(posted_of).sum();
        let (pid, program) = (100 + slot, "/bin/store".to_owned());
        RunMember { pid, program, role: Role::Requester, work_requests, total: Counts::default(), slot, qps }
    }

    fn together(members: &[RunMember]) -> Together {
        Together::of("cib", &Profile::named("cib").unwrap(), members, Vec::new())
    }

    #[test]
    fn a_process_with_several_slots_is_one() {
        // The server has QPs of slots 1 and 7. The QP of slot 7 answers.
        let (mut server, other) = (member(1, &[]), member(7, &[posts(READ, 8, &[2])]));
        server.work_requests += other.work_requests;
        server.qps.extend(other.qps);
        let client = member(2, &[posts(WRITE, 8, &[7, 1])]);
        let all = together(&[server, client]);
        let told: Vec<(u32, &[u32])> = all.processes.iter().map(|p| (p.pid, &*p.posts_to)).collect();
        assert_eq!(told, [(101, &[102][..]), (102, &[101])]);
    }

    fn resolved(all: &Together) -> doorbell_workload::Resolved {
        let workload = all.workload.clone().unwrap_or_else(|| panic!("{all:?}"));
        // The workload goes through JSON, as in a file.
        let json = serde_json::to_string(&serde_json::json!({ "schema": 2, "workload": workload })).unwrap();
        let workload = Workload::from_json("all.json", &json).unwrap();
        workload.resolve(&workload.load_profiles().unwrap()).unwrap()
    }

    #[test]
    fn like_clients_are_machines_that_post_to_the_server() {
        let clients = [1, 2, 3].map(|slot| member(slot, &[posts(READ, 64, &[0])]));
        let all = together(&[&[member(0, &[])][..], &clients].concat());
        let w = resolved(&all);
        assert_eq!((w.machines, w.pattern, w.threads, w.has_classes()), (4, Pattern::Inbound, 1, false));
        assert_eq!((w.longest(), w.window().operations(), all.workload_share), (64, 4, 1.0));
        assert!(all.left_out.is_empty() && all.processes[1].posts_to == [100], "{all:?}");
    }

    #[test]
    fn a_server_that_answers_is_a_class_of_its_own() {
        let request = |slot| member(slot, &[Posts { transport: QpType::Uc, ..posts(WRITE, 32, &[0]) }]);
        let reply = Posts { transport: QpType::Ud, list: 4, ..posts(SendOp::Send, 16, &[1, 2]) };
        let all = together(&[member(0, &[reply]), request(1), request(2)]);
        let w = resolved(&all);
        let classes = w.classes();
        let of = |n: usize| {
            let own = &classes[n].workload;
            (classes[n].name.as_str(), own.pattern, own.transport, own.longest(), own.batch, own.machines)
        };
        assert_eq!(of(0), ("store 100", Pattern::Outbound, QpType::Ud, 16, 4, 3));
        assert_eq!(of(1), ("store 101 and 1 more", Pattern::Inbound, QpType::Uc, 32, 1, 3));
        assert_eq!(all.processes[2].class.as_deref(), Some("store 101 and 1 more"));
        let [answers] = &all.left_out[..] else { panic!("{all:?}") };
        assert!(answers.starts_with("the dependency of replies on requests"), "{answers}");
        assert!(
            all.words().ends_with("workload of 3 machines, 2 classes of threads: 100% of the work requests")
        );
    }

    #[test]
    fn clients_that_differ_are_classes_of_the_same_machines() {
        let reader = |slot| member(slot, &[posts(READ, 64, &[0])]);
        let writer = |slot| member(slot, &[posts(WRITE, 4096, &[0])]);
        let all =
            together(&[member(0, &[]), reader(1), reader(2), reader(3), reader(4), writer(5), writer(6)]);
        let w = resolved(&all);
        let threads: Vec<u32> = w.classes().iter().map(|class| class.workload.threads).collect();
        // As many posters as in the run: two machines with two readers and a writer each.
        assert_eq!((w.machines, threads), (3, vec![2, 1]));
        let [merged] = &all.left_out[..] else { panic!("{all:?}") };
        assert!(
            merged.contains("the separate NICs of 6 processes") && merged.ends_with("threads of 2 machines"),
            "{merged}"
        );
    }

    #[test]
    fn a_short_mtu_is_that_of_all_classes_or_left_out() {
        let client = |slot, op, mtu| member(slot, &[Posts { path_mtu: Some(mtu), ..posts(op, 64, &[0]) }]);
        for (bytes, of_second, set, told) in [
            (1024, 1024, Some(1024.0), None),
            (
                2048,
                1024,
                None,
                Some("path_mtu: a class has 1024, but another class has datagrams of 2048 bytes; "),
            ),
            (512, 4096, None, Some("path_mtu: the classes have different values; ")),
            (512, 512, None, Some("path_mtu: the classes have different values; ")),
        ] {
            let reply = Posts { transport: QpType::Ud, ..posts(SendOp::Send, bytes, &[1, 2]) };
            let all = together(&[member(0, &[reply]), client(1, WRITE, 1024), client(2, READ, of_second)]);
            let given = resolved(&all).set.map(|set| set["link.mtu_bytes"].get());
            let about = all.left_out.iter().find(|what| what.starts_with("path_mtu"));
            let is_told = told.is_none_or(|told| about.is_some_and(|about| about.starts_with(told)));
            assert!(given == set && is_told && about.is_some() == told.is_some(), "{bytes} {all:?}");
        }
    }

    #[test]
    fn all_that_post_to_all_do_so_in_the_workload() {
        let others = |slot: u32| (0..4).filter(|other| *other != slot).collect::<Vec<_>>();
        let peer = |slot: u32| {
            member(slot, &others(slot).iter().map(|to| posts(WRITE, 8, &[*to])).collect::<Vec<_>>())
        };
        let all = together(&[0, 1, 2, 3].map(peer));
        let w = resolved(&all);
        assert_eq!(
            (w.machines, w.pattern, w.only_operation().map(|only| only.verb)),
            (4, Pattern::AllToAll, Some(doorbell_workload::Verb::Write))
        );
        assert!(all.left_out.is_empty(), "{all:?}");
    }

    #[test]
    fn what_no_workload_says_is_said() {
        let to = |slot: u32, peers: &[u32]| member(slot, &[posts(WRITE, 8, peers)]);
        for (members, why) in [
            (
                vec![to(0, &[1]), to(1, &[2]), to(2, &[3]), member(3, &[])],
                "the posts of the 4 processes fit no workload",
            ),
            (vec![to(0, &[0]), member(1, &[])], "no process posted to another process"),
            (
                vec![member(0, &[]), to(1, &[0]), to(1, &[0])],
                "process 101 started after process 101 had exited",
            ),
        ] {
            let all = together(&members);
            assert!(all.workload.is_none() && all.workload_share == 0.0, "{all:?}");
            let [said] = &all.left_out[..] else { panic!("{all:?}") };
            assert!(said.starts_with("everything: ") && said.contains(why), "{said}");
        }
    }

    #[test]
    fn what_is_left_out_is_counted_and_said() {
        let over_ud = Posts { transport: QpType::Ud, times: 32, ..posts(SendOp::Send, 8, &[0]) };
        let client = member(1, &[posts(READ, 64, &[0]), over_ud, posts(WRITE, 8, &[1])]);
        let all = together(&[member(0, &[]), client]);
        assert_eq!(all.workload_share, 64.0 / 160.0);
        assert_eq!(
            all.left_out,
            [
                "32 work requests of process 101 over UD: the process posted more over RC",
                "64 work requests of process 101 to itself"
            ]
        );
        let elsewhere = together(&[member(1, &[posts(READ, 64, &[9])]), member(2, &[posts(READ, 64, &[9])])]);
        assert_eq!((resolved(&elsewhere).machines, elsewhere.left_out.len()), (3, 1), "{elsewhere:?}");
        assert!(elsewhere.left_out[0].starts_with("the posts of 1 peer of another run"));
    }
}
