//! Leader election by a `coordination.k8s.io/v1` Lease: one of several controllers works at a time.
//!
//! Owns: who leads (`decide`, pure), the loop that reads and replaces the Lease (`elect`), and the
//! fence that every write passes. Must not: know what the leader's work is.
//!
//! ```text
//!   Lease ──▶ decide(view, me, now) ──▶ create / replace by resourceVersion ──▶ Lease
//!                    │
//!                    └──▶ Fence: open until `sent + renew deadline`, asked before each write
//! ```
//!
//! Why there are never two leaders, whatever the clocks show: nobody compares a clock of its own
//! with another's. A leader counts from the moment it *sent* its last confirmed renewal and stops
//! writing after the renew deadline; a follower counts from the moment it *saw* the Lease in its
//! present form, which is later, and waits for the whole duration, which is longer. What is left
//! between both, `duration - renew deadline`, is the time that a write under way may still take.
//! The API server orders the replaces by resourceVersion.

mod candidate;
mod decide;
mod elect;
mod fence;

pub use candidate::Candidate;
pub use decide::{Decision, Holder, Loss, Moment, Sight, Term, Timing, TimingError, View, decide};
pub use elect::{Election, LeaseError, Standing};
pub use fence::{Fence, NotLeader};
