//! What the side that makes a cluster (the controller, or `quorate` on one machine) writes and
//! the agent in each pod reads, and what the agent hands back.
//!
//! Owns: the agent's configuration file, the environment names and paths inside a pod, exit codes,
//! the termination report and the live status. It is the only room that both sides import, so it
//! holds data and names, never behaviour: no I/O, no clock, no Kubernetes types, no runtime.

#![forbid(unsafe_code)]

pub mod config;
pub mod env;
pub mod exit;
pub mod paths;
pub mod report;
pub mod status;

pub use config::AgentConfig;
pub use report::Report;
pub use status::ClusterStatus;
