//! Why a cluster is not running: one cause, one sentence, and what to do.
//!
//! The first that applies is told, in this order; each step has a module.
//!
//! 1. `ended`: deleted, succeeded, failed, or the program has ended and JobSet has yet to say so.
//! 2. `object`: what keeps the object from becoming anything: it is not valid, a name is taken, an
//!    object is refused, a change cannot be taken.
//! 3. `away`: pods are kept away by the spec or a queue.
//! 4. `running`: the cluster is quorate.
//! 5. `making`: JobSet makes no Jobs, Jobs make no pods.
//! 6. `pods`: pods that cannot start or were lost, the worst trouble first ([`pods`] has the order).
//! 7. `brokers`: a restart, pods on their way, brokers that have not joined.
//!
//! A sentence has no times that pass and no counters that run, or the status would be written
//! again and again; [`Why::since`] has the time.

mod away;
mod brokers;
mod ended;
mod making;
mod object;
mod pods;
pub(crate) mod runtime;
mod scheduler;
mod topology;
pub(crate) mod words;

use std::fmt::Write as _;

use k8s_openapi::jiff::Timestamp;
use quorate_api::conditions::reason;
use quorate_contract::report::Reason;

use crate::observed::Observed;
use crate::scene::{Scene, Turn};

/// What a cluster waits for, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is being deleted.
    Deleting,
    /// The program ended with 0.
    Succeeded,
    /// It failed, in the words of an agent's report.
    Reported(Reason),
    /// All restarts are used up.
    RestartsExhausted,
    /// `activeDeadlineSeconds` is over.
    DeadlineExceeded,
    /// The JobSet failed, and nothing that is left says more.
    JobSetFailed,
    /// The program has ended, the JobSet has not said so yet.
    ProgramEnded,
    /// The object breaks rules.
    Invalid,
    /// A planned name belongs to someone else.
    NameTaken,
    /// The JobSet cannot take a change.
    Immutable,
    /// The API server or a webhook refuses an object.
    Refused,
    /// `spec.suspend`.
    SuspendedBySpec,
    /// Someone else suspended the JobSet.
    SuspendedByOther,
    /// Kueue has not admitted it.
    WaitingForAdmission,
    /// Kueue took the quota away.
    QueueEvicted,
    /// The program runs.
    ProgramRuns,
    /// The cluster is up, without a program.
    Ready,
    /// It is up, and is to be smaller once jobs on the brokers that go have ended.
    WaitingForJobs,
    /// The JobSet is not there yet.
    Starting,
    /// The JobSet controller does nothing.
    JobSetSilent,
    /// The JobSet controller cannot make Jobs.
    JobsRefused,
    /// A ResourceQuota is used up.
    QuotaExceeded,
    /// Admission refuses pods.
    PodsRefused,
    /// The scheduler finds no node.
    Unschedulable,
    /// A scheduling gate is closed.
    SchedulingGated,
    /// An image cannot be had.
    ImagePull,
    /// An init container failed.
    InitFailed,
    /// A Secret, ConfigMap or key is missing.
    ConfigMissing,
    /// A volume cannot be mounted.
    MountFailed,
    /// The node cannot set up the pod.
    SandboxFailed,
    /// A container cannot be started.
    CannotRun,
    /// A container was killed for its memory.
    OutOfMemory,
    /// The kubelet killed a container because its liveness or startup probe failed.
    ProbeFailed,
    /// A container ended with an error.
    ContainerFailed,
    /// Kubernetes took a pod away.
    PodEvicted,
    /// A node does not answer.
    NodeLost,
    /// The next attempt begins.
    Restarting,
    /// Pods are on their way.
    PodsStarting,
    /// Brokers have not joined.
    WaitingForBrokers,
}

impl Cause {
    /// Every cause but those of [`Cause::Reported`], for tables.
    pub const ALL: [Self; 38] = [
        Self::Deleting,
        Self::Succeeded,
        Self::RestartsExhausted,
        Self::DeadlineExceeded,
        Self::JobSetFailed,
        Self::ProgramEnded,
        Self::Invalid,
        Self::NameTaken,
        Self::Immutable,
        Self::Refused,
        Self::SuspendedBySpec,
        Self::SuspendedByOther,
        Self::WaitingForAdmission,
        Self::QueueEvicted,
        Self::ProgramRuns,
        Self::Ready,
        Self::WaitingForJobs,
        Self::Starting,
        Self::JobSetSilent,
        Self::JobsRefused,
        Self::QuotaExceeded,
        Self::PodsRefused,
        Self::Unschedulable,
        Self::SchedulingGated,
        Self::ImagePull,
        Self::InitFailed,
        Self::ConfigMissing,
        Self::MountFailed,
        Self::SandboxFailed,
        Self::CannotRun,
        Self::OutOfMemory,
        Self::ProbeFailed,
        Self::ContainerFailed,
        Self::PodEvicted,
        Self::NodeLost,
        Self::Restarting,
        Self::PodsStarting,
        Self::WaitingForBrokers,
    ];

