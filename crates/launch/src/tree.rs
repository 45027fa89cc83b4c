//! Files and links below a folder, as one value.

use std::collections::BTreeMap;
use std::fs::{Permissions, create_dir, set_permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// An entry below a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeEntry {
    /// A file with this text.
    File(String),
    /// A symbolic link to this path.
    Link(PathBuf),
}

/// Entries by their paths below a folder.
pub type Contents = BTreeMap<PathBuf, TreeEntry>;

/// Creates the entries below a folder, which must have none of them. Files get mode 0444 and new folders
/// 0700, regardless of the umask.
pub fn write(contents: &Contents, folder: &Path) -> io::Result<()> {
    for (path, entry) in contents {
        make_folders(folder, path.parent().unwrap_or(Path::new("")))?;
        let path = folder.join(path);
        match entry {
            TreeEntry::Link(to) => symlink(to, path)?,
            TreeEntry::File(text) => {
                std::fs::write(&path, text)?;
                set_permissions(path, Permissions::from_mode(0o444))?;
            }
        }
    }
    Ok(())
}

fn make_folders(folder: &Path, below: &Path) -> io::Result<()> {
    let mut path = folder.to_owned();
    for name in below {
        path.push(name);
        match create_dir(&path) {
            Ok(()) => set_permissions(&path, Permissions::from_mode(0o700))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
