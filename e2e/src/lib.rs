//! Tests and benchmarks of everything together, on the real Kubernetes of `quorate-testbed`.
//!
//! Owns: what these tests share: a cluster with Quorate installed from its chart, and waiting for
//! what an object says; and how benchmarks measure it. Must not: be used by anything but tests and
//! benchmarks.
#![forbid(unsafe_code)]
// A step that fails is a test that fails: everything here panics with what was seen.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, clippy::panic, clippy::print_stderr)]

mod audit;
pub mod bench;
mod lab;

pub use lab::{Lab, NAMESPACE, SYSTEM};
