//! The usual choice between inline payload and payload by DMA: it is never slower than inline payload.

use crate::nearest::draw::{KINDS, drawn};
use crate::nearest::{LARGE, SMALL, run, seed};
use crate::options::{draw::Draws, number};
use doorbell_lab::{Control, Outcome, Run};
use doorbell_nic::Profile;

/// Compared draws in `cargo test`. `cargo xtask long` sets `DOORBELL_DRAWN`.
const FEW: u64 = 3;

/// A rate may be lower by this share, because bounds ignore queueing and imbalance.
const LESS: f64 = 0.02;

/// Whether payload would fit into WQEs, but is usually read by DMA.
fn is_by_dma(run: &Run) -> bool {
    run.as_verbs().is_some_and(|w| w.dma_gain(&run.profiles).is_some())
}

fn ran(run: &Run) -> Outcome {
    doorbell_lab::simulate(run, &Control::quiet()).expect("it ends")
}

#[test]
fn payload_by_dma_is_not_slower_where_it_is_usual() {
    let (cases, scale) = number("DOORBELL_DRAWN").map_or((FEW, SMALL), |cases| (cases / 3, LARGE));
    let (mut draws, profiles) = (Draws::new(seed()), Profile::names().collect::<Vec<_>>());
    let mut compared = 0;
    while compared < cases {
        let (profile, kind) =
            (draws.one_of(&profiles), KINDS[draws.among(0, KINDS.len() as u64 - 1) as usize]);
        let toml = drawn(&mut draws, scale, profile, kind);
        let Some(usual) = run(&toml).filter(|run| !toml.contains("inline") && is_by_dma(run)) else {
            continue;
        };
        let inlined = run(&format!("{toml}inline = true\n")).expect("its payload fits");
        let (by_dma, inlined) = (ran(&usual), ran(&inlined));
        let half = by_dma.interval.mops.unwrap_or(0.0) + inlined.interval.mops.unwrap_or(0.0);
        let told = format!(
            "{}: {:.3} Mops by DMA, {:.3} inline, {half:.3} of chance",
            toml.trim().replace('\n', "; "),
            by_dma.mops,
            inlined.mops
        );
        println!("{told}");
        assert!(by_dma.mops + half >= (1.0 - LESS) * inlined.mops, "DOORBELL_SEED={}: {told}", seed());
        compared += 1;
    }
}
