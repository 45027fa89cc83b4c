//! Filling in a workload and checking it against the profiles of its machines.

use crate::error::{at_most, invalid};
use crate::taking::{Taking, cores, cq, inlined, least, queue};
use crate::workload::{ranges, sum};
use crate::{
    Item, MachineGroup, Mix, Operation, Pattern, Profiles, Resolved, Verb, Window, Workload, WorkloadError,
};
use doorbell_nic::Profile;
use doorbell_schema::{Duration, Schema, Share};
use doorbell_verbs::{QpType, Span};

impl Workload {
    /// Fills in missing values, and checks everything against the profiles of the machines.
    pub fn resolve(&self, profiles: &Profiles) -> Result<Resolved, WorkloadError> {
        match &self.class {
            Some(classes) => self.resolve_classes(classes, profiles),
            None => self.resolve_threads(profiles),
        }
    }

    /// Fills in and checks a workload whose threads are all alike.
    pub(crate) fn resolve_threads(&self, profiles: &Profiles) -> Result<Resolved, WorkloadError> {
        let inlined = self.resolve_as_given(profiles)?;
        Ok(self.faster_by_dma(profiles, &inlined).map_or(inlined, |(by_dma, _)| by_dma))
    }

    /// Fills in and checks a workload whose threads are all alike. Payload is copied into WQEs if it fits,
    /// unless an option says otherwise.
    pub(crate) fn resolve_as_given(&self, profiles: &Profiles) -> Result<Resolved, WorkloadError> {
        self.check_groups()?;
        let items = self.items()?;
        let verbs = || items.iter().map(|(verb, ..)| *verb);
        let carries = verbs().all(Verb::carries_payload);
        let arrivals = self.arrivals.filter(|arrivals| arrivals.is_open());
        let think = self.think.filter(|think| think.span() > Span::ZERO);
        let selective = carries && self.drain != Some(true) && arrivals.is_none() && think.is_none();
        let batch = self.batch.unwrap_or(1);
        let header_only = self.header_only.unwrap_or(false);
        let pattern = self.pattern.unwrap_or(if carries { Pattern::Outbound } else { Pattern::Inbound });
        let iwarp = profiles.all().any(|profile| profile.device.generation.is_iwarp());
        let usual = if iwarp { QpType::Rc } else { usual_transport(verbs()) };
        let transport = self.transport.unwrap_or(usual);
        let machines = self.machine.as_deref().map_or(self.machines.unwrap_or(8), sum);
        let taking = Taking::of(profiles, pattern, &ranges(self.machine.as_deref(), machines))?;
        let qps = self.qps.unwrap_or(usual_qps(transport, pattern, machines));
        let made = match (transport, pattern) {
            (QpType::Rc | QpType::Uc, Pattern::AllToAll) => qps.checked_next_multiple_of(machines.max(1)),
            _ => Some(qps),
        };
        let room = Room::of(&taking, made.unwrap_or(u32::MAX));
        let given_window = self.given_window()?;
        let most_lanes = most_lanes(transport, pattern, machines, qps);
        let usual_signal = match given_window {
            _ if !selective => 1,
            None => room.usual_signal(batch),
            Some(window) => window.usual_signal(room.usual_signal(batch), batch, most_lanes),
        };
        let signal_every = self.signal_every.unwrap_or(usual_signal);
        let window = given_window.unwrap_or(room.usual_window(signal_every, batch));
        let inlines = self.inlines(&items, least(&taking.posters, inlined).1);
        let one = items[0];
        let filled = Workload {
            profile: Some(self.profile_name().to_owned()),
            host: self.host.as_deref().map(|host| Profile::canonical_host(host).to_owned()),
            pcie: self.pcie,
            link: self.link,
            set: self.set.clone(),
            machine: self.machine.as_ref().map(|all| all.iter().map(MachineGroup::canonical).collect()),
            class: None,
            verb: self.mix.is_none().then_some(one.0),
            mix: self.mix.is_some().then(|| mix_of(&items)),
            transport: Some(transport),
            size: self.mix.is_none().then_some(one.1),
            machines: Some(machines),
            threads: Some(self.threads.unwrap_or(least(&taking.all, cores).1)),
            qps: Some(qps),
            window: window.per_thread(),
            window_per_qp: window.per_qp(),
            max_rd_atomic: self.max_rd_atomic,
            ports: self.ports,
            socket: self.socket,
            memory_socket: self.memory_socket,
            peer_socket: self.peer_socket,
            peer_memory_socket: self.peer_memory_socket,
            batch: Some(batch),
            signal_every: Some(signal_every),
            cq_per_qp: self.cq_per_qp.filter(|own| *own),
            inline: Some(inlines.is_some()),
            inline_up_to: inlines.filter(|_| self.mix.is_some()),
            sges: self.sges,
            pieces: self.pieces,
            offset: self.offset,
            random_offset: self.random_offset.filter(|random| *random),
            local_region: self.local_region,
            remote_region: self.remote_region,
            addresses: self.addresses,
            remote_addresses: self.remote_addresses,
            remote_memory: self.remote_memory,
            header_only: Some(header_only),
            inline_recv: Some(self.inline_recv.unwrap_or(false)),
            drain: Some(self.drain.unwrap_or(false)),
            arrivals,
            rate: self.rate.filter(|rate| *rate > 0),
            think,
            counters: self.counters.or(verbs().any(Verb::is_atomic).then_some(1)),
            counter_stride: self.counter_stride.or(verbs().any(Verb::is_atomic).then_some(8)),
            huge_pages: Some(self.huge_pages.unwrap_or(true)),
            pattern: Some(pattern),
            warmup: self.warmup,
            duration: self.duration,
            precision: Some(self.precision.unwrap_or(Share::of_percent(1))),
            until: self.until,
            max_time: Some(self.max_time.unwrap_or(Duration::new(Span::from_ms(1000)))),
            seed: Some(self.seed.unwrap_or(1)),
        };
        filled.check_ranges().map_err(WorkloadError::Invalid)?;
        let resolved = Resolved::try_from(filled).map_err(WorkloadError::Invalid)?;
        self.check_combinations(&resolved)?;
        resolved.check_links(&taking)?;
        resolved.check_placement(&taking)?;
        resolved.check_threads(&taking)?;
        resolved.check_counts()?;
        resolved.check_ports(&taking)?;
        resolved.check_reads(&taking)?;
        resolved.check_payload(&taking)?;
        self.check_queues(&resolved, &taking, most_lanes)?;
        resolved.check_buffers(self, &taking)?;
        resolved.check_remote_memory(&taking)?;
        resolved.check_cqs(profiles)?;
        Ok(resolved)
    }

