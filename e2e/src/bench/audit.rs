//! What the API server was asked, from its audit log (`audit.k8s.io/v1`, level Metadata).

use anyhow::{Context as _, Result};
use k8s_openapi::jiff::Timestamp;
use quorate_testbed::layout::Folder;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

/// A request and its answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// `create`, `patch`, `get`, `watch` and so on.
    pub verb: String,
    /// Who asked.
    user: User,
    /// What program asked.
    #[serde(default)]
    user_agent: String,
    /// What it was about.
    #[serde(default)]
    object_ref: Object,
    #[serde(default)]
    response_status: Status,
    stage_timestamp: Timestamp,
    stage: String,
}

#[derive(Clone, Debug, Deserialize)]
struct User {
    username: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Object {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: Option<String>,
    #[serde(default)]
    name: String,
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

/// Whose requests.
#[derive(Clone, Copy, Debug)]
pub enum Who<'a> {
    /// An account.
    User(&'a str),
    /// A program, by the beginning of what it calls itself.
    Agent(&'a str),
}

impl Request {
    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        !["get", "list", "watch"].contains(&self.verb.as_str())
    }

    /// Whether it was refused.
    pub fn refused(&self) -> bool {
        self.response_status.code >= 300
    }

    /// Whether it renews the lease of a leader, which is not done for any object.
    pub fn leads(&self) -> bool {
        self.object_ref.resource == "leases"
    }

    /// The name of its object; of a create, where the server is told by the object alone, it may be
    /// empty.
    pub fn name(&self) -> &str {
        &self.object_ref.name
    }

    /// What it does.
    pub fn deed(&self) -> Deed {
        let Object { resource, subresource, .. } = &self.object_ref;
        let whole = match subresource {
            Some(below) => format!("{resource}/{below}"),
            None => resource.clone(),
        };
        Deed { verb: self.verb.clone(), resource: whole }
    }

    fn is_of(&self, who: Who<'_>) -> bool {
        match who {
            Who::User(name) => self.user.username == name,
            Who::Agent(name) => self.user_agent.starts_with(name),
        }
    }
}

/// The requests of someone that were answered between two moments.
pub fn requests(
    folder: &Folder,
    who: Who<'_>,
    from: Timestamp,
    until: Timestamp,
) -> Result<Vec<Request>> {
    let (Who::User(word) | Who::Agent(word)) = who;
    let mut found = Vec::new();
    for path in files(folder)? {
        let file = File::open(&path).with_context(|| format!("open {}", path.display()))?;
        for line in BufReader::new(file).lines() {
            let line = line.with_context(|| format!("read {}", path.display()))?;
            if !line.contains(word) {
                continue;
            }
            let request: Request = serde_json::from_str(&line)
                .with_context(|| format!("a line of the audit log is not as expected: {line}"))?;
            // A watch is told at its start and again at its end.
            let once = request.stage == "ResponseComplete" && request.verb != "watch"
                || request.stage == "ResponseStarted" && request.verb == "watch";
            let then = request.stage_timestamp;
            if once && request.is_of(who) && (from..=until).contains(&then) {
                found.push(request);
            }
        }
    }
    Ok(found)
}

/// How many of each kind.
pub fn count<'a>(requests: impl IntoIterator<Item = &'a Request>) -> BTreeMap<Deed, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(request.deed()).or_default() += 1;
    }
    counts
}

/// The log, and what was cut off it when it had grown.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_is_read() {
        let line = r#"{"kind":"Event","stage":"ResponseComplete","verb":"patch","user":{"username":"u"},
            "userAgent":"a/1","objectRef":{"resource":"miniclusters","subresource":"status","name":"x"},
            "responseStatus":{"code":409},"stageTimestamp":"2026-01-01T00:00:00.5Z"}"#;
        let request: Request = serde_json::from_str(line).unwrap();
        assert_eq!(request.deed().to_string(), "patch miniclusters/status");
        assert!(request.writes() && request.refused() && !request.leads());
        assert!(request.is_of(Who::User("u")) && !request.is_of(Who::Agent("u")));
    }
}
