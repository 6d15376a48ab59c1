//! Files that come from somewhere else, written into a directory of this machine.
//!
//! Nothing that the other end says is believed: a name must be one that was asked for and lead out of the
//! directory neither by itself nor by a link that is there, nothing is overwritten unless that was
//! wanted, and of a mode only permissions count, as far as this user's mask allows them.

use crate::pattern::Pattern;
use quorate_contract::parcel::ParcelError;
use quorate_contract::parcel::stream::{Cutter, Piece, Totals};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Why a file is not written.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// What comes is no stream of files, or names what no file may be called.
    #[error("what came is not taken")]
    Stream(#[from] ParcelError),
    /// A name that nobody asked for.
    #[error("a file came that was not asked for: {}", readable(name))]
    NotAsked {
        /// The name.
        name: String,
    },
    /// There is something of that name.
    #[error("{} is there already", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
    },
    /// A link, or a file, stands where a folder would have to be, or the other way round.
    #[error("{} is no {what} here", path.display())]
    InTheWay {
        /// Where.
        path: PathBuf,
        /// What it would have to be.
        what: &'static str,
    },
    /// It cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// The stream has ended too early.
    #[error("not all files have come")]
    Incomplete,
}

/// A file that has come whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its name under the directory, as [`readable`] text.
    pub name: String,
    /// Its bytes.
    pub size: u64,
}

/// Writes what comes.
#[derive(Debug)]
pub struct Receiver {
    dir: PathBuf,
    wanted: Option<Vec<Pattern>>,
    force: bool,
    cutter: Cutter,
    totals: Option<Totals>,
    bytes: u64,
    open: Option<Open>,
}

/// A file of which some has come; the file goes with it unless it is finished.
#[derive(Debug)]
struct Open {
    name: String,
    file: File,
    /// Where it is written.
    draft: PathBuf,
    /// Where it belongs, if that is elsewhere.
    path: Option<PathBuf>,
    size: u64,
    left: u64,
    finished: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.draft);
        }
    }
}

impl Receiver {
    /// Writes into a directory, which is made when something comes. `wanted` are the patterns of what was
    /// asked for; without any only plain names may come, without folders. `force` overwrites.
    pub fn new(dir: PathBuf, wanted: Vec<Pattern>, force: bool) -> Self {
        let wanted = (!wanted.is_empty()).then_some(wanted);
        let (cutter, totals) = (Cutter::default(), None);
        Self { dir, wanted, force, cutter, totals, bytes: 0, open: None }
    }

