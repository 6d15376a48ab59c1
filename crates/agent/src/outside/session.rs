//! One call from outside: the verb is started as a process of this pod and its streams travel.
//!
//! Owns: the conversation, the terminal that the verb gets, and its end when the caller goes. Reading
//! waits while the caller does not read; what it sends as standard input has a window of its own, so
//! that a verb that does not read holds up neither signals nor the end.

use crate::broker::Overlay;
use crate::files::{FilesError, Parcels};
use crate::job::Jobs;
use crate::job::streams::{End as Ends, feed};
use crate::launch::environment::{self, Variables};
use crate::launch::outcome::TaskEnd;
use crate::launch::spawn::terminal::{self, AtTerminal, Size};
use crate::launch::spawn::{self, Exit, Start};
use crate::logs::chain;
use crate::{queue, sys};
use quorate_contract::outside::{
    self, Call, End, FrameError, Frames, Here, PARCEL_VARIABLE, PIECE, VERBS, kind,
};
use quorate_contract::parcel::{self, ParcelError};
use quorate_contract::{env as names, exit};
use quorate_pmi::must_not_leak;
use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// A caller that has not said by then what it wants is dropped.
const CALL_WAIT: Duration = Duration::from_secs(10);
/// Time between the first signal and SIGKILL when the caller is gone.
const GRACE: Duration = Duration::from_secs(2);
/// How long output may still come when the verb has ended and somebody else holds its pipe.
const LAST_OUTPUT: Duration = Duration::from_millis(200);
/// Verbs that may follow a job which goes on when they are gone.
const FOLLOWING: [&str; 4] = ["attach", "batch", "submit", "submit-script"];
/// A caller that was told the end has so long to close.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Frames that wait to be written.
const FRAMES: usize = 8;

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
enum SessionError {
    /// The connection broke.
    #[error("the connection broke")]
    Broken(#[source] io::Error),
    /// What came makes no sense.
    #[error("it speaks another language")]
    Frame(#[source] FrameError),
    /// It did not say what it wants.
    #[error("it did not say what it wants")]
    Silent,
    /// The call is not understood.
    #[error("an unreadable call")]
    Unreadable(#[source] serde_json::Error),
    /// The verb is none of those for people outside.
    #[error("`{0}` is no verb for people outside of the cluster")]
    Verb(String),
    /// There are too many.
    #[error("as many people as can be talk to this cluster already; try again in a moment")]
    Crowded,
    /// The verb could not be started.
    #[error("cannot start the verb: {0}")]
    Start(String),
    /// The files that came along are not taken.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The files that it has told of do not come.
    #[error("its files did not come whole")]
    NoFiles,
}

/// Serves a caller to the end.
pub(super) async fn serve(
    jobs: Jobs,
    overlay: Overlay,
    stream: TcpStream,
    permit: Option<OwnedSemaphorePermit>,
) {
    let (reader, mut writer) = stream.into_split();
    let mut input = Input { reader, frames: Frames::default() };
    let served = converse(&jobs, &overlay, &mut input, &mut writer, permit.is_some()).await;
    let end = served.unwrap_or_else(|error| {
        let code = match error {
            SessionError::Verb(_) | SessionError::Unreadable(_) => exit::USAGE,
            SessionError::Files(_) => exit::FAILED,
            _ => exit::UNAVAILABLE,
        };
        End { code, error: Some(chain(&error)) }
    });
    if let Ok(frame) = outside::json_frame(kind::END, &end) {
        // A caller that is gone needs no end.
        let _ = writer.write_all(&frame).await;
    }
    let _ = writer.shutdown().await;
    // What is not read when a connection is closed makes the kernel forget what was not sent yet.
    let _ = timeout(LAST_WORDS, async { while let Ok(Some(_)) = input.next().await {} }).await;
}

/// What comes from the caller.
struct Input {
    reader: OwnedReadHalf,
    frames: Frames,
}

impl Input {
    /// The next frame; `None` when the caller is gone. Safe to cancel.
    async fn next(&mut self) -> Result<Option<(u8, Vec<u8>)>, SessionError> {
        loop {
            if let Some(frame) = self.frames.next_frame().map_err(SessionError::Frame)? {
                return Ok(Some(frame));
            }
            let mut bytes = [0; 8 * 1024];
            match self.reader.read(&mut bytes).await.map_err(SessionError::Broken)? {
                0 => return Ok(None),
                count => self.frames.push(&bytes[..count]),
            }
        }
    }
}

async fn converse(
    jobs: &Jobs,
    overlay: &Overlay,
    input: &mut Input,
    writer: &mut OwnedWriteHalf,
    room: bool,
) -> Result<End, SessionError> {
    let here = Here {
        cluster: overlay.config().cluster.uid.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        refused: overlay.config().queue.inside_only.then(|| outside::INSIDE_ONLY.to_owned()),
    };
    let frame = outside::json_frame(kind::HERE, &here).map_err(SessionError::Frame)?;
    writer.write_all(&frame).await.map_err(SessionError::Broken)?;
    if let Some(error) = here.refused {
        return Ok(End { code: exit::UNAVAILABLE, error: Some(error) });
    }
    let opening = timeout(CALL_WAIT, input.next()).await.map_err(|_| SessionError::Silent)??;
    let Some((kind::CALL, payload)) = opening else { return Err(SessionError::Silent) };
    let call: Call = serde_json::from_slice(&payload).map_err(SessionError::Unreadable)?;
    if !room {
        return Err(SessionError::Crowded);
    }
    let verb = call.words.first().map(String::as_str).unwrap_or_default();
    if !VERBS.contains(&verb) {
        return Err(SessionError::Verb(verb.to_owned()));
    }
    let parcels = queue::parcels(overlay);
    let parcel = match call.parcel {
        0 => None,
        length => Some(receive(&parcels, input, length).await?),
    };
    let end = match start(jobs, overlay, &call, parcel.as_deref()) {
        Ok(verb) => Ok(relay(jobs, verb, input, writer).await),
        Err(error) => Err(error),
    };
    if let Some(parcel) = parcel {
        parcels.give_up(&parcel);
    }
    end
}

/// Takes the files that were sent along; gives the name that they are kept under.
async fn receive(
    parcels: &Parcels,
    input: &mut Input,
    length: u64,
) -> Result<String, SessionError> {
    if length > parcel::LIMIT {
        return Err(FilesError::from(ParcelError::TooLarge).into());
    }
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        let next = timeout(CALL_WAIT, input.next()).await.map_err(|_| SessionError::NoFiles)??;
        match next {
            Some((kind::PARCEL, part)) => bytes.extend_from_slice(&part),
            _ => return Err(SessionError::NoFiles),
        }
    }
    let parcels = parcels.clone();
    let kept = tokio::task::spawn_blocking(move || parcels.keep(&bytes)).await;
    Ok(kept.map_err(|_| SessionError::NoFiles)??)
}

/// A verb that runs.
struct Verb {
    name: String,
    pid: i32,
    exit: Exit,
    stdin: Option<pipe::Sender>,
    outputs: Vec<(u8, pipe::Receiver)>,
    terminal: Option<terminal::Terminal>,
    /// It passes signals on to a job that is not the caller's alone.
    follows: bool,
}

fn start(
    jobs: &Jobs,
    overlay: &Overlay,
    call: &Call,
    parcel: Option<&str>,
) -> Result<Verb, SessionError> {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let name = format!("outside-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let settings = overlay.settings();
    let mut env: Variables = jobs.pod().env.clone();
    env.retain(|name, _| !name.to_str().is_some_and(must_not_leak));
    environment::pod(settings, &mut env);
    env.insert(names::MARK.into(), environment::marks(settings, &name).into());
    if let Some(term) = call.terminal.as_ref().and_then(|terminal| terminal.name.clone()) {
        env.insert("TERM".into(), term.into());
    }
    if let Some(parcel) = parcel {
        env.insert(PARCEL_VARIABLE.into(), parcel.into());
    }
    let agent = std::env::current_exe().map_err(|error| SessionError::Start(error.to_string()))?;
    let agent = agent.into_os_string();
    // What batch scripts get, so that a verb typed outside is the verb typed in the pod.
    let mut argv: Vec<OsString> = vec![agent.clone(), "enter".into(), "--".into(), agent];
    argv.extend(call.words.iter().map(OsString::from));
    let start = Start {
        argv: &argv,
        env: &env,
        cwd: &jobs.pod().cwd,
        cpus: None,
        stdin: true,
        keep: None,
        own_session: false,
    };
    let verb = call.words.first().map(String::as_str).unwrap_or_default();
    let follows = FOLLOWING.contains(&verb);
    let failed = |end: TaskEnd| SessionError::Start(format!("{end:?}"));
    if let Some(terminal) = &call.terminal {
        let size = Size { rows: terminal.rows, columns: terminal.columns };
        let AtTerminal { pid, input, output, terminal, exit } =
            terminal::start(&start, size).map_err(failed)?;
        let (stdin, outputs) = (Some(input), vec![(kind::OUTPUT, output)]);
        return Ok(Verb { name, pid, exit, stdin, outputs, terminal: Some(terminal), follows });
    }
    let task = spawn::start(&start).map_err(failed)?;
    let outputs = vec![(kind::OUTPUT, task.stdout), (kind::ERROR, task.stderr)];
    let (pid, exit, stdin) = (task.pid, task.exit, task.stdin);
    Ok(Verb { name, pid, exit, stdin, outputs, terminal: None, follows })
}

/// Moves streams until the verb ends or the caller goes.
async fn relay(jobs: &Jobs, verb: Verb, input: &mut Input, writer: &mut OwnedWriteHalf) -> End {
    let Verb { name, pid, exit, stdin, outputs, terminal, follows } = verb;
    tracing::info!(session = %name, "a verb from outside starts");
    let _group = jobs.group(pid);
    let _record = jobs.record(&name, &[pid]);
    let (frames, mut queue) = mpsc::channel::<Vec<u8>>(FRAMES);
    let (over, ended) = watch::channel(false);
    let pump = |(kind, pipe)| tokio::spawn(pump(pipe, kind, frames.clone(), ended.clone()));
    let pumps: Vec<_> = outputs.into_iter().map(pump).collect();
    drop(frames);
    let (took, mut taken) = mpsc::unbounded_channel::<u32>();
    let ends = if terminal.is_some() { Ends::Typed } else { Ends::Closed };
    let mut stdin = stdin.map(|pipe| {
        feed(pipe, ends, move |bytes| {
            let told = took.send(u32::try_from(bytes).unwrap_or(u32::MAX)).is_ok();
            std::future::ready(told)
        })
    });
    let exit = exit.wait(false);
    tokio::pin!(exit);
    let mut kill_at: Option<Instant> = None;
    let (mut end, mut gone, mut left, mut drained) = (None, false, false, false);
    // Until the verb has ended and all that it has written is out, or nobody is there to read it.
    while end.is_none() || !(gone || drained) {
        let grace = async {
            match kill_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            how = &mut exit, if end.is_none() => {
                end = Some(how);
                let _ = over.send(true);
            }
            frame = queue.recv(), if !gone && !drained => match frame {
                Some(frame) => gone = writer.write_all(&frame).await.is_err(),
                None => drained = true,
            },
            Some(count) = taken.recv(), if !gone => {
                if let Ok(frame) = outside::frame(kind::TAKEN, &count.to_be_bytes()) {
                    gone = writer.write_all(&frame).await.is_err();
                }
            }
            received = input.next(), if !gone => match received {
                Ok(Some((kind::INPUT, bytes))) => {
                    if let Some(stdin) = &stdin {
                        let _ = stdin.send(Some(bytes.into()));
                    }
                }
                Ok(Some((kind::INPUT_END, _))) => {
                    if let Some(stdin) = stdin.take() {
                        let _ = stdin.send(None);
                    }
                }
                Ok(Some((kind::SIGNAL, payload))) => {
                    if let Some(number) = payload.first() {
                        sys::signal_group(pid, i32::from(*number));
                    }
                }
                Ok(Some((kind::SIZE, payload))) => {
                    if let (Some(terminal), Some(size)) = (&terminal, Size::from_bytes(&payload)) {
                        terminal.resize(size);
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => gone = true,
            },
            () = grace => {
                kill_at = None;
                sys::signal_group(pid, libc::SIGKILL);
            }
        }
        if gone && !left {
            left = true;
            // As when a terminal is closed, or the reader of a pipe has gone; one that follows a job
            // would pass that on to it.
            let signal = match (follows, terminal.is_some()) {
                (true, _) => libc::SIGKILL,
                (false, true) => libc::SIGHUP,
                (false, false) => libc::SIGTERM,
            };
            sys::signal_group(pid, signal);
            kill_at = Some(Instant::now() + GRACE);
        }
    }
    for pump in pumps {
        pump.abort();
    }
    let code = match end {
        Some(TaskEnd::Exited(code)) => code,
        Some(TaskEnd::Signaled(signal)) => exit::signaled(signal),
        Some(TaskEnd::OutOfMemory) => exit::signaled(libc::SIGKILL),
        _ => exit::FAILED,
    };
    tracing::info!(session = %name, code, "a verb from outside has ended");
    End { code, error: None }
}

/// Sends a stream on until it ends, or until the verb is over and its pipe silent.
async fn pump(
    mut pipe: pipe::Receiver,
    kind: u8,
    frames: mpsc::Sender<Vec<u8>>,
    mut over: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; PIECE];
    loop {
        let ended = *over.borrow_and_update();
        tokio::select! {
            biased;
            // A terminal that nobody has open any more gives an error, which is its end.
            read = pipe.read(&mut bytes) => match read {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    let Ok(frame) = outside::frame(kind, &bytes[..count]) else { return };
                    if frames.send(frame).await.is_err() {
                        return;
                    }
                }
            },
            // Whoever still holds the pipe is not the verb.
            () = sleep(LAST_OUTPUT), if ended => return,
            changed = over.changed(), if !ended => if changed.is_err() { return },
        }
    }
}
