//! No run is faster than `doorbell limits` says.

use doorbell_lab::{OfKind, Operation, Outcome, Pattern, Profiles, Resolved, Verb, Window};
use doorbell_nic::Profile;
use doorbell_nic::limits::Limit;
use doorbell_verbs::{QpType, Span};

/// A bound may be exceeded by so much: times are rounded to picoseconds and femtoseconds per byte.
const ROUNDING: f64 = 1.01;

/// RECVs that responders post with one doorbell.
const RECV_BATCH: u64 = 16;

/// Machines that post, and that are posted to.
fn ends(w: &Resolved) -> (u64, u64) {
    let others = u64::from(w.machines - 1);
    match w.pattern {
        Pattern::Outbound => (1, others),
        Pattern::Inbound => (others, 1),
        Pattern::AllToAll => (others + 1, others + 1),
    }
}

/// RECVs that wait on a QP.
fn recv_depth(w: &Resolved, profiles: &Profiles) -> u64 {
    let window = 2 * u64::from(w.window().operations());
    let others = u64::from(w.machines - 1);
    let senders = if w.pattern == Pattern::Outbound { 1 } else { others };
    let wanted = match w.transport {
        QpType::Ud => (window * senders).clamp(256, 1024),
        QpType::Rc | QpType::Uc => window + RECV_BATCH,
    };
    wanted.next_multiple_of(RECV_BATCH).min(most(profiles, |profile| profile.device.nic.max_qp_wr.into()))
}

/// What the profile says that says most.
fn most(profiles: &Profiles, of: impl Fn(&Profile) -> u64) -> u64 {
    profiles.all().map(of).max().unwrap()
}

/// Operations of which a part is paid for in the measured time and another is not.
struct UnderWay {
    /// Posted by all threads together and not yet seen completed.
    outstanding: u64,
    /// SENDs: on QPs that messages come to, received and not yet polled.
    received: u64,
    /// SENDs: polled, and their RECVs not yet posted anew.
    taken: u64,
    /// On UC and UD: complete at the requester, and not yet taken up by a receiving unit. Ports send only
    /// what the receive buffer of their peer has room for.
    in_ports: u64,
    /// Answered or counted, while a receiving unit still issues their DMAs, or a lock is still held.
    in_units: u64,
    /// WRITEs: acknowledged or dropped from sight, while their DMA writes wait for the PCIe link. A NIC has
    /// room for as many bytes as a port takes in.
    unwritten: u64,
    /// Where machines differ, one bounds all by its share of the operations, which it has but for a round of
    /// batches, and what is under way at it counts for as many at the others: QPs share them up to 1 to 2.
    shares: u64,
}

impl UnderWay {
    fn of(w: &Resolved, profiles: &Profiles) -> UnderWay {
        let (posters, responders) = ends(w);
        let threads = u64::from(w.threads);
        let windows = match w.window() {
            Window::PerThread(_) => threads,
            Window::PerQp(_) => threads * u64::from(w.qps),
        };
        let qps = match w.transport {
            QpType::Ud => responders * threads * u64::from(w.qps),
            QpType::Rc | QpType::Uc => posters * threads * u64::from(w.qps),
        };
        let sends = u64::from(w.consumes_recvs());
        let operations = w.operations();
        let on_link = |p: &Profile, o: &Operation| p.request_on_link(o.opcode, w.transport, o.size).bytes;
        let each = profiles.all().flat_map(|p| operations.iter().map(move |o| on_link(p, o)));
        let bytes = each.min().unwrap();
        let writes = operations.iter().filter(|o| o.verb == Verb::Write && o.size > 0).map(|o| o.size);
        let receive_buffer = most(profiles, |p| p.device.link.receive_buffer.into());
        let unreliable = u64::from(w.transport != QpType::Rc);
        UnderWay {
            outstanding: posters * windows * u64::from(w.window().operations()),
            received: sends * qps * recv_depth(w, profiles),
            taken: sends * qps * (RECV_BATCH - 1),
            in_ports: unreliable
                * most(profiles, |p| p.device.link.ports.into())
                * responders
                * (receive_buffer / bytes + 1),
            in_units: responders
                * most(profiles, |p| (p.device.rx.units + p.device.atomics.slots.min(64)).into()),
            unwritten: writes.min().map_or(0, |size| responders * (receive_buffer / u64::from(size) + 1)),
            shares: match profiles.are_alike() {
                true => 0,
                false => 2 * posters * threads * u64::from(w.batch * w.machines),
            },
        }
    }

