//! What the facts come to, before anything is said about it: which attempt runs, who its pods are,
//! and whose turn it is. Status and causes look at the same scene, so they cannot contradict each
//! other.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use quorate_api::conditions;
use quorate_api::status::MiniClusterStatus;
use quorate_contract::status::BrokerState;
use quorate_contract::{ClusterStatus, Report, exit};
use quorate_hostlist::IdSet;

use crate::facts::Fact;
use crate::facts::jobset::JobSetFacts;
use crate::facts::pod::{ContainerState, Phase, PodFacts};
use crate::observed::{Observed, Shape};

/// A cluster at one time.
pub(crate) struct Scene<'a> {
    pub observed: &'a Observed,
    pub now: Timestamp,
    pub shape: Shape,
    pub jobset: Option<&'a JobSetFacts>,
    pub attempt: u32,
    /// The launcher's pod of this attempt.
    pub launcher: Option<&'a PodFacts>,
    /// The youngest pod of each planned rank in this attempt.
    pub pods: BTreeMap<u32, &'a PodFacts>,
    pub live: Option<&'a ClusterStatus>,
    pub turn: Turn,
    /// The status that was written last.
    pub old: MiniClusterStatus,
    /// Whether that status speaks of this JobSet.
    pub same_run: bool,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The object is being deleted.
    Deleting,
    /// It was over when the last status was written.
    Over,
    /// The JobSet has completed.
    Succeeded,
    /// The JobSet has failed.
    Failed,
    /// Pods are kept away.
    Suspended,
    /// The launcher has ended; JobSet decides what it means.
    Ended,
    /// Rank 0 says that the cluster is quorate.
    Quorate,
    /// Anything before that.
    Waiting,
}

