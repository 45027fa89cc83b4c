//! Tests of profiles, layouts, costs, accounting and limits, in one program to save linking time.

mod accounting;
mod cost;
mod limits;
mod nic_model;
mod profile;
mod tcp;
mod wqe;
