//! Finds the library, and builds it if necessary.
//!
//! The library is beside the command `doorbell`. `cargo run` builds only the command, because most tasks of
//! the command need no library. So a command in cargo's target folder builds the library if it is missing or
//! older than its sources.

use crate::say::say;
use crate::trust;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;
use thiserror::Error;

/// File name of the library, as `cargo build` makes it.
pub const LIBRARY: &str = "libibverbs.so";

/// The Cargo package of the library.
const PACKAGE: &str = "doorbell-soft-so";

/// The checkout that this crate was compiled from.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The reason why the library was not built.
#[derive(Debug, Error)]
#[error("{} is missing or older than its sources, and `{command}` fails: {why}", library.display())]
pub struct NotBuilt {
    /// The library.
    pub library: PathBuf,
    /// The command that builds the library.
    pub command: String,
    /// The reason why the command fails.
    pub why: String,
}

/// The library beside this executable. If it is missing or old, and cargo has built the executable, the
/// library is built first.
pub(super) fn beside_executable() -> Result<PathBuf, NotBuilt> {
    let executable = std::env::current_exe().unwrap_or_default();
    let library = executable.with_file_name(LIBRARY);
    match Checkout::of(&executable, Path::new(SOURCES)) {
        Some(checkout) if !is_current(&library) => checkout.build(&library)?,
        _ => {}
    }
    Ok(library)
}

/// The sources of an executable that cargo has built, and the place of the executable.
#[derive(Debug, PartialEq, Eq)]
struct Checkout {
    sources: PathBuf,
    /// The target folder, which has a folder for each profile.
    target: PathBuf,
    profile: String,
}

impl Checkout {
    /// `None` if the executable is not in cargo's target folder, or its sources are missing. Also `None` if
    /// users other than this user and root may change the sources or the folder, because a build runs build
    /// scripts of the sources.
    fn of(executable: &Path, sources: &Path) -> Option<Checkout> {
        // Cargo lists the sources of an executable in a file beside the executable. No installation copies
        // this file.
        if !executable.with_extension("d").is_file() {
            return None;
        }
        let folder = executable.parent()?;
        let sources = sources.canonicalize().ok()?;
        let is_trusted = trust::check(&sources.join("Cargo.toml")).is_ok() && trust::check(folder).is_ok();
        is_trusted.then_some(Checkout {
            sources,
            target: folder.parent()?.into(),
            profile: folder.file_name()?.to_str()?.into(),
        })
    }

    /// The options of `cargo build` for the library, with the command's profile.
    fn options(&self) -> Vec<&str> {
        let profile = match &*self.profile {
            "debug" => vec![],
            "release" => vec!["--release"],
            other => vec!["--profile", other],
        };
        [vec!["build"], profile, vec!["-p", PACKAGE]].concat()
    }

    /// Builds the library with the cargo that runs this command (`CARGO`), or with the cargo in `PATH`.
    fn build(&self, library: &Path) -> Result<(), NotBuilt> {
        let options = self.options();
        let command = format!("cargo {}", options.join(" "));
        say(format_args!(
            "building the library of the software NIC, {LIBRARY}; this takes one or two minutes: {command}"
        ));
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(options).arg("--quiet").arg("--target-dir").arg(&self.target).current_dir(&self.sources);
        let why = match cargo.stdin(Stdio::null()).stdout(Stdio::null()).status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Err(NotBuilt { library: library.into(), command, why })
    }
}

/// Whether the library exists and is not older than its sources. Without cargo's list of sources, an existing
/// library counts as current.
fn is_current(library: &Path) -> bool {
    let Ok(built) = modified(library) else { return false };
    let sources = std::fs::read_to_string(library.with_extension("d")).unwrap_or_default();
    // A missing source was renamed or removed after the build.
    sources_of(&sources).iter().all(|source| modified(source).is_ok_and(|changed| changed <= built))
}

fn modified(path: &Path) -> std::io::Result<SystemTime> {
    path.metadata()?.modified()
}

/// The files after the colon of a make(1) rule that cargo wrote. Spaces separate the files. A backslash
/// precedes a space in a name.
fn sources_of(rule: &str) -> Vec<PathBuf> {
    let Some((_, list)) = rule.trim_end().split_once(": ") else { return Vec::new() };
    let mut sources = vec![String::new()];
    let mut characters = list.chars();
    while let Some(character) = characters.next() {
        let last = sources.last_mut().expect("there is one from the beginning");
        match character {
            '\\' => last.extend(characters.next()),
            ' ' => sources.push(String::new()),
            other => last.push(other),
        }
    }
    sources.into_iter().map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, create_dir_all};
    use std::time::Duration;

    #[test]
    fn names_with_spaces_are_read() {
        let rule = "/t/libibverbs.so: /a/b.rs /a/with\\ space.rs /c.rs\n";
        let expected = ["/a/b.rs", "/a/with space.rs", "/c.rs"].map(PathBuf::from);
        assert_eq!(sources_of(rule), expected);
        assert_eq!(sources_of(""), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_library_is_current_until_a_source_changes_or_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let [library, rule, source] = ["lib.so", "lib.d", "source.rs"].map(|name| folder.path().join(name));
        assert!(!is_current(&library), "it is not there");
        let time = SystemTime::now();
        let touch =
            |path: &Path, time| File::create(path).and_then(|file| file.set_modified(time)).expect("a time");
        touch(&library, time);
        assert!(is_current(&library), "nobody says what it was built from");
        std::fs::write(&rule, format!("{}: {}\n", library.display(), source.display())).expect("a file");
        assert!(!is_current(&library), "a source is gone");
        touch(&source, time - Duration::from_secs(1));
        assert!(is_current(&library));
        touch(&source, time + Duration::from_secs(1));
        assert!(!is_current(&library));
    }

    #[test]
    fn only_what_cargo_has_put_there_has_a_checkout() {
        let top = tempfile::tempdir().expect("a folder");
        let top = top.path().canonicalize().expect("it is there");
        let (sources, folder) = (top.join("sources"), top.join("target/dist"));
        let executable = folder.join("doorbell");
        create_dir_all(&sources).and_then(|()| create_dir_all(&folder)).expect("folders");
        assert_eq!(Checkout::of(&executable, &sources), None, "nothing beside it");
        File::create(folder.join("doorbell.d")).expect("a file");
        assert_eq!(Checkout::of(&executable, &sources), None, "no sources");
        File::create(sources.join("Cargo.toml")).expect("a file");
        let checkout = Checkout::of(&executable, &sources).expect("all is there");
        assert_eq!(checkout.target, top.join("target"));
        assert_eq!(checkout.options(), ["build", "--profile", "dist", "-p", PACKAGE]);
        let of = |profile: &str| Checkout { profile: profile.into(), sources: "".into(), target: "".into() };
        assert_eq!(of("debug").options(), ["build", "-p", PACKAGE]);
        assert_eq!(of("release").options(), ["build", "--release", "-p", PACKAGE]);
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&sources, all).expect("its mode");
        assert_eq!(Checkout::of(&executable, &sources), None, "others may change the sources");
    }
}
