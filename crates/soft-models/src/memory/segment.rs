//! Stands in for shared memory: a table of what lies where, as loom's atomics are larger than those of the
//! processor.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::{self, Debug};

/// What lies where.
#[derive(Default)]
pub(crate) struct Segment {
    heap: HashMap<u64, Box<dyn Any>>,
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
