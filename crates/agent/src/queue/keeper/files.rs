//! The files of the queue's log: the log's own name, how they are opened, and why they cannot be used.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// The log within the directory.
pub(super) const LOG: &str = "events.log";

/// Why the log cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    /// The directory cannot be made.
    #[error("the queue's directory {} cannot be used", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// Another broker has the log.
    #[error("the queue's directory {} is in use by another broker", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The log cannot be read.
    #[error("the queue's log {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// The log takes nothing.
    #[error("the queue's log {} cannot be written", path.display())]
    Append {
        /// The file.
        path: PathBuf,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// A shorter log cannot be put in its place.
    #[error("the queue's log {} cannot be compacted", path.display())]
    Compact {
        /// The file.
        path: PathBuf,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
}

/// For files that only this user may read: environments are in them.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    options
}
