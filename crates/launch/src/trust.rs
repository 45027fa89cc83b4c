//! Decides which files and folders are trusted: only this user and root may have put something into them.
//!
//! A user namespace shows one number, 65534, as the owner of the files of all users that it does not map
//! (user_namespaces(7)). The owner may be root, or anybody. Two kinds of such folders are trusted: those that
//! are root's on every Linux system, and those that lead to the executable of this process. The owner of the
//! latter could replace the executable anyway.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The reason why a file or folder is not trusted.
#[derive(Debug, Error)]
pub enum Distrust {
    /// Another user owns the path, and may change it at any time.
    #[error(
        "{} belongs to user {owner}, but must belong to this user ({}) or to root{}",
        path.display(), user(), unmapped(*owner)
    )]
    Owner {
        /// The path that belongs to another user.
        path: PathBuf,
        /// The owner's user number.
        owner: u32,
    },
    /// Every user may write to the path, or a group other than this process's and root's may.
    #[error("{} is writable by other users (mode {mode:04o}); `chmod go-w` corrects this", path.display())]
    Others {
        /// The writable path.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The path is not a folder of this user with mode 0700.
    #[error(
        "{} must be a folder that only this user ({}) can use, mode 0700, but it is {found}",
        path.display(), user()
    )]
    NotPrivate {
        /// The path.
        path: PathBuf,
        /// Its actual kind, owner and mode.
        found: String,
    },
    /// The path cannot be examined or created.
    #[error("{} cannot be used: {cause}", path.display())]
    Unknown {
        /// The path.
        path: PathBuf,
        /// The error.
        cause: io::Error,
    },
}

/// Bits of a mode: sticky (only owners may rename or remove a folder's entries), and write permission for
/// everyone and for the group.
const STICKY: u32 = 0o1000;
const EVERYONE: u32 = 0o002;
const GROUP: u32 = 0o020;

/// The effective user id of this process. Only processes of one user reach each other.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The effective group id of this process. It is trusted, because many systems give each user a private
/// group.
fn group() -> u32 {
    rustix::process::getegid().as_raw()
}

/// A remark for an owner number that stands for all unmapped users here; otherwise empty.
fn unmapped(owner: u32) -> &'static str {
    match is_unmapped(owner) {
        true => {
            "; in this user namespace the number stands for all unmapped users. Use a copy in a folder of your \
             own, such as one in your home"
        }
        false => "",
    }
}

/// Whether the number stands for all users that this process's user namespace does not map.
fn is_unmapped(owner: u32) -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    read("/proc/sys/kernel/overflowuid").trim().parse() == Ok(owner)
        && !maps(&read("/proc/self/uid_map"), owner)
}

/// Whether a user namespace with this `uid_map` has a user of this number.
fn maps(uid_map: &str, user: u32) -> bool {
    uid_map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u64>);
        match (numbers.next(), numbers.nth(1)) {
            (Some(Ok(first)), Some(Ok(count))) => (first..first + count).contains(&user.into()),
            _ => false,
        }
    })
}

/// Folders that belong to root on every Linux system (hier(7)).
const SYSTEM: [&str; 14] = [
    "/",
    "/dev",
    "/dev/shm",
    "/home",
    "/opt",
    "/run",
    "/run/user",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/var",
    "/var/tmp",
];

/// Whether a path is trusted although its owner is unknown, because it is a folder of the system, or leads to
/// `executable`. A file beside the executable is trusted if only the folder's owner puts files there.
fn is_trusted_anyway(path: &Path, is_folder: bool, executable: &Path) -> bool {
    if is_folder {
        return SYSTEM.iter().any(|system| path == Path::new(system)) || executable.starts_with(path);
    }
    let folder = path.parent().filter(|folder| Some(*folder) == executable.parent());
    let is_owners = |folder| look(folder).is_ok_and(|found| found.mode() & (EVERYONE | GROUP) == 0);
    folder.is_some_and(is_owners)
}

/// Checks a path and each folder above it. The path must be canonical, because links are not followed.
pub fn check(path: &Path) -> Result<(), Distrust> {
    path.ancestors().try_for_each(|path| {
        let found = look(path)?;
        let judged = judge(path, found.is_dir(), found.mode() & 0o7777, (found.uid(), found.gid()));
        match judged {
            Err(Distrust::Owner { owner, .. }) if is_unmapped(owner) => {
                let executable = std::env::current_exe().unwrap_or_default();
                if !is_trusted_anyway(path, found.is_dir(), &executable) {
                    return judged;
                }
                // Whoever the owner is, other users must not be able to write here.
                judge(path, found.is_dir(), found.mode() & 0o7777, (user(), found.gid()))
            }
            judged => judged,
        }
    })
}

