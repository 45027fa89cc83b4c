//! A machine's memory, and which core's cache holds which line of it.

use doorbell_verbs::{Mem, PageSize, VerbsError};

/// Virtual addresses of one allocation start at a multiple of this.
const SPAN_BITS: u32 = 40;
pub(crate) const LINE: u64 = 64;
/// Bit of `Line::sharers`: the one core that holds the line has changed it.
const MODIFIED: u32 = 1 << 31;
/// Bit of `Line::sharers`: the line has been in the last-level cache.
const TOUCHED: u32 = 1 << 30;
/// Cores whose copies can be told apart.
pub(crate) const MAX_CORES: u32 = 30;

/// State of one cache line.
#[derive(Clone, Copy, Default)]
struct Line {
    /// Which cores hold it, with [`MODIFIED`] and [`TOUCHED`].
    sharers: u32,
    /// Which cores' threads sleep until it is written.
    watchers: u32,
    /// Until when a transfer of it is under way.
    busy_until: u64,
}

/// What a core must do to reach a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It is in the core's own cache.
    Own,
    /// Fetch it from the last-level cache, where the NIC or another core left it.
    LastLevel,
    /// Another core has changed it.
    OtherCore,
    /// Nobody has touched it yet.
    Dram,
}

struct Allocation {
    bytes: Vec<u8>,
    lines: Vec<Line>,
    page: PageSize,
    /// Number of its first page among the machine's.
    first_page: u32,
    cached: Option<Cached>,
}

/// The lines that caches hold of memory that is larger than they are: the last that were fetched
/// from DRAM.
struct Cached {
    lines: Vec<u32>,
    capacity: usize,
    next: usize,
}

impl Cached {
    /// A line was fetched; returns the one that made room for it.
    fn fetched(&mut self, line: u32) -> Option<u32> {
        if self.lines.len() < self.capacity {
            self.lines.push(line);
            return None;
        }
        let evicted = std::mem::replace(&mut self.lines[self.next], line);
        self.next = (self.next + 1) % self.capacity;
        Some(evicted)
    }
}

/// A place in memory: allocation and offset within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) allocation: u32,
    pub(crate) offset: u64,
}

/// All memory of one machine.
#[derive(Default)]
pub(crate) struct Memory {
    allocations: Vec<Allocation>,
    pages: u32,
}

/// Number of cache lines that `len` bytes from `offset` touch.
pub(crate) fn lines_touched(offset: u64, len: u64) -> u64 {
    if len == 0 { 0 } else { (offset + len - 1) / LINE - offset / LINE + 1 }
}

impl Memory {
    pub(crate) fn alloc(&mut self, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        if len >= 1 << SPAN_BITS {
            let most = 1u64 << SPAN_BITS;
            return Err(VerbsError::NoRoom(format!("an allocation has less than {most} bytes, not {len}")));
        }
        let id = self.allocations.len() as u32;
        let lines = len.div_ceil(LINE) as usize;
        self.allocations.push(Allocation {
            bytes: vec![0; len as usize],
            lines: vec![Line::default(); lines],
            page,
            first_page: self.pages,
            cached: None,
        });
        self.pages += len.div_ceil(page.bytes()) as u32 + 1;
        Ok(Mem::new(id, (u64::from(id) + 1) << SPAN_BITS, len))
    }

    /// Lets caches hold no more than `bytes` of the allocation of `mem`; at first lines that are spread
    /// evenly over it.
    pub(crate) fn limit_cached(&mut self, mem: Mem, bytes: u64) {
        let capacity = (bytes / LINE).max(1) as usize;
        let allocation = &mut self.allocations[mem.allocation() as usize];
        let all = allocation.lines.len();
        let held = capacity.min(all);
        let lines: Vec<u32> = (0..held).map(|i| (i * all / held) as u32).collect();
        for line in &lines {
            allocation.lines[*line as usize].sharers = TOUCHED;
        }
        allocation.cached = Some(Cached { lines, capacity, next: 0 });
    }

    /// A line has come from DRAM: another may have to go.
    fn fetched(&mut self, place: Place) {
        let a = &mut self.allocations[place.allocation as usize];
        if let Some(cached) = &mut a.cached
            && let Some(evicted) = cached.fetched((place.offset / LINE) as u32)
        {
            a.lines[evicted as usize].sharers = 0;
        }
    }

    /// Whether `mem` is one of this machine's ranges.
    pub(crate) fn owns(&self, mem: Mem) -> bool {
        self.allocations
            .get(mem.allocation() as usize)
            .is_some_and(|a| mem.start() + mem.len() <= a.bytes.len() as u64)
    }

