//! WQE sizes against ATC'16.

use doorbell_nic::wqe::{self, Payload};
use doorbell_nic::{Generation, Method};
use doorbell_verbs::{Opcode, QpType};

/// The generations that ATC'16 covers.
const CONNECTX: [Generation; 2] = [Generation::Mlx4, Generation::Mlx5];

#[test]
fn headers_are_those_of_table_1() {
    for layout in CONNECTX.map(Generation::wqe) {
        // atc16-tab1-{rc,uc,ud,recv}-wqe-header
        assert_eq!(layout.header_bytes(QpType::Rc), 36);
        assert_eq!(layout.header_bytes(QpType::Uc), 36);
        assert_eq!(layout.header_bytes(QpType::Ud), 68);
        assert_eq!(layout.recv_bytes(1), 16);
    }
}

#[test]
fn a_write_grows_with_its_inline_payload() {
    for layout in CONNECTX.map(Generation::wqe) {
        // atc16-s222-write-wqe-size, atc16-out-write-1line-limit
        assert_eq!(layout.send_bytes(Opcode::Write, QpType::Uc, Payload::Inline(28)), 64);
        assert_eq!(layout.send_bytes(Opcode::Write, QpType::Uc, Payload::Inline(29)), 65);
        assert_eq!(layout.max_inline_in(1, QpType::Uc), Some(28));
    }
}

#[test]
fn a_ud_send_takes_two_lines_up_to_60_bytes_and_one_without_payload() {
    for layout in CONNECTX.map(Generation::wqe) {
        // atc16-mq-60b, atc16-fig5-shrunk-dma-bytes
        let lines = |payload| wqe::lines(layout.send_bytes(Opcode::Send, QpType::Ud, payload));
        assert_eq!(layout.max_inline_in(1, QpType::Ud), None);
        assert_eq!(layout.max_inline_in(2, QpType::Ud), Some(60));
        assert_eq!(lines(Payload::Inline(1)), 2);
        assert_eq!(lines(Payload::Inline(60)), 2);
        assert_eq!(lines(Payload::Inline(61)), 3);
        assert_eq!(lines(Payload::Sges(1)), 2);
        assert_eq!(lines(Payload::None), 1);
    }
}

#[test]
fn slots_are_whole_lines() {
    // atc16-s223-pad-fn, atc16-s222-wqe-cacheline-aligned
    assert_eq!([0, 1, 64, 65, 128, 129].map(wqe::pad), [0, 64, 64, 128, 128, 192]);
}

#[test]
fn a_read_points_to_its_buffers_and_an_atomic_has_operands() {
    for layout in CONNECTX.map(Generation::wqe) {
        assert_eq!(layout.send_bytes(Opcode::Read, QpType::Rc, Payload::Sges(1)), 36 + 16);
        assert_eq!(layout.send_bytes(Opcode::Read, QpType::Rc, Payload::Sges(2)), 36 + 32);
        assert_eq!(layout.send_bytes(Opcode::FetchAdd, QpType::Rc, Payload::Sges(1)), 36 + 16 + 16);
        assert_eq!(layout.recv_bytes(3), 64);
    }
}

#[test]
fn a_wqe_posted_alone_goes_by_mmio_and_several_by_doorbell() {
    // atc16-s4-batch-one-uses-mmio, atc16-appA-doorbell-size
    for posting in CONNECTX.map(Generation::posting) {
        assert_eq!(posting.method(1), Method::WqeByMmio);
        assert_eq!(posting.method(2), Method::Doorbell { batch: 2 });
        assert_eq!(posting.doorbell, 8);
    }
}
