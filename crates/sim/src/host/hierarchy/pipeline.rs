//! The instructions of an out-of-order core in flight. The core goes on past a miss until a buffer is full.

use crate::core::ps::Ps;
use std::collections::VecDeque;

/// Sizes of a core's buffers, and its speed while none is full.
#[derive(Clone, Copy, Debug)]
pub(super) struct PipelineBuffers {
    /// Maximum number of instructions from the oldest unfinished one to the youngest in flight.
    pub(super) reorder: u64,
    /// Stores that have executed but are not in the cache yet.
    pub(super) stores: usize,
    /// Lines for which these stores may wait at a time.
    pub(super) store_lines: usize,
    /// Time of an instruction if nothing waits.
    pub(super) instruction: Ps,
}

/// A load whose value no later instruction waits for.
#[derive(Clone, Copy)]
struct PendingLoad {
    /// Number of the load among all instructions.
    number: u64,
    done: Ps,
}

/// The instructions of a core, in the order of its program.
#[derive(Default)]
pub(super) struct Pipeline {
    /// Instructions begun so far.
    begun: u64,
    loads: VecDeque<PendingLoad>,
    /// When each store in flight is in the cache, in order. A younger store is never there before an older
    /// one.
    stores: VecDeque<Ps>,
    /// When the lines that stores wait for are there.
    store_lines: VecDeque<Ps>,
}

impl Pipeline {
    /// Begins `count` instructions at `clock`. Returns when the next one can begin.
    pub(super) fn run(&mut self, buffers: &PipelineBuffers, mut clock: Ps, mut count: u64) -> Ps {
        while let Some(&PendingLoad { number, done }) = self.loads.front() {
            if done <= clock {
                self.loads.pop_front();
                continue;
            }
            let room = (number + buffers.reorder).saturating_sub(self.begun);
            if count < room {
                break;
            }
            // The buffer is full of instructions after this load.
            self.begun += room;
            count -= room;
            clock = done.max(clock + buffers.instruction * room);
            self.loads.pop_front();
        }
        self.begun += count;
        clock + buffers.instruction * count
    }

    /// Adds a load as the next instruction; it is done at `done`.
    pub(super) fn load(&mut self, done: Ps) {
        self.loads.push_back(PendingLoad { number: self.begun, done });
    }

    /// When a store that begins at `clock` may ask for its line. If too many lines are awaited, the store
    /// waits until one of them is there.
    pub(super) fn store_line_from(&mut self, buffers: &PipelineBuffers, clock: Ps) -> Ps {
        while self.store_lines.front().is_some_and(|ready| *ready <= clock) {
            self.store_lines.pop_front();
        }
        match self.store_lines.len() < buffers.store_lines {
            true => clock,
            false => self.store_lines.pop_front().map_or(clock, |ready| ready.max(clock)),
        }
    }

    /// Adds a line that a store has requested. The line is there at `ready`.
    pub(super) fn store_waits_for(&mut self, ready: Ps) {
        self.store_lines.push_back(ready);
    }

    /// Adds a store that begins at `clock`. The store's line is there at `ready`. Returns when the next
    /// instruction can begin.
    pub(super) fn store(&mut self, buffers: &PipelineBuffers, clock: Ps, ready: Ps) -> Ps {
        let mut clock = clock;
        while self.stores.front().is_some_and(|done| *done <= clock) {
            self.stores.pop_front();
        }
        if self.stores.len() >= buffers.stores {
            clock = self.stores.pop_front().map_or(clock, |done| done.max(clock));
        }
        let last = self.stores.back().copied().unwrap_or_default();
        self.stores.push_back(ready.max(last).max(clock));
        clock
    }

    /// When all loads in flight at `clock` are done.
    pub(super) fn loaded(&mut self, clock: Ps) -> Ps {
        let last = self.loads.iter().map(|load| load.done).max();
        self.loads.clear();
        last.map_or(clock, |last| last.max(clock))
    }

    /// When all stores in flight at `clock` are in the cache.
    pub(super) fn stored(&mut self, clock: Ps) -> Ps {
        let last = self.stores.back().copied();
        self.stores.clear();
        self.store_lines.clear();
        last.map_or(clock, |last| last.max(clock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFERS: PipelineBuffers =
        PipelineBuffers { reorder: 128, stores: 32, store_lines: 4, instruction: Ps(100) };

    /// Picoseconds per load in the long run. A load takes 100 000 ps, and begins `between` instructions after
    /// the previous load.
    fn loads(between: u64) -> u64 {
        let mut pipeline = Pipeline::default();
        let mut clock = Ps::ZERO;
        let mut begun = Ps::ZERO;
        for i in 0..200 {
            if i == 100 {
                begun = clock;
            }
            pipeline.load(clock + Ps(100_000));
            clock = pipeline.run(&BUFFERS, clock, between);
        }
        (clock - begun).0 / 100
    }

    #[test]
    fn as_many_misses_overlap_as_the_buffer_holds_instructions() {
        assert_eq!(loads(128), 100_000, "one after another");
        assert_eq!(loads(32), 25_000, "four at a time");
        // 128 instructions overlap with the load. The core executes the other instructions after the load.
        assert_eq!(loads(2000), 100_000 + (2000 - 128) * 100);
    }

    #[test]
    fn what_is_done_in_time_costs_nothing() {
        let mut pipeline = Pipeline::default();
        pipeline.load(Ps(50));
        assert_eq!(pipeline.run(&BUFFERS, Ps(60), 500), Ps(60 + 500 * 100));
        pipeline.load(Ps(1_000_000));
        assert_eq!(pipeline.loaded(Ps::ZERO), Ps(1_000_000));
        assert_eq!(pipeline.loaded(Ps(7)), Ps(7));
    }

    #[test]
    fn stores_wait_only_where_their_buffer_is_full() {
        let mut pipeline = Pipeline::default();
        let mut clock = Ps::ZERO;
        for _ in 0..32 {
            clock = pipeline.store(&BUFFERS, clock, Ps(5_000));
        }
        assert_eq!(clock, Ps::ZERO);
        assert_eq!(
            pipeline.store(&BUFFERS, clock, Ps(1)),
            Ps(5_000),
            "and a store is never before an older one"
        );
        assert_eq!(pipeline.stored(Ps::ZERO), Ps(5_000));
    }

    #[test]
    fn few_lines_are_waited_for_at_a_time() {
        let mut pipeline = Pipeline::default();
        for _ in 0..4 {
            assert_eq!(pipeline.store_line_from(&BUFFERS, Ps::ZERO), Ps::ZERO);
            pipeline.store_waits_for(Ps(1_000));
        }
        assert_eq!(pipeline.store_line_from(&BUFFERS, Ps::ZERO), Ps(1_000));
    }
}
