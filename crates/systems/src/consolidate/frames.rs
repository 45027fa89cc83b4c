//! Frames: the writer's memory for bytes of blocks.

use super::spans::Spans;
use doorbell_verbs::Time;
use std::collections::VecDeque;

/// Number of a frame.
pub(super) type Number = u32;

/// Room for a block, and the state of the bytes there.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// The block to which the bytes belong.
    pub(super) block: u64,
    /// Number of held modifications.
    pub(super) writes: u32,
    /// When the first held modification was made.
    pub(super) since: Time,
    /// The bytes that held modifications wrote. Only used if blocks are shared, because only these bytes are
    /// posted then.
    pub(super) spans: Spans,
    /// Whether the device may still read the frame.
    pub(super) posted: bool,
    /// Number of the frame's current holding, from its first modification to its post. Entries of the queue
    /// with other numbers are stale.
    turn: u64,
}

/// The place of a block's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FramePlace {
    /// Always at the target only: writes to the block are not held back.
    Direct,
    /// At the target only.
    Target,
    /// In a frame, too. The frame's bytes are newer than the target's.
    Frame(Number),
}

/// All frames, and the place of each block of the region.
#[derive(Debug)]
pub(super) struct Frames {
    frames: Vec<Frame>,
    places: Vec<FramePlace>,
    /// Frames without a block.
    free: Vec<Number>,
    /// Frames in the order of their first held modification, each with the number of that holding. Some
    /// entries are stale.
    queue: VecDeque<(Number, u64)>,
    /// Number of frames that hold modifications.
    held: u32,
    turns: u64,
    /// The frame at which the next search for a reusable frame begins.
    hand: Number,
}

impl Frames {
    /// `frames` free frames. `places` has the place of each block's bytes.
    pub(super) fn new(frames: u32, places: Vec<FramePlace>) -> Frames {
        let empty = Frame {
            block: 0,
            writes: 0,
            since: Time::START,
            spans: Spans::default(),
            posted: false,
            turn: 0,
        };
        let (queue, free) = (VecDeque::new(), (0..frames).rev().collect());
        Frames { frames: vec![empty; frames as usize], places, free, queue, held: 0, turns: 0, hand: 0 }
    }

    pub(super) fn at(&self, number: Number) -> &Frame {
        &self.frames[number as usize]
    }

    pub(super) fn at_mut(&mut self, number: Number) -> &mut Frame {
        &mut self.frames[number as usize]
    }

    /// The place of a block's bytes.
    pub(super) fn place(&self, block: u64) -> FramePlace {
        self.places[block as usize]
    }

    /// Notes that a block is in a frame from now on.
    pub(super) fn put(&mut self, block: u64, number: Number) {
        self.places[block as usize] = FramePlace::Frame(number);
        self.at_mut(number).block = block;
    }

    /// Notes that a block is at the target only from now on.
    pub(super) fn drop_block(&mut self, block: u64) {
        self.places[block as usize] = FramePlace::Target;
    }

    /// Number of held blocks.
    pub(super) fn held(&self) -> u32 {
        self.held
    }

    /// Counts a modification of a frame. Returns how many modifications the frame holds now.
    pub(super) fn modified(&mut self, number: Number, now: impl FnOnce() -> Time) -> u32 {
        if self.at(number).writes == 0 {
            self.turns += 1;
            self.held += 1;
            let turn = self.turns;
            let frame = self.at_mut(number);
            (frame.since, frame.turn) = (now(), turn);
            self.forget_what_is_over();
            self.queue.push_back((number, turn));
        }
        let frame = self.at_mut(number);
        frame.writes += 1;
        frame.writes
    }

    /// Notes that a frame with held modifications is posted. Returns how many it held.
    pub(super) fn posted(&mut self, number: Number) -> u32 {
        self.held -= 1;
        let frame = self.at_mut(number);
        frame.posted = true;
        frame.spans.clear();
        std::mem::take(&mut frame.writes)
    }

    /// Notes that the device has read a posted frame. The frame becomes free unless it still is the place of
    /// its block.
    pub(super) fn completed(&mut self, number: Number) {
        let frame = self.at_mut(number);
        frame.posted = false;
        let block = frame.block;
        if self.place(block) != FramePlace::Frame(number) {
            self.free.push(number);
        }
    }

    /// The frame that has held modifications longest.
    pub(super) fn oldest(&mut self) -> Option<Number> {
        while let Some(&(number, turn)) = self.queue.front() {
            if self.is_held(number, turn) {
                return Some(number);
            }
            self.queue.pop_front();
        }
        None
    }

    fn is_held(&self, number: Number, turn: u64) -> bool {
        let frame = self.at(number);
        frame.writes > 0 && frame.turn == turn
    }

    /// Removes stale entries from the queue. Otherwise they would pile up behind a frame that is held for
    /// long.
    fn forget_what_is_over(&mut self) {
        if self.queue.len() >= 2 * self.frames.len() {
            let mut queue = std::mem::take(&mut self.queue);
            queue.retain(|&(number, turn)| self.is_held(number, turn));
            self.queue = queue;
        }
    }

    /// Takes a free frame, or else a frame whose bytes have all reached the target. Also returns how many
    /// frames the search examined.
    pub(super) fn take(&mut self) -> Option<(Number, u64)> {
        if let Some(number) = self.free.pop() {
            return Some((number, 1));
        }
        let all = self.frames.len() as u32;
        for looked in 1..=u64::from(all) {
            let number = self.hand;
            self.hand = (self.hand + 1) % all;
            let Frame { block, writes, posted, .. } = *self.at(number);
            if writes == 0 && !posted {
                self.drop_block(block);
                return Some((number, looked));
            }
        }
        None
    }
}
