//! For `doorbell run --strict`: memory regions that the driver of a NIC would refuse, because it cannot pin
//! their pages.

use super::strict::violated;
use crate::memory::maps::{self, Mapping, MapsOf};
use crate::sync::lock;
use doorbell_launch::sealed::PAGE;
use doorbell_launch::strict::Strict;
use rustix::fs::statfs;
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Mutex;

/// The capability that lifts the limit (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;
/// The inode of the initial user namespace (`PROC_USER_INIT_INO` of the kernel). Only its capabilities lift
/// the limit.
const INITIAL_USER_NAMESPACE: u64 = 0xefff_fffd;

/// Types of file systems that write changed pages of mapped files back (statfs(2)): ext2 to ext4, XFS, Btrfs,
/// F2FS and NFS.
const WRITE_BACK: [i64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x6969];

/// PID of this process, and number of pages that its regions pin. A child of fork(2) pins no pages at first.
static PINNED: Mutex<(u32, u64)> = Mutex::new((0, 0));

/// The pages of one memory region. They count as pinned until the value is dropped.
#[derive(Debug)]
pub(crate) struct PinnedPages(u64);

impl PinnedPages {
    /// Counts the pages of a region with these bytes, which peers or this process may change if `write` is
    /// set. Reports a region whose pages cannot be pinned. Reports the region with which the process exceeds
    /// RLIMIT_MEMLOCK, as the kernel computes it (`ib_umem_get`). Returns `None` outside strict mode.
    pub(crate) fn new(bytes: &Range<u64>, write: bool) -> Option<PinnedPages> {
        Strict::own()?;
        if let Some(file) = written_back(bytes).filter(|_| write && !doorbell_launch::say::broken("s-file")) {
            violated(format_args!(
                "the memory region is a shared mapping of the file {file}: from Linux 6.5 on, a NIC's driver \
                 refuses it with EFAULT if it may be written, because the kernel writes the file's pages back \
                 (ibv_reg_mr(3))"
            ));
        }
        let pages = if bytes.is_empty() { 0 } else { bytes.end.div_ceil(PAGE) - bytes.start / PAGE };
        let before = change(|pinned| pinned + pages);
        let after = before + pages;
        if let Some(limit) = limit().map(|bytes| bytes / PAGE)
            && (before..after).contains(&limit)
        {
            let kib = |pages: u64| pages * (PAGE / 1024);
            violated(format_args!(
                "with this memory region of {} KiB, the regions of the process have {} KiB, but a NIC's driver \
                 may pin only {} KiB (RLIMIT_MEMLOCK, without CAP_IPC_LOCK) and refuses the call with ENOMEM: \
                 raise the limit (ulimit -l {}; ibv_reg_mr(3))",
                kib(pages),
                kib(after),
                kib(limit),
                kib(after)
            ));
        }
        Some(PinnedPages(pages))
    }
}

impl Drop for PinnedPages {
    fn drop(&mut self) {
        // A child of fork(2) may deregister a region of its parent, which does not count in the child.
        change(|pinned| pinned.saturating_sub(self.0));
    }
}

/// Changes the number of pages that this process pins. Returns the previous number.
fn change(change: impl FnOnce(u64) -> u64) -> u64 {
    let mut pinned = lock(&PINNED);
    let this = std::process::id();
    if pinned.0 != this {
        *pinned = (this, 0);
    }
    let before = pinned.1;
    pinned.1 = change(before);
    before
}

/// Maximum bytes that this process may pin; `None` if there is no limit, or if it cannot be read.
fn limit() -> Option<u64> {
    let limit = getrlimit(Resource::Memlock).current?;
    let namespace = fs::metadata("/proc/self/ns/user").ok()?.ino();
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(effective.trim(), 16).ok()?;
    let is_free = namespace == INITIAL_USER_NAMESPACE && effective >> CAP_IPC_LOCK & 1 == 1;
    (!is_free).then_some(limit)
}

/// The name of a file that is mapped in these bytes, if the kernel writes its changed pages back. The kernel
/// does not pin such pages for devices that change them (`writable_file_mapping_allowed`). A deleted file is
/// not found.
fn written_back(bytes: &Range<u64>) -> Option<String> {
    let mut at = bytes.start;
    while at < bytes.end {
        let mapping = maps::mapping_at(MapsOf::ThisProcess, at).ok()??;
        if is_written_back(&mapping) {
            return Some(mapping.name);
        }
        at = mapping.bytes.end;
    }
    None
}

fn is_written_back(mapping: &Mapping) -> bool {
    let is_file =
        || fs::metadata(&mapping.name).is_ok_and(|file| file.is_file() && file.ino() == mapping.inode);
    let writes_back = || statfs(&mapping.name).is_ok_and(|system| WRITE_BACK.contains(&system.f_type));
    mapping.is_shared && mapping.is_writable() && mapping.inode != 0 && is_file() && writes_back()
}
