//! `quorate exec` and `quorate shell` on Kubernetes: commands in a pod by way of the agent there, so
//! that they find what they would find in a pod of this machine (host files, launchers' variables,
//! the broker).

use super::gather::container;
use super::outside::Sink;
use super::refuse::Asked;
use super::session::Session;
use super::target::{self, Found};
use crate::args::{ExecArgs, ShellArgs};
use crate::refusal::Refusal;
use crate::terminal::write_stderr;
use anyhow::Context as _;
use futures_util::SinkExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{AttachParams, AttachedProcess, TerminalSize};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use quorate_contract::{exit, paths};
use quorate_observe::PodFacts;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// What is copied at once.
pub(super) const CHUNK: usize = 32 * 1024;

/// How the refusal of somebody begins who may not do it.
const FORBIDDEN: &str = "you may not run commands in pods of namespace";

/// Runs a command in a pod.
pub fn exec(args: &ExecArgs) -> anyhow::Result<i32> {
    super::block_on(async {
        let session = Session::open(&args.place).await?;
        enter(&session, Some(&args.target), &args.command).await
    })
}

/// Opens a shell in a pod.
pub fn shell(args: &ShellArgs) -> anyhow::Result<i32> {
    super::block_on(async {
        let session = Session::open(&args.place).await?;
        enter(&session, args.target.as_deref(), &[]).await
    })
}

/// Runs a command, or the image's shell if there is none, where a word points.
async fn enter(session: &Session, word: Option<&str>, command: &[String]) -> anyhow::Result<i32> {
    let found = target::find(session, word).await?;
    in_pod(session, &found, command, None).await
}

/// Runs a command in the pod that was found; the cluster's launcher, if none was named. What it writes
/// goes into the sink, if there is one.
pub(super) async fn in_pod(
    session: &Session,
    found: &Found,
    command: &[String],
    sink: Option<Sink<'_>>,
) -> anyhow::Result<i32> {
    let pod = running_pod(session, found)?;
    let mut argv = vec![paths::AGENT.to_owned(), "enter".to_owned()];
    if !command.is_empty() {
        argv.push("--".to_owned());
        argv.extend(command.iter().cloned());
    }
    attached(session, &pod.name, container(pod), argv, sink).await
}

/// The pod that was found, if something runs in it.
pub(super) fn running_pod<'a>(session: &Session, found: &'a Found) -> anyhow::Result<&'a PodFacts> {
    let pod = found.pod_or_launcher().ok_or_else(|| {
        Refusal::new(format!("{} has no pods yet", found.cluster))
            .hint(format!("`quorate why {}{}` says what is missing", found.cluster, session.flags))
    })?;
    if !super::words::has_started(pod) || pod.ended() {
        let state = if pod.ended() { "has ended" } else { "has not started" };
        return Err(Refusal::new(format!("{} of {} {state}", pod.short_name(), found.cluster))
            .hint(format!("`quorate status {}{}` shows its pods", found.cluster, session.flags))
            .into());
    }
    Ok(pod)
}

/// Runs a command with this program's standard streams; a terminal, if there is one at both ends.
async fn attached(
    session: &Session,
    pod: &str,
    container: Option<String>,
    argv: Vec<String>,
    sink: Option<Sink<'_>>,
) -> anyhow::Result<i32> {
    let tty = sink.is_none() && io::stdin().is_terminal() && io::stdout().is_terminal();
    let how = AttachParams {
        container,
        stdin: true,
        stdout: true,
        // A terminal has one stream for both.
        stderr: !tty,
        tty,
        max_stdin_buf_size: Some(CHUNK),
        max_stdout_buf_size: Some(CHUNK),
        max_stderr_buf_size: Some(CHUNK),
    };
    let mut process = start(session, pod, argv, &how).await?;
    let raw = tty.then(Raw::enter).transpose().context("cannot prepare the terminal")?;
    let input = process.stdin();
    let typing = tokio::spawn(async move {
        let Some(mut input) = input else { return };
        let mut keys = typed();
        while let Some(bytes) = keys.recv().await {
            if input.write_all(&bytes).await.is_err() || input.flush().await.is_err() {
                return;
            }
        }
        let _ = input.shutdown().await;
    });
    let sizes = process.terminal_size();
    let sizing = tokio::spawn(async move {
        let (Some(mut sizes), Ok(mut changes)) = (sizes, signal(SignalKind::window_change()))
        else {
            return;
        };
        loop {
            let size = terminal_size::terminal_size();
            if let Some((terminal_size::Width(width), terminal_size::Height(height))) = size
                && sizes.send(TerminalSize { width, height }).await.is_err()
            {
                return;
            }
            if changes.recv().await.is_none() {
                return;
            }
        }
    });
    let status = process.take_status();
    let (out, err) = (process.stdout(), process.stderr());
    let copying = async {
        let (mut to_out, mut to_err) = (written_to(io::stdout()), written_to(io::stderr()));
        let to_out: Sink<'_> = match sink {
            Some(sink) => sink,
            None => &mut to_out,
        };
        tokio::try_join!(copy(out, to_out), copy(err, &mut to_err))
    };
    let copied = copying.await;
    if copied.is_err() {
        // The command is of no use without its reader.
        process.abort();
    }
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    typing.abort();
    sizing.abort();
    drop(raw);
    copied?;
    if let Err(error) = process.join().await
        && status.is_none()
    {
        return Err(Refusal::new(format!("the connection to {pod} broke: {error}")).into());
    }
    code(status.as_ref(), pod)
}

