//! Parameters of a NIC's store of requests in flight.

use super::parameter::{ProfileError, ProfileReader, Section, Unit, section};
use doorbell_verbs::Span;
use toml::Spanned;

section! {
    /// The store of the WQEs of requests in flight. A WQE that comes by MMIO enters the store when it
    /// arrives. A WQE that a Doorbell announces enters it when a sending unit begins the request. When a
    /// response completes the request, the NIC needs the WQE again: to place data, or to write a CQE. A
    /// profile without this section has two caches of WQEs instead: [`super::Caches::wqe_entries`] and
    /// [`super::Caches::read_wqe_entries`].
    Requests in "requests" {
        /// WQEs in the store. The oldest one leaves first.
        entries: u32 = "entries" Count 1..=1048576;
        /// How long a receiving unit stalls on a missing WQE. Other work hides the rest of the WQE's PCIe
        /// read.
        stall: Span = "stall_ns" Nanoseconds 0..=100000;
    }
}
