//! The path of an operation: a sequence of stages without gaps.

use crate::core::index::{Id, MachineId};
use crate::core::ps::Ps;
use doorbell_verbs::Time;

/// A stage of an operation, or of a message without acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationStage {
    /// A thread of the program works on the operation.
    Program,
    /// The CPU builds the WQE.
    Post,
    /// The CPU writes the WQE, or a doorbell, to the NIC.
    Mmio,
    /// The WQE or doorbell is on its way to the NIC.
    Pcie,
    /// The NIC reads the WQE.
    WqeRead,
    /// A sending unit builds a packet.
    SendingUnit,
    /// The sender's NIC reads the payload.
    PayloadRead,
    /// The packet is on the links and in the switch.
    Link,
    /// The packet does not arrive.
    Lost,
    /// A receiving unit looks at the packet.
    ReceivingUnit,
    /// The responder's NIC reads the data.
    DataRead,
    /// The responder's NIC waits for an atomic's lock and then reads the word.
    AtomicRead,
    /// The requester's NIC writes the data.
    DataWrite,
    /// The receiver's NIC writes the message, and the CQE of its RECV if there is one.
    MessageWrite,
    /// The CQE is on its way to memory.
    Cqe,
    /// The call that finds the CQE.
    Poll,
    /// The operation waits for the next stage.
    Wait(Wait),
}

/// The resource or event that an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The operation is due, but its thread does not begin it yet.
    Turn,
    /// The core that announces the WQE.
    Cpu,
    /// A unit of the sender.
    SendingUnit,
    /// The port, room at the peer port, or packets that go first.
    Port,
    /// A unit of the receiver.
    ReceivingUnit,
    /// The PCIe link towards the host.
    PcieLink,
    /// The response to the operation, or to a later one that acknowledges this one, too.
    Answer,
    /// A time-out or NAK, because a packet was lost.
    Timeout,
    /// The poll that finds the CQE.
    Poll,
    /// The thread that finds the message in memory or polls its CQE.
    Thread,
}

/// The part of a machine, or of the network, that is busy in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageKind {
    /// A core.
    Cpu,
    /// A unit of a NIC.
    Unit,
    /// A PCIe link, with the memory behind it.
    Pcie,
    /// Links and switch.
    Network,
    /// Nothing: the operation waits.
    Wait,
}

impl OperationStage {
    /// The part that is busy in the stage.
    pub const fn kind(self) -> StageKind {
        match self {
            OperationStage::Program | OperationStage::Post | OperationStage::Mmio | OperationStage::Poll => {
                StageKind::Cpu
            }
            OperationStage::SendingUnit | OperationStage::ReceivingUnit => StageKind::Unit,
            OperationStage::Link | OperationStage::Lost => StageKind::Network,
            OperationStage::Wait(_) => StageKind::Wait,
            OperationStage::Pcie
            | OperationStage::WqeRead
            | OperationStage::PayloadRead
            | OperationStage::DataRead
            | OperationStage::AtomicRead
            | OperationStage::DataWrite
            | OperationStage::MessageWrite
            | OperationStage::Cqe => StageKind::Pcie,
        }
    }

    /// The name of the stage in traces and tables.
    pub const fn name(self) -> &'static str {
        match self {
            OperationStage::Program => "program",
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
            Wait::Turn => "waits to be sent",
            Wait::Cpu => "waits for the CPU",
            Wait::SendingUnit => "waits for a sending unit",
            Wait::Port => "waits for the port",
            Wait::ReceivingUnit => "waits for a receiving unit",
            Wait::PcieLink => "waits for PCIe",
            Wait::Answer => "waits for a response",
            Wait::Timeout => "waits for a time-out or NAK",
            Wait::Poll => "waits for a poll",
            Wait::Thread => "waits for the program",
        }
    }
}

/// A stage of a kept path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStage {
    /// The stage.
    pub stage: OperationStage,
    /// Number of the machine, from 0; `None` if the stage is in the network.
    pub machine: Option<u32>,
    /// Begin of the stage, in virtual time. The previous stage ends at this time.
    pub from: Time,
    /// End of the stage, in virtual time.
    pub to: Time,
}

/// The path of an operation that has ended. Its stages follow each other without gaps from begin to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPath {
    /// Verbs and sizes of the operation's work requests.
    pub name: String,
    /// Number of the machine that began the operation, from 0.
    pub machine: u32,
    /// The stages, at least one.
    pub stages: Vec<PathStage>,
}

/// The stages of an operation with their times.
#[derive(Clone)]
pub(super) struct OperationPath {
    pub(super) begin: Ps,
    /// The end of the last stage so far.
    pub(super) at: Ps,
    /// The machine of the next stage.
    machine: MachineId,
    /// Each stage with its machine and its end, which is the beginning of the next stage.
    stages: Vec<(OperationStage, MachineId, Ps)>,
}

impl OperationPath {
    /// A path that begins on `machine`.
    pub(super) fn new(begin: Ps, machine: MachineId) -> OperationPath {
        OperationPath { begin, at: begin, machine, stages: Vec::new() }
    }

    /// Continues the path on `machine`.
    pub(super) fn on_machine(&mut self, machine: MachineId) -> &mut OperationPath {
        self.machine = machine;
        self
    }

    /// Adds a stage from the present end to `to`.
    pub(super) fn on(&mut self, stage: OperationStage, to: Ps) {
        if to <= self.at {
            return; // Another packet of the message was there first.
        }
        self.at = to;
        match self.stages.last_mut() {
            Some((last, _, end)) if *last == stage => *end = to,
            _ => self.stages.push((stage, self.machine, to)),
        }
    }

    /// Adds a stage from `from` to `to`, and a wait before it.
    pub(super) fn go(&mut self, wait: Wait, stage: OperationStage, from: Ps, to: Ps) {
        let lost = self.stages.last().is_some_and(|(last, ..)| *last == OperationStage::Lost);
        self.on(OperationStage::Wait(if lost { Wait::Timeout } else { wait }), from);
        self.on(stage, to);
    }

    /// Adds the stages of a path that follows, and a wait before it.
    pub(super) fn append(&mut self, wait: Wait, next: &OperationPath) {
        self.on(OperationStage::Wait(wait), next.begin);
        for (stage, machine, to) in &next.stages {
            self.on_machine(*machine).on(*stage, *to);
        }
    }

    /// The stages with their beginnings and ends.
    pub(super) fn stages(&self) -> impl Iterator<Item = (OperationStage, Ps, Ps)> {
        self.placed().map(|(stage, _, from, to)| (stage, from, to))
    }

    /// The stages with their machines, beginnings and ends.
    fn placed(&self) -> impl Iterator<Item = (OperationStage, MachineId, Ps, Ps)> {
        let begins = std::iter::once(self.begin).chain(self.stages.iter().map(|(.., end)| *end));
        begins.zip(&self.stages).map(|(from, (stage, machine, to))| (*stage, *machine, from, *to))
    }

    /// The path to keep of an operation that `machine` began. `None` if it has no stages.
    pub(super) fn kept(&self, name: String, machine: MachineId) -> Option<KeptPath> {
        let stage = |(stage, machine, from, to): (OperationStage, MachineId, Ps, Ps)| {
            let in_network = stage.kind() == StageKind::Network;
            let machine = (!in_network).then_some(machine.index() as u32);
            PathStage { stage, machine, from: from.time(), to: to.time() }
        };
        let stages: Vec<PathStage> = self.placed().map(stage).collect();
        let machine = machine.index() as u32;
        (!stages.is_empty()).then_some(KeptPath { name, machine, stages })
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
