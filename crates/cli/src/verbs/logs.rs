//! `quorate logs`: what a pod has written, of a cluster that runs or whose logs are kept.

use super::targets;
use crate::args::LogsArgs;
use crate::refusal::Refusal;
use crate::terminal::print;
use anyhow::Context as _;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

const END: &str = ".log";

pub(super) fn run(args: &LogsArgs) -> anyhow::Result<i32> {
    let (path, running) = find(args.target.as_deref())?;
    let mut file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
    if let Some(lines) = args.tail {
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        print_bytes(last_lines(&text, lines))?;
    } else {
        std::io::copy(&mut file, &mut Printer)?;
    }
    if args.follow && running {
        follow(&mut file, &path)?;
    }
    Ok(0)
}

/// The log file that a word means, and whether more may come.
fn find(word: Option<&str>) -> anyhow::Result<(PathBuf, bool)> {
    let (running, ended) = targets::clusters()?;
    let mut all: Vec<(String, PathBuf, bool)> =
        running.into_iter().map(|r| (r.about.name, r.entry.path, true)).collect();
    // A word may name an ended cluster; without one only clusters that run are meant.
    if word.is_some() || all.is_empty() {
        all.extend(ended.into_iter().map(|e| (e.name, e.path, false)));
    }
    let known: Vec<_> = all.iter().map(|(name, path, _)| (name.clone(), pods(path))).collect();
    let target = targets::resolve(word, &known)?;
    let (_, dir, running) = all
        .into_iter()
        .find(|(name, ..)| *name == target.cluster)
        .expect("resolve picks one of the clusters that it was given");
    let pod = match target.pod {
        Some(pod) => pod,
        None => launcher(&pods(&dir))
            .ok_or_else(|| Refusal::new(format!("{} has written nothing yet", target.cluster)))?,
    };
    Ok((dir.join(pod + END), running))
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
    pods.sort();
    pods
}

fn launcher(pods: &[String]) -> Option<String> {
    pods.iter().find(|pod| *pod == "launcher-0-0").or_else(|| pods.first()).cloned()
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

/// Prints what is added until the cluster's directory or the log goes, or the keeper ends.
fn follow(file: &mut File, path: &Path) -> anyhow::Result<()> {
    let watch = Inotify::init(InitFlags::IN_CLOEXEC).context("cannot watch the log")?;
    let dir = path.parent().unwrap_or(Path::new("/"));
    watch.add_watch(path, AddWatchFlags::IN_MODIFY).context("cannot watch the log")?;
    watch
        .add_watch(dir, AddWatchFlags::IN_DELETE | AddWatchFlags::IN_DELETE_SELF)
        .context("cannot watch the cluster")?;
    loop {
        // What came between reading and watching is here, too.
        let position = file.stream_position()?;
        if file.metadata()?.len() < position {
            file.seek(SeekFrom::Start(0))?;
        }
        std::io::copy(file, &mut Printer)?;
        if !dir.join(crate::control::SOCKET).exists() {
            return Ok(());
        }
        watch.read_events().context("cannot watch the log")?;
    }
}

fn print_bytes(bytes: &[u8]) -> std::io::Result<()> {
    std::io::Write::write_all(&mut Printer, bytes)
}

/// Standard output; a reader that has left ends the program in peace.
struct Printer;

impl std::io::Write for Printer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut out = std::io::stdout().lock();
        std::io::Write::write_all(&mut out, bytes)?;
        std::io::Write::flush(&mut out)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        print("")
    }
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
