//! What is wrong with an object: where, what, and the way out.

use std::fmt;

/// The path of a field, such as `spec.groups[1].size`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(Vec<Segment>);

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// A field of an object.
    Key(String),
    /// An item of a list, from 0.
    Index(usize),
}

impl FieldPath {
    /// A path of plain field names joined by dots, `spec.bootstrap.port`.
    pub fn new(dotted: &str) -> Self {
        Self(dotted.split('.').filter(|s| !s.is_empty()).map(|s| Segment::Key(s.into())).collect())
    }

    /// The path one field further down.
    #[must_use]
    pub fn key(&self, name: &str) -> Self {
        let mut path = self.clone();
        path.0.push(Segment::Key(name.to_owned()));
        path
    }

    /// The path several plain fields further down, joined by dots.
    #[must_use]
    pub fn then(&self, dotted: &str) -> Self {
        let mut path = self.clone();
        path.0.extend(Self::new(dotted).0);
        path
    }

    /// The path of an item.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        let mut path = self.clone();
        path.0.push(Segment::Index(index));
        path
    }

    /// The steps from the root.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The path without its last step; `None` at the root.
    pub fn parent(&self) -> Option<Self> {
        let (_, rest) = self.0.split_last()?;
        Some(Self(rest.to_vec()))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) if key.contains(['.', '/', '[', ']']) => write!(f, "[{key}]")?,
                Segment::Key(key) if at == 0 => f.write_str(key)?,
                Segment::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

/// Whether a finding stops the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The object is refused.
    Error,
    /// The object works, but not as its writer may think.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// Where a field stands in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The whole line without its end.
    pub text: String,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it stops the object.
    pub severity: Severity,
    /// The field; empty when the finding is about the file as a whole.
    pub path: FieldPath,
    /// What is wrong, without the path.
    pub message: String,
    /// The way out.
    pub hint: Option<String>,
    /// Where it stands, when the object came from a file.
    pub position: Option<Position>,
}

impl Finding {
    /// A finding that refuses the object.
    pub fn error(path: FieldPath, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            path,
            message: message.into(),
            hint: None,
            position: None,
        }
    }

    /// A finding that lets the object pass.
    pub fn warning(path: FieldPath, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, message) }
    }

    /// The same with the way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The lines that people read, without a final newline:
    ///
    /// ```text
    /// error: hello.yaml:9: spec.minSize: 6 is more than spec.size: 4
    ///   |   minSize: 6
    ///   = set minSize to at most 4, or raise size
    /// ```
    pub fn render(&self, file: Option<&str>) -> String {
        let place = match (file, &self.position) {
            (Some(file), Some(position)) => format!("{file}:{}: ", position.line),
            (Some(file), None) => format!("{file}: "),
            (None, _) => String::new(),
        };
        let source = self.position.as_ref().map(|position| format!("\n  | {}", position.text));
        let hint = self.hint.as_ref().map(|hint| format!("\n  = {hint}"));
        let (source, hint) = (source.unwrap_or_default(), hint.unwrap_or_default());
        format!("{}: {place}{self}{source}{hint}", self.severity)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.segments().is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_print_as_people_write_them() {
        let path = FieldPath::new("spec.groups").index(1).then("template.metadata.labels");
        assert_eq!(path.to_string(), "spec.groups[1].template.metadata.labels");
        assert_eq!(
            path.key("app.kubernetes.io/name").to_string(),
            "spec.groups[1].template.metadata.labels[app.kubernetes.io/name]"
        );
        assert_eq!(FieldPath::default().to_string(), "");
    }

    #[test]
    fn a_finding_shows_file_line_source_and_way_out() {
        let mut finding =
            Finding::error(FieldPath::new("spec.minSize"), "6 is more than spec.size: 4")
                .hint("set minSize to at most 4, or raise size");
        finding.position = Some(Position { line: 9, column: 3, text: "  minSize: 6".into() });
        assert_eq!(
            finding.render(Some("hello.yaml")),
            "error: hello.yaml:9: spec.minSize: 6 is more than spec.size: 4\n  |   minSize: 6\n  \
             = set minSize to at most 4, or raise size"
        );
        finding.position = None;
        assert!(finding.render(None).starts_with("error: spec.minSize: 6 is more"));
    }
}
