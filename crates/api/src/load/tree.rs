//! YAML as a tree that knows where each node stands.
//!
//! Plain scalars are read as Kubernetes' own tools read them (YAML 1.1): `yes`, `no`, `on`, `off`, `y`
//! and `n` are booleans and `0644` is octal, so that a file means the same here and there. Aliases
//! and merge keys are resolved within a budget.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Number, Value};
use serde_saphyr::granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use crate::finding::{FieldPath, Finding, Position};

/// Nodes that a file may have after its aliases are resolved.
const MAX_NODES: usize = 200_000;
/// How deep nodes may be inside of each other.
const MAX_DEPTH: usize = 64;

/// A line and a column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    line: usize,
    column: usize,
}

impl From<Marker> for Place {
    fn from(marker: Marker) -> Self {
        Self { line: marker.line(), column: marker.col() + 1 }
    }
}

/// The documents of a file that are not empty.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) documents: Vec<Node>,
}

/// One node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One field of an object.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    /// Where the key stands.
    pub(super) place: Place,
    pub(super) value: Node,
    /// Whether it came by a merge key, and so gives way to a field of the object's own.
    inherited: bool,
}

/// Why a text is not a tree.
#[derive(Debug, thiserror::Error)]
pub(super) enum TreeError {
    #[error("not YAML: {what}")]
    Syntax { place: Place, what: String },
    #[error("a second `{key}`; the first is in line {first}")]
    Duplicate { place: Place, key: String, first: usize },
    #[error("{what}")]
    Unsupported { place: Place, what: &'static str },
}

impl TreeError {
    pub(super) fn into_finding(self, text: &str) -> Finding {
        let (place, hint) = match &self {
            Self::Syntax { place, .. } => {
                (*place, "check indentation, quotes and brackets around this line")
            }
            Self::Duplicate { place, .. } => (*place, "keep one of them"),
            Self::Unsupported { place, .. } => (*place, "write it out"),
        };
        let mut finding = Finding::error(FieldPath::default(), self.to_string()).hint(hint);
        finding.position = Some(position(place, text));
        finding
    }
}

/// A place with the text of its line.
pub(super) fn position(place: Place, text: &str) -> Position {
    let line = text.lines().nth(place.line.saturating_sub(1)).unwrap_or_default();
    Position { line: place.line, column: place.column, text: line.trim_end().to_owned() }
}

impl Node {
    pub(super) fn position(&self, text: &str) -> Position {
        position(self.place, text)
    }

