//! A workload filled in and checked against the profiles of its machines.

use crate::workload::{invalid, ranges, sum};
use crate::{Pattern, Profiles, Resolved, Verb, Workload, WorkloadError, topology};
use doorbell_nic::Profile;
use doorbell_schema::Duration;
use doorbell_verbs::{QpType, Span};
use std::ops::Range;

/// QPs of a run at most.
const MAX_QPS: u64 = 1 << 22;
/// Bytes that all counters of a machine may span.
const MAX_COUNTER_BYTES: u64 = 1 << 30;
/// Payload bytes at most, and what the buffers of all threads may take together.
const MAX_BYTES: u64 = 4 << 30;

/// Refuses more than `most`.
fn at_most(name: &str, value: u32, most: u32, why: &str) -> Result<(), WorkloadError> {
    if value > most { invalid(format!("{name} is {value}, but {why} {most}")) } else { Ok(()) }
}

impl Workload {
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
        resolved.check_ranges().map_err(WorkloadError::Invalid)?;
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
        let (profile, cores) = least(&taking.all, cores);
        at_most("threads", self.threads, cores, &format!("a machine of profile {} has cores", profile.name))?;
        let all = u64::from(self.machines) * u64::from(self.threads) * u64::from(self.qps);
        if all > MAX_QPS {
            return invalid(format!("the run would have {all} QPs, more than {MAX_QPS}"));
        }
        if self.pattern == Pattern::AllToAll && self.transport != QpType::Ud && self.qps < 2 {
            return invalid("qps is 1, but all-to-all on connected QPs needs at least 2, as QP 0 of machine 0 leads to itself".into());
        }
        if let (Some(counters), Some(stride)) = (self.counters, self.counter_stride) {
            if stride == 0 || !stride.is_multiple_of(8) {
                return invalid(format!(
                    "counter_stride is {stride}, but must be a positive multiple of 8 bytes"
                ));
            }
            if u64::from(counters) * u64::from(stride) > MAX_COUNTER_BYTES {
                return invalid(format!("{counters} counters {stride} bytes apart take more than 1 GiB"));
            }
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
        at_most("signal_every", self.signal_every, limit, &why)?;
        at_most("window", asked, limit, &why)?;
        at_most("batch", self.batch, asked, "the window is")?;
        if self.window > limit {
            let (s, b, w) = (self.signal_every, self.batch, self.window);
            return invalid(format!(
                "signal_every {s} with batch {b} needs a window of {w}, but {why} {limit}"
            ));
        }
        Ok(())
    }
}
