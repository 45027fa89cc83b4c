//! Runs a program on the software NIC: sets the environment that loads the library, and becomes the program, or where
//! statistics are wanted its parent.

mod folder;
mod front;
mod library;
mod lines;
mod monitor;
mod ranks;
mod served;
mod signals;

pub use library::{LIBRARY, NotBuilt};
pub use ranks::MOST_RANKS;
pub use served::Unserved;

use crate::counts::board::Board;
use crate::counts::process::ProcessCounts;
use crate::faults::Faults;
use crate::limits::Limits;
use crate::stats::{Stats, check_place};
use crate::strict::Strict;
use crate::trust::{self, Distrust};
use crate::{address, trace, variables};
use monitor::Monitor;
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How the device presents itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Link {
    /// InfiniBand: addressed by LID.
    #[default]
    Ib,
    /// Ethernet (RoCE): addressed by GID.
    Roce,
}

/// What to run, and how.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// How the device presents itself.
    pub link: Link,
    /// Name or file of the profile of the NIC as which the device presents itself, by vendor and part id and by its limits,
    /// as far as the device has as much; without one, as itself.
    pub presented_as: Option<String>,
    /// The library; without one, [`LIBRARY`] beside the running executable.
    pub library: Option<PathBuf>,
    /// Whether page-aligned allocations of the program stay in private memory.
    pub private_buffers: bool,
    /// Whether the program's memory stays closed to processes that are not its parents, where Yama closes it: its own
    /// thread serves its peers then.
    pub closed: bool,
    /// Only processes with the same name here reach each other; 1 to 100 letters, digits, `-` and `_`.
    pub fabric: Option<String>,
    /// A folder of this user alone: processes that name it and the fabric are of one, in whatever namespaces they are.
    pub meet: Option<PathBuf>,
    /// Whether it is not said why a QP is in error.
    pub quiet: bool,
    /// The faults that come to the program, and their seed.
    pub faults: Option<(Faults, u64)>,
    /// What follows where the program does what would not work on a NIC; without it, nothing.
    pub strict: Option<Strict>,
    /// A file for posts and completions, and of how many work requests of each process.
    pub trace: Option<(PathBuf, u64)>,
    /// What to count, and for which NIC.
    pub stats: Option<Stats>,
    /// How many processes of the program are run as ranks of one run, from 1 to [`MOST_RANKS`]; without it one, which is none.
    pub ranks: Option<u32>,
    /// The address of the host that the program is on; of ranks that of the first, and each next one has the next.
    pub ip: Option<IpAddr>,
}

/// Why a program was not run.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The library is not where it should be.
    #[error(
        "there is no library at {}: `cargo build --release -p doorbell-soft-so` in Doorbell's sources builds one, and --lib \
         names one", .0.display()
    )]
    NoLibrary(PathBuf),
    /// The library cannot be built.
    #[error(transparent)]
    NotBuilt(#[from] NotBuilt),
    /// What is there is not the library.
    #[error("{} is not the software NIC's library: name the {LIBRARY} that `cargo build --release -p doorbell-soft-so` makes", .0.display())]
    NoLibraryOfOurs(PathBuf),
    /// The loader separates what its lists have by these, and replaces words with a $.
    #[error("the loader cannot take a library from {}: the path holds a space, a colon, a semicolon or a $", .0.display())]
    BadPath(PathBuf),
    /// Another user may have put something into the library, or beside it.
    #[error("the library is not loaded, as others may change it: {0}")]
    Untrusted(Distrust),
    /// Another user may have put something into the folder of links to it.
    #[error(
        "there is no folder for the links by which programs find the library: {0}; XDG_RUNTIME_DIR may name another \
         place for it, a folder of your own with mode 0700"
    )]
    NoLinks(Distrust),
    /// No name for a fabric.
    #[error("a fabric's name has 1 to 100 letters, digits, - and _, got {0:?}")]
    BadFabric(String),
    /// A folder to meet in, and no fabric.
    #[error("{} is to be met in by no fabric: name one by --fabric, the same for all who meet there", .0.display())]
    MeetAlone(PathBuf),
    /// Another user may come to the folder to meet in.
    #[error("nobody can meet there: {0}")]
    BadMeeting(Distrust),
    /// No address that a host can have of its own.
    #[error("{address} is no address of one host: {why}")]
    BadAddress {
        /// The address.
        address: IpAddr,
        /// Why not.
        why: &'static str,
    },
    /// So many ranks cannot be.
    #[error("a run has 1 to {MOST_RANKS} ranks, not {0}")]
    BadRanks(u32),
    /// The profile says nothing that a device could present.
    #[error(
        "profile {0} has no device_id, so no program can be shown its NIC's: give one that has, as cib, or add vendor_id, \
         vendor_part_id and source"
    )]
    NoDeviceId(String),
    /// The profile.
    #[error(transparent)]
    Profile(#[from] doorbell_nic::ProfileError),
    /// The file for the statistics.
    #[error("cannot write the statistics to {}: {cause}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// The file for the trace.
    #[error("cannot write the trace to {}: {cause}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// Nobody can count beside the program.
    #[error("cannot count what the program posts: {0}")]
    Counting(io::Error),
    /// The library cannot be put in front of the program.
    #[error(
        "cannot run {} on the software NIC{}: {why}", program.display(),
        if *file == *program { String::new() } else { format!(", which is {}", file.display()) }
    )]
    Unserved {
        /// The program, as it was named.
        program: PathBuf,
        /// The file that the kernel would run: an interpreter's where the program is a script.
        file: PathBuf,
        /// Why not.
        why: Unserved,
    },
    /// The program does not start.
    #[error("cannot run {}: {cause}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// Why not.
        cause: io::Error,
    },
}

