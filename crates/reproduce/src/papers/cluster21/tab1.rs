//! CLUSTER'21, Table I: grades of three strategies of vector I/O. Programmability is the number of lines that
//! change when a program that posts a WRITE for each piece adopts the strategy
//! (`doorbell_systems::vector_io::by_hand`). Performance and scalability use rates of Figures 3 to 5.

use super::cluster::CLUSTER;
use super::vectors::{Calls, rates};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_nic::Part;
use doorbell_systems::vector_io::{Strategy, by_hand};
use similar::{ChangeTag, TextDiff};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tab1",
    paper: "cluster21",
    title: "grades of vector I/O",
    claims: &[
        "cluster21-tab1-doorbell-programmability",
        "cluster21-tab1-sgl-programmability",
        "cluster21-tab1-sp-programmability",
        "cluster21-tab1-doorbell-performance",
        "cluster21-tab1-sgl-performance",
        "cluster21-tab1-sp-performance",
        "cluster21-tab1-doorbell-scalability",
        "cluster21-tab1-sgl-scalability",
        "cluster21-tab1-sp-scalability",
        "cluster21-s3a-sp-cpu",
    ],
    runs: Runs::Systems,
    run,
};

/// Strategies in ascending order of changed lines.
const STRATEGIES: [Strategy; 3] = [Strategy::Doorbell, Strategy::Sgl, Strategy::Sp];
/// Pieces of a large call, and of a small one.
const MANY: u32 = 16;
const FEW: u32 = 1;
/// Bytes of a small piece, and of a piece that is larger than the paper's pieces.
const SMALL: u32 = 32;
const LARGE: u32 = 1024;
/// Threads of Figure 5, and pieces of its calls.
const THREADS: u32 = 8;
const OF_THREADS: u32 = 4;

/// Least share of the best strategy's rate that counts as high.
const HIGH: f64 = 0.5;
/// A strategy scales if calls of [`MANY`] pieces raise its rate by at least [`GAINS`], and each of
/// [`THREADS`] threads keeps at least [`KEEPS`] of a single thread's rate.
const GAINS: f64 = 4.0;
const KEEPS: f64 = 0.5;

/// Number of lines that differ between two programs, without comment lines.
fn changed(from: &str, to: &str) -> usize {
    let code = |text: &str| {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.fold(String::new(), |all, line| all + line + "\n")
    };
    let (from, to) = (code(from), code(to));
    let diff = TextDiff::from_lines(&from, &to);
    diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal).count()
}

/// Lines removed and added for each strategy.
fn lines() -> [usize; 3] {
    let [(_, each), others @ ..] = by_hand::SOURCES;
    others.map(|(_, text)| changed(each, text))
}

/// Rates of a strategy in millions of pieces per second.
struct Rates {
    many: f64,
    few: f64,
    large: f64,
    /// Rate of one thread alone, and rate of each of several threads.
    alone: f64,
    among: f64,
}

impl Rates {
    fn gain(&self) -> f64 {
        self.many / self.few
    }

    fn kept(&self) -> f64 {
        self.among / self.alone
    }

    fn scales(&self) -> bool {
        self.gain() >= GAINS && self.kept() >= KEEPS
    }
}

fn measure(ctx: &Ctx<'_>) -> Result<[Rates; 3], NotYet> {
    let of = |strategy| {
        let call = |pieces, bytes, threads| Calls { strategy, pieces, bytes, threads };
        [
            call(MANY, SMALL, 1),
            call(FEW, SMALL, 1),
            call(MANY, LARGE, 1),
            call(OF_THREADS, SMALL, 1),
            call(OF_THREADS, SMALL, THREADS),
        ]
    };
    let calls = STRATEGIES.map(of);
    let all = rates(ctx, "tab1", calls.as_flattened())?;
    let pieces = |calls: &[Calls; 5], rates: &[f64]| {
        let each = |at: usize| rates[at] * f64::from(calls[at].pieces) / f64::from(calls[at].threads);
        Rates { many: each(0), few: each(1), large: each(2), alone: each(3), among: each(4) }
    };
    Ok([0, 1, 2].map(|n| pieces(&calls[n], &all[5 * n..][..5])))
}

