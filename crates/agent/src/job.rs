//! Parallel jobs: one leader on rank 0, one member on each broker that has tasks, a front on the
//! broker whose pod the command was typed in.
//!
//! ```text
//!   client ──socket──▶ front ──channel──▶ leader ──cast──▶ members ──spawn──▶ tasks
//!          ◀─ output ─       ◀─ output ──        ◀─ channel of each member
//! ```
//!
//! The leader decides (placement, verdicts, outcome), members carry out. Whoever loses its
//! counterpart ends: a member without leader kills its tasks, a leader without client cancels. Jobs of the
//! queue that no client owns outlive their leader: members keep the tasks until the next one
//! asks for them, within a bound.

pub mod arguments;
pub mod client;
pub mod front;
pub mod held;
pub mod kept;
pub mod leader;
pub mod member;
pub mod protocol;
pub mod registry;
pub(crate) mod streams;
pub(crate) mod uplink;

pub use registry::Jobs;
