//! Costs of single things.

use doorbell_nic::cost::{Costs, MessageShape, PacketKind, PacketShape, Wqe};
use doorbell_nic::{Generation, LinkChange, PostShape, Profile};
use doorbell_transport::{AtomicOp, Body, Deth, PacketPart, Reth, Syndrome};
use doorbell_verbs::{LinkLayer, Opcode, QpType};
use proptest::prelude::*;

fn costs(name: &str) -> Costs {
    Costs::new(&Profile::named(name).unwrap_or_else(|e| panic!("{e}")))
}

/// Every kind of packet of the protocol, for each part of a message.
fn bodies() -> Vec<Body> {
    let reth = Reth { va: 0, rkey: 0, dma_len: 0 };
    let mut all = vec![
        Body::ReadRequest(reth),
        Body::Atomic { va: 0, rkey: 0, op: AtomicOp::FetchAdd { add: 1 } },
        Body::AtomicAck { original: 0 },
        Body::Ack(Syndrome::Ack),
    ];
    for part in [PacketPart::First, PacketPart::Middle, PacketPart::Last, PacketPart::Only] {
        all.push(Body::ReadResponse { part });
        for imm in [None, Some(1)] {
            if imm.is_none() || part.ends() {
                all.push(Body::Send { part, imm });
                all.push(Body::Write { part, reth: part.begins().then_some(reth), imm });
            }
        }
    }
    all
}

/// A packet of the protocol as a [`PacketShape`].
fn seen(packet: &doorbell_transport::Packet) -> PacketShape {
    let (kind, part, imm) = match packet.body {
        Body::Send { part, imm } => (PacketKind::Send, part, imm),
        Body::Write { part, imm, .. } => (PacketKind::Write, part, imm),
        Body::ReadRequest(_) => (PacketKind::ReadRequest, PacketPart::Only, None),
        Body::ReadResponse { part } => (PacketKind::ReadResponse, part, None),
        Body::Atomic { .. } => (PacketKind::Atomic, PacketPart::Only, None),
        Body::AtomicAck { .. } => (PacketKind::AtomicAck, PacketPart::Only, None),
        Body::Ack(_) => (PacketKind::Ack, PacketPart::Only, None),
    };
    PacketShape {
        kind,
        begins: part.begins(),
        ends: part.ends(),
        imm: imm.is_some(),
        datagram: packet.deth.is_some(),
        payload: packet.payload_len,
    }
}

#[test]
fn a_packet_has_the_bytes_that_the_protocol_gives_it() {
    let profiles = Profile::names().map(|name| Profile::named(name).unwrap());
    for profile in profiles.filter(|profile| !profile.device.generation.is_iwarp()) {
        for body in bodies() {
            for (payload_len, deth) in
                [(0, None), (1, None), (4096, None), (5, Some(Deth { qkey: 0, src_qp: 0 }))]
            {
                let packet = doorbell_transport::Packet {
                    transport: if deth.is_some() { QpType::Ud } else { QpType::Rc },
                    dest_qp: 0,
                    psn: 0,
                    ack_req: false,
                    solicited: false,
                    msn: 0,
                    deth,
                    body,
                    payload_len,
                };
                let seen = seen(&packet);
                for layer in [LinkLayer::Infiniband, LinkLayer::Ethernet] {
                    let mut profile = profile.clone();
                    profile.device.link.roce = layer == LinkLayer::Ethernet;
                    let protocol = packet.wire_bytes(layer) + profile.device.link.packet_overhead;
                    assert_eq!(Costs::new(&profile).wire.bytes(&seen), protocol, "{packet:?}");
                }
                assert_eq!(seen.is_answer(), packet.is_answer(), "{packet:?}");
            }
        }
    }
}

