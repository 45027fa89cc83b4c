//! Loss of packets on their way.

/// Draws which packets are lost.
pub(crate) struct Loss {
    per_million: u32,
    state: u64,
    /// How many were.
    pub(crate) lost: u64,
}

impl Loss {
    pub(crate) fn new(per_million: u32, seed: u64) -> Loss {
        Loss { per_million, state: seed, lost: 0 }
    }

    /// Whether the next packet is lost. The generator is SplitMix64 (Steele, Lea and Flood, 2014).
    pub(crate) fn draw(&mut self) -> bool {
        if self.per_million == 0 {
            return false;
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let lost = (z ^ (z >> 31)) % 1_000_000 < u64::from(self.per_million);
        self.lost += u64::from(lost);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_lost_as_asked_for() {
        let mut loss = Loss::new(30_000, 7);
        let lost = (0..100_000).filter(|_| loss.draw()).count();
        assert!((2_800..3_200).contains(&lost), "{lost} of 100000");
        assert_eq!(loss.lost, lost as u64);
        assert!(!(0..1000).any(|_| Loss::new(0, 7).draw()));
    }
}
