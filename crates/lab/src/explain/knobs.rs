//! Candidates for a higher rate: options that a program can change.

use super::typed::{Change, Typed};
use doorbell_nic::{PostShape, Profile, Resource};
use doorbell_schema::{Field, Value};
use doorbell_workload::limits::post_shape;
use doorbell_workload::{
    Addresses, BufferOffset, Operation, Pattern, Profiles, Resolved, Verb, Window, Workload,
};

/// An option, or several options that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knob {
    Qps,
    Window,
    Batch,
    Inline,
    Signal,
    Threads,
    Reads,
    Pages,
    InlineReceive,
    Ports,
    Size,
    Placement,
    Counters,
}

/// All knobs. The first ones help most often.
const ALL: [Knob; 13] = [
    Knob::Window,
    Knob::Reads,
    Knob::Qps,
    Knob::Batch,
    Knob::Signal,
    Knob::Inline,
    Knob::Pages,
    Knob::Ports,
    Knob::Counters,
    Knob::Placement,
    Knob::InlineReceive,
    Knob::Size,
    Knob::Threads,
];

/// Knobs that reduce the load on a resource, the likeliest first.
fn of(bottleneck: Resource) -> &'static [Knob] {
    match bottleneck {
        Resource::Cpu | Resource::WriteCombining => {
            &[Knob::Batch, Knob::Signal, Knob::Inline, Knob::Threads, Knob::Size]
        }
        Resource::MmioBandwidth => &[Knob::Batch, Knob::Inline, Knob::Size],
        Resource::DmaBandwidth | Resource::PcieTags => {
            &[Knob::Inline, Knob::Batch, Knob::Pages, Knob::Placement, Knob::Size]
        }
        Resource::DmaWriteBandwidth => &[Knob::Signal, Knob::InlineReceive, Knob::Placement, Knob::Size],
        Resource::PcieLatency => &[Knob::Qps, Knob::Counters, Knob::Window, Knob::Pages],
        Resource::TxUnits => &[Knob::Qps, Knob::Inline, Knob::Batch, Knob::Size, Knob::Threads],
        Resource::TxPipeline => &[Knob::Size],
        Resource::RxUnits => &[Knob::Qps, Knob::InlineReceive, Knob::Size, Knob::Threads],
        Resource::AtomicLocks => &[Knob::Counters],
        Resource::WqeCache => &[Knob::Window, Knob::Qps, Knob::Threads],
        Resource::QpContextCache => &[Knob::Qps, Knob::Threads],
        Resource::TranslationCache => &[Knob::Pages, Knob::Window],
        Resource::OutstandingReads => &[Knob::Reads, Knob::Qps, Knob::Threads],
        Resource::LinkBandwidth => &[Knob::Ports, Knob::Size],
        Resource::Latency => &[Knob::Window, Knob::Reads, Knob::Threads, Knob::Qps],
    }
}

/// Changes of a workload that may raise its rate, the likeliest for its bottleneck first.
pub(super) fn candidates(
    typed: &Typed,
    profiles: &Profiles,
    w: &Resolved,
    bottleneck: Option<Resource>,
) -> Vec<Change> {
    let first = bottleneck.map_or(&[][..], of);
    let rest = ALL.iter().filter(|knob| !first.contains(knob));
    let now = Now { typed, profiles, w };
    first.iter().chain(rest).flat_map(|knob| now.changes(*knob)).collect()
}

/// A size that is smaller by more than this fraction (one eighth) counts as another payload.
const SMALLER: u32 = 8;

fn number(value: u32) -> Value {
    Value::Number(value.into())
}

/// The present request.
struct Now<'a> {
    typed: &'a Typed,
    profiles: &'a Profiles,
    w: &'a Resolved,
}

