//! What the side that makes a cluster (the controller, or `quorate` on one machine) writes and
//! the agent in each pod reads, and what the agent hands back.
//!
//! Owns: the agent's configuration file, the environment names and paths inside a pod, exit codes,
//! the termination report, the live status and the words of the channel that carries it, and the
//! derivation of keys. It is the only room that both sides import, so it holds data, names and
//! formats, never behaviour: no I/O, no clock, no Kubernetes types, no runtime.

#![forbid(unsafe_code)]

pub mod config;
pub mod env;
pub mod exit;
pub mod keys;
pub mod observe;
pub mod outside;
pub mod parcel;
pub mod paths;
pub mod report;
pub mod status;

pub use config::AgentConfig;
pub use report::Report;
pub use status::ClusterStatus;
