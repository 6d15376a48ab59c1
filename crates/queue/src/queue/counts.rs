//! How many jobs there are: of all, and of each queue.
//!
//! Owns: numbers that are kept up with every event, so that asking for them costs nothing however many
//! jobs there are. Only the longest wait looks at those that wait.

use super::Queue;
use crate::job::{Job, Standing, State};
use crate::time::Time;
use std::collections::BTreeMap;

/// Jobs that are known, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Without nodes.
    pub pending: usize,
    /// With nodes.
    pub running: usize,
    /// Over, and every task ended with code 0.
    pub completed: usize,
    /// Over otherwise.
    pub failed: usize,
}

/// Jobs of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Those that are known.
    pub jobs: Counts,
    /// Starts since this queue was made or replayed; a job that begins again counts again.
    pub started: u64,
    /// Jobs that completed since then, forgotten ones too.
    pub completed: u64,
    /// Jobs that ended otherwise since then.
    pub failed: u64,
    /// When the one was submitted that has waited for nodes the longest of those that do now.
    pub oldest: Option<Time>,
}

/// What is kept of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    known: usize,
    running: usize,
    over: usize,
    completed: usize,
    started: u64,
    ended_well: u64,
    ended_badly: u64,
}

impl Queue {
    /// How many jobs there are, by what became of them.
    pub fn counts(&self) -> Counts {
        let (over, running) = (self.over.len(), self.running.len());
        Counts {
            pending: self.jobs.len() - over - running,
            running,
            completed: self.completed,
            failed: over - self.completed,
        }
    }

    /// The same for each queue, by name. Queues are told of that are there or had a job.
    pub fn lane_counts(&self) -> BTreeMap<&str, LaneCounts> {
        let mut counts: BTreeMap<&str, LaneCounts> =
            self.lanes.keys().map(|name| (name.as_str(), LaneCounts::default())).collect();
        for (name, tally) in &self.tallies.0 {
            let jobs = Counts {
                pending: tally.known - tally.over - tally.running,
                running: tally.running,
                completed: tally.completed,
                failed: tally.over - tally.completed,
            };
            let (started, completed, failed) = (tally.started, tally.ended_well, tally.ended_badly);
            let told = LaneCounts { jobs, started, completed, failed, oldest: None };
            counts.insert(name, told);
        }
        for job in self.waiting() {
            if let Some(counted) = counts.get_mut(self.lane_name(job)) {
                let earlier = counted.oldest.map_or(job.submitted, |old| old.min(job.submitted));
                counted.oldest = Some(earlier);
            }
        }
        counts
    }
}

/// What is kept of each queue that had a job.
#[derive(Debug, Default)]
pub(super) struct Tallies(BTreeMap<String, Tally>);

impl Tallies {
    /// What is kept of the queue that a job is in; those that name none are in `first`.
    pub(super) fn of(&mut self, job: &Job, first: &str) -> &mut Tally {
        let name = job.spec().queue.as_deref().unwrap_or(first);
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), Tally::default());
        }
        self.0.get_mut(name).expect("it is there because it was just looked for and put in")
    }
}

impl Tally {
    /// A job is known from now on.
    pub(super) fn comes(&mut self) {
        self.known += 1;
    }

    /// A job is forgotten.
    pub(super) fn goes(&mut self, job: &Job, running: bool) {
        self.known -= 1;
        self.running -= usize::from(running);
        self.over -= usize::from(job.state == State::Inactive);
        self.completed -= usize::from(job.standing() == Some(Standing::Completed));
    }

    /// A job got nodes, or has them no more.
    pub(super) fn holds(&mut self, nodes: bool) {
        if nodes {
            self.running += 1;
        } else {
            self.running -= 1;
        }
    }

    /// A job is over.
    pub(super) fn over(&mut self, completed: bool) {
        self.over += 1;
        self.completed += usize::from(completed);
    }

    /// A job has begun.
    pub(super) fn began(&mut self) {
        self.started += 1;
    }

    /// A job has ended, now and not in a log.
    pub(super) fn ended(&mut self, completed: bool) {
        self.ended_well += u64::from(completed);
        self.ended_badly += u64::from(!completed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Outcome;
    use crate::jobspec::Jobspec;
    use crate::pool::Offer;
    use crate::queue::{Copies, Lane, Settings};
    use quorate_hostlist::IdSet;

    fn settings() -> Settings {
        let lanes = vec![Lane::named("first"), Lane::named("second")];
        Settings { lanes, ..Settings::default() }
    }

    fn jobs(pending: usize, running: usize, completed: usize, failed: usize) -> Counts {
        Counts { pending, running, completed, failed }
    }

    #[test]
    fn each_queue_has_its_own_counts_and_a_replay_counts_no_start_again() {
        let mut queue = Queue::new(settings()).unwrap();
        queue.node_here(Offer {
            rank: 0,
            host: "n0".into(),
            cores: IdSet::first_n(2),
            gpus: IdSet::new(),
            memory: 0,
            properties: vec![],
        });
        let job =
            |lane: &str| Jobspec { queue: Some(lane.into()), ..Jobspec::command("j", &["true"]) };
        let mut log = Vec::new();
        for second in 1..=3 {
            queue.submit(Time(second * 1000), 0, job("second"), &Copies::One).unwrap();
            queue.schedule(Time(second * 1000));
        }
        let now = Time(9000);
        for (id, code) in [(1, 0), (2, 7)] {
            queue.started(now, crate::JobId(id)).unwrap();
            let outcome = Outcome { code, rank: None, message: String::new() };
            queue.finished(now, crate::JobId(id), outcome).unwrap();
        }
        // What is noted of a job that is over does not end it again.
        queue.memo(now, crate::JobId(1), "steps", "[]").unwrap();
        queue.submit(now, 0, Jobspec::command("j", &["true"]), &Copies::One).unwrap();
        log.extend(queue.take().0);
        let counts = queue.lane_counts();
        let second = counts["second"];
        assert_eq!((second.jobs, second.oldest), (jobs(1, 0, 1, 1), Some(Time(3000))));
        assert_eq!((second.started, second.completed, second.failed), (2, 1, 1));
        let first = counts["first"];
        assert_eq!((first.jobs, first.oldest, first.started), (jobs(1, 0, 0, 0), Some(now), 0));
        let mut replayed = Queue::replay(settings(), log, []).unwrap().queue;
        let second = replayed.lane_counts()["second"];
        assert_eq!((second.jobs, second.started), (jobs(1, 0, 1, 1), 0));
        replayed.purge(now, Time::NEVER, 0);
        assert_eq!(replayed.lane_counts()["second"].jobs, jobs(1, 0, 0, 0));
    }
}
