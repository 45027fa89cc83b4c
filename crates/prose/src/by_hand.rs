//! The length of a page's hand-written text.

use crate::markdown::markdown;
use crate::sentence::words;

/// The beginning of a comment line.
const COMMENT: &str = "<!-- ";

/// The beginning of the comment that ends a generated block.
const END: &str = "<!-- end";

/// Counts the words of a Markdown page that were written by hand. The text of code blocks, HTML, images and
/// generated blocks does not count.
///
/// A generated block begins with a comment line that names its rows. It ends with the next comment line, if
/// that line begins with `<!-- end`. Inline code is one word. A word has a letter or a digit.
pub fn words_by_hand(page: &str) -> usize {
    markdown(&without_generated(page), 1).iter().map(|passage| words(&passage.text).count()).sum()
}

/// A page without its generated blocks.
fn without_generated(page: &str) -> String {
    let (mut kept, mut lines) = (String::new(), page.lines());
    while let Some(line) = lines.next() {
        if line.starts_with(COMMENT) && !line.starts_with(END) {
            let mut rest = lines.clone();
            if rest.find(|line| line.starts_with(COMMENT)).is_some_and(|next| next.starts_with(END)) {
                lines = rest;
                continue;
            }
        }
        kept += line;
        kept += "\n";
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_outside_of_code_and_generated_blocks() {
        let written = "# A head\n\nTwo `a b` words, 3.\n\n| x | [y z](w.md) |\n|---|---|\n| 1 | - |\n";
        assert_eq!(words_by_hand(written), 10);
        let code = "\n```\nof code\n```\n\n![of a picture](p.svg)\n";
        let generated = "\n<!-- rows, made by a test -->\n| p | q |\n|---|---|\n| r | s |\n<!-- end -->\n";
        assert_eq!(words_by_hand(&[written, code, generated].concat()), 10);
        let without_end = "\n<!-- rows -->\n\nOne.\n\n<!-- more rows -->\n\nTwo.\n";
        assert_eq!(words_by_hand(&[written, without_end, generated].concat()), 12);
    }
}
