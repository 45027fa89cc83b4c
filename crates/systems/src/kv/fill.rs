//! Fills partitions before anything runs, as if the server had served for long.

use super::key::{numbered, owner};
use super::store::{Filled, Layout, PartitionStore};
use crate::SystemError;
use doorbell_verbs::{Cpu, Mem, PageSize, Scan, Span, Time, Touch, VerbsError};
use std::cell::RefCell;

/// Pairs that are inserted between two checks whether to stop.
const PAIRS_PER_CHECK: u64 = 4096;

/// A partition's bytes as memory whose accesses take no time. Each partition is one memory, from offset 0.
struct Plain<'a>(RefCell<&'a mut [u8]>);

impl Plain<'_> {
    fn get<const N: usize>(&self, offset: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.with(offset, N, |from| bytes.copy_from_slice(from));
        bytes
    }

    fn with(&self, offset: u64, len: usize, f: impl FnOnce(&mut [u8])) {
        f(&mut self.0.borrow_mut()[offset as usize..][..len]);
    }
}

impl Cpu for Plain<'_> {
    fn now(&self) -> Time {
        Time::START
    }

    fn work(&self, _: Span) {}

    fn pause(&self, _: Time) {}

    fn alloc(&self, _: u64, _: PageSize) -> Result<Mem, VerbsError> {
        Err(VerbsError::NoRoom("no memory can be allocated while a partition is filled".into()))
    }

    fn alloc_near(&self, _: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.alloc(len, page)
    }

    fn load_u8(&self, _: Mem, offset: u64) -> u8 {
        self.get::<1>(offset)[0]
    }

    fn load_u32(&self, _: Mem, offset: u64) -> u32 {
        u32::from_ne_bytes(self.get(offset))
    }

    fn load_u64(&self, _: Mem, offset: u64) -> u64 {
        u64::from_ne_bytes(self.get(offset))
    }

    fn store_u8(&self, mem: Mem, offset: u64, value: u8) {
        self.write(mem, offset, &[value]);
    }

    fn store_u32(&self, mem: Mem, offset: u64, value: u32) {
        self.write(mem, offset, &value.to_ne_bytes());
    }

    fn store_u64(&self, mem: Mem, offset: u64, value: u64) {
        self.write(mem, offset, &value.to_ne_bytes());
    }

    fn read(&self, _: Mem, offset: u64, into: &mut [u8]) {
        self.with(offset, into.len(), |from| into.copy_from_slice(from));
    }

    fn write(&self, _: Mem, offset: u64, from: &[u8]) {
        self.with(offset, from.len(), |to| to.copy_from_slice(from));
    }

    fn copy(&self, _: Mem, to: u64, _: Mem, from: u64, len: u64) {
        self.0.borrow_mut().copy_within(from as usize..(from + len) as usize, to as usize);
    }

    fn prefetch(&self, _: Mem, _: u64, _: u64) {}

    fn scan(&self, mem: Mem, offset: u64, len: u64, scan: Scan) {
        if let Touch::Store(value) | Touch::StoreAround(value) = scan.touch {
            let word = [value; 8];
            for at in (0..len).step_by(scan.step as usize) {
                self.write(mem, offset + at, &word[..scan.width() as usize]);
            }
        }
    }

    fn flush(&self, _: Mem, _: u64, _: u64) {}

    fn fetch_add_u64(&self, mem: Mem, offset: u64, add: u64) -> u64 {
        let old = self.load_u64(mem, offset);
        self.store_u64(mem, offset, old.wrapping_add(add));
        old
    }

    fn compare_swap_u64(&self, mem: Mem, offset: u64, expected: u64, new: u64) -> u64 {
        let old = self.load_u64(mem, offset);
        if old == expected {
            self.store_u64(mem, offset, new);
        }
        old
    }
}

