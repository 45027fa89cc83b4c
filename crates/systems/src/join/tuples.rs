//! Tuples, and the partitions that hold them.

use crate::SystemError;
use doorbell_verbs::{Mem, PageSize, Provider};

/// Bytes of a tuple that are used: its key and its payload.
pub const TUPLE: u64 = 16;

/// Bytes of a chunk that is allocated when a partition is full.
const CHUNK: u64 = 1 << 18;

/// A tuple of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// The key. Tuples with equal keys are joined.
    pub key: u64,
    /// The payload.
    pub payload: u64,
}

impl Tuple {
    /// The bytes of the tuple: key, then payload.
    pub fn to_bytes(self) -> [u8; TUPLE as usize] {
        let mut bytes = [0; TUPLE as usize];
        bytes[..8].copy_from_slice(&self.key.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.payload.to_ne_bytes());
        bytes
    }

    /// Reads the tuple at an offset.
    pub(super) fn at<P: Provider>(cpu: &P, mem: Mem, offset: u64) -> Tuple {
        let mut bytes = [0; TUPLE as usize];
        cpu.read(mem, offset, &mut bytes);
        let ([key, payload], _) = bytes.as_chunks() else { unreachable!("a tuple has exactly two words") };
        Tuple { key: u64::from_ne_bytes(*key), payload: u64::from_ne_bytes(*payload) }
    }
}

/// Tuples of a relation that an executor has received, side by side in chunks of memory.
pub(super) struct Partition {
    /// Bytes from the start of a tuple to the start of the next.
    size: u64,
    chunks: Vec<Mem>,
    /// The chunk that is being filled, and the number of its filled bytes.
    chunk: usize,
    filled: u64,
    len: u64,
}

impl Partition {
    /// An empty partition for tuples of `size` bytes. Its first chunk is `first`.
    pub(super) fn new(first: Mem, size: u64) -> Partition {
        Partition { size, chunks: vec![first], chunk: 0, filled: 0, len: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn clear(&mut self) {
        (self.chunk, self.filled, self.len) = (0, 0, 0);
    }

    /// Appends tuples that lie side by side at this memory and offset.
    pub(super) fn append<P: Provider>(
        &mut self,
        cpu: &P,
        (mem, mut offset): (Mem, u64),
        mut count: u64,
    ) -> Result<(), SystemError> {
        while count > 0 {
            let room = (self.chunks[self.chunk].len() - self.filled) / self.size;
            if room == 0 {
                self.next_chunk(cpu)?;
                continue;
            }
            let bytes = room.min(count) * self.size;
            cpu.copy(self.chunks[self.chunk], self.filled, mem, offset, bytes);
            self.filled += bytes;
            self.len += room.min(count);
            offset += bytes;
            count -= room.min(count);
        }
        Ok(())
    }

    fn next_chunk<P: Provider>(&mut self, cpu: &P) -> Result<(), SystemError> {
        self.chunk += 1;
        if self.chunk == self.chunks.len() {
            self.chunks.push(cpu.alloc(CHUNK.max(self.size), PageSize::Small)?);
        }
        self.filled = 0;
        Ok(())
    }

    /// The memory and offset of each tuple, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = (Mem, u64)> + use<> {
        let (size, mut left) = (self.size, self.len);
        self.chunks.clone().into_iter().flat_map(move |chunk| {
            let count = (chunk.len() / size).min(left);
            left -= count;
            (0..count).map(move |n| (chunk, n * size))
        })
    }
}
