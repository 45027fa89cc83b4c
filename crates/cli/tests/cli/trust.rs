//! `doorbell run` loads only files that nobody but this user and root can have written.

use crate::common::{doorbell, library, text};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A new folder for this test with a copy of the library in it.
fn copied(test: &str) -> (PathBuf, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trust-{test}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    // The command names the canonical path, and cargo's target folder may be a symbolic link.
    let folder = folder.canonicalize().expect("it is there");
    let copy = folder.join("libibverbs.so");
    std::fs::copy(library(), &copy).expect("it can be copied");
    (folder, copy)
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode can be set");
}

/// Runs a program with this library. `runtime` is the user's runtime directory.
fn run(library: &Path, runtime: Option<&Path>, program: &[&str]) -> Output {
    let mut command = doorbell();
    match runtime {
        Some(path) => command.env("XDG_RUNTIME_DIR", path),
        None => command.env_remove("XDG_RUNTIME_DIR"),
    };
    let fabric = format!("trust-{}", std::process::id());
    command.args(["run", "--quiet", "--fabric", &fabric, "--lib"]).arg(library).arg("--").args(program);
    command.output().expect("doorbell runs")
}

/// Checks for exit code 2 and one sentence that contains `saying`.
fn is_refused(output: &Output, saying: &str) {
    let said = text(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("doorbell: ") && said.contains(saying) && said.lines().count() == 1, "{said}");
}

#[test]
fn what_is_no_file_is_no_library() {
    let (folder, copy) = copied("no-file");
    is_refused(&run(&folder, None, &["true"]), "there is no library at");
    std::fs::remove_file(&copy).expect("it is there");
    let fifo = std::process::Command::new("mkfifo").arg(&copy).status().expect("it starts");
    assert!(fifo.success());
    is_refused(&run(&copy, None, &["true"]), "there is no library at");
}

#[test]
fn what_is_no_library_of_ours_is_not_loaded() {
    let (_, copy) = copied("not-ours");
    for other in ["/bin/true", file!()] {
        let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(other);
        std::fs::copy(&other, &copy).expect("it can be copied");
        set_mode(&copy, 0o644);
        is_refused(&run(&copy, None, &["true"]), "is not the software NIC's library");
    }
}

#[test]
fn a_library_that_others_may_change_is_not_loaded() {
    let (folder, copy) = copied("change");
    assert!(run(&copy, None, &["true"]).status.success());
    set_mode(&copy, 0o666);
    is_refused(
        &run(&copy, None, &["true"]),
        &format!("{} is writable by other users (mode 0666)", copy.display()),
    );
    set_mode(&copy, 0o644);
    set_mode(&folder, 0o777);
    is_refused(&run(&copy, None, &["true"]), &format!("{} is writable by other users", folder.display()));
    set_mode(&folder, 0o1777);
    assert!(
        run(&copy, None, &["true"]).status.success(),
        "nobody replaces what is another's in a sticky folder"
    );
    // SAFETY: the function takes no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: only root gives files away");
    }
    for given in [&copy, &folder] {
        std::os::unix::fs::chown(given, Some(4711), None).expect("root may");
        let saying =
            format!("{} belongs to user 4711, but must belong to this user (0) or to root", given.display());
        is_refused(&run(&copy, None, &["true"]), &saying);
        std::os::unix::fs::chown(given, Some(0), None).expect("root may");
    }
}

