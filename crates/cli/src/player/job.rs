//! One Indexed Job, as the Job controller of Kubernetes runs it (KEP-2214, KEP-3329, KEP-3850):
//! which indexes have a pod, what a failed pod means, when the Job is complete or failed.

use super::policy::{self, PodVerdict};
use super::{Action, Exit, PlayError, PodId};
use k8s_openapi::api::batch::v1::{JobSpec, PodFailurePolicyRule};
use quorate_api::jobset::job_failure;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The back-off of the Job controller: 10 s, doubled with each failure, at most ten minutes.
const BACKOFF_START: Duration = Duration::from_secs(10);
const BACKOFF_LIMIT: Duration = Duration::from_mins(10);
/// The limit where a Job names none.
const DEFAULT_BACKOFF_LIMIT: u32 = 6;

/// What the player needs of a Job's specification.
#[derive(Clone, Debug)]
pub(super) struct JobPlan {
    completions: u32,
    parallelism: u32,
    backoff_limit: u32,
    per_index: Option<u32>,
    max_failed_indexes: Option<u32>,
    deadline: Option<Duration>,
    rules: Vec<PodFailurePolicyRule>,
}

impl JobPlan {
    pub(super) fn read(group: &str, spec: &JobSpec) -> Result<Self, PlayError> {
        let unsupported = |field: &str, why: &'static str| PlayError::Unsupported {
            field: format!("replicatedJobs[{group}].template.spec.{field}"),
            why,
        };
        if spec.completion_mode.as_deref() != Some("Indexed") {
            return Err(unsupported("completionMode", "only Indexed is played"));
        }
        let restart = spec.template.spec.as_ref().and_then(|s| s.restart_policy.as_deref());
        if restart != Some("Never") {
            return Err(unsupported("template.spec.restartPolicy", "only Never is played"));
        }
        if spec.success_policy.is_some() {
            return Err(unsupported("successPolicy", "a Job's own success policy is not played"));
        }
        let count = |value: Option<i32>| value.map(|v| u32::try_from(v).unwrap_or(0));
        let per_index = count(spec.backoff_limit_per_index);
        let default = if per_index.is_some() { u32::MAX } else { DEFAULT_BACKOFF_LIMIT };
        let completions = count(spec.completions).unwrap_or(1);
        Ok(Self {
            completions,
            parallelism: count(spec.parallelism).unwrap_or(1),
            backoff_limit: count(spec.backoff_limit).unwrap_or(default),
            per_index,
            max_failed_indexes: count(spec.max_failed_indexes),
            deadline: spec
                .active_deadline_seconds
                .map(|s| Duration::from_secs(u64::try_from(s).unwrap_or(0))),
            rules: spec.pod_failure_policy.clone().map(|p| p.rules).unwrap_or_default(),
        })
    }
}

/// How a Job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Complete,
    Failed { reason: &'static str, message: String, at: Duration },
}

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    last: Duration,
}

impl Failures {
    fn add(&mut self, now: Duration) {
        self.count += 1;
        self.last = now;
    }

    /// When the next pod may be made.
    fn until(self) -> Option<Duration> {
        let doublings = self.count.checked_sub(1)?.min(16);
        Some(self.last + (BACKOFF_START * 2_u32.pow(doublings)).min(BACKOFF_LIMIT))
    }
}

#[derive(Clone, Debug)]
struct Active {
    id: PodId,
    terminating: bool,
}

/// The state of one Job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) group: String,
    /// Its index in the replicated job.
    pub(super) place: u32,
    pub(super) attempt: u32,
    plan: JobPlan,
    active: Vec<Active>,
    succeeded: BTreeSet<u32>,
    failed: BTreeSet<u32>,
    by_index: BTreeMap<u32, Failures>,
    /// Pods that counted as failed, and when the last did; a success resets the back-off only.
    counted: u32,
    backoff: Failures,
    tries: BTreeMap<u32, u32>,
    started: Option<Duration>,
    /// When the first attempt started: its time limit goes on, as the owner of a JobSet sees to.
    pub(super) begun: Option<Duration>,
    suspended: bool,
    deleting: bool,
    verdict: Option<Verdict>,
}

impl Job {
    pub(super) fn new(
        group: &str,
        place: u32,
        attempt: u32,
        plan: JobPlan,
        suspended: bool,
    ) -> Self {
        Self {
            group: group.to_owned(),
            place,
            attempt,
            plan,
            active: Vec::new(),
            succeeded: BTreeSet::new(),
            failed: BTreeSet::new(),
            by_index: BTreeMap::new(),
            counted: 0,
            backoff: Failures::default(),
            tries: BTreeMap::new(),
            started: None,
            begun: None,
            suspended,
            deleting: false,
            verdict: None,
        }
    }

    /// How the Job ended, once all of its pods are gone: that is when its condition turns true.
    pub(super) fn condition(&self) -> Option<&Verdict> {
        self.verdict.as_ref().filter(|_| self.active.is_empty())
    }

