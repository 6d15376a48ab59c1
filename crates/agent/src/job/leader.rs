//! The leader of a job, on rank 0: places it, launches it, judges it.
//!
//! Owns: one job from request to outcome. Members do the work, [`Judge`] knows the rules; here
//! events are brought together. A job always ends: a lost broker counts its tasks as ended, a
//! member that does not come or does not end in time is given up.

mod again;
mod choice;
mod desertion;

pub use again::Resumption;
pub use choice::program;

use super::Jobs;
use super::protocol::{
    Abort, Again, Deserted, EndedTask, Finished, LAUNCH, Launch, ORDER, Order, Placed, Request,
    Waiting, What, Where, body, json, kind, message, number, split,
};
use crate::broker::{CastFailed, Channel, Offline, Overlay, Sender};
use crate::launch::outcome::{Cancel, Judge, Outcome, Session, TaskEnd, Verdict};
use crate::launch::place::Placement;
use crate::launch::stdio::Slowest;
use again::Input;
use bytes::Bytes;
use choice::{choose, crowded, namespace, one_host};
use desertion::{Deserter, Desertion};
use quorate_contract::exit;
use quorate_contract::report::Reason;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;

/// Time between SIGTERM and SIGKILL when a job is ended.
pub const KILL_GRACE: Duration = Duration::from_secs(3);

/// How long a member may take to say that it has begun.
const START_LIMIT: Duration = Duration::from_mins(1);

/// How much longer than the grace a member may take to report the end of its tasks.
const END_LIMIT: Duration = Duration::from_secs(15);

/// The protocol of tasks that spoke none.
const NO_WIRE: &str = "none";

/// What happens to a job.
#[derive(Debug)]
pub(super) enum Event {
    /// A member has opened its channel.
    Joined {
        /// Its broker.
        broker: u32,
        /// The channel.
        channel: Channel,
        /// Where it stands, if another leader has led it.
        again: Option<Again>,
    },
    /// So many pieces of a member's output are written.
    Written {
        /// Its broker.
        broker: u32,
        /// All of them.
        pieces: u64,
    },
    /// A member says something that is no output.
    Member {
        /// Its broker.
        broker: u32,
        /// The message's kind.
        kind: u8,
        /// Its payload.
        payload: Bytes,
    },
    /// A member's channel has ended.
    Left {
        /// Its broker.
        broker: u32,
        /// Why, if not in order.
        why: Option<String>,
    },
    /// The client says something.
    Client {
        /// The message's kind.
        kind: u8,
        /// Its payload.
        payload: Bytes,
    },
    /// The client is gone.
    ClientGone,
    /// The job is to end: its tasks get time for it, or none.
    Stop {
        /// None.
        now: bool,
    },
}

/// Where a job's messages for its client go.
#[derive(Clone, Debug)]
pub enum Sink {
    /// To the front of its client.
    Front(Sender),
    /// To whoever takes messages in this process.
    Here(mpsc::Sender<Bytes>),
}

impl Sink {
    /// Waits until the client takes the message. Tells whether there is a client.
    async fn send(&self, message: Bytes) -> bool {
        match self {
            Self::Front(sender) => sender.send(message).await.is_ok(),
            Self::Here(queue) => queue.send(message).await.is_ok(),
        }
    }
}

/// A job that has ended.
#[derive(Clone, Debug)]
pub struct Led {
    /// How.
    pub finished: Finished,
    /// Where it was placed; `None` when it was refused.
    pub placement: Option<Placement>,
}

/// Ends a job that is led in this process.
#[derive(Clone, Debug)]
pub struct Handle {
    events: mpsc::UnboundedSender<Event>,
}

impl Handle {
    /// Passes a signal on to all tasks.
    pub fn signal(&self, signal: i32) {
        let payload = Bytes::copy_from_slice(&[signal as u8]);
        let _ = self.events.send(Event::Client { kind: kind::SIGNAL, payload });
    }

    /// Ends the job: its tasks are told to, and killed after a grace, or `now`.
    pub fn stop(&self, now: bool) {
        let _ = self.events.send(Event::Stop { now });
    }

    /// Says what the job's client says without more words: `KILL` or `OUTPUT_CLOSED` of
    /// [`kind`].
    pub fn client(&self, kind: u8) {
        let _ = self.events.send(Event::Client { kind, payload: Bytes::new() });
    }

