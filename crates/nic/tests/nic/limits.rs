//! Bounds of the workloads of ATC'16, section 5.
//!
//! A rate that a profile is calibrated from only shows that calibration and limits use the same arithmetic.
//! The other rates are predictions.

use doorbell_nic::cost::Costs;
use doorbell_nic::limits::{self, Limit, Machines, Mix, Pattern};
use doorbell_nic::{Profile, Resource};
use doorbell_verbs::{Opcode, QpType, Span};
use proptest::prelude::*;

fn profile(name: &str) -> Profile {
    Profile::named(name).unwrap_or_else(|e| panic!("{e}"))
}

/// Batched UD SENDs from machine 0 by all cores.
fn sends(profile: &Profile) -> Mix {
    Mix {
        opcode: Opcode::Send,
        qp_type: QpType::Ud,
        payload: 4,
        inline: true,
        sges: 1,
        batch: 16,
        signal_every: 64,
        window: 128,
        window_per_qp: false,
        drain: false,
        pattern: Pattern::Outbound,
        machines: 6,
        threads: profile.host.cores,
        qps: 4,
        ports: u32::MAX,
        max_rd_atomic: u32::MAX,
        counters: 1,
        counter_stride: 8,
        inline_recv: false,
        recv_batch: 16,
        mixed_lists: false,
        think: Span::ZERO,
    }
}

/// READs by machine 0 from the other machines.
fn reads(profile: &Profile) -> Mix {
    Mix {
        opcode: Opcode::Read,
        qp_type: QpType::Rc,
        payload: 32,
        inline: false,
        batch: 1,
        signal_every: 1,
        window: 16,
        pattern: Pattern::Inbound,
        ..sends(profile)
    }
}

fn binding(profile: &Profile, mix: &Mix) -> Limit {
    limits::limits(profile, mix).swap_remove(0)
}

/// Allowed relative difference between a bound and its formula.
const EXACT: f64 = 0.001;

/// Millions of operations per second of `units` units. `each` holds the times of one operation.
fn units(units: u32, each: &[Span]) -> f64 {
    1e6 * f64::from(units) / each.iter().map(|span| span.as_ps() as f64).sum::<f64>()
}

/// Most millions of WQEs per second by MMIO, if a WQE has two lines.
fn mmio(profile: &Profile) -> f64 {
    1e6 / (2.0 * Costs::new(profile).pcie.mmio_line as f64)
}

#[track_caller]
fn expect(profile: &Profile, mix: &Mix, resource: Resource, mops: f64, within: f64) {
    let limit = binding(profile, mix);
    assert_eq!(limit.resource, resource, "{limit:?}");
    assert!((limit.mops / mops - 1.0).abs() <= within, "{limit:?}, not {mops}");
}

#[test]
fn connect_ib_sends() {
    let cib = profile("cib");
    let (batched, tx) = (sends(&cib), cib.device.tx);
    expect(&cib, &batched, Resource::DmaBandwidth, 101.6, 0.01); // atc16-tab4-send-batch
    let empty = units(tx.units, &[tx.send, tx.fetched_wqe]);
    expect(&cib, &Mix { payload: 0, ..batched }, Resource::TxUnits, empty, EXACT);
    expect(&cib, &Mix { batch: 1, ..batched }, Resource::MmioBandwidth, mmio(&cib), EXACT);
    let two_qps = Mix { threads: 1, qps: 2, ..batched };
    expect(&cib, &two_qps, Resource::TxUnits, units(2, &[tx.send, tx.fetched_wqe, tx.extra_line]), EXACT);
}

/// `cib` with a pipeline that begins a request every `ns` nanoseconds.
fn with_pipeline(ns: f64) -> Profile {
    let entry = format!("{{ value = {ns}, basis = \"assumed\", reason = \"r\", range = [0, 1000] }}");
    let text = format!("name = \"x\"\ntitle = \"x\"\nbase = \"cib\"\n[pipeline]\nrequest_ns = {entry}\n");
    Profile::parse("x.toml", &text).unwrap_or_else(|e| panic!("{e}"))
}

/// The bound that the pipeline sets, if any, in millions of operations per second.
fn pipeline_bound(profile: &Profile, mix: &Mix) -> Option<f64> {
    let all = limits::limits(profile, mix);
    all.iter().find(|limit| limit.resource == Resource::TxPipeline).map(|limit| limit.mops)
}

