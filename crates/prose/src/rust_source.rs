//! Passages of the comments of a Rust source.

use crate::markdown::markdown;
use crate::passage::Passage;

/// A comment line: its line in the file, its marker (`//`, `///` or `//!`), its text, and whether it follows code.
pub(crate) struct CommentLine<'t> {
    pub(crate) line: usize,
    marker: &'static str,
    text: &'t str,
    trailing: bool,
}

/// The passages of all comments. Neighbouring lines with one marker are one Markdown text.
pub fn comments(source: &str) -> Vec<Passage> {
    let mut groups: Vec<Vec<CommentLine<'_>>> = Vec::new();
    for comment in comment_lines(source) {
        match groups.last_mut() {
            Some(group) if continues(group, &comment) => group.push(comment),
            _ => groups.push(vec![comment]),
        }
    }
    let of_group = |group: &Vec<CommentLine<'_>>| {
        let text: Vec<&str> =
            group.iter().map(|comment| comment.text.strip_prefix(' ').unwrap_or(comment.text)).collect();
        markdown(&text.join("\n"), group[0].line)
    };
    groups.iter().flat_map(of_group).collect()
}

/// Whether a comment line belongs to the text of the lines before it.
fn continues(group: &[CommentLine<'_>], comment: &CommentLine<'_>) -> bool {
    group.last().is_some_and(|last| {
        last.line + 1 == comment.line && last.marker == comment.marker && !last.trailing && !comment.trailing
    })
}

/// The lines of line comments; block comments are left out, the workspace has none.
pub(crate) fn comment_lines(source: &str) -> Vec<CommentLine<'_>> {
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some(c) = source[at..].chars().next() {
        let rest = &source[at..];
        if rest.starts_with("//") {
            let end = at + rest.find('\n').unwrap_or(rest.len());
            all.push(comment_line(source, at, end));
            at = end;
        } else {
            at += literal(rest, source[..at].chars().next_back()).unwrap_or(c.len_utf8());
        }
    }
    all
}

fn comment_line(source: &str, at: usize, end: usize) -> CommentLine<'_> {
    let begin = source[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let comment = &source[at..end];
    let is_doc = comment.starts_with("///") && !comment.starts_with("////");
    let marker = match comment {
        _ if is_doc => "///",
        inner if inner.starts_with("//!") => "//!",
        _ => "//",
    };
    CommentLine {
        line: 1 + source[..at].matches('\n').count(),
        marker,
        text: comment[marker.len()..].trim_end(),
        trailing: !source[begin..at].trim().is_empty(),
    }
}

/// The length of the string or character literal that begins here.
fn literal(rest: &str, before: Option<char>) -> Option<usize> {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with('"') {
        return Some(quoted(rest, '"'));
    }
    if !in_word && rest.starts_with('r') {
        let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
        if rest[1 + hashes..].starts_with('"') {
            let (end, from) = (format!("\"{}", "#".repeat(hashes)), hashes + 2);
            return Some(rest[from..].find(&end).map_or(rest.len(), |at| from + at + end.len()));
        }
    }
    let mut after = rest.strip_prefix('\'')?.chars();
    // The first character of a lifetime has no quote behind it.
    let is_character = after.next() == Some('\\') || after.next() == Some('\'');
    is_character.then(|| quoted(rest, '\''))
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_and_joined() {
        let source = "//! The crate,\n//! in two lines.\n\n/// Doc.\n// Plain.\nfn f<'a>() { // Trailing.\n    let x = \"// no\"; let y = r#\"// \"no\"#; let z = '\"'; // Yes.\n    // One\n    // text.\n}\n";
        let all = comments(source);
        let texts: Vec<(&str, usize)> = all.iter().map(|p| (&*p.text, p.line(0))).collect();
        assert_eq!(
            texts,
            [
                ("The crate, in two lines.", 1),
                ("Doc.", 4),
                ("Plain.", 5),
                ("Trailing.", 6),
                ("Yes.", 7),
                ("One text.", 8)
            ]
        );
    }
}
