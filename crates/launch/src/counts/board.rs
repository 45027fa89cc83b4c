//! Shared memory in which processes count, and in which they record why they wait. The records remain
//! readable when a process exits or is killed.
//!
//! The launcher creates one board for all programs of a run. A program that does not find this board creates
//! its own. The writer may be killed at any time, so each update is a single atomic operation. A record is
//! filled before it is added to a list, and a number changes by one store.
//!
//! Memory orderings: `create` stores `magic` last, by Release, and `open` loads it by Acquire. So a program
//! that opens the board sees `used`. A list changes only by the Release compare-and-swap in `list`. Each
//! swap continues the release sequence of the swaps before it. So the Acquire load of the list in `listed`
//! sees all its records as they were added, and the loads of `before` need no ordering. `used` and `full`
//! are a counter and a flag, and order nothing. No allocation is ever freed, so a new record holds zeros.

use crate::process_start::ProcessStart;
use crate::sealed::{self, InCore, Part, Remapper, STEP};
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};

/// Maximum number of bytes of a board.
const BYTES: u64 = 64 << 30;
/// Alignment of allocations, in bytes: a cache line.
const ALIGN: u64 = 64;
/// Identifies a file as a board with this layout.
const MAGIC: u64 = 0xd00b_e110_c027_0003;

/// A record on a board.
///
/// # Safety
/// The type has a fixed layout (`repr(C)`), holds only atomics, and has an alignment of at most [`ALIGN`].
/// Then any bytes are a valid record.
pub(crate) unsafe trait BoardRecord {}

// SAFETY: an atomic.
unsafe impl BoardRecord for AtomicU8 {}

/// A record of a list, with the offset of the previously added record. The offset is 0 in the first record.
pub(crate) trait Listed: BoardRecord {
    fn before(&self) -> &AtomicU64;
}

/// The first record of a board.
#[repr(C)]
#[derive(Debug)]
struct Head {
    magic: AtomicU64,
    /// Allocated bytes, from the first byte on.
    used: AtomicU64,
    /// Not 0 if the board had no room for a count.
    full: AtomicU64,
    /// The list of processes.
    processes: AtomicU64,
    /// Not 0 once a process has opened the device.
    opened: AtomicU64,
    /// The list of processes that may wait.
    waits: AtomicU64,
}

// SAFETY: all fields are atomics.
unsafe impl BoardRecord for Head {}

/// A board, which is never unmapped.
#[derive(Debug)]
pub struct Board {
    part: Part,
    remapper: Remapper,
}

impl Board {
    /// Creates a board. Also returns its file.
    ///
    /// # Errors
    /// If the system has no memory for it, or allows no file of its size.
    pub fn create() -> io::Result<(File, &'static Board)> {
        let file = sealed::create(c"doorbell-counts", BYTES)?;
        let board = Board::map(&file)?;
        board.head().used.store((size_of::<Head>() as u64).next_multiple_of(ALIGN), Relaxed);
        board.head().magic.store(MAGIC, Release);
        Ok((file, Box::leak(Box::new(board))))
    }

    /// The value of [`COUNTS`](crate::variables::COUNTS) and [`WAITS`](crate::variables::WAITS) by which
    /// programs find this process's board. `file` is the board's file.
    pub(crate) fn address(file: &File) -> Option<String> {
        let own = ProcessStart::of(std::process::id()).ok()??;
        Some(format!("{}:{}:{}", own.pid, file.as_raw_fd(), own.start_time))
    }

