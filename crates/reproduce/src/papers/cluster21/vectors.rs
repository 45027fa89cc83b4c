//! Calls of vector I/O in Figures 3 to 5. The settings that the paper leaves open are chosen here, once for
//! all figures (docs/cluster21.md). A rate counts calls, four calls are outstanding, each thread has its own
//! QP, and nothing is inlined.

use super::cluster::CLUSTER;
use crate::experiment::Ctx;
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_systems::config::{Clients, Timing};
use doorbell_systems::vector_io::{Strategy, VectorIo};
use doorbell_verbs::Span;

/// Outstanding calls of a thread.
const OUTSTANDING: u32 = 4;

/// Largest number of threads of a machine.
const THREADS: u32 = 16;

pub(super) const STRATEGIES: [Strategy; 3] = [Strategy::Sp, Strategy::Doorbell, Strategy::Sgl];

/// Vector I/O with calls of this form.
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

/// Rates in millions of calls per second.
pub(super) fn rates(ctx: &Ctx<'_>, what: &str, calls: &[Calls]) -> Result<Vec<f64>, NotYet> {
    let all: Vec<_> = calls.iter().map(|calls| calls.system().into()).collect();
    Ok(ctx.systems(CLUSTER, what, &all)?.iter().map(|o| o.mops).collect())
}

/// Runs one form of calls and observes its limit.
pub(super) fn explain(ctx: &Ctx<'_>, what: &str, calls: Calls) -> Result<Outcome, NotYet> {
    ctx.explain_system(CLUSTER, what, &calls.system().into())
}

/// Rates of the three strategies at N points.
pub(super) struct Rates<const N: usize>(pub [[f64; N]; 3]);

impl<const N: usize> Rates<N> {
    /// Measures the rates. `at` returns the calls of a strategy at a point.
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

    /// Smallest and largest ratio of SP's rate to another strategy's rate.
    pub(super) fn ends_of_sp_over(&self, other: &[f64; N]) -> (f64, f64) {
        let ratios = self.sp().iter().zip(other).map(|(sp, other)| sp / other);
        ratios.fold((f64::INFINITY, 0.0), |(low, high), ratio| (low.min(ratio), high.max(ratio)))
    }
}
