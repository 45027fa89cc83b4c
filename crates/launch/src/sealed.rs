//! Files in memory that processes share, and that no process can shrink. So no access to a mapping can fail
//! later.
//!
//! A file is much larger than the parts of it that are used, and its pages come into being when they are
//! first touched. But a core dump (core(5)) and mlockall(2) touch every page that is mapped with access. So a
//! process maps only the used parts, and maps them again when they have grown.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mmap, mprotect, mremap, munmap,
};
use rustix::process::{Resource, getrlimit};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Parts grow to multiples of this.
pub const STEP: u64 = 64 << 10;

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

/// A new file of zeros. It is closed if the program becomes another one (execve(2)).
pub fn create(name: &CStr, bytes: u64) -> io::Result<File> {
    let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    check_file_size(bytes)?;
    file.set_len(bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// Checks that another process's file has this size and is sealed.
pub fn check(file: &File, bytes: u64) -> io::Result<()> {
    let is_sealed = fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    if is_sealed && file.metadata()?.len() == bytes { Ok(()) } else { Err(Errno::INVAL.into()) }
}

/// Whether core dumps have a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InCore {
    /// They have it, because it belongs to this process.
    Yes,
    /// They leave it out.
    No,
}

/// Maps a file again that is mapped already, by mremap(2). Where mremap(2) cannot do this, as under
/// valgrind(1), it needs the file.
#[derive(Debug)]
pub struct Remapper(Option<File>);

impl Remapper {
    /// The remapper of a file.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn of(file: &File) -> io::Result<Remapper> {
        static IS_REPEATED: OnceLock<bool> = OnceLock::new();
        let repeat = || Mapped::of(file, 0, PAGE, ProtFlags::empty())?.repeat(0, PAGE);
        let is_repeated = *IS_REPEATED.get_or_init(|| repeat().is_ok());
        Ok(Remapper(if is_repeated { None } else { Some(file.try_clone()?) }))
    }

    /// Maps `bytes` bytes of the file, from byte `in_file` on. Byte `at` of `mapped` is mapped there, and has
    /// this access.
    fn map(
        &self,
        mapped: &Mapped,
        at: u64,
        in_file: u64,
        bytes: u64,
        access: ProtFlags,
    ) -> io::Result<Mapped> {
        match &self.0 {
            None => mapped.repeat(at, bytes),
            Some(file) => Mapped::of(file, in_file, bytes, access),
        }
    }
}

/// A mapping, as long as this lives.
#[derive(Debug)]
struct Mapped {
    base: *mut u8,
    bytes: u64,
}

// SAFETY: the memory is shared with other processes in any case. It is accessed by atomics, or by copies of
// payload, which race as a NIC's copies do.
unsafe impl Send for Mapped {}
// SAFETY: the reason given for `Send` holds for references too.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps `bytes` bytes of the file from byte `at` on.
    fn of(file: &File, at: u64, bytes: u64, access: ProtFlags) -> io::Result<Mapped> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes as usize, access, flags, file, at)? };
        Ok(Mapped { base: base.cast(), bytes })
    }

    /// Another mapping of the file, from the page at byte `at` of this one on. It may extend beyond this
    /// mapping. It has the page's access, and cores have it exactly if they have the page.
    fn repeat(&self, at: u64, bytes: u64) -> io::Result<Mapped> {
        // SAFETY: a page of this mapping. With an old size of 0, mremap(2) leaves it unchanged, and makes
        // another mapping of the same file from there on.
        let base = unsafe {
            let from = self.base.add(at as usize).cast();
            mremap(from, 0, bytes as usize, MremapFlags::MAYMOVE)?
        };
        Ok(Mapped { base: base.cast(), bytes })
    }

    /// Says whether cores have the bytes from `from` to `to`. A failure only changes the size of a core.
    fn advise(&self, from: u64, to: u64, in_core: InCore) {
        let advice = match in_core {
            InCore::Yes => Advice::LinuxDoDump,
            InCore::No => Advice::LinuxDontDump,
        };
        // SAFETY: pages of this mapping. Their content stays.
        let _ = unsafe { madvise(self.base.add(from as usize).cast(), (to - from) as usize, advice) };
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to `self`, and no reference outlives `self`.
        let _ = unsafe { munmap(self.base.cast(), self.bytes as usize) };
    }
}

