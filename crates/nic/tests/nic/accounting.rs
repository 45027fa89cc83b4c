//! PCIe accounting against the formulas and figures of ATC'16.

use doorbell_nic::accounting::{self, Transactions, lines_touched};
use doorbell_nic::{Generation, Method, PostShape, Profile, RecvShape, wqe};
use doorbell_verbs::{Opcode, QpType};
use proptest::prelude::*;
use std::sync::LazyLock;

/// A profile from a cache, because properties read it thousands of times.
fn profile(name: &str) -> &'static Profile {
    static READ: LazyLock<Vec<Profile>> = LazyLock::new(|| {
        Profile::names().map(|name| Profile::named(name).unwrap_or_else(|e| panic!("{e}"))).collect()
    });
    READ.iter().find(|profile| profile.name == name).unwrap_or_else(|| panic!("no profile {name}"))
}

fn ud_send(payload: u32, method: Method) -> PostShape {
    PostShape {
        opcode: Opcode::Send,
        qp_type: QpType::Ud,
        payload,
        sges: 1,
        inline: true,
        signaled: false,
        method,
    }
}

#[test]
fn bytes_towards_the_nic_follow_figure_2b() {
    let pcie = profile("cib").device.pcie;
    // atc16-fig2b-mmio-bytes, atc16-fig2b-dma-bytes
    assert_eq!([1, 64, 65, 128, 129].map(|x| pcie.mmio_link_bytes(x)), [90, 90, 180, 180, 270]);
    assert_eq!([1, 64, 128, 129, 256].map(|x| pcie.dma_read_link_bytes(x)), [23, 86, 150, 173, 300]);
}

#[test]
fn ten_wqes_of_65_bytes_cost_what_appendix_a_says() {
    let cib = profile("cib");
    let write = |method| PostShape { opcode: Opcode::Write, qp_type: QpType::Uc, ..ud_send(29, method) };
    assert_eq!(write(Method::WqeByMmio).wqe_bytes(cib.device.generation), 65);
    let by_mmio = accounting::transfer(cib, &write(Method::WqeByMmio)).times(10);
    let by_doorbell = accounting::transfer(cib, &write(Method::Doorbell { batch: 10 }));
    // atc16-appA-tbf, atc16-s31-bf-bytes
    assert_eq!(by_mmio.host_to_device_bytes, 1800);
    // atc16-appA-tdb, atc16-s31-doorbell-bytes
    assert_eq!(by_doorbell.host_to_device_bytes, 1534);
    // atc16-s31-doorbell-mmio-count, atc16-s31-fn3-one-dma
    assert_eq!((by_mmio.mmio_writes, by_mmio.dma_reads), (20, 0));
    assert_eq!((by_doorbell.mmio_writes, by_doorbell.dma_reads), (1, 1));
}

#[test]
fn one_byte_less_saves_one_mmio_of_three() {
    let cib = profile("cib");
    // atc16-s31-shrink-mmio-before, atc16-s31-shrink-mmio-after: 129 and 128 bytes
    let writes = |payload| accounting::transfer(cib, &ud_send(payload, Method::WqeByMmio)).mmio_writes;
    assert_eq!((writes(61), writes(60)), (3, 2));
}

#[test]
fn two_sends_of_four_bytes_climb_down_the_ladder_of_figure_5() {
    let cib = profile("cib");
    let two = |signaled, payload, batched| {
        let method = if batched { Method::Doorbell { batch: 2 } } else { Method::WqeByMmio };
        let shape = PostShape { signaled, ..ud_send(payload, method) };
        let t = accounting::requester(cib, &shape).times(if batched { 1 } else { 2 });
        (t.mmio_writes, t.dma_reads, t.dma_read_bytes, t.dma_writes)
    };
    // atc16-fig5-stack, atc16-s32-unsignaled, atc16-fig5-batch-dma-bytes, atc16-fig5-shrunk-dma-bytes
    assert_eq!(two(true, 4, false), (4, 0, 0, 2));
    assert_eq!(two(false, 4, false), (4, 0, 0, 0));
    assert_eq!(two(false, 4, true), (1, 1, 256, 0));
    assert_eq!(two(false, 0, true), (1, 1, 128, 0));
}

#[test]
fn inlining_saves_the_read_of_the_payload() {
    // atc16-s32-inline
    let cib = profile("cib");
    let reads =
        |inline| accounting::requester(cib, &PostShape { inline, ..ud_send(4, Method::WqeByMmio) }).dma_reads;
    assert_eq!((reads(true), reads(false)), (0, 1));
}

