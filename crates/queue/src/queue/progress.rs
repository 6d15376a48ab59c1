//! What comes of an event: indices, and the steps that need nobody's decision.

use super::{Effect, Queue};
use crate::event::{Event, Severity};
use crate::id::JobId;
use crate::job::{Illegal, Job, Standing, State};
use crate::jobspec::Condition;
use crate::time::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a job waits for.
#[derive(Debug, PartialEq, Eq)]
enum Wait {
    /// Nothing.
    Over,
    /// Something that can still happen.
    Goes,
    /// Something that cannot happen any more.
    Never(String),
}

impl Queue {
    /// Lets an event happen to a job that can have it.
    pub(super) fn happen(&mut self, now: Time, id: JobId, event: Event) {
        self.record(now, Some(id), event.clone());
        let began = matches!(event, Event::Start {});
        let was_over = self.jobs.get(&id).is_some_and(|job| job.state == State::Inactive);
        self.apply(now, id, event).expect("the queue's own events are legal in the job's state");
        let job = &self.jobs[&id];
        let standing = job.standing().filter(|_| !was_over);
        if began || standing.is_some() {
            let tally = self.tallies.of(job, &self.first_lane);
            match standing {
                Some(standing) => tally.ended(standing == Standing::Completed),
                None => tally.began(),
            }
        }
    }

    /// Ends a job, or begins to.
    pub(super) fn fail(&mut self, now: Time, id: JobId, kind: &str, note: &str) {
        let event =
            Event::Exception { kind: kind.into(), severity: Severity::Fatal, note: note.into() };
        self.happen(now, id, event);
        let job = &self.jobs[&id];
        if job.holds_nodes() && job.outcome.is_none() {
            self.effects.push(Effect::Stop(id));
        }
        self.stirred.push_back(id);
    }

    /// Takes every step that follows from what happened.
    pub(super) fn settle(&mut self, now: Time) {
        while let Some(id) = self.stirred.pop_front() {
            while self.step(now, id) {}
        }
    }

    fn step(&mut self, now: Time, id: JobId) -> bool {
        let Some(job) = self.jobs.get(&id) else { return false };
        match job.state {
            State::Depend => match self.wait(now, job) {
                Wait::Over => self.happen(now, id, Event::Depend {}),
                Wait::Goes => return false,
                Wait::Never(note) => self.fail(now, id, "dependency", &note),
            },
            State::Priority if !job.held => {
                let priority = job.urgency.into();
                self.happen(now, id, Event::Priority { priority });
            }
            State::Cleanup if job.holds_nodes() => {
                if job.outcome.is_none() {
                    return false;
                }
                self.happen(now, id, Event::Free {});
            }
            State::Cleanup if job.begins_again() => {
                let note = job.cause.as_ref().map_or_else(Box::default, |cause| cause.note.clone());
                self.happen(now, id, Event::Requeue { note });
            }
            State::Cleanup => self.happen(now, id, Event::Clean {}),
            State::Priority | State::Sched | State::Run | State::Inactive => return false,
        }
        true
    }

    /// A job is known from now on.
    pub(super) fn enter(&mut self, job: Job) {
        let id = job.id;
        if let Some(constraint) = &job.spec().constraint
            && let Ok(compiled) = constraint.compile()
        {
            self.conditions.insert(id, compiled);
        }
        for dependency in &job.spec().dependencies {
            self.dependents.entry(dependency.job).or_default().push(id);
        }
        if let Some(begin) = job.spec().begin {
            self.timers.insert((begin, id));
        }
        let names = self.names.entry(job.submission.user).or_default();
        match names.get_mut(&job.spec().name) {
            Some(ids) => drop(ids.insert(id)),
            None => drop(names.insert(job.spec().name.clone(), BTreeSet::from([id]))),
        }
        self.tallies.of(&job, &self.first_lane).comes();
        self.jobs.insert(id, Arc::new(job));
    }

