//! What `quorate-agent testbed` asks of a test cluster, answered between two looks at its
//! processes.

use super::cluster::Cluster;
use super::faults::FaultError;
use crate::local::blocking::{self, Answer};
use crate::local::{Hello, LocalError};
use crate::testbed::{Target, calls};
use anyhow::Context;
use quorate_contract::exit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// The control socket. The janitor removes it.
#[derive(Debug)]
pub(super) struct Control {
    listener: UnixListener,
}

impl Control {
    /// Makes the socket.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let listener = blocking::bind(path)
            .with_context(|| format!("cannot make the control socket {}", path.display()))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// What to wait on.
    pub(super) fn waited_on(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Answers the next client, if there is one.
    pub(super) fn answer(&self, cluster: &mut Cluster<'_>) {
        if let Some((hello, answer)) = blocking::take(&self.listener) {
            // A client that has gone does not want its answer.
            let _ = reply(&hello, answer, cluster);
        }
    }
}

fn reply(hello: &Hello, mut answer: Answer, cluster: &mut Cluster<'_>) -> Result<(), LocalError> {
    if hello.verb == calls::STATUS {
        answer.value(&cluster.testbed())?;
        return answer.end(exit::OK, None);
    }
    let target: Target = match serde_json::from_value(hello.args.clone()) {
        Ok(target) => target,
        Err(error) => return answer.end(exit::USAGE, Some(format!("an unreadable call: {error}"))),
    };
    match act(&hello.verb, &target, cluster) {
        Some(Ok(())) => answer.end(exit::OK, None),
        Some(Err(error)) => {
            let code = match &error {
                FaultError::UnknownRank { .. } => exit::USAGE,
                _ => exit::FAILED,
            };
            answer.end(code, Some(format!("{:#}", anyhow::Error::from(error))))
        }
        None => {
            let text = format!("a test cluster does not know the verb {}", hello.verb);
            answer.end(exit::USAGE, Some(text))
        }
    }
}

fn act(verb: &str, target: &Target, cluster: &mut Cluster<'_>) -> Option<Result<(), FaultError>> {
    let Target { rank, pod } = *target;
    Some(match verb {
        calls::KILL if pod => cluster.kill_pod(rank),
        calls::KILL => cluster.kill_broker(rank),
        calls::PAUSE => cluster.pause(rank),
        calls::RESUME => cluster.resume(rank),
        calls::REJOIN => cluster.rejoin(rank),
        _ => return None,
    })
}
