//! Lines that are too wide.

use crate::rust_source::comment_lines;

/// Columns of a line at most.
pub const MOST_COLUMNS: usize = 110;

/// The lines of a Markdown page that are too wide, from 1. Code blocks, table rows and lines without a space
/// behind their first 30 columns (a link alone) may be wider, because Markdown cannot break them.
pub fn too_wide_lines(page: &str) -> Vec<usize> {
    let mut fence = None::<usize>;
    let mut all = Vec::new();
    for (number, line) in page.lines().enumerate() {
        let ticks = line.trim_start().bytes().take_while(|byte| *byte == b'`').count();
        if ticks >= fence.unwrap_or(3) {
            fence = if fence.is_some() { None } else { Some(ticks) };
        } else if fence.is_none() && !line.trim_start().starts_with('|') && is_too_wide(line) {
            all.push(number + 1);
        }
    }
    all
}

/// The lines of a Rust source that are too wide and end in a comment, from 1.
pub fn too_wide_comments(source: &str) -> Vec<usize> {
    let lines: Vec<&str> = source.lines().collect();
    let all = comment_lines(source).into_iter().map(|comment| comment.line);
    all.filter(|line| is_too_wide(lines[line - 1]) && !is_table_row(lines[line - 1])).collect()
}

fn is_too_wide(line: &str) -> bool {
    let can_break = || line.chars().skip(30).any(|c| c == ' ');
    line.chars().count() > MOST_COLUMNS && can_break()
}

fn is_table_row(line: &str) -> bool {
    line.trim_start().trim_start_matches(['/', '!']).trim_start().starts_with('|')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_lines_are_found() {
        let (wide, word) = ("word ".repeat(30), "x".repeat(120));
        let page = format!("short\n{wide}\n```\n{wide}\n```\n| {wide} |\n[a]({word})\n");
        assert_eq!(too_wide_lines(&page), [2]);
        let source = format!("// {wide}\nlet x = 1; // short\n/// | {wide} |\nlet y = \"{wide}\";\n");
        assert_eq!(too_wide_comments(&source), [1]);
    }
}