/// A part of a file that is mapped with access, and can grow. Growing gives it another address. References to
/// its earlier address stay valid as long as the part lives, because the earlier mappings stay, too.
#[derive(Debug)]
pub struct Part {
    /// Bytes that are mapped at `base`.
    room: AtomicU64,
    base: AtomicPtr<u8>,
    /// Offset of the part in the file.
    at: u64,
    in_core: InCore,
    /// The mappings, each longer than the one before. The last one is at `base`.
    maps: Mutex<Vec<Mapped>>,
}

impl Part {
    /// Maps the first `bytes` bytes of the part that begins at byte `at` of the file.
    ///
    /// # Errors
    /// If the kernel refuses the mapping.
    pub fn new(file: &File, at: u64, bytes: u64, in_core: InCore) -> io::Result<Part> {
        let mapped = Mapped::of(file, at, bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        if in_core == InCore::No {
            mapped.advise(0, bytes, InCore::No);
        }
        let (room, base) = (AtomicU64::new(bytes), AtomicPtr::new(mapped.base));
        Ok(Part { room, base, at, in_core, maps: Mutex::new(vec![mapped]) })
    }

    /// Bytes that are mapped.
    #[inline(always)]
    pub fn room(&self) -> u64 {
        // Acquire: a thread that sees the room of a mapping also sees the mapping's address.
        self.room.load(Acquire)
    }

    /// Address of the first byte. At least the room that was seen before is mapped there.
    #[inline(always)]
    pub fn base(&self) -> *mut u8 {
        self.base.load(Acquire)
    }

    /// Maps the first `bytes` bytes, unless as many are mapped already.
    ///
    /// # Errors
    /// If the kernel refuses the mapping.
    pub fn grow(&self, bytes: u64, remapper: &Remapper) -> io::Result<()> {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let last = maps.last().expect("there is one from the beginning");
        if bytes <= last.bytes {
            return Ok(());
        }
        let mapped = remapper.map(last, 0, self.at, bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        match self.in_core {
            // Cores have each byte once.
            InCore::Yes => last.advise(0, last.bytes, InCore::No),
            InCore::No => mapped.advise(0, bytes, InCore::No),
        }
        // Release, and the base first: see `room`.
        self.base.store(mapped.base, Release);
        self.room.store(bytes, Release);
        maps.push(mapped);
        Ok(())
    }

    /// The size to which the part grows to have `bytes` bytes: larger by half, so that it does not grow
    /// often.
    pub fn next_size(&self, bytes: u64) -> u64 {
        let room = self.room();
        bytes.max(room + room / 2).next_multiple_of(STEP)
    }

    /// Offset of an address in the part, if a mapping of the part contains it.
    pub fn offset_of(&self, address: *const u8) -> Option<u64> {
        let maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let within = |mapped: &Mapped| {
            let at = (address as u64).checked_sub(mapped.base as u64)?;
            (at < mapped.bytes).then_some(at)
        };
        maps.iter().rev().find_map(within)
    }
}

/// Addresses for a part of a file, of which the beginning may be accessed.
#[derive(Debug)]
pub struct Reserve {
    mapped: Mapped,
    /// Offset in the file.
    at: u64,
    /// Bytes that may be accessed.
    open: u64,
}

impl Reserve {
    /// Addresses for `bytes` bytes from byte `at` of the file on, or for fewer if the kernel refuses so many.
    ///
    /// # Errors
    /// If the kernel refuses even one page.
    pub fn new(file: &File, at: u64, bytes: u64) -> io::Result<Reserve> {
        Reserve::largest(at, bytes, PAGE, |bytes| Mapped::of(file, at, bytes, ProtFlags::empty()))
    }

    /// As many bytes as `map` maps, at most `most` and at least `least`.
    fn largest(
        at: u64,
        most: u64,
        least: u64,
        map: impl Fn(u64) -> io::Result<Mapped>,
    ) -> io::Result<Reserve> {
        let mut bytes = most;
        loop {
            match map(bytes) {
                Ok(mapped) => {
                    mapped.advise(0, bytes, InCore::No);
                    return Ok(Reserve { mapped, at, open: 0 });
                }
                Err(error) if bytes == least => return Err(error),
                Err(_) => bytes = (bytes / 2).next_multiple_of(PAGE).max(least),
            }
        }
    }

    /// Address of the first byte.
    pub fn base(&self) -> u64 {
        self.mapped.base as u64
    }

    /// Offset of the first byte in the file.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Bytes that may be accessed.
    pub fn open(&self) -> u64 {
        self.open
    }

    /// Bytes that can be accessed. The last page never is, so that [`Reserve::behind`] finds it closed.
    pub fn most(&self) -> u64 {
        self.mapped.bytes.saturating_sub(PAGE)
    }

    /// Permits access to at least `bytes` bytes, which are at most [`Reserve::most`]. Cores have them.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn grow(&mut self, bytes: u64) -> io::Result<()> {
        if bytes <= self.open {
            return Ok(());
        }
        let open = bytes.max(self.open + self.open / 8).next_multiple_of(STEP).min(self.most());
        self.mapped.advise(self.open, open, InCore::Yes);
        // SAFETY: pages of this mapping.
        unsafe {
            let from = self.mapped.base.add(self.open as usize).cast();
            mprotect(from, (open - self.open) as usize, MprotectFlags::READ | MprotectFlags::WRITE)?;
        }
        self.open = open;
        Ok(())
    }

    /// Addresses for the bytes of the file behind those that may be accessed here: `most` bytes, or fewer if
    /// the kernel refuses so many, and at least `least`. Releases the other addresses here.
    ///
    /// # Errors
    /// If the kernel refuses even the least.
    pub fn behind(&mut self, most: u64, least: u64, remapper: &Remapper) -> io::Result<Reserve> {
        let (from, at) = (self.open, self.at + self.open);
        let map = |bytes| remapper.map(&self.mapped, from, at, bytes, ProtFlags::empty());
        let next = Reserve::largest(at, most, least, map)?;
        // SAFETY: pages of this mapping, to which nobody has had access.
        let _ = unsafe {
            munmap(self.mapped.base.add(from as usize).cast(), (self.mapped.bytes - from) as usize)
        };
        self.mapped.bytes = from;
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 1 << 40;

    fn file() -> File {
        create(c"doorbell-test", BYTES).expect("a file")
    }

    /// The lines of the kernel's list for the mappings of a file, with their flags (proc_pid_smaps(5)).
    fn smaps(file: &File) -> Vec<(u64, String, String)> {
        use std::os::unix::fs::MetadataExt;
        let inode = file.metadata().expect("it is open").ino();
        let text = std::fs::read_to_string("/proc/self/smaps").expect("it can be read");
        let (mut found, mut now) = (Vec::new(), None);
        for line in text.lines() {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            if let Some((start, end)) = fields[0].split_once('-') {
                let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
                let is_of_file = fields.get(4) == Some(&inode.to_string().as_str());
                now = is_of_file.then(|| (number(end) - number(start), fields[1].to_owned()));
            } else if fields[0] == "VmFlags:"
                && let Some((bytes, rights)) = now.take()
            {
                found.push((bytes, rights, fields[1..].join(" ")));
            }
        }
        found
    }

    /// Bytes of the file that a core has, and bytes that may be accessed.
    fn sizes(file: &File) -> (u64, u64) {
        let all = smaps(file);
        let sum = |is_it: &dyn Fn(&(u64, String, String)) -> bool| {
            all.iter().filter(|one| is_it(one)).map(|(bytes, ..)| bytes).sum()
        };
        let is_in_core = |(_, _, flags): &(u64, String, String)| !flags.split(' ').any(|flag| flag == "dd");
        (sum(&is_in_core), sum(&|(_, rights, _)| rights.starts_with("rw")))
    }

    fn word(base: *mut u8, at: u64) -> *mut u64 {
        base.wrapping_add(at as usize).cast()
    }

    #[test]
    fn a_part_that_grows_keeps_its_bytes_and_its_earlier_addresses() {
        let file = file();
        let remapper = Remapper::of(&file).expect("a remapper");
        let part = Part::new(&file, 2 * STEP, STEP, InCore::Yes).expect("a part");
        let before = part.base();
        // SAFETY: a mapped word.
        unsafe { word(before, 8).write_volatile(7) };
        part.grow(part.next_size(STEP + 1), &remapper).expect("there is room");
        assert_eq!((part.room(), sizes(&file)), (2 * STEP, (2 * STEP, 3 * STEP)));
        part.grow(STEP, &remapper).expect("nothing to do");
        // SAFETY: mapped words.
        unsafe {
            assert_eq!(word(part.base(), 8).read_volatile(), 7);
            word(part.base(), 8).write_volatile(8);
            assert_eq!(word(before, 8).read_volatile(), 8);
        }
        assert_eq!(part.offset_of(before.wrapping_add(8)), Some(8));
        assert_eq!(part.offset_of(part.base().wrapping_add(STEP as usize)), Some(STEP));
        assert_eq!(part.offset_of(std::ptr::null()), None);
        let other = Part::new(&file, 2 * STEP, STEP, InCore::No).expect("a part");
        other.grow(4 * STEP, &Remapper(Some(file.try_clone().expect("a file")))).expect("there is room");
        assert_eq!(sizes(&file).0, 2 * STEP, "a core has nothing of it");
        // SAFETY: a mapped word.
        assert_eq!(unsafe { word(other.base(), 8).read_volatile() }, 8);
    }

    #[test]
    fn a_reserve_is_accessed_as_far_as_it_was_opened() {
        for with_file in [false, true] {
            let file = file();
            let remapper = match with_file {
                true => Remapper(Some(file.try_clone().expect("a file"))),
                false => Remapper::of(&file).expect("a remapper"),
            };
            let mut first = Reserve::new(&file, STEP, 64 * STEP).expect("addresses");
            assert_eq!(sizes(&file), (0, 0));
            first.grow(PAGE).expect("it may be accessed");
            first.grow(STEP + PAGE).expect("it may be accessed");
            assert_eq!((first.open(), sizes(&file)), (2 * STEP, (2 * STEP, 2 * STEP)));
            let next = first.behind(128 * STEP, PAGE, &remapper).expect("addresses");
            assert_eq!((next.at(), first.at() + first.open()), (3 * STEP, 3 * STEP));
            let mut next = next;
            next.grow(next.most()).expect("it may be accessed");
            // SAFETY: words that may be accessed.
            unsafe {
                word(first.base() as *mut u8, 8).write_volatile(1);
                word(next.base() as *mut u8, 8).write_volatile(2);
            }
            let all = Part::new(&file, 0, 4 * STEP, InCore::No).expect("a part");
            // SAFETY: mapped words.
            let read = [STEP, 3 * STEP].map(|at| unsafe { word(all.base(), at + 8).read_volatile() });
            assert_eq!(read, [1, 2]);
            drop(next.behind(STEP, PAGE, &remapper).expect("even when all may be accessed"));
        }
    }

    #[test]
    fn more_addresses_than_there_are_become_fewer() {
        let file = file();
        // No process has so many.
        let most = Reserve::new(&file, 0, 1 << 48).expect("some addresses");
        assert!(most.most() >= 1 << 40, "{most:?}");
    }

    #[test]
    fn a_file_of_another_size_or_without_seals_is_refused() {
        let file = file();
        check(&file, BYTES).expect("it is right");
        assert!(check(&file, BYTES + 1).is_err());
        let open = File::from(memfd_create(c"open", MemfdFlags::ALLOW_SEALING).expect("a file"));
        assert!(check(&open, 0).is_err());
    }
}
