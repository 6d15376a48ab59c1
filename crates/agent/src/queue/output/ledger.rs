//! How much of each broker's output of a job is written, known also to the next life of this broker.
//!
//! Owns: the count of pieces by broker, and a small file beside the spool that tells it for output that goes to
//! files of the user: for each broker the number, the place and the length of the piece that is written
//! next. Whether it was written shows in the length of the file. Output that only the spool has is counted
//! in the spool. The file goes with the end of the job.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of the entry of one broker: number (u64), place (u64), length (u32), file (u32), little endian.
const SLOT: u64 = 24;

/// One of the three places that output goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The file of standard output, or of both.
    Out = 0,
    /// The file of standard error.
    Err = 1,
    /// The spool.
    Spool = 2,
}

/// A piece that was about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    pieces: u64,
    at: u64,
    length: u32,
    place: Place,
}

/// The count.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The broker of each rank of the job.
    by_rank: Vec<u32>,
    /// Pieces that are written, by broker.
    taken: BTreeMap<u32, u64>,
    path: PathBuf,
    file: Option<File>,
}

impl Ledger {
    /// Nothing is written.
    pub(super) fn new(by_rank: Vec<u32>, path: PathBuf) -> Self {
        let taken = by_rank.iter().map(|broker| (*broker, 0)).collect();
        Self { by_rank, taken, path, file: None }
    }

    /// The piece of a rank is about to be written somewhere, while there are files of the user. What cannot
    /// be noted costs at worst a piece twice after a crash.
    pub(super) fn about_to(&mut self, rank: u32, place: Place, at: u64, length: usize) {
        let Some((broker, slot)) = self.broker(rank) else { return };
        let pieces = self.taken.get(&broker).copied().unwrap_or(0) + 1;
        let mark = Mark { pieces, at, length: length as u32, place };
        if let Err(error) = self.note(slot, mark) {
            tracing::debug!(%error, "the place of a job's output cannot be noted");
        }
    }

    fn note(&mut self, slot: u64, mark: Mark) -> io::Result<()> {
        let file = if let Some(file) = &self.file {
            file
        } else {
            if let Some(dir) = self.path.parent() {
                fs::create_dir_all(dir)?;
            }
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).write(true);
            self.file.insert(options.open(&self.path)?)
        };
        let mut bytes = Vec::with_capacity(SLOT as usize);
        bytes.extend_from_slice(&mark.pieces.to_le_bytes());
        bytes.extend_from_slice(&mark.at.to_le_bytes());
        bytes.extend_from_slice(&mark.length.to_le_bytes());
        bytes.extend_from_slice(&(mark.place as u32).to_le_bytes());
        file.write_all_at(&bytes, slot * SLOT)
    }

    /// A piece of a rank is written; gives its broker and how many of that are now.
    pub(super) fn written(&mut self, rank: u32) -> Option<(u32, u64)> {
        let (broker, _) = self.broker(rank)?;
        let taken = self.taken.get_mut(&broker)?;
        *taken = taken.saturating_add(1);
        Some((broker, *taken))
    }

    /// Nobody knows how much is written, since it is more than is kept: nothing is to come again.
    pub(super) fn all_written(&mut self) {
        self.taken.values_mut().for_each(|taken| *taken = u64::MAX);
    }

    /// Reads what a former life has noted. `length` tells how long a file is now, `cut` shortens one that
    /// ends within a piece.
    pub(super) fn recall(
        &mut self,
        length: impl Fn(Place) -> u64,
        mut cut: impl FnMut(Place, u64),
    ) -> bool {
        let Some(marks) = read(&self.path) else { return false };
        for ((_, taken), mark) in self.taken.iter_mut().zip(marks) {
            let Some(mark) = mark else { continue };
            let now = length(mark.place);
            let whole = now >= mark.at + u64::from(mark.length);
            if !whole && now > mark.at {
                cut(mark.place, mark.at);
            }
            *taken = if whole { mark.pieces } else { mark.pieces - 1 };
        }
        true
    }

    /// Pieces that are written, by broker.
    pub(super) fn taken(&self) -> BTreeMap<u32, u64> {
        self.taken.clone()
    }

    /// The job is over.
    pub(super) fn end(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }

    fn broker(&self, rank: u32) -> Option<(u32, u64)> {
        let broker = *self.by_rank.get(rank as usize)?;
        let slot = self.taken.keys().position(|each| *each == broker)?;
        Some((broker, slot as u64))
    }
}

/// The marks in a file, in the order of the brokers; `None` where there is no file.
fn read(path: &Path) -> Option<Vec<Option<Mark>>> {
    let mut bytes = Vec::new();
    File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).ok()?;
    let mark = |slot: &[u8]| {
        let pieces = u64::from_le_bytes(slot[..8].try_into().ok()?);
        let at = u64::from_le_bytes(slot[8..16].try_into().ok()?);
        let length = u32::from_le_bytes(slot[16..20].try_into().ok()?);
        let place = match u32::from_le_bytes(slot[20..24].try_into().ok()?) {
            0 => Place::Out,
            1 => Place::Err,
            _ => Place::Spool,
        };
        (pieces > 0).then_some(Mark { pieces, at, length, place })
    };
    Some(bytes.chunks_exact(SLOT as usize).map(mark).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_about_to_be_written_counts_if_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("7.at");
        // Ranks 0 and 1 on broker 4, rank 2 on broker 2.
        let fresh = || Ledger::new(vec![4, 4, 2], path.clone());
        let mut ledger = fresh();
        ledger.about_to(0, Place::Out, 0, 10);
        assert_eq!(ledger.written(0), Some((4, 1)));
        ledger.about_to(2, Place::Out, 10, 5);
        assert_eq!(ledger.written(2), Some((2, 1)));
        ledger.about_to(1, Place::Out, 15, 6);
        let after = |length: u64| {
            let (mut ledger, mut cuts) = (fresh(), Vec::new());
            assert!(ledger.recall(|_| length, |_, at| cuts.push(at)));
            (ledger.taken()[&4], ledger.taken()[&2], cuts)
        };
        assert_eq!(after(21), (2, 1, vec![]));
        assert_eq!(after(18), (1, 1, vec![15]));
        assert_eq!(after(15), (1, 1, vec![]));
        ledger.end();
        assert!(!fresh().recall(|_| 0, |_, _| {}));
    }
}
