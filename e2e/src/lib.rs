//! Tests of everything together, on the real Kubernetes of `quorate-testbed`.
//!
//! Owns: what these tests share. Must not: be used by anything but tests.
#![forbid(unsafe_code)]