    pub(super) fn entries(&self) -> Option<&[Entry]> {
        match &self.content {
            Content::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn items(&self) -> Option<&[Node]> {
        match &self.content {
            Content::List(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn scalar(&self) -> Option<&Value> {
        match &self.content {
            Content::Scalar(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        self.scalar().and_then(Value::as_str)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    pub(super) fn is_null(&self) -> bool {
        self.scalar().is_some_and(Value::is_null)
    }

    /// What people call a node of this kind.
    pub(super) fn kind(&self) -> Cow<'static, str> {
        match &self.content {
            Content::Map(_) => "an object".into(),
            Content::List(_) => "a list".into(),
            Content::Scalar(Value::String(text)) if text.chars().count() > 40 => "a text".into(),
            Content::Scalar(Value::String(text)) => format!("the text `{text}`").into(),
            Content::Scalar(Value::Null) => "nothing".into(),
            Content::Scalar(value) => format!("`{value}`").into(),
        }
    }

    /// The tree as JSON without nulls and without the fields at `leave_out`.
    pub(super) fn to_json(&self, leave_out: &BTreeSet<FieldPath>) -> Value {
        self.json(&FieldPath::default(), leave_out)
    }

    fn json(&self, path: &FieldPath, leave_out: &BTreeSet<FieldPath>) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => items
                .iter()
                .enumerate()
                .map(|(at, item)| (path.index(at), item))
                .filter(|(path, _)| !leave_out.contains(path))
                .map(|(path, item)| item.json(&path, leave_out))
                .collect(),
            Content::Map(entries) => Value::Object(
                entries
                    .iter()
                    .filter(|entry| !entry.value.is_null())
                    .map(|entry| (path.key(&entry.key), entry))
                    .filter(|(path, _)| !leave_out.contains(path))
                    .map(|(path, entry)| (entry.key.clone(), entry.value.json(&path, leave_out)))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    fn count(&self) -> usize {
        1 + match &self.content {
            Content::Scalar(_) => 0,
            Content::List(items) => items.iter().map(Node::count).sum(),
            Content::Map(entries) => entries.iter().map(|entry| entry.value.count()).sum(),
        }
    }
}

/// Reads a text.
pub(super) fn parse(text: &str) -> Result<Tree, TreeError> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| syntax(&error))?;
        builder.event(event, span.start.into())?;
    }
    Ok(Tree { documents: builder.documents })
}

fn syntax(error: &ScanError) -> TreeError {
    TreeError::Syntax { place: (*error.marker()).into(), what: error.info().clone() }
}

/// Collections that are not closed yet, and what was anchored.
#[derive(Default)]
struct Builder {
    documents: Vec<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

struct Open {
    place: Place,
    anchor: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    /// Entries so far, and the key whose value comes next.
    Map(Vec<Entry>, Option<(String, Place)>),
}

impl Builder {
    fn event(&mut self, event: Event<'_>, place: Place) -> Result<(), TreeError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_key =
                    matches!(self.open.last(), Some(Open { kind: OpenKind::Map(_, None), .. }));
                let value = if is_key {
                    Value::String(text.into_owned())
                } else {
                    scalar(&text, style, tag.as_deref(), place)?
                };
                self.add(Node { place, content: Content::Scalar(value) }, anchor)
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return Err(TreeError::Unsupported {
                        place,
                        what: "an alias inside of what it stands for",
                    });
                };
                self.nodes += node.count();
                self.add(node, 0)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(place, anchor, OpenKind::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, _) => {
                self.open(place, anchor, OpenKind::Map(Vec::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let open = self.open.pop().expect("the parser closes what it has opened");
                let content = match open.kind {
                    OpenKind::List(items) => Content::List(items),
                    OpenKind::Map(entries, _) => Content::Map(entries),
                };
                self.add(Node { place: open.place, content }, open.anchor)
            }
            Event::DocumentStart(..) => {
                self.anchors.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, place: Place, anchor: usize, kind: OpenKind) -> Result<(), TreeError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(TreeError::Unsupported { place, what: "more than 64 levels" });
        }
        self.open.push(Open { place, anchor, kind });
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), TreeError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(TreeError::Unsupported {
                place: node.place,
                what: "more than 200000 nodes",
            });
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.kind) {
            None if node.is_null() => {}
            None => self.documents.push(node),
            Some(OpenKind::List(items)) => items.push(node),
            Some(OpenKind::Map(entries, pending @ None)) => {
                let Content::Scalar(Value::String(key)) = node.content else {
                    return Err(TreeError::Unsupported {
                        place: node.place,
                        what: "a field's name that is no plain text",
                    });
                };
                if let Some(first) = entries.iter().find(|e| e.key == key && !e.inherited) {
                    return Err(TreeError::Duplicate {
                        place: node.place,
                        key,
                        first: first.place.line,
                    });
                }
                *pending = Some((key, node.place));
            }
            Some(OpenKind::Map(entries, pending @ Some(_))) => {
                let (key, place) = pending.take().expect("the arm's pattern says so");
                if key == "<<" {
                    inherit(entries, node)?;
                } else {
                    entries.retain(|entry| entry.key != key);
                    entries.push(Entry { key, place, value: node, inherited: false });
                }
            }
        }
        Ok(())
    }
}

/// Merge keys: the fields of the other objects, unless the object has its own.
fn inherit(entries: &mut Vec<Entry>, from: Node) -> Result<(), TreeError> {
    let place = from.place;
    let sources = match from.content {
        Content::List(items) => items,
        content => vec![Node { place, content }],
    };
    for source in sources {
        let Content::Map(inherited) = source.content else {
            return Err(TreeError::Unsupported {
                place: source.place,
                what: "`<<` takes objects only",
            });
        };
        for entry in inherited {
            if entries.iter().all(|own| own.key != entry.key) {
                entries.push(Entry { inherited: true, ..entry });
            }
        }
    }
    Ok(())
}

fn scalar(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    place: Place,
) -> Result<Value, TreeError> {
    match tag.map(|tag| (tag.is_yaml_core_schema(), tag.suffix())) {
        None if style == ScalarStyle::Plain => Ok(plain(text)),
        None | Some((true, "str")) => Ok(Value::String(text.to_owned())),
        Some((true, "int" | "float" | "bool" | "null")) => Ok(plain(text)),
        Some(_) => {
            Err(TreeError::Unsupported { place, what: "a tag that Kubernetes does not know" })
        }
    }
}

/// The value of a scalar without quotes.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => {
            return Value::Bool(true);
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn number(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let integer = match digits.as_bytes() {
        [b'0', b'x', ..] => u64::from_str_radix(&digits[2..], 16).ok(),
        [b'0', b'o', ..] => u64::from_str_radix(&digits[2..], 8).ok(),
        [b'0', b'b', ..] => u64::from_str_radix(&digits[2..], 2).ok(),
        [b'0', _, ..] if digits.bytes().all(|b| (b'0'..=b'7').contains(&b)) => {
            u64::from_str_radix(digits, 8).ok()
        }
        bytes if bytes.iter().all(u8::is_ascii_digit) => digits.parse().ok(),
        _ => None,
    };
    if let Some(integer) = integer {
        return match i64::try_from(integer) {
            Ok(integer) if negative => Some((-integer).into()),
            _ if negative => None,
            _ => Some(integer.into()),
        };
    }
    let float: f64 = digits.parse().ok().filter(|f: &f64| f.is_finite())?;
    Number::from_f64(if negative { -float } else { float })
}

#[cfg(test)]
mod tests;
