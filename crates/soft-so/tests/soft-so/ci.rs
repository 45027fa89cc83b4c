//! Runs the commands of `docs/ci.md` in order, in a folder with the files of `docs/ci`.

use crate::common::{finish, installed, launch, leaves_something, library, text};
use doorbell_launch::Link;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// Programs that the page's commands need besides Doorbell. The container's command also needs `mmdebstrap`.
const PROGRAMS: [&str; 3] = ["gcc", "timeout", "unshare"];

/// A header that the page's C program includes.
const HEADER: &str = "/usr/include/rdma/rdma_cma.h";

/// A command of the page, and the output that the page shows for it.
struct Step<'p> {
    command: &'p str,
    prints: Vec<&'p str>,
}

/// The commands of all console blocks.
fn steps(page: &str) -> Vec<Step<'_>> {
    let blocks =
        page.split("```console ci\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let mut steps = Vec::<Step<'_>>::new();
    for line in blocks.flat_map(str::lines) {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push(Step { command, prints: Vec::new() }),
            None => steps.last_mut().expect("a block begins with a command").prints.push(line),
        }
    }
    steps
}

/// Sorts lines and removes PIDs, keys and addresses from them. Two processes may print in either order.
fn comparable<'t>(lines: impl IntoIterator<Item = &'t str>) -> Vec<String> {
    let mut lines: Vec<String> = lines.into_iter().map(without_numbers).collect();
    lines.sort();
    lines
}

fn without_numbers(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        let is_process = words.last() == Some(&"process");
        words.push(if is_process || word.starts_with("0x") { "N" } else { word });
    }
    words.join(" ")
}

/// The reason why this machine cannot create the container's folder, if the command's output shows one.
fn cannot_be_made(folder: &Path) -> Option<&'static str> {
    let said = std::fs::read_to_string(folder.join("all.txt")).unwrap_or_default();
    let whys = [
        ("Temporary failure resolving", "Debian's packages cannot be had"),
        ("Failed to fetch", "Debian's packages cannot be had"),
        ("unable to pick chroot mode", "this user has no ids in /etc/subuid"),
        ("unshare failed", "there are no user namespaces"),
    ];
    whys.into_iter().find(|(sign, _)| said.contains(sign)).map(|(_, why)| why)
}

#[test]
fn the_commands_of_the_page_print_what_it_says() {
    if PROGRAMS.iter().any(|program| installed(program).is_none()) {
        return;
    }
    if !Path::new(HEADER).exists() {
        return eprintln!("skipped: {HEADER} is not there");
    }
    let page = std::fs::read_to_string(Path::new(DOCS).join("ci.md")).expect("the page");
    let folder = tempfile::tempdir().expect("a folder");
    for file in std::fs::read_dir(Path::new(DOCS).join("ci")).expect("its files").flatten() {
        std::fs::copy(file.path(), folder.path().join(file.file_name())).expect("it can be copied");
    }
    // The container's files, which a user has installed.
    for file in [library(), library().with_file_name("doorbell")] {
        let name = file.file_name().expect("it has a name");
        std::fs::copy(&file, folder.path().join(name)).expect("it can be copied");
    }
    let fabric = launch(Link::Ib).fabric.unwrap_or_default();
    let mut path = OsString::from(folder.path());
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    for Step { command, prints } in steps(&page) {
        if command.contains("root.sh") && installed("mmdebstrap").is_none() {
            continue;
        }
        let mut shell = Command::new("sh");
        shell.current_dir(&folder).env("PATH", &path).env("DOORBELL_FABRIC", &fabric);
        // Standard error goes to standard output, as on a terminal. The shell leads a process group, so that
        // `finish` kills a command that hangs with all its processes.
        shell.process_group(0);
        shell.args(["-c", &format!("exec 2>&1; {command}")]);
        let shell = shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let printed = text(&finish(shell.spawn().expect("it starts"), command));
        if let Some(why) = cannot_be_made(folder.path()) {
            eprintln!("skipped: {command}: {why}");
            continue;
        }
        let all = std::fs::read_to_string(folder.path().join("all.txt")).unwrap_or_default();
        assert_eq!(comparable(printed.lines()), comparable(prints), "{command}: {printed}{all}");
    }
    assert!(!leaves_something(&fabric), "the fabric {fabric} is still there");
}
