//! A real Kubernetes with several nodes in namespaces of one machine, for tests.
//!
//! Owns: which programs of which versions it is made of, how they are built and kept, their
//! configuration, the namespaces they run in, and the proof that nothing of it is left afterwards.
//! Must not: know anything of Quorate's own objects or programs (whoever tests those installs them; `images` packs their binaries),
//! or change the machine: sysctls are shielded, `/var`, `/etc` and `/run` private, control groups
//! named after the cluster and removed with it.
#![forbid(unsafe_code)]

pub mod build;
pub mod images;
pub mod modules;
