//! The tracer of a run: the state seen so far, and the drawing of it.

use super::file::TraceFile;
use super::follower::{Follower, PathsOf};
use super::operations::{DeviceQp, EndedOperation, OperationEnd, Operations, TakenCqe, TracedMessage};
use super::pcapng::Pcapng;
use super::perfetto::{Note, Perfetto, Slice};
use super::tracks::{Names, TrackPlace};
use super::way::{KeptPath, OperationPath, Rows};
use crate::core::index::{CoreId, DeviceId, IdVec, MachineId, QpId, WqeId};
use crate::core::ps::Ps;
use crate::core::queue::SimEvent;
use crate::device::{COUNTS, CqSlot, Cqe, SimDevice};
use crate::env::Env;
use crate::fabric::Fabric;
use crate::host::Mmio;
use doorbell_verbs::{OperationKey, OperationStep, Time};
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};

/// Operations that may be posted after the last traced operation: this many for each traced operation, but at
/// least [`LATER`]. After these, the trace ends even if some traced operations have not ended.
const LATER_PER_OPERATION: u64 = 16;
const LATER: u64 = 1024;

/// Options of a trace, and its output files.
pub struct Tracing {
    /// Output of a trace in Perfetto's format.
    pub trace: Option<Box<dyn Write + Send>>,
    /// Output of the packets in pcapng format.
    pub pcap: Option<Box<dyn Write + Send>>,
    /// Start of the trace. The default is the start of the metering window.
    pub from: Option<Time>,
    /// Number of operations to trace, in order of posting; at least 1. Both files end when all of these have
    /// ended, or when 16 times as many operations (at least 1024) were posted later.
    pub operations: u64,
    /// The operations whose paths to keep in [`Traced::paths`]; `None` to keep no path. If threads mark
    /// operations, `operations` counts marked operations, and their work requests are traced in addition.
    pub paths: Option<PathsOf>,
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tracing { from, operations, paths, .. } = self;
        let mut shown = f.debug_struct("Tracing");
        shown.field("from", from).field("operations", operations).field("paths", paths);
        shown.finish_non_exhaustive()
    }
}

/// Summary of a trace.
#[derive(Debug)]
pub struct Traced {
    /// Number of traced operations.
    pub operations: u64,
    /// Traced operations that had not ended when the trace ended.
    pub unfinished: u64,
    /// Whether the requested number of operations was reached, so that the trace ended before the run.
    pub reached_limit: bool,
    /// Start of the trace.
    pub from: Time,
    /// End of the trace. It is before `from` if the run ended before the trace began.
    pub until: Time,
    /// The first error of the trace file, if any.
    pub trace: io::Result<()>,
    /// The first error of the capture file, if any.
    pub pcap: io::Result<()>,
    /// The paths of operations that completed, in order of their ends; empty unless requested.
    pub paths: Vec<KeptPath>,
    /// Operations without a path although paths were requested: they did not complete, or sent a message
    /// again.
    pub without_path: u64,
}

/// The packet that a receiving unit is done with.
pub(super) enum ReceivedPacket {
    /// A response with data for memory, given by the requester's QP and the PSN.
    Data(DeviceQp, u32),
    /// A message without acknowledgement.
    Message(TracedMessage),
    /// A request with an acknowledgement: its operation's number, and the operation's path so far.
    Request(u64, OperationPath),
}

/// State of a device when the tracer last read it.
#[derive(Default)]
pub(super) struct LastSeen {
    pub(super) counts: [Option<u64>; COUNTS.len()],
    pub(super) at_ports: Option<u64>,
    /// When the PCIe link towards the host is free.
    pub(super) to_host: Ps,
    /// When the last DMA write becomes visible.
    pub(super) last_visible: Ps,
}

/// The tracer of a run.
pub(crate) struct Tracer {
    pub(super) asked: u64,
    pub(super) from: Ps,
    /// Traced operations, and operations posted after the last of them.
    pub(super) operations_seen: u64,
    pub(super) later: u64,
    pub(super) operations: Operations,
    pub(super) follower: Follower,
    pub(super) drawing: Drawing,
    pub(super) pcap: Option<Pcapng>,
    pub(super) seen: IdVec<DeviceId, LastSeen>,
    /// The last event with its time, and the packet that a receiving unit finished in it.
    pub(super) last: Option<(Ps, SimEvent)>,
    pub(super) received: Option<ReceivedPacket>,
    /// The completions that a thread is polling.
    pub(super) taken: Vec<(Ps, Cqe)>,
    /// When each core has built the WQEs that it is about to announce.
    pub(super) built: HashMap<(MachineId, CoreId), Ps>,
}

/// The trace file, if requested.
pub(super) struct Drawing {
    pub(super) perfetto: Option<Perfetto<TrackPlace>>,
    pub(super) names: Names,
    /// Rows of each QP, and of inbound messages of each device.
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

