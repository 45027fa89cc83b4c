//! Access to the program's memory through the pointers of a command. As in the kernel, a command with an
//! invalid pointer fails with `EFAULT`.
//!
//! The accesses use process_vm_readv(2) and process_vm_writev(2) on this process itself. These calls are
//! libc's, because rustix has neither.

use crate::errno::Errno;
use std::io;

const FAULT: Errno = Errno(libc::EFAULT);

/// Reads the bytes at an address.
///
/// # Errors
/// `EFAULT` if not all bytes can be read.
///
/// # Safety
/// No other thread changes the bytes during the call.
pub(super) unsafe fn read(at: u64, len: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; len];
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
    // SAFETY: `here` has room for the bytes; the kernel checks that they exist.
    let read = unsafe { libc::process_vm_readv(own_pid(), &here, 1, &there(at, len), 1, 0) };
    // SAFETY: as the caller says.
    checked(read, len, || unsafe { bytes.as_mut_ptr().copy_from(at as *const u8, len) })?;
    Ok(bytes)
}

/// Writes bytes to an address.
///
/// # Errors
/// `EFAULT` if not all bytes can be written.
///
/// # Safety
/// This thread may write to the memory there.
pub(super) unsafe fn write(at: u64, bytes: &[u8]) -> Result<(), Errno> {
    let len = bytes.len();
    let here = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: len };
    // SAFETY: the bytes outlive the call; the kernel checks that memory is mapped at the address.
    let written = unsafe { libc::process_vm_writev(own_pid(), &here, 1, &there(at, len), 1, 0) };
    // SAFETY: as the caller says.
    checked(written, len, || unsafe { (at as *mut u8).copy_from(bytes.as_ptr(), len) })
}

fn own_pid() -> libc::pid_t {
    std::process::id() as libc::pid_t
}

fn there(at: u64, len: usize) -> libc::iovec {
    libc::iovec { iov_base: at as *mut libc::c_void, iov_len: len }
}

/// Checks the result of a system call that moves bytes. If the kernel forbids the call altogether, as in some
/// containers, `otherwise` moves the bytes instead, and an invalid pointer then causes SIGSEGV.
fn checked(moved: isize, len: usize, otherwise: impl FnOnce()) -> Result<(), Errno> {
    match usize::try_from(moved) {
        Ok(moved) if moved == len => Ok(()),
        Ok(_) => Err(FAULT),
        Err(_) if io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) => Err(FAULT),
        Err(_) => {
            otherwise();
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_a_fault() {
        let word = [7u8; 8];
        // SAFETY: this test's own word, and addresses that the kernel checks first.
        unsafe {
            assert_eq!(read(word.as_ptr() as u64, 8), Ok(word.to_vec()));
            assert_eq!((read(8, 8), write(8, &word)), (Err(FAULT), Err(FAULT)));
            // A constant can only be read.
            let constant: &'static [u8; 8] = b"constant";
            assert_eq!(write(constant.as_ptr() as u64, &word), Err(FAULT));
            let mut to = [0u8; 8];
            assert_eq!((write(to.as_mut_ptr() as u64, &word), to), (Ok(()), word));
        }
    }
}
