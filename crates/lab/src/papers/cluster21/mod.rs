//! *Thinking More about RDMA Memory Semantics* (CLUSTER'21). What its numbers ask for is in docs/cluster21.md.

#[cfg(test)]
mod arithmetic;
pub(super) mod reads;
