//! Nodes for as long as a command runs here: `alloc` and `salloc`.
//!
//! Owns: waiting for the nodes, the command with its way to them, and giving them back. What is said to
//! people, and what the command finds in its environment beside that, is the verb's business.

use super::client::{self, Own};
use super::protocol::{Copies, Question, Submit, Submitted, Then, kind};
use crate::hosts::enter;
use crate::instance::proxy::{self, Way};
use crate::job::protocol::kind as stream;
use crate::launch::environment::Variables;
use crate::local::{self, Connection, End, LocalError, connect};
use anyhow::Context as _;
use quorate_queue::{JobId, Jobspec};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

/// How long nodes may take before somebody is told that they do.
const PATIENCE: Duration = Duration::from_millis(300);

/// What happens to an allocation, for those who tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Its nodes do not come at once.
    Pending,
    /// They are there; whether that was waited for.
    Granted { after_waiting: bool },
    /// It has ended before the command.
    Revoked,
}

/// What became of it.
#[derive(Debug)]
pub(super) enum Held {
    /// Nobody answers.
    Unreachable(LocalError),
    /// The queue did not take it.
    Refused(End),
    /// Its nodes did not come in the time that there was.
    TooLate,
    /// It ended before it had nodes.
    Ended(JobId, End),
    /// The command ran; whether it had its nodes until its end.
    Ran { job: JobId, status: ExitStatus, kept: bool },
}

/// An allocation that is asked for.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    /// The broker of this pod.
    pub(super) socket: &'a Path,
    /// The job, an instance.
    pub(super) spec: Jobspec,
    /// The environment that travels.
    pub(super) own: Own,
    /// How long its nodes may take.
    pub(super) limit: Option<Duration>,
    /// The command; nothing is a shell.
    pub(super) command: &'a [OsString],
}

/// Waits for the nodes, runs the command, and gives the nodes back. `more` gives what the command finds
/// in its environment, once there are nodes.
pub(super) async fn hold(
    asked: Asked<'_>,
    tell: impl Fn(JobId, Moment),
    more: impl AsyncFnOnce(JobId, &mut Variables) -> anyhow::Result<()>,
) -> anyhow::Result<Held> {
    let Asked { socket, mut spec, own, limit, command } = asked;
    // It is there for as long as this process holds its input open.
    spec.streams.input = Some("-".to_owned());
    let then = Then::Attach { stdin: true, own: true };
    let submit = Submit { spec, copies: Copies::One, then, test: false };
    let hello = client::hello(&Question::Submit(Box::new(submit)), own);
    let mut connection = match connect(socket, &hello).await {
        Ok(connection) => connection,
        Err(error) => return Ok(Held::Unreachable(error)),
    };
    let submitted: Submitted = match next(&mut connection).await? {
        Heard::Answer(answer) => client::read(&answer)?,
        Heard::Over(end) => return Ok(Held::Refused(end)),
    };
    let job = submitted.first;
    let id = job.to_string();
    let there = proxy::await_instance(socket, &id);
    tokio::pin!(there);
    let after_waiting = tokio::select! {
        there = &mut there => there.map(|()| false)?,
        end = over(&mut connection) => return Ok(Held::Ended(job, end?)),
        () = tokio::time::sleep(PATIENCE) => {
            tell(job, Moment::Pending);
            let limit = async {
                match limit {
                    Some(limit) => tokio::time::sleep(limit.saturating_sub(PATIENCE)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                there = &mut there => there.map(|()| true)?,
                end = over(&mut connection) => return Ok(Held::Ended(job, end?)),
                // It ends with this connection.
                () = limit => return Ok(Held::TooLate),
            }
        }
    };
    let way = Way::find(socket.to_owned(), &id).await?;
    let files = tempfile::tempdir().context("cannot make a directory for host files")?;
    let mut variables = enter::for_nodes_of(socket, &way.socket, files.path()).await?;
    variables.insert(quorate_contract::env::JOB_ID.into(), id.as_str().into());
    more(job, &mut variables).await?;
    tell(job, Moment::Granted { after_waiting });
    let shell = || std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let words = if command.is_empty() { vec![shell()] } else { command.to_vec() };
    let (revoke, revoked) = tokio::sync::oneshot::channel::<()>();
    let hang_up = async {
        if revoked.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let run = proxy::run_at(&way.socket, &words, variables, hang_up);
    tokio::pin!(run);
    tokio::select! {
        status = &mut run => {
            // Its end follows from the end of its input, and gives the nodes back.
            connection
                .send(stream::STDIN_END, &[])
                .await
                .context("cannot give the nodes back")?;
            over(&mut connection).await?;
            Ok(Held::Ran { job, status: status?, kept: true })
        }
        end = over(&mut connection) => {
            let _ = end?;
            tell(job, Moment::Revoked);
            let _ = revoke.send(());
            Ok(Held::Ran { job, status: run.await?, kept: false })
        }
    }
}

enum Heard {
    Answer(bytes::Bytes),
    Over(End),
}

/// The next answer, or the end.
async fn next(connection: &mut Connection) -> anyhow::Result<Heard> {
    while let Some((number, payload)) = connection.recv().await? {
        match number {
            kind::ANSWER => return Ok(Heard::Answer(payload)),
            stream::OUT | stream::ERR => {
                if let Some((_, bytes)) = crate::job::protocol::piece(payload) {
                    // What brokers of the instance log.
                    let _ = crate::sys::write_all(libc::STDERR_FILENO, &bytes);
                }
            }
            local::kind::END => return Ok(Heard::Over(serde_json::from_slice(&payload)?)),
            _ => {}
        }
    }
    Err(LocalError::NoEnd.into())
}

/// The job's end.
async fn over(connection: &mut Connection) -> anyhow::Result<End> {
    loop {
        if let Heard::Over(end) = next(connection).await? {
            return Ok(end);
        }
    }
}
