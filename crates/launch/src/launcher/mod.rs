//! Runs a program on the software NIC. The launcher sets the environment variables that load the library.
//! Then it runs the program as a child process, so that it can explain waits at a signal, and report what the
//! program did.

mod explaining;
mod folder;
mod front;
mod library;
mod lines;
mod monitor;
mod presented;
mod ranks;
mod run_board;
mod served;
mod signals;

pub use library::{LIBRARY, NotBuilt};
pub use ranks::MOST_RANKS;
pub use served::Unserved;

use crate::counts::board::Board;
use crate::counts::process::ProcessCounts;
use crate::faults::Faults;
use crate::modes::{Link, NamedMode, Ptrace, Timers};
use crate::say::say;
use crate::stats::{Stats, check_place};
use crate::strict::Strict;
use crate::trust::{self, Distrust};
use crate::{address, trace, variables};
use explaining::Explainer;
use monitor::Monitor;
use run_board::RunBoard;
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use thiserror::Error;

/// A program launch: the options of `doorbell run`.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The link layer that the device presents.
    pub link: Link,
    /// Model of the NIC that the device imitates, or name or file of its profile. The device shows this NIC's
    /// vendor id, part id and limits, but no limit above its own. `None` if the device shows its own ids and
    /// limits.
    pub presented_as: Option<String>,
    /// The library's file. `None` for [`LIBRARY`] beside the running executable.
    pub library: Option<PathBuf>,
    /// Whether page-aligned allocations of the program stay in private memory.
    pub private_buffers: bool,
    /// When requesters send a work request again.
    pub timers: Timers,
    /// Whether peers access the program's private memory directly.
    pub ptrace: Ptrace,
    /// Name of the fabric. Only processes on one fabric reach each other. 1 to 100 letters, digits, `-` and
    /// `_`.
    pub fabric: Option<String>,
    /// A folder that only this user can access. Processes with equal folder and equal fabric name are on one
    /// fabric, even in different PID namespaces.
    pub meet: Option<PathBuf>,
    /// Whether Doorbell does not print why a QP is in error, why a call is refused, why a process waits, and
    /// that the program never opened the device.
    pub quiet: bool,
    /// The time after which the library explains a wait, even if the wait may end. `None` if only waits that
    /// nothing can end are explained before a signal.
    pub explain_after: Option<Duration>,
    /// The faults to inject into the program, and their seed.
    pub faults: Option<(Faults, u64)>,
    /// The reaction to a mistake of the program that would fail on a NIC. `None` for no strict mode.
    pub strict: Option<Strict>,
    /// A file for a trace of posts and completions, and the number of work requests to trace in each process.
    pub trace: Option<(PathBuf, u64)>,
    /// Options of the statistics. `None` if nothing is counted.
    pub stats: Option<Stats>,
    /// The number of processes that run as ranks, from 1 to [`MOST_RANKS`]. `None` for one process, which is
    /// no rank.
    pub ranks: Option<u32>,
    /// The IP address of the program's host. Rank 0 has this address, and each later rank the next one.
    pub ip: Option<IpAddr>,
}

/// The reason why a program was not run.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// There is no library at its path.
    #[error(
        "there is no library at {}: build one with `cargo build --release -p doorbell-soft-so` in Doorbell's \
         sources, or name one with --lib", .0.display()
    )]
    NoLibrary(PathBuf),
    /// The library cannot be built.
    #[error(transparent)]
    NotBuilt(#[from] NotBuilt),
    /// The file is not the software NIC's library.
    #[error(
        "{} is not the software NIC's library: name the {LIBRARY} that `cargo build --release -p \
         doorbell-soft-so` builds", .0.display()
    )]
    NoLibraryOfOurs(PathBuf),
    /// The library's path contains white space, a separator of the loader's lists, or a $, which the loader
    /// expands.
    #[error(
        "the loader cannot load a library from {}: the path contains a space, a colon, a semicolon or a $",
        .0.display()
    )]
    BadPath(PathBuf),
    /// Another user can change the library, or a folder above it.
    #[error("the library is not loaded because other users may change it: {0}")]
    Untrusted(Distrust),
    /// The folder of links to the library is not trusted, or cannot be created.
    #[error(
        "cannot use the folder for the links through which programs find the library: {0}; set \
         XDG_RUNTIME_DIR to a folder of your own with mode 0700"
    )]
    NoLinks(Distrust),
    /// Not a valid name for a fabric.
    #[error("a fabric's name has 1 to 100 letters, digits, - and _, got {0:?}")]
    BadFabric(String),
    /// `meet` was given without `fabric`.
    #[error(
        "--meet {} needs the name of a fabric: give all processes that meet there one name with --fabric",
        .0.display()
    )]
    MeetAlone(PathBuf),
    /// Another user can access the folder of `meet`, or the folder cannot be used.
    #[error("the folder of --meet cannot be used: {0}")]
    BadMeeting(Distrust),
    /// The address cannot belong to one host.
    #[error("{address} cannot be the address of a host: {why}")]
    BadAddress {
        /// The address.
        address: IpAddr,
        /// The reason why the address is refused.
        why: &'static str,
    },
    /// Not a valid number of ranks.
    #[error("a run has 1 to {MOST_RANKS} ranks, not {0}")]
    BadRanks(u32),
    /// The profile has no vendor id and part id for the device to show.
    #[error(
        "profile {0} has no device_id to show to programs: choose a profile that has one, such as cib, or \
         add vendor_id, vendor_part_id and source"
    )]
    NoDeviceId(String),
    /// The profile cannot be loaded.
    #[error(transparent)]
    Profile(#[from] doorbell_nic::ProfileError),
    /// The file for the statistics cannot be written.
    #[error("cannot write the statistics to {}: {cause}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The error.
        cause: io::Error,
    },
    /// The file for the trace cannot be written.
    #[error("cannot write the trace to {}: {cause}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// The error.
        cause: io::Error,
    },
    /// The board or the monitor process cannot be created.
    #[error("cannot count the program's posts: {0}")]
    Counting(io::Error),
    /// The library cannot be preloaded into the program.
    #[error(
        "cannot run {}{} on the software NIC: {why}", program.display(),
        if *file == *program { String::new() } else { format!(" ({})", file.display()) }
    )]
    Unserved {
        /// The program as the user named it.
        program: PathBuf,
        /// The file that the kernel would run. For a script this is its interpreter.
        file: PathBuf,
        /// The reason.
        why: Unserved,
    },
    /// The program cannot be started.
    #[error("cannot run {}: {cause}", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The error.
        cause: io::Error,
    },
}

