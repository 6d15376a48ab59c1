//! Files of a job that somebody wants to have: what patterns choose in a directory becomes a stream.
//!
//! A file is read when its turn comes, and as much of it as it had then: one that grows meanwhile is cut
//! there. Links to files are followed, those to folders only where they were named; pipes and devices are
//! left out.

use crate::pattern::{Part, Pattern};
use quorate_contract::parcel::stream::{Totals, head};
use quorate_contract::parcel::{ENTRIES, Entry, ParcelError, check};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::vec;

/// Bytes of a file that are read at once.
const BLOCK: usize = 48 << 10;

/// `O_NONBLOCK` of Linux: a pipe that took the place of a file must not hold anybody up.
const NONBLOCK: i32 = 0o4000;

/// Why files do not come.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// A pattern fits nothing.
    #[error("there is no {word} in {}", dir.display())]
    Nothing {
        /// The pattern's word.
        word: String,
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// A file or folder cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// A file has become shorter while it was read.
    #[error("{} has become shorter while it was read", path.display())]
    Shorter {
        /// The file.
        path: PathBuf,
    },
    /// There are too many, or two of one name.
    #[error(transparent)]
    Parcel(#[from] ParcelError),
}

/// The files that were chosen, as a stream: each call of [`Iterator::next`] reads at most one block.
#[derive(Debug)]
pub struct Chosen {
    totals: Option<Totals>,
    rest: vec::IntoIter<(String, PathBuf)>,
    open: Option<(PathBuf, File, u64)>,
    block: Vec<u8>,
}

/// Finds what patterns choose in a directory. What cannot be sent is left out if a folder was named, and an
/// error if it was named itself.
pub fn choose(dir: &Path, patterns: &[Pattern]) -> Result<Chosen, ChooseError> {
    let mut found = BTreeMap::new();
    for pattern in patterns {
        let mut matches = Vec::new();
        walk(&dir.join(pattern.base()), pattern.parts(), &mut Vec::new(), &mut matches)?;
        let before = found.len();
        let mut again = false;
        for (names, path) in matches {
            let meta = fs::metadata(&path).map_err(|error| unreadable(&path, error))?;
            let name = pattern.name(&names);
            again |= found.contains_key(&name);
            add(&mut found, name, &path, &meta)?;
        }
        if found.len() == before && !again {
            let (word, dir) = (pattern.word().to_owned(), dir.to_owned());
            return Err(ChooseError::Nothing { word, dir });
        }
    }
    let mut totals = Totals::default();
    for path in found.values() {
        let meta = fs::metadata(path).map_err(|error| unreadable(path, error))?;
        if meta.is_file() {
            totals.files += 1;
            totals.bytes += meta.len();
        }
    }
    let rest = found.into_iter().collect::<Vec<_>>().into_iter();
    Ok(Chosen { totals: Some(totals), rest, open: None, block: vec![0; BLOCK] })
}

/// Follows the parts of a pattern; gives what they lead to, with the names on the way.
fn walk(
    at: &Path,
    parts: &[Part],
    names: &mut Vec<String>,
    matches: &mut Vec<(Vec<String>, PathBuf)>,
) -> Result<(), ChooseError> {
    let Some((part, rest)) = parts.split_first() else {
        matches.push((names.clone(), at.to_owned()));
        return Ok(());
    };
    let found = match part {
        Part::Name(name) if at.join(name).symlink_metadata().is_ok() => vec![name.clone()],
        Part::Name(_) => Vec::new(),
        Part::Any(_) => match named(at) {
            Ok(all) => all.into_iter().filter(|name| part.fits(name)).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Vec::new(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(unreadable(at, error)),
        },
    };
    for name in found {
        let path = at.join(&name);
        names.push(name);
        walk(&path, rest, names, matches)?;
        names.pop();
    }
    Ok(())
}

/// The names in a folder that are text, in order.
fn named(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.extend(entry?.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

fn add(
    found: &mut BTreeMap<String, PathBuf>,
    name: String,
    path: &Path,
    meta: &fs::Metadata,
) -> Result<(), ChooseError> {
    if !meta.is_file() && !meta.is_dir() {
        return Ok(());
    }
    check(&name)?;
    if let Some(other) = found.get(&name) {
        return if other == path { Ok(()) } else { Err(ParcelError::Twice(name).into()) };
    }
    if found.len() >= ENTRIES {
        return Err(ParcelError::TooMany.into());
    }
    found.insert(name.clone(), path.to_owned());
    if meta.is_dir() {
        for inner in named(path).map_err(|error| unreadable(path, error))? {
            let path = path.join(&inner);
            let own = fs::symlink_metadata(&path).map_err(|error| unreadable(&path, error))?;
            // A link that leads nowhere, or to a folder that may be above this one.
            let Ok(meta) = fs::metadata(&path) else { continue };
            if own.is_symlink() && meta.is_dir() {
                continue;
            }
            add(found, format!("{name}/{inner}"), &path, &meta)?;
        }
    }
    Ok(())
}

impl Chosen {
    /// How much there is.
    pub fn totals(&self) -> Totals {
        self.totals.unwrap_or_default()
    }

    fn begin(&mut self, name: String, path: PathBuf) -> Result<Vec<u8>, ChooseError> {
        let failed = |error| unreadable(&path, error);
        let file = fs::OpenOptions::new().read(true).custom_flags(NONBLOCK).open(&path);
        let file = file.map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        let size = meta.is_file().then_some(meta.len());
        let entry = Entry { path: name, mode: meta.permissions().mode() & 0o777, size };
        self.open = size.filter(|size| *size > 0).map(|size| (path, file, size));
        Ok(head(&entry))
    }

    fn go_on(&mut self) -> Option<Result<Vec<u8>, ChooseError>> {
        let (path, mut file, left) = self.open.take()?;
        let most = usize::try_from(left).map_or(BLOCK, |left| left.min(BLOCK));
        Some(match file.read(&mut self.block[..most]) {
            Ok(0) => Err(ChooseError::Shorter { path }),
            Ok(count) => {
                let left = left - count as u64;
                self.open = (left > 0).then_some((path, file, left));
                Ok(self.block[..count].to_vec())
            }
            Err(error) => Err(unreadable(&path, error)),
        })
    }
}

impl Iterator for Chosen {
    type Item = Result<Vec<u8>, ChooseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(totals) = self.totals.take() {
            return Some(Ok(head(&totals)));
        }
        if let Some(piece) = self.go_on() {
            return Some(piece);
        }
        let (name, path) = self.rest.next()?;
        Some(self.begin(name, path))
    }
}

fn unreadable(path: &Path, source: io::Error) -> ChooseError {
    ChooseError::Read { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::Receiver;
    use std::os::unix::fs::symlink;

    fn patterns(words: &[&str]) -> Vec<Pattern> {
        words.iter().map(|word| Pattern::read(word).unwrap()).collect()
    }

    /// What comes of patterns, by way of a stream, and how many pieces that had.
    fn sent(dir: &Path, words: &[&str]) -> Result<(Vec<(String, u64)>, usize), ChooseError> {
        let into = tempfile::tempdir().unwrap();
        let mut receiver = Receiver::new(into.path().to_owned(), patterns(words), false);
        let (mut all, mut pieces) = (Vec::new(), 0);
        for piece in choose(dir, &patterns(words))? {
            let piece = piece?;
            assert!(piece.len() <= BLOCK);
            pieces += 1;
            for file in receiver.take(&piece).unwrap() {
                all.push((file.name, file.size));
            }
        }
        let totals = receiver.totals().unwrap();
        assert_eq!(totals.files, all.len() as u64);
        assert_eq!(totals.bytes, receiver.bytes());
        receiver.finish().unwrap();
        Ok((all, pieces))
    }

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("job/results/deep")).unwrap();
        fs::write(at("job/results/a.csv"), "1,2\n").unwrap();
        fs::write(at("job/results/b.csv"), vec![7; 3 * BLOCK + 1]).unwrap();
        fs::write(at("job/results/deep/.hidden"), "").unwrap();
        fs::write(at("job/.profile"), "x").unwrap();
        fs::write(at("mesh.h5"), "mesh").unwrap();
        dir
    }

    #[test]
    fn patterns_choose_files_and_folders_with_all_that_is_in_them() {
        let dir = tree();
        let job = dir.path().join("job");
        let b = 3 * BLOCK as u64 + 1;
        let (all, pieces) = sent(&job, &["results/*.csv"]).unwrap();
        assert_eq!(all, [("results/a.csv".into(), 4), ("results/b.csv".into(), b)]);
        assert_eq!(pieces, 1 + 2 + 1 + 4, "the large one is in pieces");
        let all = sent(&job, &["results", "results/a.csv"]).unwrap().0;
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["results/a.csv", "results/b.csv", "results/deep/.hidden"]);
        assert_eq!(sent(&job, &["../mesh.h5"]).unwrap().0, [("mesh.h5".into(), 4)]);
        let absolute = format!("{}/mesh.*", dir.path().display());
        assert_eq!(sent(&job, &[&absolute]).unwrap().0, [("mesh.h5".into(), 4)]);
        let names = sent(&job, &["*"]).unwrap().0;
        assert!(names.iter().all(|(name, _)| name != ".profile"), "{names:?}");
    }

    #[test]
    fn links_lead_to_files_alone_and_what_is_no_file_is_left_out() {
        let dir = tree();
        let job = dir.path().join("job");
        symlink("a.csv", job.join("results/latest")).unwrap();
        symlink("..", job.join("results/up")).unwrap();
        symlink("nowhere", job.join("results/dangling")).unwrap();
        nix::unistd::mkfifo(&job.join("results/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let names: Vec<String> =
            sent(&job, &["results"]).unwrap().0.into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            ["results/a.csv", "results/b.csv", "results/deep/.hidden", "results/latest"]
        );
        // One that was named itself is followed.
        symlink("results", job.join("last")).unwrap();
        assert_eq!(sent(&job, &["last/a.csv"]).unwrap().0, [("last/a.csv".into(), 4)]);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let dir = tree();
        let job = dir.path().join("job");
        for word in ["absent", "*.none", "results/a.csv/x", "no/such/*"] {
            let error = choose(&job, &patterns(&["results", word])).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("there is no"), "{error}");
        }
        fs::write(dir.path().join("job/mesh.h5"), "x").unwrap();
        let error = choose(&job, &patterns(&["mesh.h5", "../mesh.h5"])).unwrap_err();
        assert!(matches!(error, ChooseError::Parcel(ParcelError::Twice(_))), "{error}");
    }

    #[test]
    fn a_file_that_grows_is_cut_and_one_that_shrinks_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, vec![1; BLOCK + 10]).unwrap();
        let mut chosen = choose(dir.path(), &patterns(&["log"])).unwrap();
        assert_eq!(chosen.totals(), Totals { files: 1, bytes: BLOCK as u64 + 10 });
        let (_, _) = (chosen.next().unwrap().unwrap(), chosen.next().unwrap().unwrap());
        fs::write(&path, vec![2; 2 * BLOCK]).unwrap();
        let rest: usize = chosen.map(|piece| piece.unwrap().len()).sum();
        assert_eq!(rest, BLOCK + 10);
        let mut chosen = choose(dir.path(), &patterns(&["log"])).unwrap();
        let (_, _) = (chosen.next().unwrap().unwrap(), chosen.next().unwrap().unwrap());
        fs::write(&path, "").unwrap();
        assert!(matches!(chosen.next(), Some(Err(ChooseError::Shorter { .. }))));
    }
}
