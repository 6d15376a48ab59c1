//! What a job writes: into its files, or kept for those who attach.
//!
//! Owns: the files of `--output` and `--error`, and the spool of a job without them: a file in the
//! queue's directory with every piece of output in order, so that each reader gets all of it from
//! the beginning, however late it comes. A spool has a bound. Behind it output goes to attached readers
//! alone, at the pace of the slowest; while there is none it is dropped, with a notice. A job that goes on
//! over a new start of this broker goes on with its files, from where they end.

mod ledger;

use crate::job::protocol::{kind, message, piece};
use crate::launch::stdio::Merge;
use bytes::{Buf, Bytes};
use ledger::{Ledger, Place};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc, watch};

/// Bytes of a job's spool: the directory may be memory, and there are many jobs.
const SPOOL_LIMIT: u64 = 32 << 20;

/// The end of the notice that closes a full spool.
const BEYOND: &str = "not kept: it goes to those who are attached alone; use --output";

/// Pieces on the way to a reader behind the end of a spool.
const LIVE: usize = 8;

/// Where the output of a job goes.
#[derive(Debug)]
pub(super) struct Output {
    state: Mutex<State>,
    /// Counts changes, for readers that wait.
    grown: watch::Sender<u64>,
    /// A reader has come to the end of a full spool, or is gone.
    caught_up: Notify,
}

#[derive(Debug)]
struct State {
    out: Target,
    err: Target,
    path: PathBuf,
    /// What is written, if the job outlives this broker.
    ledger: Option<Ledger>,
    spool: Option<File>,
    length: u64,
    full: bool,
    /// Somebody was told that output was dropped.
    dropped: bool,
    ended: bool,
    readers: usize,
    live: Vec<mpsc::Sender<Bytes>>,
}

#[derive(Debug)]
enum Target {
    Spool,
    File {
        file: File,
        merge: Merge,
        path: PathBuf,
        /// Its length, where nobody else writes to it.
        length: Option<u64>,
    },
    /// Where standard output goes.
    SameFile,
}

/// Names of files, with all places filled in, relative to the job's directory.
#[derive(Debug, Default)]
pub(super) struct Files<'a> {
    /// Standard output.
    pub(super) output: Option<&'a Path>,
    /// Standard error.
    pub(super) error: Option<&'a Path>,
    /// Adds to what is there.
    pub(super) append: bool,
    /// Each line with its task's rank.
    pub(super) label: bool,
    /// The broker of each rank, if the job outlives this broker.
    pub(super) by_rank: Vec<u32>,
    /// A former life of this broker has written to them.
    pub(super) again: bool,
}

/// Where the spools of all jobs are.
pub(super) fn spool_dir(dir: &Path) -> PathBuf {
    dir.join("output")
}

/// The spool of a job.
pub(super) fn spool_path(dir: &Path, job: u64) -> PathBuf {
    spool_dir(dir).join(job.to_string())
}

/// Where it is noted how much of a job's output is written.
fn ledger_path(spool: &Path) -> PathBuf {
    spool.with_extension("at")
}

/// Removes what is kept of a job's output.
pub(super) fn forget(dir: &Path, job: u64) {
    forget_ledger(dir, job);
    let _ = fs::remove_file(spool_path(dir, job));
}

/// Removes the note of how much is written, of a job that is over.
pub(super) fn forget_ledger(dir: &Path, job: u64) {
    let _ = fs::remove_file(ledger_path(&spool_path(dir, job)));
}

impl Output {
    /// Opens the files of a job. The error names the one that cannot be.
    pub(super) fn open(spool: PathBuf, files: &Files<'_>) -> Result<Arc<Self>, String> {
        let open = |path: Option<&Path>| -> Result<Target, String> {
            let Some(path) = path else { return Ok(Target::Spool) };
            let mut options = OpenOptions::new();
            options.create(true).write(true);
            if files.append || files.again {
                options.append(true)
            } else {
                options.truncate(true)
            };
            let file = options.open(path).map_err(|error| {
                format!("the output file {} cannot be opened: {error}", path.display())
            })?;
            let length = if files.append { None } else { Some(length_of(&file)) };
            Ok(Target::File { file, merge: Merge::new(files.label), path: path.to_owned(), length })
        };
        let out = open(files.output)?;
        let err = match files.error {
            None if files.output.is_some() => Target::SameFile,
            error if error.is_some() && error == files.output => Target::SameFile,
            error => open(error)?,
        };
        let ledger = (!files.by_rank.is_empty())
            .then(|| Ledger::new(files.by_rank.clone(), ledger_path(&spool)));
        let mut state = State {
            out,
            err,
            path: spool,
            ledger,
            spool: None,
            length: 0,
            full: false,
            dropped: false,
            ended: false,
            readers: 0,
            live: Vec::new(),
        };
        if files.again {
            state.recall();
        }
        let (grown, caught_up) = (watch::Sender::new(0), Notify::new());
        Ok(Arc::new(Self { state: Mutex::new(state), grown, caught_up }))
    }

