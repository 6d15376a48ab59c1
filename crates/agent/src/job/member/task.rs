//! One task of this pod: about to start, started, running.
//!
//! Owns: what a broker has of a task's process, and the two ways to start one: by the thread for it, or
//! here when the task has a terminal.

use crate::job::protocol::kind;
use crate::job::streams::End;
use crate::launch::outcome::TaskEnd;
use crate::launch::spawn::starter::Starting;
use crate::launch::spawn::terminal::{self, Size, Terminal};
use crate::launch::spawn::{self, Start};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// A task of this pod while it runs.
pub(super) struct Running {
    pub(super) rank: u32,
    pub(super) pid: i32,
    pub(super) told: Arc<AtomicBool>,
    pub(super) alive: bool,
    pub(super) stdin: Option<mpsc::UnboundedSender<Option<Bytes>>>,
    pub(super) terminal: Option<Terminal>,
}

/// A task that was just started, with what its broker reads of it.
pub(super) struct Started {
    pub(super) pid: i32,
    pub(super) stdin: Option<(pipe::Sender, End)>,
    pub(super) outputs: Vec<(u8, pipe::Receiver)>,
    pub(super) terminal: Option<Terminal>,
    pub(super) exit: spawn::Exit,
}

/// A task that is about to be started.
pub(super) enum Beginning {
    /// By the thread for it.
    There(Starting),
    /// It was started here.
    Here(Started),
}

impl Beginning {
    /// Waits until it is started.
    pub(super) async fn begun(self) -> Result<Started, TaskEnd> {
        let starting = match self {
            Self::There(starting) => starting,
            Self::Here(started) => return Ok(started),
        };
        let task = starting.begun().await?;
        Ok(Started {
            pid: task.pid,
            stdin: task.stdin.map(|pipe| (pipe, End::Closed)),
            outputs: vec![(kind::OUT, task.stdout), (kind::ERR, task.stderr)],
            terminal: None,
            exit: task.exit,
        })
    }
}

/// Starts a task of a job that has a terminal, which the first has alone.
pub(super) fn at_terminal(start: &Start<'_>, rank: u32, size: Size) -> Result<Started, TaskEnd> {
    if rank == 0 {
        let task = terminal::start(start, size)?;
        Ok(Started {
            pid: task.pid,
            stdin: Some((task.input, End::Typed)),
            outputs: vec![(kind::OUT, task.output)],
            terminal: Some(task.terminal),
            exit: task.exit,
        })
    } else {
        let (pid, exit) = spawn::start_silent(start)?;
        Ok(Started { pid, stdin: None, outputs: Vec::new(), terminal: None, exit })
    }
}

impl Running {
    /// A task that did not start; its end is already on the way.
    pub(super) fn never(rank: u32) -> Self {
        Self {
            rank,
            pid: 0,
            told: Arc::new(AtomicBool::new(false)),
            alive: true,
            stdin: None,
            terminal: None,
        }
    }
}
