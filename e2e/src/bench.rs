//! Benchmarks of the operator: what they measure and how. `docs/benchmarks.md` has the method and the
//! results.
//!
//! Owns: the clusters, objects and clocks of a measurement. Must not: judge; figures and their targets
//! go to standard output as [`figure::Figure`]s, one JSON object a line, and `cargo xtask bench` makes
//! the table.
//!
//! All times are those of one machine: this process sees events of watches, and what components write
//! down (audit log, container logs, containerd's events) carries the time of the same clock.

pub mod agent;
pub mod cluster;
pub mod controller;
pub mod figure;
pub mod objects;
pub mod operator;
pub mod plan;
pub mod process;
mod recovery;
pub mod watch;
