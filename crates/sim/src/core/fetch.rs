//! Prefetches memory into the processor's caches.

use prefetch_index::prefetch_index;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Prefetches the cache lines of a value without waiting for them.
#[inline]
pub(crate) fn fetch<T>(thing: &T) {
    fetch_lines(std::ptr::from_ref(thing).addr(), size_of::<T>().div_ceil(LINE));
}

/// Prefetches `lines` cache lines from an address on. Nothing is read, so any address is allowed.
#[inline]
pub(crate) fn fetch_lines(address: usize, lines: usize) {
    let nowhere: &[u8] = &[];
    let first = address.wrapping_sub(nowhere.as_ptr().addr());
    for line in 0..lines {
        prefetch_index(nowhere, first.wrapping_add(line * LINE));
    }
}
