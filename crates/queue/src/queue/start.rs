//! The scheduler's turn: what waits, against what is free.

use super::{Effect, Queue};
use crate::event::Event;
use crate::job::Job;
use crate::schedule::{self, Running, Waiting};
use crate::time::Time;
use std::collections::BTreeMap;

impl Queue {
    /// Starts what can be started now. Cheap if nothing changed since the last time; meant to be called
    /// once after each batch of other calls.
    pub fn schedule(&mut self, now: Time) {
        // A pass starts jobs of an array with a limit only until that is reached; what the
        // limit held back then needs a job to end, which makes the queue restless again.
        if !std::mem::take(&mut self.restless) {
            return;
        }
        self.forecasts.clear();
        if self.order.is_empty() {
            return;
        }
        let running: Vec<Running> = self
            .running
            .iter()
            .map(|id| Running { job: *id, end: self.jobs[id].end_at_latest() })
            .collect();
        let lanes: BTreeMap<&str, u32> = self.lanes.keys().map(String::as_str).zip(0..).collect();
        let mut room = self.arrays.clone();
        let (jobs, order, conditions) = (&self.jobs, &self.order, &self.conditions);
        let (states, first_lane) = (&self.lanes, &self.first_lane);
        let waiting = order.iter().filter_map(|(_, id)| {
            let job: &Job = &jobs[id];
            let name = job.spec().queue.as_ref().unwrap_or(first_lane);
            let state = states.get(name).filter(|state| state.lane.started)?;
            if let Some((array, limit)) = Self::limited(job) {
                let count = room.entry(array).or_default();
                // Counted as started: at worst the pass looks at it again in its next turn.
                if *count >= limit {
                    return None;
                }
                *count += 1;
            }
            Some(Waiting {
                job: *id,
                lane: lanes[name.as_str()],
                request: &job.spec().request,
                constraint: conditions.get(id),
                lane_constraint: state.condition.as_ref(),
                limit: job.time_limit,
            })
        });
        let (policy, depth) = (self.policy, self.depth);
        let (pool, seen) = (&mut self.pool, &mut self.seen);
        let decision = schedule::pass(policy, pool, waiting, running, depth, now, seen);
        self.forecasts = decision.forecasts;
        for (id, allocation) in decision.starts {
            self.happen(now, id, Event::Alloc(allocation));
            self.effects.push(Effect::Launch(id));
        }
        self.restless = false;
        self.settle(now);
    }
}
