//! CoNEXT'13, Figure 5 and 3.2: cost of Touch, by the size of the response.

use super::runs::{self, CLUSTER, MB, Pair, SCANS, SIZES, TABLE_3, curve, phase_us, text, touch, us};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_systems::Phase;
use doorbell_systems::touch::{Mode, Scanned};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig5",
    paper: "conext13",
    title: "loss by Touch, by the size of the response",
    claims: &[
        "conext13-fig5-shape",
        "conext13-fig5-range-lo",
        "conext13-fig5-range-hi",
        "conext13-s2-prep-dominates",
        "conext13-concl-latency-comparable",
    ],
    runs: Runs::Touch,
    run,
};

/// Overheads matter once the loss is this share of its largest value.
const MATTERS: f64 = 0.5;
/// Losses within this many percentage points count as equal.
const SAME: f64 = 1.0;

/// Shape of losses by size: the size from which they matter, the size of the peak, and whether they fall
/// after the peak.
struct Hump {
    from: u32,
    peak: u32,
    largest: f64,
    falls: bool,
}

impl Hump {
    fn of(points: &[(u32, f64)]) -> Hump {
        let largest = points.iter().map(|p| p.1).fold(0.0, f64::max);
        let from = points.iter().find(|p| p.1 >= MATTERS * largest).map_or(0, |p| p.0);
        let peak = points.iter().find(|p| p.1 >= largest - SAME).map_or(0, |p| p.0);
        let falls = points.iter().any(|p| p.0 > peak && p.1 < largest - SAME);
        Hump { from, peak, largest, falls }
    }
}

/// Whether the loss has the paper's shape up to 1 MB. It begins to matter at 4 kB or later, peaks at 256 kB
/// or before, and then falls.
fn is_the_papers(points: &[(u32, f64)]) -> bool {
    let Hump { from, peak, falls, largest } = Hump::of(points);
    let small = points.first().is_some_and(|p| p.1 < MATTERS * largest);
    small && from >= 4096 && peak <= TABLE_3 && falls
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let asked: Vec<_> =
        SCANS.iter().flat_map(|(scan, _)| SIZES.map(|size| touch(Mode::Touch, *scan, size))).collect();
    let found = runs::pairs(ctx, ctx.profile(CLUSTER), "fig5", &asked);
    let cold = SIZES.map(|size| touch(Mode::Touch, Scanned::Read, size));
    let cold = runs::systems(ctx, &runs::without_prefetchers(ctx), "fig5", &cold);
    let (found, cold) = (found?, cold?);
    let (write, read) = found.split_at(SIZES.len());
    let losses = |pairs: &[Pair]| SIZES.into_iter().zip(pairs.iter().map(Pair::loss)).collect::<Vec<_>>();
    let [writes, reads] = [losses(write), losses(read)];
    let shown = |points: &[(u32, f64)]| points.iter().copied().filter(|p| p.0 <= MB).collect::<Vec<_>>();
    let hump = Hump::of(&shown(&writes));
    let all = format!("Write Scan {}; Read Scan {}", text(&writes), text(&reads));
    let kb = |size: u32| f64::from(size) / 1024.0;
    let share = |outcome: &Outcome| phase_us(outcome, Phase::Prepare) / us(outcome) * 100.0;
    let shares: Vec<(u32, f64)> = SIZES.into_iter().zip(write.iter().map(|p| share(&p.touch))).collect();
    let of_cold: Vec<(u32, f64)> = SIZES.into_iter().zip(cold.iter().map(share)).collect();
    let most = shares.iter().map(|p| p.1).fold(0.0, f64::max);
    let table_3 = SIZES.iter().position(|size| *size == TABLE_3).map(|at| &write[at]);
    let table_3 = table_3.expect("one of the sizes");
    let overhead = us(&table_3.touch) - us(&table_3.notouch);
    let network = us(&table_3.notouch) - phase_us(&table_3.notouch, Phase::Prepare);
    let ratio = overhead / network;
    let checks = vec![
        Check::statement(
            "conext13-fig5-shape",
            CLUSTER,
            is_the_papers(&shown(&writes)) && is_the_papers(&shown(&reads)),
            all,
        ),
        Check::number("conext13-fig5-range-lo", CLUSTER, kb(hump.from))
            .note("Write Scan; from the size with half of the largest loss up to 1 MB"),
        Check::number("conext13-fig5-range-hi", CLUSTER, kb(hump.peak)).note(format!(
            "Write Scan; the first size with a loss within one point of the largest loss up to 1 MB, {:.1}%",
            hump.largest
        )),
        Check::statement(
            "conext13-s2-prep-dominates",
            CLUSTER,
            most > 50.0,
            format!("share of the scan, Touch with Write Scan, in percent: {}", text(&shares)),
        )
        .note(format!("without prefetchers, Touch with Read Scan: {}", text(&of_cold))),
        Check::statement(
            "conext13-concl-latency-comparable",
            CLUSTER,
            (0.1..10.0).contains(&ratio),
            format!(
                "256 kB, Write Scan: Touch adds {overhead:.0} us to {network:.0} us of network and stack"
            ),
        ),
    ];
    let curves = [(&writes, SCANS[0].1), (&reads, SCANS[1].1)]
        .map(|(points, name)| curve("fig5", name, "loss by Touch in %", points));
    Ok(Findings { checks, curves: curves.into(), ..Findings::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(losses: [f64; 5]) -> Vec<(u32, f64)> {
        [64, 4096, 65_536, 262_144, 1_048_576].into_iter().zip(losses).collect()
    }

    #[test]
    fn a_hump_is_told_from_what_rises_or_stays() {
        assert!(is_the_papers(&points([1.0, 20.0, 40.0, 38.0, 25.0])));
        assert!(!is_the_papers(&points([1.0, 20.0, 40.0, 41.0, 40.5])), "it does not fall");
        assert!(!is_the_papers(&points([1.0, 20.0, 30.0, 35.0, 40.0])), "it rises to the end");
        assert!(!is_the_papers(&points([30.0, 35.0, 40.0, 38.0, 25.0])), "it is large from the beginning");
        let hump = Hump::of(&points([1.0, 20.0, 40.0, 38.0, 25.0]));
        assert_eq!((hump.from, hump.peak, hump.falls), (4096, 65_536, true));
    }
}
