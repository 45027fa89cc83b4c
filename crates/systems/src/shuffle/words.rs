//! Words by which senders and receivers report their progress to each other.

/// The bits of a word that count rounds.
const ROUNDS: u64 = (1 << 29) - 1;
/// In a credit word with [`LAST`]: the last round is finished.
const OVER: u64 = 1 << 29;
/// The sender or receiver that owns this word is done with all rounds.
const FAREWELL: u64 = 1 << 30;
/// The next round is the last. In a credit word with [`OVER`], the round before the next one was the last.
const LAST: u64 = 1 << 31;

/// A sender's addition to a told word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ToldWord {
    /// Number of entries that were written since the sender's last addition, below 2^32.
    pub(super) entries: u64,
    /// Whether these entries are the round's last.
    pub(super) ends: bool,
    /// Whether the next round is the last.
    pub(super) last: bool,
    /// Whether the sender will send nothing more.
    pub(super) farewell: bool,
}

impl ToldWord {
    /// The number to add. A word gets many additions, but `last` only once and `farewell` only once, so these
    /// bits never carry.
    pub(super) fn word(self) -> u64 {
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        self.entries << 32 | u64::from(self.ends) | flag(self.last, LAST) | flag(self.farewell, FAREWELL)
    }

    /// The sum of the additions since the word was `before`.
    pub(super) fn since(before: u64, word: u64) -> ToldWord {
        let added = word.wrapping_sub(before);
        ToldWord {
            entries: added >> 32,
            ends: added & ROUNDS > 0,
            last: added & LAST > 0,
            farewell: added & FAREWELL > 0,
        }
    }
}

/// A receiver's report to a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CreditWord {
    /// Number of entries of this sender that the receiver has taken, modulo 2^32.
    pub(super) taken: u32,
    /// Number of rounds that the receiver has finished, with all senders.
    pub(super) rounds: u64,
    /// The number of the last round, if the receiver knows it and has finished all earlier rounds.
    pub(super) last: Option<u64>,
    /// Whether the receiver will take nothing more.
    pub(super) farewell: bool,
}

impl CreditWord {
    /// The report as a word.
    pub(super) fn word(self) -> u64 {
        let last = self.last.filter(|last| *last <= self.rounds);
        let over = last.is_some_and(|last| last < self.rounds);
        let told = ToldWord {
            entries: self.taken.into(),
            ends: false,
            last: last.is_some(),
            farewell: self.farewell,
        };
        told.word() | self.rounds & ROUNDS | if over { OVER } else { 0 }
    }

    /// The report that a word holds.
    pub(super) fn of(word: u64) -> CreditWord {
        let ToldWord { entries, last, farewell, .. } = ToldWord::since(0, word);
        let rounds = word & ROUNDS;
        let last = last.then(|| if word & OVER > 0 { rounds.saturating_sub(1) } else { rounds });
        CreditWord { taken: entries as u32, rounds, last, farewell }
    }

    /// Number of entries that the receiver has not taken, out of `sent` entries.
    pub(super) fn untaken(self, sent: u64) -> u64 {
        (sent as u32).wrapping_sub(self.taken).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_what_is_told() {
        let mut word =
            ToldWord { entries: u64::from(u32::MAX) - 3, ends: true, ..ToldWord::default() }.word();
        for told in [
            ToldWord { entries: 7, ..ToldWord::default() },
            ToldWord { entries: 1, ends: true, ..ToldWord::default() },
            ToldWord { ends: true, last: true, ..ToldWord::default() },
            ToldWord { farewell: true, ..ToldWord::default() },
        ] {
            let before = word;
            word = word.wrapping_add(told.word());
            assert_eq!(ToldWord::since(before, word), told);
        }
    }

    #[test]
    fn credit_is_what_was_said_and_counts_on_past_its_word() {
        for credit in [
            CreditWord::default(),
            CreditWord { taken: u32::MAX, rounds: 5, last: Some(5), farewell: false },
            CreditWord { taken: 1, rounds: 6, last: Some(5), farewell: true },
            CreditWord { taken: 3, rounds: ROUNDS, last: None, farewell: true },
        ] {
            assert_eq!(CreditWord::of(credit.word()), credit);
        }
        let early = CreditWord { rounds: 4, last: Some(5), ..CreditWord::default() };
        assert_eq!(CreditWord::of(early.word()).last, None);
        let sent = (1 << 32) + 10;
        assert_eq!(CreditWord { taken: u32::MAX, ..CreditWord::default() }.untaken(sent), 11);
    }
}
