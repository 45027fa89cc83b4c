//! The mappings of a process, as the kernel reports them (proc_pid_maps(5)).
//!
//! Linux 6.11 and later find the mapping at an address (`PROCMAP_QUERY`). Earlier kernels only list all
//! mappings, which takes milliseconds if there are many. For this process's own mappings, [`check`] then
//! keeps the list, and asks the kernel whether the part that it uses still holds.

use crate::errno::Errno;
use crate::sync::Anew;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::os::fd::AsRawFd;

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) bytes: Range<u64>,
    may_read: bool,
    may_write: bool,
    pub(crate) is_shared: bool,
    /// Offset of the first byte in the file.
    pub(crate) offset: u64,
    /// Device and inode of the file; 0 without one.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// The file's path, if it has one.
    pub(crate) name: String,
}

impl Mapping {
    /// Whether the process may both read and write it.
    pub(crate) fn is_writable(&self) -> bool {
        self.may_read && self.may_write
    }
}

/// The mapping of a process that contains the address, or the next mapping behind it.
pub(crate) fn mapping_at(process: impl Display, addr: u64) -> io::Result<Option<Mapping>> {
    let maps = open(process)?;
    match query(&maps, addr, &mut [0; NAME_ROOM]) {
        Ok(found) => Ok(found),
        Err(Unanswered::NoQueries) => Ok(all(maps).find(|mapping| mapping.bytes.end > addr)),
        Err(Unanswered::Failed(error)) => Err(error),
    }
}

/// Checks that these bytes of this process may be read, and written if `to_write` is set. Pages that are not
/// in memory stay out of memory, except for the first and the last page of a mapping on an old kernel.
///
/// # Errors
/// EFAULT if the access is not allowed, as ibv_reg_mr(3) returns it. Errors of open(2) if the mappings cannot
/// be read.
pub(crate) fn check(bytes: Range<u64>, to_write: bool) -> Result<(), Errno> {
    let maps = open("self").map_err(Errno::from)?;
    let is_allowed = match is_allowed(&bytes, to_write, |addr| query(&maps, addr, &mut [])) {
        Ok(is_allowed) => is_allowed,
        Err(Unanswered::NoQueries) => is_allowed_by_list(&bytes, to_write, maps),
        Err(Unanswered::Failed(error)) => return Err(error.into()),
    };
    if is_allowed { Ok(()) } else { Err(Errno(libc::EFAULT)) }
}

fn open(process: impl Display) -> io::Result<File> {
    File::open(format!("/proc/{process}/maps"))
}

/// Whether the bytes may be accessed. `next` returns the mapping that contains an address, or the next one.
fn is_allowed<E>(
    bytes: &Range<u64>,
    to_write: bool,
    mut next: impl FnMut(u64) -> Result<Option<Mapping>, E>,
) -> Result<bool, E> {
    let mut at = bytes.start;
    while at < bytes.end {
        let allows =
            |found: &Mapping| found.bytes.start <= at && found.may_read && (found.may_write || !to_write);
        match next(at)?.filter(allows) {
            Some(found) => at = found.bytes.end,
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// The reason why a query has no answer.
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
/// Room for a name: enough for each memfd and each System V segment.
const NAME_ROOM: usize = 512;

/// Asks for the mapping that contains the address, or the next one. The name stays empty if `name` has no
/// room for it.
fn query(maps: &File, addr: u64, name: &mut [u8]) -> Result<Option<Mapping>, Unanswered> {
    let mut asked = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        query_flags: COVERING_OR_NEXT,
        query_addr: addr,
        vma_name_size: name.len() as u32,
        vma_name_addr: if name.is_empty() { 0 } else { name.as_mut_ptr() as u64 },
        ..ProcmapQuery::default()
    };
    // By libc: rustix does not have it. SAFETY: the kernel fills in the struct, and at most
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
        device: libc::makedev(asked.dev_major, asked.dev_minor),
        inode: asked.inode,
        name: String::from_utf8_lossy(name).into_owned(),
    }))
}

/// All mappings, ordered by address.
fn all(maps: File) -> impl Iterator<Item = Mapping> {
    BufReader::new(maps).lines().map_while(Result::ok).filter_map(|line| parse(&line))
}

/// The mapping on a line of the list.
pub(crate) fn parse(line: &str) -> Option<Mapping> {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    // Of the fields before the name, exactly one space follows each.
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
        device: libc::makedev(major, minor),
        inode: fields.next()?.trim().parse().ok()?,
        name: fields.next().unwrap_or_default().trim_start().to_owned(),
    })
}

/// The mappings of this process when they were listed last, without names. Some of them may no longer exist.
static LISTED: Anew<Vec<Mapping>> = Anew::new(Vec::new());

/// Like [`check`], on a kernel without queries.
fn is_allowed_by_list(bytes: &Range<u64>, to_write: bool, maps: File) -> bool {
    let mut listed = LISTED.lock();
    if is_in(&listed, bytes, to_write) && still_holds(&listed, bytes, to_write) {
        return true;
    }
    *listed = all(maps).map(|mapping| Mapping { name: String::new(), ..mapping }).collect();
    is_in(&listed, bytes, to_write)
}

