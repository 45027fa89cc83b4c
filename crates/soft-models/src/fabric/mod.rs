//! Stands in for the other processes: all threads of a model are of one.

pub(crate) mod peer {
    //! Whose memory something lies in.

    use std::marker::PhantomData;

    /// The process that all threads of a model are of.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Owner<'a> {
        /// This process.
        This,
        /// There is no other.
        #[expect(dead_code, reason = "gives the lifetime a use")]
        Peer(std::convert::Infallible, PhantomData<&'a ()>),
    }
}

pub(crate) mod pipe {
    //! Events for the program.

    use super::peer::Owner;
    use crate::memory::records::EventRecord;
    use crate::sync::atomics::{AtomicU32, Ordering::*};

    loom::lazy_static! {
        static ref EVENTS: AtomicU32 = AtomicU32::new(0);
    }

    /// Counts an event.
    pub(crate) fn tell(_: Owner<'_>, _: u32, _: EventRecord) -> bool {
        // The counter orders nothing between threads, as it is in the place of a system call.
        let _ = EVENTS.fetch_update(Relaxed, Relaxed, |events| Some(events + 1));
        true
    }

    /// The events that the program has been told of. Asked for when all threads are through.
    pub(crate) fn events() -> u32 {
        EVENTS.load(Relaxed)
    }
}