    /// The largest payload in bytes that is copied into WQEs, or `None` if no payload is. If a workload of
    /// one verb requests inline payload, `limit` does not apply here: a payload that is too long is refused
    /// later.
    fn inlines(&self, items: &[(Verb, u32, u32)], limit: u32) -> Option<u32> {
        // Options about the payload's memory imply that the payload is in memory.
        let of_memory = self.sges.is_some_and(|sges| sges > 1) || self.local_region.is_some();
        let up_to = match (&self.mix, self.inline) {
            (None, Some(true)) => u32::MAX,
            _ => self.inline_up_to.unwrap_or(limit),
        };
        let any = items.iter().any(|(verb, size, _)| verb.has_payload(*size) && *size <= up_to);
        (any && self.inline.unwrap_or(!of_memory)).then_some(up_to)
    }

    fn check_combinations(&self, r: &Resolved) -> Result<(), WorkloadError> {
        let operations = r.operations();
        let any = |is: fn(Verb) -> bool| operations.iter().any(|operation| is(operation.verb));
        // If an option applies to no operation, the message names these verbs.
        let verbs = r.verb_names();
        for Operation { verb, opcode, .. } in operations {
            let transport = r.transport;
            if !opcode.is_offered_by(transport) {
                let offering: Vec<String> = [QpType::Rc, QpType::Uc, QpType::Ud]
                    .into_iter()
                    .filter(|t| opcode.is_offered_by(*t))
                    .map(|t| t.to_string())
                    .collect();
                return invalid(format!("{transport} does not offer {verb}, use {}", offering.join(" or ")));
            }
        }
        let sends = any(Verb::consumes_recv);
        if r.header_only && !sends {
            return invalid(format!("header-only is for SEND, not for {verbs}"));
        }
        let long = operations.iter().find(|operation| operation.verb == Verb::Send && operation.size > 0);
        if let Some(Operation { size, .. }) = long.filter(|_| r.header_only) {
            return invalid(format!("header-only messages have no payload, but size is {size} bytes"));
        }
        if self.inline == Some(true) && !any(Verb::carries_payload) {
            return invalid(format!("a {verbs} request carries no payload that could be inlined"));
        }
        self.check_inline_of_mix(r)?;
        if r.inline_recv && !sends {
            return invalid(format!("inline-receive is for SEND, not for {verbs}"));
        }
        if r.drain && self.window_per_qp.is_some() {
            return invalid("drain applies to the window of a thread: use window, not window_per_qp".into());
        }
        if r.drain && (r.batch > 1 || r.signal_every > 1 || r.pattern == Pattern::AllToAll) {
            return invalid(
                "drain uses the QPs of a window in turn, so batch and signal_every must be 1 and the \
                 pattern must not be all-to-all"
                    .into(),
            );
        }
        self.check_pace(r)?;
        if !any(Verb::is_atomic) && (self.counters.is_some() || self.counter_stride.is_some()) {
            return invalid(format!("counters are for fetch-and-add and compare-and-swap, not for {verbs}"));
        }
        Ok(())
    }

