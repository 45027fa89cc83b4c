//! If cargo built the command but not the library, `doorbell run` builds the library.

use crate::common::{doorbell, library, text};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

/// A fake cargo that logs its arguments and copies the library, or fails.
const CARGO: &str = "#!/bin/sh
echo \"$PWD $*\" >> \"$0.log\"
[ -e \"$0.fails\" ] && { echo 'error: no such crate' >&2; exit 101; }
while [ \"$1\" != --target-dir ]; do shift; done
cp LIBRARY \"$2/release/libibverbs.so\"
";

/// Copies a program.
fn install(from: &Path, to: &Path) {
    let done = Command::new("install").arg(from).arg(to).status().expect("install(1) runs");
    assert!(done.success(), "{} is not copied", from.display());
}

/// A target directory for one test, with a release command and the fake cargo.
struct Target(PathBuf);

impl Target {
    fn new(test: &str) -> Target {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("library-{test}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("real/release")).expect("folders can be made");
        symlink("real", folder.join("target")).expect("a link can be made");
        let target = Target(folder);
        let cargo = CARGO.replace("LIBRARY", &library().display().to_string());
        std::fs::write(target.0.join("cargo.sh"), cargo).expect("it can be written");
        // Another process installs the programs. If this process wrote them, a child of another test could
        // hold the open file, and execve(2) would fail with ETXTBSY.
        install(&target.0.join("cargo.sh"), &target.0.join("cargo"));
        install(Path::new(doorbell().get_program()), &target.file("doorbell"));
        std::fs::write(target.file("doorbell.d"), "").expect("it can be written");
        target
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join("target/release").join(name)
    }

    fn run(&self) -> Output {
        let mut command = Command::new(self.file("doorbell"));
        command.env("CARGO", self.0.join("cargo")).args(["run", "--quiet", "--", "true"]);
        command.output().expect("doorbell runs")
    }

    /// The calls of the fake cargo, one line each.
    fn asked(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.0.join("cargo.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_library_that_is_missing_or_old_is_built_and_no_other() {
    let target = Target::new("built");
    let real = target.0.canonicalize().expect("it is there").join("real");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("they are there");
    let output = target.run();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(
        text(&output),
        "doorbell: building the library of the software NIC, libibverbs.so; this takes one or two minutes: \
         cargo build --release -p doorbell-soft-so\n"
    );
    let options = "build --release -p doorbell-soft-so --quiet --target-dir";
    assert_eq!(target.asked(), [format!("{} {options} {}", sources.display(), real.display())]);
    // The library exists, and is newer than its source.
    let source = target.0.join("source.rs");
    std::fs::write(&source, "").expect("it can be written");
    let changed = |when| {
        let file = std::fs::File::options().write(true).open(&source).expect("it is there");
        file.set_modified(when).expect("it has a time");
    };
    std::fs::write(target.file("libibverbs.d"), format!("libibverbs.so: {}\n", source.display()))
        .expect("a file");
    changed(SystemTime::now() - Duration::from_secs(60));
    let output = target.run();
    assert_eq!((output.status.success(), text(&output).as_str()), (true, ""));
    assert_eq!(target.asked().len(), 1);
    // The source is newer than the library.
    changed(SystemTime::now() + Duration::from_secs(60));
    assert!(text(&target.run()).starts_with("doorbell: building"));
    assert_eq!(target.asked().len(), 2);
}

#[test]
fn a_library_that_cannot_be_built_is_said_to_be_missing() {
    let target = Target::new("failed");
    std::fs::write(target.0.join("cargo.fails"), "").expect("it can be written");
    let output = target.run();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let [progress, cargo, failed] = lines[..] else { panic!("{said}") };
    assert!(progress.starts_with("doorbell: building"), "{said}");
    assert_eq!(cargo, "error: no such crate");
    assert!(
        failed.ends_with(
            "real/release/libibverbs.so is missing or older than its sources, and `cargo build --release -p \
             doorbell-soft-so` fails: exit status: 101"
        ),
        "{said}"
    );
}

#[test]
fn a_command_that_cargo_did_not_put_there_builds_nothing() {
    let target = Target::new("installed");
    std::fs::remove_file(target.file("doorbell.d")).expect("it is there");
    let output = target.run();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("doorbell: there is no library at ") && said.lines().count() == 1, "{said}");
    assert!(said.contains("cargo build --release -p doorbell-soft-so") && said.contains("--lib"), "{said}");
    assert_eq!(target.asked(), [""; 0]);
}
