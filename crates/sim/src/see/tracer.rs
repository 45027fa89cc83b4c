//! Watches a run: what was seen so far, and where it is drawn.

use super::file::TraceFile;
use super::operations::{DeviceQp, EndedOperation, Operations, TakenCqe, TracedMessage};
use super::pcapng::Pcapng;
use super::perfetto::{Note, Perfetto, Slice};
use super::tracks::{Names, TrackPlace};
use super::way::{OperationPath, Rows};
use crate::core::index::{CoreId, DeviceId, IdVec, MachineId, QpId, WqeId};
use crate::core::ps::Ps;
use crate::core::queue::SimEvent;
use crate::device::{COUNTS, CqSlot, Cqe, SimDevice};
use crate::env::Env;
use crate::fabric::Fabric;
use crate::host::Mmio;
use doorbell_verbs::Time;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};

/// Operations that may be posted after the last that is traced, for each of those and at least: then a trace ends
/// although some have not.
const LATER_PER_OPERATION: u64 = 16;
const LATER: u64 = 1024;

/// What is to be seen of a run, and where it is written.
pub struct Tracing {
    /// Takes a trace in Perfetto's format.
    pub trace: Option<Box<dyn Write + Send>>,
    /// Takes the packets as pcapng.
    pub pcap: Option<Box<dyn Write + Send>>,
    /// From when on; by default from when resources are metered.
    pub from: Option<Time>,
    /// Operations to trace, those posted first; at least 1. Both files end when the last of them has, or
    /// 16 times as many, at least 1024, were posted later.
    pub operations: u64,
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tracing { from, operations, .. } = self;
        f.debug_struct("Tracing").field("from", from).field("operations", operations).finish_non_exhaustive()
    }
}

/// What was seen of a run.
#[derive(Debug)]
pub struct Traced {
    /// Operations that were traced.
    pub operations: u64,
    /// Those of them that had not ended when the trace did.
    pub unfinished: u64,
    /// As many as were asked for: the trace ended before the run.
    pub reached_limit: bool,
    /// From when on.
    pub from: Time,
    /// Until when; earlier than `from` where the run had ended before.
    pub until: Time,
    /// Whether all of the trace is written.
    pub trace: io::Result<()>,
    /// Whether all packets are written.
    pub pcap: io::Result<()>,
}

/// What a receiving unit is done with.
pub(super) enum ReceivedPacket {
    /// The answer to an operation of a QP, with this PSN, that has data for memory.
    Data(DeviceQp, u32),
    /// A message without acknowledgement.
    Message(TracedMessage),
}

/// What was last seen of a device.
#[derive(Default)]
pub(super) struct LastSeen {
    pub(super) counts: [Option<u64>; COUNTS.len()],
    pub(super) at_ports: Option<u64>,
    /// Until when its PCIe link towards the host is taken.
    pub(super) to_host: Ps,
    /// When its last DMA write becomes visible.
    pub(super) last_visible: Ps,
}

/// Watches a run.
pub(crate) struct Tracer {
    pub(super) asked: u64,
    pub(super) from: Ps,
    /// Operations taken up, and those posted after the last of them.
    pub(super) operations_seen: u64,
    pub(super) later: u64,
    pub(super) operations: Operations,
    pub(super) drawing: Drawing,
    pub(super) pcap: Option<Pcapng>,
    pub(super) seen: IdVec<DeviceId, LastSeen>,
    /// The last event, with its time, and what a receiving unit is done with in it.
    pub(super) last: Option<(Ps, SimEvent)>,
    pub(super) received: Option<ReceivedPacket>,
    /// The completions that a thread is taking.
    pub(super) taken: Vec<(Ps, Cqe)>,
    /// When each core has built what it is going to tell the NIC of.
    pub(super) built: HashMap<(MachineId, CoreId), Ps>,
}

