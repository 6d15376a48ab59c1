//! What happens to jobs and to the queue: the entries of the event log (docs/spec/eventlog.md).
//!
//! Names follow Flux RFC 18 and 21 where the meaning is the same.

use crate::id::{ArrayElement, JobId};
use crate::jobspec::{EarlySignal, Jobspec};
use crate::pool::Allocation;
use crate::queue::Lane;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, LazyLock};

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// When it happened.
    pub time: Time,
    /// The job it happened to; absent for what concerns the whole queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Event {
    /// The job was taken.
    Submit(#[serde(with = "shared")] Arc<Submission>),
    /// The job was taken, and is what an earlier one of the log is: written in place of
    /// [`Event::Submit`], which it becomes when it is read.
    Copy(Box<Copy>),
    /// Nothing that it depends on is left to wait for.
    Depend {},
    /// The scheduler may start it; higher numbers first.
    Priority {
        /// Its place in the order.
        priority: u32,
    },
    /// Its urgency was changed.
    Urgency {
        /// The new one.
        urgency: u8,
    },
    /// It must not be started until it is released.
    Hold {},
    /// It may be started again.
    Release {},
    /// Its time limit was changed.
    Limit {
        /// The new one in seconds; `None` is no limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<u64>,
    },
    /// How many jobs of its array may run at once was changed.
    Throttle {
        /// The new number; `None` is as many as fit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    },
    /// It got its nodes.
    Alloc(#[serde(with = "shared")] Arc<Allocation>),
    /// A node of it was lost, and it goes on without that.
    Shrink {
        /// The node's broker.
        rank: u32,
        /// For people.
        note: Box<str>,
    },
    /// Its tasks run.
    Start {},
    /// Rank 0 was started anew, and its tasks, which went on, are led again.
    Reattach {},
    /// All its tasks are gone.
    Finish(#[serde(with = "shared")] Arc<Outcome>),
    /// Its nodes are free for others.
    Free {},
    /// Something went wrong, or somebody wants it to end.
    Exception {
        /// One word: `cancel`, `timeout`, `dependency`, `node-lost`, `exec`.
        kind: Box<str>,
        /// Whether that ends the job.
        severity: Severity,
        /// For people.
        note: Box<str>,
    },
    /// It goes back to the beginning, to run again.
    Requeue {
        /// For people.
        note: Box<str>,
    },
    /// Something worth knowing of it, such as where its nested instance listens.
    Memo {
        /// Its name.
        key: Box<str>,
        /// Its value.
        value: Box<str>,
    },
    /// It is over.
    Clean {},

    /// The queue was started again; what follows happened in a new life of rank 0.
    Restart {},
    /// The first number that no job of this log ever had; entries of jobs below may be gone.
    Ids {
        /// The number.
        next: JobId,
    },
    /// Numbers below this one may be given in this boot of the machine to jobs whose entries are not
    /// durable: another boot gives none of them.
    Reserve {
        /// The number.
        below: JobId,
        /// The boot, as the kernel names it.
        boot: Box<str>,
    },
    /// These jobs, all over, are forgotten.
    Purge {
        /// Their numbers, as first and last of runs.
        jobs: Vec<(JobId, JobId)>,
    },
    /// No job is started on a broker any more; what runs there goes on.
    Drain {
        /// The broker.
        rank: u32,
        /// Why, in the words of who did it.
        reason: Box<str>,
    },
    /// Jobs may be started there again.
    Undrain {
        /// The broker.
        rank: u32,
    },
    /// A queue is as said from now on.
    Lane(Box<Lane>),
}

impl Event {
    /// It got the signal before its end.
    pub(crate) fn warning(signal: Option<EarlySignal>) -> Self {
        let number = signal.map_or(0, |signal| signal.number);
        let note = format!("signal {number} before its time limit");
        Self::Exception { kind: "signal".into(), severity: Severity::Note, note: note.into() }
    }
}

/// A job as it was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Submission {
    /// The numeric id of the user who submitted it.
    pub user: u32,
    /// Its place in an array of jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<ArrayElement>,
    /// Its number among carbon copies, in place of `{cc}` in its specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc: Option<u32>,
    /// What it is; one for all jobs that were submitted together.
    #[serde(with = "shared")]
    pub spec: Arc<Jobspec>,
}

/// A job as it was taken, with the specification of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Copy {
    /// The job whose `submit` says what this one is.
    pub of: JobId,
    /// The numeric id of the user who submitted it.
    pub user: u32,
    /// Its place in an array of jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<ArrayElement>,
    /// Its number among carbon copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cc: Option<u32>,
}

impl Submission {
    /// The same as a copy of another job.
    pub fn copy_of(&self, of: JobId) -> Copy {
        Copy { of, user: self.user, element: self.element, cc: self.cc }
    }
}

impl Copy {
    /// The same with the specification of the other job.
    pub fn with(&self, spec: Arc<Jobspec>) -> Submission {
        Submission { user: self.user, element: self.element, cc: self.cc, spec }
    }
}

/// Whether an exception ends its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// It does.
    Fatal,
    /// It is only kept.
    Note,
}

/// How the tasks of a job ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Outcome {
    /// The highest code of a task, 128 + number for a signal (docs/spec/exit-codes.md).
    pub code: u8,
    /// The first task that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// For people; empty when there is nothing to say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Outcome {
    /// The same for many owners. All jobs of which there is nothing to say have one.
    pub(crate) fn shared(self) -> Arc<Self> {
        static PLAIN: LazyLock<Arc<Outcome>> = LazyLock::new(Arc::default);
        if self == **PLAIN { Arc::clone(&PLAIN) } else { Arc::new(self) }
    }
}

/// What many own, written as if one did.
mod shared {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &Arc<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        T::serialize(value, serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pending jobs carry three of these each, and there may be 100,000 of them.
    #[test]
    fn an_event_stays_small() {
        assert!(size_of::<Event>() <= 48, "{}", size_of::<Event>());
    }
}
