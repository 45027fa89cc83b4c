//! Parses the output of a traced run by the file formats alone.
#![allow(dead_code, reason = "each test uses some of it")]

use doorbell_transport::codec::{self, IpRoute, Route};
use doorbell_transport::{Body, Packet};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

/// A file in memory.
#[derive(Clone, Default)]
pub(crate) struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A field of a protobuf message.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("a varint ends");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a varint of more than 64 bits");
}

/// The fields of a protobuf message.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)),
            1 => {
                let (value, rest) = bytes.split_first_chunk().expect("eight bytes");
                bytes = rest;
                Value::Number(u64::from_le_bytes(*value))
            }
            2 => {
                let len = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(len);
                bytes = rest;
                Value::Bytes(value)
            }
            wire => panic!("wire type {wire}"),
        };
        all.push((key >> 3, value));
    }
    all
}

fn number(of: &[(u64, Value<'_>)], field: u64) -> Option<u64> {
    of.iter().find_map(|(number, value)| match value {
        Value::Number(value) if *number == field => Some(*value),
        _ => None,
    })
}

fn bytes<'a>(of: &[(u64, Value<'a>)], field: u64) -> impl Iterator<Item = &'a [u8]> {
    of.iter().filter_map(move |(number, value)| match value {
        Value::Bytes(value) if *number == field => Some(*value),
        _ => None,
    })
}

