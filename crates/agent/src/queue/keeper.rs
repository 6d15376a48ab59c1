//! The keeper: the one task on rank 0 that owns the queue.
//!
//! ```text
//!   commands ─▶ queue decides ─▶ log (one write, one fdatasync) ─▶ replies, effects
//! ```
//!
//! It takes all commands that wait in one go, so that many share one write. Nobody is told anything, and
//! nothing is started, before the entries that say so are durable. When the log takes nothing, submissions
//! are refused with the reason and jobs that run end as they would; it is tried again until it does.

mod nodes;
mod restore;
mod reunion;

use super::runner::{FILES, Runner};
use super::store::{Opened, Store};
use crate::broker::Overlay;
use crate::files::Parcels;
use crate::instance::signal::Delivery;
use crate::job::Jobs;
use crate::logs::chain;
use nodes::Nodes;
use quorate_contract::AgentConfig;
use quorate_contract::config::NamedQueue;
use quorate_contract::status::BrokerState;
use quorate_queue::reattach::Answer;
use quorate_queue::{
    Copies, Effect, Entry, Event, Job, JobId, Jobspec, Lane, Limits, Outcome, Policy, Queue,
    Settings, State, Time,
};
use restore::Restore;
use reunion::Reunion;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

/// Commands on the way to the keeper, and the most of one batch.
const BATCH: usize = 1024;

/// The option of a job that is there for the client that submitted it.
pub(super) const OWN: &str = "own";

/// Between two tries of a log that takes nothing.
const RETRY: Duration = Duration::from_millis(500);

/// A write that takes longer than this keeps others of this broker waiting.
const SLOW: Duration = Duration::from_micros(500);

/// Numbers that are made durable at once for jobs that are not: one fdatasync(2) for so many of them.
const RESERVE: u64 = 1024;

/// Jobs that are over and still known; the oldest are forgotten beyond it. Their log is read at each
/// start, and a hundred thousand are read within a second.
const KEEP: usize = 100_000;
/// How many more than that there may be before some are forgotten.
const KEEP_SLACK: usize = 4096;

/// A log shorter than this is not worth compacting; nor is one that is mostly of jobs that are still
/// known, since all that is theirs would be written again.
const COMPACT_FROM: u64 = 32 << 20;

/// What the rest of the agent asks of the keeper.
#[derive(Clone, Debug)]
pub(super) struct Keeping {
    commands: mpsc::Sender<Command>,
    /// Counts batches of changes that are durable.
    changes: watch::Receiver<u64>,
    /// Why no jobs are taken.
    trouble: watch::Receiver<Option<String>>,
    runner: Runner,
}

/// Tells what came of a change, once it is durable; with a reason, why it is not.
type Reply = Box<dyn FnOnce(&Queue, Option<&str>) + Send>;
type Change = Box<dyn FnOnce(&mut Queue, Time) -> Reply + Send>;
type Look = Box<dyn FnOnce(&Queue) + Send>;
type Taken = Result<JobId, String>;
/// The exit code of a job that is over; `None` where it is forgotten.
pub(super) type Code = Option<u8>;
type Waiter = mpsc::UnboundedSender<(JobId, Code)>;

/// Who waits for one job: nearly always one.
struct Waiters(Waiter, Vec<Waiter>);

/// Something for the keeper. Small, since many are under way at once.
pub(super) enum Command {
    /// Takes jobs.
    Submit(Box<Submit>),
    /// Changes the queue; what comes of it is told once it is durable.
    Change(Change),
    /// Looks at the queue.
    Look(Look),
    /// Tells of each of these jobs once it is over.
    Wait(Box<(Vec<JobId>, Waiter)>),
    /// The tasks of a job run.
    Started(JobId),
    /// The tasks of a job are gone.
    Finished(JobId, Box<Outcome>),
    /// They could not be started.
    NotStarted(JobId, Box<Outcome>),
    /// What a broker has of jobs that outlived their leader.
    Holds(u32, Box<Answer>),
    /// Puts a dump into the empty queue.
    Restore(Box<Restore>),
}

