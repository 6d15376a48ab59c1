//! `quorate queue CLUSTER dump FILE` and `restore FILE`: the file is one of this machine.

use super::Way;
use crate::kubernetes::Errand;
use crate::terminal::write_stderr;
use anyhow::Context as _;
use quorate_contract::exit;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

/// What stands for standard output or standard input.
const STREAM: &str = "-";

/// Writes the queue to the file, which is whole or not there: it holds the environments of all jobs, so
/// that only its owner reads it.
pub(super) fn dump(mut errand: Errand<'_>, file: &str, way: Way) -> anyhow::Result<i32> {
    if file == STREAM || file.starts_with('-') {
        return way.send(&errand, None);
    }
    set_file(&mut errand);
    let draft = format!("{file}.draft");
    let written = (|| -> anyhow::Result<i32> {
        let failed = || format!("cannot write {file}");
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(true).mode(0o600);
        let mut draft_file = options.open(&draft).with_context(failed)?;
        let mut take = |bytes: &[u8]| draft_file.write_all(bytes).with_context(failed);
        let code = way.send(&errand, Some(&mut take))?;
        if code == exit::OK {
            draft_file.sync_all().with_context(failed)?;
            std::fs::rename(&draft, file).with_context(failed)?;
        }
        Ok(code)
    })();
    if !matches!(written, Ok(exit::OK)) {
        let _ = std::fs::remove_file(&draft);
    }
    if matches!(written, Ok(exit::OK)) && !way.loudness.quiet && std::io::stderr().is_terminal() {
        let size = std::fs::metadata(file).map_or(0, |about| about.len());
        write_stderr(&format!("{file} has all of {}, {size} bytes\n", errand.cluster));
    }
    written
}

/// Puts the file into the queue.
pub(super) fn restore(mut errand: Errand<'_>, file: &str, way: Way) -> anyhow::Result<i32> {
    if file != STREAM {
        if file.starts_with('-') {
            return way.send(&errand, None);
        }
        let failed = || format!("cannot read {file}");
        let about = std::fs::metadata(file).with_context(failed)?;
        anyhow::ensure!(!about.is_dir(), "{file} is a folder, and a dump is a file");
        nix::unistd::dup2_stdin(File::open(file).with_context(failed)?).with_context(failed)?;
    }
    set_file(&mut errand);
    errand.input = true;
    way.send(&errand, None)
}

/// Has the agent's verb use its standard streams.
fn set_file(errand: &mut Errand<'_>) {
    if let Some(last) = errand.words.last_mut() {
        STREAM.clone_into(last);
    }
}
