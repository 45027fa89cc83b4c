//! Tests of the software NIC at its C functions, and of how its sources use each other. One program: each would be linked
//! anew.

mod boundary;
mod rooms;
