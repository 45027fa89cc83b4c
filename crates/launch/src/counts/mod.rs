//! Counts a program's posts and receives by shape while it runs.

pub mod board;
pub mod drops;
pub mod process;
pub mod qp;
mod tally;
