//! Output files that keep their old contents until a command writes to them.

use crate::exit::Exit;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// An output file that keeps its old contents until the command begins to write. If the command never writes,
/// a newly created file is removed again.
pub(crate) struct Output {
    /// The option that names the file.
    flag: &'static str,
    path: PathBuf,
    file: File,
    made: Option<PathBuf>,
    begun: bool,
}

impl Output {
    fn open(flag: &'static str, path: &Path) -> io::Result<Output> {
        let open = |create| File::options().write(true).create(create).truncate(false).open(path);
        let of = |file, made| Output { flag, path: path.to_owned(), file, made, begun: false };
        match open(false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = open(true)?;
                // If the path is a symbolic link, the file was created at the link's target.
                Ok(of(file, path.canonicalize().ok()))
            }
            file => Ok(of(file?, None)),
        }
    }

    /// The path that the user gave.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the whole contents.
    ///
    /// # Errors
    /// If not all of it can be written.
    pub(crate) fn fill(mut self, text: &str) -> Result<(), Exit> {
        let written = self.write_all(text.as_bytes()).and_then(|()| self.flush());
        let path = self.path.display();
        written.map_err(|error| Exit::failed(format!("cannot write all of {path}: {error}")))
    }

    /// Truncates the file before the first write.
    fn begin(&mut self) -> io::Result<()> {
        // Pipes and devices cannot be truncated.
        if !self.begun && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.begun = true;
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begin()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.begin()?;
        self.file.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(path) = self.made.take().filter(|_| !self.begun) {
            // If the file cannot be removed, it stays as an empty file.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens the file that an option names, if the option is given.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn open(flag: &'static str, path: &Option<PathBuf>) -> Result<Option<Output>, Exit> {
    let cannot_write = |path: &Path, error| format!("cannot write {}: {error}", path.display());
    let open = |path: &PathBuf| Output::open(flag, path).map_err(|e| Exit::bad_input(cannot_write(path, e)));
    path.as_ref().map(open).transpose()
}

/// The end of the command if plots cannot be written.
pub(crate) fn cannot_write_plots(path: &Path, error: impl std::fmt::Display) -> Exit {
    Exit::bad_input(format!("cannot write plots to {}: {error}", path.display()))
}

/// Creates the directory, and checks that files can be written to it. This happens before hours of
/// simulation.
///
/// # Errors
/// If no files can be written to it.
pub(crate) fn make_writable(dir: &Path) -> Result<(), Exit> {
    let probe = dir.join(".doorbell");
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&probe, ""))
        .and_then(|()| std::fs::remove_file(&probe))
        .map_err(|error| cannot_write_plots(dir, error))
}

/// Returns an error if two outputs are one file, or if the command also reads an output, or prints results or
/// messages to it. `read` lists the input files.
///
/// # Errors
/// One sentence about the first such output.
pub(crate) fn check(all: &[&Output], read: &[PathBuf]) -> Result<(), Exit> {
    for (at, one) in all.iter().enumerate() {
        if let Some(other) =
            all[at + 1..].iter().find(|other| are_one(&one.file.metadata(), &other.file.metadata()))
        {
            let (one, other) = (one.flag, other.flag);
            let why = format!("{one} and {other} name one file: give two different files");
            return Err(Exit::bad_input(why));
        }
    }
    all.iter().try_for_each(|output| check_free(output, read))
}

/// Whether both are one file or one pipe. Two outputs to one file would overwrite each other.
fn are_one(a: &io::Result<Metadata>, b: &io::Result<Metadata>) -> bool {
    let (Ok(a), Ok(b)) = (a, b) else { return false };
    let keeps_bytes = a.is_file() || a.file_type().is_fifo();
    keeps_bytes && (a.dev(), a.ino()) == (b.dev(), b.ino())
}

fn check_free(output: &Output, read: &[PathBuf]) -> Result<(), Exit> {
    let own = output.file.metadata();
    let printed_to = |out: BorrowedFd<'_>| {
        // A closed stream is not a file.
        let about = out.try_clone_to_owned().and_then(|out| File::from(out).metadata());
        are_one(&own, &about)
    };
    let use_of_it = if read.iter().any(|file| are_one(&own, &file.metadata())) {
        "an input file of the run"
    } else if printed_to(io::stdout().as_fd()) {
        "the output for the results"
    } else if printed_to(io::stderr().as_fd()) {
        "the output for messages"
    } else {
        return Ok(());
    };
    Err(Exit::bad_input(format!("{} is {use_of_it}: name another file", output.path.display())))
}
