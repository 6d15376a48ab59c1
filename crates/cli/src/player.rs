//! Plays a JobSet on one machine: a state machine that decides which pods exist, as the JobSet
//! controller (v0.12) and the Job controller (Kubernetes 1.36) would.
//!
//! ```text
//! pod ended, time passed, suspend ─> Player::step(now) ─> create pod, terminate pod, finished
//! ```
//!
//! It knows no process and no clock: the keeper carries out its actions and tells it what
//! happened. Only the controllers' own waiting times between looks are not imitated.

mod job;
mod policy;
#[cfg(test)]
mod tests;

use job::{Job, JobPlan, Verdict};
use policy::{FailedJob, JobSetVerdict};
use quorate_api::jobset::{JobSetSpec, Operator, RestartStrategy, StartupOrder};
use std::collections::BTreeMap;
use std::time::Duration;

/// One pod of one attempt. A replaced pod differs in `number` only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId {
    /// The replicated job.
    pub group: String,
    /// The Job's index in it.
    pub job: u32,
    /// The completion index.
    pub index: u32,
    /// The JobSet's restart attempt.
    pub attempt: u32,
    /// Which pod of this index it is, from 0.
    pub number: u32,
}

impl PodId {
    /// How people call the pod: `worker-0-3`.
    pub fn display_name(&self) -> String {
        format!("{}-{}-{}", self.group, self.job, self.index)
    }
}

/// How a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The main container's exit code.
    pub code: i32,
    /// Ended from outside (deleted, evicted): its condition `DisruptionTarget` is true.
    pub disrupted: bool,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A pod ended. Its processes are gone.
    PodEnded(PodId, Exit),
    /// `spec.suspend` was set.
    Suspend(bool),
    /// Nothing but the passing of time; also the start.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start this pod.
    Create(PodId),
    /// SIGTERM, and SIGKILL after the pod's grace period.
    Terminate(PodId),
    /// Everything starts again with this attempt.
    Restarted {
        /// The attempt that begins.
        attempt: u32,
        /// Why.
        message: String,
    },
    /// The JobSet has ended; pods may still be on their way out.
    Finished(Outcome),
}

/// How the JobSet ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Condition Completed.
    Completed,
    /// Condition Failed.
    Failed {
        /// The condition's reason.
        reason: &'static str,
        /// For people.
        message: String,
    },
}

/// Why a JobSet cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// A field asks for something that only the real controllers do.
    #[error("{field}: {why} on one machine")]
    Unsupported {
        /// The field.
        field: String,
        /// What is not done.
        why: &'static str,
    },
}

/// The state machine.
#[derive(Clone, Debug)]
pub struct Player {
    spec: JobSetSpec,
    plans: Vec<(String, u32, JobPlan)>,
    jobs: Vec<Job>,
    restarts: u32,
    counted: u32,
    suspended: bool,
    /// When the Jobs of each group first started since the last suspension.
    begun: BTreeMap<(String, u32), Duration>,
    outcome: Option<Outcome>,
}

impl Player {
    /// A player at the start; [`Self::step`] with [`Event::Tick`] begins.
    pub fn new(spec: JobSetSpec) -> Result<Self, PlayError> {
        let mut plans = Vec::new();
        for group in &spec.replicated_jobs {
            let job = group.template.spec.clone().unwrap_or_default();
            let plan = JobPlan::read(&group.name, &job)?;
            plans.push((group.name.clone(), u32::try_from(group.replicas).unwrap_or(0), plan));
        }
        let rules = spec.failure_policy.iter().flat_map(|p| &p.rules);
        if let Some(rule) = { rules }.find(|r| !r.on_job_failure_message_patterns.is_empty()) {
            return Err(PlayError::Unsupported {
                field: format!("failurePolicy.rules[{}].onJobFailureMessagePatterns", rule.name),
                why: "patterns are not matched",
            });
        }
        if spec
            .startup_policy
            .as_ref()
            .is_some_and(|p| p.startup_policy_order == StartupOrder::InOrder)
        {
            return Err(PlayError::Unsupported {
                field: "startupPolicy.startupPolicyOrder".into(),
                why: "InOrder is not played",
            });
        }
        let suspended = spec.suspend.unwrap_or(false);
        Ok(Self {
            spec,
            plans,
            jobs: Vec::new(),
            restarts: 0,
            counted: 0,
            suspended,
            begun: BTreeMap::new(),
            outcome: None,
        })
    }

    /// The current restart attempt.
    pub fn attempt(&self) -> u32 {
        self.restarts
    }

    /// Ended, and no pod is left.
    pub fn is_over(&self) -> bool {
        self.outcome.is_some() && self.jobs.iter().all(|job| !job.has_pods())
    }

    /// When [`Self::step`] may have something to do without an event.
    pub fn next_timer(&self, now: Duration) -> Option<Duration> {
        if self.outcome.is_some() {
            return None;
        }
        self.jobs.iter().filter_map(|job| job.next_timer(now)).min()
    }

