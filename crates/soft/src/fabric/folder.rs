//! The folder of a fabric. A process creates or finds the folder, and holds it by a lock. The last process to
//! leave the fabric removes the folder.
//!
//! Only this user may enter the folder. It contains the registry, the sockets of processes, the files of
//! rdma_cm, and folders with the device's entries of sysfs and /dev.

use crate::descriptors::Private;
use crate::identity::FabricPlace;
use crate::memory::segment::layout;
use crate::point::{Point, reach};
use doorbell_launch::sealed::check_file_size;
use doorbell_launch::trust::{check_private, user};
use rustix::io::fcntl_dupfd_cloexec;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Files in a fabric's folder: the registry, and the file that processes lock to hold the folder.
pub(super) const REGISTRY: &str = "members";
const ALIVE: &str = "alive";
/// Prefix of the names of rdma_cm's files.
pub(crate) const CM_PREFIX: &str = "cm-";
/// Prefix of the names of folders with the device's entries of sysfs and /dev.
pub(crate) const SHOWN_PREFIX: &str = "shown-";
/// A folder with [`SHOWN_PREFIX`] gets this name before its removal, so that no process finds a half-removed
/// folder.
const SHOWN_GONE: &str = "shown-gone";

/// How long a process that joins a fabric waits while another process removes the fabric's folder.
const PATIENCE: Duration = Duration::from_millis(500);

/// The directory of this process's fabric, created if it is missing.
fn directory(place: &FabricPlace) -> io::Result<PathBuf> {
    if place.is_joined {
        let folder = place.folder.canonicalize()?;
        check_private(&folder).map_err(|why| io::Error::new(io::ErrorKind::PermissionDenied, why))?;
    }
    loop {
        let name = place.find()?;
        if !name.is_there {
            match DirBuilder::new().mode(0o700).create(&name.path) {
                // A process that creates a fabric also removes the fabrics that have no process left.
                Ok(()) => {
                    reach(Point::FolderMade);
                    sweep(place, &name.path);
                }
                // Another process has just created the folder, or another user has just taken the name.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            continue;
        }
        let path = &name.path;
        match std::fs::symlink_metadata(path) {
            // The directory was still empty, and another process that creates a fabric removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
            Ok(found) if !found.is_dir() || found.uid() != user() || found.mode() & 0o077 != 0 => {
                let why =
                    format!("{} must be a directory that only this user can use (mode 0700)", path.display());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            Ok(_) => {}
        }
        static ONCE: Once = Once::new();
        ONCE.call_once(|| name.say_foreign());
        return Ok(name.path);
    }
}

/// Removes the directories of other fabrics with no living process. Their last processes were killed.
fn sweep(place: &FabricPlace, own: &Path) {
    let entries = std::fs::read_dir(&place.folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if name.starts_with(&place.prefix) && path != own {
            // A directory that cannot be read or removed is left as it is.
            let _ = remove_if_dead(&path);
        }
    }
}

/// Removes the directory of a fabric, unless a process of the fabric lives.
fn remove_if_dead(directory: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(directory)?;
    if !found.is_dir() || found.uid() != user() {
        return Ok(());
    }
    match open(&directory.join(ALIVE), OpenOptions::new().read(true)) {
        Ok(alive) => remove_if_unused(directory, &alive),
        // The file is missing. There are three possible reasons: A process is creating the fabric. A process
        // exited before it created the file. A process created another file after the last process left.
        Err(error) if error.kind() == io::ErrorKind::NotFound => match std::fs::remove_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => match lock_alive(directory)? {
                Some(alive) => remove_if_unused(directory, &alive),
                None => Ok(()),
            },
            removed => removed,
        },
        Err(error) => Err(error),
    }
}

/// Removes the directory of a fabric, unless a process of the fabric lives. `alive` is the file that
/// processes lock to hold the folder.
fn remove_if_unused(directory: &Path, alive: &File) -> io::Result<()> {
    if !is_locked(alive.try_lock())? || alive.metadata()?.nlink() == 0 {
        return Ok(());
    }
    reach(Point::AliveAlone);
    remove_shown(directory)?;
    for file in made_by_processes(directory)? {
        let _ = std::fs::remove_file(file);
    }
    for file in [REGISTRY, ALIVE] {
        match std::fs::remove_file(directory.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => reach(if file == REGISTRY { Point::FileRemoved } else { Point::FilesRemoved }),
        }
    }
    std::fs::remove_dir(directory)
}

/// Removes the folders with the device's entries of sysfs and /dev.
fn remove_shown(directory: &Path) -> io::Result<()> {
    let is_shown = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| name.starts_with(SHOWN_PREFIX)) && path.is_dir()
    };
    let gone = directory.join(SHOWN_GONE);
    for path in std::fs::read_dir(directory)?.flatten().map(|entry| entry.path()).filter(is_shown) {
        // An old folder with the new name would make the rename fail. Other failures do not matter.
        let _ = std::fs::remove_dir_all(&gone);
        let _ = std::fs::rename(path, &gone);
        let _ = std::fs::remove_dir_all(&gone);
    }
    Ok(())
}

