//! Verbs of the queue by a port-forward to the launcher's broker (`docs/spec/outside.md`): what a
//! person may do who may forward ports, and nothing else.
//!
//! Owns: the way, the conversation on it, and which way is taken. Where this one is closed and `exec`
//! is open, a verb goes by that.

use super::exec::{self, CHUNK, Raw, forbidden, typed};
use super::session::Session;
use super::target::{self, Found};
use crate::args::{Loudness, Place};
use crate::refusal::Refusal;
use crate::terminal::write_stderr;
use anyhow::Context as _;
use kube::api::Portforwarder;
use quorate_contract::outside::{
    self, Call, End, Frames, Here, PREAMBLE, STDIN_WINDOW, Terminal, kind,
};
use quorate_contract::{exit, paths};
use std::io::{self, IsTerminal as _};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

/// How long the launcher's broker may take to say that it is there.
const ANSWER: Duration = Duration::from_secs(10);

/// SIGINT and SIGTERM on Linux, where the verb runs.
const SIGINT: u8 = 2;
const SIGTERM: i32 = 15;

/// Bytes of a parcel that are sent at once.
const PARCEL_PART: usize = 1 << 20;

/// A verb and where it goes.
#[derive(Debug)]
pub struct Errand<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// The agent's verb and its arguments.
    pub words: Vec<String>,
    /// Whether the verb is to get standard input.
    pub input: bool,
    /// Files to send along (`contract::parcel`); empty without any.
    pub parcel: Vec<u8>,
    /// Which Kubernetes.
    pub place: &'a Place,
}

/// Runs a verb in the launcher of a cluster; gives its exit code. What it writes goes into the sink, if
/// there is one.
pub fn queue(
    errand: &Errand<'_>,
    sink: Option<Sink<'_>>,
    loudness: Loudness,
) -> anyhow::Result<i32> {
    super::block_on(async {
        let session = Session::open(errand.place).await?;
        let found = target::find(&session, Some(errand.cluster)).await?;
        if found.pod.is_some() {
            return Err(Refusal::usage(format!(
                "{} is a pod, and a queue is that of a cluster",
                errand.cluster
            ))
            .hint("name the cluster alone")
            .into());
        }
        let no_forward = match open(&session, &found).await? {
            Way::Open(way) => return converse(*way, errand, sink).await,
            Way::Closed(why) => why,
        };
        if !errand.parcel.is_empty() {
            return Err(no_files(&no_forward, &session.namespace));
        }
        if loudness.verbose > 0 {
            write_stderr(&format!("quorate: no port-forward: {no_forward}; trying exec\n"));
        }
        let mut command = vec![paths::AGENT.to_owned()];
        command.extend(errand.words.iter().cloned());
        let ran = exec::in_pod(&session, &found, &command, sink).await;
        ran.map_err(|error| neither(error, &no_forward, &session.namespace))
    })
}

/// The error when both ways are closed: the narrower right is the one to ask for.
fn neither(error: anyhow::Error, no_forward: &NoForward, namespace: &str) -> anyhow::Error {
    if !exec::is_forbidden(&error) {
        return error;
    }
    match no_forward {
        NoForward::Forbidden => {}
        NoForward::Off(why) => return off(why),
        NoForward::Failed(_) | NoForward::Silent => return error,
    }
    Refusal::new(format!("you may not forward ports to pods of namespace {namespace}"))
        .hint("ask for a role there with the verbs `get` and `create` on `pods/portforward`")
        .hint(
            "commands in its pods, the other way to a queue, you may not run either (`pods/exec`)",
        )
        .into()
}

/// The error of a cluster that is closed to port-forwards, for somebody without another way.
fn off(why: &str) -> anyhow::Error {
    Refusal::new(why)
        .hint("who may `create` pods/exec still gets to its queue; so do people in its pods")
        .into()
}

/// The error of somebody who sends files along, for which `exec` has no room.
fn no_files(no_forward: &NoForward, namespace: &str) -> anyhow::Error {
    let refusal =
        Refusal::new(format!("--file needs a port-forward to the launcher: {no_forward}"));
    match no_forward {
        NoForward::Forbidden => refusal.hint(format!(
            "ask for a role in namespace {namespace} with the verbs `get` and `create` on `pods/portforward`"
        )),
        NoForward::Off(_) | NoForward::Failed(_) | NoForward::Silent => {
            refusal.hint("put the files into the image or on a volume, and submit without --file")
        }
    }
    .into()
}

