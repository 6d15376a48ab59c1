//! The rights that an account has used, by the audit log, and those that a role grants.

use quorate_e2e::audit::{self, Request};
use quorate_testbed::Cluster;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

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
    pub(crate) at: u64,
    pub(crate) right: Right,
    pub(crate) uri: String,
    pub(crate) code: u16,
}

/// All that an account has asked for of objects, since the cluster began.
pub(crate) fn of(cluster: &Cluster, account: &str) -> Vec<Asked> {
    let requests = audit::read(cluster.folder(), account).unwrap();
    requests
        .into_iter()
        .filter(|request| request.user.username == account)
        .filter_map(asked)
        .collect()
}

/// Where the log ends now. What is answered later stands behind.
pub(crate) fn end(cluster: &Cluster) -> u64 {
    audit::end(cluster.folder()).unwrap()
}

fn asked(request: Request) -> Option<Asked> {
    let code = request.code();
    let Request { object, verb, uri, at, .. } = request;
    let object = object?;
    let resource = object.resource();
    Some(Asked { at, right: Right { group: object.api_group, resource, verb }, uri, code })
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
