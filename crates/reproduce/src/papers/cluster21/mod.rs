//! *Thinking More about RDMA Memory Semantics* (CLUSTER'21). docs/cluster21.md discusses its numbers.

#[cfg(test)]
mod arithmetic;
mod atomics;
mod cluster;
mod decomposition;
mod fig1;
mod fig10a;
mod fig10b;
mod fig12;
mod fig13a;
mod fig13b;
mod fig15;
mod fig16;
mod fig17;
mod fig18;
mod fig19;
mod fig1_latency;
mod fig3;
mod fig4;
mod fig5;
mod fig6;
mod fig6c;
mod fig8;
mod fig9;
mod joins;
mod local;
mod operations;
mod perftest;
pub(super) mod reads;
mod tab1;
mod tab2;
mod tab2_bandwidth;
mod tab3;
mod tab3_latency;
mod vectors;

use crate::experiment::Experiment;

/// Experiments of CLUSTER'21, in the order of the paper.
pub(super) const ALL: &[&Experiment] = &[
    &fig1_latency::EXPERIMENT,
    &fig1::EXPERIMENT,
    &operations::EXPERIMENT,
    &fig3::EXPERIMENT,
    &fig4::EXPERIMENT,
    &fig5::EXPERIMENT,
    &tab1::EXPERIMENT,
    &fig6::EXPERIMENT,
    &fig6c::EXPERIMENT,
    &fig8::EXPERIMENT,
    &fig9::EXPERIMENT,
    &tab2::EXPERIMENT,
    &tab2_bandwidth::EXPERIMENT,
    &decomposition::EXPERIMENT,
    &tab3_latency::EXPERIMENT,
    &tab3::EXPERIMENT,
    &fig10a::EXPERIMENT,
    &fig10b::EXPERIMENT,
    &atomics::EXPERIMENT,
    &fig12::EXPERIMENT,
    &fig13a::EXPERIMENT,
    &fig13b::EXPERIMENT,
    &fig15::EXPERIMENT,
    &fig16::EXPERIMENT,
    &fig17::EXPERIMENT,
    &fig18::EXPERIMENT,
    &fig19::EXPERIMENT,
];
