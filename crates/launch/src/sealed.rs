//! Files in memory that processes share, and that nobody can shrink: no access to what is mapped of one can fail later.

use libc::c_void;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// Whether a file of this process may have so many bytes (`RLIMIT_FSIZE`): the kernel would end the process otherwise.
pub fn check_file_size(bytes: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is filled in; this cannot fail with these arguments.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    if bytes <= limit.rlim_cur {
        return Ok(());
    }
    let allowed = limit.rlim_cur;
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
        // SAFETY: the name is a string; the result is a new file descriptor or -1.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just created, owned by nobody else.
        let file = unsafe { File::from_raw_fd(fd) };
        check_file_size(bytes)?;
        file.set_len(bytes)?;
        // SAFETY: a command on a file of our own.
        let sealed = unsafe {
            libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL)
        };
        if sealed < 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = Sealed::map(&file, bytes)?;
        Ok((file, mapped))
    }

    /// The first `mapped` bytes of another process's file; refused where it is not of the right size and sealed.
    pub fn open(file: &File, bytes: u64, mapped: u64) -> io::Result<Sealed> {
        // SAFETY: a query of an open file.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 || file.metadata()?.len() != bytes {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Sealed::map(file, mapped)
    }

    /// The `bytes` of the file from a page on that is mapped here; they may go on behind what is.
    pub fn map_more(&self, at: u64, bytes: u64) -> io::Result<Sealed> {
        if at >= self.bytes {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: a page of our own mapping; with an old size of 0 mremap(2) leaves it as it is, and makes another
        // mapping of the same file from there on.
        let base = unsafe {
            let from = self.base.add(at as usize).cast();
            libc::mremap(from, 0, bytes as usize, libc::MREMAP_MAYMOVE)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Sealed { base: base.cast(), bytes })
    }

    fn map(file: &File, bytes: u64) -> io::Result<Sealed> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        // SAFETY: a new mapping, where the kernel finds room.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes as usize, protection, flags, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
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
        unsafe { libc::munmap(self.base.cast::<c_void>(), self.bytes as usize) };
    }
}
