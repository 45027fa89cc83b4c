//! Results kept in the user's cache directory, so that a run is not made twice.

use super::run::Run;
use crate::results::Outcome;
use doorbell_nic::Resource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;

/// Hash of the sources of the model and its programs. The build script computes it.
pub(crate) const MODEL: &str = env!("DOORBELL_MODEL");

/// Suffix of result files. Files without this suffix are never touched.
const ENDING: &str = ".result.json";

/// Largest size of all stored results together, in bytes: some hundred times the results of one paper.
const LIMIT: u64 = 256 << 20;

/// A store: a directory with a file for each result. The name of a file is a hash of the run and of the
/// model.
pub struct Stored {
    dir: PathBuf,
    /// Whether to ignore results that are already stored.
    fresh: bool,
    taken: Mutex<Taken>,
}

/// Statistics of the store: results taken from it, and failures. Times are in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Taken {
    /// Results that were taken from the store.
    pub runs: u64,
    /// Storage time of the oldest of these results.
    pub first: Option<u64>,
    /// Storage time of the newest of these results.
    pub last: Option<u64>,
    /// Results that were found damaged. Their runs were made again.
    pub damaged: u64,
    /// Why the first result that could not be stored failed.
    pub failure: Option<String>,
}

/// Contents of a file. They follow a line with their checksum.
#[derive(Serialize, Deserialize)]
struct Kept<O> {
    at: u64,
    outcome: O,
    /// A field of the outcome that is not part of the outcome's JSON.
    without_effect: Vec<Resource>,
}

/// Encodes the contents of a file.
fn sealed(name: &str, kept: &Kept<&Outcome>) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(kept)?;
    Ok([checksum(name, &json).as_bytes(), b"\n", &json].concat())
}

/// Decodes the contents of the file `name`. Returns `None` if they are incomplete, changed, or belong to a
/// file of another name.
fn unsealed(name: &str, bytes: &[u8]) -> Option<Kept<Outcome>> {
    let line = bytes.iter().position(|byte| *byte == b'\n')?;
    let (sum, json) = (&bytes[..line], &bytes[line + 1..]);
    (sum == checksum(name, json).as_bytes()).then(|| serde_json::from_slice(json).ok())?
}

fn checksum(name: &str, json: &[u8]) -> String {
    hex(Sha256::new().chain_update(name).chain_update(json))
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Size of the results in a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Number of results.
    pub results: u64,
    /// Bytes of all results.
    pub bytes: u64,
}

struct StoredFile {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl Stored {
    /// The directory from the environment: `DOORBELL_CACHE_DIR`, or `doorbell` in `XDG_CACHE_HOME` or
    /// `~/.cache`. Returns `None` if all these are unset and there is no home directory. A relative
    /// `XDG_CACHE_HOME` is ignored, as the XDG Base Directory Specification demands.
    pub fn usual_dir() -> Option<PathBuf> {
        let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        named("DOORBELL_CACHE_DIR")
            .or_else(|| Some(named("XDG_CACHE_HOME").filter(|dir| dir.is_absolute())?.join("doorbell")))
            .or_else(|| Some(named("HOME")?.join(".cache").join("doorbell")))
    }

    /// A store in this directory. Storing the first result creates the directory.
    pub fn new(dir: PathBuf) -> Stored {
        Stored { dir, fresh: false, taken: Mutex::default() }
    }

    /// Sets whether to ignore results that are already stored. New results then replace them.
    #[must_use]
    pub fn fresh(self, fresh: bool) -> Stored {
        Stored { fresh, ..self }
    }

