//! Send work requests whose completions were not polled yet. They are tracked in strict mode and for traces.
//!
//! In strict mode this module also holds back the results of READs and atomics. A result reaches the
//! program's buffers only when the program polls the completion, because a NIC may write it that late. A
//! request with IBV_SEND_FENCE finds the results of earlier requests in the buffers.

use super::strict::Held;
use super::trace::{self, Slice};
use crate::memory::copy::copy_in_order;
use crate::sync::lock;
use doorbell_abi::CEnum;
use doorbell_abi::status_name;
use doorbell_launch::strict::Strict;
use doorbell_verbs::{Sge, WcStatus};
use std::collections::VecDeque;
use std::sync::Mutex;

/// The byte that fills the buffers of a result until its completion is polled.
const POISON: u8 = 0xdb;
fn poison() -> u8 { if doorbell_launch::say::broken("s-pattern") { 0 } else { POISON } }

/// A posted send work request.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Number of the work request in its QP.
    pub(crate) number: u64,
    /// Counts the work request as a user of its memory regions.
    pub(crate) _held: Option<Held>,
    pub(crate) awaited: Option<Awaited>,
    pub(crate) slice: Option<Slice>,
}

/// The result of a READ or atomic that the program may not see yet.
#[derive(Debug)]
pub(crate) struct Awaited {
    bytes: Box<[u8]>,
    sges: Vec<Sge>,
}

impl Awaited {
    /// Fills these buffers of the program with [`poison()`], and holds the result back.
    ///
    /// # Safety
    /// The bytes of the buffers may be written, now and when the completion is polled.
    pub(crate) unsafe fn new(sges: &[Sge], len: u32) -> Awaited {
        for sge in sges {
            // SAFETY: vouched for by the caller.
            unsafe { (sge.addr as *mut u8).write_bytes(poison(), sge.length as usize) };
        }
        Awaited { bytes: vec![0; len as usize].into(), sges: sges.to_vec() }
    }

    /// The address of the buffer that takes the result until the completion is polled.
    pub(crate) fn place(&mut self) -> u64 {
        self.bytes.as_mut_ptr().expose_provenance() as u64
    }

    /// Copies the result into the program's buffers.
    fn arrive(&self) {
        let mut at = 0;
        for sge in &self.sges {
            let part = (sge.length as usize).min(self.bytes.len() - at);
            // SAFETY: `new`'s caller promised the buffers; `part` is at most the bytes left of the result.
            unsafe { copy_in_order(self.bytes.as_ptr().add(at), sge.addr as *mut u8, part) };
            at += part;
        }
    }
}

/// The work requests of a QP whose completions were not polled yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Flights(Mutex<VecDeque<Flight>>);

impl Flights {
    /// The list for a new QP; `None` if neither strict mode nor a trace was requested.
    pub(crate) fn wanted() -> Option<Flights> {
        (Strict::own().is_some() || trace::is_wanted()).then(Flights::default)
    }

    pub(crate) fn posted(&self, flight: Flight) {
        lock(&self.0).push_back(flight);
    }

    /// Removes the work request whose completion was polled, and all older requests, which are complete too.
    /// Copies held-back results to the program's buffers, except for a request that failed.
    pub(crate) fn polled(&self, number: u64, status: u32, bytes: u32) {
        let success = status == 0;
        let mut flights = lock(&self.0);
        while flights.front().is_some_and(|flight| flight.number <= number) {
            let Some(flight) = flights.pop_front() else { return };
            if let Some(awaited) = flight.awaited.filter(|_| success || flight.number < number) {
                awaited.arrive();
            }
            if let Some(slice) = flight.slice {
                let is_it = flight.number == number;
                let status = WcStatus::from_c(status).filter(|_| is_it).unwrap_or_default();
                slice.end(status_name(status), bytes);
            }
        }
    }

    /// Copies the held-back results of all work requests before `number` to the program's buffers. These
    /// work requests must have been carried out.
    #[cold]
    pub(crate) fn arrive_before(&self, number: u64) {
        let mut flights = lock(&self.0);
        let earlier = flights.iter_mut().take_while(|flight| flight.number < number);
        earlier.filter_map(|flight| flight.awaited.take()).for_each(|awaited| awaited.arrive());
    }

    /// Removes all work requests, because the QP is reset or destroyed.
    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}