/// How the launcher's main container ended.
pub(crate) struct End<'a> {
    pub code: Option<i32>,
    pub reason: &'a str,
    pub message: &'a str,
    pub at: Option<Timestamp>,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(observed: &'a Observed, now: Timestamp) -> Self {
        let shape = observed.shape();
        let jobset = observed.own_jobset();
        let old = observed.cluster.status.clone().unwrap_or_default();
        let started = old.start_time.as_ref().map(|time| time.0);
        let same_run = match (jobset.map(|jobset| jobset.created), started) {
            // Without a JobSet the last one's story stands only if it is over.
            (None, _) => false,
            (Some(created), started) => created.is_some() && created == started,
        };
        let mut pods = BTreeMap::new();
        for pod in observed.own_pods() {
            let Some(rank) = shape.rank(pod).filter(|rank| *rank < shape.size) else {
                continue;
            };
            let best = pods.entry(rank).or_insert(pod);
            if age_order(pod) > age_order(best) {
                *best = pod;
            }
        }
        let mut scene = Self {
            observed,
            now,
            shape,
            jobset,
            attempt: observed.attempt(),
            launcher: observed.launcher(),
            pods,
            live: observed.live(),
            turn: Turn::Waiting,
            old,
            same_run,
        };
        scene.turn = scene.find_turn();
        scene
    }

    fn find_turn(&self) -> Turn {
        if self.observed.cluster.metadata.deletion_timestamp.is_some() {
            return Turn::Deleting;
        }
        let over = [conditions::SUCCEEDED, conditions::FAILED].iter().any(|kind| self.was(kind));
        if over && (self.jobset.is_none() || self.same_run) {
            return Turn::Over;
        }
        let Some(jobset) = self.jobset else {
            let suspended = self.observed.cluster.spec.suspend == Some(true);
            return if suspended { Turn::Suspended } else { Turn::Waiting };
        };
        if jobset.failed.holds().is_some() {
            Turn::Failed
        } else if jobset.completed.holds().is_some() {
            Turn::Succeeded
        } else if jobset.suspend == Some(true) {
            Turn::Suspended
        } else if self.end().is_some_and(|end| !self.is_replaced(&end)) {
            Turn::Ended
        } else if self.rank_0_says_quorate() {
            Turn::Quorate
        } else {
            Turn::Waiting
        }
    }

    /// Whether another launcher comes after one that ended so: its Job replaces it, beside the workers,
    /// where there is no program to judge (`quorate_plan`).
    fn is_replaced(&self, end: &End<'_>) -> bool {
        !self.shape.program && !matches!(end.code, Some(exit::OK | exit::BOOTSTRAP_TIMEOUT))
    }

    /// Whether a condition was true in the last status.
    pub(crate) fn was(&self, kind: &str) -> bool {
        self.old.conditions.iter().any(|one| one.type_ == kind && one.status == "True")
    }

    /// Whether the last status speaks of this attempt.
    pub(crate) fn same_attempt(&self) -> bool {
        self.same_run && self.old.attempt == Some(self.attempt.cast_signed())
    }

    /// Whether this attempt had its quorum when the last status was written.
    pub(crate) fn was_quorate(&self) -> bool {
        self.same_attempt() && self.old.quorate_time.is_some()
    }

    fn rank_0_says_quorate(&self) -> bool {
        let Some(launcher) = self.launcher.filter(|pod| !pod.ended()) else { return false };
        match self.live {
            Some(live) => live.state == BrokerState::Run && live.online >= live.min_size,
            None => launcher.ready && launcher.deleting.is_none(),
        }
    }

    /// How the launcher of this attempt ended, if it did; its broker may know before its pod does.
    pub(crate) fn end(&self) -> Option<End<'a>> {
        let told = self.live.and_then(|live| live.report.as_ref()).map(|report| End {
            code: Some(report.exit_code),
            reason: report.reason.as_str(),
            message: &report.message,
            at: None,
        });
        end_of(self.launcher?).or(told)
    }

    /// What a pod left behind; of the launcher also what it is going to leave.
    pub(crate) fn report(&self, pod: &'a PodFacts) -> Option<&'a Report> {
        let told = self
            .live
            .filter(|_| self.launcher.is_some_and(|launcher| launcher.uid == pod.uid))
            .and_then(|live| live.report.as_ref());
        pod.report.as_deref().or(told)
    }

    /// Whether the program runs, or people can use the cluster.
    pub(crate) fn runs(&self) -> bool {
        match self.live.filter(|_| self.shape.program) {
            // A program that lost more brokers than the quorum allows runs until it ends.
            Some(live) => {
                matches!(self.turn, Turn::Quorate | Turn::Waiting)
                    && live.state == BrokerState::Run
                    && live.program.is_some()
            }
            None => self.turn == Turn::Quorate,
        }
    }

    /// Brokers that are connected.
    pub(crate) fn online(&self) -> u32 {
        match (self.turn, self.live) {
            (Turn::Succeeded | Turn::Failed, _) => 0,
            (Turn::Over | Turn::Deleting, _) => self.old.online.unwrap_or(0).max(0).cast_unsigned(),
            (_, Some(live)) => live.online.saturating_sub(self.outlived(live)),
            (_, None) => {
                let ready = |pod: &&&PodFacts| pod.ready && pod.deleting.is_none() && !pod.ended();
                self.pods.values().filter(ready).count() as u32
            }
        }
    }

    /// Brokers that rank 0 holds to be connected although their pods are gone: it learns of a node that
    /// was cut off by its silence alone, and Kubernetes may have given the pods up before.
    fn outlived(&self, live: &ClusterStatus) -> u32 {
        let ranks = |text: &str| text.parse::<IdSet>().unwrap_or_default();
        let (online, silent) = (ranks(&live.online_ranks), ranks(&live.torpid_ranks));
        let gone = |(rank, pod): &(&u32, &&PodFacts)| {
            let taken = pod.deleting.is_some() && silent.contains(**rank);
            online.contains(**rank) && (pod.ended() || taken)
        };
        self.pods.iter().filter(gone).count() as u32
    }

    /// Pods of this attempt whose containers run.
    pub(crate) fn running_pods(&self) -> u32 {
        self.pods.values().filter(|pod| pod.phase == Phase::Running).count() as u32
    }

    /// What the JobSet says of its end.
    pub(crate) fn verdict(&self) -> Option<&'a Fact> {
        let jobset = self.jobset?;
        jobset.failed.holds().or_else(|| jobset.completed.holds())
    }
}

/// How a pod's main container ended, if it did.
pub(crate) fn end_of(pod: &PodFacts) -> Option<End<'_>> {
    match pod.main.as_ref().map(|main| &main.state) {
        Some(ContainerState::Terminated { code, reason, message, at, .. }) => {
            Some(End { code: Some(*code), reason, message, at: *at })
        }
        _ if pod.ended() => {
            Some(End { code: None, reason: &pod.reason, message: &pod.message, at: None })
        }
        _ => None,
    }
}

/// Later is better: a pod that stays before one that goes, then the younger one.
fn age_order(pod: &PodFacts) -> (bool, Option<Timestamp>, &str) {
    (pod.deleting.is_none(), pod.created, &pod.uid)
}
