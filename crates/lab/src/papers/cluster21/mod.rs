//! *Thinking More about RDMA Memory Semantics* (CLUSTER'21). What its numbers ask for is in docs/cluster21.md.

#[cfg(test)]
mod arithmetic;
mod fig8;
mod fig9;
pub(super) mod reads;

use super::Experiment;

/// Its experiments, in its order.
pub(super) const ALL: &[&Experiment] = &[&fig8::EXPERIMENT, &fig9::EXPERIMENT];
