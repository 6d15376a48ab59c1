//! The in-pod binary `quorate-agent`: broker, launch, remote-shell stand-in.
//!
//! The shell around the pure crates: sockets, clocks, processes and files live here, decisions
//! live in `quorate_overlay` and `quorate_pmi`. It never talks to Kubernetes.
//!
//! - [`broker`]: the overlay's member in this pod, and the handle that the rest of the agent uses;
//! - [`launch`]: parallel jobs;
//! - [`rsh`], [`hosts`]: unmodified launchers in batch scripts;
//! - [`instance`]: a cluster within another's allocation;
//! - [`local`]: the unix socket between the broker and the verbs typed in the pod;
//! - [`files`]: what is sent along with jobs;
//! - [`outside`]: verbs typed outside of the cluster, by way of a port-forward;
//! - [`net`]: keys, TLS and names between pods;
//! - [`settings`]: what the pod is told by files, environment and flags;
//! - [`supervisor`]: PID 1 of the pod;
//! - [`sys`]: the few Linux calls without a safe wrapper.

pub mod broker;
pub mod cli;
pub mod files;
pub mod hosts;
pub mod install;
pub mod instance;
pub mod job;
pub mod launch;
pub mod launcher;
pub mod local;
pub mod logs;
pub mod net;
pub mod outside;
pub mod process_management;
pub mod program;
pub mod query;
pub mod queue;
pub mod report;
pub mod rsh;
pub mod settings;
pub mod start;
pub mod supervisor;
pub mod sys;
pub mod terminal;
pub mod testbed;
pub mod version;

#[cfg(test)]
mod testing;