    /// Checks that the inline options of a mix have an effect.
    fn check_inline_of_mix(&self, r: &Resolved) -> Result<(), WorkloadError> {
        let up_to = self.inline_up_to.map(|bytes| format!("inline_up_to is {bytes}, but "));
        if self.mix.is_none() {
            let why = |said| invalid(format!("{said}it applies to a mix only: use inline"));
            return up_to.map_or(Ok(()), why);
        }
        match up_to {
            Some(said) if !r.inlines() => invalid(format!(
                "{said}no payload of the mix is inlined with this \
                 limit"
            )),
            None if self.inline == Some(true) && !r.inlines() => {
                invalid("inline is set, but no payload of the mix is short enough for the WQE".into())
            }
            _ => Ok(()),
        }
    }

    /// Checks that the given values, and values that follow from them, fit a queue. Usual values then always
    /// fit.
    fn check_queues(&self, r: &Resolved, taking: &Taking<'_>, lanes: u32) -> Result<(), WorkloadError> {
        let (profile, limit) = least(&taking.posters, queue);
        let why = format!("a queue of {} holds at most", profile.name);
        at_most("signal_every", r.signal_every, limit, &why)?;
        if self.given_window()?.is_some() {
            return r.check_window(lanes, limit, &why);
        }
        at_most("batch", r.batch, limit, &why)?;
        let w = r.window().operations();
        if w > limit {
            let (s, b) = (r.signal_every, r.batch);
            let of_batch = if self.batch.is_some() { format!(" with batch {b}") } else { String::new() };
            return invalid(format!("signal_every {s}{of_batch} needs a window of {w}, but {why} {limit}"));
        }
        Ok(())
    }
}

/// Payload in bytes if no size is given and the verb has no fixed size.
const USUAL_SIZE: u32 = 32;

impl Workload {
    /// The operations with sizes and weights, from the mix or from the one verb.
    ///
    /// # Errors
    /// If a mix contradicts another option, or names an operation twice.
    pub(crate) fn items(&self) -> Result<Vec<(Verb, u32, u32)>, WorkloadError> {
        let header_only = self.header_only.unwrap_or(false);
        let Some(mix) = &self.mix else {
            let verb = self.verb.unwrap_or(Verb::Send);
            let size = self.size.or(verb.only_size(header_only)).unwrap_or(USUAL_SIZE);
            return Ok(vec![(verb, size, 1)]);
        };
        if let Some(verb) = self.verb {
            return invalid(format!("verb is {}, but the mix already names the verbs", verb.name()));
        }
        let open = |item: &Item| item.size.is_none() && item.verb.only_size(header_only).is_none();
        if let Some(size) = self.size.filter(|_| !mix.items().iter().any(open)) {
            return invalid(format!("size is {size}, but each item of the mix has a size of its own"));
        }
        let filled = mix.items().iter().map(|item| {
            let size = item.size.or(item.verb.only_size(header_only)).or(self.size);
            (item.verb, size.unwrap_or(USUAL_SIZE), item.weight)
        });
        let items: Vec<(Verb, u32, u32)> = filled.collect();
        for (i, (verb, size, _)) in items.iter().enumerate() {
            if items[..i].iter().any(|(v, s, _)| (v, s) == (verb, size)) {
                return invalid(format!("the mix has {}/{size} twice: add up the weights", verb.name()));
            }
        }
        Ok(items)
    }
}

