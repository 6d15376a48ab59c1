//! Clusters of real broker processes on loopback addresses: bring-up, faults, and what they leave
//! behind. Every wait is for a condition, with a deadline.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "all of it is test code, helpers included; a failing test tells the pods' logs"
)]

#[path = "cluster/bringup.rs"]
mod bringup;
#[path = "cluster/deaths.rs"]
mod deaths;
#[path = "cluster/ends.rs"]
mod ends;
#[path = "cluster/observe.rs"]
mod observe;
#[path = "cluster/pods.rs"]
#[allow(dead_code, reason = "the tests of the queue and of launching need the rest")]
mod pods;
#[path = "cluster/refusals.rs"]
mod refusals;
#[path = "cluster/silence.rs"]
mod silence;
#[path = "cluster/start.rs"]
mod start;
