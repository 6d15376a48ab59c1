//! Tables as kubectl prints them: columns of text, three blanks apart, no lines.

/// Renders a table with its heading; every row has as many cells as the heading.
pub fn render(heading: &[&str], rows: &[Vec<String>]) -> String {
    let heading: Vec<String> = heading.iter().map(|h| (*h).to_owned()).collect();
    let widths: Vec<usize> = (0..heading.len())
        .map(|column| {
            let cells = rows.iter().chain([&heading]).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in [&heading].into_iter().chain(rows) {
        let line: String =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}   ")).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a-long-name".to_owned(), "4".to_owned()]];
        assert_eq!(
            super::render(&["NAME", "SIZE"], &rows),
            "NAME          SIZE\na-long-name   4\n"
        );
    }
}
