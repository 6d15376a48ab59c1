//! A shorter log that is written while the long one goes on.
//!
//! Owns: the file beside the log until it takes its place, and what of the long log it stands for. All of
//! it is as durable as the log before it takes its place; a crash before that finds the long log alone.
//! Its calls block, for as long as the disk takes: they are for other threads than the keeper's.

use super::files::{LOG, StoreError, options};
use quorate_queue::{Entry, log};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Beside the log.
const DRAFT: &str = "events.log.draft";

/// Bytes that are made durable at once. All of it may be long, and the long log's own fdatasync(2) may
/// have to wait for what the disk has not written yet.
const PIECE: usize = 1 << 20;

/// The file, which goes with this value unless it has taken the log's place.
#[derive(Debug)]
pub(super) struct Draft {
    dir: PathBuf,
    file: Option<File>,
    /// Bytes of it.
    length: u64,
    /// Bytes of the long log that it stands for.
    stands_for: u64,
    in_place: bool,
}

/// Removes what a crash has left.
pub(super) fn sweep(dir: &Path) {
    let _ = fs::remove_file(dir.join(DRAFT));
}

impl Draft {
    /// Nothing yet, for so many bytes of the log of a directory.
    pub(super) fn new(dir: &Path, stands_for: u64) -> Self {
        Self { dir: dir.to_owned(), file: None, length: 0, stands_for, in_place: false }
    }

    /// Where it is.
    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(DRAFT)
    }

    /// How many bytes of the log it stands for.
    pub(super) fn stands_for(&self) -> u64 {
        self.stands_for
    }

    /// Writes entries that mean what those bytes of the log do.
    pub(super) fn write(
        &mut self,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<(), StoreError> {
        let write = || -> io::Result<(File, u64)> {
            let mut file = options().read(true).open(self.path())?;
            file.set_len(0)?;
            let (mut bytes, mut length) = (Vec::with_capacity(2 * PIECE), 0);
            let mut put = |bytes: &mut Vec<u8>| {
                length += bytes.len() as u64;
                file.write_all(bytes)?;
                bytes.clear();
                file.sync_data()
            };
            for entry in entries {
                log::encode(&entry, &mut bytes);
                if bytes.len() > PIECE {
                    put(&mut bytes)?;
                }
            }
            put(&mut bytes)?;
            Ok((file, length))
        };
        let (file, length) = write().map_err(|source| self.failed(source))?;
        (self.file, self.length) = (Some(file), length);
        Ok(())
    }

    /// Adds what the log has got since, up to so many bytes of it.
    pub(super) fn follow(&mut self, until: u64) -> Result<(), StoreError> {
        let (from, path) = (self.stands_for, self.dir.join(LOG));
        let Some(file) = self.file.as_mut().filter(|_| from < until) else { return Ok(()) };
        let copy = || -> io::Result<u64> {
            let mut log = File::open(path)?;
            log.seek(SeekFrom::Start(from))?;
            let copied = io::copy(&mut log.take(until - from), file)?;
            if copied < until - from {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            file.sync_data()?;
            Ok(copied)
        };
        match copy() {
            Ok(copied) => {
                self.length += copied;
                self.stands_for = until;
                Ok(())
            }
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Becomes the log; gives the file and its length. The directory has yet to be made durable.
    pub(super) fn take_place(mut self) -> io::Result<(File, u64)> {
        fs::rename(self.path(), self.dir.join(LOG))?;
        self.in_place = true;
        let file = self.file.take().ok_or(io::ErrorKind::NotFound)?;
        Ok((file, self.length))
    }

    fn failed(&self, source: io::Error) -> StoreError {
        StoreError::Compact { path: self.dir.join(LOG), source }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.in_place {
            sweep(&self.dir);
        }
    }
}
