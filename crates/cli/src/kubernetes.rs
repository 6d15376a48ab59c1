//! Clusters on Kubernetes: the verbs of `quorate` as calls of its API, with the rights of the user.
//!
//! ```text
//! verbs ─> session ─┬─ gather ─> quorate_observe ─> words   (ls, status, why)
//!                   ├─ follow ─> progress                   (run)
//!                   └─ logs, exec, objects                  (logs, shell, exec, delete, wait)
//! ```
//!
//! Owns what is asked of the API server and how the answers look. Must not judge a cluster: states
//! and causes are those of `quorate_observe`, which the controller uses as well. Nothing of it runs
//! for clusters of this machine.

mod describe;
mod exec;
mod follow;
mod gather;
mod launch;
mod list;
mod logs;
mod objects;
mod outside;
mod refuse;
mod session;
mod target;
mod words;

#[cfg(test)]
mod tests;

pub use describe::{status, why};
pub use exec::{exec, shell};
pub use launch::run;
pub use list::ls;
pub use logs::logs;
pub use objects::{delete, wait};
pub use outside::{Errand, Sink, queue};

use anyhow::Context as _;

/// Runs a verb to its end.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(work);
    // A thread may be waiting for a key that is never pressed.
    runtime.shutdown_background();
    result
}
