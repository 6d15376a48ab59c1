//! From the text of a file to a validated MiniCluster.
//!
//! The text becomes a tree that knows its lines (`tree`); the tree is held against the schema of
//! the definition, pod templates included (`structure`); what is left is read into the types and
//! validated. All findings come back together, each with its line, in the order of the file.

mod structure;
mod suggest;
mod tree;

use crate::finding::{FieldPath, Finding, Segment, Severity};
use crate::minicluster::{API_VERSION, KIND, MiniCluster};
use crate::validate::{Target, ValidatedMiniCluster, validate};
use tree::{Node, Tree};

/// A MiniCluster that was read from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The object as it was written.
    pub object: MiniCluster,
    /// The form that the plan takes; its `warnings` have positions.
    pub validated: ValidatedMiniCluster,
}

/// Reads one MiniCluster from YAML or JSON; on failure all findings, with their positions.
pub fn load(text: &str, target: Target) -> Result<Document, Vec<Finding>> {
    let root = match tree::parse(text) {
        Ok(tree) => one_document(tree, text)?,
        Err(error) => return Err(vec![error.into_finding(text)]),
    };
    let mut findings = header(&root);
    if !findings.is_empty() {
        return Err(placed(findings, &root, text));
    }
    findings = structure::check(&root);
    let value = root.to_json(&structure::refused(&findings));
    match serde_json::from_value::<MiniCluster>(value) {
        Ok(object) => {
            let validated = validate(&object, target);
            let found = match &validated {
                Ok(validated) => validated.warnings.clone(),
                Err(found) => found.clone(),
            };
            // A field that was refused is missing now; what follows from that is no finding.
            let follows =
                |one: &Finding| findings.iter().any(|first| related(&first.path, &one.path));
            let found: Vec<Finding> = found.into_iter().filter(|one| !follows(one)).collect();
            findings.extend(found);
            let findings = placed(findings, &root, text);
            match validated {
                Ok(mut validated) if findings.iter().all(|f| f.severity == Severity::Warning) => {
                    validated.warnings = findings;
                    Ok(Document { object, validated })
                }
                _ => Err(findings),
            }
        }
        Err(error) => {
            if findings.is_empty() {
                findings.push(Finding::error(FieldPath::default(), error.to_string()));
            }
            Err(placed(findings, &root, text))
        }
    }
}

/// Whether one path is the other or inside of it.
fn related(a: &FieldPath, b: &FieldPath) -> bool {
    a.segments().iter().zip(b.segments()).all(|(a, b)| a == b)
}

fn one_document(tree: Tree, text: &str) -> Result<Node, Vec<Finding>> {
    let mut documents = tree.documents.into_iter();
    let Some(first) = documents.next() else {
        return Err(vec![
            Finding::error(FieldPath::default(), "empty: there is no object in it")
                .hint("start with `apiVersion: quorate.dev/v1alpha1` and `kind: MiniCluster`"),
        ]);
    };
    if let Some(second) = documents.next() {
        let mut finding = Finding::error(
            FieldPath::default(),
            format!("{} documents where one MiniCluster is wanted", 2 + documents.count()),
        )
        .hint("put each into a file of its own");
        finding.position = Some(second.position(text));
        return Err(vec![finding]);
    }
    Ok(first)
}

/// What the object says that it is. Anything else would drown in unknown fields.
fn header(root: &Node) -> Vec<Finding> {
    if root.entries().is_none() {
        return vec![
            Finding::error(
                FieldPath::default(),
                format!("{} where a MiniCluster is wanted", root.kind()),
            )
            .hint("start with `apiVersion: quorate.dev/v1alpha1` and `kind: MiniCluster`"),
        ];
    }
    let mut findings = Vec::new();
    for (field, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let path = FieldPath::new(field);
        match root.get(field).map(|node| (node, node.as_str())) {
            Some((_, Some(found))) if found == wanted => {}
            Some((_, Some(found))) => findings.push(
                Finding::error(path, format!("`{found}` is not `{wanted}`"))
                    .hint(format!("this reads `{KIND}` objects of `{API_VERSION}` only")),
            ),
            Some((node, None)) => findings.push(
                Finding::error(path, format!("{} where `{wanted}` is wanted", node.kind()))
                    .hint(format!("write `{field}: {wanted}`")),
            ),
            None => findings
                .push(Finding::error(path, "missing").hint(format!("add `{field}: {wanted}`"))),
        }
    }
    findings
}

/// Gives findings the positions of their fields, errors first and each kind in the file's order.
fn placed(mut findings: Vec<Finding>, root: &Node, text: &str) -> Vec<Finding> {
    for finding in &mut findings {
        if finding.position.is_none() {
            let place = match finding.path.segments() {
                [] => Some(root.place),
                _ => locate(root, &finding.path),
            };
            finding.position = place.map(|place| tree::position(place, text));
        }
    }
    findings.sort_by_key(|finding| {
        (finding.severity, finding.position.as_ref().map_or(0, |position| position.line))
    });
    findings
}

/// The place of a field, or of the innermost field around it that is in the file; `None` when that
/// is the whole file.
fn locate(root: &Node, path: &FieldPath) -> Option<tree::Place> {
    let mut node = root;
    let mut place = None;
    for segment in path.segments() {
        let (next, at) = match segment {
            Segment::Key(key) => {
                let Some(entry) = node.entries().and_then(|e| e.iter().find(|e| e.key == *key))
                else {
                    break;
                };
                (&entry.value, entry.place)
            }
            Segment::Index(index) => {
                let Some(item) = node.items().and_then(|items| items.get(*index)) else { break };
                (item, item.place)
            }
        };
        node = next;
        place = Some(at);
    }
    place
}

#[cfg(test)]
mod tests;
