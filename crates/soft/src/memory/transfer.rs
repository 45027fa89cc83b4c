//! Moves payload: within this process, to and from shared memory, and to and from other processes by
//! process_vm_writev(2) and process_vm_readv(2).

use super::maps;
use crate::errno::Errno;
use crate::point::{Point, reach};
use doorbell_launch::say::say;
use doorbell_transport::AtomicOp;
use libc::iovec;
use std::mem::{align_of, offset_of, size_of};
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::*};

/// A piece of memory of this process or of another, laid out as an `iovec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Piece {
    pub(crate) addr: u64,
    pub(crate) len: usize,
}

const _: () = {
    assert!(size_of::<Piece>() == size_of::<iovec>() && align_of::<Piece>() == align_of::<iovec>());
    assert!(offset_of!(Piece, addr) == offset_of!(iovec, iov_base));
    assert!(offset_of!(Piece, len) == offset_of!(iovec, iov_len));
};

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

/// Why bytes could not be moved to or from the far side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// The process has exited.
    Gone,
    /// The memory is not mapped there, or the kernel denies this process access to it.
    Memory,
    /// The memory of this process is not mapped, or not for this access.
    Local,
}

/// Copies the pieces to the far side, one after the other. The end of the message becomes visible last: see
/// [`copy_ending_last`] and [`Vectors::push`].
#[inline]
pub(crate) fn write(pieces: &[Piece], far: Far) -> Result<(), Unreachable> {
    match far {
        Far::Mapped(mut to) => {
            reach(Point::BeforeCopy);
            if let [piece] = pieces {
                // SAFETY: as below.
                unsafe { copy_ending_last(piece.addr as *const u8, to, piece.len) };
                return Ok(());
            }
            let last = pieces.iter().rposition(|piece| piece.len > 0);
            for (n, piece) in pieces.iter().enumerate() {
                // SAFETY: both ranges were checked against their regions, which the program keeps mapped
                // while they are registered. The far range lies in a mapped segment or in this process. Both
                // may race with the program as a NIC's DMA does.
                unsafe {
                    if Some(n) == last {
                        copy_ending_last(piece.addr as *const u8, to, piece.len);
                    } else {
                        std::ptr::copy(piece.addr as *const u8, to, piece.len);
                    }
                    to = to.add(piece.len);
                }
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
        Far::Mapped(mut from) => {
            for piece in pieces {
                // SAFETY: as in `write`.
                unsafe {
                    std::ptr::copy(from, piece.addr as *mut u8, piece.len);
                    from = from.add(piece.len);
                }
            }
            Ok(())
        }
        Far::Foreign { pid, addr } => move_foreign(Direction::Read, pieces, pid, addr),
    }
}

/// Copies a few bytes; lengths from 4 to 16 need no function call.
///
/// # Safety
/// Both ranges are mapped and do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: all within the ranges.
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

/// Copies so that the end of the message is stored after all other bytes. The end is the longest aligned word
/// of 8, 4, 2 or 1 bytes, and is stored whole. So are aligned words of 8 bytes in short messages.
///
/// # Safety
/// Both ranges are mapped.
#[inline(always)]
pub(crate) unsafe fn copy_ending_last(from: *const u8, to: *mut u8, len: usize) {
    if len == 0 {
        return;
    }
    // SAFETY: all within the ranges. Stores happen in the order written here: x86 keeps it, and the fence
    // keeps the compiler from changing it.
    unsafe {
        let end = to.add(len);
        if len >= 8 && (end as usize).is_multiple_of(8) {
            let body = len - 8;
            if body > 0 {
                copy_body(from, to, body);
                std::sync::atomic::fence(Release);
                reach(Point::BeforeLastWord);
            }
            let word = from.add(body).cast::<u64>().read_unaligned();
            (*end.sub(8).cast::<AtomicU64>()).store(word, Release);
        } else {
            let fits = |width: &usize| len >= *width && (end as usize).is_multiple_of(*width);
            let width = [4, 2].into_iter().find(fits).unwrap_or(1);
            std::ptr::copy(from, to, len - width);
            std::sync::atomic::fence(Release);
            let (last, end) = (from.add(len - width), end.sub(width));
            match width {
                4 => (*end.cast::<AtomicU32>()).store(last.cast::<u32>().read_unaligned(), Release),
                2 => (*end.cast::<AtomicU16>()).store(last.cast::<u16>().read_unaligned(), Release),
                _ => (*end.cast::<AtomicU8>()).store(last.read(), Release),
            }
        }
    }
}

/// Copies. A few whole words are stored word by word.
///
/// # Safety
/// Both ranges are mapped.
#[inline]
unsafe fn copy_body(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: within the ranges.
    unsafe {
        if len <= 56 && len.is_multiple_of(8) {
            for at in (0..len).step_by(8) {
                let word = from.add(at).cast::<u64>().read_unaligned();
                (*to.add(at).cast::<AtomicU64>()).store(word, Relaxed);
            }
        } else {
            std::ptr::copy(from, to, len);
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

/// Pieces that one call of process_vm_writev(2) takes on each side (`IOV_MAX`).
const MOST_PIECES: usize = 1024;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Bytes at the end of a message that are a piece of their own, so that they are copied last.
const TAIL: usize = 8;

/// Messages between this process and another, moved in order by as few system calls as possible.
///
/// A piece at the far side costs the kernel about 0.4 us, because it looks up its page. A piece at the near
/// side costs 0.02 us, and a call 1.4 us. So a message is one piece at the far side, or none if it begins
/// where the previous one ends. Bytes that must be copied separately are split at the near side.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    near: Vec<Piece>,
    far: Vec<Piece>,
    /// Indices of the first pieces that are not completely moved.
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

    /// Lets the bytes be moved again from the first on; `false` if a piece was moved in parts.
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

    /// Adds a message between these pieces and `addr` in the other process. It moves nothing yet.
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
        // The kernel copies piece by piece, so a separate piece at the end is copied last.
        if direction == Direction::Write
            && let Some(last) = self.near.last_mut()
            && last.len > TAIL
        {
            last.len -= TAIL;
            let tail = Piece { addr: last.addr + last.len as u64, len: TAIL };
            self.near.push(tail);
        }
        match self.far.last_mut() {
            Some(last) if last.addr.wrapping_add(last.len as u64) == addr => last.len += len,
            _ => self.far.push(Piece { addr, len }),
        }
    }

    /// Whether all bytes have been moved.
    pub(crate) fn is_done(&self) -> bool {
        self.far_at == self.far.len()
    }

    /// Moves the bytes by one system call, which may move only some of them; returns the number of moved
    /// bytes.
    pub(crate) fn call(&mut self, direction: Direction, pid: u32) -> Result<usize, Unreachable> {
        // By libc: rustix has neither call.
        let call = match direction {
            Direction::Write => libc::process_vm_writev,
            Direction::Read => libc::process_vm_readv,
        };
        let (near, far) = (&self.near[self.near_at..], &self.far[self.far_at..]);
        reach(Point::BeforeForeign);
        // SAFETY: both lists are laid out as `iovec`s. The near ranges were checked against their regions.
        // The kernel checks the far ranges, and both against the mappings.
        let moved = unsafe {
            let (near_list, far_list) = (near.as_ptr().cast(), far.as_ptr().cast());
            call(pid as libc::pid_t, near_list, near.len() as _, far_list, far.len() as _, 0)
        };
        reach(Point::AfterForeign);
        match usize::try_from(moved) {
            Ok(0) => Err(Unreachable::Memory),
            Ok(moved) => {
                self.skip(moved);
                Ok(moved)
            }
            Err(_) => match refusal(std::io::Error::last_os_error()) {
                Unreachable::Memory if self.is_local_fault(direction, pid) => Err(Unreachable::Local),
                cause => Err(cause),
            },
        }
    }

    /// Whether the next byte cannot be moved because of this process's memory, whatever the far side's memory
    /// is. The kernel reports one error for both sides.
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

/// Whether the kernel lets this process read a byte of a process.
fn is_readable(pid: u32, addr: u64) -> bool {
    let mut byte = 0u8;
    let local = iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = iovec { iov_base: std::ptr::without_provenance_mut(addr as usize), iov_len: 1 };
    // SAFETY: the near side is a byte of this function, and the kernel checks the far side.
    unsafe { libc::process_vm_readv(pid as libc::pid_t, &local, 1, &remote, 1, 0) == 1 }
}

/// Whether some of these bytes of this process cannot be read, or not be written if `to_write` is set.
#[cold]
pub(crate) fn is_missing(bytes: Range<u64>, to_write: bool) -> bool {
    // The list of mappings does not show that a mapped file has become shorter.
    let mut pages = std::iter::once(bytes.start)
        .chain((bytes.start / PAGE + 1..bytes.end.div_ceil(PAGE)).map(|n| n * PAGE));
    maps::check(bytes.clone(), to_write) == Err(Errno(libc::EFAULT))
        || pages.any(|page| !is_readable(std::process::id(), page))
}

#[cold]
fn refusal(error: std::io::Error) -> Unreachable {
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

/// Whether an atomic changes a word with this value. A comparison that fails writes nothing.
fn changes(op: AtomicOp, found: u64) -> bool {
    !matches!(op, AtomicOp::CompareSwap { compare, .. } if compare != found)
}

/// How often an atomic is begun again because something has happened between its load and its store.
const ATOMIC_TRIES: u32 = 4;

/// Carries out an atomic on a word that is mapped here; returns its old value. `has_late` is called between
/// the load of the word and its change. If the word stays as it is and `has_late` returns `true`, it is
/// loaded again.
///
/// # Safety
/// The word is mapped and aligned.
pub(crate) unsafe fn atomic_mapped(word: *mut u8, op: AtomicOp, has_late: impl Fn() -> bool) -> u64 {
    // SAFETY: vouched for by the caller.
    let word = unsafe { &*word.cast::<AtomicU64>() };
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
    // Other processes keep changing the word.
    match op {
        AtomicOp::CompareSwap { compare, swap } => {
            word.compare_exchange(compare, swap, SeqCst, SeqCst).unwrap_or_else(|found| found)
        }
        AtomicOp::FetchAdd { add } => word.fetch_add(add, SeqCst),
    }
}

/// Carries out an atomic on a word of another process; returns its old value. It is atomic only against
/// callers that hold the lock of that word. `has_late` is called after the word is read. If it returns
/// `true`, the word is read again.
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

    #[test]
    fn every_length_and_alignment_is_copied_whole() {
        let from: Vec<u8> = (0..200u8).collect();
        for start in 0..9 {
            for len in 0..150 {
                let mut to = [0xff; 200];
                let parts =
                    [piece(&from[start..start + len / 2]), piece(&from[start + len / 2..start + len])];
                write(&parts, Far::Mapped(to[20..].as_mut_ptr())).expect("mapped");
                assert_eq!(&to[20..20 + len], &from[start..start + len], "start {start} length {len}");
                assert!(
                    to[..20].iter().chain(&to[20 + len..]).all(|&b| b == 0xff),
                    "start {start} length {len}"
                );
            }
        }
    }

    /// A reader polls an aligned word of 2 or 4 bytes while a writer changes it.
    #[test]
    fn a_short_aligned_word_is_never_torn() {
        let target = AtomicU64::new(0);
        let at = (&raw const target).cast_mut().cast::<u8>();
        let rounds = 200_000u32;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let at = (&raw const target).cast_mut().cast::<u8>();
                for round in 0..rounds {
                    let bytes = [if round % 2 == 0 { 0xff } else { 0 }; 4];
                    for (offset, len) in [(0, 4), (4, 2)] {
                        // SAFETY: within the word.
                        unsafe { copy_ending_last(bytes.as_ptr(), at.add(offset), len) };
                    }
                }
            });
            for _ in 0..rounds {
                // SAFETY: within the word, and aligned.
                let (four, two) = unsafe {
                    ((*at.cast::<AtomicU32>()).load(Acquire), (*at.add(4).cast::<AtomicU16>()).load(Acquire))
                };
                assert!([0, u32::MAX].contains(&four) && [0, u16::MAX].contains(&two), "{four:x} {two:x}");
            }
        });
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
    fn the_end_of_a_message_is_a_piece_of_its_own() {
        let near = |pieces: &[usize]| {
            let pieces: Vec<Piece> = pieces.iter().map(|&len| Piece { addr: 1000, len }).collect();
            let mut vectors = Vectors::default();
            vectors.push(Direction::Write, &pieces, 5000);
            vectors.push(Direction::Write, &pieces, 5000 + pieces.iter().map(|p| p.len as u64).sum::<u64>());
            assert_eq!(vectors.far.len(), 1, "the second begins where the first ends");
            vectors.near[..vectors.near.len() / 2].iter().map(|piece| piece.len).collect::<Vec<_>>()
        };
        assert_eq!(near(&[64]), [56, 8]);
        assert_eq!(near(&[9]), [1, 8]);
        assert_eq!(near(&[8]), [8]);
        assert_eq!(near(&[100, 0, 3]), [100, 3]);
        assert_eq!(near(&[100, 20]), [100, 12, 8]);
    }

    #[test]
    fn what_is_not_mapped_is_unreachable() {
        let far = Far::Foreign { pid: std::process::id(), addr: 8 };
        assert_eq!(write(&[piece(&[1, 2])], far), Err(Unreachable::Memory));
    }

    /// The side whose memory is missing is named. If both sides' memory is missing, it is this process's.
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
        // A fault behind bytes that were moved.
        assert_eq!(write(&[here, missing], mapped), Err(Unreachable::Local));
        assert_eq!(read(&[here, missing], mapped), Err(Unreachable::Local));
    }
}
