//! The size of the terminal, and text that fits into it.

use rustix::termios::tcgetwinsize;
use std::sync::OnceLock;

/// Fewest columns to which text is fitted. A narrower terminal breaks lines itself.
const LEAST: usize = 40;

/// Fewest lines on which a text for one screen is shortened.
const LEAST_LINES: usize = 20;

/// Lines of the terminal that shows standard output. `None` if standard output is not a terminal.
pub(crate) fn lines() -> Option<usize> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|lines| *lines >= LEAST_LINES)
}

/// Columns of the terminal that shows standard output. `None` if standard output is not a terminal: files and
/// other programs get lines of any length.
pub(crate) fn columns() -> Option<usize> {
    static COLUMNS: OnceLock<Option<usize>> = OnceLock::new();
    *COLUMNS.get_or_init(|| {
        let size = tcgetwinsize(std::io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns >= LEAST)
    })
}

/// A text for people. If standard output is a terminal, the lines fit into its columns.
pub(crate) fn fit(text: &str) -> String {
    columns().map_or_else(|| text.to_owned(), |columns| fitted(text, columns))
}

/// The text with lines of at most `columns` columns, broken between words. Lines with a command of `doorbell`
/// stay whole, because people copy them.
fn fitted(text: &str, columns: usize) -> String {
    text.split_inclusive('\n').map(|line| fitted_line(line, columns)).collect()
}

/// Whether a line, or a cell of a table in it, is a command.
fn has_command(line: &str) -> bool {
    line.trim_start().starts_with("doorbell ") || line.contains("  doorbell ")
}

fn fitted_line(line: &str, columns: usize) -> String {
    if line.trim_end().chars().count() <= columns || has_command(line) {
        return line.to_owned();
    }
    let indent = line.chars().take_while(|c| *c == ' ').count();
    let mut lines = vec![" ".repeat(indent)];
    // Blanks within a line belong to the word after them, so that columns stay apart.
    for word in line[indent..].trim_end().split_inclusive(' ') {
        let last = lines.last_mut().expect("there is a first line");
        if last.chars().count() + word.trim_end().chars().count() > columns && !last.trim().is_empty() {
            lines.push(" ".repeat(indent + 2));
        }
        lines.last_mut().expect("there is a first line").push_str(word);
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n") + if line.ends_with('\n') { "\n" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        let text =
            "short\n  the cores limit the rate and more\n\n  doorbell simulate --system rpc --cores 14\n";
        assert_eq!(
            fitted(text, 20),
            "short\n  the cores limit\n    the rate and\n    more\n\n  doorbell simulate --system rpc --cores 14\n"
        );
        assert_eq!(fitted(text, 80), text);
        assert_eq!(
            fitted("run `doorbell simulate --help` first", 20),
            "run `doorbell\n  simulate --help`\n  first"
        );
        assert_eq!(fitted("incomprehensibilities at last", 10), "incomprehensibilities\n  at last");
    }
}
