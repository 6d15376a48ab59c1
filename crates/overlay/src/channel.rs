//! How a channel ends badly: a named code that programs match on, and a sentence for people.

use std::fmt;

/// Why a channel, a cast or an exchange failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The name that programs match on.
    pub code: FailureCode,
    /// One sentence for people, or what the service wants to say; at most 4096 bytes travel.
    pub text: String,
}

/// The names of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureCode {
    /// The broker has never been online, or has left before the message was sent.
    NotConnected,
    /// The broker was lost while the channel was open.
    PeerLost,
    /// The broker is there and has no such service.
    NoService,
    /// The other end does not want to go on.
    Cancelled,
    /// The service refused the request.
    Denied,
    /// A limit of the overlay was reached: too many channels, or a payload that is too large.
    Limit,
    /// The service failed; the text is the service's own.
    Failed,
}

impl FailureCode {
    /// All codes, in the order of their numbers on the wire (from 1).
    pub const ALL: [Self; 7] = [
        Self::NotConnected,
        Self::PeerLost,
        Self::NoService,
        Self::Cancelled,
        Self::Denied,
        Self::Limit,
        Self::Failed,
    ];

    /// The code's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotConnected => "NotConnected",
            Self::PeerLost => "PeerLost",
            Self::NoService => "NoService",
            Self::Cancelled => "Cancelled",
            Self::Denied => "Denied",
            Self::Limit => "Limit",
            Self::Failed => "Failed",
        }
    }
}

impl Failure {
    /// A failure with its sentence.
    pub fn new(code: FailureCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.text)
    }
}

impl std::error::Error for Failure {}
