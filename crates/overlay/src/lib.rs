//! The broker overlay as a sans-IO state machine (`docs/spec/overlay.md`).
//!
//! One [`Node`] per broker. The shell owns sockets, TLS, names and the clock; it feeds
//! [`Event`]s with the time, runs the [`Effect`]s that come back, and calls again no later than
//! [`Node::next_deadline`]. Equal inputs give equal outputs, which is what lets a test drive
//! thousands of brokers in one process.
//!
//! ```text
//!             shell                              this crate
//!   accept, dial, close, bytes  ──Event──▶  Node::handle(event, now, &mut effects)
//!   sockets, timers, services   ◀─Effect──  links, tree, sessions, channels, events, exchanges
//! ```
//!
//! Owns: the tree's shape, the frames between brokers and their codec, joining and re-parenting,
//! liveness and self-fencing, the truth about who is online, reliable messages between any two
//! brokers, channels, casts, numbered events, reductions, shutdown. Must not: do I/O, read a clock,
//! draw random numbers (the seed is part of [`Config`]), or decide what the loss of a broker means
//! for a program.

#![forbid(unsafe_code)]

mod channel;
mod config;
mod effect;
mod event;
pub mod frame;
mod ids;
mod memory;
mod node;
mod topology;

pub use bytes::Bytes;
pub use channel::{Failure, FailureCode};
pub use config::{Config, Gpu, Inventory, Timing, TimingError};
pub use effect::{CloseReason, Delivery, Effect, Effects, ExitReason, FenceReason, State};
pub use event::{Command, DialFailure, Event};
pub use frame::{INITIAL_CREDITS, MAX_MESSAGE};
pub use ids::{BootId, ChannelId, ExchangeKey, LinkId, Millis, Rank};
pub use memory::MemoryCluster;
pub use node::{Missing, Node};
pub use topology::{FLAT_UP_TO, Topology};