    /// Pieces of output that are written, by broker.
    pub(super) fn taken(&self) -> BTreeMap<u32, u64> {
        self.state().ledger.as_ref().map(Ledger::taken).unwrap_or_default()
    }

    /// Takes a piece of output or a notice. Waits for readers only behind the end of the spool. Gives the
    /// broker of the piece, if the job outlives this one, and how many of that are written.
    pub(super) async fn take(&self, piece: Bytes) -> Option<(u32, u64)> {
        let live = loop {
            let waiting = {
                let mut state = self.state();
                if state.keep(&piece) {
                    let written = state.written(&piece);
                    drop(state);
                    self.changed();
                    return written;
                }
                if state.readers == state.live.len() {
                    break state.live.clone();
                }
                self.caught_up.notified()
            };
            // Somebody still reads what is kept.
            waiting.await;
        };
        for reader in &live {
            let _ = reader.send(piece.clone()).await;
        }
        if live.is_empty() && !std::mem::replace(&mut self.state().dropped, true) {
            tracing::info!(path = %self.state().path.display(), "output beyond the spool is dropped");
        }
        self.state().written(&piece)
    }

    /// Nothing more comes. Tells whether a spool is left.
    pub(super) fn end(&self) -> bool {
        let mut state = self.state();
        state.ended = true;
        if let Some(ledger) = &mut state.ledger {
            ledger.end();
        }
        let kept = state.spool.take().is_some();
        state.live.clear();
        drop(state);
        self.changed();
        kept
    }

    /// Reads everything from the beginning.
    pub(super) fn read(self: &Arc<Self>) -> Reader {
        self.state().readers += 1;
        Reader {
            file: None,
            offset: 0,
            path: self.state().path.clone(),
            of: Some(Following { output: self.clone(), grown: self.grown.subscribe(), live: None }),
        }
    }

    fn changed(&self) {
        self.grown.send_modify(|count| *count += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock holds because nothing panics under it")
    }
}

impl Target {
    fn length(&self) -> u64 {
        match self {
            Self::File { file, .. } => length_of(file),
            Self::Spool | Self::SameFile => 0,
        }
    }

