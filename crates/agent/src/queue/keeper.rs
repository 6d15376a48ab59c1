//! The keeper: the one task on rank 0 that owns the queue.
//!
//! ```text
//!   commands ─▶ queue decides ─▶ log (one write, one fdatasync) ─▶ replies, effects
//! ```
//!
//! It takes all commands that wait in one go, so that many share one write. Nobody is told anything, and
//! nothing is started, before the entries that say so are durable. When the log takes nothing, submissions
//! are refused with the reason and jobs that run end as they would; it is tried again until it does.

mod asked;
mod clock;
mod compaction;
mod draft;
mod durable;
mod files;
mod nodes;
mod opening;
mod parcels;
mod restore;
mod reunion;
mod store;
mod waiters;

pub(super) use asked::{Closed, Command, Keeping};
pub(super) use opening::directory;

use super::runner::Runner;
use crate::broker::Overlay;
use crate::instance::signal::Delivery;
use crate::job::Jobs;
use crate::logs::chain;
use asked::Submit;
use clock::Clock;
use compaction::Compaction;
use durable::{Answers, refused};
use nodes::Nodes;
use quorate_contract::status::BrokerState;
use quorate_queue::{Effect, Entry, Queue, Time};
use reunion::Reunion;
use std::time::Duration;
use store::Store;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use waiters::Waiters;

/// Commands on the way to the keeper, and the most of one batch.
const BATCH: usize = 1024;

/// The option of a job that is there for the client that submitted it.
pub(super) const OWN: &str = "own";

/// Between two tries of a log that takes nothing.
const RETRY: Duration = Duration::from_millis(500);

/// Starts the keeper.
pub(super) fn start(jobs: Jobs, overlay: Overlay) -> Keeping {
    let dir = directory(&overlay);
    let (commands, queue) = mpsc::channel(BATCH);
    let runner = Runner::new(jobs, overlay.clone(), commands.clone(), dir.clone());
    let (changed, changes) = watch::channel(0);
    let (say_trouble, trouble) = watch::channel(None);
    let keeping = Keeping { commands, changes, trouble, runner: runner.clone() };
    tokio::spawn(async move {
        match opening::open(&overlay, &dir).await {
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
                    waiters: Waiters::default(),
                    changed,
                    trouble: say_trouble,
                    forgotten: log.forgotten,
                    compaction: Compaction::default(),
                };
                keeper.sweep_parcels();
                keeper.run(queue).await;
            }
            Err(why) => {
                tracing::error!(why, "the job queue cannot be opened");
                say_trouble.send_replace(Some(format!("the queue cannot be opened: {why}")));
                opening::refuse(queue, &why).await;
            }
        }
    });
    keeping
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
    waiters: Waiters,
    changed: watch::Sender<u64>,
    trouble: watch::Sender<Option<String>>,
    /// Jobs in the log that were forgotten.
    forgotten: usize,
    compaction: Compaction,
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
                written = self.compaction.written() => self.go_on_compacting(written).await,
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

    fn store(&self) -> &Store {
        self.store.as_ref().expect("the store is back after each batch")
    }

    /// Whether this broker was told to stop, so that what starts now would not last.
    fn leaves(&self) -> bool {
        self.overlay.membership().borrow().is_draining(self.overlay.rank())
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