#[test]
fn the_pipeline_bounds_the_requests_of_a_nic() {
    let p = with_pipeline(20.0);
    let (send, read) = (sends(&p), reads(&p));
    expect(&p, &send, Resource::TxPipeline, 50.0, EXACT);
    // 10,000 bytes are three packets.
    let large = Mix { opcode: Opcode::Write, qp_type: QpType::Rc, payload: 10_000, inline: false, ..send };
    assert_eq!(pipeline_bound(&p, &large), Some(50.0 / 3.0));
    // Responses do not pass the pipeline: machine 0 answers the five machines that READ from it.
    assert_eq!(pipeline_bound(&p, &read), Some(250.0));
    assert_eq!(pipeline_bound(&p, &Mix { pattern: Pattern::AllToAll, ..read }), Some(300.0));
    assert_eq!(pipeline_bound(&p, &Mix { pattern: Pattern::Outbound, ..read }), Some(50.0));
    for none in [with_pipeline(0.0), profile("cib")] {
        assert_eq!(pipeline_bound(&none, &send), None);
        assert_eq!(limits::limits(&none, &send), limits::limits(&profile("cib"), &send));
    }
}

#[test]
fn connect_ib_receives() {
    let cib = profile("cib");
    let (inbound, rx) = (Mix { pattern: Pattern::Inbound, ..sends(&cib) }, cib.device.rx);
    let regular = units(rx.units, &[rx.packet, rx.dma_write, rx.dma_write]);
    expect(&cib, &inbound, Resource::RxUnits, regular, EXACT);
    let one_dma = units(rx.units, &[rx.packet, rx.dma_write]);
    expect(&cib, &Mix { payload: 0, ..inbound }, Resource::RxUnits, one_dma, EXACT);
    let write = Mix { opcode: Opcode::Write, qp_type: QpType::Uc, batch: 1, ..inbound };
    expect(&cib, &write, Resource::RxUnits, one_dma, EXACT); // atc16-ho-recv-eq-write
}

#[test]
fn connect_ib_reads() {
    let cib = profile("cib");
    let (inbound, rx) = (reads(&cib), cib.device.rx);
    expect(&cib, &inbound, Resource::RxUnits, units(rx.units, &[rx.packet, rx.dma_read]), EXACT);
    // LRH, BTH, AETH, ICRC and VCRC (IB specification, volume 1, 5.2) around 128 bytes.
    let packet = 128 + 8 + 12 + 4 + 4 + 2 + cib.device.link.packet_overhead;
    let link =
        f64::from(cib.device.link.ports) * cib.device.link.port_bytes_per_s as f64 / 1e6 / f64::from(packet);
    // atc16-tab4-read-128
    expect(&cib, &Mix { payload: 128, ..inbound }, Resource::LinkBandwidth, link, EXACT);
    let answers = units(rx.units, &[rx.packet, rx.dma_write, rx.requester_cqe]);
    expect(&cib, &Mix { pattern: Pattern::Outbound, ..inbound }, Resource::RxUnits, answers, EXACT);
}

#[test]
fn writes_over_28_bytes_are_limited_by_mmio() {
    // atc16-out-write-2line
    let cib = profile("cib");
    let outbound = Mix {
        opcode: Opcode::Write,
        qp_type: QpType::Uc,
        inline: true,
        payload: 29,
        pattern: Pattern::Outbound,
        ..reads(&cib)
    };
    expect(&cib, &outbound, Resource::MmioBandwidth, mmio(&cib), EXACT);
    assert_ne!(binding(&cib, &Mix { payload: 28, ..outbound }).resource, Resource::MmioBandwidth);
}

