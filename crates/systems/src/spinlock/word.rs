//! The word of a lock with a lease.

use doorbell_verbs::{Span, Time};

/// Bits of each part, from the lowest part on.
const HOLDER: u32 = 9;
const SLOT: u32 = 10;
const TOKEN: u32 = 25;
const END: u32 = 20;

/// A tick has 2^21 ps, about 2 us. Ends of leases are counted in ticks, modulo 2^20: they wrap after 2.2 s.
const TICK: u32 = 21;

/// Maximum number of clients.
pub(crate) const CLIENTS: u32 = (1 << HOLDER) - 1;

/// The longest sum of lease and drift. Ends in the future can be told from ends in the past only within half
/// of the range of ticks.
pub(crate) const LONGEST: Span = Span::from_ms(500);

/// The word of a lock. All parts are 0 at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word {
    /// Number of the client that holds the lock, from 1; 0 if the lock is free.
    pub(crate) holder: u32,
    /// Grows by one with each acquisition.
    pub(crate) token: u32,
    /// When the lease ends, in ticks.
    end: u32,
    /// Slot of the data: slot 0, or one of the two slots of a client.
    pub(crate) slot: u32,
}

fn low(word: u64, bits: u32) -> u32 {
    (word & ((1 << bits) - 1)) as u32
}

impl Word {
    pub(crate) fn of(word: u64) -> Word {
        Word {
            holder: low(word, HOLDER),
            slot: low(word >> HOLDER, SLOT),
            token: low(word >> (HOLDER + SLOT), TOKEN),
            end: low(word >> (HOLDER + SLOT + TOKEN), END),
        }
    }

    pub(crate) fn bits(self) -> u64 {
        let Word { holder, slot, token, end } = self;
        let high = u64::from(end) << TOKEN | u64::from(token);
        (high << SLOT | u64::from(slot)) << HOLDER | u64::from(holder)
    }

    /// The word after client `holder`, from 1, has acquired the lock. The lease ends at `until`.
    pub(crate) fn taken(self, holder: u32, until: Time) -> Word {
        let token = low(u64::from(self.token) + 1, TOKEN);
        Word { holder, token, end: low(until.as_ps().div_ceil(1 << TICK), END), slot: self.slot }
    }

    /// How often the lock has been acquired since its word was `before`, modulo 2^25.
    pub(crate) fn takes_since(self, before: Word) -> u32 {
        low(u64::from(self.token.wrapping_sub(before.token)), TOKEN)
    }

    /// The word after a release. The data is in this slot.
    pub(crate) fn free(self, slot: u32) -> Word {
        Word { holder: 0, end: 0, slot, ..self }
    }

    /// The slot to which the holder WRITEs: it has two slots, and the word does not name this one.
    pub(crate) fn next_slot(self) -> u32 {
        let first = 2 * self.holder - 1;
        if self.slot == first { first + 1 } else { first }
    }

    /// Whether the lease ended at `now - by` or earlier.
    pub(crate) fn has_ended(self, now: Time, by: Span) -> bool {
        let now = now.as_ps().saturating_sub(by.as_ps()) >> TICK;
        low(now.wrapping_sub(self.end.into()), END) < 1 << (END - 1)
    }
}

/// Number of slots for `clients` clients.
pub(crate) const fn slots(clients: u32) -> u32 {
    2 * clients + 1
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_slot_has_room_in_the_word() {
        assert!(slots(CLIENTS) <= 1 << SLOT);
        assert_eq!(HOLDER + SLOT + TOKEN + END, 64);
        assert_eq!(Word::of(0), Word::default());
        assert!(LONGEST.as_ps() >> TICK < 1 << (END - 2));
    }

    proptest! {
        #[test]
        fn a_word_says_what_was_put_into_it(bits: u64) {
            prop_assert_eq!(Word::of(bits).bits(), bits);
        }

        /// A lease may begin at any value of the clock.
        #[test]
        fn a_lease_ends_when_it_is_to(now in 0..u64::MAX / 2, lease in 0..LONGEST.as_ps(), by in 0..1_000_000_000u64) {
            let (now, lease, by) = (Time::from_ps(now), Span::from_ps(lease), Span::from_ps(by));
            let word = Word::of(7).taken(3, now + lease);
            let tick = Span::from_ps(2 << TICK);
            prop_assert!(!word.has_ended(now, by));
            prop_assert!(word.has_ended(now + lease + by + tick, by));
            prop_assert!(word.has_ended(now + lease + by + LONGEST, by));
        }

        #[test]
        fn no_two_clients_write_to_one_slot(slot in 0..slots(CLIENTS), one in 1..=CLIENTS, other in 1..=CLIENTS) {
            let next = |holder| Word { holder, slot, ..Word::default() }.next_slot();
            prop_assert!(next(one) != slot && next(one) < slots(one) && next(one) > 0);
            prop_assert!(one == other || next(one) != next(other));
        }
    }
}
