//! The way of an operation: stages, one after another, without gaps.

use crate::core::ps::Ps;

/// What an operation, or a message without acknowledgement, goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationStage {
    /// The CPU builds the WQE.
    Post,
    /// The CPU writes it, or a doorbell, to the NIC.
    Mmio,
    /// Which is on its way there.
    Pcie,
    /// The NIC reads the WQE.
    WqeRead,
    SendingUnit,
    /// The sender's NIC reads the payload.
    PayloadRead,
    Link,
    /// The packet does not arrive.
    Lost,
    ReceivingUnit,
    /// The responder's NIC reads the data, or the word of an atomic, once that has its lock.
    DataRead,
    AtomicRead,
    /// The requester's NIC writes the data.
    DataWrite,
    /// The receiver's NIC writes the message, and the CQE of its RECV where it has one.
    MessageWrite,
    /// The CQE on its way to memory.
    Cqe,
    Poll,
    /// Nothing happens to it before the stage that follows.
    Wait(Wait),
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Cpu,
    SendingUnit,
    /// The port, room at the other one, or packets that go first.
    Port,
    ReceivingUnit,
    PcieLink,
    /// The answer to it, or to a later one that acknowledges it, too.
    Answer,
    /// A packet was lost.
    Timeout,
    Poll,
}

impl OperationStage {
    pub(super) const fn name(self) -> &'static str {
        match self {
            OperationStage::Post => "post",
            OperationStage::Mmio => "MMIO",
            OperationStage::Pcie => "PCIe",
            OperationStage::WqeRead => "DMA read: WQE",
            OperationStage::SendingUnit => "sending unit",
            OperationStage::PayloadRead => "DMA read: payload",
            OperationStage::Link => "link",
            OperationStage::Lost => "link: packet lost",
            OperationStage::ReceivingUnit => "receiving unit",
            OperationStage::DataRead => "DMA read: data",
            OperationStage::AtomicRead => "lock, DMA read: word",
            OperationStage::DataWrite => "DMA write: data",
            OperationStage::MessageWrite => "DMA write: message",
            OperationStage::Cqe => "CQE",
            OperationStage::Poll => "poll",
            OperationStage::Wait(wait) => wait.name(),
        }
    }
}

impl Wait {
    const fn name(self) -> &'static str {
        match self {
            Wait::Cpu => "waits for the CPU",
            Wait::SendingUnit => "waits for a sending unit",
            Wait::Port => "waits for the port",
            Wait::ReceivingUnit => "waits for a receiving unit",
            Wait::PcieLink => "waits for PCIe",
            Wait::Answer => "waits for an answer",
            Wait::Timeout => "waits for a time-out or NAK",
            Wait::Poll => "waits for a poll",
        }
    }
}

/// What an operation goes through, and when.
pub(super) struct OperationPath {
    pub(super) begin: Ps,
    /// How far it has come.
    pub(super) at: Ps,
    /// Each with its end, which is the beginning of the next.
    stages: Vec<(OperationStage, Ps)>,
}

impl OperationPath {
    pub(super) fn new(begin: Ps) -> OperationPath {
        OperationPath { begin, at: begin, stages: Vec::new() }
    }

    /// Goes through a stage up to `to`, from where it has come to.
    pub(super) fn on(&mut self, stage: OperationStage, to: Ps) {
        if to <= self.at {
            return; // Of a message of several packets, another was there first.
        }
        self.at = to;
        match self.stages.last_mut() {
            Some((last, end)) if *last == stage => *end = to,
            _ => self.stages.push((stage, to)),
        }
    }

    /// Goes through a stage; up to its beginning it waits.
    pub(super) fn go(&mut self, wait: Wait, stage: OperationStage, from: Ps, to: Ps) {
        let lost = self.stages.last().is_some_and(|(last, _)| *last == OperationStage::Lost);
        self.on(OperationStage::Wait(if lost { Wait::Timeout } else { wait }), from);
        self.on(stage, to);
    }

    /// The stages with their beginning and end.
    pub(super) fn stages(&self) -> impl Iterator<Item = (OperationStage, Ps, Ps)> {
        let begins = std::iter::once(self.begin).chain(self.stages.iter().map(|(_, end)| *end));
        begins.zip(&self.stages).map(|(from, (stage, to))| (*stage, from, *to))
    }
}

/// Rows for what overlaps in time, by when the last in each ends.
#[derive(Default)]
pub(super) struct Rows(Vec<Ps>);

impl Rows {
    /// The first row with room for a way.
    pub(super) fn take(&mut self, way: &OperationPath) -> u32 {
        let row = self.0.iter().position(|end| *end <= way.begin).unwrap_or(self.0.len());
        match self.0.get_mut(row) {
            Some(end) => *end = way.at,
            None => self.0.push(way.at),
        }
        row as u32
    }
}
