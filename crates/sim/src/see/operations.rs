//! Traced operations that have not ended.

use super::way::{OperationPath, OperationStage, Wait};
use crate::core::index::{DeviceId, FlightId, MachineId, QpId, WqeId};
use crate::core::ps::Ps;
use crate::device::{Cqe, QpSlot};
use doorbell_verbs::{Opcode, QpType, WcStatus};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A traced work request.
pub(super) struct TracedOperation {
    /// The operation's number in the trace, from 1. It names the flow that connects the operation's slices.
    pub(super) number: u64,
    pub(super) name: String,
    /// The machine that posted the work request.
    pub(super) machine: MachineId,
    pub(super) wr_id: u64,
    /// First PSN, once a sending unit has made the first packet, and number of PSNs.
    pub(super) psns: Option<(u32, u32)>,
    pub(super) way: OperationPath,
    /// Number of PSNs of the response: more than one for a long READ.
    answers: u32,
    /// Packets of the message, if the operation ends with the message's acknowledgement because it returns no
    /// data and gets no CQE.
    ends_after: Option<u32>,
    /// Whether the WQE was announced to the NIC.
    announced: bool,
    answered: bool,
    /// When the response's data began to cross the PCIe link.
    placed: Option<Ps>,
}

/// A QP of a device.
pub(super) type DeviceQp = (DeviceId, QpId);

/// The work requests of a QP, from the first traced one that has not ended.
#[derive(Default)]
struct OnQp {
    /// Work requests in order. Untraced ones have only their slots.
    posted: VecDeque<(WqeId, Option<TracedOperation>)>,
    life: u16,
}

/// A message without acknowledgement on its way to the receiver.
pub(super) struct TracedMessage {
    /// Number of the message's operation.
    pub(super) number: u64,
    pub(super) name: String,
    /// The message's path; none before it is on a link.
    pub(super) way: Option<OperationPath>,
    /// The operation's path up to the link, if the path of an operation of several messages is wanted.
    pub(super) before: Option<OperationPath>,
}

/// Operations by QP and messages by packet.
#[derive(Default)]
pub(super) struct Operations {
    on: BTreeMap<DeviceQp, OnQp>,
    pub(super) messages: HashMap<FlightId, TracedMessage>,
    /// Operations that have not ended.
    pub(super) live: u64,
}

/// An operation that has ended or was given up, and how it ended.
pub(super) struct EndedOperation {
    pub(super) of: DeviceQp,
    pub(super) operation: TracedOperation,
    pub(super) end: OperationEnd,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationEnd {
    /// Its CQE reports success.
    Completed,
    /// Its CQE reports an error.
    Failed,
    /// It is not signaled.
    WithoutCqe,
    /// Its QP was reset.
    Reset,
    /// The trace ended first.
    Unfinished,
}

impl OperationEnd {
    pub(super) const fn name(self) -> &'static str {
        match self {
            OperationEnd::Completed => "completed",
            OperationEnd::Failed => "failed",
            OperationEnd::WithoutCqe => "without a CQE",
            OperationEnd::Reset => "the QP was reset",
            OperationEnd::Unfinished => "unfinished",
        }
    }
}

fn opcode(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::Send => "SEND",
        Opcode::SendWithImm => "SEND with immediate",
        Opcode::Write => "WRITE",
        Opcode::WriteWithImm => "WRITE with immediate",
        Opcode::Read => "READ",
        Opcode::CompareSwap => "compare-and-swap",
        Opcode::FetchAdd => "fetch-and-add",
    }
}

/// Distance from PSN `of` to `psn`, modulo 2^24.
fn ahead(psn: u32, of: u32) -> u32 {
    psn.wrapping_sub(of) & 0xff_ffff
}

impl TracedOperation {
    /// The work request in a slot, whose WQE a core of `machine` built from `begin` to `built`.
    fn new(
        (number, machine): (u64, MachineId),
        slot: &QpSlot,
        wqe: WqeId,
        (begin, built): (Ps, Ps),
    ) -> TracedOperation {
        let request = slot.qp.send_wqe(wqe.0);
        let code = request.op.opcode();
        let mut way = OperationPath::new(begin, machine);
        way.on(OperationStage::Post, built);
        let packets = request.len.div_ceil(slot.qp.packet_payload()).max(1);
        let answers = if code == Opcode::Read { packets } else { 1 };
        let silent = !slot.qp.signals(request.flags) && !is_unreliable(slot.qp.qp_type());
        TracedOperation {
            number,
            name: format!("{} {} B", opcode(code), request.len),
            machine,
            wr_id: request.wr_id,
            psns: None,
            way,
            answers,
            ends_after: (silent && !code.returns_data()).then_some(packets),
            announced: false,
            answered: false,
            placed: None,
        }
    }

