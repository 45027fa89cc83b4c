//! What a thread does with its processor.

use crate::{Mem, PageSize, Span, Time, VerbsError};

/// What a scan does at each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Touch {
    /// Loads.
    Load,
    /// Stores bytes of this value.
    Store(u8),
    /// Stores bytes of this value around the caches (MOVNTI).
    StoreAround(u8),
}

/// How a scan goes through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// What it does at each step.
    pub touch: Touch,
    /// Bytes from one access to the next: a power of two, 64 at most. An access is as long, but has 8 bytes at
    /// most.
    pub step: u32,
    /// Instructions for each step, the access included, at least 1; on hardware the compiler has decided.
    pub instructions: u32,
}

impl Scan {
    /// Bytes of an access.
    pub const fn width(&self) -> u32 {
        if self.step < 8 { self.step } else { 8 }
    }
}

/// A thread's processor: its clock, its accesses to memory that a NIC or another thread can touch,
/// and its other work.
///
/// On real hardware the accesses are volatile or atomic and `work` is nothing, as the work itself
/// takes the time. In virtual time every access is charged by the cache lines it touches. Loads
/// have acquire, stores release ordering; the last byte of a longer store becomes visible last.
///
/// # Panics
/// An access outside of `mem`, to memory of another machine, or to a word that is not naturally
/// aligned panics: it is a bug of the program.
pub trait Cpu {
    /// The time on this thread's clock.
    fn now(&self) -> Time;

    /// States work of instructions that takes `span` of virtual time on the host's cores as its profile has them; nothing
    /// on hardware.
    fn work(&self, span: Span);

    /// Computes for `span` where nothing but the time matters: as [`Cpu::work`] in virtual time, a loop of instructions
    /// on hardware.
    fn compute(&self, span: Span) {
        self.work(span);
    }

    /// Equals repeating the pass since the previous `pause` until it sees something new or
    /// `deadline` comes. Call it at the end of a pass of a poll loop that found nothing, and repeat
    /// the pass. Such a pass only loads, polls and tells time (`now` may be compared with
    /// `deadline` only).
    fn pause(&self, deadline: Time);

    /// Allocates zeroed memory of this machine, aligned to `page`, that lives as long as the run: at the socket of this
    /// thread's core, where sockets are told apart.
    fn alloc(&self, len: u64, page: PageSize) -> Result<Mem, VerbsError>;

    /// The same at the socket of another core. On hardware memory is where it is touched first.
    fn alloc_near(&self, core: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError>;

    /// Loads one byte.
    fn load_u8(&self, mem: Mem, offset: u64) -> u8;

    /// Loads a naturally aligned 32-bit word of the machine's byte order.
    fn load_u32(&self, mem: Mem, offset: u64) -> u32;

    /// Loads a naturally aligned 64-bit word of the machine's byte order.
    fn load_u64(&self, mem: Mem, offset: u64) -> u64;

    /// Stores one byte.
    fn store_u8(&self, mem: Mem, offset: u64, value: u8);

    /// Stores a naturally aligned 32-bit word.
    fn store_u32(&self, mem: Mem, offset: u64, value: u32);

    /// Stores a naturally aligned 64-bit word.
    fn store_u64(&self, mem: Mem, offset: u64, value: u64);

    /// Loads `into.len()` bytes.
    fn read(&self, mem: Mem, offset: u64, into: &mut [u8]);

    /// Stores `from`.
    fn write(&self, mem: Mem, offset: u64, from: &[u8]);

    /// Copies `len` bytes between ranges that do not overlap.
    fn copy(&self, to: Mem, to_offset: u64, from: Mem, from_offset: u64, len: u64);

    /// Asks for the lines of a range ahead of their use; never changes what is loaded.
    fn prefetch(&self, mem: Mem, offset: u64, len: u64);

    /// Goes through a range in steps; no access waits for another.
    fn scan(&self, mem: Mem, offset: u64, len: u64, scan: Scan);

    /// Writes lines of a range back to memory and lets caches go of them, as devices need it that are not
    /// coherent with caches.
    fn flush(&self, mem: Mem, offset: u64, len: u64);

    /// Atomically adds to a 64-bit word (wrapping); returns what was there.
    fn fetch_add_u64(&self, mem: Mem, offset: u64, add: u64) -> u64;

    /// Atomically replaces a 64-bit word that equals `expected`; returns what was there.
    fn compare_swap_u64(&self, mem: Mem, offset: u64, expected: u64, new: u64) -> u64;
}
