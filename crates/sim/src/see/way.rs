//! The path of an operation: a sequence of stages without gaps.

use crate::core::ps::Ps;

/// A stage of an operation, or of a message without acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationStage {
    /// The CPU builds the WQE.
    Post,
    /// The CPU writes the WQE, or a doorbell, to the NIC.
    Mmio,
    /// The WQE or doorbell is on its way to the NIC.
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
    /// The responder's NIC reads the data. In the next variant, it waits for an atomic's lock and then reads
    /// the word.
    DataRead,
    AtomicRead,
    /// The requester's NIC writes the data.
    DataWrite,
    /// The receiver's NIC writes the message, and the CQE of its RECV if there is one.
    MessageWrite,
    /// The CQE is on its way to memory.
    Cqe,
    Poll,
    /// The operation waits for the next stage.
    Wait(Wait),
}

/// The resource or event that an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Cpu,
    SendingUnit,
    /// The port, room at the peer port, or packets that go first.
    Port,
    ReceivingUnit,
    PcieLink,
    /// The response to the operation, or to a later one that acknowledges this one, too.
    Answer,
    /// A time-out or NAK, because a packet was lost.
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
            Wait::Answer => "waits for a response",
            Wait::Timeout => "waits for a time-out or NAK",
            Wait::Poll => "waits for a poll",
        }
    }
}

/// The stages of an operation with their times.
pub(super) struct OperationPath {
    pub(super) begin: Ps,
    /// The end of the last stage so far.
    pub(super) at: Ps,
    /// Each stage with its end, which is the beginning of the next stage.
    stages: Vec<(OperationStage, Ps)>,
}

impl OperationPath {
    pub(super) fn new(begin: Ps) -> OperationPath {
        OperationPath { begin, at: begin, stages: Vec::new() }
    }

    /// Adds a stage from the present end to `to`.
    pub(super) fn on(&mut self, stage: OperationStage, to: Ps) {
        if to <= self.at {
            return; // Another packet of the message was there first.
        }
        self.at = to;
        match self.stages.last_mut() {
            Some((last, end)) if *last == stage => *end = to,
            _ => self.stages.push((stage, to)),
        }
    }

    /// Adds a stage from `from` to `to`, and a wait before it.
    pub(super) fn go(&mut self, wait: Wait, stage: OperationStage, from: Ps, to: Ps) {
        let lost = self.stages.last().is_some_and(|(last, _)| *last == OperationStage::Lost);
        self.on(OperationStage::Wait(if lost { Wait::Timeout } else { wait }), from);
        self.on(stage, to);
    }

    /// The stages with their beginnings and ends.
    pub(super) fn stages(&self) -> impl Iterator<Item = (OperationStage, Ps, Ps)> {
        let begins = std::iter::once(self.begin).chain(self.stages.iter().map(|(_, end)| *end));
        begins.zip(&self.stages).map(|(from, (stage, to))| (*stage, from, *to))
    }
}

/// Rows for paths that overlap in time. Each row holds the end of its last path.
#[derive(Default)]
pub(super) struct Rows(Vec<Ps>);

impl Rows {
    /// The first row that is free for a path.
    pub(super) fn take(&mut self, way: &OperationPath) -> u32 {
        let row = self.0.iter().position(|end| *end <= way.begin).unwrap_or(self.0.len());
        match self.0.get_mut(row) {
            Some(end) => *end = way.at,
            None => self.0.push(way.at),
        }
        row as u32
    }
}
