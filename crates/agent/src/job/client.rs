//! The command that was typed: between a terminal or pipe and the broker's socket.
//!
//! Owns: reading stdin under credit, writing output in order, passing signals on, and the exit code.
//! Output is written by a thread of its own, so that a slow reader never keeps a signal waiting.

use super::protocol::{Placed, STDIN_WINDOW, kind, piece, taken};
use crate::launch::stdio::Merge;
use crate::local::{self, End, Hello, LocalError};
use crate::logs::chain;
use bytes::Bytes;
use quorate_contract::{env, exit, paths};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A second interrupt within this time kills.
const TWICE: Duration = Duration::from_secs(1);

/// How long a killed job may take to say its end.
const LAST_WORD: Duration = Duration::from_secs(20);

/// Bytes of stdin sent at once.
const BLOCK: usize = 16 * 1024;

/// What lines of output are labelled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// Nothing.
    None,
    /// The task's rank.
    Task,
    /// The rank of the task's broker, if there is more than one.
    Broker,
}

/// How a call is made.
#[derive(Debug)]
pub struct Options {
    /// Labels of output lines.
    pub labels: Labels,
    /// Passes stdin on.
    pub stdin: bool,
    /// The other side first tells where the tasks are.
    pub waits_for_placement: bool,
}

/// The socket of this pod's broker: the flag, the variable that the agent sets, or the usual path.
pub fn socket(flag: Option<PathBuf>) -> PathBuf {
    flag.or_else(|| std::env::var_os(env::SOCKET).map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from(paths::RUN_DIR).join(paths::SOCKET))
}

/// This process's environment, as requests carry it.
pub fn own_environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .map(|(name, value)| {
            (crate::launch::text::encode(name), crate::launch::text::encode(value))
        })
        .collect()
}

/// Makes a call and carries it to its end.
pub fn call(socket: &std::path::Path, hello: &Hello, options: &Options) -> Result<End, LocalError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(LocalError::Broken)?;
    let end = runtime.block_on(converse(socket, hello, options));
    // A thread that waits for stdin must not be waited for.
    runtime.shutdown_background();
    end
}

