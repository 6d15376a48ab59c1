//! Files that were sent along with jobs (`docs/spec/outside.md`).
//!
//! Owns: the parcels that rank 0 keeps beside the queue's log, their way to the brokers of a job, and
//! unpacking them there. What a parcel is, and which names are none, is the business of
//! [`quorate_contract::parcel`]; which jobs still need one is the queue's.

use crate::broker::{Channel, Overlay, Services};
use bytes::Bytes;
use quorate_contract::parcel::{self, ParcelError};
use std::collections::HashSet;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Channel service on rank 0: who opens it names a parcel, and gets its bytes.
const SERVICE: &str = "files";

/// The most bytes of all parcels together.
const ROOM: u64 = 256 << 20;

/// Behind the name of one that no job has yet.
const NEW: &str = "new";

/// Why files do not get where they should.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// All parcels together would be too large.
    #[error("files of other jobs that are not over take {} MiB, and there is room for {} MiB",
        taken >> 20, ROOM >> 20)]
    Full {
        /// What they take.
        taken: u64,
    },
    /// The launcher's directory does not take them.
    #[error("the launcher cannot keep the files")]
    Keep(#[source] io::Error),
    /// They cannot be had from the launcher.
    #[error("the job's files cannot be had from the launcher: {0}")]
    Fetch(String),
    /// They cannot be unpacked.
    #[error("the job's file {} cannot be written", path.display())]
    Unpack {
        /// The file.
        path: PathBuf,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// They are no parcel.
    #[error("the job's files are not taken")]
    Parcel(#[from] ParcelError),
}

/// The parcels of a launcher.
#[derive(Clone, Debug)]
pub struct Parcels {
    dir: PathBuf,
}

impl Parcels {
    /// Those beside the log of a queue.
    pub fn beside(queue: &Path) -> Self {
        Self { dir: queue.join("parcels") }
    }

    /// Gives them to brokers that ask.
    pub fn register(&self, services: &mut Services) {
        let parcels = self.clone();
        services.on_channel(SERVICE, move |channel| give(parcels.clone(), channel));
    }

    /// Keeps a parcel that no job has yet; gives its name.
    pub fn keep(&self, bytes: &[u8]) -> Result<String, FilesError> {
        parcel::read(bytes)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(FilesError::Keep)?;
        let taken = self.size().map_err(FilesError::Keep)?;
        if taken + bytes.len() as u64 > ROOM {
            return Err(FilesError::Full { taken });
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| FilesError::Keep(io::Error::other(error)))?;
        let name = format!("{:016x}", u64::from_be_bytes(random));
        let path = self.path(&name).with_extension(NEW);
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_data()));
        if let Err(error) = written {
            let _ = fs::remove_file(&path);
            return Err(FilesError::Keep(error));
        }
        Ok(name)
    }

    /// A job has it now.
    pub fn taken(&self, name: &str) {
        // One that was taken by another job of the same submission has its name already.
        let _ = fs::rename(self.path(name).with_extension(NEW), self.path(name));
    }

    /// Forgets one that no job has taken.
    pub fn give_up(&self, name: &str) {
        let _ = fs::remove_file(self.path(name).with_extension(NEW));
    }

    /// Forgets one that no job needs any more.
    pub fn forget(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }

    /// Forgets what an earlier life of this broker left, but for these.
    pub fn sweep(&self, needed: &HashSet<String>) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            if needed.contains(name) {
                self.taken(name);
            } else if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(%error, path = %path.display(), "files of an ended job stay");
            }
        }
    }

    fn size(&self) -> io::Result<u64> {
        let sizes = fs::read_dir(&self.dir)?.map(|entry| Ok(entry?.metadata()?.len()));
        // One that has just gone takes nothing.
        Ok(sizes.filter_map(io::Result::ok).sum())
    }

    /// Names come from jobs: whatever is in them, they stay within the directory.
    fn path(&self, name: &str) -> PathBuf {
        let safe: String = name.chars().filter(char::is_ascii_hexdigit).collect();
        self.dir.join(safe)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        // A job may be started before its parcel has its name.
        fs::read(self.path(name)).or_else(|_| fs::read(self.path(name).with_extension(NEW)))
    }
}

async fn give(parcels: Parcels, channel: Channel) {
    let name = String::from_utf8_lossy(channel.first()).into_owned();
    let read = tokio::task::spawn_blocking(move || parcels.read(&name)).await;
    let (sender, _receiver) = channel.split();
    let end = match read.map_err(io::Error::other).flatten() {
        Ok(bytes) => sender.send(Bytes::from(bytes)).await.map_err(|error| error.to_string()),
        Err(error) => Err(format!("they are not there: {error}")),
    };
    let _ = sender.finish(end).await;
}

