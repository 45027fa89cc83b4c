//! *On Limitations of Network Acceleration* (CoNEXT'13). docs/conext13.md describes the case, and
//! docs/notes/conext13.md has the arithmetic behind its numbers.

#[cfg(test)]
mod arithmetic;
mod beyond;
mod fig1;
mod fig4;
mod fig5;
mod fig6;
mod nics;
mod runs;
mod sides;
mod tab1;
mod tab2;
mod tab3;
mod tenant;
mod unaffected;

use crate::experiment::Experiment;

/// Experiments of CoNEXT'13, in the order of the paper.
pub(super) const ALL: &[&Experiment] = &[
    &fig1::EXPERIMENT,
    &tab1::EXPERIMENT,
    &tab2::EXPERIMENT,
    &tab3::EXPERIMENT,
    &fig4::EXPERIMENT,
    &fig5::EXPERIMENT,
    &fig6::EXPERIMENT,
    &nics::EXPERIMENT,
    &sides::EXPERIMENT,
    &tenant::EXPERIMENT,
    &unaffected::EXPERIMENT,
];

/// Experiments on machines that the paper did not have.
pub(super) const BEYOND: &[&Experiment] = &[&beyond::EXPERIMENT];