async fn converse(
    socket: &std::path::Path,
    hello: &Hello,
    options: &Options,
) -> Result<End, LocalError> {
    let mut signals = Signals::new().map_err(LocalError::Broken)?;
    let connection = local::connect(socket, hello).await?;
    let (mut from, to) = connection.split();
    let mut to = Telling(to);
    let mut output = Output::new(options.labels);
    let mut stdin = options.stdin.then(read_stdin);
    let mut under_way = 0;
    let mut interrupted: Option<Instant> = None;
    let mut begun = false;
    let mut give_up: Option<Instant> = None;
    loop {
        let limit = async {
            match give_up {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let input = async {
            match &mut stdin {
                Some(blocks) if under_way < STDIN_WINDOW => blocks.recv().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            frame = from.recv() => match frame? {
                Some((kind::TAKEN, payload)) => {
                    under_way = under_way.saturating_sub(taken(&payload).unwrap_or(0) as usize);
                }
                Some((kind::PLACED, payload)) => {
                    begun = true;
                    if let Ok(placed) = serde_json::from_slice(&payload) {
                        output.placed(&placed);
                    }
                }
                Some((local::kind::END, payload)) => {
                    let end: End =
                        serde_json::from_slice(&payload).map_err(LocalError::Unreadable)?;
                    return Ok(output.finish(end).await);
                }
                Some((kind @ (kind::OUT | kind::ERR | kind::NOTICE), payload)) => {
                    if output.send(kind, payload).await.is_err() {
                        // Nobody reads any more; what a program does that gets SIGPIPE.
                        to.tell(kind::OUTPUT_CLOSED, &[]).await;
                        return Ok(End { code: exit::signaled(libc::SIGPIPE), error: None });
                    }
                }
                Some(_) => {}
                None => return Err(LocalError::NoEnd),
            },
            block = input => if let Some(block) = block {
                under_way += block.len();
                to.tell(kind::STDIN, &block).await;
            } else {
                stdin = None;
                to.tell(kind::STDIN_END, &[]).await;
            },
            () = limit => {
                let error = Some("the broker does not tell the end of the job".to_string());
                return Ok(End { code: exit::BROKER_LOST, error });
            }
            number = signals.next() => {
                let ends = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
                if options.waits_for_placement && !begun && ends.contains(&number) {
                    // There is nobody yet to pass it on to: leaving cancels.
                    return Ok(End { code: exit::signaled(number), error: None });
                }
                if number == libc::SIGINT {
                    if interrupted.is_some_and(|before| before.elapsed() < TWICE) {
                        to.tell(kind::KILL, &[]).await;
                        give_up.get_or_insert(Instant::now() + LAST_WORD);
                        continue;
                    }
                    interrupted = Some(Instant::now());
                }
                to.tell(kind::SIGNAL, &[number as u8]).await;
                if number == libc::SIGTSTP {
                    // Stops here like any program; SIGCONT is passed on when it comes.
                    let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
                }
            }
        }
    }
}

/// The way to the broker. It may have said its last word already, which is then still to be read:
/// what cannot be told any more is no failure.
struct Telling(local::WriteHalf);

impl Telling {
    async fn tell(&mut self, kind: u8, payload: &[u8]) {
        let _ = self.0.send(kind, payload).await;
    }
}

/// Signals that are passed on.
struct Signals {
    all: Vec<(i32, Signal)>,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let numbers = [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGQUIT,
            libc::SIGUSR1,
            libc::SIGUSR2,
            libc::SIGCONT,
            libc::SIGTSTP,
        ];
        let all = numbers
            .into_iter()
            .map(|number| Ok((number, signal(SignalKind::from_raw(number))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self { all })
    }

    async fn next(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            for (number, signal) in &mut self.all {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// Blocks of stdin; the end of the queue is the end of stdin.
fn read_stdin() -> mpsc::Receiver<Vec<u8>> {
    let (queue, blocks) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut block = vec![0; BLOCK];
        loop {
            match stdin.read(&mut block) {
                Ok(0) => return,
                Ok(count) => {
                    if queue.blocking_send(block[..count].to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    blocks
}

/// A piece of output with its kind.
type Piece = (u8, Bytes);

/// Writes output. The thread starts with the first piece.
struct Output {
    labels: Labels,
    brokers: HashMap<u32, u32>,
    writer: Option<(mpsc::Sender<Piece>, std::thread::JoinHandle<()>)>,
}

impl Output {
    fn new(labels: Labels) -> Self {
        Self { labels, brokers: HashMap::new(), writer: None }
    }

    fn placed(&mut self, placed: &Placed) {
        if self.labels != Labels::Broker {
            return;
        }
        if placed.placement.pods() < 2 {
            self.labels = Labels::None;
            return;
        }
        for (broker, ranks) in placed.placement.ranks() {
            self.brokers.extend(ranks.into_iter().map(|rank| (rank, broker)));
        }
    }

    /// Hands a piece to the writer. An error says that nobody reads stdout any more.
    async fn send(&mut self, kind: u8, payload: Bytes) -> Result<(), ()> {
        let (queue, _) = self.writer.get_or_insert_with(|| {
            let (queue, pieces) = mpsc::channel(16);
            let label = self.labels != Labels::None;
            let brokers = std::mem::take(&mut self.brokers);
            (queue, std::thread::spawn(move || write(pieces, label, &brokers)))
        });
        queue.send((kind, payload)).await.map_err(|_| ())
    }

    /// Waits until all is written, then says what went wrong.
    async fn finish(mut self, end: End) -> End {
        if let Some((queue, thread)) = self.writer.take() {
            drop(queue);
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        end
    }
}

/// The writer's thread: ends when stdout is closed by its reader.
fn write(mut pieces: mpsc::Receiver<Piece>, label: bool, brokers: &HashMap<u32, u32>) {
    let (mut out, mut err) = (Merge::new(label), Merge::new(label));
    let mut buffer = Vec::new();
    while let Some((kind, payload)) = pieces.blocking_recv() {
        buffer.clear();
        if kind == kind::NOTICE {
            let _ = writeln!(io::stderr(), "quorate: {}", String::from_utf8_lossy(&payload));
            continue;
        }
        let Some((rank, bytes)) = piece(payload) else { continue };
        let rank = brokers.get(&rank).copied().unwrap_or(rank);
        let merge = if kind == kind::OUT { &mut out } else { &mut err };
        merge.piece(rank, &bytes, &mut buffer);
        if kind == kind::OUT {
            // Straight to the descriptor: Rust's own buffer would hold lines back.
            if crate::sys::write_all(libc::STDOUT_FILENO, &buffer).is_err() {
                return;
            }
        } else {
            // A closed stderr is no reason to stop.
            let _ = crate::sys::write_all(libc::STDERR_FILENO, &buffer);
        }
    }
}

/// Prints what an end has to say and gives its code.
pub fn conclude(end: Result<End, LocalError>, failed: i32) -> i32 {
    let (code, error) = match end {
        Ok(End { code, error }) => (code, error),
        Err(error) => (failed, Some(chain(&error))),
    };
    if let Some(error) = error {
        let _ = writeln!(io::stderr(), "quorate: {error}");
    }
    code
}
