//! Tests of profiles, layouts, costs, accounting and limits. One program: each would be linked anew.

mod accounting;
mod cost;
mod limits;
mod profile;
mod tcp;
mod wqe;
