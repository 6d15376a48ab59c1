//! What the keeper is asked and what it answers: one line of JSON each way over a socket in the
//! cluster's folder.

use crate::component::State;
use crate::layout::{Folder, Node};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Request {
    /// How is it?
    Status,
    /// End everything.
    Down,
    /// Stop a component, and start it again.
    Restart {
        /// Its name.
        component: String,
    },
    /// Kill a component.
    Stop {
        /// Its name.
        component: String,
    },
    /// Start a stopped component, or one that ended.
    Start {
        /// Its name.
        component: String,
    },
    /// Change a node.
    Node {
        /// Which.
        node: Node,
        /// To what.
        action: NodeAction,
    },
    /// Load an archive of an image into every node that runs.
    Load {
        /// The archive.
        image: PathBuf,
    },
}

/// What can be done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NodeAction {
    /// Take its link down: it runs on, alone.
    Cut,
    /// Take its link up again.
    Heal,
    /// Kill it with everything on it, as a power failure does.
    Kill,
    /// Start it again, with what was on its disk.
    Start,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// It is done.
    Done,
    /// How it is.
    Status(Box<Status>),
    /// It could not be done; causes are joined by colons.
    Failed(String),
}

/// A cluster as its keeper sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The cluster's name.
    pub name: String,
    /// The port of the machine's loopback that leads to the API.
    pub port: u16,
    /// Parts of the control plane.
    pub components: Vec<ComponentStatus>,
    /// Nodes with a kubelet.
    pub nodes: Vec<NodeStatus>,
    /// Nodes that are played.
    pub fake_nodes: u32,
}

/// A part of the control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentStatus {
    /// Its name.
    pub name: String,
    /// What it does.
    pub state: State,
}

/// A node with a kubelet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Its first process, in the cluster's PID namespace; none if it was killed.
    pub pid: Option<u32>,
    /// Whether its link is up.
    pub linked: bool,
    /// What Kubernetes holds of it: `True`, `False` or `Unknown`; none if it does not know it.
    pub ready: Option<String>,
}

/// Why the keeper did not answer, or not well.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No such cluster, or its keeper has ended.
    #[error("cluster {name} is not up; `testbed up --name {name}` starts it")]
    NotUp {
        /// Its name.
        name: String,
    },
    /// The connection broke.
    #[error("the keeper of cluster {name} does not answer")]
    Broken {
        /// Its name.
        name: String,
        /// How.
        #[source]
        source: io::Error,
    },
    /// It said no.
    #[error("{0}")]
    Refused(String),
}

/// Asks the keeper of a cluster.
pub fn ask(folder: &Folder, request: &Request) -> Result<Reply, ControlError> {
    let name = folder.name().to_owned();
    let Ok(mut stream) = UnixStream::connect(folder.socket()) else {
        return Err(ControlError::NotUp { name });
    };
    let mut exchange = || -> io::Result<Reply> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
        let mut answer = String::new();
        BufReader::new(&stream).read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    };
    match exchange().map_err(|source| ControlError::Broken { name, source })? {
        Reply::Failed(reason) => Err(ControlError::Refused(reason)),
        reply => Ok(reply),
    }
}

/// The status of a cluster.
pub fn status(folder: &Folder) -> Result<Status, ControlError> {
    match ask(folder, &Request::Status)? {
        Reply::Status(status) => Ok(*status),
        other => Err(ControlError::Refused(format!("the keeper answers {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lines_of_json() {
        let request = Request::Node { node: Node(2), action: NodeAction::Cut };
        let line = serde_json::to_string(&request).unwrap();
        assert_eq!(line, r#"{"do":"node","node":2,"action":"cut"}"#);
        assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
    }

    #[test]
    fn a_cluster_that_is_not_up_is_answered_with_how_to_start_it() {
        let folder = Folder::new("nowhere");
        let error = ask(&folder, &Request::Status).unwrap_err().to_string();
        assert_eq!(error, "cluster nowhere is not up; `testbed up --name nowhere` starts it");
    }
}
