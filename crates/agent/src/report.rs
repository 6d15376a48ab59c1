//! The termination message: where a pod leaves how it ended (`docs/spec/report.md`).

use crate::sys;
use quorate_contract::Report;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// Leaves a report. When that fails (a full disk, a missing directory) it is said on stderr
/// together with the report itself: how the pod ended must not get lost, and its exit code does
/// not change.
pub fn leave_report(path: &Path, report: &Report) {
    let text = report.render();
    if let Err(error) = write(path, &text) {
        sys::complain(&format!(
            "cannot leave the report in {} ({error}); it is: {text}",
            path.display()
        ));
    }
}

/// Replaces the file's text by one write. Kubernetes mounts the file itself into the container,
/// so it cannot be renamed into place.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.flush()
}
