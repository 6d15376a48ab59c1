//! Control groups of nodes: one in every hierarchy of cgroup version 1, below the group that this
//! process is in (cgroups(7)).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Where the hierarchies are mounted.
const MOUNTS: &str = "/sys/fs/cgroup";
/// How long a group whose processes have ended may still be in use.
const REMOVAL: Duration = Duration::from_secs(5);

/// Why control groups could not be used.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The machine has no hierarchies of version 1.
    #[error("this machine has no control groups of version 1, which the nodes need")]
    NoHierarchies,
    /// A file of a group could not be used.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// A hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its controllers, joined by commas, or `name=NAME`.
    pub controllers: String,
    /// The group of this process in it.
    pub own: PathBuf,
}

impl Hierarchy {
    /// The option of mount(2) that mounts it.
    pub fn mount_option(&self) -> String {
        match self.controllers.strip_prefix("name=") {
            Some(_) => format!("none,{}", self.controllers),
            None => self.controllers.clone(),
        }
    }

    /// The folder below `/sys/fs/cgroup`.
    pub fn folder_name(&self) -> &str {
        self.controllers.strip_prefix("name=").unwrap_or(&self.controllers)
    }
}

/// All hierarchies of version 1.
pub fn hierarchies() -> Result<Vec<Hierarchy>, CgroupError> {
    let path = Path::new("/proc/self/cgroup");
    let text = fs::read_to_string(path).map_err(file("read", path))?;
    let found = parse(&text);
    if found.is_empty() { Err(CgroupError::NoHierarchies) } else { Ok(found) }
}

/// Lines `id:controllers:path`; version 2 has no controllers there.
fn parse(text: &str) -> Vec<Hierarchy> {
    let hierarchy = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        if controllers.is_empty() {
            return None;
        }
        let mut hierarchy = Hierarchy { controllers: controllers.into(), own: PathBuf::new() };
        let mount = Path::new(MOUNTS).join(hierarchy.folder_name());
        hierarchy.own = mount.join(path.trim_start_matches('/'));
        Some(hierarchy)
    };
    text.lines().filter_map(hierarchy).collect()
}

/// Makes the group `name` in every hierarchy and moves the calling process into all of them. A group
/// that is there already is entered.
pub fn enter(name: &str) -> Result<(), CgroupError> {
    for hierarchy in hierarchies()? {
        let group = hierarchy.own.join(name);
        match fs::create_dir(&group) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(file("create", &group)(error));
            }
            _ => {}
        }
        if hierarchy.controllers.split(',').any(|controller| controller == "cpuset") {
            // A new cpuset is empty, and takes no process.
            for name in ["cpuset.cpus", "cpuset.mems"] {
                let (from, to) = (hierarchy.own.join(name), group.join(name));
                let value = fs::read(&from).map_err(file("read", &from))?;
                fs::write(&to, value).map_err(file("write", &to))?;
            }
        }
        let processes = group.join("cgroup.procs");
        // Zero is the writer, whatever its number is in the namespace that reads it.
        fs::write(&processes, "0").map_err(file("enter", &processes))?;
    }
    Ok(())
}

/// The groups whose names begin with `prefix`, in all hierarchies.
pub fn groups(prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for hierarchy in hierarchies().unwrap_or_default() {
        for entry in fs::read_dir(&hierarchy.own).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                found.push(entry.path());
            }
        }
    }
    found
}

/// Removes the groups whose names begin with `prefix` and all below, whose processes have ended or
/// are about to. Answers what could not be removed.
pub fn remove(prefix: &str) -> Vec<PathBuf> {
    let deadline = Instant::now() + REMOVAL;
    loop {
        for group in groups(prefix) {
            remove_tree(&group);
        }
        let left = groups(prefix);
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Deepest first. A group that is still in use stays; the caller looks what is left.
fn remove_tree(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}

/// Whether no process is in the group `name` or below it, in any hierarchy.
pub fn is_empty(name: &str) -> bool {
    fn empty(group: &Path) -> bool {
        let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        let below = fs::read_dir(group).into_iter().flatten().flatten();
        processes.is_empty()
            && below
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .all(|entry| empty(&entry.path()))
    }
    hierarchies().unwrap_or_default().iter().all(|hierarchy| empty(&hierarchy.own.join(name)))
}

fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CgroupError {
    let path = path.to_owned();
    move |source| CgroupError::File { doing, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_are_found_where_this_process_is() {
        let found = parse("9:name=systemd:/\n4:memory:/job/1:2\n2:cpu,cpuacct:/\n0::/\n");
        let expected = [
            ("name=systemd", "/sys/fs/cgroup/systemd/", "none,name=systemd"),
            ("memory", "/sys/fs/cgroup/memory/job/1:2", "memory"),
            ("cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/", "cpu,cpuacct"),
        ];
        assert_eq!(found.len(), expected.len());
        for (hierarchy, (controllers, own, option)) in found.iter().zip(expected) {
            assert_eq!(hierarchy.controllers, controllers);
            assert_eq!(hierarchy.own, Path::new(own));
            assert_eq!(hierarchy.mount_option(), option);
        }
    }
}
