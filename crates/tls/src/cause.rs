//! What a failed handshake comes down to.

use rustls::{AlertDescription, CertificateError};
use std::io;

/// Why a handshake, or the connection after it, failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// We found that the peer's key is not the pinned one.
    WrongKey,
    /// The peer has the pinned key and is not admitted with it ([`crate::Pinned::not_admitted`]).
    NotAdmitted,
    /// The peer sent an alert.
    Alert(AlertDescription),
    /// The connection broke, or the peer does not speak TLS.
    Other,
}

/// The cause in an error of a TLS stream.
pub fn cause(error: &io::Error) -> Cause {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(CertificateError::Expired)) => Cause::NotAdmitted,
        Some(rustls::Error::InvalidCertificate(_)) => Cause::WrongKey,
        Some(rustls::Error::AlertReceived(alert)) => Cause::Alert(*alert),
        _ => Cause::Other,
    }
}
