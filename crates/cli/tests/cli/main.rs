//! Tests of the command as people call it. One program: its tests run beside each other, and each program would be linked
//! anew.

mod command;
mod common;
mod ctrl_c;
mod curves;
mod docs;
mod fits;
mod interrupts;
mod launch;
mod library;
mod live;
mod ranks;
mod run;
mod schemas;
mod served;
mod trace;
mod trust;
