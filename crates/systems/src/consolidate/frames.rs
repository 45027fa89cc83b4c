//! Where the bytes of blocks are in the writer's memory.

use super::spans::Spans;
use doorbell_verbs::Time;
use std::collections::VecDeque;

/// Number of a frame.
pub(super) type Number = u32;

/// Room for a block, and what is known of the bytes there.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// Whose bytes they are.
    pub(super) block: u64,
    /// Modifications that are held.
    pub(super) writes: u32,
    /// When the first of these came.
    pub(super) since: Time,
    /// The bytes that they wrote, where only these are posted.
    pub(super) spans: Spans,
    /// The device may still read it.
    pub(super) posted: bool,
    /// The number of its holding among all, which tells entries of the queue apart that are over.
    turn: u64,
}

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FramePlace {
    /// At the target alone, always: its writes are not held back.
    Direct,
    /// At the target alone.
    Target,
    /// In a frame, too, whose bytes are newer.
    Frame(Number),
}

/// All frames, and where each block of the region is.
#[derive(Debug)]
pub(super) struct Frames {
    frames: Vec<Frame>,
    places: Vec<FramePlace>,
    /// Frames of no block.
    free: Vec<Number>,
    /// Frames that hold something, by when they began, with the number of their holding. Some are over.
    queue: VecDeque<(Number, u64)>,
    /// Frames that hold something.
    held: u32,
    turns: u64,
    /// Where to look for the next frame to be had back.
    hand: Number,
}

impl Frames {
    /// So many, all free, for blocks of these places.
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

    /// Where a block is.
    pub(super) fn place(&self, block: u64) -> FramePlace {
        self.places[block as usize]
    }

    /// A block is in a frame from now on.
    pub(super) fn put(&mut self, block: u64, number: Number) {
        self.places[block as usize] = FramePlace::Frame(number);
        self.at_mut(number).block = block;
    }

    /// A block is at the target alone from now on.
    pub(super) fn drop_block(&mut self, block: u64) {
        self.places[block as usize] = FramePlace::Target;
    }

    /// Blocks that are held.
    pub(super) fn held(&self) -> u32 {
        self.held
    }

    /// Another modification of what a frame has; how many are held.
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

    /// A frame that holds something is posted; how many modifications.
    pub(super) fn posted(&mut self, number: Number) -> u32 {
        self.held -= 1;
        let frame = self.at_mut(number);
        frame.posted = true;
        frame.spans.clear();
        std::mem::take(&mut frame.writes)
    }

    /// The device has read a posted frame; it is free where its block is in no frame, or in another.
    pub(super) fn completed(&mut self, number: Number) {
        let frame = self.at_mut(number);
        frame.posted = false;
        let block = frame.block;
        if self.place(block) != FramePlace::Frame(number) {
            self.free.push(number);
        }
    }

    /// The frame that holds something longest.
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

    /// Entries behind one that is held long would become ever more.
    fn forget_what_is_over(&mut self) {
        if self.queue.len() >= 2 * self.frames.len() {
            let mut queue = std::mem::take(&mut self.queue);
            queue.retain(|&(number, turn)| self.is_held(number, turn));
            self.queue = queue;
        }
    }

    /// A frame of no block, and how many were looked at for it: a free one, else one whose block the target has as well.
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
