//! `quorate-agent top`: the queue on a full screen, again and again.
//!
//! Owns: asking, drawing, keys, and that the terminal is what it was when this ends, however it does.
//! What is drawn is the business of [`screen`].

mod screen;

use super::arguments::{now, print};
use super::client;
use super::protocol::{Done, Question, Selection, Shown};
use crate::query::Where;
use crate::sys;
use crate::terminal::{self, Raw};
use clap::Args;
use quorate_contract::exit;
use screen::{Act, Change, Desk, Seen};
use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Jobs that wait and are shown: nobody scrolls through more.
const MOST_WAITING: u64 = 200;

/// Into the other screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Show jobs, brokers and queues on a full screen, again and again.
///
/// q leaves; arrows mark a job, c cancels it, h holds it and r releases it, each after a question. Where
/// stdout is no terminal all of it is printed once.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Seconds between two looks
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    delay: f64,
    #[command(flatten)]
    place: Where,
}

impl TopArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        anyhow::ensure!(self.delay >= 0.1 && self.delay < 3600.0, "--delay is 0.1 to 3600 seconds");
        let socket = self.place.path();
        if !io::stdout().is_terminal() {
            let seen = look(&socket);
            print(&screen::once(&seen))?;
            return Ok(if seen.error.is_some() { exit::UNAVAILABLE } else { exit::OK });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let done = runtime.block_on(show(&socket, Duration::from_secs_f64(self.delay)));
        // A thread that waits for keys must not be waited for.
        runtime.shutdown_background();
        done
    }
}

/// The other screen, until it is dropped.
struct Full {
    _raw: Option<Raw>,
}

impl Full {
    fn enter() -> Self {
        let raw = Raw::enter();
        let _ = sys::write_all(libc::STDOUT_FILENO, ENTER.as_bytes());
        Self { _raw: raw }
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        let _ = sys::write_all(libc::STDOUT_FILENO, LEAVE.as_bytes());
    }
}

async fn show(socket: &Path, delay: Duration) -> anyhow::Result<i32> {
    let mut resized = signal(SignalKind::window_change())?;
    let mut ends = [
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
        signal(SignalKind::quit())?,
    ];
    // Only now is there nothing left that could end it without its leaving the screen.
    let _full = Full::enter();
    let mut typed = keyboard();
    let mut ticks = tokio::time::interval(delay);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut desk, mut seen) = (Desk::default(), Seen::default());
    loop {
        let [interrupt, terminate, hangup, quit] = &mut ends;
        tokio::select! {
            _ = ticks.tick() => seen = later(socket, look).await?,
            _ = resized.recv() => {}
            _ = interrupt.recv() => return Ok(exit::signaled(libc::SIGINT)),
            _ = terminate.recv() => return Ok(exit::signaled(libc::SIGTERM)),
            _ = hangup.recv() => return Ok(exit::signaled(libc::SIGHUP)),
            _ = quit.recv() => return Ok(exit::signaled(libc::SIGQUIT)),
            bytes = typed.recv() => {
                let Some(bytes) = bytes else { return Ok(exit::OK) };
                for key in screen::keys(&bytes) {
                    match desk.hit(key, &seen) {
                        None => {}
                        Some(Act::Leave) => return Ok(exit::OK),
                        Some(Act::Look) => seen = later(socket, look).await?,
                        Some(Act::Do(change, job)) => {
                            let jobs = Selection { ids: vec![job], ..Selection::default() };
                            desk.note = later(socket, move |socket| done(socket, change, jobs)).await?;
                            seen = later(socket, look).await?;
                        }
                    }
                }
            }
        }
        draw(&seen, &desk)?;
    }
}

/// Does something that waits on a thread of its own.
async fn later<T: Send + 'static>(
    socket: &Path,
    action: impl FnOnce(&Path) -> T + Send + 'static,
) -> anyhow::Result<T> {
    let socket: PathBuf = socket.to_owned();
    Ok(tokio::task::spawn_blocking(move || action(&socket)).await?)
}

/// One frame: over the last one, so that nothing flickers.
fn draw(seen: &Seen, desk: &Desk) -> io::Result<()> {
    let size = terminal::size().unwrap_or_default();
    let mut text = String::from("\x1b[H");
    for (at, line) in screen::frame(seen, desk, size).into_iter().enumerate() {
        text.push_str(if at > 0 { "\r\n" } else { "" });
        text.push_str(&line);
        text.push_str("\x1b[K");
    }
    sys::write_all(libc::STDOUT_FILENO, text.as_bytes())
}

/// What is typed; the end of the queue is the end of input.
fn keyboard() -> mpsc::Receiver<Vec<u8>> {
    let (queue, typed) = mpsc::channel(4);
    std::thread::spawn(move || {
        let mut block = [0; 256];
        while let Ok(count @ 1..) = io::stdin().lock().read(&mut block) {
            if queue.blocking_send(block[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    typed
}

/// What there is now.
fn look(socket: &Path) -> Seen {
    let asked = || -> anyhow::Result<Seen> {
        let jobs = |states: Vec<Shown>, last| {
            let selection = Selection { states, last, ..Selection::default() };
            client::quiet_list(socket, &Question::Jobs(selection))
        };
        let mut all = jobs(vec![Shown::Running], None)?;
        all.extend(jobs(vec![Shown::Pending], Some(MOST_WAITING))?);
        Ok(Seen {
            lanes: client::quiet_list(socket, &Question::Lanes)?,
            nodes: client::quiet_list(socket, &Question::Nodes)?,
            jobs: all,
            now: now(),
            error: None,
        })
    };
    asked().unwrap_or_else(|error| Seen { error: Some(format!("{error:#}")), ..Seen::default() })
}

/// Changes a job; gives what is to be said of it.
fn done(socket: &Path, change: Change, jobs: Selection) -> String {
    let (question, what) = match change {
        Change::Cancel => (Question::Cancel { jobs, note: "top".to_owned() }, "is cancelled"),
        Change::Hold => (Question::Hold(jobs), "is held"),
        Change::Release => (Question::Release(jobs), "is released"),
    };
    match client::quiet_list::<Done>(socket, &question) {
        Ok(done) => match done.first() {
            Some(Done { job, refused: Some(why) }) => format!("job {job}: {why}"),
            Some(Done { job, .. }) => format!("job {job} {what}"),
            None => "there is no such job any more".to_owned(),
        },
        Err(error) => format!("{error:#}"),
    }
}