/// This process's hold on the fabric's folder by [`pin`]; 0 without a hold. The upper half is the PID, and
/// the lower half is the locked file's descriptor. A child of fork(2) has another PID, so the parent's value
/// is no hold of the child. Relaxed: the word is complete in itself, and orders nothing.
static PINNED: AtomicU64 = AtomicU64::new(0);

/// The lowest number for the descriptor that holds the folder. Lower numbers stay free, because a shell uses
/// fixed numbers for its own descriptors.
const LEAST_FD: i32 = 100;

/// Whether this process holds the fabric's folder by [`pin`].
pub(crate) fn is_pinned() -> bool {
    PINNED.load(Relaxed) >> 32 == u64::from(std::process::id())
}

/// Holds the folder of this process's fabric until this process exits or leaves the fabric, and calls `put`
/// with the folder's path. The folder is created if it is missing.
pub(crate) fn pin(put: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let alive = in_own(|directory, _| {
        let Some(alive) = lock_alive(&directory)? else { return Ok(None) };
        put(&directory)?;
        Ok(Some(alive))
    })?;
    let file = fcntl_dupfd_cloexec(&alive, LEAST_FD)?;
    let before = PINNED.load(Relaxed);
    let pinned = u64::from(std::process::id()) << 32 | file.as_raw_fd() as u64;
    if !is_pinned() && PINNED.compare_exchange(before, pinned, Relaxed, Relaxed).is_ok() {
        // The file stays open until [`unpin`] or until this process exits.
        let _ = file.into_raw_fd();
    }
    Ok(())
}

/// Releases the hold of [`pin`].
fn unpin(directory: &Path) {
    if !is_pinned() {
        return;
    }
    let pinned = PINNED.swap(0, Relaxed);
    // SAFETY: the program may have closed or replaced the descriptor. Such a descriptor is only queried,
    // never closed.
    let file = unsafe { ManuallyDrop::new(File::from_raw_fd(pinned as u32 as RawFd)) };
    let file_of = |about: io::Result<Metadata>| about.ok().map(|about| (about.dev(), about.ino()));
    let pinned = file_of(file.metadata());
    if pinned.is_some() && pinned == file_of(std::fs::symlink_metadata(directory.join(ALIVE))) {
        drop(ManuallyDrop::into_inner(file));
    }
}

/// Releases the hold of [`pin`], and removes the folder of this process's fabric unless a process of the
/// fabric lives.
pub(crate) fn unpin_and_remove() -> io::Result<()> {
    let directory = FabricPlace::own()?.path()?;
    unpin(&directory);
    remove_if_dead(&directory)
}

/// Files that a fabric's processes create: sockets, named by their slots, and the files of rdma_cm.
fn made_by_processes(directory: &Path) -> io::Result<impl Iterator<Item = PathBuf>> {
    let is_theirs = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| name.starts_with(CM_PREFIX) || name.parse::<u32>().is_ok())
    };
    Ok(std::fs::read_dir(directory)?.flatten().map(|entry| entry.path()).filter(is_theirs))
}

