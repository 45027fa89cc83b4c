//! Moves payload: within this process, to and from shared memory, and to and from other processes by
//! process_vm_writev(2) and process_vm_readv(2).

use super::copy::{self, Piece};
use super::maps;
use crate::errno::Errno;
use crate::point::{Point, reach};
use doorbell_launch::process_start::other_thread;
use doorbell_launch::say::say;
use doorbell_transport::AtomicOp;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Memory of the far side, which is the responder of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Far {
    /// The memory is mapped in this process too.
    Mapped(*mut u8),
    /// The memory is only in another process.
    Foreign {
        /// PID of that process.
        pid: u32,
        /// Address in that process.
        addr: u64,
    },
}

/// The reason why bytes could not be moved to or from the far side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// The process has exited.
    Gone,
    /// The memory is not mapped in the other process, or the kernel denies this process access to the memory.
    Memory,
    /// The memory of this process is not mapped, or not for this access.
    Local,
}

/// Copies the pieces to the far side, one after the other. The end of the message becomes visible last: see
/// `copy.rs` and [`Vectors::push`].
#[inline]
pub(crate) fn write(pieces: &[Piece], far: Far) -> Result<(), Unreachable> {
    match far {
        Far::Mapped(to) => {
            reach(Point::BeforeCopy);
            if overlaps(pieces, to as u64) {
                write_kept(pieces, to);
            } else {
                // SAFETY: both ranges were checked against their regions, which the program keeps mapped
                // while they are registered. The far range lies in a mapped segment or in this process. Both
                // may race with the program as a NIC's DMA does.
                unsafe { copy::join(pieces, to) };
            }
            Ok(())
        }
        Far::Foreign { pid, addr } => move_foreign(Direction::Write, pieces, pid, addr),
    }
}

/// Copies from the far side into the pieces, one after the other.
#[inline]
pub(crate) fn read(pieces: &[Piece], far: Far) -> Result<(), Unreachable> {
    match far {
        Far::Mapped(from) => {
            reach(Point::BeforeCopy);
            if overlaps(pieces, from as u64) {
                read_kept(pieces, from);
            } else {
                // SAFETY: as in `write`.
                unsafe { copy::split(from, pieces) };
            }
            Ok(())
        }
        Far::Foreign { pid, addr } => move_foreign(Direction::Read, pieces, pid, addr),
    }
}

/// Whether a piece overlaps the range at `far`, which is as long as all pieces together. A process that sends
/// to itself may use any memory on both sides.
fn overlaps(pieces: &[Piece], far: u64) -> bool {
    let end = far + length(pieces) as u64;
    pieces.iter().any(|piece| piece.addr < end && far < piece.addr + piece.len as u64)
}

/// Bytes of all pieces.
fn length(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.len).sum()
}

/// Does the work of [`write()`] if the ranges overlap, by an intermediate buffer.
#[cold]
fn write_kept(pieces: &[Piece], to: *mut u8) {
    let mut kept = vec![0; length(pieces)];
    // SAFETY: as in `write`.
    unsafe {
        copy::join(pieces, kept.as_mut_ptr());
        copy::copy_in_order(kept.as_ptr(), to, kept.len());
    }
}

/// Does the work of [`read`] if the ranges overlap, by an intermediate buffer.
#[cold]
fn read_kept(pieces: &[Piece], from: *const u8) {
    let mut kept = vec![0; length(pieces)];
    // SAFETY: as in `write`.
    unsafe {
        copy::copy_in_order(from, kept.as_mut_ptr(), kept.len());
        copy::split(kept.as_ptr(), pieces);
    }
}

/// Copies a few bytes to memory that only this thread uses. Lengths from 4 to 16 need no function call.
///
/// # Safety
/// Both ranges are mapped and do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: all accesses lie within the ranges.
    unsafe {
        match len {
            0 => {}
            4..8 => {
                let last = from.add(len - 4).cast::<u32>().read_unaligned();
                to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned());
                to.add(len - 4).cast::<u32>().write_unaligned(last);
            }
            8..=16 => {
                let last = from.add(len - 8).cast::<u64>().read_unaligned();
                to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned());
                to.add(len - 8).cast::<u64>().write_unaligned(last);
            }
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// The direction in which bytes move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the far side.
    #[default]
    Write,
    /// From the far side.
    Read,
}

