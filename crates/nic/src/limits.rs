//! What a workload can reach at most on a profile, by each resource alone.
//!
//! Bounds are averages: no queueing, no cache misses, no imbalance between units. Where the rate of
//! a simulation is well below the least of them, one of these is why.

use crate::accounting::{self, Transactions};
use crate::cost::{Costs, Message, OnLink};
use crate::{Method, PostShape, Profile, RecvShape, Resource};
use doorbell_verbs::{Opcode, QpType, Span};
use serde::Serialize;

/// Who posts to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Machine 0 posts to the others.
    Outbound,
    /// The others post to machine 0.
    Inbound,
    /// Each posts to all others.
    AllToAll,
}

/// A workload, as far as its bounds depend on it. Counts below the least that makes sense (2
/// machines, 1 of all else) are taken as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Mix {
    /// Verb.
    pub opcode: Opcode,
    /// Transport.
    pub qp_type: QpType,
    /// Payload bytes; of a READ what it asks for, of an atomic 8.
    pub payload: u32,
    /// Whether the payload is inline.
    pub inline: bool,
    /// Work requests per post.
    pub batch: u32,
    /// One of this many work requests is signalled.
    pub signal_every: u32,
    /// Work requests that a posting thread has outstanding.
    pub window: u32,
    /// Who posts to whom.
    pub pattern: Pattern,
    /// Machines, at least 2.
    pub machines: u32,
    /// Threads on each machine.
    pub threads: u32,
    /// QPs of each thread.
    pub qps: u32,
    /// Words that atomics work on, 8 bytes apart.
    pub counters: u64,
    /// Whether inline-receive is on.
    pub inline_recv: bool,
    /// RECVs per post.
    pub recv_batch: u32,
}

/// A bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// What sets it.
    pub resource: Resource,
    /// Millions of operations per second of all machines together.
    pub mops: f64,
    /// How it is computed, in words.
    pub text: String,
}

/// Machines that do the same, and the share of all operations that each of them has.
#[derive(Clone, Copy)]
struct Role {
    who: &'static str,
    requester: f64,
    responder: f64,
}

impl Role {
    /// Sum of what one operation costs at its requester and at its responder.
    fn demand(&self, at_requester: f64, at_responder: f64) -> f64 {
        self.requester * at_requester + self.responder * at_responder
    }
}

impl Mix {
    /// This workload with every count at least what makes sense.
    fn sensible(&self) -> Mix {
        Mix {
            batch: self.batch.max(1),
            signal_every: self.signal_every.max(1),
            window: self.window.max(1),
            machines: self.machines.max(2),
            threads: self.threads.max(1),
            qps: self.qps.max(1),
            counters: self.counters.max(1),
            recv_batch: self.recv_batch.max(1),
            ..*self
        }
    }

    fn roles(&self) -> Vec<Role> {
        let others = f64::from(self.machines - 1);
        match self.pattern {
            Pattern::Outbound => vec![
                Role { who: "machine 0", requester: 1.0, responder: 0.0 },
                Role { who: "each of the others", requester: 0.0, responder: 1.0 / others },
            ],
            Pattern::Inbound => vec![
                Role { who: "machine 0", requester: 0.0, responder: 1.0 },
                Role { who: "each of the others", requester: 1.0 / others, responder: 0.0 },
            ],
            Pattern::AllToAll => {
                let share = 1.0 / (others + 1.0);
                vec![Role { who: "each machine", requester: share, responder: share }]
            }
        }
    }

    /// Machines that post.
    fn requesters(&self) -> u32 {
        match self.pattern {
            Pattern::Outbound => 1,
            Pattern::Inbound => self.machines - 1,
            Pattern::AllToAll => self.machines,
        }
    }

    /// The shape of its posts to a NIC of this profile; `signaled` for those that ask for a completion.
    pub fn post(&self, profile: &Profile, signaled: bool) -> PostShape {
        PostShape {
            opcode: self.opcode,
            qp_type: self.qp_type,
            payload: self.payload,
            sges: 1,
            inline: self.inline,
            signaled,
            method: profile.generation.posting().method(self.batch),
        }
    }

    fn message(&self, profile: &Profile) -> Message {
        profile.message(self.opcode, self.qp_type, self.payload)
    }

    fn recv(&self) -> RecvShape {
        RecvShape { inline: self.inline_recv }
    }
}

/// All bounds, the least first.
pub fn limits(profile: &Profile, mix: &Mix) -> Vec<Limit> {
    sorted(bounds(profile, mix))
}

