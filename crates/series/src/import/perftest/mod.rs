//! The output of perftest: `ib_write_lat`, `ib_write_bw` and the programs for READ, SEND and atomics.
//!
//! The formats are those of `ctx_print_test_info`, `print_report_bw` and `print_report_lat` in perftest's
//! sources, from version 2 on.

mod line;
mod mapping;
mod run;
mod settings;
mod table;

pub(super) use mapping::measurement;
pub(super) use run::runs;
