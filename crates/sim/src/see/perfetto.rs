//! Perfetto's trace format: track events as successive protobuf messages, so that a trace is written while
//! the run goes on. Field numbers are those of `protos/perfetto/trace` in Perfetto's repository.
//!
//! Perfetto counts nanoseconds, so times are rounded down. Slices of an operation also carry their
//! picoseconds. Perfetto sorts by time, and keeps the file's order for equal times on a track. So slices of a
//! track must be written in order.

use super::file::TraceFile;
use crate::core::ps::Ps;
use std::collections::HashMap;
use std::hash::Hash;
use std::io;

/// Fields of messages, with Perfetto's names.
mod field {
    /// `Trace`.
    pub(super) const PACKET: u32 = 1;
    /// `TracePacket`.
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    /// `TrackEvent`.
    pub(super) const ANNOTATIONS: u32 = 4;
    pub(super) const TYPE: u32 = 9;
    pub(super) const NAME_IID: u32 = 10;
    pub(super) const TRACK_UUID: u32 = 11;
    pub(super) const COUNTER_VALUE: u32 = 30;
    pub(super) const FLOW_IDS: u32 = 47;
    /// `TrackDescriptor`.
    pub(super) const UUID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const PROCESS: u32 = 3;
    pub(super) const PARENT: u32 = 5;
    pub(super) const COUNTER: u32 = 8;
    pub(super) const CHILD_ORDERING: u32 = 11;
    pub(super) const RANK: u32 = 12;
    /// `ProcessDescriptor`.
    pub(super) const PID: u32 = 1;
    pub(super) const PROCESS_NAME: u32 = 6;
    /// `InternedData`.
    pub(super) const EVENT_NAMES: u32 = 2;
    pub(super) const ANNOTATION_NAMES: u32 = 3;
    /// `EventName` and `DebugAnnotationName`.
    pub(super) const IID: u32 = 1;
    pub(super) const INTERNED_NAME: u32 = 2;
    /// `DebugAnnotation`.
    pub(super) const ANNOTATION_IID: u32 = 1;
    pub(super) const UINT: u32 = 3;
    pub(super) const STRING: u32 = 6;
}

/// Values of `TrackEvent.Type`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const COUNTER: u64 = 4;
/// Value of `TrackDescriptor.ChildTracksOrdering`: by rank.
const EXPLICIT: u64 = 3;
/// Values of `TracePacket.SequenceFlags`: interned names were reset; interned names are needed.
const CLEARED: u64 = 1;
const NEEDS_NAMES: u64 = 2;
/// The only sequence of packets.
const ONLY_SEQUENCE: u64 = 1;

/// A protobuf message.
#[derive(Default)]
struct ProtoMessage(Vec<u8>);

impl ProtoMessage {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) -> &mut ProtoMessage {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    fn fixed(&mut self, field: u32, value: u64) -> &mut ProtoMessage {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn bytes(&mut self, field: u32, value: &[u8]) -> &mut ProtoMessage {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn message(&mut self, field: u32, value: &ProtoMessage) -> &mut ProtoMessage {
        self.bytes(field, &value.0)
    }
}

/// An annotation of a slice.
#[derive(Clone, Debug)]
pub(super) enum Note {
    Number(&'static str, u64),
    Text(&'static str, String),
}

/// The kind of a track.
pub(super) enum TrackKind {
    /// A machine, by its number.
    Process(u32),
    /// A track of slices, ordered by rank below its parent.
    Slices { rank: u32 },
    /// A track of a counter, ordered by rank below its parent.
    Counter { rank: u32 },
}

/// The description of a track, written once.
pub(super) struct Described<T> {
    pub(super) name: String,
    pub(super) kind: TrackKind,
    pub(super) below: Option<T>,
}

/// A slice of a track: its name, its time in picoseconds, its annotations, and the flow that connects it to
/// other slices.
pub(super) struct Slice<'a> {
    pub(super) name: &'a str,
    pub(super) from: Ps,
    pub(super) to: Ps,
    pub(super) notes: &'a [Note],
    pub(super) flow: Option<u64>,
}

/// Interned names, which are written once and then referred to by number.
#[derive(Default)]
struct Names(HashMap<String, u64>);

impl Names {
    /// The number of a name. Writes a new name to `told`.
    fn number(&mut self, name: &str, field: u32, told: &mut ProtoMessage) -> u64 {
        if let Some(number) = self.0.get(name) {
            return *number;
        }
        let number = self.0.len() as u64 + 1;
        self.0.insert(name.to_owned(), number);
        let mut entry = ProtoMessage::default();
        entry.number(field::IID, number).bytes(field::INTERNED_NAME, name.as_bytes());
        told.message(field, &entry);
        number
    }
}

/// A key of a track that can describe the track.
pub(super) trait Track: Copy + Eq + Hash {
    /// Source of the tracks' names.
    type Names;
    /// The description of the track, which is written once.
    fn describe(self, names: &Self::Names) -> Described<Self>;
}

/// A trace.
pub(super) struct Perfetto<T: Track> {
    file: TraceFile,
    uuids: HashMap<T, u64>,
    names: Names,
    annotations: Names,
    /// Whether the first packet has been written.
    begun: bool,
}

impl<T: Track> Perfetto<T> {
    pub(super) fn new(file: TraceFile) -> Perfetto<T> {
        Perfetto {
            file,
            uuids: HashMap::new(),
            names: Names::default(),
            annotations: Names::default(),
            begun: false,
        }
    }

