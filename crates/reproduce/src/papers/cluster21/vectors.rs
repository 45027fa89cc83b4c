//! Calls of vector I/O, as Figures 3 to 5 have them. What the paper does not state is chosen here, once for all of them
//! (docs/cluster21.md): a rate counts calls, four are outstanding, each thread has a QP of its own, and nothing is inlined.

use super::cluster::CLUSTER;
use crate::experiment::Ctx;
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_systems::config::{Clients, Timing};
use doorbell_systems::vector_io::{Strategy, VectorIo};
use doorbell_verbs::Span;

/// Calls that a thread has outstanding.
const OUTSTANDING: u32 = 4;

/// Threads of a machine at most.
const THREADS: u32 = 16;

pub(super) const STRATEGIES: [Strategy; 3] = [Strategy::Sp, Strategy::Doorbell, Strategy::Sgl];

/// Calls of so many pieces.
#[derive(Clone, Copy)]
pub(super) struct Calls {
    pub strategy: Strategy,
    pub pieces: u32,
    pub bytes: u32,
    pub threads: u32,
}

impl Calls {
    pub(super) fn system(self) -> VectorIo {
        let Calls { strategy, pieces, bytes, threads } = self;
        VectorIo {
            clients: Clients::new(threads, THREADS, OUTSTANDING, false),
            timing: Timing::of(Span::from_us(100), Span::from_us(300)),
            strategy: strategy.into(),
            iovcnt: pieces,
            piece: bytes,
            inline_bytes: 0,
        }
    }
}

/// Millions of calls a second.
pub(super) fn rates(ctx: &Ctx<'_>, what: &str, calls: &[Calls]) -> Result<Vec<f64>, NotYet> {
    let all: Vec<_> = calls.iter().map(|calls| calls.system().into()).collect();
    Ok(ctx.systems(CLUSTER, what, &all)?.iter().map(|o| o.mops).collect())
}

/// One of them, with what limits it.
pub(super) fn explain(ctx: &Ctx<'_>, what: &str, calls: Calls) -> Result<Outcome, NotYet> {
    ctx.explain_system(CLUSTER, what, &calls.system().into())
}

/// Rates of each strategy at the same points.
pub(super) struct Rates<const N: usize>(pub [[f64; N]; 3]);

impl<const N: usize> Rates<N> {
    /// At points that differ in what `at` makes of them.
    pub(super) fn of(
        ctx: &Ctx<'_>,
        what: &str,
        points: [u32; N],
        at: impl Fn(Strategy, u32) -> Calls,
    ) -> Result<Rates<N>, NotYet> {
        let calls: Vec<Calls> =
            STRATEGIES.iter().flat_map(|strategy| points.map(|point| at(*strategy, point))).collect();
        let all = rates(ctx, what, &calls)?;
        let (rates, _) = all.as_chunks();
        Ok(Rates(rates.try_into().expect("three strategies")))
    }

    pub(super) fn sp(&self) -> &[f64; N] {
        &self.0[0]
    }

    pub(super) fn doorbell(&self) -> &[f64; N] {
        &self.0[1]
    }

    pub(super) fn sgl(&self) -> &[f64; N] {
        &self.0[2]
    }

    /// The least and the most of SP's rates over another's.
    pub(super) fn ends_of_sp_over(&self, other: &[f64; N]) -> (f64, f64) {
        let ratios = self.sp().iter().zip(other).map(|(sp, other)| sp / other);
        ratios.fold((f64::INFINITY, 0.0), |(low, high), ratio| (low.min(ratio), high.max(ratio)))
    }
}