/// Why there is no way by a port-forward.
#[derive(Debug, thiserror::Error)]
enum NoForward {
    /// The API server says no.
    #[error("you may not `get` and `create` pods/portforward")]
    Forbidden,
    /// It could not be made.
    #[error("{0}")]
    Failed(String),
    /// The cluster is closed to port-forwards.
    #[error("{0}")]
    Off(String),
    /// What listens there does not take verbs.
    #[error("the launcher does not take verbs this way (host network, or an older agent)")]
    Silent,
}

/// Takes what a verb writes to its standard output, instead of this program's.
pub type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> anyhow::Result<()>;

enum Way {
    Open(Box<Channel>),
    Closed(NoForward),
}

/// A connection to the launcher's broker, which has said who it is.
struct Channel {
    pod: String,
    stream: Box<dyn Duplex>,
    frames: Frames,
    // The forward ends when this is dropped.
    forward: Portforwarder,
}

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

async fn open(session: &Session, found: &Found) -> anyhow::Result<Way> {
    let cluster = session.cluster(&found.cluster).await?;
    let port = u16::try_from(cluster.spec.bootstrap.port).unwrap_or(paths::DEFAULT_PORT);
    let pod = exec::running_pod(session, found)?;
    let forwarded = session.pods().portforward(&pod.name, &[port]).await;
    let mut forward = match forwarded {
        Ok(forward) => forward,
        Err(error) if forbidden(&error) => return Ok(Way::Closed(NoForward::Forbidden)),
        Err(error) => return Ok(Way::Closed(NoForward::Failed(error.to_string()))),
    };
    let (stream, refused) = (forward.take_stream(port), forward.take_error(port));
    let Some(mut stream) = stream else {
        return Ok(Way::Closed(NoForward::Failed("it has no stream".to_owned())));
    };
    let mut frames = Frames::default();
    let greeting = async {
        stream.write_all(&PREAMBLE).await?;
        stream.flush().await?;
        next(&mut stream, &mut frames).await
    };
    let here: Here = match timeout(ANSWER, greeting).await {
        Ok(Ok(Some((kind::HERE, payload)))) => {
            serde_json::from_slice(&payload).context("the launcher's answer is not understood")?
        }
        // Closed without a word: by a broker that does not know this, or because nothing listens.
        Ok(Ok(None) | Err(_)) => {
            let why = match refused {
                Some(why) => timeout(Duration::from_secs(1), why).await.ok().flatten(),
                None => None,
            };
            return Ok(Way::Closed(why.map_or(NoForward::Silent, NoForward::Failed)));
        }
        Ok(Ok(Some(_))) => return Ok(Way::Closed(NoForward::Silent)),
        Err(_) => {
            let why = format!("{} did not answer within {} s", pod.name, ANSWER.as_secs());
            return Ok(Way::Closed(NoForward::Failed(why)));
        }
    };
    if let Some(why) = here.refused {
        return Ok(Way::Closed(NoForward::Off(why)));
    }
    if cluster.metadata.uid.as_ref() != Some(&here.cluster) {
        return Err(Refusal::new(format!("{} belongs to another cluster", pod.name))
            .hint("the cluster was just made again; try once more")
            .into());
    }
    let pod = pod.name.clone();
    Ok(Way::Open(Box::new(Channel { pod, stream: Box::new(stream), frames, forward })))
}

/// The next frame; `None` at the end. Safe to cancel.
async fn next(
    stream: &mut (impl AsyncRead + Unpin),
    frames: &mut Frames,
) -> io::Result<Option<(u8, Vec<u8>)>> {
    loop {
        if let Some(frame) = frames.next_frame().map_err(io::Error::other)? {
            return Ok(Some(frame));
        }
        let mut bytes = vec![0; CHUNK];
        match stream.read(&mut bytes).await? {
            0 => return Ok(None),
            count => frames.push(&bytes[..count]),
        }
    }
}

