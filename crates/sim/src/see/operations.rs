//! Operations that are traced and have not ended.

use super::way::{OperationPath, OperationStage, Wait};
use crate::core::index::{DeviceId, FlightId, QpId, WqeId};
use crate::core::ps::Ps;
use crate::device::{Cqe, QpSlot};
use doorbell_verbs::{Opcode, QpType, WcStatus};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A work request on its way.
pub(super) struct TracedOperation {
    /// Its number in the trace, from 1; names the flow that connects its slices.
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) wr_id: u64,
    /// Its first PSN, once a sending unit has made its first packet, and how many it has.
    pub(super) psns: Option<(u32, u32)>,
    pub(super) way: OperationPath,
    /// PSNs that its answer has: those of a READ.
    answers: u32,
    /// PSNs of its message, where its acknowledgement is its end, as it brings no data and there will be no CQE.
    ends_after: Option<u32>,
    /// The NIC has been told.
    announced: bool,
    answered: bool,
    /// When the data of its answer began to cross the PCIe link.
    placed: Option<Ps>,
}

/// A QP of a device.
pub(super) type DeviceQp = (DeviceId, QpId);

/// The work requests of a QP from the first that is traced and has not ended on.
#[derive(Default)]
struct OnQp {
    /// Those that are not traced have only their places.
    posted: VecDeque<(WqeId, Option<TracedOperation>)>,
    life: u16,
}

/// A message that nobody acknowledges, on its way to the receiver.
pub(super) struct TracedMessage {
    /// Number of the operation.
    pub(super) number: u64,
    pub(super) name: String,
    /// None before it is on a link.
    pub(super) way: Option<OperationPath>,
}

/// Operations by QP and messages by packet.
#[derive(Default)]
pub(super) struct Operations {
    on: BTreeMap<DeviceQp, OnQp>,
    pub(super) messages: HashMap<FlightId, TracedMessage>,
    /// Operations that have not ended.
    pub(super) live: u64,
}

/// An operation that has ended, or was given up, with how.
pub(super) struct EndedOperation {
    pub(super) of: DeviceQp,
    pub(super) operation: TracedOperation,
    pub(super) end: &'static str,
}

/// How an operation ends that is not signalled.
const WITHOUT_CQE: &str = "without a CQE";

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

/// How far a PSN is ahead of another, modulo 2^24.
fn ahead(psn: u32, of: u32) -> u32 {
    psn.wrapping_sub(of) & 0xff_ffff
}

