//! `Cpu` on real hardware.

use crate::access;
use crate::provider::NativeProvider;
use doorbell_verbs::{Cpu, Mem, PageSize, Scan, Span, Time, VerbsError};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// One in this many pauses of a polling loop yields the processor. Without the yield, two threads that spin
/// on one processor would wait for the scheduler's tick.
const PAUSES_PER_YIELD: u32 = 16;

/// Bytes of a cache line, the unit of prefetches.
#[cfg(target_arch = "x86_64")]
const LINE: u64 = 64;

macro_rules! word {
    ($provider:ident, $atomic:ident, $mem:ident, $offset:ident) => {{
        let len = size_of::<$atomic>();
        let pointer = $provider.view().pointer($mem, $offset, len as u64);
        assert!(pointer.addr().is_multiple_of(len), "a {len}-byte word at {pointer:p} is not aligned");
        // SAFETY: The checks show that the memory is mapped, belongs to this machine and is aligned.
        unsafe { $atomic::from_ptr(pointer.cast()) }
    }};
}

impl Cpu for NativeProvider {
    fn now(&self) -> Time {
        // A u64 holds 213 days in picoseconds.
        Time::from_ps((self.elapsed().as_nanos() as u64).saturating_mul(1_000))
    }

    fn work(&self, _span: Span) {}

    fn compute(&self, span: Span) {
        let end = self.now() + span;
        while self.now() < end {
            self.exchange().check();
        }
    }

    fn pause(&self, _deadline: Time) {
        self.exchange().check();
        if self.count_pause().is_multiple_of(PAUSES_PER_YIELD) {
            std::thread::yield_now();
        } else {
            spin_loop();
        }
    }

    fn alloc(&self, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.view().alloc(len, page)
    }

    /// The kernel places memory on the NUMA node of the core that first touches it, so `core` is ignored.
    fn alloc_near(&self, _: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.alloc(len, page)
    }

    fn load_u8(&self, mem: Mem, offset: u64) -> u8 {
        word!(self, AtomicU8, mem, offset).load(Ordering::Acquire)
    }

    fn load_u32(&self, mem: Mem, offset: u64) -> u32 {
        word!(self, AtomicU32, mem, offset).load(Ordering::Acquire)
    }

    fn load_u64(&self, mem: Mem, offset: u64) -> u64 {
        word!(self, AtomicU64, mem, offset).load(Ordering::Acquire)
    }

    fn store_u8(&self, mem: Mem, offset: u64, value: u8) {
        word!(self, AtomicU8, mem, offset).store(value, Ordering::Release);
    }

    fn store_u32(&self, mem: Mem, offset: u64, value: u32) {
        word!(self, AtomicU32, mem, offset).store(value, Ordering::Release);
    }

    fn store_u64(&self, mem: Mem, offset: u64, value: u64) {
        word!(self, AtomicU64, mem, offset).store(value, Ordering::Release);
    }

    fn read(&self, mem: Mem, offset: u64, into: &mut [u8]) {
        let from = self.view().pointer(mem, offset, into.len() as u64);
        // SAFETY: `pointer` checked the range.
        unsafe { access::load(from, into) }
    }

    fn write(&self, mem: Mem, offset: u64, from: &[u8]) {
        let to = self.view().pointer(mem, offset, from.len() as u64);
        // SAFETY: `pointer` checked the range.
        unsafe { access::store(to, from) }
    }

    fn copy(&self, to: Mem, to_offset: u64, from: Mem, from_offset: u64, len: u64) {
        let to = self.view().pointer(to, to_offset, len);
        let from = self.view().pointer(from, from_offset, len);
        // SAFETY: `pointer` checked both ranges. They are mapped, so their length fits a usize.
        unsafe { access::copy(to, from, len as usize) }
    }

    fn prefetch(&self, mem: Mem, offset: u64, len: u64) {
        let start = self.view().pointer(mem, offset, len);
        #[cfg(target_arch = "x86_64")]
        for at in (0..len).step_by(LINE as usize) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: The address is within the range. A prefetch affects caches only.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(at as usize).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = start;
    }

    fn scan(&self, mem: Mem, offset: u64, len: u64, scan: Scan) {
        let start = self.view().pointer(mem, offset, len);
        let width = scan.width() as usize;
        assert!(start.addr().is_multiple_of(width), "{width}-byte words at {start:p} are not aligned");
        // SAFETY: `pointer` checked the range. It is mapped, so its length fits a usize. Words are aligned.
        unsafe { access::scan(start, len as usize, scan) }
    }

    fn flush(&self, mem: Mem, offset: u64, len: u64) {
        let start = self.view().pointer(mem, offset, len);
        #[cfg(target_arch = "x86_64")]
        for at in (0..len).step_by(LINE as usize) {
            // SAFETY: The address is within the range. Every x86-64 processor has SSE2, and the contents do
            // not change.
            unsafe { std::arch::x86_64::_mm_clflush(start.add(at as usize).cast_const()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = start;
    }

    fn fetch_add_u64(&self, mem: Mem, offset: u64, add: u64) -> u64 {
        word!(self, AtomicU64, mem, offset).fetch_add(add, Ordering::AcqRel)
    }

    fn compare_swap_u64(&self, mem: Mem, offset: u64, expected: u64, new: u64) -> u64 {
        let word = word!(self, AtomicU64, mem, offset);
        word.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|was| was)
    }
}
