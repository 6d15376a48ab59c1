//! `quorate-agent proxy PATH CMD`: runs a command whose verbs go to another instance.
//!
//! A path is read from where it is typed: `3` is the instance that job 3 is, `3/7` the one within it,
//! `..` the cluster around this one, `/` the outermost. For each step that leads inward there is a
//! socket in a directory of its own, for as long as the command runs; what comes in there goes on
//! through the brokers. Owns the steps and the sockets; what is said is not its business.

use super::known::{AWAIT, OUTER, REACH, ReachArgs, kind};
use crate::launch::environment::Variables;
use crate::local::{self, Hello, LocalError, connect};
use crate::query::{Where, ask, block_on};
use anyhow::{Context, bail};
use quorate_contract::{env, exit};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

/// Bytes that are read at once.
const ROOM: usize = 32 * 1024;

/// Run a command whose verbs go to another instance
///
/// PATH is read from here: `3` is the instance that job 3 is, `3/7` the one that job 7 of that is, `..`
/// the cluster around this one and `/` the outermost. `quorate-agent tree` shows them.
///
/// Example: quorate-agent proxy 3/7 quorate-agent overlay status
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Where,
    /// The instance
    path: String,
    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Runs the verb.
pub fn run(args: &Args) -> anyhow::Result<i32> {
    block_on(async {
        let way = Way::find(args.place.path(), &args.path).await?;
        let variables = std::env::vars_os().collect();
        let status = run_at(&way.socket, &args.command, variables, std::future::pending()).await?;
        Ok(code_of(status))
    })?
}

/// The code that says how a command ended.
pub(crate) fn code_of(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(exit::signaled)).unwrap_or(exit::FAILED)
}

/// Runs a command with these variables whose verbs go to a socket. When `hang_up` comes, the command is
/// told that it has nothing to run on any more (SIGHUP), and its end awaited.
pub(crate) async fn run_at(
    socket: &Path,
    words: &[OsString],
    variables: Variables,
    hang_up: impl Future<Output = ()>,
) -> anyhow::Result<ExitStatus> {
    let mut command = tokio::process::Command::new(&words[0]);
    command.args(&words[1..]).env_clear().envs(variables).env(env::SOCKET, socket);
    let shown = words[0].display();
    // A terminal sends its signals to the command as well, which decides what they mean.
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch signals")?;
    let mut quit = signal(SignalKind::quit()).context("cannot watch signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch signals")?;
    let mut child = command.spawn().with_context(|| format!("cannot run {shown}"))?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    tokio::pin!(hang_up);
    let mut there = true;
    loop {
        tokio::select! {
            status = child.wait() => return status.context("cannot wait for the command"),
            () = &mut hang_up, if there => {
                there = false;
                if let Some(pid) = pid {
                    crate::sys::signal_process(pid, libc::SIGHUP);
                    crate::sys::signal_process(pid, libc::SIGCONT);
                }
            }
            _ = interrupt.recv() => {}
            _ = quit.recv() => {}
            _ = terminate.recv() => if let Some(pid) = pid {
                crate::sys::signal_process(pid, libc::SIGTERM);
            },
        }
    }
}

/// A way to an instance for a process that has no runtime of its own: a thread keeps it until this is
/// dropped.
#[derive(Debug)]
pub(crate) struct OpenWay {
    /// Where the instance's verbs are asked.
    pub(crate) socket: PathBuf,
    _open: tokio::sync::oneshot::Sender<()>,
}

impl OpenWay {
    /// Goes along a path from a cluster's socket.
    pub(crate) fn find(from: PathBuf, path: String) -> anyhow::Result<Self> {
        let (found, heard) = std::sync::mpsc::channel();
        let (open, closed) = tokio::sync::oneshot::channel::<()>();
        std::thread::spawn(move || {
            let kept = block_on(async {
                match Way::find(from, &path).await {
                    Ok(way) => {
                        let _ = found.send(Ok(way.socket.clone()));
                        // Dropped, it says so as well.
                        let _ = closed.await;
                    }
                    Err(error) => drop(found.send(Err(error))),
                }
            });
            if let Err(error) = kept {
                crate::sys::complain(&format!("{error:#}"));
            }
        });
        let socket = heard.recv().context("the way to the instance was not kept")??;
        Ok(Self { socket, _open: open })
    }
}

