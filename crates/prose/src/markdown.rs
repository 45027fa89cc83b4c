//! Passages of a Markdown page.

use crate::passage::{CODE, Form, Passage};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Collects the text of passages.
struct Collector<'t> {
    source: &'t str,
    /// The line of the source's first line.
    first_line: usize,
    passages: Vec<Passage>,
    current: Passage,
    /// Depths of list items, table cells and headings.
    labels: usize,
    /// Depths of code blocks, images and metadata.
    left_out: usize,
}

/// The passages of a Markdown text. The text's first line is line `first_line` of its file. Code blocks, HTML
/// and the texts of images are left out.
pub fn markdown(source: &str, first_line: usize) -> Vec<Passage> {
    let empty = Passage { form: Form::Paragraph, text: String::new(), lines: Vec::new() };
    let mut collector =
        Collector { source, first_line, passages: Vec::new(), current: empty, labels: 0, left_out: 0 };
    for (event, range) in Parser::new_ext(source, Options::ENABLE_TABLES).into_offset_iter() {
        collector.take(event, range.start);
    }
    collector.flush();
    collector.passages
}

impl Collector<'_> {
    fn take(&mut self, event: Event<'_>, at: usize) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text, at),
            Event::Code(code) => {
                self.text(&format!("{CODE}{}", code.replace([' ', '\n'], "\u{a0}")), at);
            }
            Event::SoftBreak | Event::HardBreak => self.text(" ", at),
            Event::Rule => self.flush(),
            Event::InlineHtml(html) if html.starts_with("<br") => self.flush(),
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::CodeBlock(_) | Tag::Image { .. } | Tag::MetadataBlock(_) => self.left_out += 1,
            Tag::Item | Tag::TableCell | Tag::Heading { .. } => {
                self.flush();
                self.labels += 1;
            }
            Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Link { .. } => {}
            _ => self.flush(),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::CodeBlock | TagEnd::Image | TagEnd::MetadataBlock(_) => self.left_out -= 1,
            TagEnd::Item | TagEnd::TableCell | TagEnd::Heading(_) => {
                self.flush();
                self.labels -= 1;
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link => {}
            _ => self.flush(),
        }
    }

    fn text(&mut self, text: &str, at: usize) {
        if self.left_out == 0 {
            let line = self.first_line + self.source[..at].matches('\n').count();
            self.current.lines.push((self.current.text.len(), line));
            self.current.text += text;
        }
    }

    fn flush(&mut self) {
        let form = if self.labels > 0 { Form::Label } else { Form::Paragraph };
        let empty = Passage { form, text: String::new(), lines: Vec::new() };
        let passage = std::mem::replace(&mut self.current, empty);
        if !passage.text.trim().is_empty() {
            self.passages.push(Passage { form, ..passage });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_tables_and_lists_are_told_apart() {
        let page = "# A head\n\nOne `a b`\nparagraph.\n\n- item\n- item with *stress*\n\n  and a paragraph\n\n```\ncode.\n```\n\n| cell | other |\n|---|---|\n| x | y is z<br>u is v |\n";
        let all = markdown(page, 1);
        let texts: Vec<(&str, Form, usize)> = all.iter().map(|p| (&*p.text, p.form, p.line(0))).collect();
        assert_eq!(
            texts,
            [
                ("A head", Form::Label, 1),
                ("One \u{2}a\u{a0}b paragraph.", Form::Paragraph, 3),
                ("item", Form::Label, 6),
                ("item with stress", Form::Label, 7),
                ("and a paragraph", Form::Label, 9),
                ("cell", Form::Label, 15),
                ("other", Form::Label, 15),
                ("x", Form::Label, 17),
                ("y is z", Form::Label, 17),
                ("u is v", Form::Label, 17),
            ]
        );
        assert_eq!(all[1].line(12), 4, "the second line of the paragraph");
    }
}
