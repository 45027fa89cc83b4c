//! Import of measurements. The logs were made by perftest 4.5 on the software NIC, so their values say nothing
//! about a NIC.

mod csv;
mod perftest;
mod property;
