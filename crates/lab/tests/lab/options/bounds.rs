//! Checks that no run is faster than `doorbell limits` allows.

use doorbell_lab::{OfKind, Operation, Outcome, Pattern, Profiles, Resolved, Verb, Window};
use doorbell_nic::Profile;
use doorbell_nic::limits::Limit;
use doorbell_verbs::{QpType, Span};

/// Factor by which a run may exceed a bound, because times are rounded to picoseconds and femtoseconds per
/// byte.
const ROUNDING: f64 = 1.01;

/// RECVs that responders post with one doorbell.
const RECV_BATCH: u64 = 16;

/// Number of machines that post, and number of machines that respond.
fn ends(w: &Resolved) -> (u64, u64) {
    let others = u64::from(w.machines - 1);
    match w.pattern {
        Pattern::Outbound => (1, others),
        Pattern::Inbound => (others, 1),
        Pattern::AllToAll => (others + 1, others + 1),
    }
}

/// Number of RECVs that are posted on a QP.
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

/// The largest value of the profiles.
fn most(profiles: &Profiles, of: impl Fn(&Profile) -> u64) -> u64 {
    profiles.all().map(of).max().unwrap()
}

/// Numbers of operations that may have only a part of their cost inside the measured time.
struct UnderWay {
    /// Operations of all threads together that are posted, and whose completion is not yet polled.
    outstanding: u64,
    /// SENDs that are received but not yet polled, over all receiving QPs.
    received: u64,
    /// SENDs that were polled, but whose RECVs are not yet reposted.
    taken: u64,
    /// Operations over UC and UD that are complete at the requester, but not yet accepted by a receiving
    /// unit. They fit into the receive buffers of the peers, because ports send no more.
    in_ports: u64,
    /// Operations that are answered or counted while a receiving unit still issues their DMAs, or a lock is
    /// still held.
    in_units: u64,
    /// WRITEs that are acknowledged, or that the requester no longer counts, while their DMA writes wait for
    /// the PCIe link. A NIC has room for as many bytes as a port's receive buffer.
    unwritten: u64,
    /// If machines differ, one of them bounds all machines by its share of the operations. The share is exact
    /// except for a round of batches. Outstanding operations at this machine count twice, because QPs may
    /// share them in a ratio of up to 1 to 2.
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

    /// Operations that can be outstanding when measuring begins: none at the start of the run.
    fn at_begin(&self, w: &Resolved) -> u64 {
        match w.warmup.map(|warmup| warmup.span()) {
            Some(Span::ZERO) => 0,
            _ => self.outstanding + self.received,
        }
    }

    /// Operations that can be counted at the end of the measured time before they have had their full cost. A
    /// SEND counts once it is received, possibly before its requester polls its completion.
    fn at_end(&self, w: &Resolved) -> u64 {
        let sent = if w.consumes_recvs() { self.outstanding } else { 0 };
        sent + self.taken + self.in_ports + self.in_units + self.unwritten
    }

    fn all(&self, w: &Resolved) -> f64 {
        if self.shares == 0 {
            return (self.at_begin(w) + self.at_end(w)) as f64;
        }
        // At least all outstanding operations, even if nothing is outstanding at the start: at the end, posts
        // to the slowest machine may still wait, while equally many posts to other machines have completed.
        let at_begin = (2 * self.at_begin(w)).max(self.outstanding);
        (at_begin + 2 * self.at_end(w) + self.shares) as f64
    }
}

/// Number of operations by which a run may exceed a bound by chance: five standard deviations of a machine's
/// share. The destinations of all-to-all are drawn, but if machines differ, a bound assumes equal shares.
fn chance(w: &Resolved, profiles: &Profiles, operations: f64) -> f64 {
    let drawn = w.pattern == Pattern::AllToAll && !profiles.are_alike();
    let at_a_time = if w.transport == QpType::Ud { 1 } else { w.batch };
    // A share is at least the share of a single QP or destination.
    let of = w.machines.max(w.qps);
    if drawn { 5.0 * (operations * f64::from(at_a_time * of)).sqrt() } else { 0.0 }
}

/// Cost of an operation of each kind on the limiting resource, relative to the mean cost.
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

/// The number of average operations that cost as much as the completed ones, whose kinds are known. If
/// machines differ, the kinds per machine are unknown, so a deviation by chance is subtracted.
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

/// Result of a workload or a thread class.
struct Seen<'a> {
    completed: u64,
    kinds: &'a [OfKind],
    least_ns: Option<u64>,
}

/// A contradiction between the bounds of a workload and the result of its run.
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

/// A contradiction between the bounds of all classes together and the result. Mixes are only checked per
/// class.
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
    // Latencies are measured in whole nanoseconds and kept to three digits.
    let least = outcome.least_ns.map_or(f64::INFINITY, |min| (min as f64 + 1.0) * 1.001);
    (least < bound).then(|| format!("{least:.0} ns, at least {bound:.0}"))
}