#[test]
fn programs_look_for_libraries_in_a_folder_of_links_alone() {
    let (folder, copy) = copied("links");
    let [private, open] = ["private", "open"].map(|name| folder.join(name));
    for (path, mode) in [(&private, 0o700), (&open, 0o755)] {
        std::fs::create_dir(path).expect("a folder can be made");
        set_mode(path, mode);
    }
    for (runtime, below) in
        [(None, Path::new("/dev/shm")), (Some(&*private), &private), (Some(&*open), Path::new("/dev/shm"))]
    {
        let said = text(&run(&copy, runtime, &["printenv", "LD_LIBRARY_PATH"]));
        let links = Path::new(said.trim().split(':').next().expect("a folder"));
        assert!(links.starts_with(below), "{said}");
        let mut names: Vec<_> =
            std::fs::read_dir(links).expect("it is there").flatten().map(|e| e.file_name()).collect();
        names.sort();
        assert_eq!(names, ["libibverbs.so", "libibverbs.so.1"]);
        for name in names {
            assert_eq!(std::fs::read_link(links.join(name)).expect("a link"), copy);
        }
        assert_eq!(links.metadata().expect("it is there").permissions().mode() & 0o777, 0o700);
    }
    std::fs::remove_file(&copy).expect("it can be removed");
    // The next launch, with any library, removes links to the missing file.
    assert!(run(library(), None, &["true"]).status.success());
    let tops = std::fs::read_dir("/dev/shm").expect("it can be listed").flatten().map(|entry| entry.path());
    let leads_there =
        |folder: &Path| std::fs::read_link(folder.join("lib/libibverbs.so")).is_ok_and(|to| to == copy);
    for top in tops.filter(|top| top.to_string_lossy().contains("doorbell-libraries")) {
        for links in std::fs::read_dir(top).into_iter().flatten().flatten() {
            assert!(!leads_there(&links.path()), "{:?}", links.path());
        }
    }
}

#[test]
fn a_folder_for_links_that_others_may_enter_is_refused() {
    let (folder, copy) = copied("entered");
    let runtime = folder.join("runtime");
    std::fs::create_dir_all(runtime.join("doorbell-libraries")).expect("folders can be made");
    set_mode(&runtime, 0o700);
    set_mode(&runtime.join("doorbell-libraries"), 0o755);
    is_refused(
        &run(&copy, Some(&runtime), &["true"]),
        "doorbell-libraries must be a folder that only this user",
    );
}

#[test]
fn a_program_finds_the_library_by_its_name_without_preloading_it() {
    let output = run(library(), None, &["sh", "-c", "LD_PRELOAD= exec ibv_devinfo -l"]);
    if output.status.code() == Some(127) {
        return eprintln!("skipped: ibv_devinfo is not installed");
    }
    assert!(output.status.success() && text(&output).contains("doorbell0"), "{}", text(&output));
}

#[test]
fn a_folder_to_meet_in_is_this_users_alone() {
    let (folder, copy) = copied("meets");
    let place = folder.join("place");
    std::fs::create_dir(&place).expect("a folder can be made");
    let meet = |place: &Path, fabric: &[&str]| {
        let mut command = doorbell();
        command.args(["run", "--quiet", "--meet"]).arg(place).args(fabric).arg("--lib").arg(&copy).args([
            "--",
            "printenv",
            "DOORBELL_MEET",
        ]);
        command.output().expect("doorbell runs")
    };
    let named = ["--fabric", "trust"];
    for (mode, is_private) in [(0o755, false), (0o710, false), (0o1777, false), (0o700, true)] {
        set_mode(&place, mode);
        let output = meet(&place, &named);
        match is_private {
            true => assert_eq!(text(&output).trim(), place.to_str().expect("text")),
            false => {
                is_refused(&output, &format!("{} must be a folder that only this user", place.display()))
            }
        }
    }
    is_refused(&meet(&place, &[]), "--fabric");
    is_refused(&meet(&folder.join("nowhere"), &named), "nowhere cannot be used: No such file");
    is_refused(&meet(&copy, &named), "must be a folder that only this user");
    set_mode(&folder, 0o777);
    let (library, _) = copied("meets-library");
    let mut command = doorbell();
    command.args(["run", "--meet"]).arg(&place).args(named).arg("--lib").arg(library.join("libibverbs.so"));
    is_refused(&command.args(["--", "true"]).output().expect("doorbell runs"), "is writable by other users");
    set_mode(&folder, 0o755);
}