/// Jobs for the queue.
pub(super) struct Submit {
    user: u32,
    spec: Jobspec,
    copies: Copies,
    reply: oneshot::Sender<Taken>,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Command")
    }
}

/// The queue is not there any more: this broker is leaving.
#[derive(Debug, thiserror::Error)]
#[error("the queue is closed: the launcher's broker is leaving")]
pub(super) struct Closed;

impl Keeping {
    /// Takes jobs; gives the number of the first once they are durable.
    pub(super) async fn submit(
        &self,
        user: u32,
        spec: Jobspec,
        copies: Copies,
    ) -> Result<JobId, String> {
        let (reply, answer) = oneshot::channel();
        self.tell(Command::Submit(Box::new(Submit { user, spec, copies, reply })))
            .await
            .map_err(|closed| closed.to_string())?;
        answer.await.unwrap_or_else(|_| Err(Closed.to_string()))
    }

    /// Changes the queue; gives what the change answered once it is durable, or why it is not.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Queue, Time) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Change(Box::new(move |queue, now| {
            let result = change(queue, now);
            Box::new(move |_, failed| {
                let _ = reply.send(match failed {
                    None => Ok(result),
                    Some(why) => Err(why.to_owned()),
                });
            })
        }));
        self.tell(command).await.map_err(|closed| closed.to_string())?;
        answer.await.unwrap_or_else(|_| Err(Closed.to_string()))
    }

    /// Tells what a broker has of jobs that outlived their leader.
    pub(super) async fn holds(&self, rank: u32, answer: Answer) {
        // Fails when this broker is leaving; the next one asks again.
        let _ = self.tell(Command::Holds(rank, Box::new(answer))).await;
    }

    /// Looks at the queue.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Queue) -> T + Send + 'static,
    ) -> Result<T, Closed> {
        let (reply, answer) = oneshot::channel();
        self.tell(Command::Look(Box::new(move |queue| drop(reply.send(look(queue)))))).await?;
        answer.await.map_err(|_| Closed)
    }

    /// Tells of each of these jobs once it is over, which it may be already and unknown ones are, in
    /// the order of their ends; ends early when this broker leaves.
    pub(super) async fn over(
        &self,
        jobs: Vec<JobId>,
    ) -> Result<mpsc::UnboundedReceiver<(JobId, Code)>, Closed> {
        // As many messages as jobs at the most: they need no bound of their own.
        let (waiter, ends) = mpsc::unbounded_channel();
        self.tell(Command::Wait(Box::new((jobs, waiter)))).await?;
        Ok(ends)
    }

    /// Counts changes of the queue, as a value that can be waited on.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Why no jobs are taken, as a value that can be waited on.
    pub(super) fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.trouble.clone()
    }

    /// Who carries jobs out.
    pub(super) fn runner(&self) -> &Runner {
        &self.runner
    }

    async fn tell(&self, command: Command) -> Result<(), Closed> {
        self.commands.send(command).await.map_err(|_| Closed)
    }
}

/// Starts the keeper.
pub(super) fn start(jobs: Jobs, overlay: Overlay) -> Keeping {
    let dir = directory(&overlay);
    let (commands, queue) = mpsc::channel(BATCH);
    let runner = Runner::new(jobs, overlay.clone(), commands.clone(), dir.clone());
    let (changed, changes) = watch::channel(0);
    let (say_trouble, trouble) = watch::channel(None);
    let keeping = Keeping { commands, changes, trouble, runner: runner.clone() };
    tokio::spawn(async move {
        match open(&overlay, &dir).await {
            Ok(mut log) => {
                let mut clock = Clock { last: log.latest };
                log.queue.resume(clock.now());
                let reunion = Reunion::begin(&log.queue, &runner, &overlay);
                let keeper = Keeper {
                    reunion,
                    queue: log.queue,
                    store: Some(log.store),
                    slow: false,
                    clock,
                    nodes: Nodes::new(overlay.clone()),
                    overlay,
                    runner,
                    pending: Vec::new(),
                    deferred: Vec::new(),
                    sick: None,
                    waiters: BTreeMap::new(),
                    changed,
                    trouble: say_trouble,
                    forgotten: log.forgotten,
                };
                keeper.sweep_parcels();
                keeper.run(queue).await;
            }
            Err(why) => {
                tracing::error!(why, "the job queue cannot be opened");
                say_trouble.send_replace(Some(format!("the queue cannot be opened: {why}")));
                refuse(queue, &why).await;
            }
        }
    });
    keeping
}