    /// The directory of the results.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Statistics of the store so far.
    pub fn taken(&self) -> Taken {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The file name for a run.
    fn name(run: &Run) -> String {
        hex(Sha256::new().chain_update(MODEL).chain_update(run.key().as_bytes())) + ENDING
    }

    /// Returns the result of a run if it is stored and readable.
    pub(crate) fn get(&self, run: &Run) -> Option<Outcome> {
        if self.fresh {
            return None;
        }
        let name = Stored::name(run);
        let path = self.dir.join(&name);
        let Some(kept) = unsealed(&name, &fs::read(&path).ok()?) else {
            self.lock().damaged += 1;
            return None;
        };
        // Notes the time of use, because recently used results are removed last. If this fails, the storage
        // time counts.
        let _ = File::options().write(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        let mut taken = self.lock();
        taken.runs += 1;
        taken.first = taken.first.into_iter().chain([kept.at]).min();
        taken.last = taken.last.into_iter().chain([kept.at]).max();
        Some(Outcome { without_effect: kept.without_effect, ..kept.outcome })
    }

    /// Stores a result atomically. Notes a failure in [`Taken`].
    pub(crate) fn put(&self, run: &Run, outcome: &Outcome) {
        if let Err(error) = self.try_put(run, outcome) {
            self.failed(&error);
        }
    }

    fn failed(&self, error: &io::Error) {
        self.lock().failure.get_or_insert_with(|| format!("{}: {error}", self.dir.display()));
    }

    fn try_put(&self, run: &Run, outcome: &Outcome) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let name = Stored::name(run);
        let mut file = self.partial()?;
        file.write_all(&sealed(
            &name,
            &Kept { at, outcome, without_effect: outcome.without_effect.clone() },
        )?)?;
        file.persist(self.dir.join(name))?;
        Ok(())
    }

    /// A temporary file for a result. Because of its suffix, it is removed like a result if the process is
    /// killed.
    fn partial(&self) -> io::Result<tempfile::NamedTempFile> {
        tempfile::Builder::new().suffix(ENDING).tempfile_in(&self.dir)
    }

    fn entries(&self) -> io::Result<Vec<StoredFile>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let entry = entry?;
            // Another process may have removed the file.
            let Ok(about) = entry.metadata() else { continue };
            if entry.file_name().to_string_lossy().ends_with(ENDING) && !about.is_dir() {
                all.push(StoredFile { path: entry.path(), bytes: about.len(), used: about.modified()? });
            }
        }
        Ok(all)
    }

