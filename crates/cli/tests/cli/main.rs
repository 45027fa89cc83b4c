//! Tests of the command as users call it. All tests are in one program, so that they run in parallel and are
//! linked only once.

mod check;
mod command;
mod common;
mod ctrl_c;
mod curves;
mod docs;
mod errors;
mod fits;
mod import;
mod interrupts;
mod launch;
mod library;
mod live;
mod pages;
mod ranks;
mod run;
mod schemas;
mod screen;
mod served;
mod tails;
mod trace;
mod trust;