/// Checks that the path is a folder of this user with mode 0700, and no link. Then checks the path as
/// [`check`] does.
pub fn check_private(path: &Path) -> Result<(), Distrust> {
    let about = look(path)?;
    let (owner, mode) = (about.uid(), about.mode() & 0o7777);
    let found = match about.is_dir() {
        true if owner == user() && mode & 0o777 == 0o700 => return check(path),
        true => format!("a folder of user {owner}, mode {mode:04o}"),
        false if about.is_symlink() => "a symbolic link".to_owned(),
        false => "not a folder".to_owned(),
    };
    Err(Distrust::NotPrivate { path: path.into(), found })
}

fn look(path: &Path) -> Result<std::fs::Metadata, Distrust> {
    std::fs::symlink_metadata(path).map_err(|cause| Distrust::Unknown { path: path.into(), cause })
}

fn judge(path: &Path, is_folder: bool, mode: u32, (owner, of): (u32, u32)) -> Result<(), Distrust> {
    if owner != user() && owner != 0 {
        return Err(Distrust::Owner { path: path.into(), owner });
    }
    let by_others = mode & EVERYONE != 0 || mode & GROUP != 0 && of != group() && of != 0;
    // In a sticky folder such as /tmp, no user can remove or replace another user's files.
    if by_others && !(is_folder && mode & STICKY != 0) {
        return Err(Distrust::Others { path: path.into(), mode });
    }
    Ok(())
}

/// How many names a folder may have. Any user can take a name in a folder of all users, such as /dev/shm.
const NAMES: u32 = 32;

/// The names that a folder of this user may have: this path, or this path and a number.
pub fn names(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let path = path.as_os_str().to_owned();
    (0..NAMES).map(move |number| {
        let mut name = path.clone();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        name.into()
    })
}

/// The first of several names that leads to something of this user, else the first name that leads to
/// nothing. Names that other users have taken are passed over.
///
/// # Errors
/// If other users have taken all names, or a name cannot be examined.
pub fn find_name(names: impl Iterator<Item = PathBuf>) -> Result<FoundName, Distrust> {
    let (mut free, mut foreign) = (None, None);
    for path in names {
        match look(&path) {
            Ok(found) if found.uid() == user() => {
                return Ok(FoundName { path, is_there: true, foreign });
            }
            Ok(found) => foreign = foreign.or(Some((path, found.uid()))),
            Err(Distrust::Unknown { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
                free = free.or(Some((path, foreign.clone())));
            }
            Err(error) => return Err(error),
        }
    }
    match (free, foreign) {
        (Some((path, foreign)), _) => Ok(FoundName { path, is_there: false, foreign }),
        (None, Some((path, owner))) => Err(Distrust::Owner { path, owner }),
        (None, None) => unreachable!("there is at least one name"),
    }
}

/// A name for a folder of this user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundName {
    /// The name.
    pub path: PathBuf,
    /// Whether this user has something there.
    pub is_there: bool,
    /// The first name that was passed over, and the user that has taken it.
    pub foreign: Option<(PathBuf, u32)>,
}

impl FoundName {
    /// Prints the name that was passed over, if there is one.
    pub fn say_foreign(&self) {
        if let Some((foreign, owner)) = &self.foreign {
            crate::say::say(format_args!(
                "{} belongs to user {owner}, so this user's ({}) folder is {}; user {owner} or root can remove \
                 the other one",
                foreign.display(),
                user(),
                self.path.display()
            ));
        }
    }
}

