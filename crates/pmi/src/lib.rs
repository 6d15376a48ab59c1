//! PMI-1, PMI-2 and PMIx on the wire: codecs and server state machines (`docs/spec/pmi.md`).
//!
//! A [`JobServer`] serves the ranks of one job on one node. The shell owns sockets, timers and
//! processes: it hands bytes in and carries [`Effect`]s out. All protocols meet their peers through
//! one engine: [`Effect::Exchange`] brings this node's blob into an exchange of all nodes, and
//! [`JobServer::exchanged`] takes the blobs of all; what ranks ask for is then answered from memory.

#![forbid(unsafe_code)]

mod core;
mod effect;
mod environment;
mod fence;
mod kvs;
mod layout;
mod mapping;
mod pmi1;
mod pmi2;
mod pmix;
mod server;
mod varint;

#[cfg(test)]
mod fuzz;
// Transcripts of the golden tests name the crate from outside; fuzzing reads them inside.
#[cfg(test)]
extern crate self as quorate_pmi;

pub use core::Exit;
pub use effect::{Cleanup, CleanupOf, ClientId, Effect, Output, Protocol, Sequence};
pub use environment::{Offer, Transports, UnknownOffer, must_not_leak};
pub use layout::{Job, JobSpec, Layout, LayoutError, MAX_RANKS};
pub use server::{JobServer, Options, RankState};