/// All bounds of several workloads that share a NIC, each with its number of operations, the least
/// first: of each resource, what they take together. They differ in what they post, not in who posts
/// to whom.
pub fn limits_of_all(profile: &Profile, parts: &[(Mix, u64)]) -> Vec<Limit> {
    let parts: Vec<(&Mix, u64)> = parts.iter().filter(|(_, n)| *n > 0).map(|(mix, n)| (mix, *n)).collect();
    let all: u64 = parts.iter().map(|(_, n)| n).sum();
    let each: Vec<(f64, Vec<Limit>)> = parts
        .iter()
        .map(|(mix, n)| {
            (*n as f64 / all as f64, bounds(profile, &Mix { pattern: parts[0].0.pattern, ..**mix }))
        })
        .collect();
    let count = each.first().map_or(0, |(_, bounds)| bounds.len());
    sorted((0..count).map(|i| together(each.iter().map(|(share, bounds)| (*share, &bounds[i])))).collect())
}

/// A bound of several workloads with their shares: the times that each needs of a resource add up.
fn together<'a>(parts: impl Iterator<Item = (f64, &'a Limit)>) -> Limit {
    let mut parts: Vec<(f64, &Limit)> = parts.map(|(share, limit)| (share / limit.mops, limit)).collect();
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let total: f64 = parts.iter().map(|(time, _)| time).sum();
    let (most, limit) = parts[0];
    if parts.len() == 1 {
        return limit.clone();
    }
    let share = 100.0 * most / total;
    let text = format!("{} kinds of work requests; {share:.0}% is from {}", parts.len(), limit.text);
    Limit { resource: limit.resource, mops: 1.0 / total, text }
}

/// The bounds that there are, the least first.
fn sorted(mut all: Vec<Limit>) -> Vec<Limit> {
    // What a role has no part in does not bound it.
    all.retain(|limit| limit.mops.is_finite());
    all.sort_by(|a, b| a.mops.total_cmp(&b.mops));
    all
}

/// All bounds, in an order that depends on the pattern alone.
fn bounds(profile: &Profile, mix: &Mix) -> Vec<Limit> {
    let mix = &mix.sensible();
    let mut all = Vec::new();
    for role in mix.roles() {
        all.extend(pcie(profile, mix, &role));
        all.push(sending(profile, mix, &role));
        all.push(receiving(profile, mix, &role));
        all.push(link(profile, mix, &role));
        all.push(cpu(profile, mix, &role));
        all.push(locks(profile, mix, &role));
    }
    all.push(window(profile, mix));
    all
}

/// Millions per second of something that takes `ps` picoseconds each.
fn per_second(ps: f64) -> f64 {
    1e6 / ps
}

fn ps(span: Span) -> f64 {
    span.as_ps() as f64
}

/// Time on each kind of TLP.
struct PcieTime {
    mmio: f64,
    completions: f64,
    to_host: f64,
}

fn pcie_time(profile: &Profile, t: &Transactions) -> PcieTime {
    let dllp = profile.pcie.dllp_millibytes as f64 / 1000.0;
    let speed = &profile.pcie_speed;
    let mmio_tlps = t.mmio_writes as f64;
    let mmio = t.mmio_bytes as f64 + mmio_tlps * (f64::from(profile.pcie.request_header) + dllp);
    let full_lines = (t.mmio_bytes / u64::from(crate::wqe::LINE)) as f64;
    let mmio = mmio + full_lines * f64::from(profile.pcie.mmio_overhead);
    let completion_tlps = (t.host_to_device_tlps - t.mmio_writes) as f64;
    let completions =
        t.dma_read_bytes as f64 + completion_tlps * (f64::from(profile.pcie.completion_header) + dllp);
    let to_host = t.device_to_host_bytes as f64 + t.device_to_host_tlps as f64 * dllp;
    PcieTime {
        mmio: mmio / speed.mmio as f64 * 1e12,
        completions: completions / speed.completion as f64 * 1e12,
        to_host: to_host / speed.device_to_host as f64 * 1e12,
    }
}

/// Times on the PCIe link per operation at its requester.
fn requester_pcie(profile: &Profile, mix: &Mix) -> PcieTime {
    let wqes = f64::from(mix.batch);
    let plain = pcie_time(profile, &accounting::requester(profile, &mix.post(profile, false)));
    let cqe = pcie_time(profile, &Transactions::dma_write(&profile.pcie, profile.nic.cqe));
    PcieTime {
        mmio: plain.mmio / wqes,
        completions: plain.completions / wqes,
        to_host: plain.to_host / wqes + cqe.to_host / f64::from(mix.signal_every),
    }
}

