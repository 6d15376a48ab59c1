//! The queue as it is when this broker's life begins: its log, read, and its settings.
//!
//! Owns: where the log is, reading it beside the broker's other work, and the queues that the
//! configuration names. What a log means is [`quorate_queue::Queue::replay`].

use super::asked::Command;
use super::store::{Opened, Store};
use crate::broker::Overlay;
use crate::logs::chain;
use quorate_contract::AgentConfig;
use quorate_contract::config::NamedQueue;
use quorate_queue::{Entry, Event, Lane, Limits, Policy, Queue, Settings, Time};
use std::path::PathBuf;
use tokio::sync::mpsc;

/// Where the log is.
pub(in crate::queue) fn directory(overlay: &Overlay) -> PathBuf {
    match &overlay.config().queue.state_dir {
        Some(dir) => PathBuf::from(dir),
        None => overlay.settings().run_dir.join("queue"),
    }
}

/// This boot of the machine, as the kernel names it; a name of this process where that is not told.
pub(super) fn boot() -> &'static str {
    static BOOT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    BOOT.get_or_init(|| {
        let told = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        told.map_or_else(|_| format!("process {}", std::process::id()), |id| id.trim().to_owned())
    })
}

/// How this cluster's queue works.
pub(super) fn settings(overlay: &Overlay) -> Settings {
    let policy = if overlay.config().queue.fifo { Policy::Fifo } else { Policy::Easy };
    Settings { policy, may_grow: true, lanes: lanes(overlay.config()), ..Settings::default() }
}

/// What a log says.
pub(super) struct Log {
    pub(super) store: Store,
    pub(super) queue: Queue,
    /// When the last of it happened.
    pub(super) latest: Time,
    /// Jobs in it that the queue does not know any more.
    pub(super) forgotten: usize,
}

/// Reads the log. It may be long, and the broker has others to talk to meanwhile.
pub(super) async fn open(overlay: &Overlay, dir: &std::path::Path) -> Result<Log, String> {
    let settings = settings(overlay);
    let dir = dir.to_owned();
    let read = move || {
        let Opened { store, entries, damaged, notes } =
            Store::open(&dir).map_err(|error| chain(&error))?;
        for note in notes {
            tracing::warn!(note, "the queue's log was damaged");
        }
        let latest = entries.iter().map(|entry| entry.time).max().unwrap_or_default();
        let taken = |entry: &&Entry| matches!(entry.event, Event::Submit(_) | Event::Copy(_));
        let taken = entries.iter().filter(taken).count();
        let mut replayed =
            Queue::replay(settings, entries, damaged).map_err(|error| chain(&error))?;
        replayed.queue.boot_is(boot());
        for (job, reason) in &replayed.set_aside {
            tracing::warn!(%job, reason, "a job of the queue's log is set aside");
        }
        let forgotten = taken.saturating_sub(replayed.queue.jobs().count());
        Ok(Log { store, queue: replayed.queue, latest, forgotten })
    };
    let failed = |_| "reading the queue's log failed".to_owned();
    tokio::task::spawn_blocking(read).await.map_err(failed)?
}

/// The queues as the configuration has them.
fn lanes(config: &AgentConfig) -> Vec<Lane> {
    let queues = &config.queue.queues;
    if queues.is_empty() {
        return Settings::default().lanes;
    }
    let lane = |queue: &NamedQueue| {
        // A broker's group is one of its properties.
        let groups = queue.groups.join("|");
        let requires = (!groups.is_empty()).then(|| {
            groups.parse().expect("it parses because names of groups are words of a constraint")
        });
        let limits = Limits {
            nodes: queue.max_nodes,
            tasks: queue.max_tasks,
            cores: queue.max_cores.map(u64::from),
            gpus: queue.max_gpus.map(u64::from),
            time: queue.max_time_seconds.map(u64::from),
            default_time: queue.default_time_seconds.map(u64::from),
        };
        Lane { requires, limits, ..Lane::named(&queue.name) }
    };
    queues.iter().map(lane).collect()
}

/// Answers everything with a refusal.
pub(super) async fn refuse(mut commands: mpsc::Receiver<Command>, why: &str) {
    while let Some(command) = commands.recv().await {
        if let Command::Submit(submit) = command {
            let _ = submit.reply.send(Err(why.to_owned()));
        }
    }
}
