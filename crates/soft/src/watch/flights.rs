//! Send work requests that are posted and whose completions were not polled, where somebody wants to know of them.
//!
//! In strict mode results of READs and atomics are here until then: the program sees them when it has polled, and no
//! sooner, as it may on a NIC.

use super::strict::Held;
use super::trace::{self, Slice};
use crate::sync::lock;
use doorbell_abi::CEnum;
use doorbell_abi::status_name;
use doorbell_launch::strict::Strict;
use doorbell_verbs::{Sge, WcStatus};
use std::collections::VecDeque;
use std::sync::Mutex;

/// What stands where a result is awaited.
const POISON: u8 = 0xdb;

/// A send work request.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Its number among those of its QP.
    pub(crate) number: u64,
    /// The regions that it uses.
    pub(crate) _held: Option<Held>,
    pub(crate) awaited: Option<Awaited>,
    pub(crate) slice: Option<Slice>,
}

/// A result that is not to be seen yet.
#[derive(Debug)]
pub(crate) struct Awaited {
    bytes: Box<[u8]>,
    sges: Vec<Sge>,
}

impl Awaited {
    /// Of these buffers, which are the program's.
    ///
    /// # Safety
    /// Their bytes may be written, now and when the completion is polled.
    pub(crate) unsafe fn new(sges: &[Sge], len: u32) -> Awaited {
        for sge in sges {
            // SAFETY: vouched for by the caller.
            unsafe { (sge.addr as *mut u8).write_bytes(POISON, sge.length as usize) };
        }
        Awaited { bytes: vec![0; len as usize].into(), sges: sges.to_vec() }
    }

    /// Where it is to come instead.
    pub(crate) fn place(&mut self) -> u64 {
        self.bytes.as_mut_ptr().expose_provenance() as u64
    }

    /// Puts it where the program awaits it.
    fn arrive(&self) {
        let mut at = 0;
        for sge in &self.sges {
            let part = (sge.length as usize).min(self.bytes.len() - at);
            // SAFETY: promised to `new`; bytes of the result.
            unsafe { std::ptr::copy_nonoverlapping(self.bytes.as_ptr().add(at), sge.addr as *mut u8, part) };
            at += part;
        }
    }
}

/// Those of a QP, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Flights(Mutex<VecDeque<Flight>>);

impl Flights {
    /// Those of a new QP, where they are wanted.
    pub(crate) fn wanted() -> Option<Flights> {
        (Strict::own().is_some() || trace::is_wanted()).then(Flights::default)
    }

    pub(crate) fn posted(&self, flight: Flight) {
        lock(&self.0).push_back(flight);
    }

    /// The completion of one is polled; those before it are complete with it.
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

    /// The QP begins anew, or ends.
    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}