/// The trace, if there is to be one.
pub(super) struct Drawing {
    pub(super) perfetto: Option<Perfetto<TrackPlace>>,
    pub(super) names: Names,
    /// Rows of each QP, and of the messages that come in to a device.
    pub(super) rows: HashMap<(DeviceId, Option<QpId>), Rows>,
}

impl Drawing {
    pub(super) fn slice(&mut self, place: TrackPlace, name: &str, from: Ps, to: Ps, flow: Option<u64>) {
        if let Some(perfetto) = &mut self.perfetto
            && from < to
        {
            perfetto.slice(&self.names, place, &Slice { name, from, to, notes: &[], flow });
        }
    }

    pub(super) fn count(&mut self, place: TrackPlace, now: Ps, value: u64) {
        if let Some(perfetto) = &mut self.perfetto {
            perfetto.count(&self.names, place, now, value);
        }
    }

    /// Draws a way with its stages nested in it.
    pub(super) fn way(
        &mut self,
        place: TrackPlace,
        name: &str,
        way: &OperationPath,
        notes: &[Note],
        flow: u64,
    ) {
        let Some(perfetto) = &mut self.perfetto else { return };
        let ps = |from: Ps, to: Ps| Note::Number("ps", (to - from).0);
        let notes = [notes, &[ps(way.begin, way.at)]].concat();
        let slice = Slice { name, from: way.begin, to: way.at, notes: &notes, flow: Some(flow) };
        perfetto.begin(&self.names, place, &slice);
        for (stage, from, to) in way.stages() {
            let slice = Slice { name: stage.name(), from, to, notes: &[ps(from, to)], flow: None };
            perfetto.slice(&self.names, place, &slice);
        }
        perfetto.end(&self.names, place, way.at);
    }

    pub(super) fn operation(&mut self, EndedOperation { of: (device, qp), operation, end }: EndedOperation) {
        let mut notes = vec![
            Note::Number("operation", operation.number),
            Note::Number("wr_id", operation.wr_id),
            Note::Text("end", end.into()),
        ];
        notes.extend(operation.psns.map(|(first, _)| Note::Number("psn", first.into())));
        let row = self.rows.entry((device, Some(qp))).or_default().take(&operation.way);
        let place = TrackPlace::Qp(device, qp, row);
        self.way(place, &operation.name, &operation.way, &notes, operation.number);
    }

    /// A message that has come in, or was lost.
    pub(super) fn message(&mut self, into: DeviceId, message: &TracedMessage) {
        let Some(way) = &message.way else { return };
        let row = self.rows.entry((into, None)).or_default().take(way);
        let notes = [Note::Number("operation", message.number)];
        self.way(TrackPlace::Incoming(into, row), &message.name, way, &notes, message.number);
    }
}

impl Tracer {
    pub(crate) fn new(tracing: Tracing, devices: &IdVec<DeviceId, SimDevice>, fabric: &Fabric) -> Tracer {
        let Tracing { trace, pcap, from, operations } = tracing;
        Tracer {
            asked: operations.max(1),
            from: from.map_or(Ps::NEVER, Ps::from),
            operations_seen: 0,
            later: 0,
            operations: Operations::default(),
            drawing: Drawing {
                perfetto: trace.map(|out| Perfetto::new(TraceFile::new(out))),
                names: Names::of(devices, fabric),
                rows: HashMap::new(),
            },
            pcap: pcap.map(|out| Pcapng::new(TraceFile::new(out))),
            seen: devices.iter().map(|_| LastSeen::default()).collect(),
            last: None,
            received: None,
            taken: Vec::new(),
            built: HashMap::new(),
        }
    }

    /// Resources are metered from this moment on.
    pub(crate) fn metered_from(&mut self, from: Ps) {
        if self.from == Ps::NEVER {
            self.from = from;
        }
    }

    /// Whether all is seen that was asked for.
    pub(super) fn is_done(&self) -> bool {
        let Operations { live, messages, .. } = &self.operations;
        let ended = *live == 0 && messages.is_empty();
        self.operations_seen == self.asked
            && (ended || self.later >= LATER.max(LATER_PER_OPERATION * self.asked))
    }