/// A mix of these items.
fn mix_of(items: &[(Verb, u32, u32)]) -> Mix {
    let item =
        |(verb, size, weight): &(Verb, u32, u32)| Item { verb: *verb, size: Some(*size), weight: *weight };
    Mix::of(items.iter().map(item).collect())
}

/// The most QPs on which a thread posts. All to all, connected QPs that lead to their own machine are not
/// used.
fn most_lanes(transport: QpType, pattern: Pattern, machines: u32, qps: u32) -> u32 {
    match (transport, pattern) {
        (QpType::Rc | QpType::Uc, Pattern::AllToAll) => qps - qps / machines.max(1),
        _ => qps,
    }
}

/// The least window that is used if none is given. It holds two signalled operations, and a whole batch plus
/// the operations that no completion has covered yet. It is 1 if every operation is signalled.
fn needed_window(signal_every: u32, batch: u32) -> u32 {
    match signal_every {
        0 | 1 => 1,
        s => s.saturating_mul(2).max(batch.saturating_add(s)),
    }
}

/// Limits of the devices of the posting machines.
struct Room {
    /// Maximum number of work requests of a queue.
    queue: u32,
    /// Maximum number of completions of a CQ. The next field is the share of each QP of a thread.
    cq: u32,
    cq_share: u32,
}

impl Room {
    /// The limits for threads that create `qps` QPs.
    fn of(taking: &Taking<'_>, qps: u32) -> Room {
        let cq = least(&taking.posters, cq).1;
        Room { queue: least(&taking.posters, queue).1, cq, cq_share: cq / qps.max(1) }
    }

    /// The usual `signal_every`: 16, or less if the queue or the CQ requires it.
    fn usual_signal(&self, batch: u32) -> u32 {
        match self.cq_share {
            0 | 1 => 1,
            _ => 16.min(self.queue / 2).min(self.queue.saturating_sub(batch)).max(1),
        }
    }

    /// The usual window. If every operation is signalled, it belongs to a thread. Otherwise it belongs to a
    /// QP, because a completion covers only operations of one QP.
    fn usual_window(&self, signal_every: u32, batch: u32) -> Window {
        let (usual, completions) = match signal_every {
            1 => (16, self.cq),
            s => (64, self.cq_share.saturating_mul(s)),
        };
        let most = self.queue.min(completions).max(1);
        let wanted = usual.max(batch.saturating_mul(2)).min(most);
        let operations = wanted.max(needed_window(signal_every, batch)).max(batch);
        if signal_every == 1 { Window::PerThread(operations) } else { Window::PerQp(operations) }
    }
}

/// The usual transport of the verbs, if they all agree; otherwise RC.
fn usual_transport(verbs: impl Iterator<Item = Verb>) -> QpType {
    let mut all: Vec<QpType> = verbs.map(Verb::usual_transport).collect();
    all.dedup();
    if all.len() == 1 { all[0] } else { QpType::Rc }
}

/// The usual number of QPs of a thread: one per peer. One UD QP reaches all peers.
fn usual_qps(transport: QpType, pattern: Pattern, machines: u32) -> u32 {
    match (transport, pattern) {
        (QpType::Ud, _) | (_, Pattern::Inbound) => 1,
        (_, Pattern::Outbound) => machines.saturating_sub(1).max(1),
        (_, Pattern::AllToAll) => machines,
    }
}
