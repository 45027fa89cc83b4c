//! The length of all hand-written pages, and its limits.

use doorbell_prose::words_by_hand;
use std::fmt;
use std::path::Path;

/// The beginning of the paths of pages that a test writes as a whole, from profiles.
const GENERATED_PAGES: &str = "docs/data-";

/// Words of hand-written pages. Generated text does not count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PageLength {
    /// Words of all pages.
    all: usize,
    /// Words of the user pages among them: README, and `docs` without `docs/notes`.
    user: usize,
}

/// Words at most.
const LIMIT: PageLength = PageLength { all: 45_000, user: 25_000 };

impl PageLength {
    /// Adds a page, which has this path in the workspace.
    pub(crate) fn add(&mut self, path: &Path, page: &str) {
        if path.to_string_lossy().starts_with(GENERATED_PAGES) {
            return;
        }
        let words = words_by_hand(page);
        self.all += words;
        if path == Path::new("README.md") || (path.starts_with("docs") && !path.starts_with("docs/notes")) {
            self.user += words;
        }
    }

    /// Whether a limit is exceeded.
    pub(crate) fn is_beyond(&self) -> bool {
        self.all > LIMIT.all || self.user > LIMIT.user
    }
}

impl fmt::Display for PageLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PageLength { all, user } = self;
        write!(f, "pages: {all} words (at most {}), user pages: {user} (at most {})", LIMIT.all, LIMIT.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_notes_and_of_the_root_are_not_of_user_pages() {
        let mut length = PageLength::default();
        for path in ["README.md", "LIMITATIONS.md", "docs/run.md", "docs/notes/run.md", "docs/data-cib.md"] {
            length.add(Path::new(path), "One, two.\n");
        }
        assert_eq!(length, PageLength { all: 8, user: 4 });
    }

    #[test]
    fn each_limit_is_the_last_allowed_length() {
        let beyond = |all, user| PageLength { all, user }.is_beyond();
        assert!(!beyond(LIMIT.all, LIMIT.user));
        assert!(beyond(LIMIT.all + 1, LIMIT.user) && beyond(LIMIT.all, LIMIT.user + 1));
    }
}
