//! Asking the processor for memory before it is needed.

use prefetch_index::prefetch_index;

/// Bytes that a processor fetches at once.
const LINE: usize = 64;

/// Asks for the lines of a thing, without waiting for them.
#[inline]
pub(crate) fn fetch<T>(thing: &T) {
    fetch_lines(std::ptr::from_ref(thing).addr(), size_of::<T>().div_ceil(LINE));
}

/// Asks for so many lines from an address on. Nothing is read: any address will do.
#[inline]
pub(crate) fn fetch_lines(address: usize, lines: usize) {
    let nowhere: &[u8] = &[];
    let first = address.wrapping_sub(nowhere.as_ptr().addr());
    for line in 0..lines {
        prefetch_index(nowhere, first.wrapping_add(line * LINE));
    }
}
