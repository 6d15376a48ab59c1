//! The queue inside a cluster: jobs, what they wait for, what they get, and in which order.
//!
//! Owns the job specification, the append-only event log (docs/spec/eventlog.md) of which every
//! state is a replay, the resources that brokers offer and the scheduler that gives them to jobs
//! (docs/spec/scheduling.md). It decides; it starts nothing, kills nothing and writes no file:
//! [`Queue`] takes what happened with the time it happened at and answers [`Effect`]s, which the
//! shell on rank 0 carries out once the entries before them are durable. It knows no broker, no
//! socket and no Kubernetes.

#![forbid(unsafe_code)]

mod constraint;
mod event;
mod id;
mod job;
mod jobspec;
pub mod log;
mod pool;
mod queue;
pub mod reattach;
mod schedule;
mod text;
mod time;

pub use constraint::{Constraint, ConstraintError};
pub use event::{Copy, Entry, Event, Outcome, Severity, Submission};
pub use id::{ArrayElement, ArraySpan, JobId, JobIdError};
pub use job::{Illegal, Job, Phase, Standing, State};
pub use jobspec::{
    Condition, Dependency, EarlySignal, Jobspec, JobspecError, MAX_STRING, MAX_STRINGS, MAX_TEXT,
    Program, Request, Streams, URGENCY,
};
pub use pool::{Allocation, NodeState, Offer, Part, Pool, PoolError};
pub use queue::{
    Copies, Counts, Effect, Lane, LaneCounts, Limits, Queue, QueueError, Replayed, RestoreError,
    Restored, Settings, Snapshot,
};
pub use schedule::{Forecast, Policy};
pub use time::Time;
