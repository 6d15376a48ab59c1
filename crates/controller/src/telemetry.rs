//! Logs on standard error: fields, not prose; text for people or one JSON object a line. Spans for a
//! collector, where one is named.
//!
//! Must not: write a secret. Nothing that holds one is logged: seeds and Secrets have no Debug that
//! shows them, and neither objects nor requests are logged whole.

mod otlp;
mod phases;

use crate::settings::{LogFormat, LogSettings};
use opentelemetry_otlp::ExporterBuildError;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

pub use otlp::Traces;
pub use phases::{Subject, tell};

/// Whose spans are sent: those of this crate, whatever is written to the logs.
const OURS: &str = "quorate_controller";

/// Why logs or spans cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Something has started them already.
    #[error("logs have started already")]
    Logs(#[source] TryInitError),
    /// `--otlp-endpoint`, or a variable of OpenTelemetry.
    #[error("cannot send spans to {endpoint}")]
    Otlp {
        /// Where to.
        endpoint: String,
        /// What is wrong.
        #[source]
        source: ExporterBuildError,
    },
}

/// Begins to write logs, and to send spans where an endpoint is set; once per process.
pub fn start(settings: &LogSettings) -> Result<Option<Traces>, StartError> {
    let endpoint = settings.otlp_endpoint.as_deref();
    let traces = endpoint.map(Traces::start).transpose();
    let traces = traces.map_err(|source| StartError::Otlp {
        endpoint: endpoint.unwrap_or_default().to_owned(),
        source,
    })?;
    let spans = traces.as_ref().map(|traces| {
        let ours = Targets::new().with_target(OURS, LevelFilter::DEBUG);
        let layer = tracing_opentelemetry::layer().with_location(false).with_threads(false);
        layer.with_tracer(traces.tracer()).with_filter(ours)
    });
    let lines = tracing_subscriber::fmt::layer().with_writer(stderr);
    let filter = settings.log_filter.clone();
    let registry = tracing_subscriber::registry().with(spans);
    match settings.log_format {
        LogFormat::Text => {
            let lines = lines.with_ansi(stderr().is_terminal());
            registry.with(lines.with_filter(filter)).try_init()
        }
        // Fields at the top, where collectors look for them.
        LogFormat::Json => {
            registry.with(lines.json().flatten_event(true).with_filter(filter)).try_init()
        }
    }
    .map_err(StartError::Logs)?;
    Ok(traces)
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
