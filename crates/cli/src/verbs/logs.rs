//! `quorate logs`: what pods have written, of a cluster that runs or whose logs are kept.

use super::targets;
use crate::args::LogsArgs;
use crate::refusal::Refusal;
use anyhow::Context as _;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

const END: &str = ".log";
/// The most of a line that is held back until its end is known.
const LONGEST: usize = 64 * 1024;

pub(super) fn run(args: &LogsArgs) -> anyhow::Result<i32> {
    let found = find(args.target.as_deref())?;
    match print(found, args) {
        // A reader that has seen enough (`quorate logs | head`) is no failure.
        Err(error) if is_broken_pipe(&error) => Ok(0),
        other => other.map(|()| 0),
    }
}

fn print(found: Found, args: &LogsArgs) -> anyhow::Result<()> {
    let Found { dir, mut logs, running } = found;
    for log in &mut logs {
        log.print_first(args.tail)?;
    }
    if args.follow && running {
        follow(&dir, &mut logs)?;
    }
    logs.iter_mut().try_for_each(Log::end)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

struct Found {
    dir: PathBuf,
    logs: Vec<Log>,
    /// Whether more may come.
    running: bool,
}

/// The logs that a word means: a pod's, or those of all pods of a cluster.
fn find(word: Option<&str>) -> anyhow::Result<Found> {
    let (running, ended) = targets::clusters()?;
    let mut all: Vec<(String, PathBuf, bool)> =
        running.into_iter().map(|r| (r.about.name, r.entry.path, true)).collect();
    // A word may name an ended cluster; without one only clusters that run are meant.
    if word.is_some() || all.is_empty() {
        all.extend(ended.into_iter().map(|e| (e.name, e.path, false)));
    }
    let known: Vec<_> = all.iter().map(|(name, path, _)| (name.clone(), pods(path))).collect();
    let target = targets::resolve(word, &known, &targets::HERE)?;
    let (_, dir, running) = all
        .into_iter()
        .find(|(name, ..)| *name == target.cluster)
        .expect("resolve picks one of the clusters that it was given");
    let pods = match target.pod {
        Some(pod) => vec![pod],
        None => pods(&dir),
    };
    if pods.is_empty() {
        return Err(Refusal::new(format!("{} has written nothing yet", target.cluster)).into());
    }
    let several = pods.len() > 1;
    let logs = pods
        .iter()
        .map(|pod| Log::new(&dir.join(format!("{pod}{END}")), several.then(|| format!("{pod}: "))))
        .collect::<anyhow::Result<_>>()?;
    Ok(Found { dir, logs, running })
}

/// Pods with a log, by their short names.
fn pods(dir: &Path) -> Vec<String> {
    let mut pods: Vec<String> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(END).map(str::to_owned))
        .filter(|name| name != "keeper")
        .collect();
    // The launcher first: what a program writes is there.
    pods.sort_by_key(|pod| (!pod.starts_with("launcher-"), pod.clone()));
    pods
}

/// The last lines of a text, whole.
fn last_lines(text: &[u8], lines: usize) -> &[u8] {
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let mut seen = 0;
    for (at, byte) in body.iter().enumerate().rev() {
        if *byte == b'\n' {
            seen += 1;
            if seen == lines {
                return &text[at + 1..];
            }
        }
    }
    if lines == 0 { &[] } else { text }
}

/// A log that is printed, with its pod's name before each line where there are several.
struct Log {
    path: PathBuf,
    file: File,
    label: Option<String>,
    /// A line whose end has not come.
    held: Vec<u8>,
}

impl Log {
    fn new(path: &Path, label: Option<String>) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, label, held: Vec::new() })
    }

    /// Prints what there is, or the last lines of it.
    fn print_first(&mut self, tail: Option<usize>) -> anyhow::Result<()> {
        let Some(lines) = tail else { return self.print_news() };
        let mut text = Vec::new();
        self.file.read_to_end(&mut text)?;
        self.print(last_lines(&text, lines))
    }

    /// Prints what has come since the last time.
    fn print_news(&mut self) -> anyhow::Result<()> {
        if self.file.metadata()?.len() < self.file.stream_position()? {
            self.file.seek(SeekFrom::Start(0))?;
        }
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = self.file.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            self.print(&buffer[..count])?;
        }
    }

    fn print(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let Some(label) = &self.label else { return write(bytes) };
        self.held.extend_from_slice(bytes);
        let mut whole = Vec::new();
        while let Some(end) = self.held.iter().position(|byte| *byte == b'\n') {
            whole.extend_from_slice(label.as_bytes());
            whole.extend(self.held.drain(..=end));
        }
        if self.held.len() > LONGEST {
            whole.extend_from_slice(label.as_bytes());
            whole.append(&mut self.held);
            whole.push(b'\n');
        }
        write(&whole)
    }

    /// Nothing more comes: a line without an end gets one where others follow.
    fn end(&mut self) -> anyhow::Result<()> {
        if self.held.is_empty() { Ok(()) } else { self.print(b"\n") }
    }
}

/// Prints what is added until the cluster ends.
fn follow(dir: &Path, logs: &mut [Log]) -> anyhow::Result<()> {
    let watch = Inotify::init(InitFlags::IN_CLOEXEC).context("cannot watch the logs")?;
    for log in logs.iter() {
        watch.add_watch(&log.path, AddWatchFlags::IN_MODIFY).context("cannot watch the log")?;
    }
    watch
        .add_watch(dir, AddWatchFlags::IN_DELETE | AddWatchFlags::IN_DELETE_SELF)
        .context("cannot watch the cluster")?;
    loop {
        // What came between reading and watching is here, too.
        let over = !dir.join(crate::control::SOCKET).exists();
        for log in logs.iter_mut() {
            log.print_news()?;
        }
        if over {
            return Ok(());
        }
        watch.read_events().context("cannot watch the cluster")?;
    }
}

fn write(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_whole() {
        assert_eq!(last_lines(b"a\nb\nc\n", 2), b"b\nc\n");
        assert_eq!(last_lines(b"a\nb\nc", 1), b"c");
        assert_eq!(last_lines(b"a\n", 5), b"a\n");
        assert_eq!(last_lines(b"a\nb\n", 0), b"");
    }
}
