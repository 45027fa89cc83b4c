//! A piece of running text.

/// The place of a passage in its page, which decides whether a fragment in it counts as a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A paragraph: each sentence counts, a fragment too.
    Paragraph,
    /// A heading, a list item or a table cell: a fragment without a verb does not count.
    Label,
}

/// A piece of running text: no sentence goes beyond it.
///
/// Inline code is one word: it begins with U+0002, and its spaces are no-break spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The form.
    pub form: Form,
    /// The text, on one line.
    pub text: String,
    /// Byte offsets in `text` and the line of the source that begins there, in order. Lines count from 1.
    pub lines: Vec<(usize, usize)>,
}

/// The character before inline code.
pub(crate) const CODE: char = '\u{2}';

impl Passage {
    /// The line of the source for a byte offset in the text.
    pub(crate) fn line(&self, at: usize) -> usize {
        let before = self.lines.iter().take_while(|(offset, _)| *offset <= at);
        before.last().map_or(1, |(_, line)| *line)
    }
}
