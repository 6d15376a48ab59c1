//! The course of a job from its launch to its outcome: each event, and what follows from it.

use super::again::Input;
use super::desertion::{Deserter, Desertion};
use super::events::{Event, Sink};
use super::leaving::Leaving;
use super::{KILL_GRACE, Led, NO_WIRE, START_LIMIT};
use crate::broker::{CastFailed, Offline, Overlay};
use crate::job::protocol::{
    self, Abort, Deserted, EndedTask, Finished, LAUNCH, ORDER, Order, Waiting, What, body, kind,
    message, number,
};
use crate::launch::outcome::{Cancel, Judge, Session, TaskEnd, Verdict};
use crate::launch::stdio::Slowest;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;

/// How much longer than the grace a member may take to report the end of its tasks.
const END_LIMIT: Duration = Duration::from_secs(15);

/// News of brokers that are gone or were not reached.
pub(super) struct Losses {
    pub(super) offline: broadcast::Receiver<Offline>,
    pub(super) unreached: broadcast::Receiver<CastFailed>,
}

pub(super) struct Job<'a> {
    pub(super) overlay: &'a Overlay,
    pub(super) number: u64,
    /// Its tasks go on when this broker dies.
    pub(super) kept: bool,
    /// Since when it is led here, and how long it had run by then.
    pub(super) began: Instant,
    pub(super) age: Duration,
    pub(super) sink: Sink,
    pub(super) events: mpsc::UnboundedSender<Event>,
    pub(super) judge: Judge,
    pub(super) desertion: Desertion,
    /// Tasks by broker whose end is not known.
    pub(super) left: BTreeMap<u32, u32>,
    /// The place of each broker in the job.
    pub(super) nodes: HashMap<u32, usize>,
    /// Members that read standard input, with what came before them.
    pub(super) stdin: HashMap<u32, Vec<Bytes>>,
    /// The ways to members that have come.
    pub(super) lines: HashMap<u32, mpsc::UnboundedSender<Bytes>>,
    pub(super) rereads: Input,
    /// Pieces of output that a former leader has written, by broker.
    pub(super) taken_before: BTreeMap<u32, u64>,
    pub(super) taken: Slowest,
    /// Open channels of members.
    pub(super) channels: usize,
    /// Members that have come.
    pub(super) joined: BTreeSet<u32>,
    /// Brokers on which a task was really started.
    pub(super) begun: Vec<u32>,
    pub(super) wire: BTreeMap<String, u32>,
    /// When the members are told to end their tasks.
    pub(super) end_at: Option<Instant>,
    /// When members that do not report are given up.
    pub(super) give_up_at: Option<Instant>,
}