impl TracedOperation {
    /// The work request in a slot, whose WQE was built from `begin` to `built`.
    fn new(number: u64, slot: &QpSlot, wqe: WqeId, (begin, built): (Ps, Ps)) -> TracedOperation {
        let request = slot.qp.send_wqe(wqe.0);
        let code = request.op.opcode();
        let mut way = OperationPath::new(begin);
        way.on(OperationStage::Post, built);
        let packets = request.len.div_ceil(slot.qp.packet_payload()).max(1);
        let answers = if code == Opcode::Read { packets } else { 1 };
        let silent = !slot.qp.signals(request.flags) && !is_unreliable(slot.qp.qp_type());
        TracedOperation {
            number,
            name: format!("{} {} B", opcode(code), request.len),
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

    /// A sending unit has made its packet with this PSN.
    pub(super) fn sent(&mut self, psn: u32) {
        let (first, count) = self.psns.unwrap_or((psn, self.answers));
        self.psns = Some((first, count.max(ahead(psn, first) + 1)));
    }

    fn has(&self, psn: u32) -> bool {
        self.psns.is_some_and(|(first, count)| ahead(psn, first) < count)
    }

    /// Whether an answer with this PSN acknowledges it, too.
    fn is_before(&self, psn: u32) -> bool {
        self.psns.is_some_and(|(first, count)| (count..1 << 23).contains(&ahead(psn, first)))
    }

    /// Whether it ends as all of it is acknowledged: up to this PSN, which itself is not where it is refused.
    fn ends_with(&self, psn: u32, refused: bool) -> bool {
        let (Some(packets), Some((first, sent))) = (self.ends_after, self.psns) else { return false };
        let last = ahead(psn, first) + 1 == packets && !refused;
        sent == packets && (last || self.is_before(psn))
    }

    /// Its data began to cross the PCIe link to memory.
    pub(super) fn placed(&mut self, at: Ps) {
        self.placed = Some(at);
    }

    /// Its CQE, which began to cross the PCIe link and became visible, was polled.
    fn polled(&mut self, (began, visible): (Ps, Ps), (from, to): (Ps, Ps)) {
        if let Some(placed) = self.placed {
            self.way.go(Wait::PcieLink, OperationStage::DataWrite, placed, began);
        }
        self.way.go(Wait::PcieLink, OperationStage::Cqe, began, visible);
        self.way.go(Wait::Poll, OperationStage::Poll, from, to);
    }
}

/// A CQE that a poll took: when it began to cross the PCIe link, and when it became visible.
#[derive(Clone, Copy)]
pub(super) struct TakenCqe {
    pub(super) cqe: Cqe,
    pub(super) began: Ps,
    pub(super) visible: Ps,
}

impl Operations {
    /// A work request was posted; it is traced if it has a number. Returns those that were given up, as the QP
    /// was reset.
    pub(super) fn posted(
        &mut self,
        of: DeviceQp,
        slot: &QpSlot,
        wqe: WqeId,
        number: Option<u64>,
        built: (Ps, Ps),
    ) -> Vec<EndedOperation> {
        let over = match self.on.get(&of) {
            Some(on) if on.life != slot.life => self.give_up(of, "the QP was reset"),
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

    /// The first `count` work requests of a QP of which the NIC was not told were written by MMIO, or a
    /// doorbell for them, and will be at the NIC at `at`.
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

    /// The operation that an answer is for.
    pub(super) fn of_psn(&mut self, of: DeviceQp, psn: u32) -> Option<&mut TracedOperation> {
        let all = self.on.get_mut(&of)?.posted.iter_mut().rev();
        all.filter_map(|(_, operation)| operation.as_mut()).find(|operation| operation.has(psn))
    }

    /// An answer is at a QP by now: it answers those before it, too. Returns those that end with it.
    pub(super) fn answered(&mut self, of: DeviceQp, psn: u32, refused: bool, now: Ps) -> Vec<EndedOperation> {
        let Some(on) = self.on.get_mut(&of) else { return Vec::new() };
        for operation in on.posted.iter_mut().filter_map(|(_, operation)| operation.as_mut()) {
            if operation.is_before(psn) && !operation.answered {
                operation.way.on(OperationStage::Wait(Wait::Answer), now);
            }
            operation.answered |= operation.is_before(psn) || operation.has(psn);
        }
        let ended = |operation: &mut TracedOperation| operation.ends_with(psn, refused);
        let all = on.posted.iter_mut().filter_map(|(_, operation)| operation.take_if(ended));
        let over: Vec<EndedOperation> =
            all.map(|operation| EndedOperation { of, operation, end: WITHOUT_CQE }).collect();
        let first = on.posted.iter().position(|(_, operation)| operation.is_some());
        on.posted.drain(..first.unwrap_or(on.posted.len()));
        self.live -= over.len() as u64;
        over
    }

    /// A CQE was taken by a poll: it ends those before it on its QP, too.
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
                _ if Some(wqe) != taken.cqe.wqe.get() => WITHOUT_CQE,
                true => "completed",
                false => "failed",
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
    fn give_up(&mut self, of: DeviceQp, end: &'static str) -> Vec<EndedOperation> {
        let Some(on) = self.on.remove(&of) else { return Vec::new() };
        let operations = on.posted.into_iter().filter_map(|(_, operation)| operation);
        let over: Vec<EndedOperation> =
            operations.map(|operation| EndedOperation { of, operation, end }).collect();
        self.live -= over.len() as u64;
        over
    }

    /// Gives up all operations.
    pub(super) fn give_up_all(&mut self, end: &'static str) -> Vec<EndedOperation> {
        let all: Vec<DeviceQp> = self.on.keys().copied().collect();
        all.into_iter().flat_map(|of| self.give_up(of, end)).collect()
    }
}

/// Whether the messages of a transport are on their way without their operation, which is complete when they
/// leave.
pub(super) fn is_unreliable(transport: QpType) -> bool {
    transport != QpType::Rc
}
