//! Bytes between pods: TLS, names. No message of the overlay is understood here.

pub mod dns;
pub mod resolve;
pub mod tls;