impl Job<'_> {
    pub(super) async fn run(
        mut self,
        queue: &mut mpsc::UnboundedReceiver<Event>,
        mut losses: Losses,
        mut leaving: Leaving,
    ) -> Led {
        let start_limit = self.began + START_LIMIT;
        let mut all_joined = false;
        while !self.judge.done() || self.channels > 0 {
            all_joined |= self.left.keys().all(|broker| self.joined.contains(broker));
            tokio::select! {
                Some(event) = queue.recv() => self.happened(event).await,
                failed = losses.unreached.recv() => if let Ok(CastFailed { service, ranks }) = failed
                    && (service == LAUNCH || service == ORDER)
                {
                    for (rank, why) in ranks {
                        if !self.joined.contains(&rank) {
                            self.lost(rank, &why);
                        }
                    }
                },
                lost = losses.offline.recv() => match lost {
                    Ok(Offline { rank, reason }) => self.lost(rank, &reason),
                    Err(broadcast::error::RecvError::Lagged(_)) => self.look_for_lost(),
                    // The next leader finds its tasks.
                    Err(broadcast::error::RecvError::Closed) if self.kept => {
                        std::future::pending::<()>().await;
                    }
                    Err(broadcast::error::RecvError::Closed) => {
                        let verdict = self.judge.canceled(Cancel::Shutdown);
                        self.end(verdict);
                        self.give_up("this broker is leaving");
                    }
                },
                () = leaving.let_go() => {}
                () = at(self.end_at) => {
                    self.end_at = None;
                    self.order(What::Stop { grace_ms: KILL_GRACE.as_millis() as u64 }).await;
                }
                () = at(self.give_up_at) => self.give_up("it did not end its tasks in time"),
                () = tokio::time::sleep_until(start_limit), if !all_joined => {
                    all_joined = true;
                    self.give_up_absent();
                }
            }
        }
        let outcome = self.judge.outcome(self.age + self.began.elapsed());
        self.begun.sort_unstable();
        self.begun.dedup();
        let finished = Finished { outcome, started: self.begun, wire: self.wire };
        Led { finished, placement: None }
    }

    async fn happened(&mut self, event: Event) {
        match event {
            Event::Joined { broker, channel, again } => {
                self.join(broker, channel);
                if let Some(at) = again.and_then(|again| self.rereads.said(broker, again)) {
                    let goes_on = number(kind::STDIN_AT, at);
                    self.input(&goes_on);
                    let _ = self.sink.send(goes_on).await;
                }
            }
            Event::Written { broker, pieces } => {
                if let Some(line) = self.lines.get(&broker) {
                    let _ = line.send(number(kind::ACKNOWLEDGE, pieces));
                }
            }
            Event::Member { broker, kind: kind::ENDED, payload } => {
                let Ok(task) = serde_json::from_slice::<EndedTask>(&payload) else { return };
                let Some(left) = self.left.get_mut(&broker).filter(|left| **left > 0) else {
                    return;
                };
                *left -= 1;
                let last = *left == 0;
                if let Some(wire) = task.wire {
                    *self.wire.entry(wire).or_default() += 1;
                } else {
                    *self.wire.entry(NO_WIRE.to_string()).or_default() += 1;
                }
                if task.ended.end.was_started() {
                    self.begun.push(broker);
                }
                let pod = self.overlay.config().display_name(broker);
                // Nobody here stopped the job: the broker stops its tasks because it leaves.
                let leaves = task.ended.stopped && self.give_up_at.is_none();
                // A job of the queue that ends so has not succeeded, on this broker either.
                let verdict = if leaves && (self.kept || broker != self.overlay.rank()) {
                    self.judge.broker_lost(broker, &pod, 1, "its pod was told to stop")
                } else {
                    self.judge.task_ended(&task.ended, broker, &pod)
                };
                self.end(verdict);
                let ended = &task.ended;
                if last && ended.end == TaskEnd::Exited(0) && ended.session != Session::Open {
                    let initialized = ended.session != Session::None;
                    let deserter = Deserter { broker, rank: ended.rank, initialized };
                    let found = self.desertion.gone(deserter, task.exchanges);
                    self.deserted(found);
                }
            }
            Event::Member { kind: kind::WAITING, payload, .. } => {
                let Ok(waiting) = serde_json::from_slice::<Waiting>(&payload) else { return };
                let found = self.desertion.waits(waiting);
                self.deserted(found);
            }
            Event::Member { broker, kind: kind::DESERTED, payload } => {
                let Ok(found) = serde_json::from_slice::<Deserted>(&payload) else { return };
                let Deserted { rank, initialized } = found;
                self.deserted(Some(Deserter { broker, rank, initialized }));
            }
            Event::Member { broker, kind: kind::ABORT, payload } => {
                let Ok(abort) = serde_json::from_slice::<Abort>(&payload) else { return };
                let pod = self.overlay.config().display_name(broker);
                if says_more(&abort.message) {
                    let line = format!("rank {}: {}", abort.rank, abort.message.trim_end());
                    let _ = self.sink.send(message(kind::NOTICE, line.as_bytes())).await;
                }
                let verdict = self.judge.aborted(abort.rank, broker, &pod, abort.code);
                self.end(verdict);
            }
            Event::Member { broker, kind: kind::TAKEN, payload } => {
                if let (Some(bytes), Some(node)) =
                    (protocol::taken(&payload), self.nodes.get(&broker))
                {
                    let more = self.taken.took(*node, u64::from(bytes));
                    self.tell_taken(more).await;
                }
            }
            Event::Left { broker, why } => {
                self.channels -= 1;
                self.stdin.remove(&broker);
                self.lines.remove(&broker);
                if let Some(node) = self.nodes.get(&broker) {
                    self.taken.gone(*node);
                    let more = self.taken.took(*node, 0);
                    self.tell_taken(more).await;
                }
                let why = why.unwrap_or_else(|| "it left before its tasks ended".to_string());
                self.lost(broker, &why);
            }
            Event::Client { kind: kind::STDIN, payload } => {
                self.input(&message(kind::STDIN, &payload));
            }
            Event::Client { kind: kind::STDIN_END, .. } => {
                self.input(&message(kind::STDIN_END, &[]));
            }
            Event::Client { kind: kind::RESIZE, payload } => {
                self.input(&message(kind::RESIZE, &payload));
            }
            Event::Client { kind: kind::SIGNAL, payload } => {
                if let Some(signal) = payload.first() {
                    self.judge.asked(i32::from(*signal));
                    self.order(What::Signal(i32::from(*signal))).await;
                }
            }
            Event::Stop { now: false } => {
                let verdict = self.judge.canceled(Cancel::Signal(libc::SIGTERM));
                self.end(verdict);
            }
            Event::Client { kind: kind::KILL, .. } | Event::Stop { now: true } => {
                let _ = self.judge.canceled(Cancel::Signal(libc::SIGINT));
                self.order(What::Stop { grace_ms: 0 }).await;
                self.give_up_at.get_or_insert(Instant::now() + END_LIMIT);
            }
            Event::Client { kind: kind::OUTPUT_CLOSED, .. } => {
                let verdict = self.judge.canceled(Cancel::OutputClosed);
                self.end(verdict);
            }
            Event::Member { .. } | Event::Client { .. } => {}
            Event::ClientGone => {
                let verdict = self.judge.canceled(Cancel::ClientGone);
                self.end(verdict);
            }
        }
    }

    /// Others wait for a rank that has ended.
    fn deserted(&mut self, found: Option<Deserter>) {
        if let Some(Deserter { broker, rank, initialized }) = found {
            let pod = self.overlay.config().display_name(broker);
            let verdict = self.judge.deserted(rank, broker, &pod, initialized);
            self.end(verdict);
        }
    }

    async fn tell_taken(&self, more: u64) {
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            let _ = self.sink.send(message(kind::TAKEN, &more.to_be_bytes())).await;
        }
    }

    fn input(&mut self, message: &Bytes) {
        for (broker, early) in &mut self.stdin {
            match self.lines.get(broker) {
                Some(line) => drop(line.send(message.clone())),
                None => early.push(message.clone()),
            }
        }
    }

    pub(super) fn end(&mut self, verdict: Verdict) {
        if let Verdict::End(after) = verdict {
            let at = Instant::now() + after;
            if self.give_up_at.is_none() {
                self.end_at = Some(at);
                self.give_up_at = Some(at + KILL_GRACE + END_LIMIT);
            } else if let Some(before) = &mut self.end_at {
                *before = at.min(*before);
            }
        }
    }

    async fn order(&self, what: What) {
        let brokers: Vec<u32> =
            self.left.iter().filter(|(_, left)| **left > 0).map(|(broker, _)| *broker).collect();
        if brokers.is_empty() {
            return;
        }
        let order = body(&Order { job: self.number, what });
        if let Err(error) = self.overlay.cast(&brokers, ORDER, order).await {
            tracing::warn!(job = self.number, %error, "an order cannot be sent");
        }
    }
}

/// Whether the words of an abort are worth a line: libraries print their own, and send fillers.
fn says_more(message: &str) -> bool {
    !["", "N/A", "abort"].contains(&message.trim())
        && !message.starts_with("application called MPI_Abort")
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
