//! Tables with aligned columns.

use crate::screen;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

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

/// A table with a header. Each line is indented by two columns. In a terminal, the table fits into the
/// terminal's columns.
pub(crate) fn columns(header: &[(&str, Align)], rows: Vec<Vec<String>>) -> String {
    fitted(header, rows, None, screen::columns())
}

/// A table with a header and wrapped cells.
pub(crate) fn prose(header: &[(&str, Align)], rows: Vec<Vec<String>>) -> String {
    fitted(header, rows, Some(PROSE_WIDTH), screen::columns())
}

/// A table with a header whose rows take one line each, such as commands to copy.
pub(crate) fn whole(header: &[(&str, Align)], rows: Vec<Vec<String>>) -> String {
    fitted(header, rows, None, None)
}

/// Columns beside the text of a column: a blank on each side.
const PADDING: usize = 2;

/// Indentation of a table, beside the padding of its first column.
const INDENT: usize = 1;

/// A table that fits into `screen` columns, if possible: cells of text and headers are wrapped. If that does
/// not suffice, the first cell of each row has a line of its own.
fn fitted(
    header: &[(&str, Align)],
    rows: Vec<Vec<String>>,
    most: Option<u16>,
    screen: Option<usize>,
) -> String {
    let free = render(header, &rows, |table| {
        table.set_content_arrangement(ContentArrangement::Disabled);
        if let Some(width) = most {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
    });
    let Some(screen) = screen.filter(|screen| free.lines().any(|line| line.chars().count() > *screen)) else {
        return free;
    };
    match widths(header, &rows, screen) {
        Some(widths) => render(header, &rows, |table| set_widths(table, &widths)),
        None => stacked(header, &rows, screen).unwrap_or(free),
    }
}

/// A table whose rows begin with a line for the first cell. `None` if the other cells do not fit.
fn stacked(header: &[(&str, Align)], rows: &[Vec<String>], screen: usize) -> Option<String> {
    let rest: Vec<Vec<String>> = rows.iter().map(|row| row.iter().skip(1).cloned().collect()).collect();
    let header = header.get(1..).filter(|header| !header.is_empty())?;
    let widths = widths(header, &rest, screen)?;
    let mut text = render(header, &[], |table| set_widths(table, &widths));
    let without_titles: Vec<(&str, Align)> = header.iter().map(|(_, align)| ("", *align)).collect();
    for (row, rest) in rows.iter().zip(rest) {
        text += &format!("{}{}\n", " ".repeat(INDENT + 1), row.first().map_or("", String::as_str));
        text += &render(&without_titles, &[rest], |table| set_widths(table, &widths));
    }
    Some(text)
}

/// Widths of the columns at which a table fits into `screen` columns. Numbers and words stay whole. `None` if
/// it does not fit.
fn widths(header: &[(&str, Align)], rows: &[Vec<String>], screen: usize) -> Option<Vec<usize>> {
    let longest_word = |text: &str| text.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
    let cells = |at: usize| rows.iter().filter_map(move |row| row.get(at)).map(String::as_str);
    let of = |(at, (title, align)): (usize, &(&str, Align))| {
        let widest = cells(at).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let least = match align {
            Align::Right => widest,
            Align::Left => cells(at).map(longest_word).max().unwrap_or(0),
        };
        (least.max(longest_word(title)), widest.max(title.chars().count()))
    };
    let (least, mut widths): (Vec<usize>, Vec<usize>) = header.iter().enumerate().map(of).unzip();
    let taken = |widths: &[usize]| INDENT + widths.iter().map(|width| width + PADDING).sum::<usize>();
    // The blank after the last column is not printed.
    while taken(&widths) > screen + 1 {
        let can_shrink = (0..widths.len()).filter(|at| widths[*at] > least[*at]);
        let widest = can_shrink.max_by_key(|at| widths[*at])?;
        widths[widest] -= 1;
    }
    Some(widths)
}

fn set_widths(table: &mut Table, widths: &[usize]) {
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(widths.iter().map(|width| width + PADDING).sum::<usize>() as u16);
    for (column, width) in table.column_iter_mut().zip(widths) {
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed((width + PADDING) as u16)));
    }
}

fn render(header: &[(&str, Align)], rows: &[Vec<String>], arrange: impl FnOnce(&mut Table)) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if header.iter().any(|(title, _)| !title.is_empty()) {
        table.set_header(header.iter().map(|(title, _)| *title));
    }
    table.add_rows(rows);
    arrange(&mut table);
    for (column, (_, align)) in table.column_iter_mut().zip(header) {
        column.set_cell_alignment(match align {
            Align::Left => CellAlignment::Left,
            Align::Right => CellAlignment::Right,
        });
    }
    let lines = table.lines().map(|line| format!("{}{}\n", " ".repeat(INDENT), line.trim_end()));
    lines.collect()
}

/// A table of names and values, without header.
pub(crate) fn pairs(rows: Vec<(&str, String)>) -> String {
    let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    columns(&[("", Align::Left), ("", Align::Left)], rows)
}

