//! The tasks of one job in this pod while they run, and what is swept after them.
//!
//! Owns: what reaches all of them (input, signals, the order to end), what the leader is told of them, and
//! the removal of what they leave.

use super::FILES;
use super::stdin::Stdin;
use super::task::Running;
use crate::broker::Overlay;
use crate::job::protocol::{self, Abort, Deserted, EndedTask, Launch, Waiting, kind, message};
use crate::job::uplink::Uplink;
use crate::job::{Jobs, held, kept};
use crate::launch::outcome::{Session, TaskEnd};
use crate::launch::records::Recorded;
use crate::launch::spawn::terminal::Size;
use crate::launch::stdio::Slowest;
use crate::launch::{environment, sweep};
use crate::process_management::{Event, Server};
use crate::sys;
use bytes::Bytes;
use quorate_contract::env as names;
use quorate_pmi::Sequence;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::SystemTime;
use tokio::sync::mpsc;

/// What happens in this pod.
pub(super) enum Here {
    Ended(Box<EndedTask>),
    Took { task: usize, bytes: u64 },
}

/// The tasks of one job in this pod.
pub(super) struct Tasks<'a> {
    pub(super) jobs: &'a Jobs,
    pub(super) overlay: &'a Overlay,
    pub(super) launch: Launch,
    pub(super) node: u32,
    pub(super) ranks: Vec<u32>,
    pub(super) uplink: Uplink,
    pub(super) here: mpsc::UnboundedSender<Here>,
    pub(super) pmi_events: mpsc::UnboundedSender<Event>,
    pub(super) running: Vec<Running>,
    pub(super) server: Option<Server>,
    pub(super) taken: Slowest,
    pub(super) stdin: Stdin,
    pub(super) since: SystemTime,
    /// Something was killed, or ended badly: look for what is left.
    pub(super) rough: bool,
    pub(super) spoke: bool,
    pub(super) record: Option<Recorded>,
    pub(super) dir: PathBuf,
}

impl Tasks<'_> {
    pub(super) async fn happened(&mut self, happening: Here) {
        match happening {
            Here::Ended(task) => {
                self.rough |=
                    task.ended.end != TaskEnd::Exited(0) || task.ended.session == Session::Open;
                self.spoke |= task.wire.is_some();
                let index = self.running.iter().position(|t| t.rank == task.ended.rank);
                if let Some(index) = index {
                    self.running[index].alive = false;
                    self.running[index].stdin = None;
                    self.running[index].terminal = None;
                    self.taken.gone(index);
                }
                self.uplink.say(protocol::json(kind::ENDED, &*task)).await;
            }
            Here::Took { task, bytes } => {
                let more = self.taken.took(task, bytes);
                if more > 0 {
                    let more = u32::try_from(more).unwrap_or(u32::MAX);
                    self.uplink.tell(message(kind::TAKEN, &more.to_be_bytes())).await;
                }
            }
        }
    }

    /// Passes stdin on to the tasks that get it; `None` is its end.
    pub(super) fn input(&mut self, bytes: Option<Bytes>) {
        let bytes = bytes.map(|bytes| self.stdin.fresh(bytes));
        self.stdin.ended |= bytes.is_none();
        for task in &mut self.running {
            if let Some(stdin) = &task.stdin {
                let _ = stdin.send(bytes.clone());
                if bytes.is_none() {
                    task.stdin = None;
                }
            }
        }
    }

    pub(super) fn resize(&self, size: &[u8]) {
        let Some(size) = Size::from_bytes(size) else { return };
        for terminal in self.running.iter().filter_map(|task| task.terminal.as_ref()) {
            terminal.resize(size);
        }
    }

    /// Tells the leader of an event among the ranks.
    pub(super) async fn tell(&self, event: Event) {
        let lasts = !matches!(event, Event::Waiting(_));
        let message = told(event);
        if lasts {
            self.uplink.say(message).await;
        } else {
            self.uplink.tell(message).await;
        }
    }

    /// What is remembered when all tasks have ended.
    pub(super) fn ended(&self) -> Option<held::Ended> {
        let met = self.server.as_ref().is_some_and(Server::has_met);
        Some(held::Ended {
            held: held::Held { live: false, met, ..held::of(&self.launch)? },
            uplink: self.uplink.clone(),
            stdin: (self.stdin.given, self.stdin.ended),
        })
    }

    pub(super) fn signal(&self, signal: i32) {
        for task in self.running.iter().filter(|task| task.alive && task.pid > 0) {
            if signal == libc::SIGKILL {
                task.told.store(true, Ordering::Relaxed);
            }
            sys::signal_group(task.pid, signal);
        }
    }

    /// Asks all tasks to end; a stopped one must run to hear it.
    pub(super) fn stop(&self) {
        for task in self.running.iter().filter(|task| task.alive && task.pid > 0) {
            task.told.store(true, Ordering::Relaxed);
            sys::signal_group(task.pid, libc::SIGTERM);
            if task.terminal.is_some() {
                // Shells at a terminal pass over SIGTERM: it is gone when they are to end.
                sys::signal_group(task.pid, libc::SIGHUP);
            }
            sys::signal_group(task.pid, libc::SIGCONT);
        }
    }

    /// Removes what the tasks have left.
    pub(super) fn clean_up(&mut self) {
        if let Some(server) = &self.server {
            for cleanup in server.close() {
                sweep::registered(&cleanup);
            }
        }
        if let (true, Some(queued)) = (self.launch.command.keep_files, self.launch.queued) {
            kept::keep(&self.overlay.settings().run_dir, queued, &self.dir.join(FILES));
        }
        if self.server.is_some() || self.launch.command.files.is_some() {
            // A rank may have had its session directory removed, which this one is.
            if let Err(error) = std::fs::remove_dir_all(&self.dir)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(%error, dir = %self.dir.display(), "a job's directory stays");
            }
        }
        if self.rough {
            let mark =
                environment::mark(self.overlay.settings(), &format!("job-{}", self.launch.job));
            sweep::kill_marked(names::MARK, &mark);
            if self.spoke {
                sweep::shared_memory(Path::new("/dev/shm"), self.since);
            }
        }
        self.record = None;
    }
}

/// What the leader is told of an event among the ranks.
fn told(event: Event) -> Bytes {
    match event {
        Event::Abort { rank, code, message } => {
            protocol::json(kind::ABORT, &Abort { rank, code, message })
        }
        Event::Deserted { rank, initialized } => {
            protocol::json(kind::DESERTED, &Deserted { rank, initialized })
        }
        Event::Waiting(Sequence { protocol, number }) => {
            protocol::json(kind::WAITING, &Waiting { protocol: protocol as usize, number })
        }
    }
}
