//! Packets to bytes and back.

use doorbell_transport::codec::{DecodeError, IpRoute, Route, decode, encode};
use doorbell_transport::{AtomicOp, Body, Deth, NakCode, Packet, PacketPart, Reth, Syndrome};
use doorbell_verbs::QpType;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

fn part() -> impl Strategy<Value = PacketPart> {
    prop::sample::select(vec![PacketPart::First, PacketPart::Middle, PacketPart::Last, PacketPart::Only])
}

fn reth() -> impl Strategy<Value = Reth> {
    any::<(u64, u32, u32)>().prop_map(|(va, rkey, dma_len)| Reth { va, rkey, dma_len })
}

fn message() -> impl Strategy<Value = Body> {
    (part(), any::<Option<u32>>(), reth(), any::<bool>()).prop_map(|(part, imm, reth, write)| {
        let imm = imm.filter(|_| part.ends());
        match write {
            true => Body::Write { part, reth: part.begins().then_some(reth), imm },
            false => Body::Send { part, imm },
        }
    })
}

fn rc_body() -> impl Strategy<Value = Body> {
    let nak = prop::sample::select(vec![
        NakCode::PsnSequence,
        NakCode::InvalidRequest,
        NakCode::RemoteAccess,
        NakCode::RemoteOperation,
    ]);
    prop_oneof![
        message(),
        reth().prop_map(Body::ReadRequest),
        part().prop_map(|part| Body::ReadResponse { part }),
        any::<u64>().prop_map(|original| Body::AtomicAck { original }),
        Just(Body::Ack(Syndrome::Ack)),
        (0..32u8).prop_map(|code| Body::Ack(Syndrome::RnrNak(code))),
        nak.prop_map(|code| Body::Ack(Syndrome::Nak(code))),
        any::<(u64, u32, u64, Option<u64>)>().prop_map(|(va, rkey, operand, compare)| {
            let op = match compare {
                Some(compare) => AtomicOp::CompareSwap { compare, swap: operand },
                None => AtomicOp::FetchAdd { add: operand },
            };
            Body::Atomic { va, rkey, op }
        }),
    ]
}

fn packet() -> impl Strategy<Value = (Packet, Vec<u8>)> {
    let ud = any::<Option<u32>>().prop_map(|imm| Body::Send { part: PacketPart::Only, imm });
    let kind = prop_oneof![
        rc_body().prop_map(|body| (QpType::Rc, body)),
        message().prop_map(|body| (QpType::Uc, body)),
        ud.prop_map(|body| (QpType::Ud, body)),
    ];
    let numbers = (0..1u32 << 24, 0..1u32 << 24, 0..1u32 << 24, any::<u32>(), 0..1u32 << 24);
    (kind, numbers, any::<[bool; 2]>(), prop::collection::vec(any::<u8>(), 0..300)).prop_map(
        |((transport, body), (dest_qp, psn, msn, qkey, src_qp), [ack_req, solicited], payload)| {
            let carries = matches!(body, Body::Send { .. } | Body::Write { .. } | Body::ReadResponse { .. });
            let payload = if carries { payload } else { Vec::new() };
            let has_aeth = matches!(body, Body::AtomicAck { .. } | Body::Ack(_) | Body::ReadResponse { .. })
                && body != Body::ReadResponse { part: PacketPart::Middle };
            let packet = Packet {
                transport,
                dest_qp,
                psn,
                ack_req,
                solicited,
                msn: if has_aeth { msn } else { 0 },
                deth: (transport == QpType::Ud).then_some(Deth { qkey, src_qp }),
                body,
                payload_len: payload.len() as u32,
            };
            (packet, payload)
        },
    )
}

fn route() -> impl Strategy<Value = Route> {
    let v4 = any::<([u8; 4], [u8; 4], u16, bool)>().prop_map(|(src, dst, id, dont_fragment)| IpRoute::V4 {
        src: src.into(),
        dst: dst.into(),
        id,
        dont_fragment,
    });
    let v6 =
        any::<([u8; 16], [u8; 16])>().prop_map(|(src, dst)| IpRoute::V6 { src: src.into(), dst: dst.into() });
    (prop_oneof![v4, v6], any::<u16>()).prop_map(|(ip, src_port)| Route { ip, src_port })
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_the_same((packet, payload) in packet(), route in route()) {
        let mut bytes = vec![0xaa];
        encode(&packet, &payload, &route, &mut bytes);
        let bytes = &bytes[1..];
        let headers = packet.transport_header_bytes() as usize;
        prop_assert_eq!(bytes.len(), headers + payload.len().next_multiple_of(4) + 4);
        let (decoded, range) = decode(bytes, &route).unwrap();
        prop_assert_eq!(decoded, packet);
        prop_assert_eq!(&bytes[range], &payload[..]);
    }

    #[test]
    fn a_changed_bit_fails_the_icrc((packet, payload) in packet(), route in route(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let mut bytes = Vec::new();
        encode(&packet, &payload, &route, &mut bytes);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        // Routers mark congestion in byte 4.
        prop_assert_eq!(matches!(decode(&bytes, &route), Err(DecodeError::Icrc { .. })), at != 4);
    }

    #[test]
    fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..80), code in 0..128u8, route in route()) {
        if let [first, flags, high, low, ..] = &mut bytes[..] {
            (*first, *flags, *high, *low) = (code, *flags & 0x70, 0xff, 0xff);
        }
        // The error contains the right ICRC. A packet with this ICRC passes the check.
        if let Err(DecodeError::Icrc { expected, .. }) = decode(&bytes, &route) {
            let at = bytes.len() - 4;
            bytes[at..].copy_from_slice(&expected.to_le_bytes());
        }
        let again = decode(&bytes, &route);
        let icrc = matches!(again, Err(DecodeError::Icrc { .. }));
        prop_assert!(!icrc);
    }
}

#[test]
fn the_route_enters_the_icrc() {
    let body = Body::Ack(Syndrome::Nak(NakCode::RemoteAccess));
    let packet = Packet {
        transport: QpType::Rc,
        dest_qp: 0x12_3456,
        psn: 0x65_4321,
        ack_req: false,
        solicited: false,
        msn: 7,
        deth: None,
        body,
        payload_len: 0,
    };
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let route = Route { ip: IpRoute::V4 { src, dst, id: 0, dont_fragment: true }, src_port: 0xc000 };
    let mut bytes = Vec::new();
    encode(&packet, &[], &route, &mut bytes);
    assert_eq!(
        bytes[..16],
        [0x11, 0x40, 0xff, 0xff, 0, 0x12, 0x34, 0x56, 0, 0x65, 0x43, 0x21, 0x62, 0, 0, 7]
    );
    let others = [
        Route { src_port: 0xc001, ..route },
        Route { ip: IpRoute::V4 { src, dst, id: 1, dont_fragment: true }, ..route },
        Route { ip: IpRoute::V4 { src, dst, id: 0, dont_fragment: false }, ..route },
        Route { ip: IpRoute::V4 { src: dst, dst, id: 0, dont_fragment: true }, ..route },
        Route { ip: IpRoute::V6 { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::LOCALHOST }, ..route },
    ];
    for other in others {
        assert!(matches!(decode(&bytes, &other), Err(DecodeError::Icrc { .. })), "{other:?}");
    }
    assert_eq!(decode(&bytes[..15], &route), Err(DecodeError::Truncated(15)));
}