/// Maximum number of pieces on each side of one process_vm_writev(2) (`IOV_MAX`).
const MOST_PIECES: usize = 1024;
/// Bytes of a page.
const PAGE: u64 = 4096;

/// Messages between this process and another, moved in order by as few system calls as possible.
///
/// A piece at the far side costs the kernel about 0.4 us, because the kernel looks up the piece's page. A
/// piece at the near side costs 0.02 us, and a call costs 1.4 us. So a message is one piece at the far side.
/// If the message begins where the previous message ends, it extends the previous piece instead. Bytes that
/// must be copied separately are separate pieces at the near side only.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    near: Vec<Piece>,
    far: Vec<Piece>,
    /// Indices of the first near piece and the first far piece that are not completely moved.
    near_at: usize,
    far_at: usize,
    /// Whether a piece was moved in parts.
    is_cut: bool,
}

impl Vectors {
    pub(crate) fn clear(&mut self) {
        self.near.clear();
        self.far.clear();
        (self.near_at, self.far_at, self.is_cut) = (0, 0, false);
    }

    /// Goes back to the first byte, so that all bytes are moved again. `false`, without effect, if a piece
    /// was moved in parts.
    pub(crate) fn rewind(&mut self) -> bool {
        if !self.is_cut {
            (self.near_at, self.far_at) = (0, 0);
        }
        !self.is_cut
    }

    /// Whether a message of this many pieces fits into the call.
    pub(crate) fn has_room(&self, pieces: usize) -> bool {
        self.near.len() + pieces < MOST_PIECES
    }

    /// Adds a message between these pieces and `addr` in the other process. No byte is moved yet.
    #[inline]
    pub(crate) fn push(&mut self, direction: Direction, pieces: &[Piece], addr: u64) {
        let mut len = 0;
        for piece in pieces.iter().filter(|piece| piece.len > 0) {
            self.near.push(*piece);
            len += piece.len;
        }
        if len == 0 {
            return;
        }
        if direction == Direction::Write {
            self.end_last(addr.wrapping_add(len as u64));
        }
        match self.far.last_mut() {
            Some(last) if last.addr.wrapping_add(last.len as u64) == addr => last.len += len,
            _ => self.far.push(Piece { addr, len }),
        }
    }

    /// Makes the message's bytes in its last word a separate piece at the near side. The kernel copies piece
    /// by piece, so it copies these bytes last. `end` is the message's end address at the far side.
    #[inline]
    fn end_last(&mut self, end: u64) {
        let tail = (end.wrapping_sub(1) % 8 + 1) as usize;
        if let Some(last) = self.near.last_mut()
            && last.len > tail
        {
            last.len -= tail;
            let tail = Piece { addr: last.addr + last.len as u64, len: tail };
            self.near.push(tail);
        }
    }

    /// Whether all bytes have been moved.
    pub(crate) fn is_done(&self) -> bool {
        self.far_at == self.far.len()
    }

    /// Moves the bytes by one system call, which may move only some of them; returns the number of moved
    /// bytes.
    pub(crate) fn call(&mut self, direction: Direction, pid: u32) -> Result<usize, Unreachable> {
        let (near, far) = (&self.near[self.near_at..], &self.far[self.far_at..]);
        reach(Point::BeforeForeign);
        // SAFETY: the near ranges were checked against their regions.
        let moved = unsafe { move_pieces(direction, near, pid, far) };
        reach(Point::AfterForeign);
        match moved {
            Ok(0) => Err(Unreachable::Memory),
            Ok(moved) => {
                self.skip(moved);
                Ok(moved)
            }
            Err(error) => match refusal(error) {
                Unreachable::Memory if self.is_local_fault(direction, pid) => Err(Unreachable::Local),
                cause => Err(cause),
            },
        }
    }

    /// Whether the next byte cannot be moved because of this process's memory. The kernel reports one error
    /// for both sides. If the memory of both sides is missing, the result is `true`.
    #[cold]
    fn is_local_fault(&self, direction: Direction, pid: u32) -> bool {
        let (Some(near), Some(far)) = (self.near.get(self.near_at), self.far.get(self.far_at)) else {
            return false;
        };
        match direction {
            Direction::Write => !is_readable(std::process::id(), near.addr),
            Direction::Read => is_missing(near.addr..near.addr + 1, true) || is_readable(pid, far.addr),
        }
    }

