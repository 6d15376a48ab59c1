//! Tests and benchmarks of everything together, on the real Kubernetes of `quorate-testbed`.
//!
//! Owns: what these tests share: a cluster with Quorate installed from its chart, waiting for what an
//! object says, controllers that run beside that one with a proxy before the API, and what the audit
//! log says of all of them; and how benchmarks measure it. Must not: be used by anything but tests and
//! benchmarks.
#![forbid(unsafe_code)]
// A step that fails is a test that fails: everything here panics with what was seen.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, clippy::panic, clippy::print_stderr)]

pub mod audit;
pub mod bench;
mod cli;
mod controller;
mod lab;
pub mod ledger;
mod namespace;
pub mod proxy;
mod reader;
mod restricted;

pub use cli::{Said, program, quorate};
pub use controller::Controller;
pub use lab::{Lab, NAMESPACE, SYSTEM};
pub use namespace::{Namespace, condition, of_its_generation};
pub use restricted::restricted;
