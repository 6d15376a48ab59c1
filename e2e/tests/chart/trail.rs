//! The API server's audit log: what an account asked for, and what it was answered.

use quorate_testbed::Cluster;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;

/// A verb on a resource of a group, as RBAC names them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) verb: String,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, resource, verb } = self;
        let dot = if group.is_empty() { "" } else { "." };
        write!(f, "{verb} {resource}{dot}{group}")
    }
}

/// One request that was answered.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Where in the log its answer stands.
    pub(crate) at: usize,
    pub(crate) right: Right,
    pub(crate) uri: String,
    pub(crate) code: u64,
}

/// All that an account has asked for of objects, since the cluster began.
pub(crate) fn of(cluster: &Cluster, account: &str) -> Vec<Asked> {
    let text = fs::read_to_string(cluster.folder().audit_log()).unwrap();
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let mut at = 0;
    let lines = whole.split_inclusive('\n').map(|line| {
        let begin = at;
        at += line.len();
        (begin, line)
    });
    lines
        .filter(|(_, line)| line.contains(account))
        .filter_map(|(at, line)| asked(at, &serde_json::from_str(line).unwrap(), account))
        .collect()
}

/// Where the log ends now. What is answered later stands behind.
pub(crate) fn end(cluster: &Cluster) -> usize {
    usize::try_from(fs::metadata(cluster.folder().audit_log()).unwrap().len()).unwrap()
}

fn asked(at: usize, entry: &Value, account: &str) -> Option<Asked> {
    if entry["user"]["username"] != account {
        return None;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = entry["objectRef"].as_object()?;
    let field = |name: &str| object.get(name).map(text).unwrap_or_default();
    let resource = match field("subresource") {
        sub if sub.is_empty() => field("resource"),
        sub => format!("{}/{sub}", field("resource")),
    };
    Some(Asked {
        at,
        right: Right { group: field("apiGroup"), resource, verb: text(&entry["verb"]) },
        uri: text(&entry["requestURI"]),
        code: entry["responseStatus"]["code"].as_u64().unwrap_or(0),
    })
}

/// What rules of a Role or ClusterRole grant.
pub(crate) fn granted(role: &Value) -> BTreeSet<Right> {
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(|item| Some(item.as_str()?.to_owned())).collect()
    };
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    let (group, resource) = (group.clone(), resource.clone());
                    rights.insert(Right { group, resource, verb });
                }
            }
        }
    }
    rights
}