    /// Skips the next `bytes` bytes.
    pub(crate) fn skip(&mut self, bytes: usize) {
        let (near, near_cut) = skip(&mut self.near, self.near_at, bytes);
        let (far, far_cut) = skip(&mut self.far, self.far_at, bytes);
        (self.near_at, self.far_at) = (near, far);
        self.is_cut |= near_cut || far_cut;
    }
}

/// Removes `bytes` bytes from the pieces from index `at` on; returns the index of the first piece that
/// remains, and whether that piece was cut.
fn skip(pieces: &mut [Piece], mut at: usize, mut bytes: usize) -> (usize, bool) {
    while let Some(piece) = pieces.get_mut(at) {
        if bytes < piece.len {
            piece.addr += bytes as u64;
            piece.len -= bytes;
            return (at, bytes > 0);
        }
        bytes -= piece.len;
        at += 1;
    }
    (at, false)
}

fn move_foreign(direction: Direction, pieces: &[Piece], pid: u32, addr: u64) -> Result<(), Unreachable> {
    let mut vectors = Vectors::default();
    vectors.push(direction, pieces, addr);
    while !vectors.is_done() {
        vectors.call(direction, pid)?;
    }
    Ok(())
}

/// Moves bytes between pieces of this process and pieces of process `pid`. Returns the number of moved bytes.
///
/// # Safety
/// The kernel may access the near pieces as far as they are mapped. The kernel checks the far pieces.
unsafe fn move_pieces(direction: Direction, near: &[Piece], pid: u32, far: &[Piece]) -> io::Result<usize> {
    // SAFETY: vouched for by the caller.
    let call = |id: u32| unsafe { move_pieces_by(direction, near, id, far) };
    match call(pid) {
        // The PID leads to no memory after the main thread has ended.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => match other_thread(pid) {
            Some(thread) => call(thread),
            None => Err(error),
        },
        moved => moved,
    }
}

/// Does the work of [`move_pieces`]. `id` is the ID of a thread that has not ended.
///
/// # Safety
/// As for [`move_pieces`].
#[inline]
unsafe fn move_pieces_by(direction: Direction, near: &[Piece], id: u32, far: &[Piece]) -> io::Result<usize> {
    // Through libc, because rustix has neither call.
    let call = match direction {
        Direction::Write => libc::process_vm_writev,
        Direction::Read => libc::process_vm_readv,
    };
    let (near_list, far_list) = (near.as_ptr().cast(), far.as_ptr().cast());
    // SAFETY: both lists are laid out as `iovec`s. The rest is vouched for by the caller.
    let moved = unsafe { call(id as libc::pid_t, near_list, near.len() as _, far_list, far.len() as _, 0) };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}

/// Whether the kernel lets this process read a byte of a process.
pub(crate) fn is_readable(pid: u32, addr: u64) -> bool {
    let mut byte = 0u8;
    let (near, far) = (Piece { addr: (&raw mut byte) as u64, len: 1 }, Piece { addr, len: 1 });
    // SAFETY: the near side is a byte of this function.
    unsafe { move_pieces(Direction::Read, &[near], pid, &[far]) }.is_ok_and(|moved| moved == 1)
}

/// Whether this process cannot read some of these bytes, or cannot write them if `to_write` is set.
#[cold]
pub(crate) fn is_missing(bytes: Range<u64>, to_write: bool) -> bool {
    // Each page is read, because the list of mappings does not show that a mapped file has become shorter.
    let mut pages = std::iter::once(bytes.start)
        .chain((bytes.start / PAGE + 1..bytes.end.div_ceil(PAGE)).map(|n| n * PAGE));
    let wanted = maps::Wanted { write: to_write, atomics: false };
    maps::check(bytes.clone(), wanted) == Err(Errno(libc::EFAULT))
        || pages.any(|page| !is_readable(std::process::id(), page))
}

#[cold]
fn refusal(error: io::Error) -> Unreachable {
    match error.raw_os_error() {
        Some(libc::ESRCH) => Unreachable::Gone,
        Some(libc::EPERM) => {
            static ONCE: std::sync::Once = std::sync::Once::new();
            ONCE.call_once(|| {
                say(format_args!(
                    "the kernel denies this process access to a peer's memory (process_vm_writev: {error}). \
                     Run the peer with `doorbell run --ptrace no`, or both processes with --meet: then a \
                     thread of the peer serves its memory. Or run both processes as one user, without \
                     setuid, and with Yama's ptrace_scope at most 1"
                ));
            });
            Unreachable::Memory
        }
        _ => Unreachable::Memory,
    }
}