impl Now<'_> {
    fn changes(&self, knob: Knob) -> Vec<Change> {
        let w = self.w;
        match knob {
            Knob::Qps => self.qps(),
            Knob::Window => self.windows(),
            Knob::Batch => self.batches(),
            Knob::Inline => self.inline(),
            Knob::Signal => {
                [16, 64].map(|every| self.with_room(&Workload::signal_every, every, every * 2)).into()
            }
            Knob::Threads => self.threads(),
            Knob::Reads => self.reads(),
            Knob::Pages if !w.huge_pages => vec![Change::default().without(&Workload::huge_pages)],
            Knob::InlineReceive if w.consumes_recvs() => {
                vec![Change::to(&Workload::inline_recv, Value::Switch(true))]
            }
            Knob::Ports => self.ports(),
            Knob::Size => self.sizes(),
            Knob::Placement => self.placement(),
            Knob::Counters => self.counters(),
            Knob::Pages | Knob::InlineReceive => Vec::new(),
        }
    }

    /// Fewer QPs, so that all contexts fit into caches, or more QPs, so that more units work.
    fn qps(&self) -> Vec<Change> {
        let qps = self.w.qps;
        let others = self.w.machines - 1;
        let all = [1, qps / 2, qps.saturating_mul(2), qps.saturating_mul(4), others];
        let all = all.into_iter().filter(|other| *other > 0 && *other != qps);
        all.map(|other| Change::to(&Workload::qps, number(other))).collect()
    }

    /// More outstanding operations, or fewer, so that they fit into caches.
    fn windows(&self) -> Vec<Change> {
        let operations = self.w.window().operations();
        let all = [operations.saturating_mul(4), operations.saturating_mul(16), operations / 4];
        let same = all.into_iter().filter(|other| *other > 0).map(|other| self.window(other));
        // One window for all operations of a thread. It may fit into caches even if a window per QP does not.
        let of_thread = (matches!(self.w.window(), Window::PerQp(_)) && self.w.qps > 1)
            .then(|| Change::to(&Workload::window, number(16)).without(&Workload::window_per_qp));
        of_thread.into_iter().chain(same).collect()
    }

    fn window(&self, operations: u32) -> Change {
        match self.w.window() {
            Window::PerThread(_) => {
                Change::to(&Workload::window, number(operations)).without(&Workload::window_per_qp)
            }
            Window::PerQp(_) => {
                Change::to(&Workload::window_per_qp, number(operations)).without(&Workload::window)
            }
        }
    }

    /// Sets an option to `value`. Enlarges a given window if it has less room than `room`, which the option
    /// needs.
    fn with_room(&self, field: &'static Field, value: u32, room: u32) -> Change {
        let change = Change::to(field, number(value));
        let lanes = match self.w.window() {
            Window::PerThread(_) => self.w.qps,
            Window::PerQp(_) => 1,
        };
        let needed = room.saturating_mul(lanes);
        let is_given = self.typed.says(&Workload::window) || self.typed.says(&Workload::window_per_qp);
        if !is_given || self.w.window().operations() >= needed {
            return change;
        }
        let Change { set, unset } = self.window(needed);
        Change { set: [change.set, set].concat(), unset }
    }

    fn batches(&self) -> Vec<Change> {
        let all = [16, 4, 64, 1].into_iter().filter(|batch| *batch != self.w.batch);
        all.map(|batch| match self.w.window() {
            // A batch is posted to a single QP, so it must fit into the window of this QP.
            Window::PerThread(now) if now >= batch * 2 => Change::to(&Workload::batch, number(batch)),
            _ => self.with_room(&Workload::batch, batch, batch * 2),
        })
        .collect()
    }

    fn inline(&self) -> Vec<Change> {
        let carries = |operation: &Operation| operation.verb.carries_payload() && operation.size > 0;
        match self.w.operations().iter().any(carries) {
            true => vec![Change::to(&Workload::inline, Value::Switch(!self.w.inlines()))],
            false => Vec::new(),
        }
    }

    fn threads(&self) -> Vec<Change> {
        let threads = self.w.threads;
        let cores = self.profiles.least(|profile| profile.host.cores);
        let all = [cores, threads.saturating_mul(2).min(cores), threads / 2];
        let all = all.into_iter().filter(|other| *other > 0 && *other != threads);
        all.map(|other| Change::to(&Workload::threads, number(other))).collect()
    }

    fn reads(&self) -> Vec<Change> {
        let most = self.profiles.least(|profile| profile.device.nic.max_rd_atomic);
        match self.w.max_rd_atomic.is_some_and(|asked| asked < most) {
            true => vec![Change::to(&Workload::max_rd_atomic, number(most))],
            false => Vec::new(),
        }
    }

    fn ports(&self) -> Vec<Change> {
        let most = self.profiles.least(|profile| profile.device.link.ports).min(self.w.threads);
        match self.w.ports.is_some_and(|ports| ports < most) {
            true => vec![Change::to(&Workload::ports, number(most))],
            false => Vec::new(),
        }
    }

    /// Payload in one piece, and at the start of a cache line.
    fn placement(&self) -> Vec<Change> {
        let mut all = Vec::new();
        if self.w.sges.is_some_and(|sges| sges > 1) {
            all.push(Change::to(&Workload::sges, number(1)).without(&Workload::pieces));
        }
        match self.w.offset {
            Some(BufferOffset::At(1..)) => all.push(Change::to(&Workload::offset, number(0))),
            Some(BufferOffset::Drawn) => all.push(Change::default().without(&Workload::random_offset)),
            Some(BufferOffset::At(0)) | None => {}
        }
        if self.w.addresses() == Addresses::AnyByte {
            all.push(Change::to(&Workload::addresses, Value::Text("random".into())));
        }
        all
    }

    /// More counters, so that each has a lock of its own, as far as there are enough locks.
    fn counters(&self) -> Vec<Change> {
        match self.w.counters.map(|counters| counters.count) {
            None => return Vec::new(),
            Some(1) => {
                let many =
                    Change::to(&Workload::counters, number(64)).and(&Workload::counter_stride, number(64));
                return vec![many];
            }
            Some(_) => {}
        }
        // Addresses that differ only in bits below `slot_low_bit` share a lock. A counter has 8 bytes.
        let per_lock = 1 << self.profiles.first().device.atomics.slot_low_bit.clamp(3, 30);
        [per_lock, 64].map(|stride| Change::to(&Workload::counter_stride, number(stride))).into()
    }

    /// The profile of the machines that post.
    fn poster(&self) -> &Profile {
        match self.w.pattern {
            Pattern::Outbound => self.profiles.first(),
            Pattern::Inbound | Pattern::AllToAll => {
                self.profiles.all().last().unwrap_or(self.profiles.first())
            }
        }
    }

    /// Slightly smaller sizes that are cheaper: the largest ones that make whole packets, make whole lines,
    /// or fit inline.
    fn sizes(&self) -> Vec<Change> {
        // The sizes of a mix are part of the workload.
        let Some(&Operation { verb, size, .. }) = self.w.only_operation() else { return Vec::new() };
        if verb.is_atomic() || size < 2 {
            return Vec::new();
        }
        let (poster, mtu) = (self.poster(), self.profiles.least(|profile| profile.device.link.mtu));
        let receives = self.profiles.least(|profile| profile.device.nic.max_inline_recv);
        let least = size - (size / SMALLER).max(1);
        let below = |step: u32| (size - 1) / step.max(1) * step;
        let lines = |shape: PostShape| shape.wqe_lines(poster.device.generation);
        let fewer = |of: &dyn Fn(u32) -> PostShape| {
            (least..size).rev().find(|smaller| lines(of(*smaller)) < lines(of(size)))
        };
        let shape = |size| post_shape(self.w, size, poster);
        let of_wqe = fewer(&shape);
        let inlined = poster.device.nic.max_inline;
        // Payload that is read by DMA may be faster inline, if it is slightly shorter.
        let by_dma = verb.carries_payload() && !self.w.inlines() && size <= inlined;
        let of_inline = by_dma.then(|| fewer(&|size| PostShape { inline: true, ..shape(size) })).flatten();
        let mut changes = Vec::new();
        let mut add = |smaller: u32, other: Option<&'static Field>| {
            if (least..size).contains(&smaller) && smaller > 0 {
                let change = Change::to(&Workload::size, number(smaller));
                changes.push(other.map_or(change.clone(), |other| change.and(other, Value::Switch(true))));
            }
        };
        if verb.carries_payload() {
            add(inlined, (size > inlined).then_some(&Workload::inline));
        }
        if size > mtu {
            add(below(mtu), None);
        }
        of_wqe.into_iter().for_each(|smaller| add(smaller, None));
        of_inline.into_iter().for_each(|smaller| add(smaller, Some(&Workload::inline)));
        if verb == Verb::Send && size > receives {
            add(receives, Some(&Workload::inline_recv));
        }
        add(below(64), None);
        changes
    }
}
