//! DMA reads of one line, which caches serve one after another.
//!
//! Measurements of a ConnectX-5 show this limit for READs of one line of host memory, but neither for WRITEs
//! to it nor for READs of one line of device memory. So the NIC orders no accesses by address here, and the
//! host serves the reads one by one.

use super::memory::{LINE, MemPlace};
use crate::core::ps::Ps;

/// Number of lines whose last read is remembered. A line replaces another one with the same remainder, so
/// reads that alternate between two such lines do not wait for each other.
const LINES: usize = 1024;

/// The last read of a line.
#[derive(Clone, Copy)]
struct LineRead {
    line: MemPlace,
    /// When the next read of the line may begin.
    next: Ps,
}

/// The last DMA reads of a host.
pub(super) struct LastReads {
    /// Least time between two reads of one line.
    apart: Ps,
    reads: Box<[LineRead]>,
}

impl LastReads {
    /// The reads of a host that serves two reads of one line at least `apart` one after the other; `None` if
    /// it serves them at once.
    pub(super) fn new(apart: Ps) -> Option<LastReads> {
        let never = LineRead { line: MemPlace { allocation: u32::MAX, offset: 0 }, next: Ps::ZERO };
        (apart > Ps::ZERO).then(|| LastReads { apart, reads: vec![never; LINES].into() })
    }

    /// A read of a place comes at `at`. Returns when it begins.
    pub(super) fn begin(&mut self, at: Ps, place: MemPlace) -> Ps {
        let number = place.offset / LINE;
        let line = MemPlace { offset: number, ..place };
        let last = &mut self.reads[(number + u64::from(place.allocation)) as usize % LINES];
        let begin = if last.line == line { last.next.max(at) } else { at };
        *last = LineRead { line, next: begin + self.apart };
        begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_one_line_are_apart_and_others_are_not() {
        let mut reads = LastReads::new(Ps(40)).unwrap();
        let mut begin = |at, offset| reads.begin(Ps(at), MemPlace { allocation: 3, offset }).0;
        assert_eq!([begin(100, 0), begin(100, 63), begin(110, 8)], [100, 140, 180]);
        assert_eq!([begin(110, 64), begin(120, 64)], [110, 150]);
        assert_eq!(begin(500, 0), 500, "a long time later, nothing is left to wait for");
        assert_eq!(begin(500, 1024 * 64), 500, "another line takes its place");
        assert!(LastReads::new(Ps::ZERO).is_none());
    }
}
