//! Lists of work requests that operations post.

use super::scratch::ScratchPart;

/// The number of an operation among the operations of its front-end. Completions carry this number, and it
/// determines the scratch memory of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpSlot(pub(super) u32);

/// One work request of an operation: a transfer between the operation's scratch and an area, or an atomic on
/// a word of the area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AreaRequest {
    Read(u64, ScratchPart, u64),
    Write(u64, ScratchPart, u64),
    Add(u64, u64),
    Swap { at: u64, compare: u64, swap: u64 },
}

/// A list of requests that a proxy posts for another front-end. It travels as words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AskedList {
    /// The operation to which the list belongs, in the front-end that asks.
    pub(super) slot: OpSlot,
    pub(super) area: u32,
    pub(super) first: AreaRequest,
    pub(super) second: Option<AreaRequest>,
}

/// Number of words of a list: one for operation and area, and up to six for the requests.
pub(super) const WORDS: usize = 7;

/// Layout of a request's first word, from the lowest bit on: the verb, the scratch part, the number of bytes.
const VERB_BITS: u32 = 4;
const PART_BITS: u32 = 4;

/// Numbers of the verbs in a request's first word.
const READ: u64 = 1;
const WRITE: u64 = 2;
const ADD: u64 = 3;
const SWAP: u64 = 4;

/// The first word of a request.
#[derive(Clone, Copy)]
struct RequestHead {
    verb: u64,
    /// Number of the scratch part; 0 for an atomic.
    part: u64,
    /// Bytes of a transfer; 0 for an atomic.
    bytes: u64,
}

impl RequestHead {
    fn of_word(word: u64) -> RequestHead {
        let low = |bits: u32| (1 << bits) - 1;
        let (verb, rest) = (word & low(VERB_BITS), word >> VERB_BITS);
        RequestHead { verb, part: rest & low(PART_BITS), bytes: rest >> PART_BITS }
    }

    fn word(self) -> u64 {
        (self.bytes << PART_BITS | self.part) << VERB_BITS | self.verb
    }
}

impl AreaRequest {
    /// The request as words, and how many words it has.
    fn to_words(self) -> ([u64; 4], usize) {
        let transfer = |verb, part: ScratchPart, bytes| RequestHead { verb, part: part as u64, bytes }.word();
        match self {
            AreaRequest::Read(at, part, bytes) => ([transfer(READ, part, bytes), at, 0, 0], 2),
            AreaRequest::Write(at, part, bytes) => ([transfer(WRITE, part, bytes), at, 0, 0], 2),
            AreaRequest::Add(at, add) => ([ADD, at, add, 0], 3),
            AreaRequest::Swap { at, compare, swap } => ([SWAP, at, compare, swap], 4),
        }
    }

    /// The request at the beginning of `words`, and the words after it; `None` if `words` do not begin with a
    /// request.
    fn of_words(words: &[u64]) -> Option<(AreaRequest, &[u64])> {
        let head = RequestHead::of_word(*words.first()?);
        let is_atomic = (head.part, head.bytes) == (0, 0);
        let (request, words_of_it) = match (head.verb, words) {
            (READ, [_, at, ..]) => (AreaRequest::Read(*at, ScratchPart::of(head.part)?, head.bytes), 2),
            (WRITE, [_, at, ..]) => (AreaRequest::Write(*at, ScratchPart::of(head.part)?, head.bytes), 2),
            (ADD, [_, at, add, ..]) if is_atomic => (AreaRequest::Add(*at, *add), 3),
            (SWAP, [_, at, compare, swap, ..]) if is_atomic => {
                (AreaRequest::Swap { at: *at, compare: *compare, swap: *swap }, 4)
            }
            _ => return None,
        };
        Some((request, &words[words_of_it..]))
    }
}

impl AskedList {
    pub(super) fn to_words(self) -> [u64; WORDS] {
        let AskedList { slot, area, first, second } = self;
        let mut words = [0; WORDS];
        words[0] = u64::from(area) << 32 | u64::from(slot.0);
        let mut at = 1;
        for (of, len) in [Some(first), second].into_iter().flatten().map(AreaRequest::to_words) {
            words[at..at + len].copy_from_slice(&of[..len]);
            at += len;
        }
        words
    }

    /// Decodes a list from words; `None` if they are not a list.
    pub(super) fn of_words(words: [u64; WORDS]) -> Option<AskedList> {
        let (slot, area) = (OpSlot(words[0] as u32), (words[0] >> 32) as u32);
        let (first, rest) = AreaRequest::of_words(&words[1..])?;
        let second = match rest.first() {
            None | Some(0) => None,
            Some(_) => Some(AreaRequest::of_words(rest)?.0),
        };
        Some(AskedList { slot, area, first, second })
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requests() -> impl Strategy<Value = (AreaRequest, Option<AreaRequest>)> {
        use ScratchPart::{Answer, Body, Entry, Head, Word};
        let part = prop::sample::select(&[Answer, Word, Head, Body, Entry]);
        let moved =
            (any::<bool>(), any::<u64>(), part, 0..1u64 << 40).prop_map(|(reads, at, part, bytes)| {
                if reads { AreaRequest::Read(at, part, bytes) } else { AreaRequest::Write(at, part, bytes) }
            });
        let atomic = prop_oneof![
            any::<[u64; 2]>().prop_map(|[at, add]| AreaRequest::Add(at, add)),
            any::<[u64; 3]>().prop_map(|[at, compare, swap]| AreaRequest::Swap { at, compare, swap }),
        ];
        let first = prop_oneof![moved.clone(), atomic.clone()];
        // A list has one atomic at most.
        (first, prop::option::of(moved), prop::option::of(atomic)).prop_map(|(first, moved, atomic)| {
            match first {
                AreaRequest::Add(..) | AreaRequest::Swap { .. } => (first, moved),
                AreaRequest::Read(..) | AreaRequest::Write(..) => (first, moved.or(atomic)),
            }
        })
    }

    proptest! {
        #[test]
        fn a_list_comes_back_from_its_words((first, second) in requests(), slot: u32, area: u32) {
            let asked = AskedList { slot: OpSlot(slot), area, first, second };
            prop_assert_eq!(AskedList::of_words(asked.to_words()), Some(asked));
        }

        #[test]
        fn whatever_words_say_is_a_list_or_none(words: [u64; WORDS]) {
            AskedList::of_words(words);
        }
    }
}
