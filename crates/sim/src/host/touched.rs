//! Long arrays that take memory only for touched elements.

use std::ops::Range;

/// Elements that are zero, their `Default`, until they are changed. `N` neighbours are created together.
pub(super) struct Touched<T, const N: usize> {
    len: usize,
    /// For each `N` elements, their index in `parts` plus one; 0 if none was changed. Zeros that were never
    /// read take no memory, because the C library gets them from the system.
    numbers: Vec<u32>,
    parts: Vec<[T; N]>,
}

impl<T: Copy + Default, const N: usize> Touched<T, N> {
    /// Creates `len` untouched elements.
    pub(super) fn zeroed(len: usize) -> Touched<T, N> {
        Touched { len, numbers: vec![0; len.div_ceil(N)], parts: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Elements within one part; `None` if the part is untouched and so all zeros.
    #[inline]
    pub(super) fn get(&self, range: Range<usize>) -> Option<&[T]> {
        debug_assert!(range.end <= self.len, "{range:?} is beyond the {} elements", self.len);
        let part = self.numbers[range.start / N].checked_sub(1)?;
        Some(&self.parts[part as usize][range.start % N..][..range.len()])
    }

    /// Mutable elements within one part, which is created if needed.
    #[inline]
    pub(super) fn get_mut(&mut self, range: Range<usize>) -> &mut [T] {
        debug_assert!(range.end <= self.len, "{range:?} is beyond the {} elements", self.len);
        let number = &mut self.numbers[range.start / N];
        if *number == 0 {
            self.parts.push([T::default(); N]);
            *number = u32::try_from(self.parts.len()).expect("an allocation has fewer than 2^32 parts");
        }
        &mut self.parts[*number as usize - 1][range.start % N..][..range.len()]
    }

    /// Splits a range at the boundaries of parts.
    pub(super) fn parts(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let Range { mut start, end } = range;
        std::iter::from_fn(move || {
            let part = start..((start / N + 1) * N).min(end);
            start = part.end;
            (!part.is_empty()).then_some(part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The elements equal those of a vector.
        #[test]
        fn touched_or_not_elements_are_as_they_were_written(
            len in 1usize..40,
            writes in prop::collection::vec((0usize..40, 1usize..9, any::<u8>()), 0..20),
        ) {
            let mut touched = Touched::<u8, 8>::zeroed(len);
            let mut all = vec![0; len];
            for (at, many, value) in writes {
                let range = at.min(len)..(at + many).min(len);
                all[range.clone()].fill(value);
                for part in Touched::<u8, 8>::parts(range) {
                    touched.get_mut(part).fill(value);
                }
            }
            for part in Touched::<u8, 8>::parts(0..len) {
                let expected = &all[part.clone()];
                match touched.get(part) {
                    Some(found) => prop_assert_eq!(found, expected),
                    None => prop_assert!(expected.iter().all(|byte| *byte == 0)),
                }
            }
        }
    }

    #[test]
    fn what_nobody_touches_is_not_there() {
        let mut touched = Touched::<u64, 8>::zeroed(1 << 28);
        assert_eq!(touched.get(5..6), None);
        touched.get_mut(1 << 27..(1 << 27) + 3).fill(1);
        assert_eq!(touched.get(1 << 27..(1 << 27) + 4), Some(&[1, 1, 1, 0][..]));
        assert_eq!(touched.parts.len(), 1);
    }
}
