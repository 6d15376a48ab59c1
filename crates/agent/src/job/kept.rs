//! Directories of jobs that have ended, kept for whoever wants files of them.
//!
//! Owns: where they are, for how long, and how many. Their files are memory or disk of the pod that its
//! next jobs need, so that they go after an hour, or when there are too many.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// In the run directory.
const KEPT: &str = "kept";

/// For how long.
const LIFE: Duration = Duration::from_hours(1);

/// How many at once; the oldest go first.
const MOST: usize = 64;

/// Where that of a job of the queue is.
pub fn directory(run_dir: &Path, queued: u64) -> PathBuf {
    run_dir.join(KEPT).join(queued.to_string())
}

/// Keeps a job's directory. Must be called within a runtime.
pub(super) fn keep(run_dir: &Path, queued: u64, dir: &Path) {
    let moved = (|| -> io::Result<()> {
        fs::create_dir_all(run_dir.join(KEPT))?;
        let to = directory(run_dir, queued);
        // That of an earlier attempt.
        forget(run_dir, queued);
        fs::rename(dir, &to)?;
        File::open(to)?.set_modified(SystemTime::now())
    })();
    match moved {
        Ok(()) => look_after(run_dir),
        // Files that never came.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, job = queued, "a job's files are not kept"),
    }
}

/// Forgets that of a job.
pub fn forget(run_dir: &Path, queued: u64) {
    let _ = fs::remove_dir_all(directory(run_dir, queued));
}

/// Forgets what is too old or too many, now and when there is something of which the time has come. Must be
/// called within a runtime.
pub(super) fn look_after(run_dir: &Path) {
    if sweep(run_dir, SystemTime::now()) == 0 {
        return;
    }
    let run_dir = run_dir.to_owned();
    tokio::spawn(async move {
        tokio::time::sleep(LIFE + Duration::from_secs(1)).await;
        sweep(&run_dir, SystemTime::now());
    });
}

/// Forgets what is too old or too many; gives how many are left.
fn sweep(run_dir: &Path, now: SystemTime) -> usize {
    let Ok(entries) = fs::read_dir(run_dir.join(KEPT)) else { return 0 };
    let mut kept: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    // The youngest first.
    kept.sort_by(|a, b| b.cmp(a));
    let old = |since: &SystemTime| now.duration_since(*since).is_ok_and(|age| age > LIFE);
    let stay = kept.iter().take(MOST).take_while(|(since, _)| !old(since)).count();
    for (_, path) in &kept[stay..] {
        if let Err(error) = fs::remove_dir_all(path) {
            tracing::warn!(%error, path = %path.display(), "files of an ended job stay");
        }
    }
    stay
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_jobs_directory_is_kept_for_an_hour_and_not_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let run_dir = dir.path();
        let job = |queued: u64| {
            let files = run_dir.join("job-9/files");
            fs::create_dir_all(&files).unwrap();
            fs::write(files.join("out"), queued.to_string()).unwrap();
            keep(run_dir, queued, &files);
        };
        for queued in 1..=(MOST as u64 + 2) {
            job(queued);
        }
        let read = |queued| fs::read_to_string(directory(run_dir, queued).join("out")).ok();
        assert_eq!((read(1), read(2), read(3)), (None, None, Some("3".into())));
        // A second attempt takes the place of the first.
        fs::write(directory(run_dir, 3).join("old"), "").unwrap();
        job(3);
        assert!(!directory(run_dir, 3).join("old").exists());
        forget(run_dir, 4);
        let now = SystemTime::now();
        assert_eq!(sweep(run_dir, now), MOST - 1);
        assert_eq!(sweep(run_dir, now + LIFE + Duration::from_mins(1)), 0);
        // Of a job that never had any.
        keep(run_dir, 7, &run_dir.join("absent"));
        assert!(!directory(run_dir, 7).exists());
    }
}