    /// The place of a virtual address; `None` where `len` bytes from it are not allocated.
    pub(crate) fn place(&self, addr: u64, len: u64) -> Option<Place> {
        let allocation = (addr >> SPAN_BITS).checked_sub(1)?;
        let offset = addr & ((1 << SPAN_BITS) - 1);
        let a = self.allocations.get(usize::try_from(allocation).ok()?)?;
        let fits = offset.checked_add(len)? <= a.bytes.len() as u64;
        fits.then_some(Place { allocation: allocation as u32, offset })
    }

    /// Number of the page that a place lies in, unique within the machine.
    pub(crate) fn page(&self, place: Place) -> u32 {
        let a = &self.allocations[place.allocation as usize];
        a.first_page + (place.offset >> a.page.bytes().trailing_zeros()) as u32
    }

    pub(crate) fn bytes(&self, place: Place, len: u64) -> &[u8] {
        &self.allocations[place.allocation as usize].bytes[place.offset as usize..][..len as usize]
    }

    pub(crate) fn bytes_mut(&mut self, place: Place, len: u64) -> &mut [u8] {
        &mut self.allocations[place.allocation as usize].bytes[place.offset as usize..][..len as usize]
    }

    pub(crate) fn load_u64(&self, place: Place) -> u64 {
        let b = self.bytes(place, 8);
        u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])
    }

    fn line(&mut self, place: Place) -> &mut Line {
        &mut self.allocations[place.allocation as usize].lines[(place.offset / LINE) as usize]
    }

    /// A core loads from the line at `place`: what that takes, and until when a transfer under way
    /// holds it up.
    pub(crate) fn load(&mut self, place: Place, core: u32) -> (Reach, u64) {
        let line = self.line(place);
        let me = 1 << core;
        let reach = if line.sharers & me != 0 {
            Reach::Own
        } else if line.sharers & MODIFIED != 0 {
            Reach::OtherCore
        } else if line.sharers & TOUCHED != 0 {
            Reach::LastLevel
        } else {
            Reach::Dram
        };
        if reach != Reach::Own {
            line.sharers = (line.sharers & !MODIFIED) | me | TOUCHED;
        }
        let busy_until = line.busy_until;
        if reach == Reach::Dram {
            self.fetched(place);
        }
        (reach, busy_until)
    }

    /// Whether a core holds the line at `place`: then nobody has written it since.
    pub(crate) fn holds(&self, place: Place, core: u32) -> bool {
        let line = self.allocations[place.allocation as usize].lines[(place.offset / LINE) as usize];
        line.sharers & 1 << core != 0
    }

    /// A core stores to the line at `place`, and becomes its only holder.
    pub(crate) fn store(&mut self, place: Place, core: u32) -> (Reach, u64) {
        let line = self.line(place);
        let me = 1 << core;
        let holders = line.sharers & !(MODIFIED | TOUCHED);
        let reach = if holders == me {
            Reach::Own
        } else if holders != 0 {
            // Changed by another core, or shared: the other copies must go.
            Reach::OtherCore
        } else if line.sharers & TOUCHED != 0 {
            Reach::LastLevel
        } else {
            Reach::Dram
        };
        line.sharers = me | MODIFIED | TOUCHED;
        let busy_until = line.busy_until;
        if reach == Reach::Dram {
            self.fetched(place);
        }
        (reach, busy_until)
    }

    /// A transfer of the line is under way until `time`.
    pub(crate) fn set_busy(&mut self, place: Place, time: u64) {
        self.line(place).busy_until = time;
    }

    /// The NIC writes the line: it goes to the last-level cache, and no core holds it any more.
    pub(crate) fn nic_writes(&mut self, place: Place) {
        self.line(place).sharers = TOUCHED;
    }

    pub(crate) fn watch(&mut self, place: Place, core: u32) {
        self.line(place).watchers |= 1 << core;
    }

    /// Takes the cores that wait for the line to be written.
    pub(crate) fn take_watchers(&mut self, place: Place) -> u32 {
        std::mem::take(&mut self.line(place).watchers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fetched_evicts_the_oldest() {
        let mut memory = Memory::default();
        let mem = memory.alloc(8 * LINE, PageSize::Small).unwrap();
        memory.limit_cached(mem, 2 * LINE);
        let mut load = |line: u64| memory.load(Place { allocation: 0, offset: line * LINE }, 0).0;
        assert_eq!([load(4), load(1)], [Reach::LastLevel, Reach::Dram], "0 and 4 were there, 0 went");
        assert_eq!([load(0), load(1), load(0)], [Reach::Dram, Reach::Own, Reach::Own]);
        assert_eq!([load(2), load(1), load(0)], [Reach::Dram, Reach::Dram, Reach::Dram]);
    }
}
