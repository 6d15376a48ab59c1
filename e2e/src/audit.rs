//! What the API server was asked, from its audit log (`audit.k8s.io/v1`, level Metadata, one JSON object
//! a line). The one reader of that log; `ledger`, `trail` of the chart's tests and the benchmarks ask it.

use crate::Lab;
use anyhow::{Context as _, Result};
use k8s_openapi::jiff::Timestamp;
use quorate_testbed::layout::Folder;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

/// The account that the chart gives the controller.
const CONTROLLER: &str = "system:serviceaccount:quorate-system:quorate";

/// A request and its answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// `create`, `patch`, `get`, `watch` and so on.
    pub verb: String,
    /// Who asked.
    pub user: User,
    /// What program asked.
    #[serde(default)]
    pub user_agent: String,
    /// The path and what is asked of it.
    #[serde(default, rename = "requestURI")]
    pub uri: String,
    /// What it was about; nothing where no object is concerned.
    #[serde(rename = "objectRef")]
    pub object: Option<Object>,
    #[serde(default)]
    response_status: Status,
    /// When the server received it: RFC 3339 with microseconds, which sorts as text.
    #[serde(default, rename = "requestReceivedTimestamp")]
    pub received: String,
    /// When this stage was reached.
    #[serde(rename = "stageTimestamp")]
    pub answered: Timestamp,
    stage: String,
    /// Where its line begins, in bytes from the begin of the oldest file.
    #[serde(skip)]
    pub at: u64,
}

/// Who asks.
#[derive(Clone, Debug, Deserialize)]
pub struct User {
    /// An account's or a certificate's name.
    pub username: String,
    #[serde(default)]
    extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The pod whose service account it is; empty if it is none's.
    pub fn pod(&self) -> &str {
        let names = self.extra.get("authentication.kubernetes.io/pod-name");
        names.and_then(|names| names.first()).map_or("", String::as_str)
    }
}

/// A reference to an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Object {
    /// Empty for the core's.
    pub api_group: String,
    resource: String,
    subresource: String,
    /// Empty if there is none.
    pub namespace: String,
    /// Empty in a create where the server is told by the object alone and none was stored.
    pub name: String,
}

impl Object {
    /// Plural, with the subresource if there is one: `miniclusters/status`.
    pub fn resource(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            below => format!("{}/{below}", self.resource),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

/// A kind of request: `create jobsets`, `patch miniclusters/status`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deed {
    verb: String,
    resource: String,
}

impl fmt::Display for Deed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.verb, self.resource)
    }
}

impl Request {
    /// The HTTP status of the answer; 0 if there was none.
    pub fn code(&self) -> u16 {
        self.response_status.code
    }

    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        !["get", "list", "watch"].contains(&self.verb.as_str())
    }

    /// Whether it was refused.
    pub fn refused(&self) -> bool {
        self.code() >= 300
    }

    /// Whether it renews the lease of a leader, which is not done for any object.
    pub fn leads(&self) -> bool {
        self.object.as_ref().is_some_and(|object| object.resource == "leases")
    }

    /// The name of its object; empty where the server does not know it.
    pub fn name(&self) -> &str {
        self.object.as_ref().map_or("", |object| &object.name)
    }

    /// What it does.
    pub fn deed(&self) -> Deed {
        let resource = self.object.as_ref().map(Object::resource).unwrap_or_default();
        Deed { verb: self.verb.clone(), resource }
    }
}

/// All requests so far in whose lines a word stands, each once: a watch is told at its start.
pub fn read(folder: &Folder, word: &str) -> Result<Vec<Request>> {
    let (mut found, mut at) = (Vec::new(), 0);
    for path in files(folder)? {
        let file = File::open(&path).with_context(|| format!("open {}", path.display()))?;
        let mut lines = BufReader::new(file);
        let mut line = String::new();
        loop {
            line.clear();
            let length = lines.read_line(&mut line);
            let length = length.with_context(|| format!("read {}", path.display()))?;
            // The last line may not be written to its end yet.
            if !line.ends_with('\n') {
                break;
            }
            let begin = at;
            at += u64::try_from(length)?;
            if !line.contains(word) {
                continue;
            }
            let mut request: Request = serde_json::from_str(&line)
                .with_context(|| format!("a line of the audit log is not as expected: {line}"))?;
            request.at = begin;
            // A watch is told again at its end.
            let stage =
                if request.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
            if request.stage == stage {
                found.push(request);
            }
        }
    }
    Ok(found)
}

/// The requests of an account that were answered between two moments.
pub fn requests(
    folder: &Folder,
    account: &str,
    from: Timestamp,
    until: Timestamp,
) -> Result<Vec<Request>> {
    let mut requests = read(folder, account)?;
    requests.retain(|request| {
        request.user.username == account && (from..=until).contains(&request.answered)
    });
    Ok(requests)
}

/// Where the log ends now. What is answered later stands behind.
pub fn end(folder: &Folder) -> Result<u64> {
    let sizes = files(folder)?.into_iter().map(|path| {
        let known = fs::metadata(&path).with_context(|| format!("look at {}", path.display()));
        known.map(|known| known.len())
    });
    sizes.sum()
}

/// How many of each kind.
pub fn count<'a>(requests: impl IntoIterator<Item = &'a Request>) -> BTreeMap<Deed, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(request.deed()).or_default() += 1;
    }
    counts
}

/// The log, and what was cut off it when it had grown, oldest first.
fn files(folder: &Folder) -> Result<Vec<PathBuf>> {
    let log = folder.audit_log();
    let home = log.parent().context("the audit log is in a folder")?;
    let entries = fs::read_dir(home).with_context(|| format!("list {}", home.display()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with("audit") && path.extension().is_some_and(|kind| kind == "log")
        })
        .collect();
    files.sort();
    Ok(files)
}

impl Lab {
    /// Requests of the controller that changed the object `resource/namespace/name`: their verbs, in
    /// the order in which they were answered. Refused ones count too.
    pub fn writes(&self, resource: &str, namespace: &str, name: &str) -> Vec<String> {
        let requests = read(self.cluster.folder(), CONTROLLER).unwrap();
        requests
            .into_iter()
            .filter(|request| request.user.username == CONTROLLER && request.writes())
            .filter(|request| {
                request.object.as_ref().is_some_and(|about| {
                    about.resource == resource && about.namespace == namespace && about.name == name
                })
            })
            .map(|request| request.verb)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_is_read() {
        let line = r#"{"kind":"Event","stage":"ResponseComplete","verb":"patch",
            "user":{"username":"u","extra":{"authentication.kubernetes.io/pod-name":["p"]}},
            "userAgent":"a/1","requestURI":"/apis/x",
            "objectRef":{"resource":"miniclusters","subresource":"status","name":"x","apiGroup":"g"},
            "responseStatus":{"code":409},"requestReceivedTimestamp":"2026-01-01T00:00:00.400000Z",
            "stageTimestamp":"2026-01-01T00:00:00.5Z"}"#;
        let request: Request = serde_json::from_str(line).unwrap();
        assert_eq!(request.deed().to_string(), "patch miniclusters/status");
        assert!(request.writes() && request.refused() && !request.leads());
        assert_eq!((request.code(), request.name(), request.user.pod()), (409, "x", "p"));
        assert_eq!(request.object.unwrap().api_group, "g");
    }
}
