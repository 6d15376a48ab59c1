//! States of jobs and nodes in Slurm's words.

/// A job's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// Waits.
    Pending,
    /// Runs.
    Running,
    /// Is stopped for a while.
    Suspended,
    /// Its tasks end.
    Completing,
    /// Ended with code 0.
    Completed,
    /// Was cancelled.
    Cancelled,
    /// Failed.
    Failed,
    /// Reached its time limit.
    Timeout,
    /// Lost a node.
    NodeFail,
    /// Could not have its memory.
    OutOfMemory,
}

impl JobState {
    /// Every state.
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Running,
        Self::Suspended,
        Self::Completed,
        Self::Cancelled,
        Self::Failed,
        Self::Timeout,
        Self::NodeFail,
        Self::OutOfMemory,
        Self::Completing,
    ];

    /// Two or three letters.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Pending => "PD",
            Self::Running => "R",
            Self::Suspended => "S",
            Self::Completing => "CG",
            Self::Completed => "CD",
            Self::Cancelled => "CA",
            Self::Failed => "F",
            Self::Timeout => "TO",
            Self::NodeFail => "NF",
            Self::OutOfMemory => "OOM",
        }
    }

    /// The whole word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Suspended => "SUSPENDED",
            Self::Completing => "COMPLETING",
            Self::Completed => "COMPLETED",
            Self::Cancelled => "CANCELLED",
            Self::Failed => "FAILED",
            Self::Timeout => "TIMEOUT",
            Self::NodeFail => "NODE_FAIL",
            Self::OutOfMemory => "OUT_OF_MEMORY",
        }
    }

    /// Reads a code or a word, in any case.
    pub fn read(text: &str) -> Option<Self> {
        let named = |each: &Self| {
            text.eq_ignore_ascii_case(each.code()) || text.eq_ignore_ascii_case(each.word())
        };
        Self::ALL.into_iter().find(named)
    }

    /// Whether squeue shows it without being asked for it.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::Running | Self::Suspended | Self::Completing)
    }
}

/// States of Slurm that no job here is ever in; filters take them and find nothing.
pub(crate) const NEVER: &[(&str, &str)] = &[
    ("PR", "PREEMPTED"),
    ("BF", "BOOT_FAIL"),
    ("DL", "DEADLINE"),
    ("CF", "CONFIGURING"),
    ("RS", "RESIZING"),
    ("RD", "RESV_DEL_HOLD"),
    ("RQ", "REQUEUED"),
    ("RF", "REQUEUE_FED"),
    ("RH", "REQUEUE_HOLD"),
    ("RV", "REVOKED"),
    ("SI", "SIGNALING"),
    ("SE", "SPECIAL_EXIT"),
    ("SO", "STAGE_OUT"),
    ("ST", "STOPPED"),
];

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeBase {
    /// Nobody knows.
    Unknown,
    /// It has no broker.
    Down,
    /// It has no job.
    Idle,
    /// All its CPUs are with jobs.
    Allocated,
    /// Some of its CPUs are with jobs.
    Mixed,
}

/// What is said of a node beside that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeFlag {
    /// Nothing new is started there.
    Drain,
    /// Its broker does not answer.
    NotResponding,
    /// A waiting job will have it.
    Planned,
}

impl NodeBase {
    /// The word in scontrol.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Down => "DOWN",
            Self::Idle => "IDLE",
            Self::Allocated => "ALLOCATED",
            Self::Mixed => "MIXED",
        }
    }
}

impl NodeFlag {
    /// The word in scontrol.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Drain => "DRAIN",
            Self::NotResponding => "NOT_RESPONDING",
            Self::Planned => "PLANNED",
        }
    }
}