/// Inserts the pairs of a population that belong to the given partitions. The keys are [`numbered`] from 0 to
/// `pairs` - 1. `given` is the zeroed memory of the partitions from number `first` on, [`Layout::bytes`]
/// each. `partitions` is the number of all partitions. Returns the state of each given partition, in order.
/// Ends early if `stopped` returns true.
///
/// # Errors
/// If the call is stopped, the layout is out of range, a partition has another size, or values are longer
/// than the layout allows.
pub fn fill(
    given: Vec<&mut [u8]>,
    first: u32,
    partitions: u32,
    layout: Layout,
    pairs: u64,
    value: u32,
    stopped: &impl Fn() -> bool,
) -> Result<Vec<Filled>, SystemError> {
    if value > layout.max_value {
        return SystemError::config(format!("values have at most {} bytes, not {value}", layout.max_value));
    }
    let store = |bytes: &mut [u8]| PartitionStore::new(Mem::new(0, 0, bytes.len() as u64), layout);
    let mut stores = Vec::new();
    for bytes in given {
        stores.push((store(bytes)?, Plain(RefCell::new(bytes))));
    }
    let value = vec![0x5a; value as usize];
    for (n, key) in (0..pairs).map(|n| (n, numbered(n))) {
        if n.is_multiple_of(PAIRS_PER_CHECK) && stopped() {
            return Err(SystemError::Interrupted);
        }
        let number = owner(&key, partitions).checked_sub(first);
        if let Some((store, plain)) = number.and_then(|n| stores.get_mut(n as usize)) {
            store.put(plain, &key, &value);
        }
    }
    Ok(stores.iter().map(|(store, _)| store.filled()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIRS: u64 = 400;
    const PARTITIONS: u32 = 4;

    /// Fills partitions 1 and 2 of four, and then reads and writes them.
    #[test]
    fn a_filled_partition_is_one_that_was_used() {
        let layout = Layout::for_pairs(200, 32);
        let mut tables = vec![0; 2 * layout.bytes() as usize];
        let given = tables.chunks_exact_mut(layout.bytes() as usize).collect();
        let filled = fill(given, 1, PARTITIONS, layout, PAIRS, 32, &|| false).unwrap();
        for ((number, filled), bytes) in
            (1..).zip(filled).zip(tables.chunks_exact_mut(layout.bytes() as usize))
        {
            let plain = Plain(RefCell::new(bytes));
            let mut store = PartitionStore::resume(Mem::new(0, 0, layout.bytes()), layout, filled).unwrap();
            let own = |n: &u64| owner(&numbered(*n), PARTITIONS) == number;
            let found =
                |store: &PartitionStore, n: u64| store.get(&plain, &numbered(n)).map(|(_, value)| value);
            for n in 0..PAIRS {
                assert_eq!(found(&store, n), own(&n).then(|| vec![0x5a; 32]), "key {n}");
            }
            let new = (PAIRS..2 * PAIRS).find(own).expect("a key of this partition");
            assert_eq!(
                u64::from(store.put(&plain, &numbered(new), &[1; 32])),
                1 + (0..PAIRS).filter(own).count() as u64
            );
            assert_eq!(found(&store, new), Some(vec![1; 32]));
            assert!((0..PAIRS).filter(own).all(|n| found(&store, n).is_some()), "nothing was overwritten");
        }
    }

    #[test]
    fn filling_can_be_stopped() {
        let layout = Layout::for_pairs(200, 32);
        let mut table = vec![0; layout.bytes() as usize];
        let ended = fill(vec![&mut table], 0, 1, layout, u64::MAX, 32, &|| true);
        assert_eq!(ended, Err(SystemError::Interrupted));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let layout = Layout::for_pairs(10, 32);
        assert!(fill(vec![&mut [0; 64]], 0, 1, layout, 10, 32, &|| false).is_err());
        assert!(fill(Vec::new(), 0, 1, layout, 10, 33, &|| false).is_err());
    }
}