impl LaunchError {
    /// Whether the program does not exist. Shells then exit with code 127, and with 126 if the program exists
    /// but cannot be run.
    pub fn is_not_there(&self) -> bool {
        matches!(self, LaunchError::Program { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
    }
}

/// How long the launcher waits for processes that may be exiting, for example after a signal to all of them.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval of the checks for exited processes.
const LOOK: Duration = Duration::from_millis(2);

impl Launch {
    /// Runs the program, and exits with the program's status. Returns only if the program cannot be started.
    /// The caller's process must have only one thread.
    ///
    /// With ranks, this process is the parent of the ranks. It passes on signals, input and output, and exits
    /// with the status of the first rank that fails.
    ///
    /// Without ranks, the program is a child of this process's child. This process closes the program's files
    /// and acts like the program: signals that it gets reach the program, and it stops and exits when the
    /// program does. At the first SIGINT or SIGTERM, the launcher prints why processes of the run wait. When
    /// the program has exited, the launcher reports the statistics of all processes that have not done so in
    /// exit(3). A process that outlives the program by more than a second reports its own statistics. If this
    /// process is killed, the program is killed too.
    pub fn run(&self, program: &OsStr, arguments: &[OsString]) -> LaunchError {
        match self.command(program, arguments) {
            Err(error) => error,
            Ok(command) => match self.ranks {
                Some(ranks) => self.run_ranks(ranks, program, command),
                None => self.run_one(program, command),
            },
        }
    }

    /// The board of a run. `None` if no board can be created and no statistics are wanted.
    fn board(&self, command: &mut Command) -> Result<Option<RunBoard>, LaunchError> {
        explaining::tell_outer();
        match RunBoard::create() {
            Ok(made) => {
                // Without statistics of its own, a run counts on the board of an outer run.
                if self.stats.is_some() {
                    command.env(variables::COUNTS, &made.address);
                }
                command.env(variables::WAITS, &made.address);
                Ok(Some(made))
            }
            Err(error) if self.stats.is_some() => Err(LaunchError::Counting(error)),
            Err(_) => Ok(None),
        }
    }

    /// Runs `count` processes of the program, and reports their counts when all have exited.
    fn run_ranks(&self, count: u32, program: &OsStr, mut command: Command) -> LaunchError {
        let made = match self.board(&mut command) {
            Ok(made) => made,
            Err(error) => return error,
        };
        let mut explainer = Explainer::new(made.as_ref(), self.quiet);
        match ranks::run(&command, count, self.ip, &mut explainer) {
            Err(cause) => not_started(program, cause),
            Ok(ended) => {
                if let (Some(stats), Some(made)) = (&self.stats, &made) {
                    stats.tell_together(&ProcessCounts::on(made.board).collect::<Vec<_>>());
                }
                explainer.ended(program);
                self.end_trace();
                signals::end_as(ended)
            }
        }
    }

    /// Runs the program below this process. When the program has exited, reports the counts and ends the
    /// trace.
    fn run_one(&self, program: &OsStr, mut command: Command) -> LaunchError {
        // From here on, this is the monitor, a child process. The monitor owns the board.
        let front = match front::put_before() {
            Ok(front) => front,
            Err(error) => return LaunchError::Counting(error),
        };
        let made = match self.board(&mut command) {
            Ok(made) => made,
            Err(error) => return error,
        };
        let mut explainer = Explainer::new(made.as_ref(), self.quiet);
        let kept: Vec<_> = made.iter().map(|made| made.file.as_raw_fd()).collect();
        let ended = match Monitor::start(&front, command, &kept) {
            Ok(monitor) => monitor.watch(&mut explainer),
            Err(cause) => return not_started(program, cause),
        };
        if let (Some(stats), Some(made)) = (&self.stats, &made) {
            tell_rest(stats, made.board);
        }
        explainer.ended(program);
        self.end_trace();
        signals::end_as(ended)
    }

    /// Makes the trace valid JSON if there is one. The program has already exited, so a failure is only
    /// reported.
    fn end_trace(&self) {
        if let Some((path, _)) = &self.trace
            && let Err(error) = trace::end(path)
        {
            say(format_args!("the trace {} lacks its end: {error}", path.display()));
        }
    }

    /// Checks the options, and returns the command that starts the program with the environment for the
    /// library.
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
        // The preloaded library satisfies its soname, libibverbs.so.1, because it is loaded already. The
        // loader finds its other names in a folder that has nothing else.
        command.env("LD_PRELOAD", in_front_of("LD_PRELOAD", library.as_os_str()));
        command.env("LD_LIBRARY_PATH", in_front_of("LD_LIBRARY_PATH", libraries.as_os_str()));
        // Without this, AddressSanitizer's runtime ends a program if any library is loaded before it.
        command.env("ASAN_OPTIONS", in_front_of("ASAN_OPTIONS", "verify_asan_link_order=0".as_ref()));
        command.env(variables::FOLDER, folder);
        command.env(variables::LINK, self.link.name());
        if let Some(name) = &self.presented_as {
            let shown = presented::Presented::named_or_file(name)?;
            shown.set(&mut command);
            if let Some(caveat) = shown.caveat().filter(|_| !self.quiet) {
                say(caveat);
            }
        }
        command.env(variables::SHARED_BUFFERS, if self.private_buffers { "0" } else { "1" });
        command.env(variables::TIMERS, self.timers.name());
        command.env(variables::PTRACE, self.ptrace.name());
        if let Some(address) = self.ip {
            for rank in 0..self.ranks.unwrap_or(1) {
                address::check(address, rank).map_err(|why| LaunchError::BadAddress { address, why })?;
            }
            command.env(variables::IP, address.to_string());
        }
        if self.quiet {
            command.env(variables::QUIET, "1");
        }
        if let Some(time) = self.explain_after {
            command.env(variables::EXPLAIN_AFTER, time.as_nanos().to_string());
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

    /// Checks `fabric` and `meet`, and sets their environment variables.
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

    /// Checks the folder of `meet`, and returns its canonical path, so that all processes use an equal path.
    fn checked_meeting(&self, folder: &Path) -> Result<PathBuf, LaunchError> {
        if self.fabric.is_none() {
            return Err(LaunchError::MeetAlone(folder.into()));
        }
        let unknown = |cause| LaunchError::BadMeeting(Distrust::Unknown { path: folder.into(), cause });
        let folder = folder.canonicalize().map_err(unknown)?;
        trust::check_private(&folder).map_err(LaunchError::BadMeeting)?;
        // Each fabric creates a folder there, so this must be possible.
        tempfile::tempdir_in(&folder).map_err(|error| unknown(error.kind().into()))?;
        Ok(folder)
    }

    /// The file of the library: `library`, or the library beside this executable. If cargo has built this
    /// executable in its target folder, the library is built when it is missing or older than its sources.
    ///
    /// # Errors
    /// If the file does not exist and cannot be built. If the loader cannot load a library from this path. If
    /// other users than this user and root may change the file. If the file of `library` is not the software
    /// NIC's library.
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
        // Only the file of `library` is checked. The library beside this executable was built with the
        // executable.
        if self.library.is_some() && !is_ours(&path) {
            return Err(LaunchError::NoLibraryOfOurs(path));
        }
        Ok(path)
    }
}

/// Whether a file is an ELF file that contains the name of a variable of this launcher. The loader ignores a
/// file that it cannot load, and loads any other library.
fn is_ours(path: &Path) -> bool {
    let known = variables::SHARED_BUFFERS.as_bytes();
    let is_library = |bytes: Vec<u8>| {
        bytes.starts_with(b"\x7fELF") && bytes.windows(known.len()).any(|part| part == known)
    };
    std::fs::read(path).is_ok_and(is_library)
}

/// The error of a program that does not start. If the program's interpreter or loader is missing, the error
/// names this file. The kernel's error does not.
fn not_started(program: &OsStr, cause: io::Error) -> LaunchError {
    let missing = if cause.kind() == io::ErrorKind::NotFound { served::missing(program) } else { None };
    let cause = match missing {
        Some(file) => io::Error::other(format!("its interpreter or loader {file:?} does not exist")),
        None => cause,
    };
    LaunchError::Program { program: program.into(), cause }
}

/// Reports the counts of processes that have exited without reporting them, and the counts of all processes
/// together.
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

/// A colon-separated list: this entry, followed by the variable's current value.
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
