//! Stands in for shared memory: a table of what lies where, as loom's atomics are larger than those of the
//! processor.

use super::records::{CqRecord, QpRecord, RqRecord};
use std::any::Any;
use std::collections::HashMap;
use std::fmt::{self, Debug};

/// What lies where. There is one QP, with one receive queue and one CQ.
#[derive(Default)]
pub(crate) struct Segment {
    heap: HashMap<u64, Box<dyn Any>>,
    qp: QpRecord,
    rq: RqRecord,
    cq: CqRecord,
}

impl Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment").finish_non_exhaustive()
    }
}

impl Segment {
    /// Puts something into the heap.
    pub(crate) fn put<T: 'static>(&mut self, at: u64, value: T) {
        self.heap.insert(at, Box::new(value));
    }

    /// The record of the QP, which has all numbers.
    pub(crate) fn qp(&self, _: usize) -> Option<&QpRecord> {
        Some(&self.qp)
    }

    /// The record of its receive queue.
    pub(crate) fn rq(&self, _: usize) -> Option<&RqRecord> {
        Some(&self.rq)
    }

    /// The record of its CQ.
    pub(crate) fn cq(&self, _: usize) -> Option<&CqRecord> {
        Some(&self.cq)
    }

    /// Where the segment begins. No model has a RECV with so many SGEs that it matters.
    pub(crate) fn base(&self) -> *mut u8 {
        unreachable!("all SGEs of a model's RECV lie in its slot")
    }

    /// Something in the heap.
    ///
    /// # Panics
    /// If something else lies there: a model has to put there what the software NIC looks for.
    pub(crate) fn in_heap<T: 'static>(&self, at: u64) -> Option<&T> {
        let found = self.heap.get(&at)?.downcast_ref();
        assert!(found.is_some(), "what lies at {at} is of another type");
        found
    }
}