    /// Says how large the terminal is that its client has.
    pub fn resize(&self, size: Bytes) {
        let _ = self.events.send(Event::Client { kind: kind::RESIZE, payload: size });
    }

    /// Says that so many pieces of a broker's output are written.
    pub fn written(&self, broker: u32, pieces: u64) {
        let _ = self.events.send(Event::Written { broker, pieces });
    }

    /// Gives the tasks that read standard input a piece of it; `None` is its end.
    pub fn input(&self, piece: Option<Bytes>) {
        let kind = if piece.is_some() { kind::STDIN } else { kind::STDIN_END };
        let _ = self.events.send(Event::Client { kind, payload: piece.unwrap_or_default() });
    }
}

/// Serves a front: leads its job and tells it the end.
pub(super) async fn serve(jobs: Jobs, overlay: Overlay, channel: Channel) {
    let request = serde_json::from_slice::<Request>(channel.first());
    let (sender, mut receiver) = channel.split();
    let request = match request {
        Ok(request) => request,
        Err(error) => {
            let _ = sender.finish(Err(format!("unreadable request: {error}"))).await;
            return;
        }
    };
    let (events, queue) = mpsc::unbounded_channel();
    let client = events.clone();
    let reader = tokio::spawn(async move {
        while let Ok(Some(received)) = receiver.recv().await {
            if let Some((kind, payload)) = split(received)
                && client.send(Event::Client { kind, payload }).is_err()
            {
                return;
            }
        }
        let _ = client.send(Event::ClientGone);
    });
    let sink = Sink::Front(sender.clone());
    let led = lead(&jobs, &overlay, (request, None), sink, events, queue).await;
    let _ = sender.send(json(kind::FINISHED, &led.finished)).await;
    let _ = sender.finish(Ok(())).await;
    reader.abort();
}

/// Starts a job whose messages stay in this process, or leads one again. The future leads it.
pub fn lead_here<'a>(
    jobs: &'a Jobs,
    overlay: &'a Overlay,
    asked: (Request, Option<Resumption>),
    messages: mpsc::Sender<Bytes>,
) -> (Handle, impl Future<Output = Led> + 'a) {
    let (events, queue) = mpsc::unbounded_channel();
    let handle = Handle { events: events.clone() };
    (handle, lead(jobs, overlay, asked, Sink::Here(messages), events, queue))
}