    /// Deleted, and its last pod is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.deleting && self.active.is_empty()
    }

    pub(super) fn started(&self) -> Option<Duration> {
        self.started
    }

    pub(super) fn has_pods(&self) -> bool {
        !self.active.is_empty()
    }

    pub(super) fn owns(&self, pod: &PodId) -> bool {
        pod.group == self.group && pod.job == self.place && pod.attempt == self.attempt
    }

    /// Foreground deletion: the pods go first.
    pub(super) fn delete(&mut self, actions: &mut Vec<Action>) {
        self.deleting = true;
        self.stop_pods(actions);
    }

    /// Suspension ends the pods and the clock of the deadline; what has succeeded stays so.
    pub(super) fn suspend(&mut self, suspended: bool, actions: &mut Vec<Action>) {
        if self.suspended == suspended || self.verdict.is_some() {
            return;
        }
        self.suspended = suspended;
        if suspended {
            self.started = None;
            self.begun = None;
            self.stop_pods(actions);
        }
    }

    fn stop_pods(&mut self, actions: &mut Vec<Action>) {
        for pod in self.active.iter_mut().filter(|p| !p.terminating) {
            pod.terminating = true;
            actions.push(Action::Terminate(pod.id.clone()));
        }
    }

    /// A pod of this Job has ended.
    pub(super) fn pod_ended(&mut self, pod: &PodId, exit: Exit, now: Duration) {
        let Some(at) = self.active.iter().position(|p| p.id == *pod) else { return };
        let terminating = self.active.remove(at).terminating;
        if self.deleting || self.verdict.is_some() || (terminating && self.suspended) {
            return;
        }
        let index = pod.index;
        if exit.code == 0 {
            self.succeeded.insert(index);
            self.backoff = Failures::default();
            return;
        }
        match policy::judge_pod(&self.plan.rules, exit) {
            PodVerdict::FailJob => {
                let message = format!(
                    "pod {}-{}-{index} ended with code {} and its failure policy says FailJob",
                    self.group, self.place, exit.code
                );
                self.fail(job_failure::POD_FAILURE_POLICY, message, now);
            }
            PodVerdict::FailIndex if self.plan.per_index.is_some() => {
                self.counted += 1;
                self.failed.insert(index);
            }
            PodVerdict::Ignore => self.delay(index, now),
            PodVerdict::Count | PodVerdict::FailIndex => {
                self.counted += 1;
                self.delay(index, now);
                if let Some(limit) = self.plan.per_index
                    && self.by_index.get(&index).is_some_and(|f| f.count > limit)
                {
                    self.failed.insert(index);
                }
            }
        }
    }

    /// The next pod has to wait, whether the last one counted or not (measured on Kubernetes 1.36).
    fn delay(&mut self, index: u32, now: Duration) {
        if self.plan.per_index.is_some() {
            self.by_index.entry(index).or_default().add(now);
        } else {
            self.backoff.add(now);
        }
    }

    fn fail(&mut self, reason: &'static str, message: String, now: Duration) {
        self.verdict.get_or_insert(Verdict::Failed { reason, message, at: now });
    }

    /// Brings pods in line with the state.
    pub(super) fn reconcile(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.deleting {
            return;
        }
        if !self.suspended && self.verdict.is_none() {
            let started = *self.started.get_or_insert(now);
            self.judge(started, now);
        }
        if self.verdict.is_some() {
            self.stop_pods(actions);
            return;
        }
        if !self.suspended {
            self.create_pods(now, actions);
        }
    }

    fn judge(&mut self, started: Duration, now: Duration) {
        let name = format!("{}-{}", self.group, self.place);
        if self.counted > self.plan.backoff_limit {
            let message = format!("{} pods of {name} failed", self.counted);
            self.fail(job_failure::BACKOFF_LIMIT_EXCEEDED, message, now);
        } else if self.plan.deadline.is_some_and(|d| now >= self.begun.unwrap_or(started) + d) {
            let message = format!("{name} was active longer than its deadline");
            self.fail(job_failure::DEADLINE_EXCEEDED, message, now);
        } else if let Some(limit) = self.plan.max_failed_indexes
            && self.failed.len() > limit as usize
        {
            let message = format!("{} indexes of {name} failed", self.failed.len());
            self.fail(job_failure::MAX_FAILED_INDEXES_EXCEEDED, message, now);
        } else if self.succeeded.len() + self.failed.len() >= self.plan.completions as usize {
            if self.failed.is_empty() {
                self.verdict = Some(Verdict::Complete);
            } else {
                let message = format!("{} indexes of {name} failed", self.failed.len());
                self.fail(job_failure::FAILED_INDEXES, message, now);
            }
        }
    }

    fn create_pods(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.backoff.until().is_some_and(|until| now < until) {
            return;
        }
        for index in 0..self.plan.completions {
            if self.active.len() >= self.plan.parallelism as usize {
                return;
            }
            let done = self.succeeded.contains(&index)
                || self.failed.contains(&index)
                || self.active.iter().any(|p| p.id.index == index);
            let waits = self
                .by_index
                .get(&index)
                .and_then(|failures| failures.until())
                .is_some_and(|until| now < until);
            if done || waits {
                continue;
            }
            let number = self.tries.entry(index).or_default();
            let id = PodId {
                group: self.group.clone(),
                job: self.place,
                index,
                attempt: self.attempt,
                number: *number,
            };
            *number += 1;
            self.active.push(Active { id: id.clone(), terminating: false });
            actions.push(Action::Create(id));
        }
    }

    /// When [`Self::reconcile`] may have something to do without an event.
    pub(super) fn next_timer(&self, now: Duration) -> Option<Duration> {
        if self.deleting || self.suspended || self.verdict.is_some() {
            return None;
        }
        let deadline = self.plan.deadline.zip(self.begun.or(self.started)).map(|(d, s)| s + d);
        self.by_index
            .iter()
            .filter(|(index, _)| !self.failed.contains(index) && !self.succeeded.contains(index))
            .filter_map(|(_, failures)| failures.until())
            .chain(self.backoff.until())
            .chain(deadline)
            .filter(|at| *at > now)
            .min()
    }
}
