//! Slots that hold requests or replies. The end of a slot tells whether its message is whole.

/// The bytes after the text in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// No bytes: a completion reports the message.
    None,
    /// A [`Trailer`].
    Trailer,
    /// A checksum of text and trailer, and the trailer.
    Checked,
}

impl Tail {
    /// Bytes of the tail.
    pub(super) const fn bytes(self) -> u64 {
        match self {
            Tail::None => 0,
            Tail::Trailer => 8,
            Tail::Checked => 16,
        }
    }
}

/// The fields of a slot's last word. A reply has its status in the field `repetition`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) sequence: u32,
    pub(super) length: u16,
    pub(super) repetition: u16,
}

impl Trailer {
    pub(super) fn to_word(self) -> u64 {
        let word = u64::from(self.sequence) << 32 | u64::from(self.length) << 16 | u64::from(self.repetition);
        word.to_le()
    }

    pub(super) fn from_word(word: u64) -> Trailer {
        let word = u64::from_le(word);
        Trailer { sequence: (word >> 32) as u32, length: (word >> 16) as u16, repetition: word as u16 }
    }
}

/// The layout of slots: a window of slots for each owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    window: u32,
    stride: u64,
    tail: Tail,
}

impl Slots {
    /// Slots for texts of up to `longest` bytes.
    pub(super) fn new(longest: u32, tail: Tail, window: u32) -> Slots {
        let bytes = u64::from(longest).next_multiple_of(8) + tail.bytes();
        let stride = match tail {
            Tail::None => bytes.max(8),
            // Several slots share a cache line, or each slot begins one. So no short slot crosses the end of
            // a line.
            _ if bytes < 64 => bytes.next_power_of_two(),
            _ => bytes.next_multiple_of(64),
        };
        Slots { window, stride, tail }
    }

    /// Bytes of a slot.
    pub(super) fn stride(&self) -> u64 {
        self.stride
    }

    /// Bytes of the slots of `owners` owners.
    pub(super) fn bytes(&self, owners: u32) -> u64 {
        u64::from(owners) * u64::from(self.window) * self.stride
    }

    /// Index of an owner's slot for `sequence`.
    pub(super) fn index(&self, owner: u32, sequence: u32) -> usize {
        (u64::from(owner) * u64::from(self.window) + u64::from(sequence % self.window)) as usize
    }

    /// Offset of the end of an owner's slot for `sequence`.
    pub(super) fn end(&self, owner: u32, sequence: u32) -> u64 {
        (self.index(owner, sequence) as u64 + 1) * self.stride
    }

    /// Offset of the trailer in an owner's slot for `sequence`.
    pub(super) fn trailer(&self, owner: u32, sequence: u32) -> u64 {
        self.end(owner, sequence) - 8
    }

    /// Bytes of a slot that are sent for a text of `length` bytes: the text, its padding and the tail.
    pub(super) fn reach(&self, length: u32) -> u64 {
        match self.tail {
            Tail::None => length.into(),
            tail => u64::from(length).next_multiple_of(8) + tail.bytes(),
        }
    }

    /// Offset of a text of `length` bytes. Without a tail, the text begins the slot. Otherwise the text and
    /// its padding end right before the tail.
    pub(super) fn text(&self, owner: u32, sequence: u32, length: u32) -> u64 {
        match self.tail {
            Tail::None => self.end(owner, sequence) - self.stride,
            _ => self.end(owner, sequence) - self.reach(length),
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn trailers_keep_what_they_carry(sequence: u32, length: u16, repetition: u16) {
            let trailer = Trailer { sequence, length, repetition };
            prop_assert_eq!(Trailer::from_word(trailer.to_word()), trailer);
        }

        #[test]
        fn slots_do_not_overlap(longest in 0..5000u32, tail in 0..3usize, length in 0..5000u32) {
            let tail = [Tail::None, Tail::Trailer, Tail::Checked][tail];
            let slots = Slots::new(longest, tail, 8);
            let length = length.min(longest);
            let mut ends = Vec::new();
            for (owner, sequence) in (0..5).flat_map(|owner| (1..9).map(move |s| (owner, s))) {
                let (begin, end) = (slots.text(owner, sequence, length), slots.end(owner, sequence));
                prop_assert!(end - slots.stride() <= begin && begin + slots.reach(length) <= end);
                ends.push(end);
            }
            ends.sort_unstable();
            prop_assert!(ends.windows(2).all(|two| two[1] - two[0] >= slots.stride()));
            prop_assert_eq!(ends.last(), Some(&slots.bytes(5)));
        }
    }
}
