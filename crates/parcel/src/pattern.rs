//! Words that name files of a job: `out.csv`, `results/*.h5`, `/data/run-?`.
//!
//! Owns their meaning, at both ends: which files a word chooses there, and which names it allows to come
//! from there. `*`, `?` and `[a-z]` stand within one part of a path; a point at the beginning of a name
//! must be written. A folder is chosen with all that is in it.

use glob::{MatchOptions, Pattern as Glob};
use std::path::{Component, Path, PathBuf};

const HOW: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// Why a word names no files.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// It names a directory that has no name, or nothing.
    #[error("{word:?} names no file")]
    NoName {
        /// The word.
        word: String,
    },
    /// Its brackets or stars make no sense.
    #[error("{word:?} is no pattern: {why}")]
    Malformed {
        /// The word.
        word: String,
        /// What is wrong.
        why: &'static str,
    },
}

/// A word that names files.
#[derive(Clone, Debug)]
pub struct Pattern {
    word: String,
    /// Where its parts begin, relative to the job's directory: empty, `/`, or some `..`.
    base: PathBuf,
    parts: Vec<Part>,
    /// What it chooses comes under its own name alone, since it is not under the job's directory.
    elsewhere: bool,
}

/// A part of a path.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// As it is.
    Name(String),
    /// Whatever fits.
    Any(Glob),
}

impl Part {
    /// Whether a name fits.
    pub(crate) fn fits(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            // `*.x` is not `.x`, whatever the crate says: its star may be nothing.
            Self::Any(glob) => {
                (!name.starts_with('.') || glob.as_str().starts_with('.'))
                    && glob.matches_with(name, HOW)
            }
        }
    }
}

impl Pattern {
    /// Reads a word.
    pub fn read(word: &str) -> Result<Self, PatternError> {
        let (mut base, mut parts) = (PathBuf::new(), Vec::new());
        if word.contains('\0') {
            return Err(PatternError::NoName { word: word.to_owned() });
        }
        for component in Path::new(word).components() {
            match component {
                Component::CurDir => {}
                Component::Normal(name) => {
                    let name = name.to_str().unwrap_or_default();
                    parts.push(part(word, name)?);
                }
                Component::RootDir => base.push("/"),
                Component::ParentDir if parts.is_empty() => base.push(".."),
                Component::ParentDir | Component::Prefix(_) => {
                    let why = "`..` may stand at its beginning alone";
                    return Err(PatternError::Malformed { word: word.to_owned(), why });
                }
            }
        }
        if parts.is_empty() {
            return Err(PatternError::NoName { word: word.to_owned() });
        }
        let elsewhere = !base.as_os_str().is_empty();
        Ok(Self { word: word.to_owned(), base, parts, elsewhere })
    }

    /// The word.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// Whether a file of this name may come for it.
    pub fn allows(&self, name: &str) -> bool {
        let mut names = name.split('/');
        let under = if self.elsewhere { &self.parts[self.parts.len() - 1..] } else { &self.parts };
        under.iter().all(|part| names.next().is_some_and(|name| part.fits(name)))
    }

    /// Where to begin in a job's directory.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// What stands behind that.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The name under which a match comes.
    pub(crate) fn name(&self, names: &[String]) -> String {
        let from = if self.elsewhere { names.len() - 1 } else { 0 };
        names[from..].join("/")
    }
}

fn part(word: &str, name: &str) -> Result<Part, PatternError> {
    if !name.contains(['*', '?', '[']) {
        return Ok(Part::Name(name.to_owned()));
    }
    let malformed = |why| PatternError::Malformed { word: word.to_owned(), why };
    if name.contains("**") {
        return Err(malformed("`**` has no meaning; a folder comes with all that is in it"));
    }
    Glob::new(name).map(Part::Any).map_err(|error| malformed(error.msg))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_allows_what_it_names_and_what_is_in_it() {
        for (word, yes, no) in [
            ("out", &["out", "out/a/b"][..], &["out2", "a/out", ".out"][..]),
            ("./out/", &["out", "out/a"], &["ou"]),
            (
                "results/*.h5",
                &["results/a.h5", "results/a.h5/x"],
                &["results", "results/.h5", "a.h5"],
            ),
            ("*", &["a", "a/.hidden"], &[".ssh", ".ssh/authorized_keys"]),
            ("/data/run-?", &["run-1", "run-1/x"], &["data/run-1", "run-12"]),
            ("../x[ab]", &["xa"], &["xc", "xab"]),
        ] {
            let pattern = Pattern::read(word).unwrap();
            for name in yes {
                assert!(pattern.allows(name), "{word} {name}");
            }
            for name in no {
                assert!(!pattern.allows(name), "{word} {name}");
            }
        }
    }

    #[test]
    fn words_that_name_nothing_are_refused() {
        for word in ["", "/", ".", "..", "../..", "a/../b", "a**", "[a", "a\0b"] {
            assert!(Pattern::read(word).is_err(), "{word:?}");
        }
    }
}