    /// Ends the files.
    pub(crate) fn close(mut self, env: &Env, devices: &IdVec<DeviceId, SimDevice>) -> Traced {
        self.settle(env, devices);
        let reached_limit = self.is_done();
        let over = self.operations.give_up_all("unfinished");
        let unfinished = over.len() as u64;
        over.into_iter().for_each(|over| self.drawing.operation(over));
        Traced {
            operations: self.operations_seen,
            unfinished,
            reached_limit,
            from: self.from.time(),
            until: env.now.time(),
            trace: self.drawing.perfetto.map_or(Ok(()), Perfetto::close),
            pcap: self.pcap.map_or(Ok(()), Pcapng::close),
        }
    }

    /// A thread has built the WQEs in `slots` of a QP, from `begin` to `built`.
    pub(crate) fn posted(
        &mut self,
        core: (MachineId, CoreId),
        (device, qp): (&SimDevice, QpId),
        slots: impl Iterator<Item = WqeId>,
        (begin, built): (Ps, Ps),
    ) {
        if begin < self.from {
            return;
        }
        self.built.insert(core, built);
        self.drawing.slice(TrackPlace::Core(core.0, core.1), "post", begin, built, None);
        for wqe in slots {
            let is_traced = self.operations_seen < self.asked;
            self.operations_seen += u64::from(is_traced);
            self.later += u64::from(!is_traced);
            let number = is_traced.then_some(self.operations_seen);
            let of = (device.id, qp);
            let over = self.operations.posted(of, &device.qps[qp], wqe, number, (begin, built));
            over.into_iter().for_each(|over| self.drawing.operation(over));
        }
    }

    /// A doorbell, or a line of a WQE, is going to leave a core. That changes nothing else that is looked at, so it
    /// is no [`Tracer::event`].
    pub(crate) fn mmio(&mut self, core: (MachineId, CoreId), device: &SimDevice, mmio: &Mmio) {
        let (from, left) = device.mmio_leaves(mmio);
        if from >= self.from {
            let name = if mmio.doorbell { "doorbell" } else { "line of a WQE" };
            self.drawing.slice(TrackPlace::Mmio(device.id), name, from, left, None);
        }
        if let (true, SimEvent::Mmio { qp, count, .. }) = (mmio.last, mmio.then.event()) {
            let at = device.pcie.mmio_arrives(left) + mmio.hop;
            self.announced(core, (device.id, qp), count.into(), mmio.leaves, at);
        }
    }

    /// By `told` a thread has told the NIC of `count` WQEs, which will know of them at `at`.
    fn announced(&mut self, core: (MachineId, CoreId), of: (DeviceId, QpId), count: usize, told: Ps, at: Ps) {
        if let Some(built) = self.built.remove(&core) {
            self.drawing.slice(TrackPlace::Core(core.0, core.1), "MMIO", built, told, None);
            self.operations.announced(of, count, (built, told), at);
        }
    }

    /// A thread is going to take the first completions of a CQ.
    #[cold]
    #[inline(never)]
    pub(crate) fn polls(&mut self, cq: &CqSlot, most: usize) {
        self.taken.extend(cq.first_visible(most));
    }

    /// It has taken them.
    #[cold]
    #[inline(never)]
    pub(crate) fn polled(&mut self, core: (MachineId, CoreId), device: &SimDevice, poll: (Ps, Ps)) {
        let cqes = std::mem::take(&mut self.taken);
        if poll.0 < self.from {
            return;
        }
        self.drawing.slice(TrackPlace::Core(core.0, core.1), "poll", poll.0, poll.1, None);
        for (visible, cqe) in cqes {
            let taken = TakenCqe { cqe, began: device.cqe_began(visible), visible };
            let over = self.operations.polled(device.id, taken, poll);
            over.into_iter().for_each(|over| self.drawing.operation(over));
        }
    }
}
