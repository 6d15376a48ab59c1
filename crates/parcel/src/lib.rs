//! Files of a machine that travel with jobs and come back from them (`docs/spec/outside.md`).
//!
//! ```text
//!   pack:    files that were named ──▶ a parcel                     (along with a job)
//!   choose:  patterns, a directory ──▶ files ──▶ a stream, in pieces (at the job)
//!   receive: a stream ──▶ files of this machine                      (at whoever asked)
//! ```
//!
//! Owns reading and writing these files, and that nothing which comes from somewhere else is written
//! where it was not asked for. The formats, and which names are none, are the business of
//! [`quorate_contract::parcel`]; how bytes travel is that of its users.
#![forbid(unsafe_code)]

mod choose;
mod pack;
mod pattern;
mod receive;

pub use choose::{ChooseError, Chosen, choose};
pub use pack::{PackError, pack};
pub use pattern::{Pattern, PatternError};
pub use receive::{ReceiveError, Received, Receiver, readable};
