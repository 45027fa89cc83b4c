//! Files in memory that processes share, and that nobody can shrink: no access to what is mapped of one can fail later.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mremap, munmap};
use rustix::process::{Resource, getrlimit};
use std::ffi::CStr;
use std::fs::File;
use std::io;

/// Whether a file of this process may have so many bytes (`RLIMIT_FSIZE`): the kernel would end the process otherwise.
pub fn check_file_size(bytes: u64) -> io::Result<()> {
    let Some(allowed) = getrlimit(Resource::Fsize).current.filter(|allowed| bytes > *allowed) else {
        return Ok(());
    };
    let why = format!(
        "a file of {bytes} bytes is needed, most of which take no room, but ulimit -f allows {allowed}"
    );
    Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
}

/// A file of which a part is mapped as long as this lives. Its pages exist when they are first touched.
#[derive(Debug)]
pub struct Sealed {
    base: *mut u8,
    bytes: u64,
}

// SAFETY: the memory is shared with other processes in any case; who uses it does so by atomics, or by
// copies of payload, which race as a NIC's do.
unsafe impl Send for Sealed {}
// SAFETY: as above.
unsafe impl Sync for Sealed {}

impl Sealed {
    /// A new file of zeros, closed where the program becomes another one.
    pub fn create(name: &CStr, bytes: u64) -> io::Result<(File, Sealed)> {
        let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        check_file_size(bytes)?;
        file.set_len(bytes)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapped = Sealed::map(&file, bytes)?;
        Ok((file, mapped))
    }

    /// The first `mapped` bytes of another process's file; refused where it is not of the right size and sealed.
    pub fn open(file: &File, bytes: u64, mapped: u64) -> io::Result<Sealed> {
        let is_sealed = fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        if !is_sealed || file.metadata()?.len() != bytes {
            return Err(Errno::INVAL.into());
        }
        Sealed::map(file, mapped)
    }

    /// The `bytes` of the file from a page on that is mapped here; they may go on behind what is.
    pub fn map_more(&self, at: u64, bytes: u64) -> io::Result<Sealed> {
        if at >= self.bytes {
            return Err(Errno::INVAL.into());
        }
        // SAFETY: a page of our own mapping; with an old size of 0 mremap(2) leaves it as it is, and makes another
        // mapping of the same file from there on.
        let base = unsafe {
            let from = self.base.add(at as usize).cast();
            mremap(from, 0, bytes as usize, MremapFlags::MAYMOVE)?
        };
        Ok(Sealed { base: base.cast(), bytes })
    }

    fn map(file: &File, bytes: u64) -> io::Result<Sealed> {
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping, where the kernel finds room.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes as usize, protection, flags, file, 0)? };
        Ok(Sealed { base: base.cast(), bytes })
    }

    /// Address of the first byte, which is that of a page.
    pub fn base(&self) -> *mut u8 {
        self.base
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        // SAFETY: our own mapping; no reference outlives `self`.
        let _ = unsafe { munmap(self.base.cast(), self.bytes as usize) };
    }
}