    /// Records a packet with this PSN that a sending unit has made.
    pub(super) fn sent(&mut self, psn: u32) {
        let (first, count) = self.psns.unwrap_or((psn, self.answers));
        self.psns = Some((first, count.max(ahead(psn, first) + 1)));
    }

    fn has(&self, psn: u32) -> bool {
        self.psns.is_some_and(|(first, count)| ahead(psn, first) < count)
    }

    /// Whether a response with this PSN acknowledges this operation, too.
    fn is_before(&self, psn: u32) -> bool {
        self.psns.is_some_and(|(first, count)| (count..1 << 23).contains(&ahead(psn, first)))
    }

    /// Whether a response with this PSN ends the operation by acknowledging all of it. A refusal acknowledges
    /// only earlier PSNs.
    fn ends_with(&self, psn: u32, refused: bool) -> bool {
        let (Some(packets), Some((first, sent))) = (self.ends_after, self.psns) else { return false };
        let last = ahead(psn, first) + 1 == packets && !refused;
        sent == packets && (last || self.is_before(psn))
    }

    /// Records when the operation's data began to cross the PCIe link to memory.
    pub(super) fn placed(&mut self, at: Ps) {
        self.placed = Some(at);
    }

    /// Records the poll of the operation's CQE. `began` is when the CQE began to cross the PCIe link,
    /// `visible` when it became visible.
    fn polled(&mut self, (began, visible): (Ps, Ps), (from, to): (Ps, Ps)) {
        self.way.on_machine(self.machine);
        if let Some(placed) = self.placed {
            self.way.go(Wait::PcieLink, OperationStage::DataWrite, placed, began);
        }
        self.way.go(Wait::PcieLink, OperationStage::Cqe, began, visible);
        self.way.go(Wait::Poll, OperationStage::Poll, from, to);
    }
}

/// A polled CQE, when it began to cross the PCIe link, and when it became visible.
#[derive(Clone, Copy)]
pub(super) struct TakenCqe {
    pub(super) cqe: Cqe,
    pub(super) began: Ps,
    pub(super) visible: Ps,
}

impl Operations {
    /// Records a posted work request, which is traced if it has a number. The number comes with the machine
    /// that posted. Returns operations that were given up because the QP was reset.
    pub(super) fn posted(
        &mut self,
        of: DeviceQp,
        slot: &QpSlot,
        wqe: WqeId,
        number: Option<(u64, MachineId)>,
        built: (Ps, Ps),
    ) -> Vec<EndedOperation> {
        let over = match self.on.get(&of) {
            Some(on) if on.life != slot.life => self.give_up(of, OperationEnd::Reset),
            _ => Vec::new(),
        };
        if number.is_none() && self.on.get(&of).is_none_or(|on| on.posted.is_empty()) {
            return over;
        }
        let on = self.on.entry(of).or_default();
        on.life = slot.life;
        let operation = number.map(|number| TracedOperation::new(number, slot, wqe, built));
        self.live += u64::from(operation.is_some());
        on.posted.push_back((wqe, operation));
        over
    }

    /// Records that the first `count` unannounced work requests of a QP were announced by MMIO: their WQEs or
    /// a doorbell. The NIC knows of them at `at`.
    pub(super) fn announced(&mut self, of: DeviceQp, count: usize, mmio: (Ps, Ps), at: Ps) {
        let Some(on) = self.on.get_mut(&of) else { return };
        let all = on.posted.iter_mut().filter_map(|(_, operation)| operation.as_mut());
        for operation in all.filter(|operation| !operation.announced).take(count) {
            operation.announced = true;
            operation.way.go(Wait::Cpu, OperationStage::Mmio, mmio.0, mmio.1);
            operation.way.on(OperationStage::Pcie, at);
        }
    }

    /// The operation in a slot of a send queue.
    pub(super) fn of_wqe(&mut self, of: DeviceQp, wqe: WqeId) -> Option<&mut TracedOperation> {
        let on = self.on.get_mut(&of)?;
        on.posted.iter_mut().find(|(slot, _)| *slot == wqe)?.1.as_mut()
    }

