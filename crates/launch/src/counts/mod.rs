//! What a program posts and receives, counted by shape while it runs.

pub mod board;
pub mod process;
pub mod qp;
mod tally;
