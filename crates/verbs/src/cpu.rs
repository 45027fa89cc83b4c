//! Operations of a thread on its processor.

use crate::{Mem, OperationKey, OperationStep, PageSize, Span, Time, VerbsError};

/// The access that a scan makes at each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Touch {
    /// Loads bytes.
    Load,
    /// Stores bytes of this value.
    Store(u8),
    /// Stores bytes of this value around the caches (MOVNTI).
    StoreAround(u8),
}

/// The steps of a scan through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// The access at each step.
    pub touch: Touch,
    /// Bytes from one access to the next: a power of two, at most 64. An access is as long as the step, but
    /// at most 8 bytes.
    pub step: u32,
    /// Instructions for each step, including the access, at least 1. On hardware the compiler decides.
    pub instructions: u32,
}

impl Scan {
    /// Bytes of an access.
    pub const fn width(&self) -> u32 {
        if self.step < 8 { self.step } else { 8 }
    }
}

/// A thread's processor: its clock, its accesses to memory that a NIC or another thread can access, and its
/// other work.
///
/// On real hardware the accesses are volatile or atomic. `work` does nothing there, because the work itself
/// takes the time. In virtual time every access is charged by the cache lines it touches. Loads have acquire
/// ordering and stores have release ordering. The last byte of a longer store becomes visible last.
///
/// # Panics
/// An access outside of `mem`, to memory of another machine, or to a misaligned word panics. It is a bug of
/// the program.
pub trait Cpu {
    /// The time on this thread's clock.
    fn now(&self) -> Time;

    /// Accounts for instructions that take `span` of virtual time on the host's cores at the profile's clock
    /// rate. Does nothing on hardware.
    fn work(&self, span: Span);

    /// Keeps the core busy for `span`. In virtual time this equals [`Cpu::work`]. Hardware runs a loop of
    /// instructions.
    fn compute(&self, span: Span) {
        self.work(span);
    }

    /// Waits until a poll loop can find something new, or until `deadline`. Call it at the end of each pass
    /// of the loop that found nothing, and then repeat the pass. The effect equals repeated passes without
    /// `pause`. So a pass may only load, poll and read the time, and may compare `now` only with `deadline`.
    fn pause(&self, deadline: Time);

    /// Marks a step of an operation for a tracer. Takes no time, and changes nothing that a thread can
    /// observe. Providers without a tracer ignore it.
    #[inline]
    fn mark(&self, _key: OperationKey, _step: OperationStep) {}

    /// Allocates zeroed memory of this machine, aligned to `page`, that lives as long as the run. If CPU
    /// sockets are modelled, the memory is at the socket of this thread's core.
    fn alloc(&self, len: u64, page: PageSize) -> Result<Mem, VerbsError>;

    /// Allocates memory at the CPU socket of `core`. On hardware, the first touch decides the socket.
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

    /// Prefetches the lines of a range; never changes loaded values.
    fn prefetch(&self, mem: Mem, offset: u64, len: u64);

    /// Scans a range in steps. No access waits for the result of an earlier access.
    fn scan(&self, mem: Mem, offset: u64, len: u64, scan: Scan);

    /// Writes the lines of a range back to memory and evicts them from the caches. Devices that are not
    /// coherent with the caches need this.
    fn flush(&self, mem: Mem, offset: u64, len: u64);

    /// Atomically adds to a 64-bit word (wrapping); returns the previous value.
    fn fetch_add_u64(&self, mem: Mem, offset: u64, add: u64) -> u64;

    /// Atomically replaces a 64-bit word that equals `expected`; returns the previous value.
    fn compare_swap_u64(&self, mem: Mem, offset: u64, expected: u64, new: u64) -> u64;
}