    /// Draws a path with its stages nested in it.
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
            Note::Text("end", end.name().into()),
        ];
        notes.extend(operation.psns.map(|(first, _)| Note::Number("psn", first.into())));
        let row = self.rows.entry((device, Some(qp))).or_default().take(&operation.way);
        let place = TrackPlace::Qp(device, qp, row);
        self.way(place, &operation.name, &operation.way, &notes, operation.number);
    }

    /// Draws a message that has arrived or was lost.
    pub(super) fn message(&mut self, into: DeviceId, message: &TracedMessage) {
        let Some(way) = &message.way else { return };
        let row = self.rows.entry((into, None)).or_default().take(way);
        let notes = [Note::Number("operation", message.number)];
        self.way(TrackPlace::Incoming(into, row), &message.name, way, &notes, message.number);
    }
}

impl Tracer {
    pub(crate) fn new(tracing: Tracing, devices: &IdVec<DeviceId, SimDevice>, fabric: &Fabric) -> Tracer {
        let Tracing { trace, pcap, from, operations, paths } = tracing;
        let asked = operations.max(1);
        Tracer {
            asked,
            from: from.map_or(Ps::NEVER, Ps::from),
            operations_seen: 0,
            later: 0,
            operations: Operations::default(),
            follower: Follower::new(paths, asked),
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

    /// Sets the start of metering, which is also the default start of the trace.
    pub(crate) fn metered_from(&mut self, from: Ps) {
        if self.from == Ps::NEVER {
            self.from = from;
        }
    }

    /// Whether everything requested has been seen.
    pub(super) fn is_done(&self) -> bool {
        let Operations { live, messages, .. } = &self.operations;
        let ended = *live == 0 && messages.is_empty() && self.follower.is_done();
        self.operations_seen >= self.asked
            && (ended || self.later >= LATER.max(LATER_PER_OPERATION * self.asked))
    }

    /// Ends the files.
    pub(crate) fn close(mut self, env: &Env, devices: &IdVec<DeviceId, SimDevice>) -> Traced {
        self.settle(env, devices);
        self.follower.join();
        let reached_limit = self.is_done();
        let over = self.operations.give_up_all(OperationEnd::Unfinished);
        let unfinished = over.len() as u64;
        over.into_iter().for_each(|over| self.drawing.operation(over));
        let (paths, without_path) = self.follower.close(unfinished);
        Traced {
            operations: self.operations_seen,
            unfinished,
            reached_limit,
            from: self.from.time(),
            until: env.now.time(),
            trace: self.drawing.perfetto.map_or(Ok(()), Perfetto::close),
            pcap: self.pcap.map_or(Ok(()), Pcapng::close),
            paths,
            without_path,
        }
    }

    /// Records that a thread has built the WQEs in `slots` of a QP, from `begin` to `built`.
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
        let mut keys = self.follower.posts(core);
        for wqe in slots {
            let key = keys.pop_front().filter(|key| self.follower.has(*key));
            let is_traced = self.operations_seen < self.asked || key.is_some();
            self.operations_seen += u64::from(is_traced);
            self.later += u64::from(!is_traced);
            let number = is_traced.then_some((self.operations_seen, core.0));
            let of = (device.id, qp);
            let over = self.operations.posted(of, &device.qps[qp], wqe, number, (begin, built));
            over.into_iter().for_each(|over| self.drawing.operation(over));
            if let Some((key, operation)) = key.zip(self.operations.of_wqe(of, wqe)) {
                self.follower.posted(key, operation, begin);
            }
        }
    }

    /// Records a step that a thread marks.
    #[cold]
    #[inline(never)]
    pub(crate) fn marked(
        &mut self,
        core: (MachineId, CoreId),
        now: Ps,
        key: OperationKey,
        step: OperationStep,
    ) {
        if now >= self.from {
            self.follower.marked(core, now, key, step);
        }
    }

    /// Records a doorbell or a line of a WQE that is about to leave a core. The event of the MMIO write
    /// changes nothing else that is traced, so [`Tracer::event`] does not handle it.
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

    /// Records that a thread has announced `count` WQEs at time `told`. The NIC knows of them at `at`.
    fn announced(&mut self, core: (MachineId, CoreId), of: (DeviceId, QpId), count: usize, told: Ps, at: Ps) {
        if let Some(built) = self.built.remove(&core) {
            self.drawing.slice(TrackPlace::Core(core.0, core.1), "MMIO", built, told, None);
            self.operations.announced(of, count, (built, told), at);
        }
    }

    /// Called before a thread polls the first completions of a CQ.
    #[cold]
    #[inline(never)]
    pub(crate) fn polls(&mut self, cq: &CqSlot, most: usize) {
        self.taken.extend(cq.first_visible(most));
    }

    /// Called after a thread has polled the completions.
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
            for over in self.operations.polled(device.id, taken, poll) {
                self.follower.ended(&over);
                self.drawing.operation(over);
            }
        }
    }
}
