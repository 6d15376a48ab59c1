//! The log of the queue as a file.
//!
//! Owns: the directory with the log, what is set aside of a damaged one, and the lock that keeps two
//! brokers from one log; [`Draft`] is a shorter one that takes its place. A batch of entries is one write
//! and one fdatasync(2), or nothing: after a failure the file is cut back to what was durable before. It
//! knows no job.

use super::draft::{self, Draft};
use super::files::{LOG, StoreError, options};
use nix::fcntl::{Flock, FlockArg};
use quorate_queue::{Entry, JobId, log};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Damaged lines, one after another, each with a line before it that says where it stood.
const DAMAGED: &str = "events.damaged";
/// Taken by the broker that has the log.
const LOCK: &str = "lock";
/// How long another's lock is waited for.
const LOCK_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// The log of this broker.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    file: File,
    /// Bytes that are durable.
    length: u64,
    /// The file may be longer than that.
    torn: bool,
    /// The file has taken the place of another, and a crash of the machine may undo that.
    unsettled: bool,
    buffer: Vec<u8>,
    _lock: Flock<File>,
}

/// What an earlier life left.
#[derive(Debug)]
pub(super) struct Opened {
    /// The log, ready for more.
    pub(super) store: Store,
    /// Its entries.
    pub(super) entries: Vec<Entry>,
    /// Jobs of which entries are damaged.
    pub(super) damaged: Vec<JobId>,
    /// What was found wrong, for people.
    pub(super) notes: Vec<String>,
}

impl Store {
    /// Opens the log of a directory, which is made if need be. A torn end is cut off, damaged lines
    /// are set aside in a file of their own.
    pub(super) fn open(dir: &Path) -> Result<Opened, StoreError> {
        let directory = |source| StoreError::Directory { path: dir.to_owned(), source };
        fs::create_dir_all(dir).map_err(directory)?;
        let lock = options().open(dir.join(LOCK)).map_err(directory)?;
        let lock = take_lock(lock).map_err(|_| StoreError::InUse { path: dir.to_owned() })?;
        draft::sweep(dir);
        let path = dir.join(LOG);
        let read = |source| StoreError::Read { path: path.clone(), source };
        let file = options().read(true).open(&path).map_err(read)?;
        let bytes = fs::read(&path).map_err(read)?;
        let contents = log::decode(&bytes);
        let mut notes = Vec::new();
        if contents.torn > 0 {
            notes.push(format!(
                "the last {} bytes of {} were torn by a crash and are dropped",
                contents.torn,
                path.display()
            ));
        }
        let mut store = Self {
            dir: dir.to_owned(),
            file,
            length: contents.end as u64,
            torn: contents.torn > 0,
            unsettled: false,
            buffer: Vec::new(),
            _lock: lock,
        };
        store.mend().map_err(|source| StoreError::Append { path: path.clone(), source })?;
        if !contents.damage.is_empty() {
            let aside = dir.join(DAMAGED);
            let mut text = Vec::new();
            for damage in &contents.damage {
                text.extend_from_slice(
                    format!("line {}: {}\n", damage.line, damage.what).as_bytes(),
                );
                text.extend_from_slice(&damage.bytes);
                text.push(b'\n');
            }
            let written = options().append(true).open(&aside).and_then(|mut file| {
                file.write_all(&text)?;
                file.sync_data()
            });
            if let Err(error) = written {
                tracing::warn!(%error, "damaged lines cannot be set aside");
            }
            notes.push(format!(
                "{} damaged lines of {} are set aside in {}",
                contents.damage.len(),
                path.display(),
                aside.display()
            ));
        }
        let damaged = contents.damage.iter().filter_map(|damage| damage.job).collect();
        Ok(Opened { store, entries: contents.entries, damaged, notes })
    }

    /// Bytes of the log.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Makes entries durable, all or none.
    pub(super) fn append(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        self.write(entries, true)
    }

    /// Writes entries, all or none, that outlive this process and need not outlive the machine. The next
    /// [`Store::append`] makes them durable as well.
    pub(super) fn note(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        self.write(entries, false)
    }

    fn write(&mut self, entries: &[Entry], durable: bool) -> Result<(), StoreError> {
        self.buffer.clear();
        for entry in entries {
            log::encode(entry, &mut self.buffer);
        }
        let written = self.mend().and_then(|()| {
            self.torn = true;
            // At the end of the file: it was opened for appending.
            self.file.write_all(&self.buffer)?;
            if durable { self.file.sync_data() } else { Ok(()) }
        });
        if let Err(source) = written {
            let _ = self.mend();
            return Err(StoreError::Append { path: self.dir.join(LOG), source });
        }
        self.length += self.buffer.len() as u64;
        self.torn = false;
        // One large batch must not hold its memory for ever.
        self.buffer.shrink_to(1 << 20);
        Ok(())
    }

    /// A shorter log that is to take the place of this one as it is now. Nothing is written yet.
    pub(super) fn draft(&self) -> Draft {
        Draft::new(&self.dir, self.length)
    }

    /// Puts a log that was written for it in the place of this one, with all that this one has got since.
    /// When that fails this one goes on.
    pub(super) fn replace(&mut self, mut draft: Draft) -> Result<(), StoreError> {
        let failed = |dir: &Path, source| StoreError::Compact { path: dir.join(LOG), source };
        self.mend().map_err(|source| failed(&self.dir, source))?;
        draft.follow(self.length)?;
        let (file, length) = draft.take_place().map_err(|source| failed(&self.dir, source))?;
        // Whatever becomes of the directory: what is appended belongs there from now on.
        self.file = file;
        self.length = length;
        self.unsettled = true;
        self.mend().map_err(|source| failed(&self.dir, source))
    }

    /// Puts a log of these entries in the place of this one, at once and whatever this one says.
    pub(super) fn restart(
        &mut self,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<(), StoreError> {
        let mut draft = self.draft();
        draft.write(entries)?;
        self.replace(draft)
    }

    /// Cuts the file back to what is durable, and makes its place so.
    fn mend(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.length)?;
            self.torn = false;
        }
        if self.unsettled {
            File::open(&self.dir)?.sync_all()?;
            self.unsettled = false;
        }
        Ok(())
    }
}

/// Takes the lock. A child that a killed broker was about to start has it for a moment longer.
fn take_lock(mut file: File) -> Result<Flock<File>, nix::errno::Errno> {
    let deadline = std::time::Instant::now() + LOCK_WAIT;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((_, errno)) if std::time::Instant::now() > deadline => return Err(errno),
            Err((same, _)) => file = same,
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests;