    fn packet(&mut self, mut packet: ProtoMessage) {
        let cleared = if std::mem::replace(&mut self.begun, true) { 0 } else { CLEARED };
        packet.number(field::SEQUENCE, ONLY_SEQUENCE).number(field::SEQUENCE_FLAGS, cleared | NEEDS_NAMES);
        let mut framed = ProtoMessage::default();
        framed.message(field::PACKET, &packet);
        self.file.write(&framed.0);
    }

    /// The number of a track. Before the first use of a track, writes the track's description.
    fn uuid(&mut self, track: T, names: &T::Names) -> u64 {
        if let Some(uuid) = self.uuids.get(&track) {
            return *uuid;
        }
        let Described { name, kind, below } = track.describe(names);
        let parent = below.map(|below| self.uuid(below, names));
        let uuid = self.uuids.len() as u64 + 1;
        self.uuids.insert(track, uuid);
        let mut descriptor = ProtoMessage::default();
        descriptor.number(field::UUID, uuid);
        if let Some(parent) = parent {
            descriptor.number(field::PARENT, parent);
        }
        match kind {
            TrackKind::Process(number) => {
                let mut process = ProtoMessage::default();
                // Perfetto would take process 0 for the idle process.
                process.number(field::PID, u64::from(number) + 1).bytes(field::PROCESS_NAME, name.as_bytes());
                descriptor.message(field::PROCESS, &process).number(field::CHILD_ORDERING, EXPLICIT);
            }
            TrackKind::Slices { rank } => {
                descriptor.bytes(field::NAME, name.as_bytes()).number(field::RANK, rank.into());
            }
            TrackKind::Counter { rank } => {
                descriptor.bytes(field::NAME, name.as_bytes()).number(field::RANK, rank.into());
                descriptor.message(field::COUNTER, &ProtoMessage::default());
            }
        }
        let mut packet = ProtoMessage::default();
        packet.message(field::TRACK_DESCRIPTOR, &descriptor);
        self.packet(packet);
        uuid
    }

    fn event(&mut self, time: Ps, event: &ProtoMessage, told: &ProtoMessage) {
        let mut packet = ProtoMessage::default();
        packet.number(field::TIMESTAMP, time.0 / 1000).message(field::TRACK_EVENT, event);
        if !told.0.is_empty() {
            packet.message(field::INTERNED_DATA, told);
        }
        self.packet(packet);
    }

    fn annotation(&mut self, note: &Note, told: &mut ProtoMessage) -> ProtoMessage {
        let (Note::Number(name, _) | Note::Text(name, _)) = note;
        let iid = self.annotations.number(name, field::ANNOTATION_NAMES, told);
        let mut message = ProtoMessage::default();
        message.number(field::ANNOTATION_IID, iid);
        match note {
            Note::Number(_, value) => message.number(field::UINT, *value),
            Note::Text(_, text) => message.bytes(field::STRING, text.as_bytes()),
        };
        message
    }

    /// Begins a slice, in which other slices may nest.
    pub(super) fn begin(&mut self, names: &T::Names, track: T, slice: &Slice<'_>) {
        let uuid = self.uuid(track, names);
        let mut told = ProtoMessage::default();
        let iid = self.names.number(slice.name, field::EVENT_NAMES, &mut told);
        let mut event = ProtoMessage::default();
        event.number(field::TYPE, BEGIN).number(field::TRACK_UUID, uuid).number(field::NAME_IID, iid);
        for note in slice.notes {
            let annotation = self.annotation(note, &mut told);
            event.message(field::ANNOTATIONS, &annotation);
        }
        if let Some(flow) = slice.flow {
            event.fixed(field::FLOW_IDS, flow);
        }
        self.event(slice.from, &event, &told);
    }

    /// Ends the last begun slice of a track.
    pub(super) fn end(&mut self, names: &T::Names, track: T, time: Ps) {
        let uuid = self.uuid(track, names);
        let mut event = ProtoMessage::default();
        event.number(field::TYPE, END).number(field::TRACK_UUID, uuid);
        self.event(time, &event, &ProtoMessage::default());
    }

    /// Writes a slice without nested slices.
    pub(super) fn slice(&mut self, names: &T::Names, track: T, slice: &Slice<'_>) {
        self.begin(names, track, slice);
        self.end(names, track, slice.to);
    }

    /// Writes the value of a counter from `time` on.
    pub(super) fn count(&mut self, names: &T::Names, track: T, time: Ps, value: u64) {
        let uuid = self.uuid(track, names);
        let mut event = ProtoMessage::default();
        event.number(field::TYPE, COUNTER).number(field::TRACK_UUID, uuid);
        event.number(field::COUNTER_VALUE, value);
        self.event(time, &event, &ProtoMessage::default());
    }

    /// Returns the first error of the file, if any.
    pub(super) fn close(self) -> io::Result<()> {
        self.file.close()
    }
}
