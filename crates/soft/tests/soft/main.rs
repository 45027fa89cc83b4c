//! Tests of the software NIC at its C functions.

mod boundary;
