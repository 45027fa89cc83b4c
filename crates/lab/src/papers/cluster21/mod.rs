//! *Thinking More about RDMA Memory Semantics* (CLUSTER'21). What its numbers ask for is in docs/cluster21.md.

#[cfg(test)]
mod arithmetic;
mod atomics;
mod fig10a;
mod fig10b;
pub(super) mod reads;

use super::Experiment;

/// Its experiments, in its order.
pub(super) const ALL: &[&Experiment] = &[&fig10a::EXPERIMENT, &fig10b::EXPERIMENT, &atomics::EXPERIMENT];