    /// The operations in `count` slots from `first` on.
    pub(super) fn of_wqes(
        &mut self,
        of: DeviceQp,
        first: WqeId,
        count: usize,
    ) -> impl Iterator<Item = &mut TracedOperation> {
        let posted = self.on.get_mut(&of).into_iter().flat_map(|on| on.posted.iter_mut());
        posted.skip_while(move |(wqe, _)| *wqe != first).take(count).filter_map(|(_, o)| o.as_mut())
    }

    /// The operation to which a response belongs.
    pub(super) fn of_psn(&mut self, of: DeviceQp, psn: u32) -> Option<&mut TracedOperation> {
        let all = self.on.get_mut(&of)?.posted.iter_mut().rev();
        all.filter_map(|(_, operation)| operation.as_mut()).find(|operation| operation.has(psn))
    }

    /// Records a response, which also acknowledges earlier operations. Returns the operations that end with
    /// it.
    pub(super) fn answered(&mut self, of: DeviceQp, psn: u32, refused: bool, now: Ps) -> Vec<EndedOperation> {
        let Some(on) = self.on.get_mut(&of) else { return Vec::new() };
        for operation in on.posted.iter_mut().filter_map(|(_, operation)| operation.as_mut()) {
            if operation.is_before(psn) && !operation.answered {
                operation.way.on_machine(operation.machine).on(OperationStage::Wait(Wait::Answer), now);
            }
            operation.answered |= operation.is_before(psn) || operation.has(psn);
        }
        let ended = |operation: &mut TracedOperation| operation.ends_with(psn, refused);
        let all = on.posted.iter_mut().filter_map(|(_, operation)| operation.take_if(ended));
        let over: Vec<EndedOperation> =
            all.map(|operation| EndedOperation { of, operation, end: OperationEnd::WithoutCqe }).collect();
        let first = on.posted.iter().position(|(_, operation)| operation.is_some());
        on.posted.drain(..first.unwrap_or(on.posted.len()));
        self.live -= over.len() as u64;
        over
    }

    /// Records a polled CQE, which also ends earlier operations of its QP. Returns the operations that end.
    pub(super) fn polled(
        &mut self,
        device: DeviceId,
        taken: TakenCqe,
        poll: (Ps, Ps),
    ) -> Vec<EndedOperation> {
        let of = (device, taken.cqe.qp);
        let Some(on) = self.on.get_mut(&of).filter(|on| on.life == taken.cqe.life) else { return Vec::new() };
        let last = on.posted.iter().position(|(wqe, _)| Some(*wqe) == taken.cqe.wqe.get());
        let Some(last) = last else { return Vec::new() };
        let mut over = Vec::new();
        for (wqe, operation) in on.posted.drain(..=last) {
            let Some(mut operation) = operation else { continue };
            let end = match taken.cqe.wc.status == WcStatus::Success {
                _ if Some(wqe) != taken.cqe.wqe.get() => OperationEnd::WithoutCqe,
                true => OperationEnd::Completed,
                false => OperationEnd::Failed,
            };
            if Some(wqe) == taken.cqe.wqe.get() {
                operation.polled((taken.began, taken.visible), poll);
            }
            over.push(EndedOperation { of, operation, end });
        }
        self.live -= over.len() as u64;
        over
    }

    /// Gives up the operations of a QP.
    fn give_up(&mut self, of: DeviceQp, end: OperationEnd) -> Vec<EndedOperation> {
        let Some(on) = self.on.remove(&of) else { return Vec::new() };
        let operations = on.posted.into_iter().filter_map(|(_, operation)| operation);
        let over: Vec<EndedOperation> =
            operations.map(|operation| EndedOperation { of, operation, end }).collect();
        self.live -= over.len() as u64;
        over
    }

    /// Gives up all operations.
    pub(super) fn give_up_all(&mut self, end: OperationEnd) -> Vec<EndedOperation> {
        let all: Vec<DeviceQp> = self.on.keys().copied().collect();
        all.into_iter().flat_map(|of| self.give_up(of, end)).collect()
    }
}

/// Whether messages of a transport have a path of their own, because their operation completes when they
/// leave.
pub(super) fn is_unreliable(transport: QpType) -> bool {
    transport != QpType::Rc
}