#[test]
fn two_recvs_climb_down_the_ladder_of_figure_6() {
    let cx3 = profile("cx3");
    let posted = accounting::post_recv(cx3, 2, 1);
    assert_eq!((posted.mmio_writes, posted.dma_reads), (1, 1));
    let writes = |payload, inline| {
        accounting::responder(cx3, Opcode::Send, QpType::Ud, payload, RecvShape { inline }).dma_writes
    };
    // atc16-s32-recv-two-dmas, atc16-s32-inline-recv-one-dma, atc16-s32-ho-recv-one-dma,
    // atc16-s32-inline-recv-limit
    assert_eq!(writes(4, false), 2);
    assert_eq!(writes(4, true), 1);
    assert_eq!(writes(64, true), 1);
    assert_eq!(writes(65, true), 2);
    assert_eq!(writes(0, false), 1);
}

#[test]
fn connect_ib_does_not_receive_inline_on_ud() {
    let cib = profile("cib");
    let recv = RecvShape { inline: true };
    assert_eq!(accounting::responder(cib, Opcode::Send, QpType::Ud, 4, recv).dma_writes, 2);
    assert_eq!(accounting::responder(cib, Opcode::Send, QpType::Rc, 4, recv).dma_writes, 1);
}

#[test]
fn one_sided_verbs_cost_their_responder_one_transaction() {
    let cib = profile("cib");
    let of = |opcode| {
        let t = accounting::responder(cib, opcode, QpType::Rc, 32, RecvShape { inline: false });
        (t.dma_reads, t.dma_writes)
    };
    // atc16-s51-inbound-read-pcie, atc16-s51-inbound-write-pcie, atc16-s34-atomics-internal-lock
    assert_eq!(of(Opcode::Read), (1, 0));
    assert_eq!(of(Opcode::Write), (0, 1));
    assert_eq!(of(Opcode::FetchAdd), (1, 1));
    assert_eq!(of(Opcode::WriteWithImm), (0, 2));
}

#[test]
fn older_nics_read_the_wqes_of_a_doorbell_piece_by_piece() {
    // atc16-s31-fn3-one-dma
    let cx3 = profile("cx3");
    let fetches: Vec<u32> = accounting::doorbell_fetches(&cx3.device.nic, 10).collect();
    assert_eq!(fetches.iter().sum::<u32>(), 10);
    assert_eq!(fetches.len() as u32, 10u32.div_ceil(cx3.device.nic.wqe_prefetch));
    assert_eq!(accounting::doorbell_fetches(&profile("cib").device.nic, 10).collect::<Vec<_>>(), [10]);
}

#[test]
fn the_requester_writes_what_a_read_brings() {
    let cib = profile("cib");
    let shape = PostShape {
        opcode: Opcode::Read,
        qp_type: QpType::Rc,
        payload: 10_000,
        sges: 1,
        inline: true,
        signaled: true,
        method: Method::WqeByMmio,
    };
    let t = accounting::requester(cib, &shape);
    // Three packets of at most 4096 bytes, and the CQE; one line of WQE.
    assert_eq!((t.mmio_writes, t.dma_reads, t.dma_writes), (1, 0, 4));
    assert_eq!(t.dma_write_bytes, 10_000 + 64);
}

#[test]
fn counters_see_lines() {
    // atc16-s21-counter-straddle
    assert_eq!(lines_touched(62, 4), 2);
    assert_eq!(lines_touched(60, 4), 1);
    assert_eq!(lines_touched(0, 64), 1);
    assert_eq!(lines_touched(63, 0), 0);
    assert_eq!(lines_touched(1, 128), 3);
}

#[test]
fn bandwidth_formulas_of_5_2_1() {
    let near = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 0.0005, "{value}");
    let cib = profile("cib").device.pcie;
    near(cib.bytes_per_s() as f64, 15_753.6e6); // atc16-s21-pcie-bw-model
    near(cib.dma_read_bytes_per_s(), 13_443e6); // atc16-dma-useful-bw
    near(cib.dma_wqes_per_s(128), 105.02e6); // atc16-dma-wqe-limit
    near(cib.mmio_lines_per_s(), 175.04e6); // atc16-mmio-line-rate
    near(cib.mmio_wqes_per_s(128), 87.52e6); // atc16-mmio-wqe-limit
    near(cib.dma_wqes_per_s(64), 210.05e6); // atc16-seq-s0-dma-limit-higher
    let cx3 = profile("cx3").device.pcie;
    near(cx3.dma_read_bytes_per_s(), 6_721.5e6);
    near(cx3.dma_wqes_per_s(128), 52.51e6);
    near(cx3.mmio_wqes_per_s(128), 43.76e6);
    let cx = profile("cx").device.pcie;
    near(cx.dma_read_bytes_per_s(), 1_729.7e6);
    near(cx.dma_wqes_per_s(128), 13.51e6);
    near(cx.dma_wqes_per_s(64), 27.03e6);
    near(cx.mmio_lines_per_s(), 22.727e6);
}

#[test]
fn link_layer_packets_cost_less_than_5_percent_of_a_full_completion() {
    // atc16-appA-linklayer-overhead
    for name in Profile::names() {
        let p = profile(name);
        let with = p.completion_time(p.device.pcie.read_completion).as_ps() as f64;
        let bytes = f64::from(p.device.pcie.read_completion + p.device.pcie.completion_header);
        let without = bytes / p.device.pcie.bytes_per_s() as f64 * 1e12;
        assert!(with > without && with < 1.05 * without, "{name}: {with} ps, {without} ps");
    }
}

