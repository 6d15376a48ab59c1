//! Files that travel with a job (`docs/spec/outside.md`): folders and plain files under relative names,
//! one after the other in one piece of bytes.
//!
//! Owns the format, its limits and what a name may be; reads and writes no file. A parcel is made by
//! one program and unpacked by another, so that whoever unpacks it checks all of it.
//!
//! Entry: length of its head (u32, big endian), head (JSON of [`Entry`]), content of a file.
//!
//! Files that come back ([`stream`]) are in the same form, with a head of their own in front; they have
//! no bound and are never whole in memory.

pub mod stream;

use serde::{Deserialize, Serialize};

/// The most bytes of a parcel: it is kept in the launcher's memory, and for a while in that of each pod
/// of the job.
pub const LIMIT: u64 = 64 << 20;
/// The most files and folders.
pub const ENTRIES: usize = 10_000;
/// The most bytes of a name (PATH_MAX without the end), and of a part of it (NAME_MAX).
const PATH: usize = 4095;
const PART: usize = 255;
/// The most bytes of an entry's head: a name of which all is escaped.
const HEAD: usize = 32 << 10;

/// What stands before the content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its name from the directory of the job on.
    pub path: String,
    /// Its permissions: the lowest nine bits of a mode.
    pub mode: u32,
    /// A file's bytes; `None` is a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// Why a parcel cannot be made or taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParcelError {
    /// A name is not one under the directory of a job.
    #[error("{path:?} {why}")]
    Name {
        /// The name.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is too much.
    #[error("the files are more than {} MiB together; put large data on a volume", LIMIT >> 20)]
    TooLarge,
    /// There are too many.
    #[error("there are more than {ENTRIES} files and folders; send an archive of them")]
    TooMany,
    /// Two entries have one name.
    #[error("{0:?} is there twice")]
    Twice(String),
    /// Bytes that are no parcel.
    #[error("the files came in a form that is not understood")]
    Malformed,
}

/// Whether a name is one that a file of a job may have.
pub fn check(path: &str) -> Result<(), ParcelError> {
    let wrong = |why| Err(ParcelError::Name { path: path.to_owned(), why });
    if path.is_empty() {
        return wrong("is no name");
    }
    if path.contains('\0') {
        return wrong("has a zero byte in it");
    }
    if path.len() > PATH {
        return wrong("is longer than 4095 bytes");
    }
    if path.starts_with('/') {
        return wrong("is absolute; a job's files have names from its directory on");
    }
    for part in path.split('/') {
        match part {
            "" => return wrong("has an empty part"),
            "." | ".." => return wrong("has a part that is . or .."),
            part if part.len() > PART => return wrong("has a part that is longer than 255 bytes"),
            _ => {}
        }
    }
    Ok(())
}

/// Puts a parcel together.
#[derive(Debug, Default)]
pub struct Packer {
    bytes: Vec<u8>,
    entries: std::collections::BTreeSet<String>,
}

impl Packer {
    /// Adds a folder.
    pub fn folder(&mut self, path: &str, mode: u32) -> Result<(), ParcelError> {
        self.add(Entry { path: path.to_owned(), mode: mode & 0o777, size: None }, &[])
    }

    /// Adds a file.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<(), ParcelError> {
        let size = Some(content.len() as u64);
        self.add(Entry { path: path.to_owned(), mode: mode & 0o777, size }, content)
    }

    /// Bytes that a file may still have.
    pub fn room(&self) -> u64 {
        LIMIT.saturating_sub(self.bytes.len() as u64)
    }

    fn add(&mut self, entry: Entry, content: &[u8]) -> Result<(), ParcelError> {
        check(&entry.path)?;
        if self.entries.len() >= ENTRIES {
            return Err(ParcelError::TooMany);
        }
        let head = stream::head(&entry);
        if (self.bytes.len() + head.len() + content.len()) as u64 > LIMIT {
            return Err(ParcelError::TooLarge);
        }
        if !self.entries.insert(entry.path.clone()) {
            return Err(ParcelError::Twice(entry.path));
        }
        self.bytes.extend_from_slice(&head);
        self.bytes.extend_from_slice(content);
        Ok(())
    }

    /// The parcel.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// All entries of a parcel with their contents, checked. A folder comes before what is in it, or is