/// Where the log is.
pub(super) fn directory(overlay: &Overlay) -> PathBuf {
    match &overlay.config().queue.state_dir {
        Some(dir) => PathBuf::from(dir),
        None => overlay.settings().run_dir.join("queue"),
    }
}

/// This boot of the machine, as the kernel names it; a name of this process where that is not told.
fn boot() -> &'static str {
    static BOOT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    BOOT.get_or_init(|| {
        let told = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        told.map_or_else(|_| format!("process {}", std::process::id()), |id| id.trim().to_owned())
    })
}

/// How this cluster's queue works.
fn settings(overlay: &Overlay) -> Settings {
    let policy = if overlay.config().queue.fifo { Policy::Fifo } else { Policy::Easy };
    Settings { policy, may_grow: true, lanes: lanes(overlay.config()), ..Settings::default() }
}

/// What a log says.
struct Log {
    store: Store,
    queue: Queue,
    /// When the last of it happened.
    latest: Time,
    /// Jobs in it that the queue does not know any more.
    forgotten: usize,
}

/// Reads the log. It may be long, and the broker has others to talk to meanwhile.
async fn open(overlay: &Overlay, dir: &std::path::Path) -> Result<Log, String> {
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
async fn refuse(mut commands: mpsc::Receiver<Command>, why: &str) {
    while let Some(command) = commands.recv().await {
        if let Command::Submit(submit) = command {
            let _ = submit.reply.send(Err(why.to_owned()));
        }
    }
}

struct Keeper {
    queue: Queue,
    /// Away only while a batch is written.
    store: Option<Store>,
    /// The last batch took long: the next one is written beside this task.
    slow: bool,
    clock: Clock,
    nodes: Nodes,
    overlay: Overlay,
    runner: Runner,
    /// Jobs of which nobody knows yet whether they go on.
    reunion: Reunion,
    /// Entries that could not be made durable yet.
    pending: Vec<Entry>,
    /// Effects that wait for them.
    deferred: Vec<Effect>,
    /// Why the log takes nothing.
    sick: Option<String>,
    /// Who waits for a job's end.
    waiters: BTreeMap<JobId, Waiters>,
    changed: watch::Sender<u64>,
    trouble: watch::Sender<Option<String>>,
    /// Jobs in the log that were forgotten.
    forgotten: usize,
}

/// What is answered when a batch is durable.
#[derive(Default)]
struct Answers {
    submitted: Vec<(Taken, u64, oneshot::Sender<Taken>)>,
    changed: Vec<Reply>,
    looks: Vec<Look>,
    waits: Vec<(Vec<JobId>, Waiter)>,
}

impl Keeper {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let mut answers = Answers::default();
            let now = self.clock.now();
            for command in batch.drain(..) {
                self.obey(now, command, &mut answers);
            }
            self.queue.tick(now);
            self.reunion.decide(&mut self.queue, &self.runner, now);
            let up = self.overlay.membership().borrow().state == BrokerState::Run;
            if up && self.sick.is_none() && !self.leaves() {
                self.queue.schedule(now);
            }
            self.commit(answers).await;
            let wake = self.wake();
            let wake = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                count = commands.recv_many(&mut batch, BATCH) => if count == 0 {
                    return;
                },
                () = self.nodes.changed() => {
                    let now = self.clock.now();
                    self.nodes.tell(&mut self.queue, now);
                }
                () = wake => {}
            }
        }
    }

    fn obey(&mut self, now: Time, command: Command, answers: &mut Answers) {
        match command {
            Command::Submit(submit) => {
                let Submit { user, spec, copies, reply } = *submit;
                if let Some(why) = &self.sick {
                    answers.submitted.push((Err(refused(why)), 0, reply));
                    return;
                }
                let before = self.queue.next_id();
                let first = self.queue.submit(now, user, spec, &copies).map_err(|e| chain(&e));
                let count = self.queue.next_id().0 - before.0;
                answers.submitted.push((first, count, reply));
            }
            Command::Change(change) => answers.changed.push(change(&mut self.queue, now)),
            Command::Look(look) => answers.looks.push(look),
            Command::Wait(wait) => answers.waits.push(*wait),
            Command::Started(job) => drop(self.queue.started(now, job)),
            Command::Finished(job, outcome) => {
                if outcome.code != 0 && self.leaves() {
                    // It ends because the launcher does: the next one lets it begin again, if it may.
                    let _ = self.queue.tasks_lost(now, job, "the launcher was told to stop");
                }
                drop(self.queue.finished(now, job, *outcome));
            }
            Command::NotStarted(job, outcome) => drop(self.queue.not_started(now, job, *outcome)),
            Command::Restore(restore) => {
                let put = self.restore(now, &restore.dump);
                let _ = restore.reply.send(put);
            }
            Command::Holds(rank, answer) => {
                self.reunion.said(&self.queue, &self.runner, rank, *answer);
            }
        }
    }

    /// Whether this broker was told to stop, so that what starts now would not last.
    fn leaves(&self) -> bool {
        self.overlay.membership().borrow().is_draining(self.overlay.rank())
    }

    /// Makes what happened durable, then tells of it and has it carried out.
    async fn commit(&mut self, answers: Answers) {
        let (entries, effects) = self.queue.take();
        self.pending.extend(entries);
        self.deferred.extend(effects);
        if (!self.pending.is_empty() || self.sick.is_some())
            && let Err(why) = self.append().await
        {
            self.fall_sick(&why, answers);
            return;
        }
        let entries = std::mem::take(&mut self.pending);
        if !entries.is_empty() {
            self.changed.send_modify(|count| *count += 1);
        }
        for (result, _, reply) in answers.submitted {
            let _ = reply.send(result);
        }
        for reply in answers.changed {
            reply(&self.queue, None);
        }
        for effect in std::mem::take(&mut self.deferred) {
            self.carry_out(effect);
        }
        self.tell_of(&entries);
        self.answer(answers.looks, answers.waits);
        self.forget_and_compact();
    }

    /// Makes the pending entries durable. Where that takes long, others go on meanwhile.
    async fn append(&mut self) -> Result<(), String> {
        let mut store = self.store.take().expect("the store is back after each batch");
        let mut entries = std::mem::take(&mut self.pending);
        // A job that ends with its client ends with the machine; only its number must not be given again.
        let mut passing = entries.iter().all(|entry| {
            let job = entry.job.and_then(|id| self.queue.job(id));
            job.is_some_and(|job| job.spec().options.contains_key(OWN))
        });
        if passing && !self.queue.within_reserve() {
            let now = self.clock.now();
            entries.push(self.queue.reserve(now, RESERVE, boot()));
            passing = false;
        }
        let write = move || {
            let began = Instant::now();
            let written = if passing { store.note(&entries) } else { store.append(&entries) };
            let result = written.map_err(|error| chain(&error));
            (store, entries, result, began.elapsed())
        };
        let (store, entries, result, took) = if self.slow {
            tokio::task::spawn_blocking(write).await.expect("writing the log does not panic")
        } else {
            write()
        };
        self.store = Some(store);
        self.pending = entries;
        self.slow = took > SLOW;
        result?;
        if self.sick.take().is_some() {
            tracing::info!("the queue's log takes entries again");
            self.trouble.send_replace(None);
        }
        Ok(())
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("the store is back after each batch")
    }

    /// The log takes nothing: who submitted is refused, and nothing new is started; what ends does so.
    fn fall_sick(&mut self, why: &str, answers: Answers) {
        if self.sick.is_none() {
            tracing::error!(why, "the queue takes no jobs until its log can be written");
        }
        self.sick = Some(why.to_owned());
        self.trouble.send_if_modified(|told| {
            let now = Some(refused(why));
            let new = *told != now;
            *told = now;
            new
        });
        let mut gone = BTreeSet::new();
        for (result, count, reply) in answers.submitted {
            if let Ok(first) = result {
                gone.extend((first.0..first.0 + count).map(JobId));
            }
            let _ = reply.send(Err(result.err().unwrap_or_else(|| refused(why))));
        }
        if !gone.is_empty() {
            self.queue.retract(&gone);
            self.pending.retain(|entry| entry.job.is_none_or(|id| !gone.contains(&id)));
            self.deferred.retain(|effect| !gone.contains(&effect.job()));
        }
        // What is ended need not wait; that it was is written down later.
        let (now, later): (Vec<Effect>, Vec<Effect>) = std::mem::take(&mut self.deferred)
            .into_iter()
            .partition(|effect| !matches!(effect, Effect::Launch(_)));
        self.deferred = later;
        for effect in now {
            self.carry_out(effect);
        }
        for reply in answers.changed {
            reply(&self.queue, Some(&refused(why)));
        }
        self.answer(answers.looks, answers.waits);
        let over: Vec<JobId> = self
            .waiters
            .keys()
            .filter(|id| self.queue.job(**id).is_none_or(|job| job.state == State::Inactive))
            .copied()
            .collect();
        for id in over {
            self.release_waiters(id);
        }
    }

    fn answer(&mut self, looks: Vec<Look>, waits: Vec<(Vec<JobId>, Waiter)>) {
        for look in looks {
            look(&self.queue);
        }
        for (jobs, waiter) in waits {
            for id in jobs {
                let known = self.queue.job(id);
                if known.is_none_or(|job| job.state == State::Inactive) {
                    let _ = waiter.send((id, known.and_then(Job::exit_code)));
                } else {
                    let waiters = self.waiters.entry(id);
                    waiters
                        .and_modify(|Waiters(_, others)| others.push(waiter.clone()))
                        .or_insert_with(|| Waiters(waiter.clone(), Vec::new()));
                }
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Reattach(id) => {
                if let (Some(job), Some(number)) = (self.queue.job(id), self.reunion.number(id)) {
                    self.runner.reattach(job, number);
                }
            }
            Effect::Launch(id) => {
                // One that was cancelled in the same breath has no tasks yet, and needs none.
                if let Some(job) = self.queue.job(id) {
                    self.runner.launch(job);
                }
            }
            Effect::Stop(id) => {
                // If it is not led again yet, it will not be.
                self.reunion.stir();
                self.runner.stop(id);
            }
            Effect::Warn(id) => {
                let job = self.queue.job(id);
                if let Some((job, signal)) = job.and_then(|job| Some((job, job.spec().signal?))) {
                    let steps = !signal.script;
                    let to = Delivery { signal: signal.number, script: signal.script, steps };
                    self.runner.signal(job, to);
                }
            }
        }
    }

    fn tell_of(&mut self, entries: &[Entry]) {
        for entry in entries {
            match (entry.job, &entry.event) {
                (Some(id), Event::Submit(_) | Event::Copy(_)) => {
                    if let Some(parcel) = self.parcel_of(id) {
                        self.parcels().taken(parcel);
                    }
                }
                (Some(id), Event::Clean {}) => {
                    self.release_waiters(id);
                    self.forget_parcel_of(id);
                }
                (None, Event::Purge { jobs }) => {
                    for id in jobs.iter().flat_map(|(first, last)| first.0..=last.0) {
                        self.forgotten += 1;
                        self.runner.spools().remove(id);
                    }
                }
                _ => {}
            }
        }
    }

    /// The parcel of a job's files.
    fn parcel_of(&self, id: JobId) -> Option<&str> {
        self.queue.job(id)?.spec().options.get(FILES).map(String::as_str)
    }

    fn parcels(&self) -> Parcels {
        Parcels::beside(&directory(&self.overlay))
    }

    /// Forgets the files of a job that is over, unless another of its submission still needs them.
    fn forget_parcel_of(&self, id: JobId) {
        let Some(parcel) = self.parcel_of(id) else { return };
        let needs = |job: &Job| {
            job.state != State::Inactive
                && job.spec().options.get(FILES).is_some_and(|its| its == parcel)
        };
        if !self.queue.jobs().any(needs) {
            self.parcels().forget(parcel);
        }
    }

    /// Forgets the files that no job needs, which a former life of this broker left.
    fn sweep_parcels(&self) {
        let unfinished = self.queue.jobs().filter(|job| job.state != State::Inactive);
        let parcels = unfinished.filter_map(|job| job.spec().options.get(FILES).cloned());
        self.parcels().sweep(&parcels.collect());
    }

    fn release_waiters(&mut self, id: JobId) {
        let Some(Waiters(first, others)) = self.waiters.remove(&id) else { return };
        let code = self.queue.job(id).and_then(Job::exit_code);
        for waiter in std::iter::once(first).chain(others) {
            let _ = waiter.send((id, code));
        }
    }

    fn forget_and_compact(&mut self) {
        if self.queue.over() > KEEP + KEEP_SLACK {
            let now = self.clock.now();
            self.queue.purge(now, Time(0), KEEP);
            let (entries, effects) = self.queue.take();
            self.pending.extend(entries);
            self.deferred.extend(effects);
        }
        if worth_compacting(self.store().length(), self.forgotten, self.queue.over()) {
            let now = self.clock.now();
            let all = self.queue.compacted(now);
            match self.store.as_mut().map(|store| store.compact(all)) {
                // What was not written yet is in the shorter log.
                Some(Ok(())) => {
                    let written = std::mem::take(&mut self.pending);
                    self.tell_of(&written);
                }
                Some(Err(error)) => tracing::warn!(%error, "the queue's log stays long"),
                None => {}
            }
            self.forgotten = 0;
        }
    }

    fn wake(&self) -> Option<Instant> {
        let retry = self.sick.is_some().then(|| Instant::now() + RETRY);
        let left = !self.pending.is_empty() || !self.deferred.is_empty();
        let unwritten = (left && self.sick.is_none()).then(Instant::now);
        let due = self.queue.wake_at().map(|at| {
            let wait = at.since(self.clock.last_wall());
            Instant::now() + Duration::from_millis(wait.min(86_400_000))
        });
        [retry, unwritten, due, self.reunion.wake_at()].into_iter().flatten().min()
    }
}

