//! Shared memory files (memfd_create(2)). A seal keeps all processes from shrinking them, so an access to a
//! mapping cannot fail later.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mremap, munmap};
use rustix::process::{Resource, getrlimit};
use std::ffi::CStr;
use std::fs::File;
use std::io;

/// Checks that `RLIMIT_FSIZE` allows this process a file of this many bytes. Without the check, the kernel
/// would kill the process by SIGXFSZ.
pub fn check_file_size(bytes: u64) -> io::Result<()> {
    let Some(allowed) = getrlimit(Resource::Fsize).current.filter(|allowed| bytes > *allowed) else {
        return Ok(());
    };
    let why = format!(
        "a file of {bytes} bytes is needed, but ulimit -f allows {allowed}; most of the file takes no space"
    );
    Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
}

/// A mapping of a sealed file, which ends when the value is dropped. The kernel allocates a page at its first
/// access.
#[derive(Debug)]
pub struct Sealed {
    base: *mut u8,
    bytes: u64,
}

// SAFETY: other processes access the memory anyway, so further threads add no new kind of race. All accesses
// are atomics, or copies of payload, which race as a NIC's copies do.
unsafe impl Send for Sealed {}
// SAFETY: the reason given for `Send` holds for references too.
unsafe impl Sync for Sealed {}

impl Sealed {
    /// Creates and maps a file of zeros. execve(2) closes the file.
    pub fn create(name: &CStr, bytes: u64) -> io::Result<(File, Sealed)> {
        let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        check_file_size(bytes)?;
        file.set_len(bytes)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapped = Sealed::map(&file, bytes)?;
        Ok((file, mapped))
    }

    /// Maps the first `mapped` bytes of another process's file. Fails unless the file has `bytes` bytes and
    /// is sealed against shrinking.
    pub fn open(file: &File, bytes: u64, mapped: u64) -> io::Result<Sealed> {
        let is_sealed = fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        if !is_sealed || file.metadata()?.len() != bytes {
            return Err(Errno::INVAL.into());
        }
        Sealed::map(file, mapped)
    }

    /// Maps `bytes` bytes of the file once more, from offset `at` of this mapping on. `at` is the start of a
    /// page. The new mapping may extend beyond the end of this mapping.
    pub fn map_more(&self, at: u64, bytes: u64) -> io::Result<Sealed> {
        if at >= self.bytes {
            return Err(Errno::INVAL.into());
        }
        // SAFETY: the address is a page of this mapping. With an old size of 0, mremap(2) leaves this mapping
        // unchanged, and maps the file once more from this page on.
        let base = unsafe {
            let from = self.base.add(at as usize).cast();
            mremap(from, 0, bytes as usize, MremapFlags::MAYMOVE)?
        };
        Ok(Sealed { base: base.cast(), bytes })
    }

    fn map(file: &File, bytes: u64) -> io::Result<Sealed> {
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes as usize, protection, flags, file, 0)? };
        Ok(Sealed { base: base.cast(), bytes })
    }

    /// Address of the first byte, at the beginning of a page.
    pub fn base(&self) -> *mut u8 {
        self.base
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to `self`, and no reference outlives `self`.
        let _ = unsafe { munmap(self.base.cast(), self.bytes as usize) };
    }
}
