//! A client's guess of the upper half of the counter.

/// Old guesses are forgotten once the counter is this far from a multiple of 2^32. Requests that carried them
/// have long ended.
const FAR: u64 = 1 << 30;

/// A client's guess of the counter's upper half.
///
/// A header-only reply says that its request carried the right guess, but not which request this is.
/// Outstanding requests carry two different guesses only while the counter is near a multiple of 2^32. The
/// right guess is then the one whose number is closest to the highest number so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess {
    upper: u32,
    /// An earlier guess that outstanding requests may carry.
    other: Option<u32>,
    last: Option<u64>,
}

impl Guess {
    pub(super) fn new(upper: u32) -> Guess {
        Guess { upper, other: None, last: None }
    }

    /// The guess for the next request.
    pub(super) fn upper(&self) -> u32 {
        self.upper
    }

    /// The number of a header-only reply with this lower half.
    pub(super) fn confirmed(&mut self, low: u32) -> u64 {
        let with = |upper: u32| u64::from(upper) << 32 | u64::from(low);
        let mut value = with(self.upper);
        if let (Some(other), Some(last)) = (self.other, self.last)
            && with(other).abs_diff(last) < value.abs_diff(last)
        {
            value = with(other);
        }
        self.saw(value);
        value
    }

    /// Notes the number of a regular reply.
    pub(super) fn corrected(&mut self, value: u64) {
        let upper = (value >> 32) as u32;
        if upper != self.upper && self.last.is_none_or(|last| value > last) {
            self.other = (upper.abs_diff(self.upper) == 1).then_some(self.upper);
            self.upper = upper;
        }
        self.saw(value);
    }

    fn saw(&mut self, value: u64) {
        self.last = Some(self.last.map_or(value, |last| last.max(value)));
        let low = u64::from(value as u32);
        if low.min((1 << 32) - low) > FAR {
            self.other = None;
        }
    }

    /// Notes that nothing is outstanding, so no request carries another guess.
    pub(super) fn alone(&mut self) {
        self.other = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives the client the server's reply to a request that carried the guess `carried`.
    fn reply(guess: &mut Guess, carried: u32, value: u64) -> u64 {
        if carried == (value >> 32) as u32 {
            return guess.confirmed(value as u32);
        }
        guess.corrected(value);
        value
    }

    proptest! {
        /// With up to 8 outstanding requests whose replies come in any order, near a multiple of 2^32.
        #[test]
        fn numbers_are_right_in_any_order(
            first_guess in 4..7u32,
            before in 0..40u64,
            gaps in prop::collection::vec(1..1000u64, 60),
            order in prop::collection::vec(0..8usize, 60),
        ) {
            let mut guess = Guess::new(first_guess);
            let mut next = (5 << 32) - before * 100;
            let mut outstanding = Vec::new();
            for (gap, pick) in gaps.into_iter().zip(order) {
                while outstanding.len() < 8 {
                    outstanding.push((guess.upper(), next));
                    next += gap;
                }
                let (carried, value) = outstanding.remove(pick % outstanding.len());
                prop_assert_eq!(reply(&mut guess, carried, value), value);
            }
        }
    }

    #[test]
    fn a_client_that_was_idle_trusts_its_guess() {
        let mut guess = Guess::new(4);
        guess.corrected(5 << 32);
        guess.alone();
        assert_eq!(guess.confirmed((1 << 31) + 5), (5 << 32) + (1 << 31) + 5);
    }
}
