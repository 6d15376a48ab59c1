//! Jobs, remote shells and programs over clusters of real broker processes on loopback addresses.
//! Every wait is for a condition, with a deadline.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "all of it is test code, helpers included; a failing test tells the pods' logs"
)]

#[path = "launch/deaths.rs"]
mod deaths;
#[path = "launch/deserters.rs"]
mod deserters;
#[path = "launch/instance.rs"]
mod instance;
#[path = "launch/output.rs"]
mod output;
#[path = "launch/placement.rs"]
mod placement;
#[path = "cluster/pods.rs"]
#[allow(dead_code, reason = "the other tests of pods need the rest")]
mod pods;
#[path = "launch/remote.rs"]
mod remote;
#[path = "launch/running.rs"]
mod running;
#[path = "launch/signals.rs"]
mod signals;
#[path = "launch/typing.rs"]
mod typing;
