//! The state of a cache line, and small sets of cores.

use super::sockets::CpuSocket;
use crate::core::index::CoreId;
use crate::core::ps::Ps;

/// A set of cores that hold a line or wait for a line. Up to three are stored by number, more in a bit set
/// elsewhere.
///
/// From the lowest bit: three numbers in ascending order, or the index of the bit set; the count of numbers;
/// whether there is a bit set; five bits for marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoreSet(u32);

/// Maximum number of cores that are stored by number.
const FEW: u32 = 3;
const NUMBERS: u32 = 0xff_ffff;
const COUNT: u32 = 24;
const MANY: u32 = 1 << 26;
const MARKS: u32 = 0b11111 << 27;

impl CoreSet {
    pub(crate) const EMPTY: CoreSet = CoreSet(0);

    /// The set of just this core.
    const fn only(core: CoreId) -> CoreSet {
        CoreSet(core.0 as u32 | 1 << COUNT)
    }

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 & !MARKS == 0
    }

    /// Count of cores stored by number.
    const fn few(self) -> u32 {
        self.0 >> COUNT & FEW
    }

    const fn is_many(self) -> bool {
        self.0 & MANY != 0
    }

    /// The `i`-th stored number.
    const fn number(self, i: u32) -> u8 {
        (self.0 >> (8 * i)) as u8
    }

    const fn marks(self) -> u32 {
        self.0 & MARKS
    }
}

/// A bit set of cores.
pub(crate) type Bits = [u64; 4];

/// Storage of the sets that are too large for a [`CoreSet`] alone.
#[derive(Default)]
pub(crate) struct Sets {
    many: Vec<Bits>,
    free: Vec<u32>,
}

impl Sets {
    fn bits(&self, set: CoreSet) -> &Bits {
        &self.many[(set.0 & NUMBERS) as usize]
    }

    /// Whether the core is in the set.
    #[inline]
    pub(crate) fn contains(&self, set: CoreSet, core: CoreId) -> bool {
        if set.is_many() {
            return self.bits(set)[usize::from(core.0 / 64)] >> (core.0 % 64) & 1 != 0;
        }
        (0..set.few()).any(|i| set.number(i) == core.0)
    }

    /// Whether the set holds this core and no other.
    #[inline]
    pub(crate) fn is_only(&self, set: CoreSet, core: CoreId) -> bool {
        set.0 & !MARKS == CoreSet::only(core).0
    }

    /// Adds a core and keeps the marks.
    #[inline]
    pub(crate) fn insert(&mut self, set: &mut CoreSet, core: CoreId) {
        if set.is_empty() {
            *set = CoreSet(CoreSet::only(core).0 | set.marks());
        } else if !self.contains(*set, core) {
            self.insert_another(set, core);
        }
    }

    /// Adds a core that is not in the set. The set is not empty.
    fn insert_another(&mut self, set: &mut CoreSet, core: CoreId) {
        if set.is_many() {
            self.many[(set.0 & NUMBERS) as usize][usize::from(core.0 / 64)] |= 1 << (core.0 % 64);
            return;
        }
        let few = set.few();
        if few == FEW {
            *set = CoreSet(self.spill(*set, core) | MANY | set.marks());
            return;
        }
        // The numbers above the new one move up by one position.
        let below = (0..few).filter(|&i| set.number(i) < core.0).count() as u32;
        let low = set.0 & ((1 << (8 * below)) - 1);
        let high = (set.0 & NUMBERS & !((1 << (8 * below)) - 1)) << 8;
        let numbers = low | u32::from(core.0) << (8 * below) | high;
        *set = CoreSet(numbers | (few + 1) << COUNT | set.marks());
    }

    /// Makes a bit set of a full [`CoreSet`] and one more core. Returns the bit set's index.
    fn spill(&mut self, set: CoreSet, core: CoreId) -> u32 {
        let mut bits = [0; 4];
        for number in (0..FEW).map(|i| set.number(i)).chain([core.0]) {
            bits[usize::from(number / 64)] |= 1 << (number % 64);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.many.push([0; 4]);
            self.many.len() as u32 - 1
        });
        assert!(place <= NUMBERS, "more than 2^24 lines are shared by more than three cores each");
        self.many[place as usize] = bits;
        place
    }

    /// Empties the set, marks included.
    #[inline]
    pub(crate) fn clear(&mut self, set: &mut CoreSet) {
        if set.is_many() {
            self.free.push(set.0 & NUMBERS);
        }
        *set = CoreSet::EMPTY;
    }

    /// The cores of a set, in ascending order. The set must not be used afterwards.
    #[inline]
    pub(crate) fn take(&mut self, mut set: CoreSet) -> Cores {
        if !set.is_many() {
            return Cores::Few(set);
        }
        let bits = *self.bits(set);
        self.clear(&mut set);
        Cores::Many(bits)
    }
}

/// The cores of a set that was taken, in ascending order.
pub(crate) enum Cores {
    Few(CoreSet),
    Many(Bits),
}

impl Iterator for Cores {
    type Item = CoreId;