/// A table whose rows are printed one by one. Its columns are at least as wide as given, and grow with the
/// rows. In a terminal, a row that is wider than the terminal's columns continues on the next line.
pub(crate) struct Stream {
    header: Vec<(String, Align)>,
    widths: Vec<usize>,
    screen: Option<usize>,
}

impl Stream {
    /// A table with a header and the least width of each column in characters.
    pub(crate) fn new(columns: &[(&str, Align, usize)]) -> Stream {
        let header = columns.iter().map(|(title, align, _)| ((*title).to_owned(), *align)).collect();
        let widths = columns.iter().map(|(title, _, least)| title.chars().count().max(*least)).collect();
        Stream { header, widths, screen: screen::columns() }
    }

    /// The line with the titles.
    pub(crate) fn titles(&mut self) -> String {
        let titles: Vec<String> = self.header.iter().map(|(title, _)| title.clone()).collect();
        self.row(&titles)
    }

    /// The line of a row.
    pub(crate) fn row(&mut self, cells: &[String]) -> String {
        let (mut text, mut line) = (String::new(), String::new());
        for ((cell, (_, align)), width) in cells.iter().zip(&self.header).zip(&mut self.widths) {
            *width = cell.chars().count().max(*width);
            let wide = line.chars().count() + PADDING + *width;
            if !line.is_empty() && self.screen.is_some_and(|screen| wide > screen) {
                if !line.trim().is_empty() {
                    text += &format!("{}\n", line.trim_end());
                }
                line = " ".repeat(PADDING);
            }
            line += &match align {
                Align::Left => format!("  {cell:<width$}"),
                Align::Right => format!("  {cell:>width$}"),
            };
        }
        format!("{text}{}\n", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [(&str, Align); 4] = [
        ("", Align::Left),
        ("against the first", Align::Right),
        ("mean", Align::Right),
        ("from", Align::Left),
    ];

    fn rows() -> Vec<Vec<String>> {
        let row = |name: &str, from: &str| [name, "-45.5%", "6785 ns", from].map(str::to_owned).to_vec();
        vec![row("request=write-uc reply=send-ud", "the posts of a core"), row("cib", "the link")]
    }

    #[test]
    fn a_table_fits_into_the_terminal() {
        let free = fitted(&HEADER, rows(), None, None);
        assert_eq!(free.lines().count(), 3);
        for screen in [200, 72, 60, 44, 34] {
            let table = fitted(&HEADER, rows(), None, Some(screen));
            assert!(table.lines().all(|line| line.chars().count() <= screen), "{screen}:\n{table}");
            let words = |text: &str| {
                let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
                words.sort();
                words
            };
            assert_eq!(words(&table), words(&free), "{screen}:\n{table}");
            assert!(table.contains("6785 ns"), "numbers keep their units: {table}");
        }
        assert_eq!(fitted(&HEADER, rows(), None, Some(200)), free);
        // Where nothing fits, the terminal breaks the lines.
        assert_eq!(fitted(&HEADER, rows(), None, Some(10)), free);
    }

    #[test]
    fn names_get_lines_of_their_own_if_there_is_no_other_way() {
        let name = "name=".to_owned() + &"x".repeat(50);
        let row = vec![name.clone(), "1".to_owned(), "2".to_owned(), "link".to_owned()];
        let table = fitted(&HEADER, vec![row], None, Some(58));
        let lines: Vec<&str> = table.lines().collect();
        let at = lines.iter().position(|line| line.trim() == name).expect("a line of its own");
        assert_eq!(lines[at + 1].split_whitespace().collect::<Vec<_>>(), ["1", "2", "link"], "{table}");
    }

    #[test]
    fn a_stream_looks_like_a_table() {
        let columns = [("size", Align::Right, 3), ("", Align::Left, 6), ("text", Align::Left, 0)];
        let rows = [["16", "± 0.1", "a"], ["4096", "", "bc"]].map(|row| row.map(str::to_owned).to_vec());
        let mut stream = Stream::new(&columns);
        let streamed = stream.titles() + &stream.row(&rows[0]) + &stream.row(&rows[1]);
        assert_eq!(streamed, "  size          text\n    16  ± 0.1   a\n  4096          bc\n");
        // A narrow terminal shows whole cells.
        let mut stream = Stream { screen: Some(14), ..Stream::new(&columns) };
        let streamed = stream.titles() + &stream.row(&rows[0]) + &stream.row(&rows[1]);
        assert_eq!(streamed, "  size\n    text\n    16  ± 0.1\n    a\n  4096\n    bc\n");
        // With the widths that the cells need, it equals a table.
        let least = [("size", Align::Right, 0), ("", Align::Left, 5), ("text", Align::Left, 0)];
        let mut stream = Stream::new(&least);
        let streamed = stream.titles() + &stream.row(&rows[0]) + &stream.row(&rows[1]);
        let header = [("size", Align::Right), ("", Align::Left), ("text", Align::Left)];
        assert_eq!(streamed, super::columns(&header, rows.into()));
    }
}
