//! A folder of links to the library, one for each of its names. The folder has nothing else, because the
//! loader would load other libraries from it, too.

use crate::tree::{Contents, TreeEntry, write};
use crate::trust::{Distrust, check, check_private, make_private, user};
use sha2::{Digest, Sha256};
use std::fs::{Permissions, read_dir, read_link, rename};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// The subfolder that holds the links to the library, and nothing else.
pub(super) const LIBRARIES: &str = "lib";
/// The names by which programs ask the loader for the library.
const NAMES: [&str; 2] = ["libibverbs.so", "libibverbs.so.1"];
/// Prefix of the names of folders that are being created or removed.
const UNDER_WAY: &str = ".";
/// A folder with the prefix [`UNDER_WAY`] and of a greater age was left by a killed launcher.
const LEFT: Duration = Duration::from_secs(60 * 60);
/// The number of attempts to create the folder while other processes remove or change it.
const TRIES: u32 = 10;

/// Links to the library under its names.
pub(super) fn links(library: &Path) -> Contents {
    NAMES.iter().map(|name| (Path::new(LIBRARIES).join(name), TreeEntry::Link(library.into()))).collect()
}

/// The folder with these contents, made if it is missing. `top` holds all such folders. If another user has
/// taken the path of `top`, it is made at another path beside.
pub(super) fn folder(top: &Path, contents: &Contents) -> Result<PathBuf, Distrust> {
    let top = &*make_private(top)?;
    let unknown = |cause| Distrust::Unknown { path: top.into(), cause };
    sweep(top);
    let hash = Sha256::digest(format!("{contents:?}"));
    let name: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = top.join(name);
    for _ in 0..TRIES {
        if is_right(&folder, contents) {
            return Ok(folder);
        }
        install(top, &folder, contents).map_err(unknown)?;
    }
    Err(unknown(io::Error::other("somebody changes what is made there")))
}

/// The parent of all folders of links. It is in the user's XDG_RUNTIME_DIR if that is private, otherwise in
/// /dev/shm.
pub(super) fn top() -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = own.and_then(|path| path.canonicalize().ok()).filter(|path| is_loadable(path));
    match own.filter(|path| check_private(path).is_ok()) {
        Some(path) => path.join("doorbell-libraries"),
        None => PathBuf::from(format!("/dev/shm/doorbell-libraries-{}", user())),
    }
}

/// Whether `LD_PRELOAD` and `LD_LIBRARY_PATH` can contain this path.
pub(super) fn is_loadable(path: &Path) -> bool {
    !path.as_os_str().as_encoded_bytes().iter().any(|b| b" :;$\t\n".contains(b))
}

/// Whether a folder has exactly these contents.
fn is_right(folder: &Path, contents: &Contents) -> bool {
    let mut found = Contents::new();
    read_into(&mut found, folder, Path::new("")).is_ok()
        && found == *contents
        && check(&folder.join(LIBRARIES)).is_ok()
}

/// Adds the entries of `folder` below the path `below` to `found`.
fn read_into(found: &mut Contents, folder: &Path, below: &Path) -> io::Result<()> {
    for entry in read_dir(folder.join(below))? {
        let entry = entry?;
        let (path, kind) = (below.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            read_into(found, folder, &path)?;
        } else if kind.is_symlink() {
            found.insert(path, TreeEntry::Link(read_link(entry.path())?));
        } else {
            found.insert(path, TreeEntry::File(std::fs::read_to_string(entry.path())?));
        }
    }
    Ok(())
}

/// Creates a complete folder, and moves it to `folder` by one rename. If `folder` has other contents, this
/// call only removes it.
fn install(top: &Path, folder: &Path, contents: &Contents) -> io::Result<()> {
    let new = under_way(top)?;
    write(contents, new.path())?;
    match rename(new.path(), folder) {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::ENOTEMPTY | libc::EEXIST)) => Err(error),
        // Another launcher has created the folder first.
        Err(_) if is_right(folder, contents) => Ok(()),
        Err(_) => put_away(top, folder),
        Ok(()) => Ok(()),
    }
}