/// Lets the verb run with this program's standard streams; a terminal, if there is one at both ends.
async fn converse(
    channel: Channel,
    errand: &Errand<'_>,
    mut sink: Option<Sink<'_>>,
) -> anyhow::Result<i32> {
    let Channel { pod, stream, mut frames, forward } = channel;
    let (mut input, mut output) = split(stream);
    let here = io::stdin().is_terminal() && io::stdout().is_terminal();
    let tty = errand.input && sink.is_none() && here;
    let terminal = tty.then(|| {
        let (rows, columns) = window();
        Terminal { rows, columns, name: std::env::var("TERM").ok() }
    });
    let parcel = errand.parcel.len() as u64;
    let call = Call { words: errand.words.clone(), terminal, parcel };
    let broke = |error: io::Error| broken(&pod, &error.to_string());
    output.write_all(&outside::json_frame(kind::CALL, &call)?).await.map_err(broke)?;
    for part in errand.parcel.chunks(PARCEL_PART) {
        // Whoever does not take them has said why by then.
        if output.write_all(&outside::frame(kind::PARCEL, part)?).await.is_err() {
            break;
        }
    }
    if !errand.input {
        output.write_all(&outside::frame(kind::INPUT_END, &[])?).await.map_err(broke)?;
    }
    output.flush().await.map_err(broke)?;
    let raw = tty.then(Raw::enter).transpose().context("cannot prepare the terminal")?;
    let mut keys = errand.input.then(typed);
    let mut signals = Signals::listen(tty)?;
    let (mut under_way, mut interrupted) = (0, false);
    let end: End = loop {
        tokio::select! {
            received = next(&mut input, &mut frames) => match received.map_err(broke)? {
                Some((kind::OUTPUT, bytes)) => match &mut sink {
                    Some(take) => take(&bytes)?,
                    None => write(io::stdout(), &bytes)?,
                },
                Some((kind::ERROR, bytes)) => write(io::stderr(), &bytes)?,
                Some((kind::TAKEN, count)) => {
                    under_way -= outside::read_taken(&count).unwrap_or(0).min(under_way);
                }
                Some((kind::END, payload)) => {
                    break serde_json::from_slice(&payload).context("the verb's end is not understood")?;
                }
                Some(_) => {}
                None => {
                    let why = match timeout(Duration::from_secs(1), forward.join()).await {
                        Ok(Err(error)) => error.to_string(),
                        Ok(Ok(())) | Err(_) => "the other end has closed it".to_owned(),
                    };
                    return Err(broken(&pod, &why).into());
                }
            },
            typed = async { keys.as_mut().expect("the branch has a condition").recv().await },
                if keys.is_some() && under_way < STDIN_WINDOW => {
                let frame = if let Some(bytes) = typed {
                    under_way += bytes.len();
                    outside::frame(kind::INPUT, &bytes)?
                } else {
                    keys = None;
                    outside::frame(kind::INPUT_END, &[])?
                };
                // Fails when the verb has ended; its end is still to be read.
                let _ = send(&mut output, &frame).await;
            }
            number = signals.next() => {
                let frame = match number {
                    Caught::Window => {
                        let (rows, columns) = window();
                        outside::frame(kind::SIZE, &outside::size(rows, columns))?
                    }
                    // The verb is for as long as this program, and so is the way to it.
                    Caught::Terminate => return Ok(exit::signaled(SIGTERM)),
                    // Asked twice, a person does not want to wait for the other end.
                    Caught::Interrupt if std::mem::replace(&mut interrupted, true) => {
                        return Ok(exit::signaled(SIGINT.into()));
                    }
                    Caught::Interrupt => outside::frame(kind::SIGNAL, &[SIGINT])?,
                };
                let _ = send(&mut output, &frame).await;
            }
        }
    };
    drop(raw);
    if let Some(error) = end.error {
        return Err(Refusal::new(format!("{pod}: {error}")).code(end.code).into());
    }
    Ok(end.code)
}

fn broken(pod: &str, why: &str) -> Refusal {
    Refusal::new(format!("the connection to {pod} broke: {why}"))
        .code(exit::UNAVAILABLE)
        .hint("what was submitted stays in the queue; `quorate jobs` lists it")
}

async fn send(output: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    output.write_all(frame).await?;
    output.flush().await
}

/// Writes output as it comes. A reader that has left is no error of the verb.
fn write(mut to: impl io::Write, bytes: &[u8]) -> anyhow::Result<()> {
    match to.write_all(bytes).and_then(|()| to.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write the output"),
    }
}

/// Rows and columns of this terminal.
fn window() -> (u16, u16) {
    match terminal_size::terminal_size() {
        Some((terminal_size::Width(columns), terminal_size::Height(rows))) => (rows, columns),
        None => (24, 80),
    }
}

/// What this program was told by signals.
enum Caught {
    /// The window has another size.
    Window,
    /// A person wants what runs to end.
    Interrupt,
    /// To end.
    Terminate,
}

/// Signals that are meant for the verb.
struct Signals {
    window: Option<Signal>,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen(tty: bool) -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot watch signals");
        Ok(Self {
            window: tty.then(|| listen(SignalKind::window_change())).transpose()?,
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Caught {
        let window = async {
            match &mut self.window {
                Some(window) => window.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = window => Caught::Window,
            _ = self.interrupt.recv() => Caught::Interrupt,
            _ = self.terminate.recv() => Caught::Terminate,
        }
    }
}
