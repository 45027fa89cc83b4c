//! Profiles that say only what differs from another one, their base.

use super::Profile;
use super::parameter::{ProfileError, Reader};
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Whether a name is the path of a file rather than that of a built-in profile.
pub(super) fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

/// What tells a file from others, however it is written.
fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The profile that the file of `reader` names by a `key`: a built-in profile, or a file, whose path begins where
/// that file lies. `based` are the files that led to it.
pub(super) fn load(
    reader: &Reader<'_>,
    key: &str,
    name: &Spanned<String>,
    based: &[PathBuf],
) -> Result<Profile, ProfileError> {
    let at = name.span().start;
    let name = name.get_ref();
    if !is_path(name) {
        return Profile::named(name).map_err(|error| match error {
            ProfileError::NotFound(message) => reader.error(at, format!("{key}: {message}")),
            other => other,
        });
    }
    let file = Path::new(reader.file());
    let path = file.parent().unwrap_or(Path::new("")).join(name);
    let mut based = based.to_vec();
    based.push(identity(file));
    if based.contains(&identity(&path)) {
        return Err(reader.error(at, format!("{key}: {name} is in the end based on itself")));
    }
    let text = std::fs::read_to_string(&path)
        .map_err(|e| reader.error(at, format!("{key}: cannot read {}: {e}", path.display())))?;
    Profile::parse_from(&path.display().to_string(), &text, &based)
}
