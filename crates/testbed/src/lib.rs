//! A real Kubernetes with several nodes in namespaces of one machine, for tests.
//!
//! Owns: which programs of which versions it is made of, how they are built and kept, their
//! configuration, the namespaces they run in, and the proof that nothing of it is left afterwards.
//! Must not: know anything of Quorate's own objects or programs (whoever tests those installs them;
//! `images` packs their binaries), or change the machine: sysctls are shielded, `/var`, `/etc` and
//! `/run` private, control groups named after the cluster and removed with it.
#![forbid(unsafe_code)]

pub mod addons;
pub mod api;
pub mod build;
pub mod census;
pub mod cgroups;
pub mod cluster;
pub mod component;
pub mod configuration;
pub mod control;
pub mod control_plane;
pub mod enter;
pub mod guard;
pub mod images;
pub mod keeper;
pub mod kwok;
pub mod layout;
pub mod modules;
pub mod network;
pub mod node;
pub mod pause;
pub mod pki;
pub mod plan;
pub mod tools;
pub mod watches;

pub use cluster::{Cluster, ClusterError};
pub use layout::{Node, Runtime, Shape};
