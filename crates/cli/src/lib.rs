//! The user binary `quorate`: local clusters, and looking at MiniClusters before they exist.
//!
//! ```text
//! args ─> verbs ─> run ── plan ──┐
//!            │                   v
//!            │      front <── control ──> keeper ── player (which pods) ── pods (what a pod is)
//!            │   (what people see)          │
//!            └─────── control ──────────────┤  (ls, exec, delete)
//!                                           v
//!                                        sandbox (namespaces, mounts, links)
//! ```
//!
//! With a flag that names a Kubernetes, the same verbs are calls of its API: `kubernetes`.
//!
//! `player`, `pods` and `progress` are pure; `sandbox` is the one place with `unsafe`.

// Lines for people are short and few; `format!` shows them as they will be read.
#![allow(clippy::format_push_string, clippy::format_collect)]

pub mod agent;
pub mod args;
pub mod control;
pub mod front;
pub mod identity;
pub mod keeper;
pub mod kubernetes;
pub mod player;
pub mod pods;
pub mod progress;
pub mod refusal;
pub mod registry;
pub mod sandbox;
pub mod table;
pub mod terminal;
pub mod verbs;