    #[inline]
    fn next(&mut self) -> Option<CoreId> {
        match self {
            Cores::Few(set) => {
                let left = set.few().checked_sub(1)?;
                let first = CoreId(set.number(0));
                *set = CoreSet((set.0 & NUMBERS) >> 8 | left << COUNT);
                Some(first)
            }
            Cores::Many(bits) => {
                let (number, word) = (0..).zip(bits.iter_mut()).find(|(_, word)| **word != 0)?;
                let bit = word.trailing_zeros() as u8;
                *word &= *word - 1;
                Some(CoreId(64 * number + bit))
            }
        }
    }
}

/// The state of a cache line.
#[derive(Clone, Copy, Default)]
pub(crate) struct LineState {
    /// When the line's present transfer ends.
    pub(crate) busy_until: Ps,
    /// Cores that hold the line, with the mark [`LineState::MODIFIED`] and a mark for each socket whose
    /// last-level cache holds it.
    pub(crate) holders: CoreSet,
    /// Cores whose threads sleep until the line is written.
    pub(crate) watchers: CoreSet,
}

impl LineState {
    /// Mark: only one core holds the line, and this core has changed the line.
    const MODIFIED: u32 = 1 << 31;
    /// Bit of the first socket's mark. The marks of three more sockets follow.
    const SOCKET: u32 = 27;
    const SOCKETS: u32 = 0b1111 << LineState::SOCKET;

    /// The mark of a socket.
    const fn mark(socket: CpuSocket) -> u32 {
        1 << (LineState::SOCKET + socket as u32)
    }

    #[inline]
    pub(crate) const fn is_modified(&self) -> bool {
        self.holders.0 & LineState::MODIFIED != 0
    }

    /// Whether any cache holds the line.
    #[inline]
    pub(crate) const fn is_cached(&self) -> bool {
        self.holders.0 & LineState::SOCKETS != 0
    }

    /// Whether a cache of this socket holds the line.
    #[inline]
    pub(crate) const fn is_cached_at(&self, socket: CpuSocket) -> bool {
        self.holders.0 & LineState::mark(socket) != 0
    }

    /// Whether a cache of another socket holds the line.
    #[inline]
    pub(crate) const fn is_cached_beside(&self, socket: CpuSocket) -> bool {
        self.holders.0 & LineState::SOCKETS & !LineState::mark(socket) != 0
    }

    /// The socket to which a device at `device` writes the line. It is a socket whose cache holds the line,
    /// preferably the device's own, or else the line's home.
    #[inline]
    pub(crate) const fn written_at(&self, device: CpuSocket, home: CpuSocket) -> CpuSocket {
        match (self.holders.0 & LineState::SOCKETS) >> LineState::SOCKET {
            0 => home,
            _ if self.is_cached_at(device) => device,
            caches => caches.trailing_zeros() as CpuSocket,
        }
    }

    /// Records that a core at this socket has fetched the line without changing it.
    #[inline]
    pub(crate) fn loaded_by(&mut self, (core, socket): (CoreId, CpuSocket), sets: &mut Sets) {
        sets.insert(&mut self.holders, core);
        self.holders.0 = self.holders.0 & !LineState::MODIFIED | LineState::mark(socket);
    }

    /// Records that a core at this socket has changed the line. No other core holds the line then.
    #[inline]
    pub(crate) fn stored_by(&mut self, (core, socket): (CoreId, CpuSocket), sets: &mut Sets) {
        sets.clear(&mut self.holders);
        self.holders = CoreSet(CoreSet::only(core).0 | LineState::MODIFIED | LineState::mark(socket));
    }

    /// Records that the line is in a socket's last-level cache, and that no core holds it.
    #[inline]
    pub(crate) fn in_last_level(&mut self, socket: CpuSocket, sets: &mut Sets) {
        sets.clear(&mut self.holders);
        self.holders.0 = LineState::mark(socket);
    }

    /// Records that no cache holds the line.
    pub(crate) fn evicted(&mut self, sets: &mut Sets) {
        sets.clear(&mut self.holders);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_line_is_small() {
        assert_eq!(size_of::<LineState>(), 16);
    }

    proptest! {
        /// Small sets behave as sets do, and free their storage.
        #[test]
        fn sets_of_cores(adds in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..4], 0..12), probe: u8) {
            let mut sets = Sets::default();
            for round in 0..2 {
                let mut line = LineState::default();
                let mut model = BTreeSet::new();
                for &core in &adds {
                    line.loaded_by((CoreId(core), core % 4), &mut sets);
                    model.insert(core);
                    prop_assert!(line.is_cached_at(core % 4) && !line.is_modified());
                    prop_assert_eq!(line.holders.is_empty(), model.is_empty());
                }
                prop_assert_eq!(sets.contains(line.holders, CoreId(probe)), model.contains(&probe));
                prop_assert_eq!(sets.is_only(line.holders, CoreId(probe)), model == BTreeSet::from([probe]));
                let taken: Vec<u8> = sets.take(line.holders).map(|core| core.0).collect();
                prop_assert_eq!(taken, model.into_iter().collect::<Vec<u8>>(), "round {}", round);
            }
            prop_assert!(sets.many.len() <= 1, "the second round used the room of the first");
        }
    }
}
