//! The front of a run: what the user sees and types, while the keeper holds the cluster.
//!
//! The launcher's output is copied by threads, byte for byte, to where the front's own goes and to
//! the log; everything else is one loop over the keeper's notices, live status, signals and time.

mod output;

use crate::control::{Channel, Finish, Notice, Order};
use crate::keeper::end_descendants;
use crate::progress::{Ending, Line, Progress};
use crate::registry::ClusterDir;
use crate::sandbox::Keeper;
use crate::terminal::Terminal;
use anyhow::Context as _;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::waitpid;
use output::Pumps;
use quorate_contract::report::Report;
use quorate_contract::status::ClusterStatus;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often a redrawn line turns.
const TURN: Duration = Duration::from_millis(100);
/// How often a wait is looked at where nothing is redrawn.
const LOOK: Duration = Duration::from_secs(1);

/// What the front needs.
pub struct Front {
    /// The connection to the keeper.
    pub channel: Channel,
    /// The keeper.
    pub keeper: Keeper,
    /// The cluster's directory.
    pub dir: ClusterDir,
    /// The words.
    pub progress: Progress,
    /// A spinner may turn.
    pub redraw: bool,
    /// The launcher's pod, as people call it.
    pub launcher: String,
    /// Signals of the user.
    pub signals: SignalFd,
    /// Where what the user types goes; only if standard input is a terminal.
    pub typed: Option<OwnedFd>,
    /// Leave the cluster as soon as it is quorate.
    pub leave: bool,
    /// When the run began.
    pub started: Instant,
    /// Columns of the terminal.
    pub width: usize,
}

/// How the front's part ended.
pub enum Departure {
    /// The cluster has ended.
    Ended {
        /// How.
        finish: Finish,
        /// What the launcher left behind.
        report: Option<Box<Report>>,
        /// The time from the start to here.
        wall: Duration,
    },
    /// It stays, and the front has left it.
    Left,
}

struct View {
    progress: Progress,
    terminal: Arc<Mutex<Terminal>>,
}

impl View {
    fn show(&mut self, lines: Vec<Line>) {
        let Ok(mut terminal) = self.terminal.lock() else { return };
        for line in lines {
            match line {
                Line::Keep(text) => terminal.line(&text),
                Line::Live(text) => terminal.live(&text),
            }
        }
    }
}

