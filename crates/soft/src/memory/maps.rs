//! The mappings of a process, as the kernel reports them (proc_pid_maps(5)).
//!
//! Linux 6.11 and later look up the mapping at an address (`PROCMAP_QUERY`). Earlier kernels only list all
//! mappings, which takes milliseconds if a process has many. On these kernels, [`check`] keeps the list of
//! this process's mappings, and asks the kernel whether the part in question still holds.

use super::objects::{Object, ObjectNumber};
use crate::errno::Errno;
use crate::sync::Anew;
use doorbell_launch::process_start::other_thread;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::os::fd::AsRawFd;

/// A mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) bytes: Range<u64>,
    may_read: bool,
    may_write: bool,
    pub(crate) is_shared: bool,
    /// Offset of the mapping's first byte in the file.
    pub(crate) offset: u64,
    /// Device and inode of the mapped file; both are 0 without a file.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// The file's path, if it has one.
    pub(crate) name: String,
}

impl Mapping {
    /// Whether the process may both read and write the mapping.
    pub(crate) fn is_writable(&self) -> bool {
        self.may_read && self.may_write
    }

    /// The memory object of the mapping's bytes from an address on.
    fn object_at(&self, addr: u64) -> Object {
        if !self.is_shared {
            return Object::Private;
        }
        let number = ObjectNumber::new(self.device, self.inode, self.name.starts_with("/SYSV"));
        Object::Shared { number, at: self.offset.wrapping_add(addr).wrapping_sub(self.bytes.start) }
    }
}

/// The process whose mappings are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapsOf {
    ThisProcess,
    /// The process with this PID, or the process of the thread with this ID.
    Process(u32),
}

/// The mapping of a process that contains the address, or else the next mapping at a higher address.
pub(crate) fn mapping_at(process: MapsOf, addr: u64) -> io::Result<Option<Mapping>> {
    let found = mapping_of_thread(process, addr)?;
    match (found, process) {
        (None, MapsOf::Process(pid)) => match other_thread(pid) {
            Some(thread) => mapping_of_thread(MapsOf::Process(thread), addr),
            None => Ok(None),
        },
        (found, _) => Ok(found),
    }
}

/// Does the work of [`mapping_at`]. Finds nothing if the main thread of the process has ended.
fn mapping_of_thread(process: MapsOf, addr: u64) -> io::Result<Option<Mapping>> {
    let maps = open(process)?;
    match query(&maps, addr, &mut [0; NAME_ROOM]) {
        Ok(found) => Ok(found),
        Err(Unanswered::NoQueries) => Ok(all(maps).find(|mapping| mapping.bytes.end > addr)),
        Err(Unanswered::Failed(error)) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(Unanswered::Failed(error)) => Err(error),
    }
}

/// The access that a memory region allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) write: bool,
    /// Whether peers may perform atomics.
    pub(crate) atomics: bool,
}

/// Checks that this process may access these bytes, and returns their memory object. The check brings no page
/// into memory, except for the first and the last page of a mapping on a kernel before 6.11. On such a
/// kernel, the object may be [`Object::Unknown`] unless `wanted` has atomics.
///
/// # Errors
/// EFAULT if the access is not allowed, as ibv_reg_mr(3) returns it. Errors of open(2) or ioctl(2) if the
/// mappings cannot be read.
pub(crate) fn check(bytes: Range<u64>, wanted: Wanted) -> Result<Object, Errno> {
    let maps = open(MapsOf::ThisProcess).map_err(Errno::from)?;
    let object = match object(&bytes, wanted.write, |addr| query(&maps, addr, &mut [0; NAME_ROOM])) {
        Ok(object) => object,
        Err(Unanswered::NoQueries) => object_by_list(&bytes, wanted, maps),
        Err(Unanswered::Failed(error)) => return Err(error.into()),
    };
    object.ok_or(Errno(libc::EFAULT))
}

