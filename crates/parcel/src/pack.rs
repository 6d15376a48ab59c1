//! Files of this machine that are sent along with a job: what was named becomes a parcel.
//!
//! Links are not followed and not sent: what they lead to may be anything. A folder is sent with all
//! that is in it.

use quorate_contract::parcel::{LIMIT, Packer, ParcelError};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

/// Why files cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// A word names no file under a directory.
    #[error("--file {word} has no name to be sent under")]
    NoName {
        /// The word.
        word: String,
    },
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
    /// Its name is no text.
    #[error("{} has a name that is no text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// It is neither a file nor a folder.
    #[error("{} is {what}, and only files and folders are sent", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It is too much, or has a name that a job's file may not have.
    #[error("--file: {0}")]
    Parcel(#[from] ParcelError),
}

impl PackError {
    /// What to do about it, if that is known.
    pub fn way_out(&self) -> Option<String> {
        Some(match self {
            Self::NoName { .. } => "name a file or a folder, such as data.in or conf/".to_owned(),
            Self::NotText { .. } => "give it another name, or send an archive".to_owned(),
            Self::Kind { .. } => "copy what it stands for, or leave it out".to_owned(),
            Self::Parcel(ParcelError::TooLarge) => format!(
                "at most {} MiB travel with a job; what is larger belongs into an image or on a volume",
                LIMIT >> 20
            ),
            Self::Read { .. } | Self::Parcel(_) => return None,
        })
    }
}

/// Packs files and folders under the names that they were given by. What lies elsewhere (`/data/mesh`,
/// `../mesh`) comes under its own name alone.
pub fn pack(named: &[String]) -> Result<Vec<u8>, PackError> {
    let mut packer = Packer::default();
    for word in named {
        add_named(&mut packer, word)?;
    }
    Ok(packer.finish())
}

fn add_named(packer: &mut Packer, word: &str) -> Result<(), PackError> {
    // `./conf/` is `conf`.
    let path = Path::new(word);
    let climbs =
        path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir));
    let name = if climbs {
        path.file_name().and_then(OsStr::to_str).map(str::to_owned)
    } else {
        let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
        let parts: Option<Vec<&str>> = parts.map(|part| part.as_os_str().to_str()).collect();
        parts.filter(|parts| !parts.is_empty()).map(|parts| parts.join("/"))
    };
    let Some(name) = name else { return Err(PackError::NoName { word: word.to_owned() }) };
    let meta = fs::symlink_metadata(path).map_err(|error| unreadable(path, error))?;
    add(packer, path, &name, &meta)
}

fn add(packer: &mut Packer, path: &Path, name: &str, meta: &Metadata) -> Result<(), PackError> {
    let mode = meta.permissions().mode();
    if meta.is_dir() {
        packer.folder(name, mode)?;
        let read = || -> io::Result<Vec<fs::DirEntry>> { fs::read_dir(path)?.collect() };
        let mut entries = read().map_err(|error| unreadable(path, error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let inner = entry.file_name();
            let Some(inner) = inner.to_str() else {
                return Err(PackError::NotText { path: entry.path() });
            };
            let meta = entry.metadata().map_err(|error| unreadable(&entry.path(), error))?;
            add(packer, &entry.path(), &format!("{name}/{inner}"), &meta)?;
        }
        return Ok(());
    }
    if !meta.is_file() {
        let what = if meta.is_symlink() { "a symbolic link" } else { "no plain file" };
        return Err(PackError::Kind { path: path.to_owned(), what });
    }
    if meta.len() > packer.room() {
        return Err(ParcelError::TooLarge.into());
    }
    let content = fs::read(path).map_err(|error| unreadable(path, error))?;
    Ok(packer.file(name, mode, &content)?)
}

fn unreadable(path: &Path, source: io::Error) -> PackError {
    PackError::Read { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_contract::parcel;
    use std::os::unix::fs::symlink;

    fn names(bytes: &[u8]) -> Vec<(String, u32, String)> {
        let entries = parcel::read(bytes).unwrap();
        let text = |content: &[u8]| String::from_utf8_lossy(content).into_owned();
        entries
            .iter()
            .map(|(entry, content)| (entry.path.clone(), entry.mode, text(content)))
            .collect()
    }

    fn write(dir: &Path, name: &str, mode: u32, content: &str) -> String {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    }

    #[test]
    fn folders_come_with_all_that_is_in_them_and_modes_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "conf/b/run.sh", 0o750, "#!/bin/sh\n");
        write(dir.path(), "conf/a.ini", 0o640, "x=1");
        let data = write(dir.path(), "data.in", 0o444, "1 2 3");
        let conf = format!("{}/conf/", dir.path().display());
        let seen = names(&pack(&[data, conf]).unwrap());
        let paths: Vec<(&str, u32)> =
            seen.iter().map(|(path, mode, _)| (path.as_str(), *mode)).collect();
        assert_eq!(paths[0], ("data.in", 0o444));
        assert_eq!(paths[2], ("conf/a.ini", 0o640));
        assert_eq!(
            (paths[1].0, paths[3].0, paths[4]),
            ("conf", "conf/b", ("conf/b/run.sh", 0o750))
        );
        assert_eq!(seen[0].2, "1 2 3");
    }

    #[test]
    fn links_pipes_and_what_is_too_large_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        symlink("/etc/passwd", at("link")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::File::create(at("large")).unwrap().set_len(LIMIT + 1).unwrap();
        for (name, why) in [
            ("link", "is a symbolic link"),
            ("pipe", "is no plain file"),
            ("large", "more than 64 MiB"),
            ("absent", "cannot read"),
            ("..", "no name to be sent under"),
        ] {
            let error = pack(&[at(name).display().to_string()]).unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
        fs::create_dir(at("folder")).unwrap();
        symlink("..", at("folder/up")).unwrap();
        let error = pack(&[at("folder").display().to_string()]).unwrap_err().to_string();
        assert!(error.contains("folder/up is a symbolic link"), "{error}");
        let twice = write(dir.path(), "a/same", 0o644, "");
        let other = write(dir.path(), "b/same", 0o644, "");
        let error = pack(&[twice, other]).unwrap_err().to_string();
        assert!(error.contains("\"same\" is there twice"), "{error}");
    }
}