/// not named at all.
pub fn read(mut bytes: &[u8]) -> Result<Vec<(Entry, &[u8])>, ParcelError> {
    if bytes.len() as u64 > LIMIT {
        return Err(ParcelError::TooLarge);
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or(ParcelError::Malformed)?;
        let length = u32::from_be_bytes(*length) as usize;
        if length > HEAD {
            return Err(ParcelError::Malformed);
        }
        let (head, rest) = rest.split_at_checked(length).ok_or(ParcelError::Malformed)?;
        let entry: Entry = serde_json::from_slice(head).map_err(|_| ParcelError::Malformed)?;
        check(&entry.path)?;
        if entry.mode > 0o777 {
            return Err(ParcelError::Malformed);
        }
        if !seen.insert(entry.path.clone()) {
            return Err(ParcelError::Twice(entry.path));
        }
        if entries.len() >= ENTRIES {
            return Err(ParcelError::TooMany);
        }
        let size = usize::try_from(entry.size.unwrap_or(0)).map_err(|_| ParcelError::Malformed)?;
        let (content, rest) = rest.split_at_checked(size).ok_or(ParcelError::Malformed)?;
        entries.push((entry, content));
        bytes = rest;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed() -> Vec<u8> {
        let mut packer = Packer::default();
        packer.folder("conf", 0o40_755).unwrap();
        packer.file("conf/a", 0o100_640, b"one").unwrap();
        packer.file("run.sh", 0o755, b"").unwrap();
        packer.finish()
    }

    #[test]
    fn a_parcel_is_read_as_it_was_packed() {
        let bytes = packed();
        let entries = read(&bytes).unwrap();
        let seen: Vec<(&str, u32, Option<&[u8]>)> = entries
            .iter()
            .map(|(entry, content)| (entry.path.as_str(), entry.mode, entry.size.map(|_| *content)))
            .collect();
        assert_eq!(
            seen,
            [
                ("conf", 0o755, None),
                ("conf/a", 0o640, Some(&b"one"[..])),
                ("run.sh", 0o755, Some(&[]))
            ]
        );
        assert!(read(&[]).unwrap().is_empty());
    }

    #[test]
    fn names_that_lead_out_of_a_directory_are_refused_on_both_sides() {
        let (long, deep) = ("x".repeat(256), "x/".repeat(2100) + "x");
        for path in [
            "",
            "/etc/passwd",
            "..",
            "../x",
            "a/../../x",
            "a/./b",
            "a//b",
            "a/",
            "a\0b",
            &long,
            &deep,
        ] {
            let mut packer = Packer::default();
            let packed = packer.file(path, 0o644, b"x");
            assert!(matches!(packed, Err(ParcelError::Name { .. })), "{path:?}: {packed:?}");
            let entry = Entry { path: path.to_owned(), mode: 0o644, size: Some(1) };
            let head = serde_json::to_vec(&entry).unwrap();
            let length = u32::try_from(head.len()).unwrap().to_be_bytes();
            let bytes = [&length[..], &head, b"x"].concat();
            assert!(matches!(read(&bytes), Err(ParcelError::Name { .. })), "{path:?}");
        }
        let longest = format!("{}/x", "y".repeat(255));
        assert_eq!(check(&longest), Ok(()));
    }

    #[test]
    fn what_is_too_much_or_there_twice_is_refused() {
        let mut packer = Packer::default();
        packer.file("a", 0o644, b"x").unwrap();
        assert_eq!(packer.folder("a", 0o755), Err(ParcelError::Twice("a".into())));
        let large = vec![0; usize::try_from(packer.room()).unwrap()];
        assert_eq!(packer.file("b", 0o644, &large), Err(ParcelError::TooLarge));
        let twice = [packed(), packed()].concat();
        assert_eq!(read(&twice), Err(ParcelError::Twice("conf".into())));
    }

    #[test]
    fn damaged_parcels_are_refused_and_do_not_panic() {
        let bytes = packed();
        for end in 1..bytes.len() {
            if let Ok(entries) = read(&bytes[..end]) {
                assert!(entries.len() < 3, "cut at {end}");
            }
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let _ = read(&damaged);
            }
        }
    }
}
