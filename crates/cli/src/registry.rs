//! Where local clusters keep their files: `$XDG_STATE_HOME/quorate/<name>/`, one directory each.
//!
//! ```text
//! lock           held by front and keeper as long as the cluster lives
//! control.sock   the keeper's socket while it lives
//! <pod>.log      output of each pod, as people call it: worker-0-3.log
//! ended.json     written when a failed cluster's logs are kept
//! ```
//!
//! A directory whose lock nobody holds is a leftover: without `ended.json` it is swept, with it the
//! logs stay until the name is used again or many newer ones are kept.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Failed clusters whose logs are kept.
const KEPT: usize = 20;
const LOCK: &str = "lock";
/// The record of a failed cluster whose logs are kept.
pub(crate) const ENDED: &str = "ended.json";

/// Why the registry could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Neither `XDG_STATE_HOME` nor `HOME` says where state goes.
    #[error("no place for the cluster's files: neither XDG_STATE_HOME nor HOME is set")]
    NoHome,
    /// A cluster of this name runs.
    #[error("a cluster named {name} is running already")]
    Exists {
        /// The name.
        name: String,
    },
    /// A directory or file could not be made.
    #[error("cannot use {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// The directory of all clusters.
#[derive(Clone, Debug)]
pub struct Registry {
    root: PathBuf,
}

/// A cluster's directory and the lock on it.
#[derive(Debug)]
pub struct ClusterDir {
    /// The directory.
    pub path: PathBuf,
    /// Keep it open as long as the cluster lives.
    pub lock: File,
}

/// An entry of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The cluster's name.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// Whether it runs; else only its logs are left.
    pub running: bool,
}

impl Registry {
    /// The registry of the calling user, by the XDG base directory rules.
    pub fn of_user(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Self, RegistryError> {
        let absolute = |path: PathBuf| path.is_absolute().then_some(path);
        let state = variable("XDG_STATE_HOME").and_then(absolute);
        let home = || variable("HOME").and_then(absolute).map(|home| home.join(".local/state"));
        let root = state.or_else(home).ok_or(RegistryError::NoHome)?.join("quorate");
        Ok(Self { root })
    }

    /// Makes the directory of a new cluster. What an ended one of the same name left is removed.
    pub fn create(&self, name: &str) -> Result<ClusterDir, RegistryError> {
        make_private(&self.root)?;
        let _guard = self.guard()?;
        self.sweep();
        let path = self.root.join(name);
        if path.exists() {
            if is_locked(&path) {
                return Err(RegistryError::Exists { name: name.to_owned() });
            }
            fs::remove_dir_all(&path).map_err(|e| file_error(&path, e))?;
        }
        make_private(&path)?;
        let file = path.join(LOCK);
        let lock = File::create(&file).map_err(|e| file_error(&file, e))?;
        match lock.try_lock() {
            Ok(()) => Ok(ClusterDir { path, lock }),
            Err(TryLockError::Error(e)) => Err(file_error(&file, e)),
            Err(TryLockError::WouldBlock) => Err(RegistryError::Exists { name: name.to_owned() }),
        }
    }

    /// All entries by name, after sweeping what crashed clusters left.
    pub fn entries(&self) -> Vec<Entry> {
        if let Ok(_guard) = self.guard() {
            self.sweep();
        }
        self.list()
    }

    fn list(&self) -> Vec<Entry> {
        let directories = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut entries: Vec<Entry> = directories
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| {
                let (name, path) = (entry.file_name().into_string().ok()?, entry.path());
                let running = is_locked(&path);
                Some(Entry { name, path, running })
            })
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    /// Removes what nobody needs: leftovers of crashes, and the oldest of many kept logs.
    fn sweep(&self) {
        let mut kept = Vec::new();
        for entry in self.list().into_iter().filter(|e| !e.running) {
            match fs::metadata(entry.path.join(ENDED)).and_then(|m| m.modified()) {
                Ok(when) => kept.push((when, entry.path)),
                // A leftover that cannot be removed now is tried again the next time.
                Err(_) => drop(fs::remove_dir_all(&entry.path)),
            }
        }
        kept.sort();
        let surplus = kept.len().saturating_sub(KEPT);
        for (_, path) in kept.into_iter().take(surplus) {
            let _ = fs::remove_dir_all(path);
        }
    }

    /// One process at a time makes or sweeps directories.
    fn guard(&self) -> Result<File, RegistryError> {
        let path = self.root.join(".guard");
        let file = File::create(&path).map_err(|e| file_error(&path, e))?;
        file.lock().map_err(|e| file_error(&path, e))?;
        Ok(file)
    }
}

impl ClusterDir {
    /// Marks the logs as kept: `record` is JSON for people and tools that look at them later.
    pub fn keep(&self, record: &str) -> io::Result<()> {
        fs::write(self.path.join(ENDED), record)
    }

    /// Removes everything.
    pub fn remove(&self) {
        // Nothing can be done about files that another user has put here.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn is_locked(dir: &Path) -> bool {
    File::open(dir.join(LOCK))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

fn make_private(path: &Path) -> Result<(), RegistryError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|e| file_error(path, e))
}

fn file_error(path: &Path, source: io::Error) -> RegistryError {
    RegistryError::File { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> (tempfile::TempDir, Registry) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let registry =
            Registry::of_user(|name| (name == "XDG_STATE_HOME").then(|| path.clone())).unwrap();
        (dir, registry)
    }

    #[test]
    fn state_goes_where_the_xdg_rules_say() {
        let home = Registry::of_user(|n| (n == "HOME").then(|| "/home/u".into())).unwrap();
        assert_eq!(home.root, Path::new("/home/u/.local/state/quorate"));
        let relative = Registry::of_user(|_| Some("relative".into()));
        assert!(matches!(relative, Err(RegistryError::NoHome)));
    }

    #[test]
    fn a_running_name_is_refused_and_a_crashed_one_is_swept() {
        let (_dir, registry) = registry();
        let first = registry.create("a").unwrap();
        assert!(matches!(registry.create("a"), Err(RegistryError::Exists { .. })));
        fs::write(first.path.join("launcher-0-0.log"), "x").unwrap();
        drop(first.lock);
        assert_eq!(registry.entries(), []);
        assert!(!first.path.exists());
    }

    #[test]
    fn kept_logs_stay_until_the_name_is_used_again() {
        let (_dir, registry) = registry();
        let first = registry.create("a").unwrap();
        first.keep("{}").unwrap();
        drop(first);
        let entries = registry.entries();
        assert_eq!((entries.len(), entries[0].running), (1, false));
        let again = registry.create("a").unwrap();
        assert!(!again.path.join(ENDED).exists());
    }

    #[test]
    fn the_oldest_of_many_kept_logs_go() {
        let (_dir, registry) = registry();
        for n in 0..KEPT + 3 {
            registry.create(&format!("c{n}")).unwrap().keep("{}").unwrap();
        }
        assert_eq!(registry.entries().len(), KEPT);
    }
}
