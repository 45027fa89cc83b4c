//! The programs to compare: one from a commit, one from the work tree.

use crate::command::{self, Problem, Task, failed, lines, run};
use crate::workspace::root;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A commit, and the reason why it is compared.
pub(crate) struct Commit {
    hash: String,
    why: String,
}

fn git(arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(root());
    git
}

/// The full hash of a commit.
fn resolve(name: &str) -> Option<String> {
    let found = lines(&mut git(&["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]));
    found.ok()?.into_iter().next()
}

impl Commit {
    /// The commit of this name. Without a name, HEAD if there are uncommitted changes, else HEAD's parent.
    pub(crate) fn choose(name: Option<&str>) -> Task<Commit> {
        if resolve("HEAD").is_none() {
            return Err(Problem::Unavailable(
                "this is no git repository with a commit to compare with".into(),
            ));
        }
        let (name, why) = match name {
            Some(name) => (name, String::new()),
            None if changed()? => ("HEAD", ", on which there are changes not yet committed".into()),
            None => ("HEAD^", ", the parent of HEAD".into()),
        };
        match resolve(name) {
            Some(hash) => Ok(Commit { hash, why }),
            None if name == "HEAD^" => {
                Err(Problem::Failed("HEAD has no parent: name the commit to compare with".into()))
            }
            None => Err(Problem::Failed(format!("there is no commit {name} in this repository"))),
        }
    }

    /// Abbreviated hash.
    pub(crate) fn short(&self) -> &str {
        self.hash.get(..7).unwrap_or(&self.hash)
    }

    /// The abbreviated hash, and the reason for choosing the commit.
    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.short(), self.why)
    }
}

/// Whether a tracked file has changed since HEAD. cargo ignores untracked files unless a tracked file names
/// them.
fn changed() -> Task<bool> {
    Ok(!lines(&mut git(&["status", "--porcelain", "--untracked-files=no"]))?.is_empty())
}

/// The folder of the programs. A lock file keeps other runs of `same` out.
pub(crate) struct ProgramStore {
    target: PathBuf,
    _lock: File,
}

impl ProgramStore {
    /// Opens the folder `same` in cargo's target folder and waits for its lock.
    pub(crate) fn open(target: &Path) -> Task<ProgramStore> {
        let place = target.join("same");
        let lock = || {
            fs::create_dir_all(&place)?;
            let lock = File::create(place.join("lock"))?;
            lock.lock()?;
            Ok(lock)
        };
        let lock = lock().map_err(|error: std::io::Error| failed(place.display(), error))?;
        Ok(ProgramStore { target: target.to_owned(), _lock: lock })
    }

    fn same(&self) -> PathBuf {
        self.target.join("same")
    }

    /// The program of a commit. Builds it if the folder does not contain it.
    pub(crate) fn of_commit(&self, commit: &Commit) -> Task<PathBuf> {
        let home = self.same().join(&commit.hash);
        let program = home.join("doorbell");
        if !program.is_file() {
            let sources = unpack(&commit.hash, &home)?;
            // Each commit has its own target folder. cargo identifies sources by path within the workspace
            // and by time, so it would confuse the sources of two commits.
            let target = home.join("target");
            run(cargo(&sources, &target).args(["--bin", "doorbell"]))?;
            copy(&target.join("release/doorbell"), &program)?;
            let _ = fs::remove_dir_all(&target);
        }
        Ok(program)
    }

    /// Builds the program of the work tree. Returns a copy, because cargo may rebuild the original during the
    /// comparison.
    pub(crate) fn of_tree(&self) -> Task<PathBuf> {
        run(&mut cargo(&root(), &self.target))?;
        let program = self.same().join("tree/doorbell");
        copy(&self.target.join("release/doorbell"), &program)?;
        Ok(program)
    }
}

fn cargo(sources: &Path, target: &Path) -> Command {
    let mut cargo = command::cargo();
    cargo.args(["build", "--release", "--target-dir"]).arg(target).current_dir(sources);
    cargo
}

/// Unpacks the files of a commit into `home`.
fn unpack(hash: &str, home: &Path) -> Task<PathBuf> {
    let (sources, archive) = (home.join("source"), home.join("source.tar"));
    let _ = fs::remove_dir_all(&sources);
    fs::create_dir_all(&sources).map_err(|error| failed(sources.display(), error))?;
    run(git(&["archive", "--format=tar", "--output"]).arg(&archive).arg(hash))?;
    run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&sources))?;
    let _ = fs::remove_file(&archive);
    Ok(sources)
}

/// Copies a program. The file appears at `to` by a rename, so it is always complete.
fn copy(from: &Path, to: &Path) -> Task<()> {
    let part = to.with_extension("part");
    let copy = || {
        fs::create_dir_all(to.parent().unwrap_or(to))?;
        fs::copy(from, &part)?;
        fs::rename(&part, to)
    };
    copy().map_err(|error| failed(to.display(), error))
}