/// Whether an atomic stores to a word with the value `found`. A compare-and-swap whose comparison fails
/// stores nothing.
fn changes(op: AtomicOp, found: u64) -> bool {
    !matches!(op, AtomicOp::CompareSwap { compare, .. } if compare != found)
}

/// Maximum number of tries of an atomic. An atomic tries again if something has happened between the load and
/// the store of its word.
const ATOMIC_TRIES: u32 = 4;

/// Carries out an atomic on a word that is mapped in this process; returns the word's old value. `has_late`
/// is called between the load of the word and the store. If the atomic stores nothing and `has_late` returns
/// `true`, the word is loaded again.
///
/// # Safety
/// The word is mapped and aligned.
pub(crate) unsafe fn atomic_mapped(word: *mut u8, op: AtomicOp, has_late: impl Fn() -> bool) -> u64 {
    // SAFETY: the caller guarantees it.
    let word = unsafe { &*word.cast::<AtomicU64>() };
    // At least Acquire and Release. Acquire: `has_late` finds the messages that the peer sent before it
    // stored the loaded value. Release: a program that sees the new value sees the requester's earlier
    // WRITEs, and its answer comes after the completion that the requester has entered. SeqCst costs no
    // more on x86.
    for _ in 0..ATOMIC_TRIES {
        let found = word.load(SeqCst);
        let is_late = has_late();
        let is_over = match changes(op, found) {
            true => word.compare_exchange(found, op.apply(found), SeqCst, SeqCst).is_ok(),
            false => !is_late,
        };
        if is_over {
            return found;
        }
    }
    // All tries have failed, for example because other processes keep changing the word. This try ignores
    // `has_late`.
    match op {
        AtomicOp::CompareSwap { compare, swap } => {
            word.compare_exchange(compare, swap, SeqCst, SeqCst).unwrap_or_else(|found| found)
        }
        AtomicOp::FetchAdd { add } => word.fetch_add(add, SeqCst),
    }
}

