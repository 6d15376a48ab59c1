//! What happened is made durable, and only then told.
//!
//! Owns: the write of a batch, what is answered after it, and what becomes of all that when the log takes
//! nothing. It decides nothing about jobs but that those are not taken which cannot be written down.

use super::Keeper;
use super::asked::{Look, Reply, Taken, Waiter};
use super::opening::boot;
use super::store::Store;
use crate::logs::chain;
use crate::queue::keeper::OWN;
use quorate_queue::{Effect, Entry, Event, JobId};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A write that takes longer than this keeps others of this broker waiting.
const SLOW: Duration = Duration::from_micros(500);

/// Numbers that are made durable at once for jobs that are not: one fdatasync(2) for so many of them.
const RESERVE: u64 = 1024;

/// What is answered when a batch is durable.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) submitted: Vec<(Taken, u64, oneshot::Sender<Taken>)>,
    pub(super) changed: Vec<Reply>,
    pub(super) looks: Vec<Look>,
    pub(super) waits: Vec<(Vec<JobId>, Waiter)>,
}

impl Keeper {
    /// Makes what happened durable, then tells of it and has it carried out.
    pub(super) async fn commit(&mut self, answers: Answers) {
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
        let mut entries = std::mem::take(&mut self.pending);
        if entries.is_empty() {
            // That nothing can be written is no proof that there is room again.
            let now = self.clock.now();
            entries.push(self.queue.reserve(now, RESERVE, boot()));
        }
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
        let write = move |store: &mut Store| {
            let written = if passing { store.note(&entries) } else { store.append(&entries) };
            (entries, written.map_err(|error| chain(&error)))
        };
        let (entries, result) = self.with_store(write).await;
        self.pending = entries;
        result?;
        if self.sick.take().is_some() {
            tracing::info!("the queue's log takes entries again");
            self.trouble.send_replace(None);
        }
        Ok(())
    }

    /// Writes something: in this task, or beside it when the last time took long. The keeper waits for it.
    pub(super) async fn with_store<T: Send + 'static>(
        &mut self,
        write: impl FnOnce(&mut Store) -> T + Send + 'static,
    ) -> T {
        let mut store = self.store.take().expect("the store is back after each batch");
        let write = move || {
            let began = Instant::now();
            let result = write(&mut store);
            (store, result, began.elapsed())
        };
        let (store, result, took) = if self.slow {
            tokio::task::spawn_blocking(write).await.expect("writing the log does not panic")
        } else {
            write()
        };
        self.store = Some(store);
        self.slow = took > SLOW;
        result
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
        self.waiters.release_all(&self.queue);
    }

    fn answer(&mut self, looks: Vec<Look>, waits: Vec<(Vec<JobId>, Waiter)>) {
        for look in looks {
            look(&self.queue);
        }
        for (jobs, waiter) in waits {
            self.waiters.wait(&self.queue, jobs, &waiter);
        }
    }

    pub(super) fn tell_of(&mut self, entries: &[Entry]) {
        for entry in entries {
            match (entry.job, &entry.event) {
                (Some(id), Event::Submit(_) | Event::Copy(_)) => {
                    if let Some(parcel) = self.parcel_of(id) {
                        self.parcels().taken(parcel);
                    }
                }
                (Some(id), Event::Clean {}) => {
                    self.waiters.release(&self.queue, id);
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
}

/// Why nothing is taken.
pub(super) fn refused(why: &str) -> String {
    format!("nothing can be taken until the queue's log can be written: {why}")
}