/// Gets a parcel from a job's leader and unpacks it into a new directory.
pub async fn fetch(
    overlay: &Overlay,
    leader: u32,
    name: &str,
    into: PathBuf,
) -> Result<(), FilesError> {
    let failed = |error: &dyn std::fmt::Display| FilesError::Fetch(error.to_string());
    let opening = Bytes::copy_from_slice(name.as_bytes());
    let channel = overlay.open(leader, SERVICE, opening).await.map_err(|error| failed(&error))?;
    let (_sender, mut receiver) = channel.split();
    let mut bytes = Vec::new();
    while let Some(part) = receiver.recv().await.map_err(|error| failed(&error))? {
        bytes.extend_from_slice(&part);
        if bytes.len() as u64 > parcel::LIMIT {
            return Err(ParcelError::TooLarge.into());
        }
    }
    let unpacked = tokio::task::spawn_blocking(move || unpack(&bytes, &into)).await;
    unpacked.map_err(|error| failed(&error))?
}

/// Unpacks a parcel into a directory that must not exist. As nothing else is in it, no link can lead
/// out of it.
fn unpack(bytes: &[u8], into: &Path) -> Result<(), FilesError> {
    let wrong = |path: &Path, source| FilesError::Unpack { path: path.to_owned(), source };
    let entries = parcel::read(bytes)?;
    if let Some(parent) = into.parent() {
        fs::create_dir_all(parent).map_err(|error| wrong(parent, error))?;
    }
    DirBuilder::new().mode(0o700).create(into).map_err(|error| wrong(into, error))?;
    for (entry, content) in entries {
        let path = into.join(&entry.path);
        let folder = if entry.size.is_some() { path.parent() } else { Some(path.as_path()) };
        if let Some(folder) = folder {
            fs::create_dir_all(folder).map_err(|error| wrong(folder, error))?;
        }
        // Who owns a folder must get into it, to fill it and to remove it.
        let mode = if entry.size.is_some() { entry.mode } else { entry.mode | 0o700 };
        let made = if entry.size.is_some() {
            let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
            file.and_then(|mut file| file.write_all(content))
        } else {
            Ok(())
        };
        // Once more, as the mask of new files is not the sender's.
        made.and_then(|()| fs::set_permissions(&path, Permissions::from_mode(mode)))
            .map_err(|error| wrong(&path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_contract::parcel::Packer;

    fn packed() -> Vec<u8> {
        let mut packer = Packer::default();
        packer.file("a/b/run.sh", 0o750, b"#!/bin/sh\n").unwrap();
        packer.folder("locked", 0o500).unwrap();
        packer.file("locked/data", 0o444, b"1 2 3").unwrap();
        packer.finish()
    }

    #[test]
    fn files_are_as_they_were_sent_with_their_modes() {
        let dir = tempfile::tempdir().unwrap();
        let into = dir.path().join("job/files");
        unpack(&packed(), &into).unwrap();
        let mode = |name: &str| fs::metadata(into.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode("a/b/run.sh"), mode("locked/data"), mode("locked")),
            (0o750, 0o444, 0o700)
        );
        assert_eq!(fs::read(into.join("locked/data")).unwrap(), b"1 2 3");
        assert_eq!(mode(""), 0o700, "nobody else looks into it");
        // A second time something is there, and might be a link.
        assert!(matches!(unpack(&packed(), &into), Err(FilesError::Unpack { .. })));
    }

    #[test]
    fn a_parcel_is_kept_until_nobody_needs_it() {
        let dir = tempfile::tempdir().unwrap();
        let parcels = Parcels::beside(dir.path());
        let count = || fs::read_dir(dir.path().join("parcels")).unwrap().count();
        let (one, two) = (parcels.keep(&packed()).unwrap(), parcels.keep(&packed()).unwrap());
        assert_eq!((count(), parcels.read(&one).unwrap()), (2, packed()));
        parcels.taken(&one);
        parcels.give_up(&one);
        parcels.give_up(&two);
        assert_eq!((count(), parcels.read(&one).unwrap()), (1, packed()));
        // What came just before the broker died, with and without its job.
        let three = parcels.keep(&packed()).unwrap();
        parcels.keep(&packed()).unwrap();
        parcels.sweep(&[one.clone(), three.clone()].into());
        assert_eq!((count(), parcels.read(&three).unwrap()), (2, packed()));
        parcels.forget(&one);
        parcels.forget(&three);
        assert_eq!(count(), 0);
    }

    #[test]
    fn noise_is_not_kept_and_names_do_not_lead_out() {
        let dir = tempfile::tempdir().unwrap();
        let parcels = Parcels::beside(dir.path());
        assert!(matches!(parcels.keep(b"noise"), Err(FilesError::Parcel(_))));
        fs::write(dir.path().join("log"), "x").unwrap();
        parcels.forget("../log");
        assert!(dir.path().join("log").exists());
        assert!(parcels.read("../log").is_err());
    }
}