    /// Takes an event and says what is to be done. `now` counts from any fixed moment.
    pub fn step(&mut self, now: Duration, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::PodEnded(pod, exit) => {
                if let Some(job) = self.jobs.iter_mut().find(|job| job.owns(&pod)) {
                    job.pod_ended(&pod, exit, now);
                }
            }
            Event::Suspend(suspended) => {
                self.suspended = suspended;
                if suspended {
                    self.begun.clear();
                }
            }
            Event::Tick => {}
        }
        // The Job controller first, then the JobSet controller, which may make Jobs.
        self.reconcile_jobs(now, &mut actions);
        self.reconcile(&mut actions);
        self.reconcile_jobs(now, &mut actions);
        actions
    }

    fn reconcile_jobs(&mut self, now: Duration, actions: &mut Vec<Action>) {
        for job in &mut self.jobs {
            job.reconcile(now, actions);
            if let Some(started) = job.started().filter(|_| !self.suspended) {
                self.begun.entry((job.group.clone(), job.place)).or_insert(started);
            }
        }
        self.jobs.retain(|job| !job.is_gone());
    }

    /// The order of the JobSet controller: finished, old attempts, failure, success, creation,
    /// suspension. Failure is looked at before success.
    fn reconcile(&mut self, actions: &mut Vec<Action>) {
        if self.outcome.is_some() {
            return;
        }
        self.delete_old(actions);
        if self.judge_failures(actions) {
            return;
        }
        if self.is_successful() {
            self.finish(Outcome::Completed, actions);
            return;
        }
        self.create_jobs();
        for job in self.jobs.iter_mut().filter(|job| job.attempt == self.restarts) {
            job.suspend(self.suspended, actions);
        }
    }

    fn delete_old(&mut self, actions: &mut Vec<Action>) {
        for job in self.jobs.iter_mut().filter(|job| job.attempt < self.restarts) {
            job.delete(actions);
        }
        self.jobs.retain(|job| !job.is_gone());
    }

    /// True when failed Jobs decided this pass.
    fn judge_failures(&mut self, actions: &mut Vec<Action>) -> bool {
        let mut failed: Vec<_> = self
            .jobs
            .iter()
            .filter(|job| job.attempt == self.restarts)
            .filter_map(|job| match job.condition() {
                Some(Verdict::Failed { reason, message, at }) => {
                    Some((*at, job.group.clone(), *reason, message.clone()))
                }
                _ => None,
            })
            .collect();
        failed.sort_by_key(|(at, ..)| *at);
        let Some((_, _, _, message)) = failed.first().cloned() else { return false };
        let table: Vec<_> =
            failed.iter().map(|(_, group, reason, _)| FailedJob { group, reason }).collect();
        match policy::judge_jobs(self.spec.failure_policy.as_ref(), &table, self.counted) {
            JobSetVerdict::Fail(reason) => {
                self.finish(Outcome::Failed { reason, message }, actions);
            }
            JobSetVerdict::Restart { counts } => {
                self.restarts += 1;
                self.counted += u32::from(counts);
                actions.push(Action::Restarted { attempt: self.restarts, message });
                self.delete_old(actions);
                self.create_jobs();
            }
        }
        true
    }

    fn is_successful(&self) -> bool {
        let policy = self.spec.success_policy.as_ref();
        let targets = policy.map_or(&[][..], |p| &p.target_replicated_jobs);
        let counts = |name: &String| targets.is_empty() || targets.contains(name);
        let wanted: u32 = self
            .plans
            .iter()
            .filter(|(name, ..)| counts(name))
            .map(|(_, replicas, _)| replicas)
            .sum();
        let complete = self
            .jobs
            .iter()
            .filter(|job| job.attempt == self.restarts && counts(&job.group))
            .filter(|job| job.condition() == Some(&Verdict::Complete))
            .count();
        match policy.map_or(Operator::All, |p| p.operator) {
            Operator::All => complete >= wanted as usize && wanted > 0,
            Operator::Any => complete > 0,
        }
    }

    fn create_jobs(&mut self) {
        let strategy = self.spec.failure_policy.as_ref().and_then(|p| p.restart_strategy);
        let blocking = strategy == Some(RestartStrategy::BlockingRecreate);
        if blocking && self.jobs.iter().any(|job| job.attempt < self.restarts) {
            return;
        }
        for (group, replicas, plan) in &self.plans {
            for index in 0..*replicas {
                // Also true while the Job of the last attempt is still there.
                let exists = self.jobs.iter().any(|j| j.group == *group && j.place == index);
                if !exists {
                    let mut job =
                        Job::new(group, index, self.restarts, plan.clone(), self.suspended);
                    job.begun = self.begun.get(&(group.clone(), index)).copied();
                    self.jobs.push(job);
                }
            }
        }
    }

    /// Finished Jobs stay, active ones are deleted with their pods.
    fn finish(&mut self, outcome: Outcome, actions: &mut Vec<Action>) {
        self.outcome = Some(outcome.clone());
        actions.push(Action::Finished(outcome));
        for job in self.jobs.iter_mut().filter(|job| job.condition().is_none()) {
            job.delete(actions);
        }
        self.jobs.retain(|job| !job.is_gone());
    }
}