    /// Applies an event and keeps the indices.
    pub(super) fn apply(&mut self, now: Time, id: JobId, event: Event) -> Result<(), Illegal> {
        let Some(job) = self.jobs.get_mut(&id) else {
            return Err(Illegal { job: id, state: State::Inactive, event: event.name() });
        };
        let job = Arc::make_mut(job);
        let shrunk = if let Event::Shrink { rank, .. } = &event { Some(*rank) } else { None };
        let before = (job.state, job.priority, job.end_at_latest(), job.holds_nodes());
        let warning = job.warn_at();
        job.apply(now, event)?;
        let after = (job.state, job.priority, job.end_at_latest(), job.holds_nodes());
        let warned = job.warn_at();
        let started = job.started == Some(now);
        let allocation = job.allocation.clone().filter(|_| after.3 && !before.3);
        let array = Self::array_of(job);

        if before.0 == State::Sched {
            self.order.remove(&(u32::MAX - before.1, id));
        }
        if after.0 == State::Sched {
            self.order.insert((u32::MAX - after.1, id));
            self.restless = true;
        }
        if before.2 != after.2 {
            self.timers.remove(&(before.2, id));
            if after.2 != Time::NEVER && after.0 == State::Run {
                self.timers.insert((after.2, id));
            }
        }
        if warning != warned {
            self.timers.extend(warned.map(|at| (at, id)));
            if let Some(at) = warning.filter(|at| *at != after.2) {
                self.timers.remove(&(at, id));
            }
        }
        if let Some(allocation) = allocation {
            // The scheduler has taken it already; a log has not.
            if self.pool.of(id).is_none() && self.pool.take(id, Arc::clone(&allocation)).is_err() {
                return Err(Illegal { job: id, state: before.0, event: "alloc" });
            }
            self.running.insert(id);
            self.tallies.of(&self.jobs[&id], &self.first_lane).holds(true);
            if let Some(array) = array {
                *self.arrays.entry(array).or_default() += 1;
            }
        }
        if let Some(rank) = shrunk {
            let _ = self.pool.shrink(id, rank);
            self.restless = true;
        }
        if before.3 && !after.3 {
            let _ = self.pool.give_back(id);
            self.running.remove(&id);
            self.tallies.of(&self.jobs[&id], &self.first_lane).holds(false);
            self.timers.remove(&(before.2, id));
            self.restless = true;
            self.array_freed(array);
        }
        if after.0 == State::Inactive && before.0 != State::Inactive {
            self.leave(id);
        } else if started {
            self.stir_dependents(id);
        }
        Ok(())
    }

    /// A job of an array has no nodes any more.
    pub(super) fn array_freed(&mut self, array: Option<JobId>) {
        let Some(array) = array else { return };
        if let Some(count) = self.arrays.get_mut(&array) {
            *count -= 1;
            if *count == 0 {
                self.arrays.remove(&array);
            }
        }
    }

    /// A job is over: nobody looks at it any more but those who wait for it.
    fn leave(&mut self, id: JobId) {
        let job = &self.jobs[&id];
        self.over.insert((job.over_at(), id));
        let completed = job.standing() == Some(Standing::Completed);
        self.completed += usize::from(completed);
        self.tallies.of(job, &self.first_lane).over(completed);
        if let Some(begin) = job.spec().begin {
            self.timers.remove(&(begin, id));
        }
        self.conditions.remove(&id);
        let (user, spec) = (job.submission.user, Arc::clone(&job.submission.spec));
        // The next of that name may be a singleton that waits.
        let next = self.unname(user, &spec.name, id);
        self.stirred.extend(next);
        self.stir_dependents(id);
    }

    /// Takes a job from those of its user and name that are not over; gives the first that is left.
    pub(super) fn unname(&mut self, user: u32, name: &str, id: JobId) -> Option<JobId> {
        let names = self.names.get_mut(&user)?;
        let ids = names.get_mut(name)?;
        ids.remove(&id);
        let next = ids.first().copied();
        if next.is_none() {
            names.remove(name);
        }
        next
    }

    fn stir_dependents(&mut self, id: JobId) {
        if let Some(waiting) = self.dependents.get(&id) {
            self.stirred.extend(waiting);
        }
        if self.jobs.get(&id).is_some_and(|job| job.state == State::Inactive) {
            self.dependents.remove(&id);
        }
    }

    fn wait(&self, now: Time, job: &Job) -> Wait {
        let spec = job.spec();
        let mut goes = spec.begin.is_some_and(|begin| begin > now);
        for dependency in &spec.dependencies {
            match self.dependency(dependency.on, dependency.job) {
                Wait::Over => {}
                Wait::Goes => goes = true,
                never @ Wait::Never(_) => return never,
            }
        }
        if spec.singleton {
            let names = self.names.get(&job.submission.user);
            let ids = names.and_then(|names| names.get(&spec.name));
            goes |= ids.and_then(BTreeSet::first) != Some(&job.id);
        }
        if goes { Wait::Goes } else { Wait::Over }
    }

    #[expect(clippy::match_same_arms, reason = "a line for each condition and each end")]
    fn dependency(&self, on: Condition, id: JobId) -> Wait {
        // Only the end of a job can be depended on after it was purged.
        let Some(other) = self.jobs.get(&id) else { return Wait::Over };
        let never = |what: &str| Wait::Never(format!("job {id} {what}"));
        let started = other.started.is_some();
        match (on, other.standing()) {
            (Condition::AfterAny, Some(_)) => Wait::Over,
            (Condition::AfterStart, _) if started => Wait::Over,
            (_, None) => Wait::Goes,
            (Condition::AfterStart, Some(_)) => never("ended without having started"),
            (Condition::AfterOk, Some(Standing::Completed)) => Wait::Over,
            (Condition::AfterOk, Some(_)) => never("did not succeed"),
            (Condition::AfterNotOk, Some(Standing::Completed)) => never("succeeded"),
            (Condition::AfterNotOk, Some(_)) if started => Wait::Over,
            (Condition::AfterNotOk, Some(_)) => never("ended without having started"),
        }
    }
}