    /// Takes bytes as they come; tells of each file that is whole now.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<Received>, ReceiveError> {
        let mut received = Vec::new();
        self.cutter.push(bytes);
        while let Some(piece) = self.cutter.next_piece()? {
            match piece {
                Piece::Totals(totals) => self.totals = Some(totals),
                Piece::Entry(entry) => {
                    let path = self.place(&entry.path)?;
                    match entry.size {
                        None => folder(&path)?,
                        Some(size) => self.begin(entry.path, path, entry.mode, size)?,
                    }
                }
                Piece::Content(content) => self.write(&content)?,
            }
            received.extend(self.finished()?);
        }
        Ok(received)
    }

    /// What the other end has told of, once it has.
    pub fn totals(&self) -> Option<Totals> {
        self.totals
    }

    /// Bytes that have come.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file of which some has come.
    pub fn present(&self) -> Option<String> {
        self.open.as_ref().map(|open| readable(&open.name))
    }

    /// Nothing more comes.
    pub fn finish(self) -> Result<(), ReceiveError> {
        if self.cutter.is_whole() { Ok(()) } else { Err(ReceiveError::Incomplete) }
    }

    /// Where a name belongs; the folders that lead there are made.
    fn place(&self, name: &str) -> Result<PathBuf, ReceiveError> {
        let asked = match &self.wanted {
            Some(wanted) => wanted.iter().any(|pattern| pattern.allows(name)),
            None => !name.contains('/') && !name.starts_with('.'),
        };
        if !asked || name.chars().any(char::is_control) {
            return Err(ReceiveError::NotAsked { name: name.to_owned() });
        }
        let wrong = |path: &Path, source| ReceiveError::Write { path: path.to_owned(), source };
        fs::create_dir_all(&self.dir).map_err(|error| wrong(&self.dir, error))?;
        let mut path = self.dir.clone();
        let (folders, last) = name.rsplit_once('/').unwrap_or(("", name));
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            path.push(part);
            folder(&path)?;
        }
        Ok(path.join(last))
    }

    fn begin(
        &mut self,
        name: String,
        path: PathBuf,
        mode: u32,
        size: u64,
    ) -> Result<(), ReceiveError> {
        let there = fs::symlink_metadata(&path);
        if there.as_ref().is_ok_and(fs::Metadata::is_dir) {
            return Err(ReceiveError::InTheWay { path, what: "file" });
        }
        let replaces = self.force && there.is_ok();
        let draft = if replaces {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            path.with_file_name(format!(".{file:.200}.{}", std::process::id()))
        } else {
            path.clone()
        };
        // Fails at whatever is there, links included.
        let file = OpenOptions::new().write(true).create_new(true).mode(mode | 0o600).open(&draft);
        let file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(ReceiveError::Exists { path: draft });
            }
            Err(source) => return Err(ReceiveError::Write { path, source }),
        };
        let path = replaces.then_some(path);
        self.open = Some(Open { name, file, draft, path, size, left: size, finished: false });
        Ok(())
    }

    fn write(&mut self, content: &[u8]) -> Result<(), ReceiveError> {
        self.bytes += content.len() as u64;
        let Some(open) = &mut self.open else { return Err(ParcelError::Malformed.into()) };
        open.left = open.left.saturating_sub(content.len() as u64);
        open.file
            .write_all(content)
            .map_err(|source| ReceiveError::Write { path: open.draft.clone(), source })
    }

    /// The present file, if it is whole.
    fn finished(&mut self) -> Result<Option<Received>, ReceiveError> {
        let Some(mut open) = self.open.take_if(|open| open.left == 0) else { return Ok(None) };
        if let Some(path) = &open.path {
            fs::rename(&open.draft, path)
                .map_err(|source| ReceiveError::Write { path: path.clone(), source })?;
        }
        open.finished = true;
        Ok(Some(Received { name: readable(&open.name), size: open.size }))
    }
}

/// Makes a folder, unless there is one; a link to one is none.
fn folder(path: &Path) -> Result<(), ReceiveError> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(ReceiveError::InTheWay { path: path.to_owned(), what: "folder" }),
        Err(_) => fs::DirBuilder::new()
            .mode(0o777)
            .create(path)
            .map_err(|source| ReceiveError::Write { path: path.to_owned(), source }),
    }
}

