//! CoNEXT'13, Figure 1: gain of RDMA over kernel TCP, by the size of the response.

use super::runs::{self, CLUSTER, SIZES, curve, phase_us, size_text, text, touch, us};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_systems::Phase;
use doorbell_systems::touch::{Mode, Scanned, Stack, Touch};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig1",
    paper: "conext13",
    title: "gain of RDMA over kernel TCP, Touch with Write Scan, by the size of the response",
    claims: &["conext13-fig1-sometimes-loss", "conext13-concl-app-loss"],
    runs: Runs::Touch,
    run,
};

/// A gain of up to this many percent counts as none, because the paper's runs deviate by as much.
const SAME: f64 = 5.0;

/// Reduction of time from TCP to RDMA, in percent of TCP's time. The paper's base is the stack without
/// acceleration.
fn gain(rdma: &Outcome, tcp: &Outcome) -> f64 {
    (1.0 - us(rdma) / us(tcp)) * 100.0
}

/// Parts of a request's time in microseconds, in words.
fn costs(name: &str, outcome: &Outcome) -> String {
    let [prepare, respond] = [Phase::Prepare, Phase::Respond].map(|phase| phase_us(outcome, phase));
    let rest = us(outcome) - prepare - respond;
    format!(
        "{name} {:.0} us: scan {prepare:.0}, call that sends {respond:.0}, the rest {rest:.0}",
        us(outcome)
    )
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let of = |stack| SIZES.map(|size| Touch { stack, ..touch(Mode::Touch, Scanned::Write, size) });
    let profile = ctx.profile(CLUSTER);
    let rdma = runs::systems(ctx, profile, "fig1", &of(Stack::Rdma));
    let tcp = runs::systems(ctx, profile, "fig1", &of(Stack::Tcp));
    let (rdma, tcp) = (rdma?, tcp?);
    let each = rdma.iter().zip(&tcp);
    let gains: Vec<(u32, f64)> = SIZES.into_iter().zip(each.map(|(rdma, tcp)| gain(rdma, tcp))).collect();
    let won: Vec<_> = gains.iter().copied().filter(|p| p.1 > SAME).collect();
    let lost: Vec<_> = gains.iter().copied().filter(|p| p.1 < -SAME).collect();
    let worst = (0..gains.len()).min_by(|a, b| gains[*a].1.total_cmp(&gains[*b].1)).expect("there are sizes");
    let breakdown = format!(
        "at {}: {}; {}",
        size_text(SIZES[worst]),
        costs("RDMA", &rdma[worst]),
        costs("TCP", &tcp[worst])
    );
    let holds = !won.is_empty() && !lost.is_empty();
    let check = |id, holds| {
        Check::statement(id, CLUSTER, holds, format!("gain in percent: {}", text(&gains)))
            .note(breakdown.clone())
    };
    let checks = vec![
        check("conext13-fig1-sometimes-loss", holds),
        check("conext13-concl-app-loss", !lost.is_empty()),
    ];
    let times = |all: &[Outcome]| SIZES.into_iter().zip(all.iter().map(us)).collect::<Vec<_>>();
    let curves = vec![
        curve("fig1", "RDMA over TCP", "gain in %", &gains),
        curve("fig1", "RDMA", "us", &times(&rdma)),
        curve("fig1", "TCP", "us", &times(&tcp)),
    ];
    Ok(Findings { checks, curves, ..Findings::default() })
}