fn text(of: &[(u64, Value<'_>)], field: u64) -> Option<String> {
    bytes(of, field).next().map(|bytes| String::from_utf8(bytes.to_vec()).expect("UTF-8"))
}

/// A slice of a trace, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) process: String,
    pub(crate) track: String,
    pub(crate) name: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Number of slices that contain this one.
    pub(crate) depth: usize,
    pub(crate) numbers: BTreeMap<String, u64>,
    pub(crate) texts: BTreeMap<String, String>,
    pub(crate) flow: Option<u64>,
    uuid: u64,
}

/// A trace.
pub(crate) struct Trace {
    /// Slices in order of their ends. Of slices of a track that end together, the innermost is first.
    pub(crate) slices: Vec<Slice>,
    /// Values of counters: process, name, time and value.
    pub(crate) counts: Vec<(String, String, u64, u64)>,
}

/// Names of tracks and events.
#[derive(Default)]
struct Known {
    /// Name and parent of each track.
    tracks: BTreeMap<u64, (String, Option<u64>)>,
    events: BTreeMap<u64, String>,
    annotations: BTreeMap<u64, String>,
}

impl Known {
    fn learn(&mut self, packet: &[(u64, Value<'_>)]) {
        for interned in bytes(packet, 12) {
            let interned = fields(interned);
            for (field, names) in [(2, &mut self.events), (3, &mut self.annotations)] {
                for entry in bytes(&interned, field).map(fields) {
                    names.insert(number(&entry, 1).unwrap(), text(&entry, 2).unwrap());
                }
            }
        }
        for descriptor in bytes(packet, 60).map(fields) {
            let process = bytes(&descriptor, 3).next().map(fields);
            let name = process.map_or_else(|| text(&descriptor, 2), |process| text(&process, 6)).unwrap();
            let parent = number(&descriptor, 5);
            assert!(parent.is_none_or(|parent| self.tracks.contains_key(&parent)), "{name} has a parent");
            let before = self.tracks.insert(number(&descriptor, 1).unwrap(), (name, parent));
            assert!(before.is_none(), "a track is described once");
        }
    }

    fn slice(&self, event: &[(u64, Value<'_>)], time: u64, depth: usize) -> Slice {
        let uuid = number(event, 11).unwrap();
        let (track, parent) = self.tracks[&uuid].clone();
        let process = self.tracks[&parent.unwrap()].0.clone();
        let name = self.events[&number(event, 10).unwrap()].clone();
        let (mut numbers, mut texts) = (BTreeMap::new(), BTreeMap::new());
        for annotation in bytes(event, 4).map(fields) {
            let name = self.annotations[&number(&annotation, 1).unwrap()].clone();
            match text(&annotation, 6) {
                Some(text) => drop(texts.insert(name, text)),
                None => drop(numbers.insert(name, number(&annotation, 3).unwrap())),
            }
        }
        let flow = number(event, 47);
        Slice { process, track, name, from: time, to: time, depth, numbers, texts, flow, uuid }
    }
}

impl Trace {
    /// Reads a trace as Perfetto does: sorted by time, and in the file's order for equal times.
    ///
    /// # Panics
    /// If the slices of a track do not nest, or the file is no trace.
    pub(crate) fn read(file: &[u8]) -> Trace {
        let mut known = Known::default();
        let packets: Vec<Vec<(u64, Value<'_>)>> = bytes(&fields(file), 1).map(fields).collect();
        let mut events: Vec<(u64, Vec<(u64, Value<'_>)>)> = Vec::new();
        for packet in &packets {
            known.learn(packet);
            if let Some(event) = bytes(packet, 11).next() {
                events.push((number(packet, 8).expect("a time"), fields(event)));
            }
        }
        events.sort_by_key(|(time, _)| *time);
        let mut open: BTreeMap<u64, Vec<Slice>> = BTreeMap::new();
        let mut trace = Trace { slices: Vec::new(), counts: Vec::new() };
        for (time, event) in &events {
            let uuid = number(event, 11).expect("a track");
            let open = open.entry(uuid).or_default();
            match number(event, 9) {
                Some(1) => open.push(known.slice(event, *time, open.len())),
                Some(2) => {
                    let slice = open.pop().expect("what ends has begun");
                    trace.slices.push(Slice { to: *time, ..slice });
                }
                Some(4) => {
                    let (name, parent) = known.tracks[&uuid].clone();
                    let process = known.tracks[&parent.unwrap()].0.clone();
                    trace.counts.push((process, name, *time, number(event, 30).unwrap()));
                }
                kind => panic!("an event of type {kind:?}"),
            }
        }
        assert!(open.values().all(Vec::is_empty), "what begins ends");
        trace.check();
        trace
    }

    /// Checks that stages fill their operations without gaps, and that nothing else nests.
    fn check(&self) {
        for (i, slice) in self.slices.iter().enumerate() {
            assert!(slice.depth <= 1, "{slice:?}");
            if slice.depth == 0 && slice.numbers.contains_key("ps") {
                let stages = self.stages_at(i);
                let mut at = slice.from;
                for stage in &stages {
                    assert_eq!(stage.from, at, "{stage:?} of {slice:?}");
                    at = stage.to;
                }
                assert_eq!(at, slice.to, "{slice:?}");
                let sum: u64 = stages.iter().map(|stage| stage.numbers["ps"]).sum();
                assert_eq!(sum, slice.numbers["ps"], "{slice:?}");
            }
        }
    }

    fn stages_at(&self, operation: usize) -> Vec<&Slice> {
        let of_track = |slice: &&Slice| slice.uuid == self.slices[operation].uuid;
        let before = self.slices[..operation].iter().rev().filter(of_track);
        let mut stages: Vec<&Slice> = before.take_while(|slice| slice.depth == 1).collect();
        stages.reverse();
        stages
    }

    /// Operations with their stages.
    pub(crate) fn operations(&self) -> Vec<(&Slice, Vec<&Slice>)> {
        let is_operation = |slice: &Slice| slice.depth == 0 && slice.numbers.contains_key("wr_id");
        let all = self.slices.iter().enumerate().filter(|(_, slice)| is_operation(slice));
        all.map(|(i, slice)| (slice, self.stages_at(i))).collect()
    }

    /// Inbound messages without acknowledgement, with their stages.
    pub(crate) fn messages(&self) -> Vec<(&Slice, Vec<&Slice>)> {
        let is_message = |slice: &Slice| slice.depth == 0 && slice.track.ends_with("messages coming in");
        let all = self.slices.iter().enumerate().filter(|(_, slice)| is_message(slice));
        all.map(|(i, slice)| (slice, self.stages_at(i))).collect()
    }
}

/// The names of slices.
pub(crate) fn names<'a>(slices: &[&'a Slice]) -> Vec<&'a str> {
    slices.iter().map(|slice| slice.name.as_str()).collect()
}

/// A packet of a capture.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) interface: String,
    /// Time in picoseconds.
    pub(crate) time: u64,
    pub(crate) from: Ipv4Addr,
    pub(crate) to: Ipv4Addr,
    pub(crate) src_port: u16,
    pub(crate) packet: Packet,
    pub(crate) payload: Vec<u8>,
    pub(crate) comment: Option<String>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Options of a pcapng block.
fn options(mut bytes: &[u8]) -> BTreeMap<u16, Vec<u8>> {
    let mut all = BTreeMap::new();
    loop {
        let [code, len] = [0, 2].map(|at| u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        if code == 0 {
            return all;
        }
        all.insert(code, bytes[4..4 + usize::from(len)].to_vec());
        bytes = &bytes[4 + usize::from(len).next_multiple_of(4)..];
    }
}

/// Reads a capture. Each packet must be valid RoCEv2 with a valid ICRC.
pub(crate) fn read_pcapng(mut file: &[u8]) -> Vec<Captured> {
    let mut interfaces: Vec<String> = Vec::new();
    let mut packets = Vec::new();
    while !file.is_empty() {
        let (kind, len) = (word(file, 0), word(file, 4) as usize);
        assert_eq!(word(file, len - 4) as usize, len, "a block says its length twice");
        let body = &file[8..len - 4];
        file = &file[len..];
        match kind {
            0x0a0d_0d0a => assert_eq!(word(body, 0), 0x1a2b_3c4d),
            1 => {
                let options = options(&body[8..]);
                assert_eq!(options[&9], [12], "picoseconds");
                interfaces.push(String::from_utf8(options[&2].clone()).unwrap());
            }
            6 => packets.push(captured(body, &interfaces)),
            _ => panic!("a block of type {kind}"),
        }
    }
    packets
}

fn captured(body: &[u8], interfaces: &[String]) -> Captured {
    let len = word(body, 12) as usize;
    assert_eq!(word(body, 16) as usize, len, "packets are whole");
    let frame = &body[20..20 + len];
    let options = options(&body[20 + len.next_multiple_of(4)..]);
    let half = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    assert_eq!(half(12), 0x0800, "IPv4");
    let sum: u32 = (14..34).step_by(2).map(|at| u32::from(half(at))).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the header's checksum");
    assert_eq!(usize::from(half(16)), len - 14, "length of the IP packet");
    assert_eq!((frame[23], half(36)), (17, 4791), "UDP to RoCEv2's port");
    assert_eq!(usize::from(half(38)), len - 34, "length of the UDP datagram");
    let address = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
    let (src, dst, src_port) = (address(26), address(30), half(34));
    let route = Route { ip: IpRoute::V4 { src, dst, id: half(18), dont_fragment: true }, src_port };
    let (packet, payload) = codec::decode(&frame[42..], &route).expect("a packet with a valid ICRC");
    Captured {
        interface: interfaces[word(body, 0) as usize].clone(),
        time: u64::from(word(body, 4)) << 32 | u64::from(word(body, 8)),
        from: src,
        to: dst,
        src_port,
        packet,
        payload: frame[42..][payload].to_vec(),
        comment: options.get(&1).map(|comment| String::from_utf8(comment.clone()).unwrap()),
    }
}

/// Checks that packets are in order of time, and that PSNs of each QP's requests and of its responses are
/// consecutive, apart from repeated packets. `mtu` is the MTU of READ responses.
pub(crate) fn check_psns(packets: &[Captured], mtu: u32) {
    assert!(packets.is_sorted_by_key(|c| c.time), "in order");
    let mut next: BTreeMap<(Ipv4Addr, Ipv4Addr, u16, u32, bool), u32> = BTreeMap::new();
    let mut datagrams: BTreeMap<(Ipv4Addr, u32), Vec<u32>> = BTreeMap::new();
    for c in packets {
        if let Some(deth) = c.packet.deth {
            datagrams.entry((c.from, deth.src_qp)).or_default().push(c.packet.psn);
            continue;
        }
        let answers = c.packet.is_answer();
        let key = (c.from, c.to, c.src_port, c.packet.dest_qp, answers);
        let psn = c.packet.psn;
        let expected = next.entry(key).or_insert(psn);
        let ahead = psn.wrapping_sub(*expected) & 0xff_ffff;
        // An ACK may acknowledge several requests.
        let may_skip = answers && c.packet.payload_len == 0;
        assert!(ahead == 0 || ahead > 1 << 23 || may_skip, "PSN {psn} where {expected} comes next: {c:?}");
        let span = match c.packet.body {
            Body::ReadRequest(reth) => reth.dma_len.div_ceil(mtu).max(1),
            _ => 1,
        };
        *expected = (psn + span) & 0xff_ffff;
    }
    for psns in datagrams.values_mut() {
        // Datagrams go to several ports, and their order of arrival differs from their order of departure. So
        // some of the datagrams around the first and last captured ones are missing.
        psns.sort_unstable();
        let edge = 32.min(psns.len() / 2);
        let inner = &psns[edge..psns.len() - edge];
        assert!(inner.windows(2).all(|pair| pair[1] == pair[0] + 1), "{psns:?}");
    }
}