async fn lead(
    jobs: &Jobs,
    overlay: &Overlay,
    (request, again): (Request, Option<Resumption>),
    sink: Sink,
    events: mpsc::UnboundedSender<Event>,
    mut queue: mpsc::UnboundedReceiver<Event>,
) -> Led {
    let membership = overlay.membership().borrow().clone();
    let whole = again.is_none();
    let placement = match choose(&membership, &request, whole, overlay) {
        Ok(placement) => placement,
        Err(why) => {
            let outcome = Outcome::failed(exit::FAILED, Reason::Infeasible, why);
            return refused(outcome);
        }
    };
    let namespace = match namespace() {
        Ok(namespace) => namespace,
        Err(error) => {
            let why = format!("the system has no random numbers: {error}");
            return refused(Outcome::failed(exit::INTERNAL, Reason::Internal, why));
        }
    };
    let age = again.as_ref().map(|again| again.age).unwrap_or_default();
    let number = again.as_ref().map_or_else(|| jobs.number(), |again| again.number);
    let brokers: Vec<u32> = placement.brokers.iter().map(|(broker, _)| *broker).collect();
    let stdin_goes_to: Vec<usize> = {
        let stdin = request.command.stdin;
        let ranks = placement.ranks();
        (0..ranks.len()).filter(|i| ranks[*i].1.iter().any(|rank| stdin.goes_to(*rank))).collect()
    };
    let kept = request.keeps.is_some();
    let launch = Launch {
        job: number,
        namespace,
        leader: overlay.rank(),
        command: request.command,
        crowded: crowded(&membership, &placement),
        one_host: one_host(&membership, &placement),
        universe: membership.online.values().map(|member| member.inventory.slots).sum(),
        placement: placement.clone(),
        queued: request.queued,
        keeps: request.keeps,
        shares: match request.place {
            Where::Allotted(shares) => shares,
            Where::Slots(_) | Where::Brokers(_) => Vec::new(),
        },
    };
    let mut taken = Slowest::new(brokers.len());
    for node in 0..brokers.len() {
        if !stdin_goes_to.contains(&node) {
            taken.gone(node);
        }
    }
    // From here on no loss is missed: the subscription is older than the launch.
    let losses = Losses { offline: overlay.offline(), unreached: overlay.cast_failures() };
    let exchanges = placement.pods() > 1;
    jobs.lead(number, events.clone());
    let _busy = jobs.busy();
    let placed = Placed { job: number, placement: placement.clone() };
    let _ = sink.send(json(kind::PLACED, &placed)).await;
    let mut job = Job {
        overlay,
        number,
        kept,
        began: Instant::now(),
        age,
        sink,
        events,
        judge: match placement.brokers.first() {
            Some((root, _)) if request.instance => Judge::of_instance(placement.tasks(), *root),
            _ => Judge::new(placement.tasks(), request.no_kill),
        },
        desertion: Desertion::default(),
        left: placement.brokers.iter().copied().collect(),
        nodes: brokers.iter().enumerate().map(|(node, broker)| (*broker, node)).collect(),
        rereads: Input::awaiting(match &again {
            Some(again) if again.rereads => stdin_goes_to.iter().map(|n| brokers[*n]).collect(),
            _ => Vec::new(),
        }),
        taken_before: again.as_ref().map(|again| again.taken.clone()).unwrap_or_default(),
        stdin: stdin_goes_to.into_iter().map(|node| (brokers[node], Vec::new())).collect(),
        lines: HashMap::new(),
        taken,
        channels: 0,
        joined: BTreeSet::new(),
        begun: Vec::new(),
        wire: BTreeMap::new(),
        end_at: None,
        give_up_at: None,
    };
    let (service, order) = if again.is_some() {
        // Who was lost since it spoke for the job.
        job.look_for_lost();
        let what = What::Reattach { leader: overlay.rank() };
        (ORDER, body(&Order { job: number, what }))
    } else {
        (LAUNCH, body(&launch))
    };
    if let Err(error) = overlay.cast(&brokers, service, order).await {
        let why = format!("the order to launch cannot be sent: {error}");
        job.judge = Judge::new(0, false);
        jobs.led(number);
        return refused(Outcome::failed(exit::BROKER_LOST, Reason::BrokerLost, why));
    }
    let mut led = job.run(&mut queue, losses).await;
    jobs.led(number);
    if let Some(failure) = &mut led.finished.outcome.failure {
        // As it was at the launch: a broker that was lost is no member any more.
        let member = failure.broker.and_then(|broker| membership.online.get(&broker));
        failure.node = member.and_then(|member| member.inventory.node.clone());
    }
    if exchanges && led.finished.wire.keys().any(|wire| wire != NO_WIRE) {
        // Fails only when this broker is leaving, and its memory with it.
        let _ = overlay.end_job(number).await;
    }
    Led { placement: Some(placement), ..led }
}

fn refused(outcome: Outcome) -> Led {
    Led {
        finished: Finished { outcome, started: Vec::new(), wire: BTreeMap::new() },
        placement: None,
    }
}

/// News of brokers that are gone or were not reached.
struct Losses {
    offline: broadcast::Receiver<Offline>,
    unreached: broadcast::Receiver<CastFailed>,
}

struct Job<'a> {
    overlay: &'a Overlay,
    number: u64,
    /// Its tasks go on when this broker dies.
    kept: bool,
    /// Since when it is led here, and how long it had run by then.
    began: Instant,
    age: Duration,
    sink: Sink,
    events: mpsc::UnboundedSender<Event>,
    judge: Judge,
    desertion: Desertion,
    /// Tasks by broker whose end is not known.
    left: BTreeMap<u32, u32>,
    /// The place of each broker in the job.
    nodes: HashMap<u32, usize>,
    /// Members that read standard input, with what came before them.
    stdin: HashMap<u32, Vec<Bytes>>,
    /// The ways to members that have come.
    lines: HashMap<u32, mpsc::UnboundedSender<Bytes>>,
    rereads: Input,
    /// Pieces of output that a former leader has written, by broker.
    taken_before: BTreeMap<u32, u64>,
    taken: Slowest,
    /// Open channels of members.
    channels: usize,
    /// Members that have come.
    joined: BTreeSet<u32>,
    /// Brokers on which a task was really started.
    begun: Vec<u32>,
    wire: BTreeMap<String, u32>,
    /// When the members are told to end their tasks.
    end_at: Option<Instant>,
    /// When members that do not report are given up.
    give_up_at: Option<Instant>,
}