/// A name for people's eyes: nothing in it moves a cursor.
pub fn readable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_contract::parcel::Entry;
    use quorate_contract::parcel::stream::head;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn stream(files: &[(&str, u32, &str)]) -> Vec<u8> {
        let mut bytes = head(&Totals { files: files.len() as u64, bytes: 0 });
        for (path, mode, content) in files {
            let size = Some(content.len() as u64);
            bytes.extend(head(&Entry { path: (*path).to_owned(), mode: *mode, size }));
            bytes.extend_from_slice(content.as_bytes());
        }
        bytes
    }

    fn patterns(words: &[&str]) -> Vec<Pattern> {
        words.iter().map(|word| Pattern::read(word).unwrap()).collect()
    }

    fn receive(
        dir: &Path,
        words: &[&str],
        force: bool,
        bytes: &[u8],
    ) -> Result<Vec<Received>, ReceiveError> {
        let mut receiver = Receiver::new(dir.to_owned(), patterns(words), force);
        let mut all = Vec::new();
        for part in bytes.chunks(7) {
            all.extend(receiver.take(part)?);
        }
        receiver.finish().map(|()| all)
    }

    #[test]
    fn files_are_written_with_what_their_modes_allow() {
        let dir = tempfile::tempdir().unwrap();
        let into = dir.path().join("new/results");
        let bytes = stream(&[("out/deep/a", 0o750, "one\0two"), ("out/b", 0o400, "")]);
        let received = receive(&into, &["out"], false, &bytes).unwrap();
        let names: Vec<(&str, u64)> =
            received.iter().map(|file| (file.name.as_str(), file.size)).collect();
        assert_eq!(names, [("out/deep/a", 7), ("out/b", 0)]);
        assert_eq!(fs::read(into.join("out/deep/a")).unwrap(), b"one\0two");
        let mode = |name: &str| fs::metadata(into.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("out/deep/a") & 0o700, 0o700);
        assert_eq!(mode("out/b") & 0o022, 0);
    }

    #[test]
    fn what_is_there_stays_unless_it_is_to_be_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "mine").unwrap();
        let bytes = stream(&[("a", 0o644, "theirs")]);
        let error = receive(dir.path(), &["a"], false, &bytes).unwrap_err();
        assert!(matches!(error, ReceiveError::Exists { .. }), "{error}");
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"mine");
        receive(dir.path(), &["a"], true, &bytes).unwrap();
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"theirs");
        // Half of it leaves the old one, and no draft.
        let longer = stream(&[("a", 0o644, "something longer")]);
        let error = receive(dir.path(), &["a"], true, &longer[..longer.len() - 3]).unwrap_err();
        assert!(matches!(error, ReceiveError::Incomplete), "{error}");
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // A new one does not stay half.
        let new = stream(&[("b", 0o644, "something")]);
        receive(dir.path(), &["b"], false, &new[..new.len() - 3]).unwrap_err();
        assert!(!dir.path().join("b").exists());
        // A folder is not replaced by a file.
        fs::create_dir(dir.path().join("c")).unwrap();
        let error = receive(dir.path(), &["c"], true, &stream(&[("c", 0o644, "x")])).unwrap_err();
        assert!(matches!(error, ReceiveError::InTheWay { .. }), "{error}");
    }

    #[test]
    fn nothing_is_written_that_was_not_asked_for_or_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (into, outside) = (dir.path().join("into"), dir.path().join("outside"));
        fs::create_dir(&into).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink(&outside, into.join("out")).unwrap();
        symlink(outside.join("new"), into.join("dangling")).unwrap();
        for (asked, name) in [
            (&["*.csv"][..], ".bashrc"),
            (&["*.csv"], "a.csv2"),
            (&["*.csv"], "sub/a.csv"),
            (&["*"], ".ssh/authorized_keys"),
            (&["results"], "../results"),
            (&["results"], "/tmp/results"),
            (&["results"], "results/../../x"),
            (&["results"], "results/\x1b[2J"),
            (&["out"], "out/a"),
            (&["dangling"], "dangling"),
            (&[], "sub/a"),
            (&[], ".profile"),
        ] {
            for force in [false, true] {
                if force && name == "dangling" {
                    continue;
                }
                let bytes = stream(&[(name, 0o644, "evil")]);
                let error = receive(&into, asked, force, &bytes).unwrap_err();
                let text = error.to_string();
                assert!(!text.contains('\x1b'), "{text:?}");
                assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{name}: {error}");
                assert_eq!(fs::read_dir(&into).unwrap().count(), 2, "{name}: {error}");
            }
        }
        // Overwriting replaces a link and not what it stands for.
        receive(&into, &["dangling"], true, &stream(&[("dangling", 0o644, "x")])).unwrap();
        assert!(fs::symlink_metadata(into.join("dangling")).unwrap().is_file());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }
}
