//! Import of measurements. Perftest 4.5 printed the logs on the software NIC, so their values say nothing
//! about a NIC.

mod csv;
mod perftest;
mod property;
