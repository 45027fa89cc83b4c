//! Beyond the paper: the part of the loss that would vanish with other machines or programs.

use super::runs::{self, CLUSTER, MB, Pair, SCANS, TABLE_3, touch};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_nic::Profile;
use doorbell_systems::touch::{Mode, Touch};
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "beyond",
    paper: "conext13",
    title: "loss recovered by snapshots, DDIO, a larger LLC, software prefetch and a NIC on the processor",
    claims: &[
        "doorbell-touch-snapshot",
        "doorbell-touch-ddio",
        "doorbell-touch-llc",
        "doorbell-touch-prefetch",
        "doorbell-touch-on-chip",
    ],
    runs: Runs::Touch,
    run,
};

/// Losses within this many percentage points count as equal.
const SAME: f64 = 3.0;
/// Ways of the LLC that DDIO gives to devices: 2 of 20 on the Xeon E5.
const DDIO_WAYS: u32 = 2;
/// Number of lines by which a program prefetches ahead.
const AHEAD: u32 = 16;
/// Bytes per second of the NIC on the processor (4.2).
const ON_CHIP_BYTES_PER_S: u64 = 12_500_000_000;

/// A NIC at 100 Gb/s that accesses memory directly, so that a request and its response of 64 bytes take less
/// than 2 us.
fn on_chip(ctx: &Ctx<'_>) -> Profile {
    let mut profile = runs::with_caches(ctx, |h| {
        h.reads_own = false;
        h.forced_write_back = Span::ZERO;
        h.write_ways = DDIO_WAYS;
    });
    let device = &mut profile.device;
    device.link.port_bytes_per_s = ON_CHIP_BYTES_PER_S;
    device.link.one_way = Span::from_ns(100);
    device.pcie.lane_bytes_per_s *= 8;
    let pcie = &mut device.pcie;
    for near in [&mut pcie.read_latency, &mut pcie.write_latency, &mut pcie.mmio_latency] {
        *near = Span::from_ns(20);
    }
    for quick in [&mut device.tx.send, &mut device.tx.extra_packet, &mut device.rx.packet] {
        *quick = Span::from_ns(50);
    }
    profile
}

/// Losses of both scans in words.
fn losses(pairs: &[Pair]) -> String {
    let of = |((_, name), pair): (&(_, &str), &Pair)| {
        format!("{name} {:.1}% of {:.0} us", pair.loss(), runs::us(&pair.notouch))
    };
    SCANS.iter().zip(pairs).map(of).collect::<Vec<_>>().join(", ")
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let scans = |size| SCANS.map(|(scan, _)| touch(Mode::Touch, scan, size));
    let table_3 = scans(TABLE_3);
    let ahead = table_3.clone().map(|t| Touch { prefetch_lines: AHEAD, ..t });
    let paper = ctx.profile(CLUSTER);
    let snapshot = runs::with_caches(ctx, |h| h.reads_own = false);
    let ddio = runs::with_caches(ctx, |h| h.write_ways = DDIO_WAYS);
    let larger = runs::with_caches(ctx, |h| h.llc *= 4);
    let bare = runs::without_prefetchers(ctx);
    let on_chip = on_chip(ctx);
    let ask = |profile: &Profile, all: &[Touch]| runs::pairs(ctx, profile, "beyond", all);
    let found = [
        ask(paper, &table_3),
        ask(&snapshot, &table_3),
        ask(&ddio, &table_3),
        ask(&larger, &table_3),
        ask(paper, &scans(16 * MB)),
        ask(&larger, &scans(16 * MB)),
        ask(&bare, &table_3),
        ask(&bare, &ahead),
        ask(&on_chip, &table_3),
    ];
    let mut all = Vec::new();
    for pairs in found {
        all.push(pairs?);
    }
    let [paper, snapshot, ddio, larger, paper_16, larger_16, bare, ahead, on_chip] = &all[..] else {
        unreachable!("as many as were asked for")
    };
    let less = |a: &[Pair], b: &[Pair]| a.iter().zip(b).all(|(a, b)| a.loss() < b.loss() - SAME);
    let check = |id, holds, seen: String| {
        Check::statement(id, CLUSTER, holds, seen).note(format!("the paper's: {}", losses(paper)))
    };
    let checks = vec![
        check("doorbell-touch-snapshot", less(snapshot, paper), losses(snapshot)),
        check("doorbell-touch-ddio", !less(ddio, paper), losses(ddio)),
        check(
            "doorbell-touch-llc",
            !less(larger, paper),
            format!(
                "256 kB: {}; 16 MB: {}, and {} with 18 MB",
                losses(larger),
                losses(larger_16),
                losses(paper_16)
            ),
        ),
        check(
            "doorbell-touch-prefetch",
            less(ahead, bare),
            format!("{}; without either prefetch {}", losses(ahead), losses(bare)),
        ),
        check("doorbell-touch-on-chip", less(on_chip, paper), losses(on_chip)),
    ];
    Ok(Findings { checks, ..Findings::default() })
}
