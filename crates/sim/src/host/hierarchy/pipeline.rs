//! What an out-of-order core has under way: it goes on past a miss until a buffer is full.

use crate::core::ps::Ps;
use std::collections::VecDeque;

/// Sizes of a core's buffers, and how fast it is where none is full.
#[derive(Clone, Copy, Debug)]
pub(super) struct PipelineBuffers {
    /// Instructions between the oldest that is not done and the youngest under way.
    pub(super) reorder: u64,
    /// Stores that are done but not in the cache yet.
    pub(super) stores: usize,
    /// Lines that such stores may wait for at a time.
    pub(super) store_lines: usize,
    /// Time of an instruction where nothing waits.
    pub(super) instruction: Ps,
}

/// A load that instructions after it do not wait for.
#[derive(Clone, Copy)]
struct PendingLoad {
    /// Its number among all instructions.
    number: u64,
    done: Ps,
}

/// The instructions of a core, in the order of its program.
#[derive(Default)]
pub(super) struct Pipeline {
    /// Instructions begun so far.
    begun: u64,
    loads: VecDeque<PendingLoad>,
    /// When each store under way is in the cache, in their order: a younger one never before an older one.
    stores: VecDeque<Ps>,
    /// When lines that stores wait for are there.
    store_lines: VecDeque<Ps>,
}

impl Pipeline {
    /// Begins `count` instructions at `clock`; returns when the next one can begin.
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
            // The buffer is full of what follows this load.
            self.begun += room;
            count -= room;
            clock = done.max(clock + buffers.instruction * room);
            self.loads.pop_front();
        }
        self.begun += count;
        clock + buffers.instruction * count
    }

    /// A load that is the next instruction, and done at `done`.
    pub(super) fn load(&mut self, done: Ps) {
        self.loads.push_back(PendingLoad { number: self.begun, done });
    }

    /// When a store that is begun at `clock` may ask for its line: not before one of those waited for is there,
    /// where they are many.
    pub(super) fn store_line_from(&mut self, buffers: &PipelineBuffers, clock: Ps) -> Ps {
        while self.store_lines.front().is_some_and(|ready| *ready <= clock) {
            self.store_lines.pop_front();
        }
        match self.store_lines.len() < buffers.store_lines {
            true => clock,
            false => self.store_lines.pop_front().map_or(clock, |ready| ready.max(clock)),
        }
    }

    /// A store asked for a line that is there at `ready`.
    pub(super) fn store_waits_for(&mut self, ready: Ps) {
        self.store_lines.push_back(ready);
    }

    /// A store whose line is there at `ready`, begun at `clock`; returns when the next instruction can begin.
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

    /// When all loads are done that are under way at `clock`.
    pub(super) fn loaded(&mut self, clock: Ps) -> Ps {
        let last = self.loads.iter().map(|load| load.done).max();
        self.loads.clear();
        last.map_or(clock, |last| last.max(clock))
    }

    /// When all stores are in the cache that are under way at `clock`.
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

    /// Loads that each take 100 000, with `between` instructions in all for each; time of one in the long run.
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
        // Instructions themselves take longer than the buffer makes wait.
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