/// Removes a folder. It is renamed first, so that no process finds it half removed.
fn put_away(top: &Path, folder: &Path) -> io::Result<()> {
    let away = under_way(top)?;
    match rename(folder, away.path().join("old")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn under_way(top: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(UNDER_WAY).permissions(Permissions::from_mode(0o700)).tempdir_in(top)
}

/// Removes folders of links to missing libraries, and folders that killed launchers have left. Failures are
/// ignored, because they leave everything as it was.
fn sweep(top: &Path) {
    for entry in read_dir(top).into_iter().flatten().flatten() {
        let path = entry.path();
        let leads_nowhere = || NAMES.iter().all(|name| !path.join(LIBRARIES).join(name).exists());
        if entry.file_name().as_encoded_bytes().starts_with(UNDER_WAY.as_bytes()) {
            let made = entry.metadata().and_then(|about| about.modified()).ok();
            let age = made.and_then(|made| SystemTime::now().duration_since(made).ok());
            if age.is_some_and(|age| age > LEFT) {
                let _ = std::fs::remove_dir_all(&path);
            }
        } else if leads_nowhere() {
            let _ = put_away(top, &path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A temporary folder, and in it the path of a top folder and a library.
    fn place() -> (TempDir, PathBuf, PathBuf) {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().canonicalize().expect("it is there");
        let library = path.join("lib.so");
        std::fs::write(&library, "").expect("a file");
        (place, path.join("top"), library)
    }

    fn entries(folder: &Path) -> Vec<String> {
        let names = read_dir(folder).expect("it can be listed").flatten();
        let mut names: Vec<String> = names.map(|entry| entry.file_name().to_string_lossy().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_has_links_to_the_library_and_nothing_else() {
        let (_place, top, library) = place();
        let folder = folder(&top, &links(&library)).expect("it can be made");
        let libraries = folder.join(LIBRARIES);
        assert_eq!(entries(&libraries), ["libibverbs.so", "libibverbs.so.1"]);
        for name in NAMES {
            assert_eq!(read_link(libraries.join(name)).expect("a link"), library);
        }
        for path in [&top, &folder] {
            assert_eq!(path.metadata().expect("it is there").permissions().mode() & 0o7777, 0o700);
        }
        // The next launch removes anything else that was put there.
        std::fs::write(libraries.join("libmlx5.so"), "").expect("a file");
        assert_eq!(super::folder(&top, &links(&library)).expect("it is there"), folder);
        assert_eq!(entries(&libraries), ["libibverbs.so", "libibverbs.so.1"]);
        assert_eq!(entries(&top).len(), 1, "nothing is left on the way");
    }

    #[test]
    fn links_to_a_library_that_is_gone_go_with_the_next_launch() {
        let (_place, top, library) = place();
        let gone = folder(&top, &links(&library.with_file_name("gone.so"))).expect("links may lead nowhere");
        let kept = folder(&top, &links(&library)).expect("it can be made");
        assert!(!gone.exists() && kept.exists());
    }

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let (_place, top, library) = place();
        std::fs::create_dir(&top).expect("a folder");
        assert!(matches!(folder(&top, &links(&library)), Err(Distrust::NotPrivate { .. })));
        std::fs::remove_dir(&top).expect("it is empty");
        symlink(library.parent().expect("a folder"), &top).expect("a link");
        assert!(
            matches!(folder(&top, &links(&library)), Err(Distrust::NotPrivate { .. })),
            "a link is not followed"
        );
    }

    #[test]
    fn launchers_at_once_find_the_folder_whole() {
        let (_place, top, library) = place();
        let other = library.with_file_name("other.so");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let library = if thread % 2 == 0 { &library } else { &other };
                let top = &top;
                scope.spawn(move || {
                    for _ in 0..50 {
                        let contents = links(library);
                        let folder = folder(top, &contents).expect("it can be made");
                        if thread % 2 == 0 {
                            assert!(is_right(&folder, &contents), "{folder:?}");
                        }
                    }
                });
            }
        });
        std::fs::write(&other, "").expect("a file");
        folder(&top, &links(&other)).expect("it can be made");
        assert_eq!(entries(&top).len(), 2);
    }
}
