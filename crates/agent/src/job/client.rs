//! The command that was typed: between a terminal or pipe and the broker's socket.
//!
//! Owns: reading stdin under credit, writing output in order, passing signals on, the terminal while a
//! task is at it, and the exit code. Output is written by a thread of its own ([`output`]), so that a slow
//! reader never keeps a signal waiting.

mod output;

use super::protocol::{STDIN_WINDOW, kind, taken};
use crate::local::{self, End, Hello, LocalError};
use crate::logs::chain;
use crate::terminal::{self, Raw};
use output::{Output, Printer};
use quorate_contract::{env, exit, paths};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// Nothing.
    #[default]
    None,
    /// The task's rank.
    Task,
    /// The task's rank, made so wide with blanks before it.
    Padded(usize),
    /// The rank of the task's broker, if there is more than one.
    Broker,
}

/// How a call is made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Labels of output lines.
    pub labels: Labels,
    /// Passes stdin on.
    pub stdin: bool,
    /// The other side first tells where the tasks are.
    pub waits_for_placement: bool,
    /// This process's terminal is that of the task of rank 0, once it has one.
    pub terminal: bool,
    /// How long a job of the queue may wait for its nodes, before it is given up.
    pub patience: Option<Duration>,
}

/// One of several calls that are made at once.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is asked for.
    pub hello: Hello,
    /// The number of the job, for its lines.
    pub job: u64,
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
pub fn call(socket: &Path, hello: &Hello, options: &Options) -> Result<End, LocalError> {
    let runtime = runtime()?;
    let end = runtime.block_on(async {
        let printer = Arc::new(Printer::default());
        let output = Output::new(options.labels, None, printer.clone());
        let conversation =
            Conversation { options: options.clone(), output, leads: true, raw: None };
        let (end, raw) = conversation.run(socket, hello).await;
        printer.finish().await;
        // The terminal is what it was only when all is written.
        drop(raw);
        end
    });
    // A thread that waits for stdin must not be waited for.
    runtime.shutdown_background();
    end
}

/// Makes several calls at once, whose lines begin with their jobs, and carries them to their ends. Nobody
/// gets stdin; signals go to all. Gives the end of each.
pub fn call_all(
    socket: &Path,
    calls: Vec<Call>,
    labels: Labels,
) -> Result<Vec<Result<End, LocalError>>, LocalError> {
    let runtime = runtime()?;
    let options = Options { labels, ..Options::default() };
    let ends = runtime.block_on(async {
        let printer = Arc::new(Printer::default());
        let begin = |(place, Call { hello, job }): (usize, Call)| {
            let output = Output::new(labels, Some(job), printer.clone());
            let options = options.clone();
            let conversation = Conversation { options, output, leads: place == 0, raw: None };
            let socket = socket.to_owned();
            tokio::spawn(async move { conversation.run(&socket, &hello).await.0 })
        };
        let running: Vec<_> = calls.into_iter().enumerate().map(begin).collect();
        let mut ends = Vec::with_capacity(running.len());
        for one in running {
            ends.push(one.await.unwrap_or(Err(LocalError::NoEnd)));
        }
        printer.finish().await;
        ends
    });
    Ok(ends)
}

fn runtime() -> Result<tokio::runtime::Runtime, LocalError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(LocalError::Broken)
}

/// One call while it lasts.
struct Conversation {
    options: Options,
    output: Output,
    /// Of several this one stops the process, when it is to stop.
    leads: bool,
    raw: Option<Raw>,
}

impl Conversation {
    /// Carries it to its end; what is left of it is the terminal's mode.
    async fn run(mut self, socket: &Path, hello: &Hello) -> (Result<End, LocalError>, Option<Raw>) {
        let end = self.converse(socket, hello).await;
        (end, self.raw)
    }

    async fn converse(&mut self, socket: &Path, hello: &Hello) -> Result<End, LocalError> {
        let Options { stdin, waits_for_placement, terminal, .. } = self.options;
        let mut signals = Signals::new(terminal).map_err(LocalError::Broken)?;
        let connection = local::connect(socket, hello).await?;
        let (mut from, to) = connection.split();
        let mut to = Telling(to);
        let mut stdin = stdin.then(read_stdin);
        let mut under_way = 0;
        let mut interrupted: Option<Instant> = None;
        let mut begun = false;
        let mut give_up: Option<Instant> = None;
        let mut patience = self.options.patience.map(|limit| Instant::now() + limit);
        loop {
            let limit = async {
                match give_up {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let late = async {
                match patience {
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
                            self.output.placed(&placed);
                        }
                        self.at_terminal(&mut to).await;
                    }
                    Some((kind::BEGUN, _)) => patience = None,
                    Some((kind::TERMINAL, _)) => self.at_terminal(&mut to).await,
                    Some((local::kind::END, payload)) => {
                        return serde_json::from_slice(&payload).map_err(LocalError::Unreadable);
                    }
                    Some((kind @ (kind::OUT | kind::ERR | kind::NOTICE), payload)) => {
                        if self.output.send(kind, payload, self.raw.is_some()).await.is_err() {
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
                // Leaving ends a job that is there for this client alone.
                () = late => return Err(LocalError::TooLate),
                () = limit => {
                    let error = Some("the broker does not tell the end of the job".to_string());
                    return Ok(End { code: exit::BROKER_LOST, error });
                }
                number = signals.next() => {
                    if number == libc::SIGWINCH {
                        if self.raw.is_some() {
                            tell_size(&mut to).await;
                        }
                        continue;
                    }
                    let ends = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
                    if waits_for_placement && !begun && ends.contains(&number) {
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
                    if number == libc::SIGTSTP && self.leads {
                        self.stop_here();
                    }
                }
            }
        }
    }

    /// The task has its terminal: from here on this one is only its screen and its keys.
    async fn at_terminal(&mut self, to: &mut Telling) {
        if self.options.terminal && self.raw.is_none() {
            self.raw = Raw::enter();
            // It may have changed since the job was asked for.
            tell_size(to).await;
        }
    }

    /// Stops like any program; SIGCONT is passed on when it comes.
    fn stop_here(&self) {
        if let Some(raw) = &self.raw {
            raw.leave();
        }
        let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
        if let Some(raw) = &self.raw {
            raw.again();
        }
    }
}

async fn tell_size(to: &mut Telling) {
    if let Some(size) = terminal::size() {
        to.tell(kind::RESIZE, &size.to_bytes()).await;
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
    fn new(terminal: bool) -> io::Result<Self> {
        let mut numbers = vec![
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGQUIT,
            libc::SIGUSR1,
            libc::SIGUSR2,
            libc::SIGCONT,
            libc::SIGTSTP,
        ];
        if terminal {
            numbers.push(libc::SIGWINCH);
        }
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