    /// Opens the board at an address that `Board::address` returned. The process that created the board
    /// must still run.
    ///
    /// # Errors
    /// If there is no board, or it belongs to another user.
    pub fn open(address: &str) -> io::Result<&'static Board> {
        let missing = || io::Error::from_raw_os_error(libc::ESRCH);
        let mut numbers = address.splitn(3, ':').map(|number| number.parse::<u64>().map_err(|_| missing()));
        let mut next = || numbers.next().unwrap_or_else(|| Err(missing()));
        let (pid, fd) = (next()? as u32, next()? as u32);
        let maker = ProcessStart { pid, start_time: next()? };
        let path = format!("/proc/{pid}/fd/{fd}");
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path)?;
        if file.metadata()?.uid() != crate::trust::user() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        sealed::check(&file, BYTES)?;
        let board = Board::map(&file)?;
        // The process was still running after its file had been opened, so the PID meant that process.
        if board.head().magic.load(Acquire) != MAGIC || !maker.is_alive().unwrap_or(false) {
            return Err(missing());
        }
        Ok(Box::leak(Box::new(board)))
    }

    /// The board of this process's run, for its waits. `None` if the board cannot be opened.
    pub fn of_waits() -> Option<&'static Board> {
        // Callers may keep only a record of the board. LeakSanitizer finds the board here.
        static BOARD: OnceLock<Option<&'static Board>> = OnceLock::new();
        let open = || Board::open(&std::env::var(crate::variables::WAITS).ok()?).ok();
        *BOARD.get_or_init(open)
    }

    fn map(file: &File) -> io::Result<Board> {
        Ok(Board { part: Part::new(file, 0, STEP, InCore::No)?, remapper: Remapper::of(file)? })
    }

    fn head(&self) -> &Head {
        // SAFETY: the record is at the first byte of the mapping, which begins a page; any bytes are a valid
        // record.
        unsafe { &*self.part.base().cast::<Head>() }
    }

    /// The list of processes.
    pub(crate) fn processes(&self) -> &AtomicU64 {
        &self.head().processes
    }

    /// The list of processes that may wait.
    pub(crate) fn waits(&self) -> &AtomicU64 {
        &self.head().waits
    }

    /// Records that a process has opened the device.
    pub fn set_opened(&self) {
        self.head().opened.store(1, Relaxed);
    }

    /// Whether a process has opened the device.
    pub(crate) fn is_opened(&self) -> bool {
        // Relaxed: the word orders nothing, and the launcher reads it when the program has exited.
        self.head().opened.load(Relaxed) != 0
    }

    /// Whether the board had no room for a count.
    pub(crate) fn is_full(&self) -> bool {
        self.head().full.load(Relaxed) != 0
    }

    /// Allocates `len` records of zeros, and returns them with their offset. `None` if there is no room.
    pub(crate) fn alloc<T: BoardRecord>(&self, len: usize) -> Option<(u64, &[T])> {
        let bytes = (size_of::<T>() * len) as u64;
        let at = self.head().used.fetch_add(bytes.next_multiple_of(ALIGN), Relaxed);
        let made = self.slice(at, len).map(|records| (at, records));
        if made.is_none() {
            self.head().full.store(1, Relaxed);
        }
        made
    }

    /// Allocates one record of zeros, and returns it with its offset. `None` if there is no room.
    pub(crate) fn make<T: BoardRecord>(&self) -> Option<(u64, &T)> {
        let (at, records) = self.alloc(1)?;
        Some((at, &records[0]))
    }

    /// The records at offset `at`. `None` if one of them is not on the board, or not aligned.
    pub(crate) fn slice<T: BoardRecord>(&self, at: u64, len: usize) -> Option<&[T]> {
        let end = (len as u64).checked_mul(size_of::<T>() as u64)?.checked_add(at)?;
        let lies =
            at >= size_of::<Head>() as u64 && end <= BYTES && at.is_multiple_of(align_of::<T>() as u64);
        if !lies || !self.reaches(end) {
            return None;
        }
        // SAFETY: within the mapping, which is never unmapped; aligned; any bytes are valid records.
        Some(unsafe { std::slice::from_raw_parts(self.part.base().add(at as usize).cast::<T>(), len) })
    }

    /// Maps the board up to byte `end`, if it is not mapped yet; `false` if that fails.
    fn reaches(&self, end: u64) -> bool {
        let grow = || self.part.grow(self.part.next_size(end).min(BYTES), &self.remapper);
        end <= self.part.room() || grow().is_ok()
    }

    /// Adds a filled record, which is at offset `at`, to a list.
    pub(crate) fn list<T: Listed>(&self, list: &AtomicU64, at: u64, record: &T) {
        let mut before = list.load(Relaxed);
        loop {
            record.before().store(before, Relaxed);
            match list.compare_exchange_weak(before, at, Release, Relaxed) {
                Ok(_) => return,
                Err(other) => before = other,
            }
        }
    }

    /// The records of a list, in the order in which they were added.
    pub(crate) fn listed<T: Listed>(&self, list: &AtomicU64) -> Vec<&T> {
        let mut at = list.load(Acquire);
        // A list cannot have more records than there is room for, unless a program has overwritten the board.
        // The load comes after the list's, so that it covers all of the list's records.
        let most = self.head().used.load(Relaxed) / size_of::<T>() as u64;
        let mut records = Vec::new();
        while at != 0 && (records.len() as u64) < most {
            let Some([record]) = self.slice::<T>(at, 1) else { break };
            records.push(record);
            at = record.before().load(Relaxed);
        }
        records.reverse();
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Number {
        before: AtomicU64,
        number: AtomicU64,
    }

    // SAFETY: all fields are atomics.
    unsafe impl BoardRecord for Number {}

    impl Listed for Number {
        fn before(&self) -> &AtomicU64 {
            &self.before
        }
    }

    fn put(board: &Board, list: &AtomicU64, number: u64) {
        let (at, record) = board.make::<Number>().expect("there is room");
        record.number.store(number, Relaxed);
        board.list(list, at, record);
    }

    fn numbers(board: &Board, list: &AtomicU64) -> Vec<u64> {
        board.listed::<Number>(list).iter().map(|record| record.number.load(Relaxed)).collect()
    }

    #[test]
    fn what_one_writes_all_read_who_have_the_address() {
        let (file, board) = Board::create().expect("a board");
        let address = Board::address(&file).expect("this process runs");
        let other = Board::open(&address).expect("it is there");
        put(board, board.processes(), 1);
        put(other, other.processes(), 2);
        assert_eq!(numbers(board, board.processes()), [1, 2]);
        assert_eq!(numbers(other, other.processes()), [1, 2]);
    }

    #[test]
    fn what_is_no_board_is_not_opened() {
        let (file, _) = Board::create().expect("a board");
        let address = Board::address(&file).expect("this process runs");
        let (process, start_time) = (std::process::id(), address.rsplit(':').next().expect("the start time"));
        let unsealed = File::open("/dev/null").expect("it is there");
        let unsealed = format!("{process}:{}:{start_time}", unsealed.as_raw_fd());
        let another = format!("{}1", address);
        for wrong in ["", "1", "1:2", "a:b:c", &unsealed, &another] {
            assert!(Board::open(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_list_of_any_bytes_ends() {
        let (_, board) = Board::create().expect("a board");
        let list = board.processes();
        (0..10).for_each(|number| put(board, list, number));
        let first = board.listed::<Number>(list)[0];
        for wrong in [list.load(Relaxed), 1, 8, BYTES - 8, u64::MAX - 7] {
            first.before.store(wrong, Relaxed);
            assert!(numbers(board, list).len() < 100, "{wrong}");
        }
    }

    #[test]
    fn what_has_no_room_is_remembered() {
        let (_, board) = Board::create().expect("a board");
        assert!(board.alloc::<AtomicU8>(1 << 20).is_some() && !board.is_full());
        assert!(board.part.room() <= 2 << 20, "only what is used is mapped");
        assert!(board.alloc::<AtomicU8>(BYTES as usize).is_none() && board.is_full());
    }
}
