//! Decides which files and folders are trusted. Only this user, root and their groups can change a trusted
//! file or folder.

use std::io;
use std::os::unix::fs::MetadataExt;
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

/// An addition to a message about an owner, because one number stands for all unmapped users of a user
/// namespace. Empty for any other number.
fn unmapped(owner: u32) -> &'static str {
    const OVERFLOW: u32 = 65534;
    if owner == OVERFLOW { "; in a user namespace this number stands for all unmapped users" } else { "" }
}

/// Checks a path and each folder above it. The path must be canonical, because links are not followed.
pub fn check(path: &Path) -> Result<(), Distrust> {
    path.ancestors().try_for_each(|path| {
        let found = look(path)?;
        judge(path, found.is_dir(), found.mode() & 0o7777, (found.uid(), found.gid()))
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
