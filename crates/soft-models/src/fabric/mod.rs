//! Stands in for the fabric, the other processes. All threads of a model belong to one process.

pub(crate) mod peer {
    //! The process that owns a segment.

    use std::marker::PhantomData;

    /// The process that all threads of a model belong to.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Owner<'a> {
        /// This process.
        This,
        /// Another process. No model has one.
        #[expect(dead_code, reason = "the variant uses the lifetime")]
        Peer(std::convert::Infallible, PhantomData<&'a ()>),
    }
}

pub(crate) mod pipe {
    //! Stands in for the pipe of events for the program.

    use super::peer::Owner;
    use crate::memory::records::EventRecord;
    use crate::sync::atomics::{AtomicU32, Ordering::*};

    loom::lazy_static! {
        static ref EVENTS: AtomicU32 = AtomicU32::new(0);
    }

    /// Counts an event.
    pub(crate) fn tell(_: Owner<'_>, _: u32, _: EventRecord) -> bool {
        // The counter stands for a system call, so it orders nothing between threads.
        let _ = EVENTS.fetch_update(Relaxed, Relaxed, |events| Some(events + 1));
        true
    }

    /// The number of events for the program. Read after all threads have ended.
    pub(crate) fn events() -> u32 {
        EVENTS.load(Relaxed)
    }
}
