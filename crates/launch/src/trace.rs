//! The file of a trace.

use crate::clock::monotonic_ns;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use tempfile::NamedTempFile;

/// Creates the file for a trace, and returns the value of [`TRACE`](crate::variables::TRACE).
pub(crate) fn begin(path: &Path, most: u64) -> io::Result<String> {
    File::create(path)?.write_all(b"[\n")?;
    Ok(format!("{}:{most}:{}", monotonic_ns(), std::path::absolute(path)?.display()))
}

/// Ends the trace in this file, so that the file is valid JSON. The file is replaced by a new one, so that a
/// process that outlives the run cannot write behind the end. A file that is not a regular file stays as it
/// is.
///
/// # Errors
/// If the file cannot be read, or its folder cannot be written.
pub(crate) fn end(path: &Path) -> io::Result<()> {
    let path = path.canonicalize()?;
    let metadata = fs::metadata(&path)?;
    if !metadata.is_file() {
        return Ok(());
    }
    let events = ended(fs::read(&path)?);
    let folder = path.parent().ok_or(io::ErrorKind::NotADirectory)?;
    let mut new = NamedTempFile::new_in(folder)?;
    new.write_all(&events)?;
    new.as_file().set_permissions(metadata.permissions())?;
    new.persist(&path)?;
    Ok(())
}

/// The array of the events in `text`. A part of an event at its end is left out: the disk was full.
fn ended(mut text: Vec<u8>) -> Vec<u8> {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    text.truncate(whole);
    if text.ends_with(b",\n") {
        text.truncate(whole - 2);
        text.push(b'\n');
    }
    if text.is_empty() {
        text.extend(b"[\n");
    }
    text.extend(b"]\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_ends_as_json() {
        for (text, events) in [
            ("[\n", 0),
            ("", 0),
            ("[\n{\"a\":1},\n", 1),
            ("[\n{\"a\":1},\n{\"a\":2},\n", 2),
            ("[\n{\"a\":1},\n{\"a\":", 1),
        ] {
            let json: serde_json::Value = serde_json::from_slice(&ended(text.into())).expect(text);
            assert_eq!(json.as_array().map(Vec::len), Some(events), "{text}");
        }
    }

    #[test]
    fn a_process_that_outlives_the_run_cannot_spoil_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        begin(&path, 1).unwrap();
        let mut late = File::options().append(true).open(&path).unwrap();
        late.write_all(b"{},\n").unwrap();
        end(&path).unwrap();
        late.write_all(b"{},\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[\n{}\n]\n");
    }
}