/// Times on the PCIe link per operation at its responder.
fn responder_pcie(profile: &Profile, mix: &Mix) -> PcieTime {
    let message = accounting::responder(profile, mix.opcode, mix.qp_type, mix.payload, mix.recv());
    let message = pcie_time(profile, &message);
    if !mix.opcode.consumes_recv() {
        return message;
    }
    let recvs = mix.recv_batch;
    let post = pcie_time(profile, &accounting::post_recv(profile, recvs, 1));
    let each = f64::from(recvs);
    PcieTime {
        mmio: message.mmio + post.mmio / each,
        completions: message.completions + post.completions / each,
        to_host: message.to_host + post.to_host / each,
    }
}

/// The two directions of the PCIe link. MMIO writes and read completions share one; it bears
/// the name of what takes more of it.
fn pcie(profile: &Profile, mix: &Mix, role: &Role) -> [Limit; 2] {
    let requester = requester_pcie(profile, mix);
    let responder = responder_pcie(profile, mix);
    let mmio = role.demand(requester.mmio, responder.mmio);
    let completions = role.demand(requester.completions, responder.completions);
    let to_host = role.demand(requester.to_host, responder.to_host);
    let resource = if mmio > completions { Resource::MmioBandwidth } else { Resource::DmaBandwidth };
    [
        Limit {
            resource,
            mops: per_second(mmio + completions),
            text: format!(
                "PCIe towards the NIC of {}: {:.3} ns of MMIO and {:.3} ns of read completions per operation",
                role.who,
                mmio / 1e3,
                completions / 1e3
            ),
        },
        Limit {
            resource: Resource::DmaWriteBandwidth,
            mops: per_second(to_host),
            text: format!(
                "PCIe towards the host of {}: {:.3} ns of DMA writes and read requests per operation",
                role.who,
                to_host / 1e3
            ),
        },
    ]
}

/// Units of a machine that its QPs can keep busy.
fn busy_units(units: u32, mix: &Mix) -> u32 {
    units.min(mix.threads.saturating_mul(mix.qps))
}

/// Time of the requester's receiving unit for the answer to one message, in picoseconds.
fn receive_answers(costs: &Costs, message: &Message) -> u64 {
    let data = message.opcode.returns_data();
    let issue = if data { costs.receive.dma_write } else { 0 };
    message.answers().map(|piece| costs.receive.look(&piece.packet) + issue).sum()
}

fn units_limit(resource: Resource, kind: &str, units: u32, busy: f64, role: &Role) -> Limit {
    Limit {
        resource,
        mops: per_second(busy / f64::from(units)),
        text: format!(
            "{units} {kind} units of {} that its QPs keep busy, {:.1} ns per operation",
            role.who,
            busy / 1e3
        ),
    }
}

fn sending(profile: &Profile, mix: &Mix, role: &Role) -> Limit {
    let costs = Costs::new(profile);
    let message = mix.message(profile);
    let request = costs.send_requests(&mix.post(profile, false), &message);
    let busy = role.demand(request as f64, costs.send_answers(&message) as f64);
    units_limit(Resource::TxUnits, "sending", busy_units(profile.tx.units, mix), busy, role)
}

fn receiving(profile: &Profile, mix: &Mix, role: &Role) -> Limit {
    let costs = Costs::new(profile);
    let message = mix.message(profile);
    let request = costs.receive_requests(&message, &profile.nic, mix.recv());
    let busy = role.demand(receive_answers(&costs, &message) as f64, request as f64);
    units_limit(Resource::RxUnits, "receiving", busy_units(profile.rx.units, mix), busy, role)
}

/// What a message is on the link, and its answer.
fn on_link(profile: &Profile, mix: &Mix) -> [OnLink; 2] {
    let (costs, message) = (Costs::new(profile), mix.message(profile));
    [costs.on_link(message.requests()), costs.on_link(message.answers())]
}

fn link(profile: &Profile, mix: &Mix, role: &Role) -> Limit {
    let [request, response] = on_link(profile, mix).map(|on_link| on_link.bytes as f64);
    let out = role.demand(request, response);
    let back = role.demand(response, request);
    let ports = profile.link.ports.min(mix.threads);
    let (way, bytes) = if out >= back { ("out of", out) } else { ("into", back) };
    Limit {
        resource: Resource::LinkBandwidth,
        mops: f64::from(ports) * profile.link.port_bytes_per_s as f64 / bytes / 1e6,
        text: format!("{ports} ports {way} {}, {bytes:.1} bytes per operation", role.who),
    }
}

