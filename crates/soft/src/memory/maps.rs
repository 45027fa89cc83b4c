//! The mappings that the kernel reports (proc_pid_maps(5)).

use super::objects::{Object, ObjectNumber};
use crate::errno::Errno;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;

/// The mappings of a process, one line each, ordered by address.
pub(crate) fn lines(process: impl Display) -> io::Result<impl Iterator<Item = String>> {
    let maps = BufReader::new(File::open(format!("/proc/{process}/maps"))?);
    Ok(maps.lines().map_while(Result::ok))
}

/// The addresses of the mapping on a line.
pub(crate) fn addresses(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// The mappings of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapped {
    /// Whether all bytes may be read, and whether all may be written.
    read: bool,
    write: bool,
    object: Object,
}

/// Checks that these bytes of this process may be read, and written if `to_write` is set. No page is touched.
/// Returns the memory object of the bytes.
///
/// # Errors
/// EFAULT if the access is not allowed, as ibv_reg_mr(3) returns it. Errors of open(2) if the list cannot be
/// read.
pub(crate) fn check(bytes: Range<u64>, to_write: bool) -> Result<Object, Errno> {
    let found = mapped(lines("self").map_err(Errno::from)?, bytes);
    let allowed = found.filter(|mapped| mapped.read && (mapped.write || !to_write));
    allowed.map(|mapped| mapped.object).ok_or(Errno(libc::EFAULT))
}

/// The object of a word at this address of a process, where its region has `object`. `None` if that cannot be
/// found out.
pub(crate) fn object_of_word(object: Object, process: impl Display, addr: u64) -> Option<Object> {
    match object {
        // An access to a word that is not mapped fails, whichever lock it has.
        Object::Unknown => {
            Some(mapped(lines(process).ok()?, addr..addr + 8).map_or(Object::Private, |m| m.object))
        }
        object => Some(object),
    }
}

/// The mappings of these bytes; `None` if not all of them are mapped.
fn mapped(lines: impl Iterator<Item = String>, bytes: Range<u64>) -> Option<Mapped> {
    // A region of device memory may have no bytes.
    let nothing = Mapped { read: true, write: true, object: Object::Private };
    let mut all = bytes.is_empty().then_some(nothing);
    let mut at = bytes.start;
    for line in lines {
        if at >= bytes.end {
            break;
        }
        let Some(addresses) = addresses(&line).filter(|addresses| addresses.end > at) else { continue };
        if addresses.start > at {
            return None;
        }
        let here = mapping(&line, at - addresses.start)?;
        all = Some(all.map_or(here, |before| before.joined(at - bytes.start, here)));
        at = addresses.end;
    }
    all.filter(|_| at >= bytes.end)
}

impl Mapped {
    /// These bytes, and behind `offset` of them the bytes of another mapping.
    fn joined(self, offset: u64, next: Mapped) -> Mapped {
        let is_one = self.object.at(offset) == next.object;
        let object = if is_one { self.object } else { Object::Unknown };
        Mapped { read: self.read && next.read, write: self.write && next.write, object }
    }
}

/// The mapping on a line, for its bytes from `skipped` on.
fn mapping(line: &str, skipped: u64) -> Option<Mapped> {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (rights, offset) = (fields.next()?, hexadecimal(fields.next()?)?);
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = libc::makedev(hexadecimal(major)? as u32, hexadecimal(minor)? as u32);
    let inode = fields.next()?.parse().ok()?;
    let is_system_v = fields.next().is_some_and(|name| name.starts_with("/SYSV"));
    let number = ObjectNumber::new(device, inode, is_system_v);
    let object = match rights.ends_with('s') {
        true => Object::Shared { number, at: offset.wrapping_add(skipped) },
        false => Object::Private,
    };
    Some(Mapped { read: rights.starts_with('r'), write: rights.get(1..2) == Some("w"), object })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "1000-3000 rw-p 0 00:00 0\n3000-4000 r--p 0 00:00 0\n4000-5000 ---p 0 00:00 0\n\
        6000-7000 rw-s 2000 00:01 7 /x\n7000-8000 rw-s 3000 00:01 7 /x\n8000-9000 rw-s 3000 00:01 7 /x\n\
        9000-a000 rw-s 0 00:01 7 /SYSV00000000 (deleted)";

    fn found(bytes: Range<u64>) -> Option<Mapped> {
        mapped(MAPS.lines().map(str::to_owned), bytes)
    }

    fn allows(bytes: Range<u64>, to_write: bool) -> bool {
        found(bytes).is_some_and(|mapped| mapped.read && (mapped.write || !to_write))
    }

    #[test]
    fn all_bytes_must_be_mapped_with_rights() {
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
        let object = |bytes| found(bytes).expect("it is mapped").object;
        let shared = |at| Object::Shared { number: ObjectNumber::new(libc::makedev(0, 1), 7, false), at };
        assert_eq!(object(0x1010..0x4000), Object::Private);
        assert_eq!(object(0x6010..0x6020), shared(0x2010));
        assert_eq!(object(0x6010..0x8000), shared(0x2010), "the next mapping goes on");
        assert_eq!(object(0x6010..0x8001), Object::Unknown, "a second mapping of the same bytes");
        let number = ObjectNumber::new(libc::makedev(0, 1), 7, true);
        assert_eq!(object(0x9008..0x9010), Object::Shared { number, at: 8 });
    }
}
