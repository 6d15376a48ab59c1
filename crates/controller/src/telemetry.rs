//! Logs on standard error: fields, not prose; text for people or one JSON object a line.
//!
//! Must not: write a secret. Nothing that holds one is logged: seeds and Secrets have no Debug that
//! shows them, and neither objects nor requests are logged whole.

use crate::settings::{LogFormat, LogSettings};
use std::error::Error;
use std::fmt::Write as _;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Begins to write logs; once per process.
pub fn start(settings: &LogSettings) -> Result<(), TryInitError> {
    let lines = tracing_subscriber::fmt::layer().with_writer(stderr);
    let registry = tracing_subscriber::registry().with(settings.log_filter.clone());
    match settings.log_format {
        LogFormat::Text => registry.with(lines.with_ansi(stderr().is_terminal())).try_init(),
        // Fields at the top, where collectors look for them.
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    }
}

/// An error with its causes in one line, since the Display of each names only itself.
pub fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(line, ": {error}");
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write the status")]
    struct Outer(#[source] io::Error);

    #[test]
    fn a_chain_names_every_cause_once() {
        let error = Outer(io::Error::other("connection reset"));
        assert_eq!(chain(&error), "cannot write the status: connection reset");
    }
}
