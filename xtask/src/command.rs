//! Runs other programs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The reason why a task did not finish.
pub(crate) enum Problem {
    /// The machine lacks something that the repository cannot provide.
    Unavailable(String),
    /// Anything else.
    Failed(String),
}

pub(crate) type Task<T> = Result<T, Problem>;

/// A failure whose message names the action that failed and the reason.
pub(crate) fn failed(doing: impl std::fmt::Display, why: impl std::fmt::Display) -> Problem {
    Problem::Failed(format!("{doing}: {why}"))
}

fn text(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command. An exit status other than 0 is a failure.
pub(crate) fn run(command: &mut Command) -> Task<()> {
    let status = command.status().map_err(|error| failed(text(command), error))?;
    if status.success() { Ok(()) } else { Err(failed(text(command), status)) }
}

/// Runs a command and returns its standard output. If the command fails, the failure includes its standard
/// error.
pub(crate) fn output(command: &mut Command) -> Task<Vec<u8>> {
    let output = command.output().map_err(|error| failed(text(command), error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let complaints = String::from_utf8_lossy(&output.stderr);
    Err(failed(text(command), format!("{}\n{}", output.status, complaints.trim_end())))
}

/// Runs a command as [`output`] does, and returns the lines of its standard output.
pub(crate) fn lines(command: &mut Command) -> Task<Vec<String>> {
    Ok(String::from_utf8_lossy(&output(command)?).lines().map(str::to_owned).collect())
}

/// The cargo that started this program, or else `cargo` from `PATH`.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
}

/// Finds a program in `PATH`, `/usr/sbin` or `/sbin`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.iter().map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A command for the program at the path that [`find`] returns. Without a path, the command has the bare
/// name.
pub(crate) fn program(name: &str) -> Command {
    Command::new(find(name).as_deref().unwrap_or(Path::new(name)))
}