/// Core time of a call in nanoseconds, without polling. Then the number of lines that the NIC reads for a
/// call.
fn shares(outcome: &Outcome) -> [f64; 2] {
    let of_client = |machine: u32| machine == 1;
    let core = outcome.resources.iter().filter(|r| of_client(r.machine) && r.meter.part() == Part::Core);
    let busy: f64 = core.map(|r| r.utilization).sum();
    let pcie = outcome.pcie.iter().filter(|p| of_client(p.machine));
    let lines: u64 = pcie.map(|p| p.rdcur).sum();
    let calls = outcome.mops * outcome.measured.duration.span().as_secs_f64() * 1e6;
    [busy * 1e3 / outcome.mops, lines as f64 / calls]
}

/// Compares the strategies' use of the core and of PCIe. SP takes more core time than SGL. Its NIC reads
/// fewer lines over PCIe than with either other strategy.
fn loads(ctx: &Ctx<'_>) -> Result<Check, NotYet> {
    let call = |strategy| Calls { strategy, pieces: MANY, bytes: SMALL, threads: 1 }.system().into();
    let outcomes = ctx.systems(CLUSTER, "tab1: loads", &STRATEGIES.map(call))?;
    let [doorbell, sgl, sp] = [0, 1, 2].map(|n| shares(&outcomes[n]));
    let told = |[core, lines]: [f64; 2]| format!("{core:.0} ns and {lines:.1} lines");
    let seen = format!(
        "core time and lines that the NIC reads for a call of {MANY} pieces of {SMALL} B: SP {}, SGL {}, Doorbell {}",
        told(sp),
        told(sgl),
        told(doorbell)
    );
    // Doorbell's core time is not compared: building one work request for each piece costs core time, too.
    let holds = sp[0] > sgl[0] && sp[1] < sgl[1] && sp[1] < doorbell[1];
    Ok(Check::statement("cluster21-s3a-sp-cpu", CLUSTER, holds, seen))
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let lines = lines();
    let ascend = lines.is_sorted_by(|few, many| few < many);
    let changed = format!(
        "lines that change in a program with a WRITE for each piece: {} for Doorbell, {} for SGL, {} for SP",
        lines[0], lines[1], lines[2]
    );
    let (all, loads) = (measure(ctx), loads(ctx));
    let (all, loads) = (all?, loads?);
    let [doorbell, sgl, sp] = &all;
    let best = |of: fn(&Rates) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let (best_small, best_large) = (best(|r| r.many), best(|r| r.large));
    let high = |of: &Rates| of.many >= HIGH * best_small;
    let performs = format!(
        "calls of {MANY} pieces of {SMALL} B: Doorbell {:.1}, SGL {:.1}, SP {:.1} M pieces/s; high from {:.0}% of the best on",
        doorbell.many,
        sgl.many,
        sp.many,
        HIGH * 100.0
    );
    let told = |of: &Rates| format!("{:.1} times by pieces, {:.0}% by threads", of.gain(), 100.0 * of.kept());
    let scale = format!(
        "from {FEW} to {MANY} pieces and of a thread's rate among {THREADS}: Doorbell {}, SGL {}, SP {}; good from {GAINS} times and {:.0}% on",
        told(doorbell),
        told(sgl),
        told(sp),
        KEEPS * 100.0
    );
    let range = format!(
        "{scale}; with pieces of {LARGE} B SGL has {:.2} of {best_large:.2} M/s, and should have at most \
         {:.0}%",
        sgl.large,
        HIGH * 100.0
    );
    let out_of_range = sgl.large < HIGH * best_large;
    let state = |id, holds, seen: &String| Check::statement(id, CLUSTER, holds, seen.clone());
    let checks = vec![
        state("cluster21-tab1-doorbell-programmability", ascend, &changed),
        state("cluster21-tab1-sgl-programmability", ascend, &changed),
        state("cluster21-tab1-sp-programmability", ascend, &changed),
        state("cluster21-tab1-doorbell-performance", !high(doorbell), &performs),
        state("cluster21-tab1-sgl-performance", high(sgl), &performs),
        state("cluster21-tab1-sp-performance", high(sp), &performs),
        state("cluster21-tab1-doorbell-scalability", !doorbell.scales(), &scale),
        state("cluster21-tab1-sgl-scalability", sgl.scales() && out_of_range, &range),
        state("cluster21-tab1-sp-scalability", sp.scales(), &scale),
        loads,
    ];
    Ok(Findings { checks, ..Findings::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_are_counted_without_comments() {
        assert_eq!(changed("a\nb\n// c\n", "a\nd\n// e\n    // f\n"), 2);
        assert_eq!(changed("a\n", "a\nb\nc\n"), 2);
    }
}