/// The memory object of the word at this address of a process. `object` is the word's object as its region's
/// record states it. `None` if the process's mappings cannot be read.
pub(crate) fn object_of_word(object: Object, process: MapsOf, addr: u64) -> Option<Object> {
    match object {
        // Any object will do for a word that is not mapped, because the access to the word fails.
        Object::Unknown => {
            let mapping = mapping_at(process, addr).ok()?.filter(|mapping| mapping.bytes.contains(&addr));
            Some(mapping.map_or(Object::Private, |mapping| mapping.object_at(addr)))
        }
        object => Some(object),
    }
}

fn open(process: MapsOf) -> io::Result<File> {
    match process {
        // Not /proc/self: the main thread may have ended, and then has no mappings.
        MapsOf::ThisProcess => File::open("/proc/thread-self/maps"),
        MapsOf::Process(id) => File::open(format!("/proc/{id}/maps")),
    }
}

/// The memory object of the bytes; `None` if they may not be accessed. `next` returns the mapping that
/// contains an address, or else the next mapping at a higher address.
fn object<E>(
    bytes: &Range<u64>,
    to_write: bool,
    mut next: impl FnMut(u64) -> Result<Option<Mapping>, E>,
) -> Result<Option<Object>, E> {
    let (mut at, mut object) = (bytes.start, None);
    while at < bytes.end {
        let allows =
            |found: &Mapping| found.bytes.start <= at && found.may_read && (found.may_write || !to_write);
        let Some(found) = next(at)?.filter(allows) else { return Ok(None) };
        object = Some(match object {
            None => found.object_at(at),
            Some(first) => joined(first, at - bytes.start, found.object_at(at)),
        });
        at = found.bytes.end;
    }
    // The range may be empty, for example for a region of device memory.
    Ok(Some(object.unwrap_or(Object::Private)))
}

/// Joins the objects of two adjacent ranges. `next` is the object `offset` bytes after `first`. The result is
/// `Unknown` unless `next` continues `first`.
fn joined(first: Object, offset: u64, next: Object) -> Object {
    if first.at(offset) == next { first } else { Object::Unknown }
}

/// The reason why `PROCMAP_QUERY` has no result.
#[derive(Debug)]
enum Unanswered {
    /// The kernel is older than 6.11.
    NoQueries,
    Failed(io::Error),
}

/// `struct procmap_query` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// `_IOWR('f', 17, struct procmap_query)`
const PROCMAP_QUERY: libc::c_ulong =
    3 << 30 | (size_of::<ProcmapQuery>() as libc::c_ulong) << 16 | 0x66 << 8 | 17;
/// `PROCMAP_QUERY_*`
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const SHARED: u64 = 8;
const COVERING_OR_NEXT: u64 = 16;
/// Bytes for a mapping's name: enough for any memfd or System V segment.
const NAME_ROOM: usize = 512;

/// Asks the kernel for the mapping that contains the address, or else the next mapping at a higher address.
/// The mapping's name stays empty if it does not fit into `name`.
fn query(maps: &File, addr: u64, name: &mut [u8]) -> Result<Option<Mapping>, Unanswered> {
    let mut asked = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        query_flags: COVERING_OR_NEXT,
        query_addr: addr,
        vma_name_size: name.len() as u32,
        vma_name_addr: if name.is_empty() { 0 } else { name.as_mut_ptr() as u64 },
        ..ProcmapQuery::default()
    };
    // Through libc, because rustix lacks this ioctl. SAFETY: the kernel writes the struct, and at most
    // `vma_name_size` bytes of the name.
    if unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &mut asked) } != 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ENOENT) => Ok(None),
            Some(libc::ENAMETOOLONG) if !name.is_empty() => query(maps, addr, &mut []),
            Some(libc::ENOTTY) => Err(Unanswered::NoQueries),
            _ => Err(Unanswered::Failed(error)),
        };
    }
    let has = |flag: u64| asked.vma_flags & flag != 0;
    let name = name.get(..(asked.vma_name_size as usize).saturating_sub(1)).unwrap_or_default();
    Ok(Some(Mapping {
        bytes: asked.vma_start..asked.vma_end,
        may_read: has(READABLE),
        may_write: has(WRITABLE),
        is_shared: has(SHARED),
        offset: asked.vma_offset,
        device: rustix::fs::makedev(asked.dev_major, asked.dev_minor),
        inode: asked.inode,
        name: String::from_utf8_lossy(name).into_owned(),
    }))
}