/// Carries out an atomic on a word of another process; returns the word's old value. The access is atomic
/// only against callers that hold the word's lock. `has_late` is called after the word is read. If `has_late`
/// returns `true`, the word is read again.
pub(crate) fn atomic_foreign(
    pid: u32,
    addr: u64,
    op: AtomicOp,
    has_late: impl Fn() -> bool,
) -> Result<u64, Unreachable> {
    let far = Far::Foreign { pid, addr };
    let mut word = 0u64;
    let here = [Piece { addr: (&raw mut word) as u64, len: 8 }];
    read(&here, far)?;
    for _ in 1..ATOMIC_TRIES {
        if !has_late() {
            break;
        }
        read(&here, far)?;
    }
    let original = word;
    reach(Point::AtomicRead);
    if !changes(op, original) {
        return Ok(original);
    }
    word = op.apply(original);
    let here = [Piece { addr: (&raw mut word) as u64, len: 8 }];
    write(&here, far)?;
    Ok(original)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(bytes: &[u8]) -> Piece {
        Piece { addr: bytes.as_ptr() as u64, len: bytes.len() }
    }

    /// A program may send to itself within one buffer, in either direction.
    #[test]
    fn ranges_may_overlap() {
        for (from, to) in [(0, 3), (3, 0), (0, 64), (64, 1), (5, 5)] {
            let before: Vec<u8> = (0..200).collect();
            for is_write in [true, false] {
                let mut memory = before.clone();
                let base = memory.as_mut_ptr();
                let at = |at: usize| base as u64 + at as u64;
                let (first, last) = (60, 40);
                let moved = if is_write {
                    let pieces = [(from, first), (from + first, last)];
                    let pieces = pieces.map(|(start, len)| Piece { addr: at(start), len });
                    write(&pieces, Far::Mapped(base.wrapping_add(to)))
                } else {
                    let pieces = [(to, first), (to + first, last)];
                    let pieces = pieces.map(|(start, len)| Piece { addr: at(start), len });
                    read(&pieces, Far::Mapped(base.wrapping_add(from)))
                };
                moved.expect("mapped");
                assert_eq!(memory[to..to + 100], before[from..from + 100], "{from} to {to}");
            }
        }
    }

    #[test]
    fn a_process_can_reach_itself_as_it_reaches_others() {
        let from: Vec<u8> = (0..=255).collect();
        let mut to = vec![0u8; 256];
        let far = Far::Foreign { pid: std::process::id(), addr: to.as_mut_ptr() as u64 };
        write(&[piece(&from[..100]), piece(&from[100..])], far).expect("our own memory");
        assert_eq!(to, from);
        let mut back = vec![0u8; 256];
        let (front, end) = back.split_at_mut(3);
        read(&[piece(front), piece(end)], far).expect("our own memory");
        assert_eq!(back, from);
    }

    #[test]
    fn the_last_word_of_a_message_is_a_piece_of_its_own() {
        let near = |at: u64, pieces: &[usize]| {
            let pieces: Vec<Piece> = pieces.iter().map(|&len| Piece { addr: 1000, len }).collect();
            let mut vectors = Vectors::default();
            vectors.push(Direction::Write, &pieces, at);
            let near = vectors.near.iter().map(|piece| piece.len).collect::<Vec<_>>();
            vectors.push(Direction::Write, &pieces, at + length(&pieces) as u64);
            assert_eq!(vectors.far.len(), 1, "the second begins where the first ends");
            near
        };
        assert_eq!(near(5000, &[64]), [56, 8]);
        assert_eq!(near(5000, &[9]), [8, 1]);
        assert_eq!(near(5007, &[9]), [1, 8]);
        assert_eq!(near(5000, &[8]), [8]);
        assert_eq!(near(5000, &[12]), [8, 4]);
        assert_eq!(near(5000, &[100, 0, 3]), [100, 3], "the bytes of a piece stay together");
        assert_eq!(near(5000, &[100, 20]), [100, 12, 8]);
    }

    /// Observes how the kernel writes another process's memory, which no document specifies. A reader polls
    /// while words change between two values. A word of 8 bytes is never seen half written. For shorter units
    /// the result depends on the processor, so the test prints it.
    #[test]
    fn the_kernel_writes_words_whole() {
        const ROUNDS: u64 = 20_000;
        let target: [AtomicU64; 2] = Default::default();
        let (words, halves) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let addr = target.as_ptr() as u64;
                for round in 0..ROUNDS {
                    let bytes = [if round % 2 == 0 { 0xff } else { 0u8 }; 12];
                    let far = Far::Foreign { pid: std::process::id(), addr };
                    write(&[piece(&bytes)], far).expect("our own memory");
                }
            });
            let (mut words, mut halves) = (0u64, 0u64);
            while !writer.is_finished() {
                let (word, half) = (target[0].load(Acquire), target[1].load(Acquire) as u32);
                words += u64::from(![0, u64::MAX].contains(&word));
                halves += u64::from(![0, u32::MAX].contains(&half));
            }
            (words, halves)
        });
        println!("{halves} units of 4 bytes were seen half written");
        assert_eq!(words, 0, "words of 8 bytes were seen half written");
    }

    #[test]
    fn what_is_not_mapped_is_unreachable() {
        let far = Far::Foreign { pid: std::process::id(), addr: 8 };
        assert_eq!(write(&[piece(&[1, 2])], far), Err(Unreachable::Memory));
    }

    /// The error names the side whose memory is missing. If the memory of both sides is missing, the error
    /// names this process's.
    #[test]
    fn a_missing_page_of_this_process_is_told_from_one_of_the_far_side() {
        let pid = std::process::id();
        let mut there = [0u8; 16];
        let mapped = Far::Foreign { pid, addr: there.as_mut_ptr() as u64 };
        let (nowhere, missing) = (Far::Foreign { pid, addr: 8 }, Piece { addr: 16, len: 2 });
        let mut own = [1u8, 2];
        let here = Piece { addr: own.as_mut_ptr() as u64, len: 2 };
        assert_eq!(write(&[missing], mapped), Err(Unreachable::Local));
        assert_eq!(write(&[missing], nowhere), Err(Unreachable::Local));
        assert_eq!(read(&[missing], mapped), Err(Unreachable::Local));
        assert_eq!(read(&[missing], nowhere), Err(Unreachable::Local));
        assert_eq!(write(&[here], nowhere), Err(Unreachable::Memory));
        assert_eq!(read(&[here], nowhere), Err(Unreachable::Memory));
        // A fault after some bytes were moved.
        assert_eq!(write(&[here, missing], mapped), Err(Unreachable::Local));
        assert_eq!(read(&[here, missing], mapped), Err(Unreachable::Local));
    }
}
