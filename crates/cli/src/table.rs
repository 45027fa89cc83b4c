//! Tables with aligned columns.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Width of tables with prose in their last column.
const PROSE_WIDTH: u16 = 120;

/// Alignment of a column.
#[derive(Clone, Copy)]
pub(crate) enum Align {
    /// For text.
    Left,
    /// For numbers.
    Right,
}

/// A table with a header. Each line is indented by two columns.
pub(crate) fn columns(header: &[(&str, Align)], rows: Vec<Vec<String>>) -> String {
    render(header, rows, None)
}

/// A table with a header and wrapped cells.
pub(crate) fn prose(header: &[(&str, Align)], rows: Vec<Vec<String>>) -> String {
    render(header, rows, Some(PROSE_WIDTH))
}

fn render(header: &[(&str, Align)], rows: Vec<Vec<String>>, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    if header.iter().any(|(title, _)| !title.is_empty()) {
        table.set_header(header.iter().map(|(title, _)| *title));
    }
    table.add_rows(rows);
    for (column, (_, align)) in table.column_iter_mut().zip(header) {
        column.set_cell_alignment(match align {
            Align::Left => CellAlignment::Left,
            Align::Right => CellAlignment::Right,
        });
    }
    let lines = table.lines().map(|line| format!(" {}\n", line.trim_end()));
    lines.collect()
}

/// A table of names and values, without header.
pub(crate) fn pairs(rows: Vec<(&str, String)>) -> String {
    let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    columns(&[("", Align::Left), ("", Align::Left)], rows)
}

/// A table whose rows are printed one by one. Its columns are at least as wide as given, and grow with the
/// rows.
pub(crate) struct Stream {
    header: Vec<(String, Align)>,
    widths: Vec<usize>,
}

impl Stream {
    /// A table with a header and the least width of each column in characters.
    pub(crate) fn new(columns: &[(&str, Align, usize)]) -> Stream {
        let header = columns.iter().map(|(title, align, _)| ((*title).to_owned(), *align)).collect();
        let widths = columns.iter().map(|(title, _, least)| title.chars().count().max(*least)).collect();
        Stream { header, widths }
    }

    /// The line with the titles.
    pub(crate) fn titles(&mut self) -> String {
        let titles: Vec<String> = self.header.iter().map(|(title, _)| title.clone()).collect();
        self.row(&titles)
    }

    /// The line of a row.
    pub(crate) fn row(&mut self, cells: &[String]) -> String {
        let mut line = String::new();
        for ((cell, (_, align)), width) in cells.iter().zip(&self.header).zip(&mut self.widths) {
            *width = cell.chars().count().max(*width);
            line += &match align {
                Align::Left => format!("  {cell:<width$}"),
                Align::Right => format!("  {cell:>width$}"),
            };
        }
        format!("{}\n", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_looks_like_a_table() {
        let columns = [("size", Align::Right, 3), ("", Align::Left, 6), ("text", Align::Left, 0)];
        let rows = [["16", "± 0.1", "a"], ["4096", "", "bc"]].map(|row| row.map(str::to_owned).to_vec());
        let mut stream = Stream::new(&columns);
        let streamed = stream.titles() + &stream.row(&rows[0]) + &stream.row(&rows[1]);
        assert_eq!(streamed, "  size          text\n    16  ± 0.1   a\n  4096          bc\n");
        // With the widths that the cells need, it equals a table.
        let least = [("size", Align::Right, 0), ("", Align::Left, 5), ("text", Align::Left, 0)];
        let mut stream = Stream::new(&least);
        let streamed = stream.titles() + &stream.row(&rows[0]) + &stream.row(&rows[1]);
        let header = [("size", Align::Right), ("", Align::Left), ("text", Align::Left)];
        assert_eq!(streamed, super::columns(&header, rows.into()));
    }
}
