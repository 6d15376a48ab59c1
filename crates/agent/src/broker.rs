//! The overlay's member in this pod: the shell around `quorate_overlay::Node`, and what the
//! launching side of the agent sees of it.
//!
//! ```text
//!   launch, verbs ── Overlay (handle) ──commands──▶ node task ──frames──▶ links (TLS)
//!                 ◀─ Services (handlers) ◀─events── (owns Node) ◀─frames──
//! ```
//!
//! One task owns the node; everything else talks to it by bounded queues. This module must not
//! know what a job is.

pub mod channel;
mod course;
mod ending;
pub mod handle;
pub mod inventory;
pub mod life;
mod link;
mod observe;
pub mod services;
mod shell;
mod status;
mod traffic;
pub mod verbs;

pub use channel::{Channel, ChannelError, Receiver, Sender};
pub use handle::{CastFailed, ExchangeError, Member, Membership, Offline, Overlay, OverlayError};
pub use inventory::Inventory;
pub use services::{Launching, ProgramOutcome, Services, StopReason};
