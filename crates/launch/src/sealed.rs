//! Files in memory that processes share, and that no process can shrink. So no access to a mapping can fail
//! later.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mremap, munmap};
use rustix::process::{Resource, getrlimit};
use std::ffi::CStr;
use std::fs::File;
use std::io;

/// Whether a file of this process may have this many bytes (`RLIMIT_FSIZE`). The kernel would end the process
/// otherwise.
pub fn check_file_size(bytes: u64) -> io::Result<()> {
    let Some(allowed) = getrlimit(Resource::Fsize).current.filter(|allowed| bytes > *allowed) else {
        return Ok(());
    };
    let why = format!(
        "a file of {bytes} bytes is needed, but ulimit -f allows {allowed}; most of the file takes no space"
    );
    Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
}

/// A file, a part of which is mapped as long as this lives. Its pages come into being when they are first
/// touched.
#[derive(Debug)]
pub struct Sealed {
    base: *mut u8,
    bytes: u64,
}

// SAFETY: the memory is shared with other processes in any case. It is accessed by atomics, or by copies of
// payload, which race as a NIC's copies do.
unsafe impl Send for Sealed {}
// SAFETY: the reason given for `Send` holds for references too.
unsafe impl Sync for Sealed {}

impl Sealed {
    /// A new file of zeros. It is closed if the program becomes another one (execve(2)).
    pub fn create(name: &CStr, bytes: u64) -> io::Result<(File, Sealed)> {
        let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        check_file_size(bytes)?;
        file.set_len(bytes)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapped = Sealed::map(&file, bytes)?;
        Ok((file, mapped))
    }

    /// Maps the first `mapped` bytes of another process's file. Fails if the file has another size or is not
    /// sealed.
    pub fn open(file: &File, bytes: u64, mapped: u64) -> io::Result<Sealed> {
        let is_sealed = fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        if !is_sealed || file.metadata()?.len() != bytes {
            return Err(Errno::INVAL.into());
        }
        Sealed::map(file, mapped)
    }

    /// Maps `bytes` bytes of the file, from the page at `at`, which is mapped here. They may extend beyond
    /// this mapping.
    pub fn map_more(&self, at: u64, bytes: u64) -> io::Result<Sealed> {
        if at >= self.bytes {
            return Err(Errno::INVAL.into());
        }
        // SAFETY: a page of this mapping. With an old size of 0, mremap(2) leaves it unchanged, and makes
        // another mapping of the same file from there on.
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
        // SAFETY: a mapping of `self`. No reference outlives `self`.
        let _ = unsafe { munmap(self.base.cast(), self.bytes as usize) };
    }
}