    /// The machine's word: `status.reason`, a condition's reason, an event's reason.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Deleting => reason::DELETING,
            Self::Succeeded => Reason::Completed.as_str(),
            Self::Reported(report) => report.as_str(),
            Self::RestartsExhausted => reason::RESTARTS_EXHAUSTED,
            Self::DeadlineExceeded => reason::DEADLINE_EXCEEDED,
            Self::JobSetFailed => reason::JOBSET_FAILED,
            Self::ProgramEnded => reason::PROGRAM_ENDED,
            Self::Invalid => reason::INVALID,
            Self::NameTaken => reason::NAME_TAKEN,
            Self::Immutable => reason::IMMUTABLE,
            Self::Refused => reason::REFUSED,
            Self::SuspendedBySpec => reason::SUSPENDED_BY_SPEC,
            Self::SuspendedByOther => reason::SUSPENDED_BY_OTHER,
            Self::WaitingForAdmission => reason::WAITING_FOR_ADMISSION,
            Self::QueueEvicted => reason::QUEUE_EVICTED,
            Self::ProgramRuns => reason::PROGRAM_STARTED,
            Self::Ready => reason::READY,
            Self::WaitingForJobs => reason::WAITING_FOR_JOBS,
            Self::Starting => reason::STARTING,
            Self::JobSetSilent => reason::JOBSET_SILENT,
            Self::JobsRefused => reason::JOBS_REFUSED,
            Self::QuotaExceeded => reason::QUOTA_EXCEEDED,
            Self::PodsRefused => reason::PODS_REFUSED,
            Self::Unschedulable => reason::UNSCHEDULABLE,
            Self::SchedulingGated => reason::SCHEDULING_GATED,
            Self::ImagePull => reason::IMAGE_PULL,
            Self::InitFailed => reason::INIT_FAILED,
            Self::ConfigMissing => reason::CONFIG_MISSING,
            Self::MountFailed => reason::MOUNT_FAILED,
            Self::SandboxFailed => reason::SANDBOX_FAILED,
            Self::CannotRun => reason::CANNOT_RUN,
            Self::OutOfMemory => reason::OUT_OF_MEMORY,
            Self::ProbeFailed => reason::PROBE_FAILED,
            Self::ContainerFailed => reason::CONTAINER_FAILED,
            Self::PodEvicted => reason::POD_EVICTED,
            Self::NodeLost => reason::NODE_LOST,
            Self::Restarting => reason::RESTARTING,
            Self::PodsStarting => reason::PODS_STARTING,
            Self::WaitingForBrokers => reason::WAITING_FOR_BROKERS,
        }
    }

    /// The cause that a word stands for.
    pub fn of_word(word: &str) -> Option<Self> {
        let reported = serde_json::from_value::<Reason>(word.into()).ok();
        match reported {
            Some(Reason::Completed) => Some(Self::Succeeded),
            Some(Reason::OutOfMemory) => Some(Self::OutOfMemory),
            Some(reason) => Some(Self::Reported(reason)),
            None => Self::ALL.into_iter().find(|cause| cause.reason() == word),
        }
    }

    /// Whether someone has to do something: time alone does not mend it.
    pub fn is_trouble(self) -> bool {
        !matches!(
            self,
            Self::Deleting
                | Self::Succeeded
                | Self::ProgramEnded
                | Self::SuspendedBySpec
                | Self::SuspendedByOther
                | Self::WaitingForAdmission
                | Self::ProgramRuns
                | Self::Ready
                | Self::WaitingForJobs
                | Self::Starting
                | Self::Restarting
                | Self::PodsStarting
                | Self::WaitingForBrokers
        )
    }

    /// Whether it is this very cluster whose pods somebody has to mend. Other troubles (nodes, quotas, other
    /// controllers) may come to many clusters at once, and go by themselves.
    pub fn is_own_trouble(self) -> bool {
        matches!(
            self,
            Self::PodsRefused
                | Self::ImagePull
                | Self::InitFailed
                | Self::ConfigMissing
                | Self::CannotRun
                | Self::OutOfMemory
                | Self::ProbeFailed
                | Self::ContainerFailed
        )
    }
}

