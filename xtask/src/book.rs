//! The pages as a book, made by mdBook.

use crate::command::{Task, failed, run};
use crate::wheels;
use crate::workspace::{root, target};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Pages outside of `docs` that the book has, too.
const ROOT_PAGES: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "LIMITATIONS.md"];

/// Builds the book into `target/book`. mdBook fails if the summary names a page that does not exist.
pub(crate) fn build() -> Task<()> {
    wheels::ensure()?;
    let folder = target()?.join("book-source");
    let _ = fs::remove_dir_all(&folder);
    copy_pages(&root().join("docs"), &folder.join("docs"))?;
    for page in ROOT_PAGES {
        copy_page(&root().join(page), &folder.join("docs").join(page))?;
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let file = root().join(licence);
        fs::copy(&file, folder.join("docs").join(licence)).map_err(|error| failed(file.display(), error))?;
    }
    let settings = root().join("book.toml");
    fs::copy(&settings, folder.join("book.toml")).map_err(|error| failed(settings.display(), error))?;
    let mut book = Command::new(wheels::folder()?.join("bin/mdbook"));
    run(book.arg("build").arg(&folder).arg("--dest-dir").arg(target()?.join("book")))
}

/// Copies pages and pictures of a folder.
fn copy_pages(from: &Path, to: &Path) -> Task<()> {
    fs::create_dir_all(to).map_err(|error| failed(to.display(), error))?;
    for entry in fs::read_dir(from).map_err(|error| failed(from.display(), error))?.flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.extension().and_then(|ending| ending.to_str()) {
            _ if path.is_dir() => copy_pages(&path, &to)?,
            Some("md") => copy_page(&path, &to)?,
            _ => drop(fs::copy(&path, &to).map_err(|error| failed(path.display(), error))?),
        }
    }
    Ok(())
}

/// Copies a page with the links of the book: its pages are in one folder, and it does not hold the code.
fn copy_page(from: &Path, to: &Path) -> Task<()> {
    let text = fs::read_to_string(from).map_err(|error| failed(from.display(), error))?;
    let is_of_docs =
        from.parent().is_some_and(|folder| !folder.ends_with(root()) && folder.ends_with("docs"));
    let is_note = from.parent().is_some_and(|folder| folder.ends_with("notes"));
    let text = in_the_book(
        &text,
        if is_note {
            "../../"
        } else if is_of_docs {
            "../"
        } else {
            ""
        },
    );
    fs::write(to, text).map_err(|error| failed(to.display(), error))
}

/// A page's text with its links changed; `up` leads from the page to the root of the repository.
fn in_the_book(text: &str, up: &str) -> String {
    let mut all = String::new();
    let mut parts = text.split("](");
    all += parts.next().unwrap_or_default();
    for part in parts {
        let (target, behind) = part.split_once(')').unwrap_or((part, ""));
        let from_root = target.strip_prefix(up).filter(|_| !up.is_empty() || !target.starts_with("http"));
        let (file, anchor) = from_root.map_or(("", ""), |t| t.split_once('#').unwrap_or((t, "")));
        let notes = if up == "../../" { "../" } else { "" };
        let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
        let new = match file.strip_prefix("docs/") {
            Some(page) if up.is_empty() => format!("{page}{anchor}"),
            _ if ROOT_PAGES.contains(&file) => format!("{notes}{file}{anchor}"),
            _ if ["crates/", "profiles/", "papers/", "xtask/", "workloads/"]
                .iter()
                .any(|f| file.starts_with(f)) =>
            {
                // The code is not part of the book: the link leads to the map of the code.
                format!("{notes}ARCHITECTURE.md")
            }
            _ => target.to_owned(),
        };
        all += &format!("]({new}){behind}");
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_pages_become_links_of_the_book() {
        assert_eq!(in_the_book("a [b](docs/c.md#d) e", ""), "a [b](c.md#d) e");
        assert_eq!(in_the_book("[b](../README.md#d) [x](y.md)", "../"), "[b](README.md#d) [x](y.md)");
        assert_eq!(
            in_the_book("[b](../../README.md) [c](../crates/x.rs)", "../../"),
            "[b](../README.md) [c](../crates/x.rs)"
        );
        assert_eq!(
            in_the_book("[c](../crates/x.rs) [h](http://x)", "../"),
            "[c](ARCHITECTURE.md) [h](http://x)"
        );
    }
}
