//! Removes what killed tasks leave behind: processes that left their group, and shared memory.
//!
//! Owns: finding processes by a variable of their environment (daemons that made a session of
//! their own keep it), the names of MPI libraries' files in `/dev/shm`, and the removal of paths
//! that ranks asked to have removed. It runs after kills only: looking through `/proc` costs
//! milliseconds.

use crate::sys;
use quorate_pmi::Cleanup;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

/// Processes, other than this one, in whose first environment the variable `name` has this mark
/// among its marks. A mark may go on after what is given if that ends with a dot.
pub fn marked(name: &str, value: &str) -> Vec<i32> {
    let open = value.ends_with('.');
    let is_it =
        |mark: &[u8]| mark == value.as_bytes() || open && mark.starts_with(value.as_bytes());
    let fits = |entry: &[u8]| {
        let marks = entry.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        marks.is_some_and(|marks| marks.split(|b| *b == b' ').any(is_it))
    };
    let own = std::process::id().cast_signed();
    processes()
        .filter(|pid| *pid != own)
        .filter(|pid| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|env| env.split(|b| *b == 0).any(fits))
        })
        .collect()
}

/// Kills all processes so marked, until a look finds none or `rounds` are over.
pub fn kill_marked(name: &str, value: &str) -> usize {
    /// A process may start another between the look and the kill.
    const ROUNDS: usize = 5;
    let mut killed = 0;
    for _ in 0..ROUNDS {
        let found = marked(name, value);
        if found.is_empty() {
            break;
        }
        killed += found.iter().filter(|pid| sys::signal_process(**pid, libc::SIGKILL)).count();
    }
    killed
}

/// All process numbers.
pub fn processes() -> impl Iterator<Item = i32> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Files that MPI libraries make for ranks that share a machine. MPICH and Intel unlink theirs as
/// soon as all have them open, Open MPI at finalize; a kill comes before either.
const SHARED_MEMORY: [&str; 8] = [
    "mpich_shm_",
    "mpich_",
    "vader_segment.",
    "sm_segment.",
    "Intel_MPI_",
    "psm2_shm.",
    "ucx_shm_posix_",
    "shm_coll_",
];

/// Removes shared memory of MPI libraries that belongs to our user, is not younger than `since`
/// and is in nobody's memory any more. Gives the number of removed files.
pub fn shared_memory(dir: &Path, since: SystemTime) -> usize {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let uid = nix::unistd::geteuid().as_raw();
    let mut candidates = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let known = name
            .to_str()
            .is_some_and(|name| SHARED_MEMORY.iter().any(|prefix| name.starts_with(prefix)));
        let Ok(meta) = entry.metadata() else { continue };
        let old = meta.modified().is_ok_and(|time| time < since);
        if known && meta.is_file() && meta.uid() == uid && !old {
            candidates.push((meta.ino(), entry.path()));
        }
    }
    if candidates.is_empty() {
        return 0;
    }
    let used = mapped();
    candidates
        .into_iter()
        .filter(|(inode, path)| !used.contains(inode) && std::fs::remove_file(path).is_ok())
        .count()
}

/// Inodes of all files that some process has mapped.
fn mapped() -> HashSet<u64> {
    let mut inodes = HashSet::new();
    for pid in processes() {
        let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { continue };
        for line in maps.lines() {
            let inode: Option<u64> =
                line.split_whitespace().nth(4).and_then(|word| word.parse().ok());
            inodes.extend(inode.filter(|inode| *inode != 0));
        }
    }
    inodes
}

/// Removes what a rank registered for removal. Errors are not ours to report: it may be gone
/// already.
pub fn registered(cleanup: &Cleanup) {
    let ignored = |path: &Path| cleanup.ignore.iter().any(|keep| Path::new(keep) == path);
    for file in &cleanup.files {
        let file = Path::new(file);
        if file.is_absolute() && !ignored(file) {
            let _ = std::fs::remove_file(file);
        }
    }
    for directory in &cleanup.directories {
        let directory = Path::new(directory);
        // A path of one component is never a session directory.
        if directory.is_absolute() && directory.components().count() > 2 {
            empty(directory, cleanup.recursive, &ignored);
            if !cleanup.leave_top && !ignored(directory) {
                let _ = std::fs::remove_dir(directory);
            }
        }
    }
}

/// Removes the files of a directory, and with `recursive` its directories. Links are removed, not
/// followed.
fn empty(directory: &Path, recursive: bool, ignored: &dyn Fn(&Path) -> bool) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if ignored(&path) {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if recursive {
                empty(&path, true, ignored);
                let _ = std::fs::remove_dir(&path);
            }
        } else {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn a_daemon_that_left_its_group_is_found_by_its_environment() {
        let value = format!("sweep-{}", std::process::id());
        let mut child = Command::new("setsid")
            .args(["sleep", "1000"])
            .env("QUORATE_TEST", &value)
            .spawn()
            .unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(5);
        while marked("QUORATE_TEST", &value).is_empty() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
        assert!(kill_marked("QUORATE_TEST", &value) >= 1);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn only_old_unused_shared_memory_of_mpi_goes() {
        let dir = tempfile::tempdir().unwrap();
        let since = SystemTime::now() - Duration::from_secs(10);
        for name in ["vader_segment.h.0.1.0", "sm_segment.h.0.1.0", "other", "mpich_shm_x"] {
            std::fs::write(dir.path().join(name), "x").unwrap();
        }
        let before = std::fs::File::open(dir.path().join("mpich_shm_x")).unwrap();
        before.set_modified(since - Duration::from_mins(1)).unwrap();
        assert_eq!(shared_memory(dir.path(), since), 2);
        let mut left: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["mpich_shm_x", "other"]);
    }

    #[test]
    fn registered_paths_go_and_ignored_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("session/deep")).unwrap();
        for name in ["file", "session/a", "session/keep", "session/deep/b"] {
            std::fs::write(at(name), "x").unwrap();
        }
        let text = |name: &str| at(name).to_str().unwrap().to_string();
        registered(&Cleanup {
            files: vec![text("file")],
            directories: vec![text("session")],
            ignore: vec![text("session/keep")],
            recursive: true,
            ..Cleanup::default()
        });
        assert!(!at("file").exists() && !at("session/a").exists() && !at("session/deep").exists());
        assert!(at("session/keep").exists());
    }
}