/// Whether these mappings, which are in order, allow the access.
fn is_in(listed: &[Mapping], bytes: &Range<u64>, to_write: bool) -> bool {
    let next = |addr: u64| listed.get(listed.partition_point(|mapping| mapping.bytes.end <= addr)).cloned();
    is_allowed::<std::convert::Infallible>(bytes, to_write, |addr| Ok(next(addr))).unwrap_or(false)
}

/// Whether the kernel confirms mappings that were listed earlier: all bytes are mapped, and the first and the
/// last word of each mapping allow the access. A change of rights in between goes unnoticed. It is as
/// harmless as a change after the registration.
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
    // MS_ASYNC writes nothing, and only fails if there is a hole (msync(2)). By libc: rustix takes a pointer
    // to mapped memory. SAFETY: without an effect on memory.
    unsafe { libc::msync(start as *mut libc::c_void, (bytes.end - start) as usize, libc::MS_ASYNC) == 0 }
}

/// Whether the aligned word of 4 bytes at an address may be read, and written if `to_write` is set. Its value
/// stays.
fn is_accessible(addr: u64, to_write: bool) -> bool {
    // `FUTEX_WAIT`, `FUTEX_WAKE_OP` and `FUTEX_PRIVATE_FLAG`.
    const WAIT: libc::c_int = 128;
    const WAKE_OP: libc::c_int = 5 | 128;
    // `FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)`
    const OR_NOTHING: u32 = 2 << 28;
    let own = 0u32;
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let word = addr as *const u32;
    // The kernel accesses the word, so a word that cannot be accessed is an error of the call (futex(2)): to
    // read it, the call waits for no time while the word is 0. To write it, the call sets no bit of the word,
    // and wakes no thread. SAFETY: the kernel checks the address. The word keeps its value, and no thread of
    // the program waits for `own`.
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

    #[test]
    fn all_bytes_must_be_mapped_with_rights() {
        let maps = "1000-3000 rw-p 0 00:00 0\n3000-4000 r--p 0 00:00 0\n4000-5000 ---p 0 00:00 0\n6000-7000 rw-s 0 00:01 7 /x";
        let listed: Vec<Mapping> = maps.lines().filter_map(parse).collect();
        let allows = |bytes: Range<u64>, to_write| is_in(&listed, &bytes, to_write);
        assert!(allows(0x1000..0x3000, true) && allows(0x1fff..0x2001, true));
        assert!(allows(0x2fff..0x4000, false) && !allows(0x2fff..0x3001, true));
        assert!(!allows(0x3000..0x4001, false), "no rights");
        assert!(!allows(0xfff..0x1001, false) && !allows(0x5000..0x5001, false), "not mapped");
        assert!(!allows(0x6fff..0x7001, true) && allows(0x6fff..0x7000, true));
        assert!(!allows(0x8000..0x8001, false), "behind all");
    }

    #[test]
    fn a_line_is_read_as_a_whole() {
        let line = "7f00-9f00 rw-s 00002000 fe:01 65538                      /a name (deleted)";
        let read = parse(line).expect("a mapping");
        assert_eq!((&read.bytes, read.is_writable(), read.is_shared), (&(0x7f00..0x9f00), true, true));
        assert_eq!((read.offset, read.device, read.inode), (0x2000, libc::makedev(0xfe, 1), 65538));
        assert_eq!(read.name, "/a name (deleted)");
        assert_eq!(parse("7f00-9f00 r--p 0 00:00 0 ").expect("a mapping").name, "");
    }

    /// New memory of this process.
    fn mapped(pages: u64) -> u64 {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, where the kernel finds room.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), (pages * PAGE) as usize, protection, flags) };
        base.expect("there is memory") as u64
    }

    fn protect(at: u64, protection: MprotectFlags) {
        // SAFETY: a page of the test.
        unsafe { mprotect(at as *mut _, PAGE as usize, protection) }.expect("it can be set");
    }

    /// What the list says of the bytes, and what [`check`] says.
    fn both(bytes: Range<u64>, to_write: bool) -> (bool, bool) {
        let by_list = is_allowed_by_list(&bytes, to_write, open("self").expect("it is there"));
        (by_list, check(bytes, to_write).is_ok())
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
        // SAFETY: a page of the test.
        unsafe { munmap(second as *mut _, PAGE as usize) }.expect("it is there");
        assert_eq!((both(first..end, false), both(first..second, true)), (NO, YES));
        assert_eq!(both(second..second + 1, false), NO);
    }

    #[test]
    fn a_mapping_is_found_by_query_and_by_list() {
        let (first, own) = (mapped(2), std::process::id());
        // Another thread may map memory beside it meanwhile, which makes one mapping of both.
        let found = mapping_at(own, first + PAGE).expect("it can be read").expect("it is there");
        assert!(found.bytes.contains(&first) && found.is_writable() && !found.is_shared, "{found:?}");
        let line = all(open("self").expect("it is there")).find(|mapping| mapping.name.contains("/libc.so"));
        let line = line.expect("the C library is mapped");
        let found = mapping_at("self", line.bytes.start).expect("it can be read");
        assert_eq!(found, Some(line));
        assert_eq!(mapping_at("self", u64::MAX - 1).expect("it can be read"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_taken(line in "[0-9a-f]{0,17}-?[0-9a-f]{0,17} ?[rwxps-]{0,4} ?[0-9a-f]{0,17} ?[0-9a-f:]{0,20} ?[0-9]{0,25} ?(/SYSV|/memfd:)?.{0,4}") {
            parse(&line);
        }
    }
}
