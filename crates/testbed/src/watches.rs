//! Whether the machine has room for the file watchers (inotify(7)) of one more cluster.
//!
//! Owns: the count, and the refusal. The kernel bounds them by user (`fs.inotify.max_user_instances`, 128
//! on most machines), for all clusters together, and a cluster does not change settings of the machine. A
//! kubelet that gets none ends.

use std::fs;
use std::path::Path;

/// What a control plane has open, counted on running clusters: API server, controllers.
const CONTROL_PLANE: usize = 13;
/// What a node has open: six in its kubelet, one in the container runtime, one in its proxy.
const NODE: usize = 8;

/// There is no room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a cluster of {nodes} nodes needs {needed} inotify instances, and {free} of {limit} are free; end \
     other clusters, or raise the limit: sysctl -w fs.inotify.max_user_instances=1024"
)]
pub struct NoRoom {
    nodes: usize,
    needed: usize,
    free: usize,
    limit: usize,
}

/// Refuses a machine on which a cluster of that many nodes would fail for want of them.
pub fn check(nodes: usize) -> Result<(), NoRoom> {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").ok();
    match limit.and_then(|text| text.trim().parse().ok()) {
        Some(limit) => check_with(nodes, limit, in_use(Path::new("/proc"))),
        // A kernel that does not say has no such limit.
        None => Ok(()),
    }
}

fn check_with(nodes: usize, limit: usize, used: usize) -> Result<(), NoRoom> {
    let needed = CONTROL_PLANE + NODE * nodes;
    let free = limit.saturating_sub(used);
    if needed > free { Err(NoRoom { nodes, needed, free, limit }) } else { Ok(()) }
}

/// Instances that the machine's processes have open, as far as the caller may look.
fn in_use(proc: &Path) -> usize {
    let processes = fs::read_dir(proc).into_iter().flatten().flatten();
    let files = processes.filter_map(|one| fs::read_dir(one.path().join("fd")).ok());
    let is = |path: &Path| fs::read_link(path).is_ok_and(|to| to.ends_with("anon_inode:inotify"));
    files.flatten().flatten().filter(|file| is(&file.path())).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_open_is_counted_over_all_processes() {
        let folder = tempfile::tempdir().unwrap();
        for (process, file, to) in [
            ("1", "3", "anon_inode:inotify"),
            ("1", "4", "anon_inode:[eventpoll]"),
            ("22", "5", "anon_inode:inotify"),
            ("22", "6", "/var/log/messages"),
        ] {
            let files = folder.path().join(process).join("fd");
            fs::create_dir_all(&files).unwrap();
            symlink(to, files.join(file)).unwrap();
        }
        assert_eq!(in_use(folder.path()), 2);
    }

    #[test]
    fn a_machine_without_room_is_refused_with_figures_and_a_way_out() {
        assert_eq!(check_with(3, 128, 91), Ok(()));
        let error = check_with(3, 128, 92).unwrap_err().to_string();
        let expected = "a cluster of 3 nodes needs 37 inotify instances, and 36 of 128 are free; end \
                        other clusters, or raise the limit: sysctl -w \
                        fs.inotify.max_user_instances=1024";
        assert_eq!(error, expected);
    }
}
