//! Tests of profiles, layouts, costs, accounting and limits, in one program to save linking time.

mod accounting;
mod cost;
mod limits;
mod posting;
mod profile;
mod tcp;
mod wqe;