fn shapes() -> impl Strategy<Value = PostShape> {
    let opcodes = prop::sample::select(&Opcode::ALL);
    let transports = prop::sample::select(&[QpType::Rc, QpType::Uc, QpType::Ud]);
    (opcodes, transports, 0u32..600, 1u32..4, any::<bool>(), any::<bool>(), 1u32..40).prop_map(
        |(opcode, qp_type, payload, sges, inline, signaled, batch)| PostShape {
            opcode,
            qp_type,
            payload: if opcode.is_atomic() { 8 } else { payload },
            sges,
            inline,
            signaled,
            method: Generation::Mlx5.posting().method(batch),
        },
    )
}

/// Whether every number of `more` is at least its counterpart in `less`.
fn covers(more: &Transactions, less: &Transactions) -> bool {
    more.mmio_writes >= less.mmio_writes
        && more.mmio_bytes >= less.mmio_bytes
        && more.dma_reads >= less.dma_reads
        && more.dma_read_bytes >= less.dma_read_bytes
        && more.dma_writes >= less.dma_writes
        && more.dma_write_bytes >= less.dma_write_bytes
        && more.host_to_device_bytes >= less.host_to_device_bytes
        && more.device_to_host_bytes >= less.device_to_host_bytes
}

proptest! {
    #[test]
    fn a_dma_read_takes_less_of_the_link_than_mmio(bytes in 1u32..100_000) {
        // atc16-fig2b-dma-lt-mmio
        for name in Profile::names() {
            let pcie = profile(name).device.pcie;
            prop_assert!(pcie.dma_read_link_bytes(bytes) < pcie.mmio_link_bytes(bytes));
        }
    }

    #[test]
    fn more_payload_never_costs_less(shape in shapes(), more in 0u32..600) {
        let cib = profile("cib");
        // A first byte of payload makes a header-only message a regular one. This adds to every number.
        prop_assume!(!shape.opcode.is_atomic());
        let larger = PostShape { payload: shape.payload + more, ..shape };
        let (less, more) = (accounting::requester(cib, &shape), accounting::requester(cib, &larger));
        prop_assert!(covers(&more, &less), "{more:?} {less:?}");
    }

    #[test]
    fn signalling_adds_one_cqe_each(shape in shapes()) {
        let cx3 = profile("cx3");
        let of = |signaled| accounting::requester(cx3, &PostShape { signaled, ..shape });
        let (with, without) = (of(true), of(false));
        let wqes = u64::from(shape.method.wqes());
        prop_assert_eq!(with.dma_writes, without.dma_writes + wqes);
        prop_assert_eq!(with.host_to_device_bytes, without.host_to_device_bytes);
    }

    #[test]
    fn tlps_and_bytes_agree(shape in shapes()) {
        for name in Profile::names() {
            let p = profile(name);
            let t = accounting::requester(p, &shape);
            let (request, completion) =
                (u64::from(p.device.pcie.request_header), u64::from(p.device.pcie.completion_header));
            let completions = t.host_to_device_tlps - t.mmio_writes;
            prop_assert_eq!(
                t.host_to_device_bytes,
                t.mmio_bytes + t.dma_read_bytes + t.mmio_writes * request + completions * completion
            );
            prop_assert_eq!(
                t.device_to_host_bytes,
                t.dma_write_bytes + t.device_to_host_tlps * request
            );
            prop_assert!(completions >= t.dma_reads);
            prop_assert!(completions * u64::from(p.device.pcie.read_completion) >= t.dma_read_bytes);
            prop_assert!(t.device_to_host_tlps >= t.dma_reads + t.dma_writes);
        }
    }

    #[test]
    fn a_doorbell_for_many_costs_less_than_many_for_one(shape in shapes(), batch in 2u32..40) {
        let cib = profile("cib");
        let of = |batch| {
            accounting::transfer(cib, &PostShape { method: Method::Doorbell { batch }, ..shape })
        };
        let (together, apart) = (of(batch), of(1).times(u64::from(batch)));
        prop_assert!(together.host_to_device_bytes < apart.host_to_device_bytes);
        prop_assert_eq!(together.dma_read_bytes, apart.dma_read_bytes);
        let slot = wqe::pad(shape.wqe_bytes(cib.device.generation));
        prop_assert_eq!(together.dma_read_bytes, u64::from(batch * slot));
    }

    #[test]
    fn an_access_touches_a_line_per_64_bytes_or_one_more(address in 0u64..10_000, bytes in 1u64..10_000) {
        let lines = lines_touched(address, bytes);
        prop_assert!(lines == bytes.div_ceil(64) || lines == bytes.div_ceil(64) + 1);
        prop_assert_eq!(lines_touched(address + 64, bytes), lines);
    }
}