/// Whether a log of so many bytes, in which jobs are that were forgotten and jobs that are over and
/// known, should be written anew without the former.
fn worth_compacting(length: u64, forgotten: usize, known: usize) -> bool {
    length > COMPACT_FROM && forgotten > 0 && forgotten >= known
}

fn refused(why: &str) -> String {
    format!("nothing can be taken until the queue's log can be written: {why}")
}

/// The machine's clock, never running backwards.
#[derive(Debug)]
struct Clock {
    last: Time,
}

impl Clock {
    fn now(&mut self) -> Time {
        self.last = self.last.max(self.last_wall());
        self.last
    }

    fn last_wall(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)).max(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The queue's memory is taken in pieces of 32: larger ones are dear to get for the C library.
    #[test]
    fn a_command_stays_small() {
        assert!(size_of::<Command>() <= 24, "{}", size_of::<Command>());
    }

    #[test]
    fn a_clock_that_is_stepped_back_stands_still() {
        let ahead = Time(u64::MAX / 2);
        let mut clock = Clock { last: ahead };
        assert_eq!((clock.now(), clock.now()), (ahead, ahead));
        let mut behind = Clock { last: Time(1) };
        let first = behind.now();
        assert!(first > Time(1) && behind.now() >= first);
    }

    #[test]
    fn a_log_is_written_anew_only_when_that_makes_it_half_as_long() {
        let long = COMPACT_FROM + 1;
        // Nothing is won where every job is still known, however long the log is.
        assert!(!worth_compacting(long * 10, 0, 0));
        assert!(!worth_compacting(long * 10, KEEP - 1, KEEP));
        assert!(worth_compacting(long, KEEP, KEEP));
        assert!(worth_compacting(long, 1, 0));
        assert!(!worth_compacting(COMPACT_FROM, KEEP, KEEP));
    }
}
