//! The job queue over clusters of real broker processes on loopback addresses. Every wait is for a
//! condition, with a deadline.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "all of it is test code, helpers included; a failing test tells the pods' logs"
)]

#[path = "queue/allocations.rs"]
mod allocations;
#[path = "queue/asking.rs"]
mod asking;
#[path = "queue/control.rs"]
mod control;
#[path = "queue/disks.rs"]
mod disks;
#[path = "queue/dump.rs"]
mod dump;
#[path = "queue/durability.rs"]
mod durability;
#[path = "queue/faults.rs"]
mod faults;
#[path = "queue/floods.rs"]
mod floods;
#[path = "queue/flux.rs"]
mod flux;
#[path = "queue/nested.rs"]
mod nested;
#[path = "cluster/pods.rs"]
#[allow(dead_code, reason = "the other tests of pods need the rest")]
mod pods;
#[path = "queue/reattach.rs"]
mod reattach;
#[path = "queue/slurm.rs"]
mod slurm;
#[path = "queue/streams.rs"]
mod streams;
#[path = "queue/submitting.rs"]
mod submitting;
#[path = "queue/terminal.rs"]
mod terminal;
#[path = "launch/typing.rs"]
#[allow(dead_code, reason = "the tests of launching need the rest")]
mod typing;
#[path = "queue/users.rs"]
mod users;
