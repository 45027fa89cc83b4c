//! A model of a region's record that its owner changes and a peer invalidates.

use crate::memory::records::MrRecord;
use crate::memory::segment::Segment;
use crate::run::{ModelBounds, check};
use crate::sync::atomics::Ordering::*;
use loom::thread;
use std::rc::Rc;

const KEY: u32 = 7;

fn bounds(record: &MrRecord) -> (u64, u64) {
    (record.start.load(Relaxed), record.len.load(Relaxed))
}

/// A reader never accepts a record that is half changed.
pub fn changed_and_invalidated() -> u64 {
    check("regions changed and invalidated", ModelBounds { preemptions: None }, || {
        let segment = Rc::new(Segment::default());
        segment.mr().change(|record| record.key.store(KEY, Relaxed));
        let (owners, peers) = (segment.clone(), segment.clone());
        let owner = thread::spawn(move || {
            owners.mr().change(|record| {
                record.start.store(1, Relaxed);
                record.len.store(1, Relaxed);
            });
        });
        let peer = thread::spawn(move || peers.mr().invalidate(KEY));
        let read = segment.mr().read_once(bounds);
        assert!(matches!(read, None | Some((0, 0) | (1, 1))), "{read:?}");
        [owner, peer].into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    })
}
