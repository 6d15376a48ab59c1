//! From the text of a file to a validated MiniCluster.

use crate::finding::{FieldPath, Finding};
use crate::minicluster::MiniCluster;
use crate::validate::{Target, ValidatedMiniCluster, validate};

/// A MiniCluster that was read from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The object as it was written.
    pub object: MiniCluster,
    /// The form that the plan takes; its `warnings` have positions.
    pub validated: ValidatedMiniCluster,
}

/// Reads one MiniCluster; on failure all findings, with their positions.
pub fn load(text: &str, target: Target) -> Result<Document, Vec<Finding>> {
    let object: MiniCluster = serde_saphyr::from_str(text)
        .map_err(|error| vec![Finding::error(FieldPath::default(), error.to_string())])?;
    let validated = validate(&object, target)?;
    Ok(Document { object, validated })
}