/// Makes a folder of this user alone at the path, or at another of its [`names`], if there is none. Prints
/// the name that another user has taken.
///
/// # Errors
/// If there is something else of this user, or no folder can be made.
pub fn make_private(path: &Path) -> Result<PathBuf, Distrust> {
    loop {
        let found = find_name(names(path))?;
        match std::fs::DirBuilder::new().mode(0o700).create(&found.path) {
            // Another user may have taken the name since.
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && !found.is_there => continue,
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Distrust::Unknown { path: found.path, cause });
            }
            _ => {}
        }
        found.say_foreign();
        check_private(&found.path)?;
        return Ok(found.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_own_or_may_write_is_not_trusted() {
        let judged_of =
            |is_folder, mode, owner, of| match judge(Path::new("/x"), is_folder, mode, (owner, of)) {
                Ok(()) => "trusted",
                Err(Distrust::Owner { .. }) => "owner",
                Err(Distrust::Others { .. }) => "others",
                Err(_) => "else",
            };
        let judged = |is_folder, mode, owner| judged_of(is_folder, mode, owner, group());
        for owner in [0, user()] {
            assert_eq!(judged(false, 0o755, owner), "trusted");
            assert_eq!(judged(true, 0o775, owner), "trusted");
            assert_eq!(judged_of(true, 0o775, owner, group() + 1), "others");
            assert_eq!(judged_of(false, 0o664, owner, group() + 1), "others");
            assert_eq!(judged_of(true, 0o1775, owner, group() + 1), "trusted");
            assert_eq!(judged_of(false, 0o755, owner, group() + 1), "trusted");
            assert_eq!(judged(true, 0o1777, owner), "trusted");
            assert_eq!(judged(true, 0o777, owner), "others");
            assert_eq!(judged(false, 0o646, owner), "others");
            assert_eq!(judged(false, 0o1777, owner), "others", "a sticky file is no folder");
        }
        assert_eq!(judged(true, 0o700, user() + 1), "owner");
        assert_eq!(judged(true, 0o1777, user() + 1), "owner");
    }

    #[test]
    fn an_unknown_owner_is_trusted_with_what_it_has_anyway() {
        let (folder, file) = (true, false);
        let top = tempfile::tempdir().expect("a folder");
        let executable = top.path().join("bin/doorbell");
        std::fs::create_dir(top.path().join("bin")).expect("a folder");
        let is_trusted = |path: &Path, is_folder| is_trusted_anyway(path, is_folder, &executable);
        for path in ["/", "/home", "/dev/shm"].map(Path::new).into_iter().chain([top.path()]) {
            assert!(is_trusted(path, folder), "{}", path.display());
        }
        assert!(is_trusted(&top.path().join("bin"), folder));
        assert!(!is_trusted(&top.path().join("b"), folder) && !is_trusted(Path::new("/home/eve"), folder));
        assert!(!is_trusted(&top.path().join("libibverbs.so"), file), "it is not beside the executable");
        let library = top.path().join("bin/libibverbs.so");
        for (mode, trusted) in [(0o755, true), (0o775, false), (0o1777, false)] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(top.path().join("bin"), mode).expect("they can be set");
            assert_eq!(is_trusted(&library, file), trusted);
        }
    }

    #[test]
    fn a_number_is_a_user_if_the_namespace_maps_it() {
        let initial = "         0          0 4294967295\n";
        assert!(maps(initial, 0) && maps(initial, 65534));
        let rootless = "0 1000 1\n1 100000 65536\n";
        assert!(maps(rootless, 0) && maps(rootless, 65534) && !maps(rootless, 65537));
        assert!(!maps("0 1000 1\n", 65534) && !maps("", 0) && !maps("x\n0", 0));
    }

    #[test]
    fn a_name_of_this_user_comes_first_and_then_a_free_one() {
        let top = tempfile::tempdir().expect("a folder");
        let path = top.path().join("doorbell");
        let found = || find_name(names(&path)).expect("a name");
        assert_eq!(found(), FoundName { path: path.clone(), is_there: false, foreign: None });
        assert_eq!(make_private(&path).expect("it can be made"), path);
        assert_eq!(found(), FoundName { path: path.clone(), is_there: true, foreign: None });
        // A folder that was made while another user had the first name.
        std::fs::remove_dir(&path).expect("it is empty");
        let second = top.path().join("doorbell.1");
        std::fs::create_dir(&second).expect("a folder");
        assert_eq!(found(), FoundName { path: second.clone(), is_there: true, foreign: None });
        assert!(make_private(&path).is_err(), "its mode is 0755");
        // Only root can make a file of another user.
        if user() == 0 {
            for (taken, count) in names(&path).zip(1..) {
                if taken != second {
                    std::fs::create_dir(&taken).expect("a folder");
                }
                std::os::unix::fs::chown(&taken, Some(4711), None).expect("root may");
                match count {
                    NAMES => {
                        let refused = find_name(names(&path)).expect_err("all are taken").to_string();
                        assert!(refused.contains("doorbell belongs to user 4711"), "{refused}");
                    }
                    1 => assert_eq!(found().path, second),
                    _ => assert_eq!((found().is_there, found().foreign), (false, Some((path.clone(), 4711)))),
                }
            }
        }
    }

    #[test]
    fn each_folder_on_the_path_counts() {
        let top = tempfile::tempdir().expect("a folder");
        let top_path = top.path().canonicalize().expect("it is there");
        let inner = top_path.join("open/inner");
        std::fs::create_dir_all(&inner).expect("folders");
        let mode = |path: &Path, mode| {
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(path, permissions).expect("they can be set");
        };
        check(&inner).expect("all are ours or root's");
        mode(&top_path.join("open"), 0o777);
        let refused = check(&inner).expect_err("everyone may write to one").to_string();
        assert!(
            refused.starts_with(&format!("{} is writable by other users", top_path.join("open").display())),
            "{refused}"
        );
        mode(&top_path.join("open"), 0o1777);
        check(&inner).expect("it is sticky");
        for (wrong, found) in [(0o750, "0750"), (0o500, "0500")] {
            mode(&inner, wrong);
            let refused = check_private(&inner).expect_err("it is not so").to_string();
            assert!(
                refused.ends_with(&format!("it is a folder of user {}, mode {found}", user())),
                "{refused}"
            );
        }
        mode(&inner, 0o700);
        check_private(&inner).expect("it is ours alone");
    }
}