    /// What can be under way when measuring begins: nothing at the start of the run.
    fn at_begin(&self, w: &Resolved) -> u64 {
        match w.warmup.map(|warmup| warmup.span()) {
            Some(Span::ZERO) => 0,
            _ => self.outstanding + self.received,
        }
    }

    /// What can be counted when measuring ends and not all paid for. A SEND counts once received, when
    /// its requester may not have seen it completed.
    fn at_end(&self, w: &Resolved) -> u64 {
        let sent = if w.consumes_recvs() { self.outstanding } else { 0 };
        sent + self.taken + self.in_ports + self.in_units + self.unwritten
    }

    fn all(&self, w: &Resolved) -> f64 {
        if self.shares == 0 {
            return (self.at_begin(w) + self.at_end(w)) as f64;
        }
        // Also where nothing is under way at the start: by the end what is posted to the machine that bounds all
        // may wait there, and as much that was posted to the others be done.
        let at_begin = (2 * self.at_begin(w)).max(self.outstanding);
        (at_begin + 2 * self.at_end(w) + self.shares) as f64
    }
}

/// By how much `operations` may exceed a bound by chance: all to all, it is posted to who is drawn, and
/// where machines differ, a bound is one for equal shares. Five standard deviations of a machine's share.
fn chance(w: &Resolved, profiles: &Profiles, operations: f64) -> f64 {
    let drawn = w.pattern == Pattern::AllToAll && !profiles.are_alike();
    let at_a_time = if w.transport == QpType::Ud { 1 } else { w.batch };
    // A share is that of one QP, or destination, at least.
    let of = w.machines.max(w.qps);
    if drawn { 5.0 * (operations * f64::from(at_a_time * of)).sqrt() } else { 0.0 }
}

/// What an operation of each kind takes of what sets a bound: of what all take on average.
fn costs(w: &Resolved, limit: &Limit) -> Vec<f64> {
    let operations = w.operations();
    let weight: u64 = operations.iter().map(|o| u64::from(o.weight)).sum();
    let of = |(kind, o): (usize, &Operation)| {
        let own = limit.terms.iter().filter(|term| term.item == Some(kind) || operations.len() == 1);
        let taken: f64 = own.map(|term| term.amount()).sum();
        taken * weight as f64 / f64::from(o.weight) * limit.mops / limit.capacity
    };
    operations.iter().enumerate().map(of).collect()
}

/// Operations that a bound has to let through, as many as average ones took as much: what was drawn is known. Where
/// machines differ, it is not whose they were, and by how much they may be off by chance, is let go.
fn taken(w: &Resolved, profiles: &Profiles, outcome: &Seen<'_>, costs: &[f64]) -> f64 {
    let done = outcome.completed as f64;
    if outcome.kinds.len() < 2 {
        return done;
    }
    let most = costs.iter().copied().fold(1.0, f64::max);
    match profiles.are_alike() {
        true => outcome.kinds.iter().zip(costs).map(|(kind, cost)| kind.completed as f64 * cost).sum(),
        false => done - 5.0 * (done * w.operations().len() as f64).sqrt() * most,
    }
}

/// What came of a workload, or of a class of threads.
struct Seen<'a> {
    completed: u64,
    kinds: &'a [OfKind],
    least_ns: Option<u64>,
}

