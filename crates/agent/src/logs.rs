//! Log lines: fields on stderr, filtered by `QUORATE_LOG`. Output of programs is never a log
//! line, and no secret ever is.

use quorate_contract::env;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Shown unless `QUORATE_LOG` says otherwise: the launcher's stderr is also the program's.
const DEFAULT: &str = "warn";

/// An error with its causes, for logs, status and people.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Starts logging. A filter that cannot be read is said and replaced by the default one.
pub fn start() {
    let wanted = std::env::var(env::LOG).unwrap_or_else(|_| DEFAULT.to_owned());
    let filter: Targets = wanted.parse().unwrap_or_else(|error| {
        crate::sys::complain(&format!("{}={wanted:?} is not a filter ({error})", env::LOG));
        DEFAULT.parse().expect("the default filter is well-formed")
    });
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .compact()
        .with_filter(filter);
    // A second start in one process, as tests do it, keeps the first.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}