#[test]
fn atomics_wait_for_pcie_on_one_word_and_for_units_on_many() {
    let cib = profile("cib");
    let one = Mix { opcode: Opcode::FetchAdd, payload: 8, ..reads(&cib) };
    let of_a_lock = |p: &Profile| units(1, &[p.device.pcie.read_latency, p.device.atomics.hold]);
    expect(&cib, &one, Resource::PcieLatency, of_a_lock(&cib), EXACT);
    expect(&cib, &Mix { counters: 8, ..one }, Resource::PcieLatency, 8.0 * of_a_lock(&cib), EXACT);
    let mut few_locks = cib.clone();
    few_locks.device.atomics.slots = 32;
    expect(&few_locks, &Mix { counters: 8, ..one }, Resource::AtomicLocks, 4.0 * of_a_lock(&cib), EXACT);
    expect(
        &cib,
        &Mix { counters: 4096, ..one },
        Resource::RxUnits,
        units(16, &[cib.device.rx.atomic]),
        EXACT,
    );
    let cx3 = profile("cx3");
    for counters in [1, 64, 4096] {
        let mix = Mix { opcode: Opcode::FetchAdd, payload: 8, counters, ..reads(&cx3) };
        expect(&cx3, &mix, Resource::PcieLatency, of_a_lock(&cx3), EXACT); // atc16-atomics-cx3-indep-z
    }
}

#[test]
fn older_nics_send_and_receive() {
    for (name, send1, recv0) in [("cx3", 26.0, 34.0), ("cx", 11.9, 15.3)] {
        let p = profile(name);
        let regular = sends(&p);
        let empty = Mix { payload: 0, ..regular };
        expect(
            &p,
            &empty,
            Resource::TxUnits,
            units(p.device.tx.units, &[p.device.tx.send, p.device.tx.fetched_wqe]),
            EXACT,
        );
        // These are predictions; the profiles were set from the other rates.
        expect(&p, &regular, Resource::TxUnits, send1, 0.05);
        expect(&p, &Mix { pattern: Pattern::Inbound, ..empty }, Resource::RxUnits, recv0, 0.06);
        let recv1 =
            units(p.device.rx.units, &[p.device.rx.packet, p.device.rx.dma_write, p.device.rx.dma_write]);
        expect(&p, &Mix { pattern: Pattern::Inbound, ..regular }, Resource::RxUnits, recv1, EXACT);
    }
    let cx3 = profile("cx3");
    let inline = Mix { inline_recv: true, pattern: Pattern::Inbound, ..sends(&cx3) };
    expect(&cx3, &inline, Resource::RxUnits, 26.0, 0.01);
}

#[test]
fn a_single_operation_at_a_time_is_limited_by_its_latency() {
    let cib = profile("cib");
    let mix = Mix { window: 1, threads: 1, pattern: Pattern::Outbound, ..reads(&cib) };
    let limit = binding(&cib, &mix);
    assert_eq!(limit.resource, Resource::Latency);
    let latency = limits::unloaded_latency(&cib, &mix).as_ps() as f64;
    assert!((limit.mops - 1e6 / latency).abs() < 1e-9, "{limit:?}");
    // atc16-s22-rtt-2us
    assert!((1.5e6..2.5e6).contains(&latency), "{latency} ps");
    let part = |term: &limits::Term| term.part.is_some_and(|part| term.what.starts_with(part.name()));
    assert!(limit.terms.iter().all(part), "each step is told by the part that takes it: {limit:?}");
}

#[test]
fn a_qp_has_no_more_reads_outstanding_than_the_nic_allows() {
    let cib = profile("cib");
    let mix = |window| Mix { window, threads: 1, qps: 1, pattern: Pattern::Outbound, ..reads(&cib) };
    let bound = |window| {
        let all = limits::limits(&cib, &mix(window));
        all.into_iter().find(|l| l.resource == Resource::Latency).map_or(0.0, |l| l.mops)
    };
    assert!(bound(16) > bound(15));
    // READs that wait in the queue are outstanding, but not in the NICs. A READ spends less time in the NICs
    // than from post to poll.
    assert!(bound(1000) >= bound(16) && bound(1000) < 2.0 * bound(16));
    assert_eq!(bound(64), bound(1000));
}

