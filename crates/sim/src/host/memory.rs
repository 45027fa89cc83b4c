//! A machine's memory: allocations, their addresses, and their bytes.

use super::block::{self, Block};
use crate::core::fetch::fetch_lines;
use doorbell_verbs::{Mem, PageSize, VerbsError};

/// Virtual addresses of one allocation start at a multiple of this.
const SPAN_BITS: u32 = 40;
/// Bytes of the largest allocation: more than any simulated machine has, but small enough to be simulated.
const LARGEST: u64 = 1 << 34;
pub(crate) const LINE: u64 = 64;

/// The bytes of a cache line.
pub(super) type LineBytes = [u8; LINE as usize];

struct Allocation {
    bytes: Block,
    page: PageSize,
    /// Number of the allocation's first page among the machine's pages.
    first_page: u32,
}

/// A place in memory: allocation and offset within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemPlace {
    pub(crate) allocation: u32,
    pub(crate) offset: u64,
}

/// All memory of one machine.
#[derive(Default)]
pub(crate) struct HostMemory {
    allocations: Vec<Allocation>,
    pages: u32,
}

/// Maximum number of bytes of the simulator's own memory that an allocation of `len` bytes takes, after
/// `accesses` accesses of `each` bytes at random places.
pub fn memory_bytes(len: u64, accesses: u64, each: u64) -> u64 {
    block::bytes(len, accesses, each)
}

/// Number of cache lines that `len` bytes from `offset` touch.
pub(crate) const fn lines_touched(offset: u64, len: u64) -> u64 {
    if len == 0 { 0 } else { (offset + len - 1) / LINE - offset / LINE + 1 }
}

/// The virtual address of a byte of an allocation.
const fn address(allocation: u32, offset: u64) -> u64 {
    ((allocation as u64 + 1) << SPAN_BITS) + offset
}

impl HostMemory {
    pub(super) fn alloc(&mut self, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        if len > LARGEST {
            let why = format!("an allocation has at most {LARGEST} bytes, not {len}");
            return Err(VerbsError::NoRoom(why));
        }
        let id = self.allocations.len() as u32;
        self.allocations.push(Allocation {
            bytes: Block::zeroed(len as usize),
            page,
            first_page: self.pages,
        });
        self.pages += len.div_ceil(page.bytes()) as u32 + 1;
        Ok(Mem::new(id, address(id, 0), len))
    }

    /// Whether `mem` is one of this machine's ranges.
    pub(crate) fn owns(&self, mem: Mem) -> bool {
        let lies_within = |a: &Allocation| {
            let end = mem.start().checked_add(mem.len());
            end.is_some_and(|end| end <= a.bytes.len() as u64)
                && mem.addr(0) == address(mem.allocation(), mem.start())
        };
        self.allocations.get(mem.allocation() as usize).is_some_and(lies_within)
    }

    /// The place of a virtual address; `None` if `len` bytes from it are not allocated.
    pub(crate) fn place(&self, addr: u64, len: u64) -> Option<MemPlace> {
        let allocation = (addr >> SPAN_BITS).checked_sub(1)?;
        let offset = addr & ((1 << SPAN_BITS) - 1);
        let a = self.allocations.get(usize::try_from(allocation).ok()?)?;
        let fits = offset.checked_add(len)? <= a.bytes.len() as u64;
        fits.then_some(MemPlace { allocation: allocation as u32, offset })
    }

    /// Number of the page that a place lies in, unique within the machine.
    pub(crate) fn page(&self, place: MemPlace) -> u32 {
        let a = &self.allocations[place.allocation as usize];
        a.first_page + (place.offset >> a.page.bytes().trailing_zeros()) as u32
    }

    /// Fills `into` with the bytes from a place on.
    #[inline]
    pub(crate) fn read(&self, place: MemPlace, into: &mut [u8]) {
        self.allocations[place.allocation as usize].bytes.read(place.offset as usize, into);
    }

    /// Replaces the bytes from a place on.
    #[inline]
    pub(crate) fn write(&mut self, place: MemPlace, from: &[u8]) {
        self.allocations[place.allocation as usize].bytes.write(place.offset as usize, from);
    }

    /// `len` mutable bytes of one line.
    #[inline]
    pub(crate) fn in_line(&mut self, place: MemPlace, len: u64) -> &mut [u8] {
        let range = place.offset as usize..(place.offset + len) as usize;
        self.allocations[place.allocation as usize].bytes.in_line(range)
    }

    /// The bytes of a range as one mutable slice. From then on the whole allocation takes memory.
    pub(crate) fn whole(&mut self, mem: Mem) -> &mut [u8] {
        let whole = self.allocations[mem.allocation() as usize].bytes.whole();
        &mut whole[mem.start() as usize..][..mem.len() as usize]
    }

    /// Prefetches the first line of a place into the simulating processor's cache.
    #[inline]
    pub(crate) fn fetch(&self, place: MemPlace) {
        let bytes = &self.allocations[place.allocation as usize].bytes;
        if let Some(address) = bytes.address(place.offset as usize) {
            fetch_lines(address, 1);
        }
    }

    /// The line of a place. Bytes beyond the end of the allocation are zero.
    pub(super) fn line(&self, place: MemPlace) -> LineBytes {
        let mut line = [0; LINE as usize];
        let (begins, len) = self.allocated_of_line(place);
        self.read(begins, &mut line[..len]);
        line
    }

    /// Writes a line, as far as it is allocated.
    pub(super) fn put_line(&mut self, place: MemPlace, line: &LineBytes) {
        let (begins, len) = self.allocated_of_line(place);
        self.write(begins, &line[..len]);
    }

    /// The beginning of the line of a place, and the number of its bytes that are allocated.
    fn allocated_of_line(&self, place: MemPlace) -> (MemPlace, usize) {
        let begins = MemPlace { offset: place.offset - place.offset % LINE, ..place };
        let all = self.allocations[place.allocation as usize].bytes.len() as u64;
        (begins, LINE.min(all - begins.offset) as usize)
    }

    pub(crate) fn load_u64(&self, place: MemPlace) -> u64 {
        let mut word = [0; 8];
        self.read(place, &mut word);
        u64::from_le_bytes(word)
    }
}