/// The standard output of a command that needs no input.
pub(super) async fn output(
    session: &Session,
    pod: &str,
    container: Option<String>,
    argv: &[&str],
) -> anyhow::Result<String> {
    let how = AttachParams { container, stderr: false, ..AttachParams::default() };
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    let mut process = start(session, pod, argv, &how).await?;
    let status = process.take_status();
    let mut text = String::new();
    if let Some(mut out) = process.stdout() {
        out.read_to_string(&mut text).await?;
    }
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    match code(status.as_ref(), pod)? {
        0 => Ok(text),
        code => Err(anyhow::anyhow!("it ended with code {code}")),
    }
}

async fn start(
    session: &Session,
    pod: &str,
    argv: Vec<String>,
    how: &AttachParams,
) -> anyhow::Result<AttachedProcess> {
    session.pods().exec(pod, argv, how).await.map_err(|error| {
        let asked = Asked::pods("create", "pods/exec").named(pod);
        match &error {
            error if forbidden(error) => Refusal::new(format!("{FORBIDDEN} {}", session.namespace))
                .hint("ask for a role there with the verbs `get` and `create` on `pods/exec`")
                .into(),
            kube::Error::UpgradeConnection(upgrade) => {
                Refusal::new(format!("cannot run a command in {pod}: {upgrade}"))
                    .hint("its node may not answer; `kubectl exec` asks the same")
                    .into()
            }
            error => session.refuse(error, &asked),
        }
    })
}

/// Whether an upgrade was refused for want of a right. Its answer carries no Status: only its code is
/// known.
pub(super) fn forbidden(error: &kube::Error) -> bool {
    match error {
        kube::Error::UpgradeConnection(upgrade) => upgrade.to_string().contains("403"),
        kube::Error::Api(status) => status.code == 403,
        _ => false,
    }
}

/// Whether [`in_pod`] failed for want of a right.
pub(super) fn is_forbidden(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<Refusal>()
        .is_some_and(|refusal| refusal.to_string().starts_with(FORBIDDEN))
}

/// What a command ended with (`remotecommand` of Kubernetes: a Status whose cause is `ExitCode`).
fn code(status: Option<&Status>, pod: &str) -> anyhow::Result<i32> {
    let Some(status) = status else {
        return Err(Refusal::new(format!("the connection to {pod} ended before the command"))
            .hint("the pod may have been deleted, or the API server restarted")
            .into());
    };
    if status.status.as_deref() == Some("Success") {
        return Ok(exit::OK);
    }
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let code = causes
        .filter(|cause| cause.reason.as_deref() == Some("ExitCode"))
        .find_map(|cause| cause.message.as_deref()?.parse().ok());
    code.ok_or_else(|| {
        let message = status.message.as_deref().unwrap_or("no reason was given");
        Refusal::new(format!("the command in {pod} could not be run: {message}"))
            .hint("its image may be of another architecture, or the agent is not there")
            .into()
    })
}

/// Copies output as it comes.
async fn copy(from: Option<impl AsyncRead + Unpin>, to: Sink<'_>) -> anyhow::Result<()> {
    let Some(mut from) = from else { return Ok(()) };
    let mut buffer = vec![0; CHUNK];
    loop {
        let count = from.read(&mut buffer).await.context("cannot read the command's output")?;
        if count == 0 {
            return Ok(());
        }
        to(&buffer[..count])?;
    }
}

/// Writes what comes to a stream of this program. A reader that has left ends the copying, not the
/// command.
fn written_to(mut to: impl io::Write) -> impl FnMut(&[u8]) -> anyhow::Result<()> {
    let mut open = true;
    move |bytes| {
        if open {
            match to.write_all(bytes).and_then(|()| to.flush()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => open = false,
                other => other.context("cannot write the command's output")?,
            }
        }
        Ok(())
    }
}

/// What comes on standard input. The thread may wait for ever; it ends with the process.
pub(super) fn typed() -> mpsc::Receiver<Vec<u8>> {
    let (keys, received) = mpsc::channel(4);
    std::thread::spawn(move || {
        let mut buffer = vec![0; CHUNK];
        let mut input = io::stdin();
        loop {
            match input.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    if keys.blocking_send(buffer[..count].to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    write_stderr(&format!("quorate: cannot read standard input: {error}\n"));
                    return;
                }
            }
        }
    });
    received
}

/// The terminal passes keys on as they are, until this is dropped.
pub(super) struct Raw {
    before: Termios,
}

impl Raw {
    pub(super) fn enter() -> nix::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = io::stdout().flush();
        let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{StatusCause, StatusDetails};

    #[test]
    fn the_codes_of_commands_are_their_own() {
        let mut status = Status { status: Some("Success".into()), ..Status::default() };
        assert_eq!(code(Some(&status), "p").unwrap(), 0);
        status.status = Some("Failure".into());
        let cause = StatusCause {
            reason: Some("ExitCode".into()),
            message: Some("42".into()),
            ..StatusCause::default()
        };
        status.details =
            Some(StatusDetails { causes: Some(vec![cause]), ..StatusDetails::default() });
        assert_eq!(code(Some(&status), "p").unwrap(), 42);
        status.details = None;
        status.message = Some("no such container".into());
        let error = code(Some(&status), "p").unwrap_err().to_string();
        assert!(error.contains("no such container"), "{error}");
        assert!(code(None, "p").is_err());
    }
}
