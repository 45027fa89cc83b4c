//! Passages of the comments of a Rust source.

use crate::markdown::markdown;
use crate::passage::{Form, Passage};

/// A comment line: its line in the file, its marker (`//`, `///` or `//!`), its text, and whether it follows
/// code.
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

/// The passages of the messages of a Rust source: string literals of at least five words outside of tests.
/// Literals that hold code, TOML, JSON or tables are left out.
pub fn messages(source: &str) -> Vec<Passage> {
    let source = without_test_module(source);
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some(c) = source[at..].chars().next() {
        let rest = &source[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let length = literal_length(rest);
        if let Some(length) = length
            && rest.starts_with('"')
        {
            let line = 1 + source[..at].matches('\n').count();
            let literal = &rest[1..length];
            all.extend(message(literal.strip_suffix('"').unwrap_or(literal), line));
        }
        at += length.unwrap_or(c.len_utf8());
    }
    all
}

/// A source without the module of its tests, which is its last item. A module in a file of its own stays.
fn without_test_module(source: &str) -> &str {
    let mut starts = source.match_indices("#[cfg(test)]\n").map(|(at, _)| at);
    let holds_code = |at: &usize| {
        let mut lines = source[*at..].lines().skip_while(|line| line.starts_with("#["));
        let item = lines.next().map(|line| line.strip_prefix("pub(crate) ").unwrap_or(line));
        item.is_some_and(|item| item.starts_with("mod ") && !item.ends_with(';'))
    };
    &source[..starts.find(holds_code).unwrap_or(source.len())]
}

/// The passages of a string literal that is a message: one for each of its lines.
fn message(literal: &str, line: usize) -> Vec<Passage> {
    // A backslash before the end of a line joins two lines of one text.
    let mut joined = String::new();
    let mut rest = literal;
    while let Some(at) = rest.find("\\\n") {
        joined += &rest[..at];
        rest = rest[at + 2..].trim_start();
    }
    joined += rest;
    let lines =
        joined.split("\\n").flat_map(str::lines).map(|text| text.replace("\\\"", "'").replace('`', "'"));
    let lines = lines.map(|text| without_placeholders(&text)).filter(|text| is_message(text));
    lines.map(|text| Passage { form: Form::Paragraph, text, lines: vec![(0, line)] }).collect()
}

/// A format string with `{X}` for each placeholder, because the names of variables are no words.
fn without_placeholders(text: &str) -> String {
    let mut parts = text.split('{');
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let behind = part.find('}').map_or(part, |end| &part[end..]);
        all += "{X";
        all += behind;
    }
    all
}

/// Whether a text consists of words rather than of code.
fn is_message(text: &str) -> bool {
    let is_of_words = |word: &&str| word.chars().all(|c| c.is_alphabetic() || ",.:;'()-{}?!".contains(c));
    let words: Vec<&str> = text.split_whitespace().collect();
    let plain = words.iter().filter(|word| is_of_words(word)).count();
    let is_code = ["::", "{{", " = ", "==", "|", "$ ", "[", "#"].iter().any(|sign| text.contains(sign));
    words.len() >= LEAST_WORDS && plain * 4 >= words.len() * 3 && !is_code
}

/// Words of a message at least.
const LEAST_WORDS: usize = 5;

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
            at += literal_length(rest).unwrap_or(c.len_utf8());
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

/// The length in bytes of the string or character literal at the beginning of Rust code, if there is one. No
/// word of Rust but a prefix of strings is followed by a quote, so an `r` before quotes begins a raw string.
pub fn literal_length(rest: &str) -> Option<usize> {
    if rest.starts_with('"') {
        return Some(quoted(rest, '"'));
    }
    if let Some(raw) = rest.strip_prefix('r') {
        let hashes = raw.bytes().take_while(|byte| *byte == b'#').count();
        if raw[hashes..].starts_with('"') {
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
    fn messages_are_found() {
        let source = "fn f() {\n    g(\"short one\");\n    g(\"{count} processes of {user} have \\\n        exited\");\n    g(\"a = 1 b = 2 c = 3\");\n}\n#[cfg(test)]\nmod tests { const X: &str = \"this is no message of the code\"; }\n";
        let all = messages(source);
        let texts: Vec<(&str, usize)> = all.iter().map(|p| (&*p.text, p.line(0))).collect();
        assert_eq!(texts, [("{X} processes of {X} have exited", 3)]);
    }

    #[test]
    fn a_test_module_may_be_visible_and_have_attributes() {
        for module in ["mod tests", "pub(crate) mod tests", "#[allow(dead_code)]\npub(crate) mod tests"] {
            let source =
                format!("#[cfg(test)]\n{module} {{ const X: &str = \"this is no message of the code\"; }}\n");
            assert_eq!(messages(&source).len(), 0, "{module}");
        }
    }

    #[test]
    fn messages_stand_behind_a_test_module_in_another_file() {
        let source = "#[cfg(test)]\nmod tests;\nconst A: &str = \"the message has more than four words\";\nconst B: &[u8] = br\"\\\"; // A comment of its own here.\n";
        assert_eq!((messages(source).len(), comments(source).len()), (1, 1));
        assert_eq!(messages("const A: &str = \"not ended, with an é").len(), 1);
    }

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