#[test]
fn relaxing_what_binds_lifts_the_bound() {
    let cib = profile("cib");
    let all = [
        sends(&cib),
        Mix { batch: 1, ..sends(&cib) },
        Mix { payload: 0, ..sends(&cib) },
        Mix { pattern: Pattern::Inbound, ..sends(&cib) },
        Mix { payload: 256, ..reads(&cib) },
        Mix { opcode: Opcode::FetchAdd, payload: 8, counters: 8, ..reads(&cib) },
        Mix { threads: 1, batch: 1, ..sends(&cib) },
    ];
    for mix in all {
        let before = binding(&cib, &mix);
        let after = binding(&cib.relax(before.resource, 101, 100), &mix);
        assert!(after.mops > before.mops * 1.001, "{before:?} {after:?}");
        for other in Resource::ALL {
            let relaxed = binding(&cib.relax(other, 101, 100), &mix);
            assert!(relaxed.mops >= before.mops * (1.0 - 1e-6), "{other}: {relaxed:?} {before:?}");
        }
    }
}

fn mixes() -> impl Strategy<Value = Mix> {
    let verbs = prop::sample::select(&[
        (Opcode::Send, QpType::Ud),
        (Opcode::Send, QpType::Rc),
        (Opcode::Write, QpType::Uc),
        (Opcode::WriteWithImm, QpType::Rc),
        (Opcode::Read, QpType::Rc),
        (Opcode::FetchAdd, QpType::Rc),
    ]);
    let patterns = prop::sample::select(&[Pattern::Outbound, Pattern::Inbound, Pattern::AllToAll]);
    let load = (0u32..10_000, any::<bool>(), 1u32..33, 1u32..65, 1u32..65, any::<bool>());
    let size = (0u32..9, 0u32..15, 0u32..9, 0u64..5000);
    (verbs, patterns, load, size).prop_map(|((opcode, qp_type), pattern, load, size)| {
        let (payload, inline, batch, signal_every, window, drain) = load;
        let (machines, threads, qps, counters) = size;
        Mix {
            opcode,
            qp_type,
            payload: if opcode.is_atomic() { 8 } else { payload },
            inline,
            sges: 1,
            batch,
            signal_every,
            window,
            window_per_qp: drain,
            drain: !drain,
            pattern,
            machines,
            threads,
            qps,
            ports: u32::MAX,
            max_rd_atomic: u32::MAX,
            counters,
            counter_stride: 8 * u64::from(batch),
            inline_recv: inline,
            recv_batch: batch,
            mixed_lists: false,
            think: Span::ZERO,
        }
    })
}

proptest! {
    #[test]
    fn bounds_are_positive_and_sorted(mix in mixes()) {
        for name in Profile::names() {
            let all = limits::limits(&profile(name), &mix);
            prop_assert!(all.iter().all(|l| l.mops > 0.0 && l.mops.is_finite()), "{all:?}");
            prop_assert!(all.is_sorted_by(|a, b| a.mops <= b.mops));
        }
    }

    #[test]
    fn more_payload_never_lifts_the_bound(mix in mixes(), more in 1u32..1000) {
        prop_assume!(!mix.opcode.is_atomic() && !mix.inline_recv);
        let cx3 = profile("cx3");
        let larger = Mix { payload: mix.payload + more, ..mix };
        prop_assert!(binding(&cx3, &larger).mops <= binding(&cx3, &mix).mops * (1.0 + 1e-9));
    }
}

#[test]
fn times_of_kinds_add_up() {
    let cib = profile("cib");
    let send = sends(&cib);
    let large = Mix { payload: 4096, inline: false, ..send };
    let alone = |mix| binding(&cib, &mix).mops;
    let both = |a, b| limits::limits_of_all(&cib, &[(send, a), (large, b)]).swap_remove(0).mops;
    assert_eq!(limits::limits_of_all(&cib, &[(send, 7)]), limits::limits(&cib, &send));
    assert_eq!(limits::limits_of_all(&cib, &[(send, 7), (large, 0)]), limits::limits(&cib, &send));
    assert!((both(3, 0) - alone(send)).abs() < 1e-9 && (both(0, 3) - alone(large)).abs() < 1e-9);
    // Operations of 4096 bytes use nearly all of the link, so two kinds in turn are half as fast.
    let half = both(5, 5) / alone(large);
    assert!((1.9..2.0).contains(&half), "{half}");
    assert!(limits::limits_of_all(&cib, &[]).is_empty());
}