fn cpu(profile: &Profile, mix: &Mix, role: &Role) -> Limit {
    let core = Costs::new(profile).cpu;
    let post = core.post_send(profile.generation, &mix.post(profile, false)) as f64 / f64::from(mix.batch);
    let poll = core.take(1) as f64 / f64::from(mix.signal_every);
    let receive = if mix.opcode.consumes_recv() {
        let inline = mix.inline_recv && profile.nic.receives_inline(mix.payload, mix.qp_type == QpType::Ud);
        let moved = if inline { core.take_inline(1) } else { 0 };
        core.post_recv(mix.recv_batch) as f64 / f64::from(mix.recv_batch) + (core.take(1) + moved) as f64
    } else {
        0.0
    };
    let busy = role.demand(post + poll, receive);
    Limit {
        resource: Resource::Cpu,
        mops: per_second(busy / f64::from(mix.threads)),
        text: format!("{} threads of {}, {:.1} ns per operation", mix.threads, role.who, busy / 1e3),
    }
}

/// How long an atomic holds its lock.
fn lock_held(profile: &Profile) -> Span {
    profile.pcie.read_latency + profile.atomics.hold
}

/// Locks that words 8 bytes apart spread over.
fn locks_in_use(profile: &Profile, counters: u64) -> usize {
    // So many words pass over every lock that they can reach.
    let words = counters.min(1 << 20);
    let mut used = vec![false; profile.atomics.slots as usize];
    for word in 0..words {
        used[profile.atomics.slot(word * 8) as usize] = true;
    }
    used.into_iter().filter(|used| *used).count()
}

fn locks(profile: &Profile, mix: &Mix, role: &Role) -> Limit {
    let held = if mix.opcode.is_atomic() { lock_held(profile) } else { Span::ZERO };
    let locks = locks_in_use(profile, mix.counters);
    // More locks help only where words share them. Where there is but one, the paper names what it
    // is held for (5.4).
    let shared = locks > 1 && (locks as u64) < mix.counters;
    let resource = if shared { Resource::AtomicLocks } else { Resource::PcieLatency };
    Limit {
        resource,
        mops: per_second(role.demand(0.0, ps(held)) / locks as f64),
        text: format!("{locks} locks of {} in use, each held {:.0} ns per atomic", role.who, ps(held) / 1e3),
    }
}

/// Time from posting one operation to polling its completion, where nothing waits for anything.
pub fn unloaded_latency(profile: &Profile, mix: &Mix) -> Span {
    let mix = &mix.sensible();
    let pcie = &profile.pcie;
    let costs = Costs::new(profile);
    let shape = mix.post(profile, true);
    let request = Span::from_ps(costs.send_requests(&shape, &mix.message(profile)));
    let fetch = match shape.method {
        Method::WqeByMmio => Span::ZERO,
        Method::Doorbell { .. } => pcie.read_latency,
    };
    let payload = if shape.payload_read() > 0 { pcie.read_latency } else { Span::ZERO };
    let leave = Span::from_ps(costs.cpu.post_send(profile.generation, &shape))
        + pcie.mmio_latency
        + fetch
        + payload
        + request;
    let complete = pcie.write_latency + Span::from_ps(costs.cpu.take(1));
    leave + answer_latency(profile, mix) + complete
}

/// From the request's leaving to the end of its answer; none where nothing is answered.
fn answer_latency(profile: &Profile, mix: &Mix) -> Span {
    let [request, response] = on_link(profile, mix);
    let (costs, message) = (Costs::new(profile), mix.message(profile));
    let on_wire = |bytes| profile.link.time(bytes);
    if response.packets == 0 {
        return on_wire(request.bytes);
    }
    let data = if mix.opcode.is_atomic() {
        lock_held(profile)
    } else if mix.opcode.returns_data() {
        profile.pcie.read_latency
    } else {
        Span::ZERO
    };
    on_wire(request.bytes)
        + on_wire(response.bytes)
        + profile.link.one_way * 2
        + Span::from_ps(costs.receive_requests(&message, &profile.nic, mix.recv()))
        + data
        + Span::from_ps(costs.send_answers(&message) + receive_answers(&costs, &message))
}

/// Little's law: what is outstanding, over the time it takes.
fn window(profile: &Profile, mix: &Mix) -> Limit {
    let most = if mix.opcode.returns_data() {
        mix.window.min(mix.qps.saturating_mul(profile.nic.max_rd_atomic))
    } else {
        mix.window
    };
    let latency = unloaded_latency(profile, mix);
    let outstanding = u64::from(most) * u64::from(mix.threads) * u64::from(mix.requesters());
    Limit {
        resource: Resource::Latency,
        mops: per_second(ps(latency) / outstanding as f64),
        text: format!("{outstanding} operations outstanding, at least {:.0} ns each", ps(latency) / 1e3),
    }
}
