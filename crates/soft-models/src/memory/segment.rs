//! Stands in for a segment of shared memory. The segment is a table of values by offset, because loom's
//! atomics are larger than the processor's.

use super::records::{CopiesRecord, CopyRecord, CqRecord, MrRecord, QpRecord, RqRecord};
use std::any::Any;
use std::collections::HashMap;
use std::fmt::{self, Debug};

/// The heap's values by offset, and the records of one QP with one receive queue and one CQ, of one region,
/// and of two requesters.
#[derive(Default)]
pub(crate) struct Segment {
    heap: HashMap<u64, Box<dyn Any>>,
    qp: QpRecord,
    rq: RqRecord,
    cq: CqRecord,
    mr: MrRecord,
    copies: CopiesRecord,
    copy: [CopyRecord; 2],
}

impl Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment").finish_non_exhaustive()
    }
}

impl Segment {
    /// Puts a value into the heap.
    pub(crate) fn put<T: 'static>(&mut self, at: u64, value: T) {
        self.heap.insert(at, Box::new(value));
    }

    /// The record of the only QP, for any index.
    pub(crate) fn qp(&self, _: usize) -> Option<&QpRecord> {
        Some(&self.qp)
    }

    /// The record of the QP's receive queue.
    pub(crate) fn rq(&self, _: usize) -> Option<&RqRecord> {
        Some(&self.rq)
    }

    /// The record of the QP's CQ.
    pub(crate) fn cq(&self, _: usize) -> Option<&CqRecord> {
        Some(&self.cq)
    }

    /// The record of the only region.
    pub(crate) fn mr(&self) -> &MrRecord {
        &self.mr
    }

    /// The record of the copy records in use.
    pub(crate) fn copies(&self) -> &CopiesRecord {
        &self.copies
    }

    /// The copy record of a requester.
    pub(crate) fn copy(&self, index: usize) -> Option<&CopyRecord> {
        self.copy.get(index)
    }

    /// Offset of an object in the heap. Only a RECV that has more SGEs than any model's RECV needs this
    /// offset.
    pub(crate) fn heap_offset<T>(&self, _: &T) -> Option<u64> {
        unreachable!("all SGEs of a model's RECV lie in its slot")
    }

    /// The value at an offset of the heap; `None` if the offset has no value.
    ///
    /// # Panics
    /// If the value has another type. A model has to put values of the right type at the offsets that the
    /// software NIC uses.
    pub(crate) fn in_heap<T: 'static>(&self, at: u64) -> Option<&T> {
        let found = self.heap.get(&at)?.downcast_ref();
        assert!(found.is_some(), "the value at {at} has another type");
        found
    }
}