/// What is wrong with the bounds of a workload, by what a run of it gave.
pub(crate) fn flaw(profiles: &Profiles, w: &Resolved, outcome: &Outcome) -> Option<String> {
    let us = outcome.measured.duration.span().as_secs_f64() * 1e6;
    let (completed, least_ns) = (outcome.verbs().completed, outcome.latency_ns.min);
    if !w.has_classes() {
        return flaw_of(profiles, w, &Seen { completed, kinds: &outcome.verbs().kinds, least_ns }, us);
    }
    let each = w.classes().into_iter().zip(&outcome.verbs().classes).map(|(class, seen)| {
        let (kinds, least_ns) = (&seen.kinds[..], seen.latency_ns.min);
        let flaw =
            flaw_of(profiles, class.workload, &Seen { completed: seen.completed, kinds, least_ns }, us)?;
        Some(format!("class {}: {flaw}", class.name))
    });
    each.flatten().next().or_else(|| flaw_of_all(profiles, w, outcome, us))
}

/// What is wrong with the bounds of all classes together. Of drawn kinds of operations each class is judged alone.
fn flaw_of_all(profiles: &Profiles, w: &Resolved, outcome: &Outcome, us: f64) -> Option<String> {
    let of_classes: u64 = outcome.verbs().classes.iter().map(|class| class.completed).sum();
    if of_classes != outcome.verbs().completed {
        return Some(format!("{of_classes} of all classes are not {}", outcome.verbs().completed));
    }
    let classes = w.classes();
    if classes.iter().any(|class| class.workload.operations().len() > 1) {
        return None;
    }
    let under_way: f64 = classes
        .iter()
        .zip(&outcome.verbs().classes)
        .map(|(class, seen)| {
            let own = &class.workload;
            UnderWay::of(own, profiles).all(own) + chance(own, profiles, seen.completed as f64)
        })
        .sum();
    let over = |limit: &&Limit| of_classes as f64 > ROUNDING * limit.mops * us + under_way;
    let limits = doorbell_lab::limits(profiles, w);
    let limit = limits.iter().find(over)?;
    Some(format!(
        "{of_classes} operations of all classes in {us:.1} us, {under_way:.0} under way, are more than {:.3} Mops: {}",
        limit.mops, limit.text
    ))
}

fn flaw_of(profiles: &Profiles, w: &Resolved, outcome: &Seen<'_>, us: f64) -> Option<String> {
    let limits = doorbell_lab::limits(profiles, w);
    let (done, under_way) = (outcome.completed as f64, UnderWay::of(w, profiles).all(w));
    let under_way = under_way + chance(w, profiles, done);
    let of_kinds: u64 = outcome.kinds.iter().map(|kind| kind.completed).sum();
    if w.is_mix() && of_kinds != outcome.completed {
        return Some(format!("{of_kinds} of all items are not {done:.0}"));
    }
    for limit in &limits {
        let terms: f64 = limit.terms.iter().map(|term| term.amount()).sum();
        if (limit.capacity / terms / limit.mops - 1.0).abs() > 1e-9 {
            return Some(format!("{limit:?} is not the sum of its terms"));
        }
        let costs = costs(w, limit);
        let (done, dearest) =
            (taken(w, profiles, outcome, &costs), costs.iter().copied().fold(1.0, f64::max));
        let most = limit.mops * us;
        if done > ROUNDING * most + under_way * dearest {
            return Some(format!(
                "{done:.0} operations in {us:.1} us, {under_way:.0} under way, are {:.3} times {}: {}",
                done / most,
                limit.resource,
                limit.text,
            ));
        }
    }
    let bound = doorbell_lab::least_latency(profiles, w).as_ps() as f64 / 1e3;
    // Measured in whole nanoseconds, of which three digits are kept.
    let least = outcome.least_ns.map_or(f64::INFINITY, |min| (min as f64 + 1.0) * 1.001);
    (least < bound).then(|| format!("{least:.0} ns, at least {bound:.0}"))
}
