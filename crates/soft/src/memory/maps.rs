//! The mappings that the kernel reports (proc_pid_maps(5)).

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

/// Whether the mapping on a line may be read, and whether it may also be written.
fn rights(line: &str) -> (bool, bool) {
    let rights = line.split(' ').nth(1).unwrap_or_default();
    (rights.starts_with('r'), rights.get(1..2) == Some("w"))
}

/// Checks that these bytes of this process may be read, and written if `to_write` is set. No page is touched.
///
/// # Errors
/// EFAULT if the access is not allowed, as ibv_reg_mr(3) returns it. Errors of open(2) if the list cannot be
/// read.
pub(crate) fn check(bytes: Range<u64>, to_write: bool) -> Result<(), Errno> {
    let all = lines("self").map_err(Errno::from)?;
    if allowed(all, bytes, to_write) { Ok(()) } else { Err(Errno(libc::EFAULT)) }
}

fn allowed(lines: impl Iterator<Item = String>, bytes: Range<u64>, to_write: bool) -> bool {
    let mut at = bytes.start;
    for line in lines {
        if at >= bytes.end {
            break;
        }
        let Some(mapped) = addresses(&line).filter(|mapped| mapped.end > at) else { continue };
        let (read, write) = rights(&line);
        if mapped.start > at || !read || to_write && !write {
            return false;
        }
        at = mapped.end;
    }
    at >= bytes.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(bytes: Range<u64>, to_write: bool) -> bool {
        let maps = "1000-3000 rw-p 0 00:00 0\n3000-4000 r--p 0 00:00 0\n4000-5000 ---p 0 00:00 0\n6000-7000 rw-s 0 00:01 7 /x";
        allowed(maps.lines().map(str::to_owned), bytes, to_write)
    }

    #[test]
    fn all_bytes_must_be_mapped_with_rights() {
        assert!(allows(0x1000..0x3000, true) && allows(0x1fff..0x2001, true));
        assert!(allows(0x2fff..0x4000, false) && !allows(0x2fff..0x3001, true));
        assert!(!allows(0x3000..0x4001, false), "no rights");
        assert!(!allows(0xfff..0x1001, false) && !allows(0x5000..0x5001, false), "not mapped");
        assert!(!allows(0x6fff..0x7001, true) && allows(0x6fff..0x7000, true));
        assert!(!allows(0x8000..0x8001, false), "behind all");
    }
}
