//! `quorate fetch`, and `--fetch` of `quorate submit`: files of a job come to this machine.
//!
//! The agent's verb writes them as one stream, which is unpacked here as it comes; what the other end says
//! is not believed ([`quorate_parcel::Receiver`]).

use super::{Way, chain};
use crate::args::{FetchArgs, Place};
use crate::kubernetes::Errand;
use crate::refusal::Refusal;
use crate::terminal::{print, write_stderr};
use anyhow::Context as _;
use quorate_contract::exit;
use quorate_parcel::{Pattern, ReceiveError, Receiver};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks of a person at how much has come.
const REDRAW: Duration = Duration::from_millis(100);

/// Which files of which job, and whereto.
struct Wanted<'a> {
    cluster: &'a str,
    place: &'a Place,
    job: u64,
    rank: u32,
    files: &'a [String],
    into: &'a Path,
    force: bool,
    /// What is kept of the job for this is not needed any more.
    release: bool,
}

/// Runs the verb; gives the code to exit with.
pub(super) fn run(args: &FetchArgs, way: Way) -> anyhow::Result<i32> {
    let FetchArgs { cluster, job, files, output, rank, force, place } = args;
    let (job, rank, force) = (*job, *rank, *force);
    fetch(&Wanted { cluster, place, job, rank, files, into: output, force, release: false }, way)
}

/// Submits a job, waits for its end, attached to it if that was wanted, and gets files of it, which may
/// overwrite. Gives the job's code, and if that is 0 that of the getting.
pub(super) fn submit(
    errand: &Errand<'_>,
    wanted: &[(String, PathBuf)],
    (force, attach): (bool, bool),
    way: Way,
) -> anyhow::Result<i32> {
    let mut head = Vec::new();
    let mut take = |bytes: &[u8]| {
        if !head.contains(&b'\n') {
            head.extend_from_slice(bytes);
        }
        print_bytes(bytes)
    };
    let mut code = way.send(errand, Some(&mut take))?;
    let number = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(job) = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok()) else {
        // It was refused, which has been said.
        return Ok(if code == exit::OK { exit::FAILED } else { code });
    };
    let mut dirs: Vec<&PathBuf> = Vec::new();
    for (_, dir) in wanted {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    let (cluster, place) = (errand.cluster, errand.place);
    if attach && code == exit::OK {
        let words = vec!["attach".to_owned(), u64::to_string(&job)];
        let attach = Errand { cluster, words, input: false, parcel: Vec::new(), place };
        // Not in this process, which must stay where it is to go on.
        code = way.send(&attach, Some(&mut |bytes: &[u8]| print_bytes(bytes)))?;
    }
    let mut fetched = exit::OK;
    for (at, into) in dirs.iter().enumerate() {
        let files: Vec<String> =
            wanted.iter().filter(|(_, dir)| dir == *into).map(|(word, _)| word.clone()).collect();
        let release = at + 1 == dirs.len() && fetched == exit::OK;
        let wanted = Wanted { cluster, place, job, rank: 0, files: &files, into, force, release };
        match fetch(&wanted, way) {
            Ok(exit::OK) => {}
            Ok(code) => fetched = code,
            Err(error) => {
                let (text, code) = crate::refusal::render(&error);
                write_stderr(&format!("{text}\n"));
                fetched = code;
            }
        }
    }
    if fetched != exit::OK {
        let hint =
            format!("quorate: job {job} is over; `quorate fetch {cluster} {job}` gets its files\n");
        write_stderr(&hint);
    }
    Ok(if code == exit::OK { fetched } else { code })
}

fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write the output"),
    }
}

fn fetch(wanted: &Wanted<'_>, way: Way) -> anyhow::Result<i32> {
    let patterns: Result<Vec<Pattern>, _> =
        wanted.files.iter().map(|word| Pattern::read(word)).collect();
    let patterns = patterns.map_err(|error| Refusal::usage(chain(&error)))?;
    let mut words = vec!["fetch".to_owned(), "--stream".to_owned()];
    if wanted.rank > 0 {
        words.push(format!("--rank={}", wanted.rank));
    }
    if wanted.release {
        words.push("--release".to_owned());
    }
    words.extend(["--".to_owned(), wanted.job.to_string()]);
    words.extend(wanted.files.iter().cloned());
    let (cluster, place) = (wanted.cluster, wanted.place);
    let errand = Errand { cluster, words, input: false, parcel: Vec::new(), place };
    let mut receiver = Receiver::new(wanted.into.to_owned(), patterns, wanted.force);
    let mut shown = Shown::new(way.loudness.quiet);
    let mut take = |bytes: &[u8]| -> anyhow::Result<()> {
        let received = receiver.take(bytes).map_err(|error| refused(&error))?;
        for file in received {
            shown.clear();
            print(&format!("{}\n", wanted.into.join(&file.name).display()))?;
        }
        shown.draw(&receiver);
        Ok(())
    };
    let sent = way.send(&errand, Some(&mut take));
    shown.clear();
    let code = sent?;
    if code != exit::OK {
        return Ok(code);
    }
    let (totals, bytes) = (receiver.totals().unwrap_or_default(), receiver.bytes());
    receiver.finish().map_err(|error| refused(&error))?;
    if !way.loudness.quiet {
        let files = if totals.files == 1 { "file" } else { "files" };
        write_stderr(&format!("{} {files} of job {}, {}\n", totals.files, wanted.job, size(bytes)));
    }
    Ok(exit::OK)
}

/// The error of what is not written here.
fn refused(error: &ReceiveError) -> Refusal {
    let refusal = Refusal::new(chain(error));
    match error {
        ReceiveError::Exists { .. } => {
            refusal.hint("--force overwrites what is there; -o names another directory")
        }
        ReceiveError::NotAsked { .. } | ReceiveError::Stream(_) => {
            refusal.hint("nothing of it was written; what answers there is not to be trusted")
        }
        _ => refusal,
    }
}

/// How much has come, on a terminal.
struct Shown {
    on: bool,
    drawn: bool,
    next: Instant,
}

impl Shown {
    fn new(quiet: bool) -> Self {
        let on = !quiet && std::io::stderr().is_terminal();
        Self { on, drawn: false, next: Instant::now() + REDRAW }
    }

    fn draw(&mut self, receiver: &Receiver) {
        let Some(totals) = receiver.totals().filter(|_| self.on) else { return };
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + REDRAW;
        self.drawn = true;
        let name = receiver.present().unwrap_or_default();
        let (come, all) = (size(receiver.bytes()), size(totals.bytes));
        write_stderr(&format!("\r\x1b[2K{come} of {all}  {name}"));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            write_stderr("\r\x1b[2K");
        }
    }
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_to_what_matters() {
        let text: Vec<String> = [0, 1023, 1024, 1_572_864, 5 << 30].map(size).into();
        assert_eq!(text, ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB", "5.0 GiB"]);
    }
}
