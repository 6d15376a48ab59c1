//! From what was seen of a MiniCluster to what is said of it.
//!
//! ```text
//! Pod, Job, JobSet, Workload, Event --facts--> Observed --status--> MiniClusterStatus
//!                                                 |                       |
//!                                                 +--why--> Why     transitions --> EventDraft
//! ```
//!
//! Owns: which facts count, in which order causes are looked for, and the wording of every sentence
//! that a person reads about a cluster on Kubernetes. It is a total function of its input: no client,
//! no clock, and nothing is changed here. The same words serve the status, its events and
//! `quorate why` (`docs/spec/status.md`).

#![forbid(unsafe_code)]

mod facts;
mod failure;
mod observed;
mod scene;
mod status;
mod transitions;
mod why;

pub use facts::event::EventFacts;
pub use facts::job::JobFacts;
pub use facts::jobset::JobSetFacts;
pub use facts::lost_nodes::LostNodes;
pub use facts::pod::{
    ContainerFacts, ContainerState, Disruption, EXCUSED, Phase, PodFacts, Requests, Unscheduled,
};
pub use facts::workload::WorkloadFacts;
pub use facts::{Fact, Reading};
pub use observed::{GroupShape, Live, Observed, Obstacle, Shape};
pub use status::status;
pub use transitions::{EventDraft, EventType, Pace, pace, patience, transitions};
pub use why::{Brokers, Cause, Why, recheck, why};
