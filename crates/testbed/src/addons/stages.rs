//! What kwok lets pods go through, from the stages that come with it.
//!
//! Its own stages complete every pod of a Job at once. Here pods become ready and stay so: one has
//! done its work when the annotation [`COMPLETE`] says so.
//!
//! Format: `kwok.x-k8s.io/v1alpha1`, kind Stage, one document each.

use super::{AddonError, read};
use crate::kwok::COMPLETE;
use std::path::Path;

/// How kwok's own stage tells pods that complete.
const BY_OWNER: &str = "    - key: '.metadata.ownerReferences.[].kind'
      operator: 'In'
      values:
      - 'Job'
";

/// The text of kwok's configuration; `output` is what its module was built into.
pub fn configuration(output: &Path) -> Result<String, AddonError> {
    let mut documents = Vec::new();
    for name in ["pod-ready", "pod-delete", "pod-complete"] {
        let path = output.join(format!("share/{name}.yaml"));
        let text = String::from_utf8_lossy(&read(&path)?).into_owned();
        if name != "pod-complete" {
            documents.push(text);
            continue;
        }
        documents.push(on_request(&text).ok_or_else(|| AddonError::Unexpected {
            path,
            what: "the stage does not choose pods by the kind of their owner any more".into(),
        })?);
    }
    Ok(documents.join("\n---\n"))
}

/// The stage with the annotation in the place of the owner.
fn on_request(stage: &str) -> Option<String> {
    let annotated = format!(
        "    - key: '.metadata.annotations[\"{COMPLETE}\"]'
      operator: 'In'
      values:
      - 'yes'
"
    );
    stage.contains(BY_OWNER).then(|| stage.replace(BY_OWNER, &annotated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_complete_on_request_and_not_by_their_owner() {
        let stage = format!("spec:\n  selector:\n    matchExpressions:\n{BY_OWNER}  next: {{}}\n");
        let changed = on_request(&stage).unwrap();
        assert!(!changed.contains("ownerReferences"));
        assert!(changed.contains(COMPLETE));
        assert!(changed.ends_with("      - 'yes'\n  next: {}\n"));
    }

    #[test]
    fn another_stage_is_noticed() {
        assert_eq!(on_request("spec: {}"), None);
    }
}