/// The answer to "why is it not running?".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The machine's word.
    pub cause: Cause,
    /// One sentence without a final period; it starts in lower case, to stand after a colon.
    pub message: String,
    /// Since when it is so, if that is known.
    pub since: Option<Timestamp>,
    /// Who is there.
    pub brokers: Brokers,
    /// What a person can do, if anything.
    pub to_do: Option<String>,
    /// Whether it has succeeded or failed for good.
    pub over: bool,
}

/// Who is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brokers {
    /// Connected brokers.
    pub online: u32,
    /// Planned ones.
    pub size: u32,
    /// How many the program needs to start.
    pub quorum: u32,
    /// Brokers that are missing, with what is known of why; at most 32, from the launcher's words.
    pub missing: Vec<String>,
}

impl std::fmt::Display for Brokers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}, the quorum is {}", self.online, self.size, self.quorum)
    }
}

impl Why {
    /// The lines that people read, without a final newline:
    ///
    /// ```text
    /// lammps is not running: 2 of 9 pods cannot be scheduled: no node has 4 free CPUs.
    ///   since     3m10s
    ///   brokers   7/9, the quorum is 9
    ///   to do     ask for less than 4 CPUs a pod, or set minSize: 7
    /// ```
    pub fn render(&self, name: &str, now: Timestamp) -> String {
        let state = match self.cause {
            Cause::Succeeded => "succeeded",
            Cause::ProgramRuns => "is running",
            Cause::Ready | Cause::WaitingForJobs => "is ready",
            Cause::ProgramEnded => "is ending",
            Cause::Immutable => "was not changed",
            _ if self.over => "failed",
            _ => "is not running",
        };
        let mut text = format!("{name} {state}: {}.", self.message);
        if let Some(since) = self.since {
            let _ = write!(text, "\n  since     {}", words::span(since, now));
        }
        let _ = write!(text, "\n  brokers   {}", self.brokers);
        for missing in &self.brokers.missing {
            let _ = write!(text, "\n            {missing}");
        }
        if let Some(to_do) = &self.to_do {
            let _ = write!(text, "\n  to do     {to_do}");
        }
        text
    }
}

/// What one step of the search found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    cause: Cause,
    message: String,
    since: Option<Timestamp>,
    to_do: Option<String>,
}

impl Found {
    fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), since: None, to_do: None }
    }

    fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }

    fn advise(mut self, to_do: impl Into<String>) -> Self {
        self.to_do = Some(to_do.into());
        self
    }
}

/// Why the cluster is not running, or that it is.
pub fn why(observed: &Observed, now: Timestamp) -> Why {
    of_scene(&Scene::new(observed, now))
}

/// When time alone may change the answer: someone has to look again then, without an event.
pub fn recheck(observed: &Observed, now: Timestamp) -> Option<Timestamp> {
    let scene = Scene::new(observed, now);
    let deadlines = making::deadlines(&scene).chain(pods::deadlines(&scene));
    deadlines.chain(brokers::deadlines(&scene)).filter(|at| *at > now).min()
}

/// What refuses the object, if anything does: cause and sentence.
pub(crate) fn refusal(scene: &Scene<'_>) -> Option<(Cause, String)> {
    object::look(scene).map(|found| (found.cause, words::sentence(&found.message)))
}

/// What keeps the pods from their quorum, whatever is refused besides.
pub(crate) fn beneath(scene: &Scene<'_>) -> (Cause, String) {
    let found = away::look(scene).unwrap_or_else(|| coming(scene));
    (found.cause, words::sentence(&found.message))
}

fn coming(scene: &Scene<'_>) -> Found {
    brokers::quorate(scene)
        .or_else(|| making::look(scene))
        .or_else(|| pods::look(scene))
        .unwrap_or_else(|| brokers::look(scene))
}

pub(crate) fn of_scene(scene: &Scene<'_>) -> Why {
    let found = ended::look(scene)
        .or_else(|| object::look(scene))
        .or_else(|| away::look(scene))
        .unwrap_or_else(|| coming(scene));
    let missing = scene
        .live
        .filter(|_| scene.turn == Turn::Waiting || scene.turn == Turn::Quorate)
        .map(|live| live.missing.iter().map(words::missing).collect())
        .unwrap_or_default();
    Why {
        cause: found.cause,
        message: words::sentence(&found.message),
        since: found.since,
        brokers: Brokers {
            online: scene.online(),
            size: scene.shape.size,
            quorum: scene.shape.min_size,
            missing,
        },
        to_do: found.to_do,
        over: matches!(scene.turn, Turn::Over | Turn::Succeeded | Turn::Failed),
    }
}
