//! Which jobs have left a spool.
//!
//! Most jobs that are forgotten have written nothing, and asking the kernel to remove a file of each
//! would cost more than forgetting it. Owns: the set of spools in the queue's directory, and removing
//! them; what is in one is [`super::output`]'s business.

use super::output::{spool_dir, spool_path};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

/// The spools of a queue.
#[derive(Debug)]
pub(super) struct Spools {
    dir: PathBuf,
    /// `None` until the directory was looked at.
    there: Mutex<Option<Numbers>>,
}

/// A set of numbers that lie close together: 64 of them in each entry.
#[derive(Debug, Default)]
struct Numbers(BTreeMap<u64, u64>);

impl Numbers {
    fn insert(&mut self, number: u64) {
        *self.0.entry(number / 64).or_default() |= 1 << (number % 64);
    }

    /// Whether it was there.
    fn remove(&mut self, number: u64) -> bool {
        let (place, bit) = (number / 64, 1 << (number % 64));
        let Some(bits) = self.0.get_mut(&place).filter(|bits| **bits & bit != 0) else {
            return false;
        };
        *bits &= !bit;
        if *bits == 0 {
            self.0.remove(&place);
        }
        true
    }
}

impl Spools {
    /// Those in a queue's directory, which need not be there yet.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, there: Mutex::new(None) }
    }

    /// A job has ended and left one.
    pub(super) fn left_by(&self, job: u64) {
        if let Some(there) = &mut *self.there() {
            there.insert(job);
        }
    }

    /// Removes what a job has left, if anything.
    pub(super) fn remove(&self, job: u64) {
        let mut there = self.there();
        if there.is_none() {
            // What is left by jobs of earlier lives is found here.
            match self.look() {
                Ok(found) => *there = Some(found),
                Err(error) => tracing::warn!(%error, "kept output cannot be listed"),
            }
        }
        if there.as_mut().is_none_or(|there| there.remove(job)) {
            let _ = std::fs::remove_file(spool_path(&self.dir, job));
        }
    }

    fn look(&self) -> io::Result<Numbers> {
        let mut found = Numbers::default();
        let entries = match std::fs::read_dir(spool_dir(&self.dir)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(error) => return Err(error),
        };
        for entry in entries {
            if let Some(job) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
                found.insert(job);
            }
        }
        Ok(found)
    }

    fn there(&self) -> MutexGuard<'_, Option<Numbers>> {
        self.there.lock().expect("the lock holds because nothing panics under it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn spools_go_with_their_jobs_whichever_life_left_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = |job| spool_path(dir.path(), job);
        fs::create_dir_all(spool_dir(dir.path())).unwrap();
        for job in [1, 63, 64, 1_000_000] {
            fs::write(file(job), "x").unwrap();
        }
        let spools = Spools::new(dir.path().to_owned());
        spools.remove(64);
        assert!(!file(64).exists() && file(63).exists());
        fs::write(file(70), "x").unwrap();
        spools.left_by(70);
        for job in 0..=1_000_000 {
            spools.remove(job);
        }
        assert_eq!(fs::read_dir(spool_dir(dir.path())).unwrap().count(), 0);
    }

    #[test]
    fn without_a_directory_there_is_nothing_to_remove() {
        let dir = tempfile::tempdir().unwrap();
        let spools = Spools::new(dir.path().join("none"));
        spools.remove(1);
        spools.left_by(2);
        spools.remove(2);
    }
}