impl LaunchError {
    /// Whether there is no such program. One that is there and does not run has another exit code in all shells.
    pub fn is_not_there(&self) -> bool {
        matches!(self, LaunchError::Program { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
    }
}

/// How long the end of the program is waited for by others that may be ending, as those that the same signal has told to.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_millis(2);

impl Launch {
    /// Runs the program and ends as it does; returns only where it does not start. This process must have no other
    /// threads.
    ///
    /// Of several ranks this process stays the parent, passes signals, input and output on, and ends as the first that
    /// fails.
    ///
    /// Without statistics this process becomes the program. With them it stands for the program, which is a child of
    /// its child: signals, stops and the end are as if it were the program, and its files are let go. When the program has ended,
    /// the statistics of all processes are told that have not told them themselves by exit(3); those that outlive it by
    /// more than a second are left to do that. Where this process is killed, the program is.
    pub fn run(&self, program: &OsStr, arguments: &[OsString]) -> LaunchError {
        match self.command(program, arguments) {
            Err(error) => error,
            Ok(command) => match (&self.stats, self.ranks) {
                (stats, Some(ranks)) => self.run_ranks(ranks, stats.as_ref(), program, command),
                (Some(stats), None) => watched(stats, program, command),
                (None, None) => became(program, command),
            },
        }
    }

    /// Runs so many processes of the program, and tells what was counted when all have ended.
    fn run_ranks(
        &self,
        count: u32,
        stats: Option<&Stats>,
        program: &OsStr,
        mut command: Command,
    ) -> LaunchError {
        let board = match stats.map(|_| Board::create()).transpose() {
            Ok(board) => board,
            Err(error) => return LaunchError::Counting(error),
        };
        if let Some(address) = board.as_ref().and_then(|(file, _)| Board::address(file)) {
            command.env(variables::COUNTS, address);
        }
        match ranks::run(&command, count, self.ip) {
            Err(cause) => not_started(program, cause),
            Ok(ended) => {
                if let (Some(stats), Some((_, board))) = (stats, board) {
                    stats.tell_together(&ProcessCounts::on(board).collect::<Vec<_>>());
                }
                signals::end_as(ended)
            }
        }
    }

    /// The program with the environment that it needs.
    pub fn command(&self, program: &OsStr, arguments: &[OsString]) -> Result<Command, LaunchError> {
        if let Some(ranks) = self.ranks.filter(|ranks| !(1..=MOST_RANKS).contains(ranks)) {
            return Err(LaunchError::BadRanks(ranks));
        }
        let library = self.find_library()?;
        if let Some((file, why)) = served::refusal(program, &library) {
            return Err(LaunchError::Unserved { program: program.into(), file, why });
        }
        let mut command = Command::new(program);
        self.meet_in(&mut command)?;
        let folder =
            folder::folder(&folder::top(), &folder::links(&library)).map_err(LaunchError::NoLinks)?;
        let libraries = folder.join(folder::LIBRARIES);
        command.args(arguments);
        // The program finds the library by the name that it was linked with as it is loaded
        // already, and by its other names in a folder that has nothing else.
        command.env("LD_PRELOAD", in_front_of("LD_PRELOAD", library.as_os_str()));
        command.env("LD_LIBRARY_PATH", in_front_of("LD_LIBRARY_PATH", libraries.as_os_str()));
        // AddressSanitizer's runtime would else end a program where anything is loaded before it.
        command.env("ASAN_OPTIONS", in_front_of("ASAN_OPTIONS", "verify_asan_link_order=0".as_ref()));
        command.env(variables::FOLDER, folder);
        command.env(variables::LINK, if self.link == Link::Roce { "roce" } else { "ib" });
        if let Some(name) = &self.presented_as {
            let profile = doorbell_nic::Profile::named_or_file(name)?;
            command.env(variables::DEVICE_LIMITS, Limits::of(&profile).text());
            let id = profile.device_id.ok_or_else(|| LaunchError::NoDeviceId(name.clone()))?;
            command.env(variables::DEVICE_ID, format!("{}:{}", id.vendor_id, id.vendor_part_id));
        }
        command.env(variables::SHARED_BUFFERS, if self.private_buffers { "0" } else { "1" });
        command.env(variables::PTRACE, if self.closed { "no" } else { "yes" });
        if let Some(address) = self.ip {
            for rank in 0..self.ranks.unwrap_or(1) {
                address::check(address, rank).map_err(|why| LaunchError::BadAddress { address, why })?;
            }
            command.env(variables::IP, address.to_string());
        }
        if self.quiet {
            command.env(variables::QUIET, "1");
        }
        if let Some((faults, seed)) = &self.faults {
            command.env(variables::FAULTS, faults.to_string()).env(variables::SEED, seed.to_string());
        }
        if let Some(strict) = self.strict {
            command.env(variables::STRICT, strict.name());
        }
        if let Some((path, most)) = &self.trace {
            let begun = trace::begin(path, *most)
                .map_err(|cause| LaunchError::Trace { path: path.clone(), cause })?;
            command.env(variables::TRACE, begun);
        }
        if let Some(stats) = &self.stats {
            if let Some(path) = &stats.json {
                check_place(path).map_err(|cause| LaunchError::Json { path: path.clone(), cause })?;
            }
            stats.set(&mut command)?;
        }
        Ok(command)
    }

    /// Sets which fabric the program is on, checked.
    fn meet_in(&self, command: &mut Command) -> Result<(), LaunchError> {
        if let Some(fabric) = &self.fabric {
            if !variables::is_fabric_name(fabric) {
                return Err(LaunchError::BadFabric(fabric.clone()));
            }
            command.env(variables::FABRIC, fabric);
        }
        if let Some(folder) = &self.meet {
            command.env(variables::MEET, self.checked_meeting(folder)?);
        }
        Ok(())
    }

    /// A folder to meet in that all who meet there name alike.
    fn checked_meeting(&self, folder: &Path) -> Result<PathBuf, LaunchError> {
        if self.fabric.is_none() {
            return Err(LaunchError::MeetAlone(folder.into()));
        }
        let unknown = |cause| LaunchError::BadMeeting(Distrust::Unknown { path: folder.into(), cause });
        let folder = folder.canonicalize().map_err(unknown)?;
        trust::check_private(&folder).map_err(LaunchError::BadMeeting)?;
        // Each fabric makes a folder there.
        tempfile::tempdir_in(&folder).map_err(|error| unknown(error.kind().into()))?;
        Ok(folder)
    }

    /// The library's file: the one that is named, or the one beside this executable. Where cargo has put this executable the
    /// latter is built when it is missing or older than its sources.
    ///
    /// # Errors
    /// If it is not there and cannot be built, or where the loader cannot take it from, or others than this user and root may
    /// change it.
    pub fn find_library(&self) -> Result<PathBuf, LaunchError> {
        let path = match &self.library {
            Some(path) => path.clone(),
            None => library::beside_executable()?,
        };
        let path = match path.canonicalize() {
            Ok(found) if found.is_file() => found,
            _ => return Err(LaunchError::NoLibrary(path)),
        };
        if !folder::is_loadable(&path) {
            return Err(LaunchError::BadPath(path));
        }
        trust::check(&path).map_err(LaunchError::Untrusted)?;
        // Of one that was named: that beside this executable was built with it.
        if self.library.is_some() && !is_ours(&path) {
            return Err(LaunchError::NoLibraryOfOurs(path));
        }
        Ok(path)
    }
}

/// Whether a file is a library that knows the variables set here. The loader goes on without one that it cannot load, and
/// with any that it can.
fn is_ours(path: &Path) -> bool {
    let known = variables::SHARED_BUFFERS.as_bytes();
    let is_library = |bytes: Vec<u8>| {
        bytes.starts_with(b"\x7fELF") && bytes.windows(known.len()).any(|part| part == known)
    };
    std::fs::read(path).is_ok_and(is_library)
}

/// Becomes the program.
fn became(program: &OsStr, mut command: Command) -> LaunchError {
    not_started(program, command.exec())
}

/// Why a program does not start, in more words than the kernel's where it is what the program asks for that is not there.
fn not_started(program: &OsStr, cause: io::Error) -> LaunchError {
    let missing = if cause.kind() == io::ErrorKind::NotFound { served::missing(program) } else { None };
    let cause = match missing {
        Some(file) => io::Error::other(format!("it asks to be run by {file:?}, which is not there")),
        None => cause,
    };
    LaunchError::Program { program: program.into(), cause }
}

/// Runs the program as a child, and tells what was counted when it has ended.
fn watched(stats: &Stats, program: &OsStr, mut command: Command) -> LaunchError {
    // From here on in another process, whose board it is.
    let (front, (file, board)) = match front::put_before().and_then(|front| Ok((front, Board::create()?))) {
        Ok(made) => made,
        Err(error) => return LaunchError::Counting(error),
    };
    if let Some(address) = Board::address(&file) {
        command.env(variables::COUNTS, address);
    }
    let ended = match Monitor::start(&front, command, file.as_raw_fd()) {
        Ok(monitor) => monitor.watch(),
        Err(cause) => return not_started(program, cause),
    };
    tell_rest(stats, board);
    signals::end_as(ended)
}

/// Tells what those processes have counted that have ended and not told it themselves, and what all have together.
fn tell_rest(stats: &Stats, board: &Board) {
    let until = Instant::now() + PATIENCE;
    for counts in ProcessCounts::on(board) {
        while !counts.is_told() && counts.is_alive() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        if !counts.is_told() && !counts.is_alive() {
            stats.tell(&counts);
        }
    }
    stats.tell_together(&ProcessCounts::on(board).collect::<Vec<_>>());
}

/// A colon-separated list with this entry in front of what the environment has.
fn in_front_of(variable: &str, entry: &OsStr) -> OsString {
    let mut list = entry.to_owned();
    if let Some(before) = std::env::var_os(variable).filter(|before| !before.is_empty()) {
        list.push(":");
        list.push(before);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named() {
        let launch = Launch { library: Some("/nonexistent/libibverbs.so".into()), ..Launch::default() };
        let error = launch.command(OsStr::new("true"), &[]).expect_err("there is no such file");
        assert!(error.to_string().contains("/nonexistent/libibverbs.so"), "{error}");
    }

    #[test]
    fn bad_names_and_profiles_are_refused() {
        let library = Some(std::env::current_exe().expect("this test has a file"));
        let fabric = Launch { library: library.clone(), fabric: Some("a/b".into()), ..Launch::default() };
        assert!(matches!(fabric.command(OsStr::new("true"), &[]), Err(LaunchError::BadFabric(_))));
        let stats = Some(Stats { profile: "no such profile".into(), ..Stats::default() });
        let profile = Launch { library, stats, ..Launch::default() };
        assert!(matches!(profile.command(OsStr::new("true"), &[]), Err(LaunchError::Profile(_))));
    }
}
