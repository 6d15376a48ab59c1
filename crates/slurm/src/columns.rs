//! Output formats of squeue and sinfo: `%[.][width]letter` with text between, and how cells are cut and
//! filled up.

/// A place in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Which fact: a letter, or a name of the long formats.
    pub(crate) key: String,
    /// How wide; 0 is as wide as it is.
    pub(crate) width: usize,
    /// Filled up on the left.
    pub(crate) right: bool,
    /// Text behind it.
    pub(crate) suffix: String,
}

/// A format: text in front, then columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) prefix: String,
    pub(crate) columns: Vec<Column>,
}

impl Format {
    /// Reads `%`-formats; every text is one. Of squeue, `%` at the end has no letter and is dropped.
    pub(crate) fn letters(text: &str) -> Self {
        let mut parts = text.split('%');
        let prefix = parts.next().unwrap_or("").to_owned();
        let columns = parts.filter_map(|part| {
            let (right, rest) = match part.strip_prefix('.') {
                Some(rest) => (true, rest),
                None => (false, part),
            };
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let width = rest[..digits].parse().unwrap_or(0).min(MOST);
            let letter = rest[digits..].chars().next()?;
            let suffix = rest[digits + letter.len_utf8()..].to_owned();
            Some(Column { key: letter.to_string(), width, right, suffix })
        });
        Self { prefix, columns: columns.collect() }
    }

    /// Reads lists of names: `JobID,Name:30,State:.12`. 20 wide unless said otherwise.
    pub(crate) fn names(text: &str) -> Self {
        let columns = text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(|part| {
            let (name, rest) = part.split_once(':').unwrap_or((part, ""));
            let (right, rest) = match rest.strip_prefix('.') {
                Some(rest) => (true, rest),
                None => (false, rest),
            };
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let width = rest[..digits].parse().unwrap_or(20).min(MOST);
            let suffix = rest[digits..].to_owned();
            Column { key: name.to_ascii_lowercase(), width, right, suffix }
        });
        Self { prefix: String::new(), columns: columns.collect() }
    }

    /// One line.
    pub(crate) fn line(&self, cell: impl FnMut(&Column) -> String) -> String {
        self.line_with(&[], cell)
    }

    /// One line; columns with these keys are filled up and never cut.
    pub(crate) fn line_with(
        &self,
        whole: &[&str],
        mut cell: impl FnMut(&Column) -> String,
    ) -> String {
        let mut line = self.prefix.clone();
        for column in &self.columns {
            let text = cell(column);
            let too_long = whole.contains(&column.key.as_str()) && text.len() > column.width;
            let width = if too_long { 0 } else { column.width };
            line.push_str(&fit(&text, width, column.right));
            line.push_str(&column.suffix);
        }
        line.push('\n');
        line
    }
}

/// Wider columns than that are nonsense.
const MOST: usize = 10_000;

/// Cuts or fills up a text to a width; 0 leaves it.
pub(crate) fn fit(text: &str, width: usize, right: bool) -> String {
    if width == 0 {
        return text.to_owned();
    }
    let cut: String = text.chars().take(width).collect();
    if right { format!("{cut:>width$}") } else { format!("{cut:<width$}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_and_cells_fitted() {
        let format = Format::letters("[%10i]_%.3t|%j%");
        assert_eq!(format.line(|column| column.key.repeat(4)), "[iiii      ]_ttt|jjjj\n");
        let format = Format::names("JobID,Name:5,State:.7");
        assert_eq!(format.line(|column| column.key.clone()), "jobid               name   state\n");
    }
}
