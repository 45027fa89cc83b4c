//! Reads figures that pages record in tables. The last row of a table is the current one.

use crate::command::{Task, failed};
use crate::workspace::root;

/// The cells of the last row of the table behind `marker` on a page, without asterisks.
pub(crate) fn last_row(page: &str, marker: &str) -> Task<Vec<String>> {
    let text = std::fs::read_to_string(root().join(page)).map_err(|error| failed(page, error))?;
    parse(&text, marker).ok_or_else(|| failed(page, format!("no table at `{marker}`")))
}

fn parse(text: &str, marker: &str) -> Option<Vec<String>> {
    let (_, behind) = text.split_once(marker)?;
    let rows =
        behind.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    // Skip the head of the table and the line below it.
    let row = rows.skip(2).last()?;
    Some(row.trim_matches('|').split('|').map(|cell| cell.trim().replace('*', "")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_counts() {
        let text =
            "| no |\n<!-- here -->\n\n| a | b |\n|---|---|\n| x | 1 |\n| y | **2 000** |\n\n| z | 3 |\n";
        assert_eq!(parse(text, "<!-- here -->"), Some(vec!["y".to_owned(), "2 000".to_owned()]));
        assert_eq!(parse("<!-- here -->\n| a |\n|---|\n", "<!-- here -->"), None);
        assert_eq!(parse(text, "<!-- there -->"), None);
    }
}
