//! Bytes between pods: keys, TLS, names. No message of the overlay is understood here.

pub mod dns;
pub mod keys;
pub mod resolve;
pub mod tls;
