//! What is said of clusters: sentences as golden files, the life of a status, properties of all.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a fixture that cannot be read fails its test"
)]

mod causes;
mod seen;
mod status;
mod truth;