/// All mappings in a maps file, ordered by address.
fn all(maps: File) -> impl Iterator<Item = Mapping> {
    BufReader::new(maps).lines().map_while(Result::ok).filter_map(|line| parse(&line))
}

/// Parses a line of a maps file; `None` if the line is invalid.
pub(crate) fn parse(line: &str) -> Option<Mapping> {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    // Exactly one space follows each field before the name.
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?.as_bytes();
    let right = |at: usize, letter: u8| rights.get(at) == Some(&letter);
    let offset = hexadecimal(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let (major, minor) = (hexadecimal(major)? as u32, hexadecimal(minor)? as u32);
    Some(Mapping {
        bytes: hexadecimal(start)?..hexadecimal(end)?,
        may_read: right(0, b'r'),
        may_write: right(1, b'w'),
        is_shared: right(3, b's'),
        offset,
        device: rustix::fs::makedev(major, minor),
        inode: fields.next()?.trim().parse().ok()?,
        name: fields.next().unwrap_or_default().trim_start().to_owned(),
    })
}

/// The mappings of this process at the time when they were last listed. Some of them may no longer exist.
static LISTED: Anew<Vec<Mapping>> = Anew::new(Vec::new());

/// Does the work of [`check`] on a kernel without `PROCMAP_QUERY`. `None` if this process may not access the
/// bytes.
fn object_by_list(bytes: &Range<u64>, wanted: Wanted, maps: File) -> Option<Object> {
    let mut listed = LISTED.lock();
    // An old list does not show whether the bytes still belong to the listed object.
    if !wanted.atomics && is_in(&listed, bytes, wanted.write) && still_holds(&listed, bytes, wanted.write) {
        return Some(Object::Unknown);
    }
    *listed = all(maps).collect();
    object_in(&listed, bytes, wanted.write)
}

/// Whether these mappings, ordered by address, allow the access.
fn is_in(listed: &[Mapping], bytes: &Range<u64>, to_write: bool) -> bool {
    object_in(listed, bytes, to_write).is_some()
}

/// The memory object of the bytes in these mappings, which are ordered by address; `None` if they do not
/// allow the access.
fn object_in(listed: &[Mapping], bytes: &Range<u64>, to_write: bool) -> Option<Object> {
    let next = |addr: u64| listed.get(listed.partition_point(|mapping| mapping.bytes.end <= addr)).cloned();
    object::<std::convert::Infallible>(bytes, to_write, |addr| Ok(next(addr))).unwrap_or_default()
}

/// Whether the kernel confirms mappings that were listed earlier: all bytes are mapped, and the first and the
/// last word of each mapping allow the access. A change of rights between the two words goes unnoticed. Such
/// a change is as harmless as a change after the registration.
fn still_holds(listed: &[Mapping], bytes: &Range<u64>, to_write: bool) -> bool {
    let first = listed.partition_point(|mapping| mapping.bytes.end <= bytes.start);
    let of_access =
        listed[first..].iter().map(|mapping| &mapping.bytes).take_while(|of| of.start < bytes.end);
    let mut parts = of_access.map(|of| of.start.max(bytes.start)..of.end.min(bytes.end));
    are_mapped(bytes)
        && parts.all(|part| {
            let last = (part.end - 1) & !3;
            [part.start & !3, last].into_iter().all(|word| is_accessible(word, to_write))
        })
}

/// Whether all pages of these bytes are mapped.
fn are_mapped(bytes: &Range<u64>) -> bool {
    const PAGE: u64 = 4096;
    let start = bytes.start & !(PAGE - 1);
    // With MS_ASYNC, msync(2) writes nothing, and fails only if a page is not mapped. Through libc, because
    // rustix requires a pointer to mapped memory. SAFETY: the call has no effect on memory.
    unsafe { libc::msync(start as *mut libc::c_void, (bytes.end - start) as usize, libc::MS_ASYNC) == 0 }
}

/// Whether this process may read the aligned word of 4 bytes at an address, and also write it if `to_write`
/// is set. The word keeps its value.
fn is_accessible(addr: u64, to_write: bool) -> bool {
    // `FUTEX_WAIT`, `FUTEX_WAKE_OP` and `FUTEX_PRIVATE_FLAG`.
    const WAIT: libc::c_int = 128;
    const WAKE_OP: libc::c_int = 5 | 128;
    // `FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)`
    const OR_NOTHING: u32 = 2 << 28;
    let own = 0u32;
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let word = addr as *const u32;
    // futex(2) makes the kernel access the word, and fails with EFAULT if the word cannot be accessed. To
    // read the word, the call waits for 0 ns while the word is 0. To write the word, the call sets no bit of
    // it. The call asks to wake no threads, but Linux may still wake one that waits for a word of value 0.
    // futex(2) allows such spurious wake-ups. SAFETY: the kernel checks the address. The word keeps its
    // value, and no thread of the program waits for `own`.
    let result = unsafe {
        match to_write {
            true => libc::syscall(libc::SYS_futex, &raw const own, WAKE_OP, 0, 0usize, word, OR_NOTHING),
            false => libc::syscall(libc::SYS_futex, word, WAIT, 0, &raw const at_once, 0usize, 0),
        }
    };
    result >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    const PAGE: u64 = 4096;

    const MAPS: &str = "1000-3000 rw-p 0 00:00 0\n3000-4000 r--p 0 00:00 0\n4000-5000 ---p 0 00:00 0\n\
        6000-7000 rw-s 2000 00:01 7 /x\n7000-8000 rw-s 3000 00:01 7 /x\n8000-9000 rw-s 3000 00:01 7 /x\n\
        9000-a000 rw-s 0 00:01 7 /SYSV00000000 (deleted)";

    fn found(bytes: Range<u64>, to_write: bool) -> Option<Object> {
        object_in(&MAPS.lines().filter_map(parse).collect::<Vec<_>>(), &bytes, to_write)
    }

    #[test]
    fn all_bytes_must_be_mapped_with_rights() {
        let allows = |bytes: Range<u64>, to_write| found(bytes, to_write).is_some();
        assert!(allows(0x1000..0x3000, true) && allows(0x1fff..0x2001, true));
        assert!(allows(0x2fff..0x4000, false) && !allows(0x2fff..0x3001, true));
        assert!(!allows(0x3000..0x4001, false), "no rights");
        assert!(allows(0x5000..0x5000, true), "no bytes");
        assert!(!allows(0xfff..0x1001, false) && !allows(0x5000..0x5001, false), "not mapped");
        assert!(!allows(0x5fff..0x6001, true) && allows(0x6fff..0x7000, true));
        assert!(!allows(0x9fff..0xa001, false) && !allows(0xa000..0xa001, false), "behind all");
    }

    #[test]
    fn bytes_of_one_object_are_told_from_bytes_of_several() {
        let object = |bytes| found(bytes, false).expect("it is mapped");
        let shared =
            |at| Object::Shared { number: ObjectNumber::new(rustix::fs::makedev(0, 1), 7, false), at };
        assert_eq!(object(0x1010..0x4000), Object::Private);
        assert_eq!(object(0x6010..0x6020), shared(0x2010));
        assert_eq!(object(0x6010..0x8000), shared(0x2010), "the next mapping goes on");
        assert_eq!(object(0x6010..0x8001), Object::Unknown, "a second mapping of the same bytes");
        let number = ObjectNumber::new(rustix::fs::makedev(0, 1), 7, true);
        assert_eq!(object(0x9008..0x9010), Object::Shared { number, at: 8 });
    }

    #[test]
    fn a_line_is_read_as_a_whole() {
        let line = "7f00-9f00 rw-s 00002000 fe:01 65538                      /a name (deleted)";
        let read = parse(line).expect("a mapping");
        assert_eq!((&read.bytes, read.is_writable(), read.is_shared), (&(0x7f00..0x9f00), true, true));
        assert_eq!((read.offset, read.device, read.inode), (0x2000, rustix::fs::makedev(0xfe, 1), 65538));
        assert_eq!(read.name, "/a name (deleted)");
        assert_eq!(parse("7f00-9f00 r--p 0 00:00 0 ").expect("a mapping").name, "");
    }

    /// Maps private memory, and returns its address.
    fn mapped(pages: u64) -> u64 {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), (pages * PAGE) as usize, protection, flags) };
        base.expect("there is memory") as u64
    }

    fn protect(at: u64, protection: MprotectFlags) {
        // SAFETY: the page belongs to the test.
        unsafe { mprotect(at as *mut _, PAGE as usize, protection) }.expect("it can be set");
    }

    /// Whether the list allows the access, and whether [`check`] does.
    fn both(bytes: Range<u64>, write: bool) -> (bool, bool) {
        let wanted = Wanted { write, atomics: false };
        let by_list = object_by_list(&bytes, wanted, open(MapsOf::ThisProcess).expect("it is there"));
        (by_list.is_some(), check(bytes, wanted).is_ok())
    }

    #[test]
    fn an_old_list_tells_no_object() {
        let first = mapped(1);
        let wanted = |atomics| Wanted { write: true, atomics };
        let by_list = |atomics| {
            object_by_list(
                &(first..first + PAGE),
                wanted(atomics),
                open(MapsOf::ThisProcess).expect("it is there"),
            )
        };
        assert_eq!(by_list(true), Some(Object::Private));
        assert_eq!(by_list(false), Some(Object::Unknown), "the list is old now");
        assert_eq!(check(first..first + PAGE, wanted(true)), Ok(Object::Private));
    }

    #[test]
    fn a_list_that_is_old_is_noticed() {
        const YES: (bool, bool) = (true, true);
        const NO: (bool, bool) = (false, false);
        let first = mapped(4);
        let (second, end) = (first + PAGE, first + 4 * PAGE);
        for to_write in [false, true] {
            assert_eq!(both(first..end, to_write), YES);
            assert_eq!(both(first + 1..first + 2, to_write), YES);
        }
        protect(first, MprotectFlags::READ);
        assert_eq!((both(first..end, true), both(first..end, false)), (NO, YES));
        protect(first, MprotectFlags::empty());
        assert_eq!((both(first..first + 3, false), both(second..end, true)), (NO, YES));
        protect(first, MprotectFlags::READ | MprotectFlags::WRITE);
        assert_eq!(both(first..end, true), YES);
        // SAFETY: the page belongs to the test.
        unsafe { munmap(second as *mut _, PAGE as usize) }.expect("it is there");
        assert_eq!((both(first..end, false), both(first..second, true)), (NO, YES));
        assert_eq!(both(second..second + 1, false), NO);
    }

    #[test]
    fn a_mapping_is_found_by_query_and_by_list() {
        let (first, own) = (mapped(2), std::process::id());
        // Another thread may map adjacent memory meanwhile, and the kernel then merges both mappings.
        let found =
            mapping_at(MapsOf::Process(own), first + PAGE).expect("it can be read").expect("it is there");
        assert!(found.bytes.contains(&first) && found.is_writable() && !found.is_shared, "{found:?}");
        let line = all(open(MapsOf::ThisProcess).expect("it is there"))
            .find(|mapping| mapping.name.contains("/libc.so"));
        let line = line.expect("the C library is mapped");
        let found = mapping_at(MapsOf::ThisProcess, line.bytes.start).expect("it can be read");
        assert_eq!(found, Some(line));
        assert_eq!(mapping_at(MapsOf::ThisProcess, u64::MAX - 1).expect("it can be read"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_taken(line in "[0-9a-f]{0,17}-?[0-9a-f]{0,17} ?[rwxps-]{0,4} ?[0-9a-f]{0,17} ?[0-9a-f:]{0,20} ?[0-9]{0,25} ?(/SYSV|/memfd:)?.{0,4}") {
            parse(&line);
        }
    }
}