impl Job<'_> {
    async fn run(mut self, queue: &mut mpsc::UnboundedReceiver<Event>, mut losses: Losses) -> Led {
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
                    (super::protocol::taken(&payload), self.nodes.get(&broker))
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

    /// Takes a member's channel in: its output goes straight to the client, the rest becomes
    /// events, in the order of the channel.
    fn join(&mut self, broker: u32, channel: Channel) {
        if !self.left.contains_key(&broker) || !self.joined.insert(broker) {
            return;
        }
        self.channels += 1;
        let (sender, mut receiver) = channel.split();
        if self.kept || self.stdin.contains_key(&broker) {
            let (queue, mut messages) = mpsc::unbounded_channel::<Bytes>();
            if let Some(taken) = self.taken_before.get(&broker) {
                let _ = queue.send(number(kind::RESUME, *taken));
            }
            for message in self.stdin.get_mut(&broker).into_iter().flat_map(std::mem::take) {
                let _ = queue.send(message);
            }
            self.lines.insert(broker, queue);
            let sender = sender.clone();
            tokio::spawn(async move {
                while let Some(message) = messages.recv().await {
                    if sender.send(message).await.is_err() {
                        return;
                    }
                }
            });
        }
        let (events, sink) = (self.events.clone(), self.sink.clone());
        tokio::spawn(async move {
            let mut client = true;
            let why = loop {
                match receiver.recv().await {
                    Ok(Some(received)) => match received.first().copied() {
                        Some(kind::OUT | kind::ERR | kind::NOTICE) => {
                            // Without a client output goes nowhere, but it must not stop.
                            if client && !sink.send(received).await {
                                client = false;
                                let _ = events.send(Event::ClientGone);
                            }
                        }
                        _ => {
                            if let Some((kind, payload)) = split(received) {
                                let _ = events.send(Event::Member { broker, kind, payload });
                            }
                        }
                    },
                    Ok(None) => break None,
                    Err(error) => break Some(error.to_string()),
                }
            };
            let _ = sender.finish(Ok(())).await;
            let _ = events.send(Event::Left { broker, why });
        });
    }

    fn input(&mut self, message: &Bytes) {
        for (broker, early) in &mut self.stdin {
            match self.lines.get(broker) {
                Some(line) => drop(line.send(message.clone())),
                None => early.push(message.clone()),
            }
        }
    }

    /// A broker is gone, and what is left of its tasks with it.
    fn lost(&mut self, broker: u32, why: &str) {
        let own = self.overlay.rank();
        if self.kept && broker != own && self.overlay.membership().borrow().is_draining(own) {
            // This broker leaves, and its ways to the others close before it is gone. They keep their
            // tasks, and the next leader asks for them.
            return;
        }
        let Some(left) = self.left.get_mut(&broker) else { return };
        let tasks = std::mem::take(left);
        if tasks > 0 {
            let pod = self.overlay.config().display_name(broker);
            let verdict = self.judge.broker_lost(broker, &pod, tasks, why);
            self.end(verdict);
        }
    }

    /// Compares with the membership when loss events were dropped.
    fn look_for_lost(&mut self) {
        let membership = self.overlay.membership().borrow().clone();
        let gone: Vec<u32> = self
            .left
            .iter()
            .filter(|(broker, left)| **left > 0 && !membership.online.contains_key(broker))
            .map(|(broker, _)| *broker)
            .collect();
        for broker in gone {
            self.lost(broker, "it is not connected any more");
        }
    }

    fn give_up(&mut self, why: &str) {
        self.give_up_at = None;
        let brokers: Vec<u32> = self.left.keys().copied().collect();
        for broker in brokers {
            self.lost(broker, why);
        }
        // Whoever still has a channel open is not waited for.
        self.channels = 0;
    }

    fn give_up_absent(&mut self) {
        let absent: Vec<u32> =
            self.left.keys().filter(|b| !self.joined.contains(b)).copied().collect();
        for broker in absent {
            let why = format!("it did not start its tasks within {} s", START_LIMIT.as_secs());
            self.lost(broker, &why);
        }
    }

    fn end(&mut self, verdict: Verdict) {
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
