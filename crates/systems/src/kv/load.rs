//! The operations of clients.

use super::Key;
use super::key::numbered;
use crate::random::Random;

/// The law by which keys are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Every key is equally likely.
    Uniform,
    /// Key k has a probability proportional to 1/(k+1): Zipf's law with exponent 1.
    Zipf,
}

/// The parameters of a client's operations.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Number of pairs of the whole population. Their keys are [`super::numbered`].
    pub pairs: u64,
    /// The law by which keys are drawn.
    pub distribution: Distribution,
    /// Number of PUTs in a thousand operations.
    pub put_permille: u32,
    /// Bytes of a value.
    pub value: u32,
    /// Number of operations that a client has outstanding.
    pub outstanding: u32,
    /// Whether a client fills its window, waits until all operations have ended, and repeats this. Otherwise
    /// it replaces each ended operation at once.
    pub windows: bool,
    /// Seed of the draws of all clients. The client's number selects its stream.
    pub seed: u64,
}

/// Draws the operations of a client.
pub(crate) struct Draws {
    load: Load,
    random: Random,
}

impl Draws {
    pub(crate) fn new(load: Load, client: u32) -> Draws {
        Draws { load, random: Random::new(load.seed, client.into()) }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    /// Draws the number of a key.
    pub(crate) fn number(&mut self) -> u64 {
        match self.load.distribution {
            Distribution::Uniform => self.below(self.load.pairs),
            Distribution::Zipf => self.zipf(),
        }
    }

    /// Draws by rejection in integers. First draws i uniformly, then a rank from 2^i to 2^(i+1) - 1. Accepts
    /// a rank r with probability 2^i / r, which makes its total probability proportional to 1/r.
    fn zipf(&mut self) -> u64 {
        let octaves = u64::from(64 - self.load.pairs.leading_zeros());
        loop {
            let first = 1 << self.below(octaves);
            let rank = first + self.below(first);
            if self.below(rank) < first && rank <= self.load.pairs {
                return rank - 1;
            }
        }
    }

    pub(crate) fn key(&mut self) -> Key {
        numbered(self.number())
    }

    pub(crate) fn is_put(&mut self) -> bool {
        self.below(1000) < u64::from(self.load.put_permille)
    }

    /// Draws a value of random bytes.
    pub(crate) fn value(&mut self) -> Vec<u8> {
        let mut value = vec![0; self.load.value as usize];
        self.random.fill(&mut value);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(distribution: Distribution, pairs: u64) -> Load {
        Load { pairs, distribution, put_permille: 50, value: 32, outstanding: 1, windows: false, seed: 3 }
    }

    #[test]
    fn zipf_has_its_likelihoods() {
        let mut draws = Draws::new(load(Distribution::Zipf, 1000), 0);
        let mut count = vec![0u32; 1000];
        for _ in 0..400_000 {
            count[draws.number() as usize] += 1;
        }
        // The sum of 1/k for k from 1 to 1000 is 7.485.
        for (k, expected) in [(0, 53_440), (1, 26_720), (9, 5_344), (99, 534)] {
            let got = count[k];
            assert!(got.abs_diff(expected) < expected / 5 + 10, "key {k}: {got} of about {expected}");
        }
        assert!(count[999] > 10);
    }

    #[test]
    fn uniform_reaches_all() {
        let mut draws = Draws::new(load(Distribution::Uniform, 10), 0);
        let mut count = [0u32; 10];
        for _ in 0..10_000 {
            count[draws.number() as usize] += 1;
        }
        assert!(count.iter().all(|&c| (800..1200).contains(&c)), "{count:?}");
    }
}