    /// Measures the stored results.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn size(&self) -> io::Result<Size> {
        let entries = self.entries()?;
        Ok(Size { results: entries.len() as u64, bytes: entries.iter().map(|entry| entry.bytes).sum() })
    }

    /// Removes all results.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn clear(&self) -> io::Result<Size> {
        self.shrink(None)
    }

    /// Removes the least recently used results until the rest is within the limit.
    pub(crate) fn tidy(&self) {
        if let Err(error) = self.shrink(Some(LIMIT)) {
            self.failed(&error);
        }
    }

    /// Removes the least recently used results until the rest has at most `limit` bytes. Without a limit,
    /// removes all results, including empty files.
    fn shrink(&self, limit: Option<u64>) -> io::Result<Size> {
        let mut entries = self.entries()?;
        entries.sort_by_key(|entry| entry.used);
        let mut bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
        let mut removed = Size::default();
        for entry in entries {
            if limit.is_some_and(|limit| bytes <= limit) {
                break;
            }
            match fs::remove_file(&entry.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            bytes -= entry.bytes;
            removed = Size { results: removed.results + 1, bytes: removed.bytes + entry.bytes };
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asked::SystemWorkload;
    use doorbell_nic::Profile;
    use doorbell_programs::steady::Stop;
    use doorbell_programs::systems::SYSTEMS;
    use doorbell_schema::Given;
    use doorbell_workload::Workload;

    /// Runs with all shapes of JSON: workloads with groups, with counters, and with neither, and each system.
    fn runs() -> Vec<Run> {
        let verbs = [
            "verb = \"read\"\nqps = 2",
            "verb = \"fetch-add\"\nthreads = 2",
            "verb = \"write\"\nmachine = [{ profile = \"cx3\" }, { profile = \"cib\", count = 2 }]",
        ];
        let mut runs: Vec<Run> = Vec::new();
        for text in verbs {
            let text = format!("{text}\nwarmup = \"5us\"\nduration = \"20us\"");
            let workload = Workload::from_toml("w", &text).unwrap();
            let profiles = workload.load_profiles().unwrap();
            runs.push(Run::verbs(profiles.clone(), workload.resolve(&profiles).unwrap()));
        }
        let cib = Profile::named("cib").unwrap();
        for entry in SYSTEMS.iter() {
            let json = r#"{"clients": 14, "seed": 3, "warmup": "10us", "duration": "20us"}"#;
            let given = Given::from_json("w", json, &crate::fields()).unwrap().over(entry.usual.clone());
            let system = SystemWorkload::of(entry.with(&given).unwrap());
            runs.push(Run::system(&cib, system));
        }
        runs
    }

    fn made(run: &Run) -> Outcome {
        run.run(&Stop::default(), &()).unwrap()
    }

    fn stored() -> (tempfile::TempDir, Stored) {
        let dir = tempfile::tempdir().unwrap();
        let stored = Stored::new(dir.path().join("results"));
        (dir, stored)
    }

    #[test]
    fn what_is_stored_is_what_was_found() {
        let (_dir, stored) = stored();
        let runs = runs();
        let all: Vec<Outcome> = runs.iter().map(made).collect();
        for (run, ran) in runs.iter().zip(&all) {
            assert_eq!(stored.get(run), None, "{run:?}");
            stored.put(run, ran);
        }
        assert_eq!(stored.taken(), Taken::default());
        for (run, ran) in runs.iter().zip(&all) {
            assert_eq!(stored.get(run).as_ref(), Some(ran), "{run:?}");
        }
        assert_eq!(stored.taken().runs, runs.len() as u64);
        assert!(stored.taken().first.is_some() && stored.taken().first <= stored.taken().last);
        let relaxed = runs[0].with(&[doorbell_nic::More::Tenth(doorbell_nic::Resource::Cpu)]);
        assert_eq!(stored.get(&relaxed), None, "another profile is another run");
        assert_eq!(stored.fresh(true).get(&runs[0]), None);
    }

    #[test]
    fn what_is_not_as_it_was_stored_is_not_taken() {
        let (_dir, stored) = stored();
        let runs = &runs()[..2];
        let ran = made(&runs[0]);
        stored.put(&runs[0], &ran);
        let path = |run| stored.dir().join(Stored::name(run));
        let whole = fs::read(path(&runs[0])).unwrap();
        let digits = (0..whole.len()).filter(|at| whole[*at].is_ascii_digit());
        let changed = digits.step_by(97).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
            bytes
        });
        let torn = [0, 1, whole.len() / 2, whole.len() - 1].map(|length| whole[..length].to_vec());
        let mut damaged = 0;
        for bytes in changed.chain(torn) {
            fs::write(path(&runs[0]), bytes).unwrap();
            assert_eq!(stored.get(&runs[0]), None);
            damaged += 1;
        }
        assert!(damaged > 10, "{damaged}");
        // The file has the result of another run.
        fs::write(path(&runs[1]), &whole).unwrap();
        assert_eq!(stored.get(&runs[1]), None);
        assert_eq!(stored.taken(), Taken { damaged: damaged + 1, ..Taken::default() });
        stored.put(&runs[0], &ran);
        assert_eq!(stored.get(&runs[0]), Some(ran));
    }

    #[test]
    fn nothing_of_ours_stays_when_it_is_cleared() {
        let (_dir, stored) = stored();
        let runs = &runs()[..2];
        // A directory has the name of the result's file.
        fs::create_dir_all(stored.dir().join(Stored::name(&runs[0]))).unwrap();
        let ran = made(&runs[0]);
        stored.put(&runs[0], &ran);
        assert!(stored.taken().failure.is_some());
        stored.put(&runs[1], &ran);
        // A temporary file remains, as after a process that was killed while it wrote.
        stored.partial().unwrap().keep().unwrap();
        assert_eq!(stored.clear().unwrap().results, 2);
        assert_eq!(fs::read_dir(stored.dir()).unwrap().count(), 1, "the directory is not ours");
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let (_dir, stored) = stored();
        let runs = &runs()[..3];
        for (age, run) in (0..).zip(runs) {
            stored.put(run, &made(run));
            let used = SystemTime::now() - std::time::Duration::from_secs(1000 - age);
            let path = stored.dir().join(Stored::name(run));
            File::options().write(true).open(path).unwrap().set_modified(used).unwrap();
        }
        assert!(stored.get(&runs[0]).is_some(), "it is used now");
        let whole = stored.size().unwrap();
        assert_eq!(whole.results, 3);
        assert_eq!(stored.shrink(Some(whole.bytes - 1)).unwrap().results, 1);
        assert!(stored.get(&runs[1]).is_none() && stored.get(&runs[0]).is_some());
        assert_eq!(stored.clear().unwrap().results, 2);
        assert_eq!(stored.size().unwrap(), Size::default());
    }

    #[test]
    fn that_nothing_can_be_stored_is_told() {
        let stored = Stored::new(PathBuf::from("/dev/null/none"));
        let run = &runs()[0];
        stored.put(run, &made(run));
        assert!(stored.taken().failure.is_some_and(|failure| failure.starts_with("/dev/null/none: ")));
        assert!(stored.size().is_err() && stored.get(run).is_none());
    }
}