/// Waits until an instance of this cluster is up.
pub(crate) async fn await_instance(socket: &Path, id: &str) -> anyhow::Result<()> {
    let args = serde_json::to_value(ReachArgs { id: id.to_owned() })?;
    let (_, code) = ask(socket, AWAIT, args).await?;
    anyhow::ensure!(code == exit::OK, "the brokers cannot be asked for the instance");
    Ok(())
}

/// The way to an instance, while it is kept.
pub(crate) struct Way {
    /// Where its verbs are asked.
    pub(crate) socket: PathBuf,
    /// Sockets of the steps on the way.
    _steps: Option<tempfile::TempDir>,
}

impl Way {
    /// Goes along a path from a cluster's socket.
    pub(crate) async fn find(from: PathBuf, path: &str) -> anyhow::Result<Self> {
        let mut socket = from;
        if path.starts_with('/') {
            while let Some(next) = outer(&socket).await? {
                socket = next;
            }
        }
        let mut steps = None;
        for (number, step) in path.split('/').filter(|step| !matches!(*step, "" | ".")).enumerate()
        {
            if step == ".." {
                let Some(next) = outer(&socket).await? else {
                    bail!("`..` leads out of the outermost cluster");
                };
                socket = next;
                continue;
            }
            let dir = match &steps {
                Some(dir) => dir,
                None => steps.insert(directory()?),
            };
            socket = inward(dir.path(), number, socket, step.to_owned())?;
        }
        Ok(Self { socket, _steps: steps })
    }
}

fn directory() -> anyhow::Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("quorate-")
        .tempdir()
        .context("cannot make a directory for sockets: TMPDIR names one that can be written to")
}

async fn outer(socket: &Path) -> anyhow::Result<Option<PathBuf>> {
    let (values, code) = ask(socket, OUTER, serde_json::Value::Null).await?;
    let value = values.first().filter(|_| code == exit::OK);
    let value = value.context("the broker does not say what is around it")?;
    serde_json::from_slice(value).context("the broker says what is around it in an unknown way")
}

/// Opens a socket that leads to the instance `id` of the cluster at `outer`.
fn inward(dir: &Path, number: usize, outer: PathBuf, id: String) -> anyhow::Result<PathBuf> {
    let path = dir.join(number.to_string());
    let listener = UnixListener::bind(&path).context("cannot make a socket")?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (outer, id) = (outer.clone(), id.clone());
            tokio::spawn(async move {
                if let Err(error) = carry(stream, &outer, id).await {
                    crate::sys::complain(&format!("{:#}", anyhow::Error::from(error)));
                }
            });
        }
    });
    Ok(path)
}

/// Carries one conversation. What the broker has to say about its end is said here: the client would
/// not know it.
async fn carry(stream: UnixStream, outer: &Path, id: String) -> Result<(), LocalError> {
    let args = serde_json::to_value(ReachArgs { id }).map_err(LocalError::Unreadable)?;
    let hello = Hello { verb: REACH.to_owned(), args };
    let (mut from_broker, mut to_broker) = connect(outer, &hello).await?.split();
    let (mut from_client, mut to_client) = stream.into_split();
    let inward = async {
        let mut room = vec![0; ROOM];
        while let Ok(count @ 1..) = from_client.read(&mut room).await {
            if to_broker.send(kind::BYTES, &room[..count]).await.is_err() {
                // What the broker has to say about it comes by the other direction.
                std::future::pending::<()>().await;
            }
        }
        Ok(())
    };
    let outward = async {
        while let Some((kind, bytes)) = from_broker.recv().await? {
            match kind {
                kind::BYTES if to_client.write_all(&bytes).await.is_err() => return Ok(()),
                local::kind::END => {
                    let end: local::End =
                        serde_json::from_slice(&bytes).map_err(LocalError::Unreadable)?;
                    if let Some(error) = end.error {
                        crate::sys::complain(&error);
                    }
                    return Ok(());
                }
                _ => {}
            }
        }
        Ok(())
    };
    tokio::select! {
        end = inward => end,
        end = outward => end,
    }
}