/// Groups with a Connect-IB as machine 0, and others.
fn mixed<'a>(cib: &'a Profile, others: &[(&'a Profile, u32)]) -> Vec<Machines<'a>> {
    let others = others.iter().map(|(profile, count)| Machines { profile, count: *count });
    std::iter::once(Machines { profile: cib, count: 1 }).chain(others).collect()
}

#[test]
fn groups_of_like_machines_have_the_limits_of_like_machines() {
    let cib = profile("cib");
    let groups = mixed(&cib, &[(&cib, 2), (&cib, 3)]);
    for mix in [sends(&cib), reads(&cib), Mix { pattern: Pattern::AllToAll, ..reads(&cib) }] {
        assert_eq!(limits::limits_of_groups(&groups, &[(mix, 1)]), limits::limits(&cib, &mix));
        assert_eq!(
            limits::unloaded_latency_of_groups(&groups, &[(mix, 1)]),
            limits::unloaded_latency(&cib, &mix)
        );
    }
    assert!(limits::limits_of_groups(&[], &[(sends(&cib), 1)]).is_empty());
}

#[test]
fn those_who_post_to_one_add_up() {
    let (cib, cx3, cx) = (profile("cib"), profile("cx3"), profile("cx"));
    // A server with a Connect-IB accepts more WRITEs than two clients can post.
    let writes = |p: &Profile, machines| Mix {
        opcode: Opcode::Write,
        qp_type: QpType::Uc,
        machines,
        threads: 4,
        pattern: Pattern::Inbound,
        payload: 16,
        batch: 1,
        ..sends(p)
    };
    let alone = |p: &Profile| {
        limits::limits_of_groups(&mixed(&cib, &[(p, 1)]), &[(writes(p, 2), 1)]).swap_remove(0).mops
    };
    let both = limits::limits_of_groups(&mixed(&cib, &[(&cx3, 1), (&cx, 1)]), &[(writes(&cib, 3), 1)])
        .swap_remove(0);
    assert!((both.mops / (alone(&cx3) + alone(&cx)) - 1.0).abs() < 1e-9, "{both:?}");
}

#[test]
fn the_slowest_target_bounds_who_posts_in_turn_but_not_what_it_may_drop() {
    let (cib, cx) = (profile("cib"), profile("cx"));
    let few = |qp_type| Mix {
        qp_type,
        opcode: Opcode::Send,
        payload: 2000,
        inline: false,
        threads: 4,
        qps: 6,
        machines: 4,
        ..sends(&cib)
    };
    let least = |groups: &[Machines<'_>], mix: &Mix, resource: Resource| {
        let all = limits::limits_of_groups(groups, &[(*mix, 1)]);
        all.into_iter().find(|l| l.resource == resource).map_or(f64::INFINITY, |l| l.mops)
    };
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mix = few(qp_type);
        let bound = |others: &[(&Profile, u32)], resource| least(&mixed(&cib, others), &mix, resource);
        // Each message uses the link, even if the receiver drops it.
        let (one, all) = (
            bound(&[(&cib, 2), (&cx, 1)], Resource::LinkBandwidth),
            bound(&[(&cx, 3)], Resource::LinkBandwidth),
        );
        assert!((one / all - 1.0).abs() < 0.01, "{qp_type}: {one} and {all}");
        let mut slow = cib.clone();
        slow.host.post_recv_wqe = doorbell_verbs::Span::from_us(1);
        let cpu = bound(&[(&cib, 2), (&slow, 1)], Resource::Cpu);
        let of_slow = bound(&[(&slow, 3)], Resource::Cpu);
        assert_eq!(cpu < 1.01 * of_slow, qp_type == QpType::Rc, "{qp_type}: {cpu} and {of_slow}");
    }
}

#[test]
fn all_to_all_the_slowest_takes_its_share() {
    let (cib, cx) = (profile("cib"), profile("cx"));
    let mix =
        Mix { pattern: Pattern::AllToAll, payload: 1024, qps: 8, threads: 4, machines: 4, ..reads(&cib) };
    let rate = |groups: &[Machines<'_>]| limits::limits_of_groups(groups, &[(mix, 1)]).swap_remove(0).mops;
    let (fast, slow) = (limits::limits(&cib, &mix)[0].mops, limits::limits(&cx, &mix)[0].mops);
    let most = rate(&mixed(&cib, &[(&cib, 2), (&cx, 1)]));
    // A cx answers three machines: a third of the posts of each.
    assert!(slow < most && most < 1.5 * slow && most < fast, "{slow} {most} {fast}");
}