    fn cut(&self, at: u64) {
        if let Self::File { file, .. } = self {
            let _ = file.set_len(at);
        }
    }
}

fn length_of(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

impl State {
    /// Writes a piece to its file or to the spool. False when it belongs behind the spool's end.
    fn keep(&mut self, message: &Bytes) -> bool {
        let kind = message.first().copied().unwrap_or_default();
        let files =
            matches!(self.out, Target::File { .. }) || matches!(self.err, Target::File { .. });
        let (target, place) = match (kind, &self.err) {
            (kind::OUT, _) | (kind::ERR, Target::SameFile) => (&mut self.out, Place::Out),
            (kind::ERR, _) => (&mut self.err, Place::Err),
            _ => return self.spool(message),
        };
        let Some((rank, bytes)) = piece(message.slice(1..)) else { return true };
        let Target::File { file, merge, path, length } = target else {
            if let Some(ledger) = self.ledger.as_mut().filter(|_| files) {
                ledger.about_to(rank, Place::Spool, self.length, 4 + message.len());
            }
            return self.spool(message);
        };
        let mut text = Vec::new();
        merge.piece(rank, &bytes, &mut text);
        if let Some(ledger) = &mut self.ledger {
            let at = length.unwrap_or_else(|| length_of(file));
            ledger.about_to(rank, place, at, text.len());
            *length = length.map(|length| length + text.len() as u64);
        }
        if let Err(error) = file.write_all(&text) {
            // The job goes on, as it would with its own redirection; who attaches is told.
            let notice = format!("output is lost: {} takes no more: {error}", path.display());
            *target = Target::Spool;
            return self.spool(&self::message(kind::NOTICE, notice.as_bytes()));
        }
        true
    }

    /// A piece is written; gives its broker and how many of that are.
    fn written(&mut self, message: &Bytes) -> Option<(u32, u64)> {
        let output = matches!(message.first(), Some(&(kind::OUT | kind::ERR)));
        let ledger = self.ledger.as_mut().filter(|_| output)?;
        ledger.written(piece(message.slice(1..))?.0)
    }

    /// Goes on with what a former life has written.
    fn recall(&mut self) {
        let Some(mut ledger) = self.ledger.take() else { return };
        let mut records = Reader::of_spool(self.path.clone());
        let mut counted: Vec<Bytes> = Vec::new();
        while let Ok(Some(record)) = records.record() {
            match record.first() {
                Some(&(kind::OUT | kind::ERR)) => counted.push(record.slice(..record.len().min(5))),
                Some(&kind::NOTICE) if record.ends_with(BEYOND.as_bytes()) => self.full = true,
                _ => {}
            }
        }
        self.length = records.offset;
        if self.length > 0 {
            let opened = OpenOptions::new().append(true).open(&self.path);
            let cut = opened.and_then(|file| file.set_len(self.length).map(|()| file));
            match cut {
                Ok(file) => self.spool = Some(file),
                Err(_) => self.full = true,
            }
        }
        let length = |place| match place {
            Place::Out => self.out.length(),
            Place::Err => self.err.length(),
            Place::Spool => self.length,
        };
        let cut = |place, at| match place {
            Place::Out => self.out.cut(at),
            Place::Err => self.err.cut(at),
            Place::Spool => {}
        };
        if !ledger.recall(length, cut) {
            for record in counted {
                if let Some((rank, _)) = piece(record.slice(1..)) {
                    ledger.written(rank);
                }
            }
        }
        for target in [&mut self.out, &mut self.err] {
            if let Target::File { file, length: Some(length), .. } = target {
                *length = length_of(file);
            }
        }
        if self.full {
            ledger.all_written();
        }
        self.ledger = Some(ledger);
    }

    fn spool(&mut self, message: &Bytes) -> bool {
        if self.full {
            return false;
        }
        let length = u32::try_from(message.len()).expect("messages of channels are short");
        if self.length + 4 + u64::from(length) > SPOOL_LIMIT {
            self.full = true;
            let notice = format!("output beyond {} MiB is {BEYOND}", SPOOL_LIMIT >> 20);
            let notice = self::message(kind::NOTICE, notice.as_bytes());
            let _ = self.write(&notice);
            return false;
        }
        if let Err(error) = self.write(message) {
            tracing::warn!(path = %self.path.display(), %error, "output cannot be kept");
            self.full = true;
            return false;
        }
        true
    }

    fn write(&mut self, message: &Bytes) -> io::Result<()> {
        if self.spool.is_none() {
            if let Some(dir) = self.path.parent() {
                fs::create_dir_all(dir)?;
            }
            self.spool = Some(File::create(&self.path)?);
        }
        let Some(file) = &mut self.spool else { return Ok(()) };
        let mut record = Vec::with_capacity(4 + message.len());
        record.extend_from_slice(&(message.len() as u32).to_be_bytes());
        record.extend_from_slice(message);
        file.write_all(&record)?;
        self.length += record.len() as u64;
        Ok(())
    }
}

/// Reads the output of a job.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    file: Option<File>,
    offset: u64,
    /// `None` when the job is over and only its spool is left.
    of: Option<Following>,
}

#[derive(Debug)]
struct Following {
    output: Arc<Output>,
    grown: watch::Receiver<u64>,
    live: Option<mpsc::Receiver<Bytes>>,
}

impl Reader {
    /// Reads what is left of a job that is over.
    pub(super) fn of_spool(path: PathBuf) -> Self {
        Self { path, file: None, offset: 0, of: None }
    }

    /// The next piece; `None` at the end. Safe to cancel.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            let (end, ended, full) = match &mut self.of {
                None => (u64::MAX, true, false),
                Some(following) => {
                    if let Some(live) = &mut following.live {
                        return live.recv().await;
                    }
                    following.grown.borrow_and_update();
                    let state = following.output.state();
                    (state.length, state.ended, state.full)
                }
            };
            if self.offset < end {
                match self.record() {
                    Ok(Some(record)) => return Some(record),
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(path = %self.path.display(), %error, "kept output cannot be read");
                        return None;
                    }
                }
            }
            let Some(following) = &mut self.of else { return None };
            if full && !ended {
                let (sender, receiver) = mpsc::channel(LIVE);
                following.output.state().live.push(sender);
                following.live = Some(receiver);
                following.output.caught_up.notify_waiters();
            } else if ended || following.grown.changed().await.is_err() {
                return None;
            }
        }
    }

    fn record(&mut self) -> io::Result<Option<Bytes>> {
        let file = match &mut self.file {
            Some(file) => file,
            None => match File::open(&self.path) {
                Ok(file) => self.file.insert(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        file.seek(SeekFrom::Start(self.offset))?;
        let mut head = [0; 4];
        match file.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let length = (&head[..]).get_u32() as usize;
        // What is longer than any message was torn by a crash.
        if length > crate::broker::channel::MESSAGE_LIMIT {
            return Ok(None);
        }
        let mut record = vec![0; length];
        if let Err(error) = file.read_exact(&mut record) {
            return if error.kind() == io::ErrorKind::UnexpectedEof {
                Ok(None)
            } else {
                Err(error)
            };
        }
        self.offset += 4 + length as u64;
        Ok(Some(record.into()))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(Following { output, live, .. }) = self.of.take() {
            drop(live);
            let mut state = output.state();
            state.readers -= 1;
            state.live.retain(|sender| !sender.is_closed());
            drop(state);
            output.caught_up.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
