//! Starting the tasks of parallel jobs: where they go, what they are bound to, what they see,
//! what becomes of their output, and how their ends become one exit code.
//!
//! Decisions are pure functions in their own modules; `spawn`, `records` and `sweep` touch
//! processes and files, `affinity`, `memory` and `topology` read what the kernel tells.

pub mod accelerators;
pub mod affinity;
pub mod environment;
pub mod memory;
pub mod outcome;
pub mod place;
pub mod records;
pub mod spawn;
pub mod stdio;
pub mod sweep;
pub mod text;
pub mod topology;
