//! Checks the links of pages. Each link leads to a file and an anchor that exist. If a link's text is the
//! name of a file, the link leads to this file. Pages link to every entry of the glossary.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace is there")
}

/// All pages with their texts.
fn pages() -> BTreeMap<PathBuf, String> {
    let is_page = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "md");
    let of = |folder: &str| {
        let entries = std::fs::read_dir(root().join(folder)).expect("a folder of pages").flatten();
        entries.map(|entry| entry.path()).filter(is_page).collect::<Vec<_>>()
    };
    let all = ["", "docs", "docs/notes"].into_iter().flat_map(of);
    all.map(|path| (path.clone(), std::fs::read_to_string(&path).expect("a page is text"))).collect()
}

/// A link: its line, its text and its target.
struct PageLink {
    line: usize,
    text: String,
    target: String,
}

fn links(page: &str) -> Vec<PageLink> {
    let mut all: Vec<PageLink> = Vec::new();
    let mut open = false;
    for (event, range) in Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let line = 1 + page[..range.start].matches('\n').count();
                all.push(PageLink { line, text: String::new(), target: dest_url.to_string() });
                open = true;
            }
            Event::End(TagEnd::Link | TagEnd::Image) => open = false,
            Event::Text(text) | Event::Code(text) if open => {
                all.last_mut().expect("a link is open").text += &text;
            }
            _ => {}
        }
    }
    all
}

/// The anchors of a page. The anchor of a heading is its text in lower case, with hyphens for spaces and
/// without punctuation. The id of an HTML tag, such as `<a id="cqe"></a>`, is also an anchor.
fn anchors(page: &str) -> Vec<String> {
    let (mut all, mut open) = (Vec::<String>::new(), false);
    let mut ids = Vec::<String>::new();
    for event in Parser::new_ext(page, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                all.push(String::new());
                open = true;
            }
            Event::End(TagEnd::Heading(_)) => open = false,
            Event::Text(text) | Event::Code(text) if open => {
                let kept = text.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
                all.last_mut().expect("a heading is open").extend(kept.flat_map(char::to_lowercase));
            }
            Event::Html(html) | Event::InlineHtml(html) => ids.extend(id_of_tag(&html)),
            _ => {}
        }
    }
    all.into_iter().map(|anchor| anchor.replace(' ', "-")).chain(ids).collect()
}

/// The id of an HTML tag, if it has one.
fn id_of_tag(html: &str) -> Option<String> {
    let (_, rest) = html.split_once(" id=\"")?;
    let (id, _) = rest.split_once('"')?;
    Some(id.to_owned())
}

/// Headings of the glossary that are not entries.
const GLOSSARY_HEADINGS: [&str; 2] = ["glossary", "abbreviations"];

/// The entries of the glossary that a page links to, by their anchors.
fn glossary_links(page: &str) -> Vec<String> {
    let entry = |link: PageLink| {
        let (_, entry) = link.target.split_once("glossary.md#")?;
        Some(entry.to_owned())
    };
    links(page).into_iter().filter_map(entry).collect()
}

/// Describes the fault of a link, if it has one.
fn fault(pages: &BTreeMap<PathBuf, String>, page: &Path, link: &PageLink) -> Option<String> {
    if link.target.starts_with("http") {
        return None;
    }
    let (file, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
    let path = match file {
        "" => page.to_owned(),
        file => page.parent().expect("a page is in a folder").join(file),
    };
    let Ok(path) = path.canonicalize() else { return Some("leads nowhere".to_owned()) };
    let has_anchor = |text: &String| anchors(text).iter().any(|known| known == anchor);
    if !anchor.is_empty() && !pages.get(&path).is_some_and(has_anchor) {
        return Some(format!("leads to no anchor {anchor}"));
    }
    let is_file_name =
        [".md", ".rs", ".toml", ".json", ".svg"].iter().any(|ending| link.text.ends_with(ending));
    let is_other =
        is_file_name && !link.text.contains(' ') && !path.ends_with(link.text.trim_start_matches("../"));
    is_other.then(|| format!("is called {}", link.text))
}

#[test]
fn links_lead_to_files_and_anchors() {
    let pages = pages();
    let (mut faults, mut count) = (String::new(), 0);
    for (page, text) in &pages {
        for link in links(text) {
            count += 1;
            if let Some(fault) = fault(&pages, page, &link) {
                let page = page.strip_prefix(root()).expect("pages are in the workspace");
                writeln!(faults, "{}:{}: ({}) {fault}", page.display(), link.line, link.target)
                    .expect("text");
            }
        }
    }
    assert!(count > 100, "{count} links are all that was found");
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn the_book_has_every_page() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the book has a summary");
    let named: Vec<PathBuf> =
        links(&summary).iter().map(|link| root().join("docs").join(&link.target)).collect();
    let of_book = |page: &&PathBuf| page.starts_with(root().join("docs")) && !page.ends_with("SUMMARY.md");
    let missing: Vec<_> =
        pages().into_keys().filter(|page| of_book(&page) && !named.contains(page)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not name {missing:?}");
}

#[test]
fn every_glossary_entry_is_linked_from_a_page() {
    let pages = pages();
    let glossary = root().join("docs/glossary.md");
    let others = pages.iter().filter(|(page, _)| **page != glossary);
    let linked: BTreeSet<String> = others.flat_map(|(_, text)| glossary_links(text)).collect();
    let is_entry = |anchor: &String| !GLOSSARY_HEADINGS.contains(&anchor.as_str());
    let entries: Vec<String> = anchors(&pages[&glossary]).into_iter().filter(is_entry).collect();
    assert!(entries.len() > 40, "{entries:?} are all entries that were found");
    let unlinked: Vec<&String> = entries.iter().filter(|entry| !linked.contains(*entry)).collect();
    assert!(unlinked.is_empty(), "no page links to these entries of the glossary: {unlinked:?}");
}

#[test]
fn every_guide_links_to_the_glossary() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the book has a summary");
    let mut parts = summary.split("\n# ");
    let guides = parts.find_map(|part| part.strip_prefix("Guides\n")).expect("the book has guides");
    let guides: Vec<PathBuf> =
        links(guides).iter().map(|link| root().join("docs").join(&link.target)).collect();
    assert!(guides.len() > 15, "{guides:?} are all guides that were found");
    let pages = pages();
    let without: Vec<&PathBuf> =
        guides.iter().filter(|guide| glossary_links(&pages[*guide]).is_empty()).collect();
    assert!(without.is_empty(), "these guides do not link to the glossary: {without:?}");
}

#[test]
fn anchors_and_links_are_found() {
    let page =
        "# A `b` head: c\n\n[text](a.md#b) and ![x](y.svg)\n\n| [d](e) |\n|---|\n| <a id=\"f\"></a>G |\n";
    assert_eq!(anchors(page), ["a-b-head-c", "f"]);
    assert_eq!(glossary_links("[g](../glossary.md#h), [i](glossary.md), [j](k.md#l)"), ["h"]);
    let all: Vec<(usize, String)> = links(page).into_iter().map(|link| (link.line, link.target)).collect();
    assert_eq!(all, [(3, "a.md#b".to_owned()), (3, "y.svg".to_owned()), (5, "e".to_owned())]);
}
