//! *On Limitations of Network Acceleration* (CoNEXT'13). What it says of the machines and the arithmetic behind its
//! numbers are in docs/conext13.md.

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

/// Its experiments, in its order.
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

/// What machines would give back that the paper did not have.
pub(super) const BEYOND: &[&Experiment] = &[&beyond::EXPERIMENT];
