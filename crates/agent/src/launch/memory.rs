//! Whether the kernel has killed a process because this container's memory was used up.
//!
//! Kubernetes only tells when the whole container was killed. Where the kernel picks a single
//! process, a rank dies by SIGKILL out of the blue, and only the control group's counter says why.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

/// Where counters are: cgroup v2 `memory.events`, v1 `memory.oom_control` (kernel documentation,
/// admin-guide/cgroup-v2 and cgroup-v1/memory). Both have a line `oom_kill N`.
const COUNTERS: [&str; 2] =
    ["sys/fs/cgroup/memory.events", "sys/fs/cgroup/memory/memory.oom_control"];

/// How many processes of this container were killed for its memory; 0 where nothing counts them.
pub fn kills_here() -> u64 {
    // Open for good: it is read at each start of a task.
    static COUNTER: OnceLock<Option<File>> = OnceLock::new();
    COUNTER.get_or_init(|| counter(Path::new("/"))).as_ref().map_or(0, count)
}

/// The first file that counts.
fn counter(root: &Path) -> Option<File> {
    let mut files = COUNTERS.iter().filter_map(|path| File::open(root.join(path)).ok());
    files.find(|file| read(file).is_some())
}

fn count(file: &File) -> u64 {
    read(file).unwrap_or(0)
}

fn read(file: &File) -> Option<u64> {
    // A handful of short lines.
    let mut text = [0; 1024];
    let length = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(path: &str, text: &str) -> u64 {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        counter(root.path()).as_ref().map_or(0, count)
    }

    #[test]
    fn both_versions_of_control_groups_count() {
        let two = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(counted("sys/fs/cgroup/memory.events", two), 2);
        let one = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n";
        assert_eq!(counted("sys/fs/cgroup/memory/memory.oom_control", one), 5);
    }

    #[test]
    fn without_a_counter_nobody_was_killed() {
        let root = tempfile::tempdir().unwrap();
        assert!(counter(root.path()).is_none());
    }
}
