//! Moving payload: within this process, to and from shared memory, and to and from other
//! processes by process_vm_writev(2) and process_vm_readv(2).

use libc::{c_void, iovec};
use std::sync::atomic::{AtomicU64, Ordering::*};

/// A piece of this process's memory, whose region has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) addr: u64,
    pub(crate) len: usize,
}

// SAFETY: a plain description; who uses it says why that is sound.
unsafe impl Send for Piece {}

/// Memory at the far side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Far {
    /// Mapped in this process too.
    Mapped(*mut u8),
    /// Only in another process.
    Foreign {
        /// The process.
        pid: u32,
        /// Address there.
        addr: u64,
    },
}

/// The far side's memory could not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// The process is gone.
    Gone,
    /// The memory is not mapped there, or the kernel does not let this process at it.
    Memory,
}

/// Copies the pieces to the far side, one after the other. What is written last becomes visible
/// last: the word, or the byte, that ends the message.
pub(crate) fn write(pieces: &[Piece], far: Far) -> Result<(), Unreachable> {
    match far {
        Far::Mapped(mut to) => {
            let last = pieces.iter().rposition(|piece| piece.len > 0);
            for (n, piece) in pieces.iter().enumerate() {
                // SAFETY: both ranges were checked against their regions, which the program keeps
                // mapped while they are registered; the far one lies in a mapped segment or in
                // this process. They may race with the program as a NIC's DMA does.
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
        Far::Foreign { pid, addr } => move_foreign(pieces, pid, addr, libc::process_vm_writev, true),
    }
}

/// Copies from the far side into the pieces, one after the other.
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
        Far::Foreign { pid, addr } => move_foreign(pieces, pid, addr, libc::process_vm_readv, false),
    }
}

/// Copies so that the last word, where it is aligned, or else the last byte is stored after all
/// others. Aligned words of short messages are stored whole.
///
/// # Safety
/// Both ranges are mapped.
unsafe fn copy_ending_last(from: *const u8, to: *mut u8, len: usize) {
    if len == 0 {
        return;
    }
    // SAFETY: all within the ranges; the order of stores is the order here, as x86 keeps it and
    // the fence keeps the compiler.
    unsafe {
        let end = to.add(len);
        if len >= 8 && (end as usize).is_multiple_of(8) {
            let body = len - 8;
            if body > 0 {
                copy_body(from, to, body);
                std::sync::atomic::fence(Release);
            }
            let word = from.add(body).cast::<u64>().read_unaligned();
            (*end.sub(8).cast::<AtomicU64>()).store(word, Release);
        } else {
            std::ptr::copy(from, to, len - 1);
            std::sync::atomic::fence(Release);
            end.sub(1).write_volatile(from.add(len - 1).read());
        }
    }
}

/// Copies, in whole words where both are aligned and few.
///
/// # Safety
/// Both ranges are mapped.
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

/// process_vm_writev(2) or process_vm_readv(2).
type VmCall = unsafe extern "C" fn(
    libc::pid_t,
    *const iovec,
    libc::c_ulong,
    *const iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;

/// Bytes after which a part of a message is copied by the next call: the kernel pins its pages.
const MOST_PER_CALL: usize = 1 << 30;

fn move_foreign(
    pieces: &[Piece],
    pid: u32,
    addr: u64,
    call: VmCall,
    in_order: bool,
) -> Result<(), Unreachable> {
    let total: usize = pieces.iter().map(|p| p.len).sum();
    let mut done = 0;
    let mut local = Vec::new();
    let mut one = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }];
    while done < total {
        let local: &[iovec] = if let (0, [piece]) = (done, pieces) {
            one[0] = iovec { iov_base: piece.addr as *mut c_void, iov_len: piece.len.min(MOST_PER_CALL) };
            &one
        } else {
            local.clear();
            rest_of(pieces, done, &mut local);
            &local
        };
        let left = (total - done).min(MOST_PER_CALL);
        let remote =
            |at: usize, len: usize| iovec { iov_base: (addr as usize + at) as *mut c_void, iov_len: len };
        // The kernel works through the list in order, so the end of the message is written last.
        let tail = if in_order && left > 8 && done + left == total { 8 } else { 0 };
        let far = [remote(done, left - tail), remote(done + left - tail, tail)];
        let lists = if tail > 0 { 2 } else { 1 };
        // SAFETY: the near ranges were checked against their regions; the kernel checks the far
        // ones, and both against what is mapped.
        let moved =
            unsafe { call(pid as libc::pid_t, local.as_ptr(), local.len() as _, far.as_ptr(), lists, 0) };
        match usize::try_from(moved) {
            Ok(0) => return Err(Unreachable::Memory),
            Ok(moved) => done += moved,
            Err(_) => return Err(refusal(std::io::Error::last_os_error())),
        }
    }
    Ok(())
}

/// What is left of the pieces after the first `done` bytes.
fn rest_of(pieces: &[Piece], mut done: usize, rest: &mut Vec<iovec>) {
    for piece in pieces {
        let skip = done.min(piece.len);
        done -= skip;
        if piece.len > skip {
            rest.push(iovec {
                iov_base: (piece.addr as usize + skip) as *mut c_void,
                iov_len: piece.len - skip,
            });
        }
    }
}

#[cold]
fn refusal(error: std::io::Error) -> Unreachable {
    match error.raw_os_error() {
        Some(libc::ESRCH) => Unreachable::Gone,
        Some(libc::EPERM) => {
            static ONCE: std::sync::Once = std::sync::Once::new();
            ONCE.call_once(|| {
                eprintln!(
                    "doorbell: the kernel does not let this process at another's memory (process_vm_writev: {error}); \
                     run both as the same user, without setuid, and with Yama's ptrace_scope at most 1"
                );
            });
            Unreachable::Memory
        }
        _ => Unreachable::Memory,
    }
}

/// An atomic on a word that is mapped here; returns what it was.
///
/// # Safety
/// The word is mapped and aligned.
pub(crate) unsafe fn atomic_mapped(word: *mut u8, op: AtomicWork) -> u64 {
    // SAFETY: vouched for by the caller.
    let word = unsafe { &*word.cast::<AtomicU64>() };
    match op {
        AtomicWork::CompareSwap { compare, swap } => {
            word.compare_exchange(compare, swap, SeqCst, SeqCst).unwrap_or_else(|found| found)
        }
        AtomicWork::FetchAdd(add) => word.fetch_add(add, SeqCst),
    }
}

/// What an atomic does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AtomicWork {
    /// Compare-and-swap.
    CompareSwap {
        /// What the word must equal.
        compare: u64,
        /// What replaces it.
        swap: u64,
    },
    /// Fetch-and-add.
    FetchAdd(u64),
}

/// An atomic on a word of another process. Atomic against others that hold the same lock.
pub(crate) fn atomic_foreign(pid: u32, addr: u64, op: AtomicWork) -> Result<u64, Unreachable> {
    let far = Far::Foreign { pid, addr };
    let mut word = 0u64;
    let here = [Piece { addr: (&raw mut word) as u64, len: 8 }];
    read(&here, far)?;
    let original = word;
    word = match op {
        AtomicWork::CompareSwap { compare, .. } if original != compare => return Ok(original),
        AtomicWork::CompareSwap { swap, .. } => swap,
        AtomicWork::FetchAdd(add) => original.wrapping_add(add),
    };
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
    fn what_is_not_mapped_is_unreachable() {
        let far = Far::Foreign { pid: std::process::id(), addr: 8 };
        assert_eq!(write(&[piece(&[1, 2])], far), Err(Unreachable::Memory));
    }
}