impl Front {
    /// Follows the cluster to its end, or until it can be left.
    pub fn follow(self) -> anyhow::Result<Departure> {
        let Self {
            channel,
            keeper,
            dir,
            progress,
            redraw,
            launcher,
            signals,
            typed,
            leave,
            started,
            width,
        } = self;
        set_child_subreaper(true).context("cannot adopt orphans")?;
        let terminal = Arc::new(Mutex::new(Terminal::new(width)));
        let mut view = View { progress, terminal: Arc::clone(&terminal) };
        view.show(view.progress.header());
        let log = dir.path.join(format!("{launcher}.log"));
        let mut pumps = Pumps::new(log, terminal).context("cannot prepare for output")?;
        if let Some(typed) = typed {
            output::pump_input(typed);
        }
        let mut status: Option<StatusLines> = None;
        let mut finish: Option<Finish> = None;
        let mut report: Option<Report> = None;
        let mut asked = 0;
        loop {
            let waiting = finish.is_none() && !view.progress.is_quorate();
            let timeout = match (waiting, redraw) {
                (false, _) => PollTimeout::NONE,
                (true, true) => PollTimeout::try_from(TURN).unwrap_or(PollTimeout::MAX),
                (true, false) => PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::MAX),
            };
            let [notice, signal, closed, news] = wait(
                [
                    Some(channel.as_fd()),
                    Some(signals.as_fd()),
                    pumps.closed(),
                    status.as_ref().map(|s| s.file.as_fd()),
                ],
                timeout,
            );
            if signal {
                while let Ok(Some(signal)) = signals.read_signal() {
                    asked += 1;
                    if asked > 2 {
                        // The keeper did not listen; with it everything ends.
                        let _ = kill(keeper.pid, Signal::SIGKILL);
                        continue;
                    }
                    interrupt(&channel, signal.ssi_signo.cast_signed(), asked, &mut view);
                }
            }
            if closed && pumps.take_closed() {
                // Nobody reads any more: as for any program that writes to a closed pipe.
                let _ = channel.send(&Order::Kill { number: libc::SIGPIPE }, &[]);
            }
            if news && let Some(lines) = &mut status {
                let (all, open) = lines.read();
                for cluster in all {
                    let lines = view.progress.status(cluster, started.elapsed());
                    view.show(lines);
                }
                if !open {
                    status = None;
                }
                if leave && view.progress.is_quorate() && finish.is_none() {
                    channel.send(&Order::Detach, &[]).context("cannot leave the cluster")?;
                    return Ok(Departure::Left);
                }
            }
            if !(notice || signal || closed || news) {
                let lines = view.progress.tick(started.elapsed());
                view.show(lines);
            }
            if !notice {
                continue;
            }
            let Some((notice, files)) = channel.receive::<Notice>().unwrap_or(None) else { break };
            match notice {
                Notice::Output { .. } => pumps.add(files),
                Notice::Status => {
                    status = files.into_iter().next().map(|fd| StatusLines::new(File::from(fd)));
                }
                Notice::Started { .. } => {
                    let lines = view.progress.pod_started(started.elapsed());
                    view.show(lines);
                }
                Notice::Ended { pod, report: left, .. } => {
                    if pod == launcher {
                        report = left.map(|report| *report);
                    }
                }
                Notice::Restarted { attempt, max_restarts, message } => {
                    status = None;
                    report = None;
                    let lines = view.progress.restarted(attempt, max_restarts, &message);
                    view.show(lines);
                }
                Notice::Finished(how) => finish = Some(how),
            }
        }
        if finish.is_none() {
            // Without a sandbox, what the keeper held has come to this process.
            end_descendants();
        }
        let _ = waitpid(keeper.pid, None);
        pumps.finish();
        let finish = finish.unwrap_or_else(|| Finish {
            code: quorate_contract::exit::INTERNAL,
            completed: false,
            reason: "KeeperLost".into(),
            message: "the process that held the cluster died".into(),
        });
        if finish.reason == "Forbidden" {
            dir.remove();
            return Ok(Departure::Ended { finish, report: None, wall: started.elapsed() });
        }
        // Who ended the cluster knows why it ended.
        let wanted = matches!(finish.reason.as_str(), "Deleted" | "Interrupted");
        let keep = !finish.completed && !wanted && asked == 0;
        let shown = keep.then(|| tilde(&dir.path));
        let ending = Ending { finish: &finish, report: report.as_ref(), logs: shown.as_deref() };
        let lines = view.progress.ended(ending, started.elapsed());
        view.show(lines);
        if keep {
            let record = serde_json::json!({
                "code": finish.code, "reason": finish.reason, "message": finish.message,
                "report": report,
            });
            dir.keep(&record.to_string()).context("cannot keep the logs")?;
        } else {
            dir.remove();
        }
        Ok(Departure::Ended { finish, report: report.map(Box::new), wall: started.elapsed() })
    }
}

/// The first signal is the program's business, the second ends everything.
fn interrupt(channel: &Channel, number: i32, asked: u32, view: &mut View) {
    let (order, words) = if asked == 1 {
        let words = if number == libc::SIGINT {
            "passed on to the program; once more ends everything"
        } else {
            "the cluster ends; once more ends it at once"
        };
        (Order::Signal { number }, words)
    } else {
        (Order::Kill { number }, "everything ends")
    };
    let lines = view.progress.interrupted(words);
    view.show(lines);
    // A keeper that is gone has no program to ask; the loop will see that.
    let _ = channel.send(&order, &[]);
}

/// Waits for any of some descriptors; which can be read.
fn wait<const N: usize>(
    fds: [Option<std::os::fd::BorrowedFd<'_>>; N],
    timeout: PollTimeout,
) -> [bool; N] {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().flatten().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    if poll(&mut polled, timeout).is_err() {
        return [false; N];
    }
    let mut events = polled.iter().map(|fd| fd.revents().is_some_and(|e| !e.is_empty()));
    fds.map(|fd| fd.is_some() && events.next().unwrap_or(false))
}

/// Lines of [`ClusterStatus`] as they come.
struct StatusLines {
    file: File,
    rest: Vec<u8>,
}

impl StatusLines {
    fn new(file: File) -> Self {
        Self { file, rest: Vec::new() }
    }

    /// What has come, and whether more can. Call when the file is readable.
    fn read(&mut self) -> (Vec<ClusterStatus>, bool) {
        let mut buffer = [0; 16 * 1024];
        let count = self.file.read(&mut buffer).unwrap_or(0);
        self.rest.extend_from_slice(&buffer[..count]);
        let mut all = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            // A line of another version's agent is no reason to fail: it is only shown.
            all.extend(serde_json::from_slice(&line));
        }
        (all, count > 0)
    }
}

/// A path as people write it, with `~` for their home.
fn tilde(path: &std::path::Path) -> String {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    match home.and_then(|home| path.strip_prefix(home).ok().map(std::path::Path::to_owned)) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}