/// Cib's NIC with this link.
fn with_link(link: &str, more: &[(&'static str, f64)]) -> Profile {
    let cib = Profile::named("cib").unwrap();
    let link: LinkChange = link.parse().unwrap();
    let all = link.settings(&cib.device.link).chain(more.iter().copied());
    cib.with_set(&all.map(|(name, value)| (name.to_owned(), value)).collect()).unwrap()
}

/// RoCEv2: 62 bytes of headers, 20 bytes of preamble and gap, and 16 bytes of RETH in the first packet of a
/// WRITE, or in each. With an MTU of 1024 bytes, 4 KiB take 4 packets.
#[test]
fn writes_over_roce_have_the_goodput_that_their_headers_leave() {
    let mtu = |bytes: f64| ("link.mtu_bytes", bytes);
    let everywhere = ("link.reth_in_every_packet", 1.0);
    for (size, more, packets, goodput) in [
        (4096, vec![mtu(1024.0)], 4 * (1024 + 82) + 16, 92.25),
        (65536, vec![mtu(4096.0)], 16 * (4096 + 82) + 16, 98.01),
        (65536, vec![mtu(4096.0), everywhere], 16 * (4096 + 82 + 16), 97.66),
    ] {
        let profile = with_link("100roce", &more);
        let sent = profile.request_on_link(Opcode::Write, QpType::Rc, size);
        assert_eq!(sent.bytes, packets, "{size} {more:?}");
        let seconds = Costs::new(&profile).wire.time(sent.bytes) as f64 / 1e12;
        let gbps = f64::from(size) * 8.0 / seconds / 1e9;
        assert!((gbps - goodput).abs() < 0.005, "{size} {more:?}: {gbps} Gb/s");
    }
}

/// Answers, SENDs and READ requests have the same headers with RETHs in every packet of a WRITE.
#[test]
fn a_reth_in_every_packet_is_one_of_writes() {
    let [usual, every] =
        [vec![], vec![("link.reth_in_every_packet", 1.0)]].map(|more| with_link("ib", &more));
    for (opcode, size) in [(Opcode::Send, 9000), (Opcode::Read, 9000), (Opcode::FetchAdd, 8)] {
        let of = |p: &Profile| {
            (p.request_on_link(opcode, QpType::Rc, size), p.response_on_link(opcode, QpType::Rc, size))
        };
        assert_eq!(of(&usual), of(&every), "{opcode:?}");
    }
    let of = |p: &Profile| p.request_on_link(Opcode::Write, QpType::Rc, 9000).bytes;
    assert_eq!(of(&every) - of(&usual), 2 * 16, "two packets follow the first");
}

#[test]
fn a_full_segment_of_iwarp_is_a_full_frame() {
    let profile = Profile::named("e7520-t4").unwrap();
    let wire = Costs::new(&profile).wire;
    // A frame of 1500 bytes with its header and FCS, preamble and gap: 1.23 us at 10 Gb/s.
    let full = PacketShape { payload: profile.device.link.mtu, ..PacketShape::only(PacketKind::Send) };
    assert_eq!(wire.bytes(&full), 1538);
    assert_eq!(wire.time(1538) / 1000, 1230);
    // The header of a tagged segment is four bytes shorter; a READ request's header is 28 bytes longer.
    let of = |kind| wire.bytes(&PacketShape::only(kind));
    assert_eq!([PacketKind::Write, PacketKind::ReadRequest, PacketKind::ReadResponse].map(of), [98, 130, 98]);
}

#[test]
fn a_packet_pays_for_the_dmas_of_its_own_bytes() {
    let costs = costs("cib");
    let wqe = Wqe { lines: 2, by_mmio: true };
    let first = PacketShape { ends: false, payload: 4096, ..PacketShape::only(PacketKind::Write) };
    let last = PacketShape { begins: false, payload: 904, ..PacketShape::only(PacketKind::Write) };
    let more = |packet, dmas| costs.send.request(packet, wqe, dmas) - costs.send.request(packet, wqe, 0);
    assert_eq!(more(&first, 3), 3 * more(&first, 1));
    assert_eq!(more(&first, 1), more(&last, 1));
    // Only the packet that begins a message pays for its WQE.
    let longer = Wqe { lines: 4, by_mmio: false };
    assert!(costs.send.request(&first, longer, 0) > costs.send.request(&first, wqe, 0));
    assert_eq!(costs.send.request(&last, longer, 0), costs.send.request(&last, wqe, 0));
}

#[test]
fn a_write_of_two_packets_costs_its_packets() {
    let profile = Profile::named("cib").unwrap();
    let costs = Costs::new(&profile);
    let shape = PostShape {
        opcode: Opcode::Write,
        qp_type: QpType::Rc,
        payload: 5000,
        sges: 1,
        inline: false,
        signaled: false,
        method: Generation::Mlx5.posting().method(1),
    };
    let message = profile.message(Opcode::Write, QpType::Rc, 5000);
    let tx = profile.device.tx;
    let expected = tx.send + tx.extra_packet + tx.payload_dma * 2;
    assert_eq!(costs.send_requests(&shape, &message), expected.as_ps());
    assert_eq!(costs.send_answers(&message), tx.ack.as_ps());
}

#[test]
fn names_of_generations_are_those_of_profiles() {
    for (name, generation) in [("cx", Generation::Mlx4), ("cx3", Generation::Mlx4), ("cib", Generation::Mlx5)]
    {
        assert_eq!(Profile::named(name).unwrap().device.generation, generation);
    }
    assert_eq!(Generation::ALL.map(|g| g.to_string()), ["mlx4", "mlx5", "cxgb4"]);
}

proptest! {
    /// Packets divide a message without gap or overlap, and their bytes add up to its payload.
    #[test]
    fn packets_part_a_message(payload in 0u32..100_000, mtu in prop::sample::select(vec![256u32, 1024, 4096])) {
        let message = MessageShape { opcode: Opcode::Write, qp_type: QpType::Rc, payload, mtu };
        let mut next = 0;
        let pieces: Vec<_> = message.requests().collect();
        for (i, piece) in pieces.iter().enumerate() {
            prop_assert_eq!(piece.offset, next);
            prop_assert_eq!(piece.packet.begins, i == 0);
            prop_assert_eq!(piece.packet.ends, i + 1 == pieces.len());
            next += piece.packet.payload;
        }
        prop_assert_eq!(next, payload);
        let read = MessageShape { opcode: Opcode::Read, ..message };
        prop_assert_eq!(read.requests().count(), 1);
        prop_assert_eq!(read.answers().count(), pieces.len());
    }
}

/// Wherever a read begins, its completions end at multiples of their largest payload.
#[test]
fn completions_end_at_boundaries() {
    for p in Profile::names().map(|name| Profile::named(name).unwrap()) {
        let (costs, most) = (Costs::new(&p), u64::from(p.device.pcie.read_completion));
        for (addr, bytes) in
            (0..3 * most).step_by(7).flat_map(|addr| [1, 32, most, 200, 600].map(|b| (addr, b)))
        {
            let (mut at, mut sum) = (addr, 0);
            while at < addr + bytes {
                let end = (at / most + 1) * most;
                let next = end.min(addr + bytes);
                sum += p.completion_time((next - at) as u32).as_ps();
                at = next;
            }
            let found = costs.pcie.completions_from(addr, bytes);
            let tlps = bytes / most + 2;
            assert!(found.abs_diff(sum) <= tlps, "{}: {bytes} B from {addr}: {found} ps, not {sum}", p.name);
        }
        assert_eq!(costs.pcie.completions_from(5, 0), 0);
        assert_eq!(costs.pcie.completions_from(4 * most, 3 * most + 1), costs.pcie.completions(3 * most + 1));
    }
}
