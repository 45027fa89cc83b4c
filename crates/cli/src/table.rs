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
