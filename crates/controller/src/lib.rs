//! The controller: makes every MiniCluster of a Kubernetes cluster what it asks for, and says what it is.
//!
//! ```text
//! watch ──▶ queue ──▶ reconcile: fetch ▸ validate ▸ plan ▸ compare ▸ apply ▸ publish
//!   (caches of facts)            I/O     pure       pure   pure      I/O     I/O
//! ```
//!
//! Owns: the watches, the pipeline and its effects, and what a process of this kind needs around it
//! (leader election, health, metrics, logs). It must not decide what objects look like
//! (`quorate_plan`) or what is said of a cluster (`quorate_observe`), and never sees the overlay.

#![forbid(unsafe_code)]

pub mod context;
pub mod delivery;
pub mod events;
pub mod launcher;
pub mod lease;
pub mod metrics;
pub mod process;
pub mod queue;
pub mod reconcile;
pub mod request;
pub mod run;
pub mod serve;
pub mod settings;
pub mod telemetry;
pub mod watch;

pub use context::Options;
pub use run::run;