/// Writes this library's layout into the fabric's file. Refuses to join processes with a different layout.
fn check_layout(alive: &File, own: &str) -> io::Result<()> {
    let mut bytes = [0; 100];
    let read = alive.read_at(&mut bytes, 0)?;
    if read == 0 {
        check_file_size(own.len() as u64)?;
        return alive.write_all_at(own.as_bytes(), 0);
    }
    let theirs = String::from_utf8_lossy(&bytes[..read]);
    if theirs == own {
        return Ok(());
    }
    let why = format!(
        "processes of this fabric use another version of Doorbell's library ({}; this process uses {}): use \
         one version for all, or another fabric",
        theirs.trim(),
        own.trim()
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Opens a file of a fabric's folder with `O_CLOEXEC`. Refuses symbolic links, and files that are not regular
/// files which only this user can use.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = options.mode(0o600).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != user() || found.mode() & 0o077 != 0 {
        let why = format!("{} must be a file that only this user can use (mode 0600)", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(file)
}

/// Whether a lock was acquired; `false` if another process's lock excludes it.
fn is_locked(tried: Result<(), TryLockError>) -> io::Result<bool> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Opens the file that processes lock to hold a fabric's folder, and acquires a shared lock on it; `None` if
/// another process is removing the folder.
fn lock_alive(directory: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let alive = open(&directory.join(ALIVE), &mut options)?;
    Ok((is_locked(alive.try_lock_shared())? && alive.metadata()?.nlink() > 0).then_some(alive))
}

/// Calls `act` with the folder of this process's fabric, which is created if it is missing. The second
/// argument of `act` says whether the fabric may span PID namespaces. `act` returns `None` if another process
/// is removing the folder, and is then called again for at most [`PATIENCE`].
pub(super) fn in_own<T>(act: impl Fn(PathBuf, bool) -> io::Result<Option<T>>) -> io::Result<T> {
    let begin = Instant::now();
    loop {
        let place = FabricPlace::own()?;
        match act(directory(&place)?, place.is_joined) {
            Ok(Some(done)) => return Ok(done),
            Ok(None) if begin.elapsed() > PATIENCE => {
                let why = "a process that removes this fabric's folder does not go on";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            // The last process to leave is removing the folder.
            Ok(None) => std::thread::yield_now(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

/// The folder of this process's fabric, held by this process.
#[derive(Debug)]
pub(super) struct FabricFolder {
    path: PathBuf,
    /// The opened folder. Sockets are named relative to it.
    opened: Private<File>,
    /// The file that processes lock to hold the folder. Every process of the fabric holds a shared lock
    /// (flock(2)) on this file until the process exits, for whatever reason. A process that gets the
    /// exclusive lock knows that no other process of the fabric is left, in any PID namespace.
    alive: Private<File>,
}

impl FabricFolder {
    /// Opens and holds a fabric's folder; `None` if another process is removing the folder.
    pub(super) fn keep(path: PathBuf) -> io::Result<Option<FabricFolder>> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let opened = Private::new(OpenOptions::new().read(true).custom_flags(flags).open(&path)?)?;
        let Some(alive) = lock_alive(&path)?.map(Private::new).transpose()? else { return Ok(None) };
        reach(Point::AliveLocked);
        check_layout(alive.get(), &layout())?;
        Ok(Some(FabricFolder { path, opened, alive }))
    }

    /// The opened folder.
    pub(super) fn opened(&self) -> &File {
        self.opened.get()
    }

    /// The registry's file, created if it is missing.
    pub(super) fn registry(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        open(&self.path.join(REGISTRY), &mut options)
    }

    /// Removes this process's sockets, which are named by these slots, and the folder if no other process
    /// holds it.
    pub(super) fn leave(&self, slots: &[u32]) -> io::Result<()> {
        for slot in slots {
            let _ = std::fs::remove_file(self.path.join(slot.to_string()));
        }
        unpin(&self.path);
        remove_if_unused(&self.path, self.alive.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_when_all_had_left_goes_too() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().join("fabric");
        DirBuilder::new().mode(0o700).create(&directory).expect("it can be made");
        let late = [directory.join(format!("{CM_PREFIX}ports")), directory.join("7")];
        late.iter().for_each(|path| std::fs::write(path, "").expect("it can be written"));
        std::fs::create_dir_all(directory.join(format!("{SHOWN_PREFIX}ib/sys"))).expect("it can be made");
        remove_if_dead(&directory).expect("it can be removed");
        assert!(!directory.exists());
        // The folder of a living process stays.
        DirBuilder::new().mode(0o700).create(&directory).expect("it can be made");
        let alive = lock_alive(&directory).expect("it is there");
        remove_if_dead(&directory).expect("nothing is wrong");
        assert!(alive.is_some() && directory.join(ALIVE).exists());
    }

    #[test]
    fn a_file_that_is_anothers_or_a_link_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, link) = (directory.path().join("members"), directory.path().join("link"));
        let opened = |path: &Path| open(path, OpenOptions::new().read(true).write(true).create(true));
        drop(opened(&path).expect("it is made"));
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert_eq!(opened(&link).expect_err("a link").raw_os_error(), Some(libc::ELOOP));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o620);
        std::fs::set_permissions(&path, mode).expect("its mode");
        let refused = opened(&path).expect_err("others may write it").to_string();
        assert!(refused.ends_with("must be a file that only this user can use (mode 0600)"), "{refused}");
        assert!(open(Path::new("/dev/null"), OpenOptions::new().read(true)).is_err(), "no file");
    }
}
