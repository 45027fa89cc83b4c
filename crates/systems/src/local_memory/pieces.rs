//! The order in which operations access a region.

use super::config::Addresses;
use crate::random::Random;

/// The pieces of a region, in the order in which a client accesses them.
#[derive(Clone, Debug)]
pub struct Pieces {
    addresses: Addresses,
    size: u64,
    region: u64,
    /// Offset of the next piece in bytes, for sequential access.
    next: u64,
    random: Random,
}

impl Pieces {
    /// Pieces of `size` bytes in a region of `region` bytes, with 1 <= `size` <= `region`. Each client draws
    /// from a stream of its own.
    pub fn new(addresses: Addresses, size: u32, region: u64, (seed, client): (u64, u32)) -> Pieces {
        Pieces { addresses, size: size.into(), region, next: 0, random: Random::new(seed, client.into()) }
    }

    /// Offset of the next piece in bytes. The whole piece is in the region.
    #[inline]
    pub fn next_offset(&mut self) -> u64 {
        match self.addresses {
            Addresses::Sequential => self.in_turn(),
            Addresses::Random => self.random.below(self.region / self.size) * self.size,
            Addresses::AnyByte => self.random.below(self.region - self.size + 1),
        }
    }

    fn in_turn(&mut self) -> u64 {
        let offset = self.next;
        let behind = offset + self.size;
        self.next = if behind + self.size <= self.region { behind } else { 0 };
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offsets(addresses: Addresses, size: u32, region: u64) -> Vec<u64> {
        let mut pieces = Pieces::new(addresses, size, region, (1, 0));
        (0..200).map(|_| pieces.next_offset()).collect()
    }

    #[test]
    fn pieces_in_turn_begin_again_where_no_more_fits() {
        assert_eq!(offsets(Addresses::Sequential, 8, 30)[..5], [0, 8, 16, 0, 8]);
        assert_eq!(offsets(Addresses::Sequential, 8, 8)[..2], [0, 0]);
    }

    #[test]
    fn pieces_at_random_are_all_met() {
        let mut random = offsets(Addresses::Random, 8, 33);
        random.sort_unstable();
        random.dedup();
        assert_eq!(random, [0, 8, 16, 24]);
    }

    proptest! {
        #[test]
        fn a_piece_lies_in_its_region(size in 1u32..100, more in 0u64..1000) {
            let region = u64::from(size) + more;
            for addresses in [Addresses::Sequential, Addresses::Random, Addresses::AnyByte] {
                let all = offsets(addresses, size, region);
                prop_assert!(all.iter().all(|offset| offset + u64::from(size) <= region));
                if addresses != Addresses::AnyByte {
                    prop_assert!(all.iter().all(|offset| offset.is_multiple_of(size.into())));
                }
            }
        }
    }
}
