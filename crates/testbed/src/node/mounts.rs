//! The mounts of a node: what it has for itself, so that the machine stays as it is.

use crate::cgroups::{self, CgroupError};
use crate::layout::{Folder, Node};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders of a node that are mounted.
pub(super) const FOLDERS: [&str; 7] =
    ["shield", "log", "kubelet", "containerd", "cni-lib", "varlib-up", "varlib-work"];

/// Settings of the whole machine that kubelet and runc write when they start. A file of the node is
/// bound over each, so that they are satisfied and the machine is not changed.
const SHIELDED: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

/// Why a node has not what it needs.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// mount(2) refused.
    #[error("cannot mount {what} at {}", target.display())]
    Mount {
        /// What.
        what: String,
        /// Where.
        target: PathBuf,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// A file could not be made.
    #[error("cannot make {}", path.display())]
    Make {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// No hierarchies of control groups.
    #[error(transparent)]
    Groups(#[from] CgroupError),
}

/// Makes everything private that is to be, in the mount namespace of the calling process, which must
/// be PID 1 of its PID namespace.
pub(super) fn settle(folder: &Folder, node: Node) -> Result<(), MountError> {
    let hierarchies = cgroups::hierarchies()?;
    private_root()?;
    own_proc()?;
    // Before anything else is started: this is what keeps the machine's settings.
    for setting in SHIELDED {
        let real = Path::new("/proc/sys").join(setting);
        // A kernel without the setting needs no shield.
        let Ok(value) = fs::read(&real) else { continue };
        let shield = folder.node(node, "shield").join(setting.replace('/', "."));
        fs::write(&shield, value).map_err(make(&shield))?;
        bind(&shield, &real)?;
    }

    // The node's own network devices, and its control groups as if they were all.
    kernel("sysfs", "sysfs", Path::new("/sys"), None)?;
    tmpfs(Path::new("/sys/fs/cgroup"))?;
    for hierarchy in hierarchies {
        let target = Path::new("/sys/fs/cgroup").join(hierarchy.folder_name());
        fs::create_dir(&target).map_err(make(&target))?;
        kernel("cgroup", "cgroup", &target, Some(&hierarchy.mount_option()))?;
    }

    tmpfs(Path::new("/run"))?;
    bind(&folder.node(node, "log"), Path::new("/var/log"))?;
    // Mount points can be made in an overlay without making them on the machine. What is written
    // much is bound into it: overlays of images cannot lie on an overlay.
    let library = Path::new("/var/lib");
    overlay(library, &folder.node(node, "varlib-up"), &folder.node(node, "varlib-work"))?;
    for (name, target) in [("kubelet", "kubelet"), ("containerd", "containerd"), ("cni-lib", "cni")]
    {
        let target = library.join(target);
        fs::create_dir_all(&target).map_err(make(&target))?;
        bind(&folder.node(node, name), &target)?;
    }
    let kubelet = library.join("kubelet");
    // kubelet's mounts of volumes must reach containers that want them.
    mount(None::<&str>, &kubelet, None::<&str>, MsFlags::MS_SHARED | MsFlags::MS_REC, None::<&str>)
        .map_err(failed("shared propagation", &kubelet))?;
    for name in ["resolv.conf", "hosts"] {
        bind(&folder.node(node, name), &Path::new("/etc").join(name))?;
    }
    Ok(())
}

/// Cuts the mounts of this namespace off from those of the machine, in both directions.
pub(crate) fn private_root() -> Result<(), MountError> {
    let root = Path::new("/");
    mount(None::<&str>, root, None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(failed("private propagation", root))
}

/// The processes of this PID namespace at `/proc`.
pub(crate) fn own_proc() -> Result<(), MountError> {
    kernel("proc", "proc", Path::new("/proc"), None)
}

/// Memory.
pub(crate) fn tmpfs(target: &Path) -> Result<(), MountError> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), target, Some("tmpfs"), flags, Some("mode=755"))
        .map_err(failed("tmpfs", target))
}

/// Memory for what would be slow to write, and slower to remove. Whatever is in it may be used: set-id
/// programs and devices of images too.
pub(crate) fn memory(target: &Path) -> Result<(), MountError> {
    fs::create_dir_all(target).map_err(make(target))?;
    mount(Some("tmpfs"), target, Some("tmpfs"), MsFlags::empty(), Some("mode=700"))
        .map_err(failed("tmpfs", target))
}

/// Takes a mount away, even one in use; whatever is not mounted stays as it is.
pub(crate) fn detach(target: &Path) {
    let _ = umount2(target, MntFlags::MNT_DETACH);
}

/// A folder over itself: what is written goes to `upper`.
pub(crate) fn overlay(target: &Path, upper: &Path, work: &Path) -> Result<(), MountError> {
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        target.display(),
        upper.display(),
        work.display()
    );
    mount(Some("overlay"), target, Some("overlay"), MsFlags::empty(), Some(options.as_str()))
        .map_err(failed("an overlay", target))
}

fn kernel(kind: &str, what: &str, target: &Path, options: Option<&str>) -> Result<(), MountError> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some(what), target, Some(kind), flags, options).map_err(failed(what, target))
}

fn bind(from: &Path, target: &Path) -> Result<(), MountError> {
    mount(Some(from), target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .map_err(failed(&from.display().to_string(), target))
}

fn failed(what: &str, target: &Path) -> impl FnOnce(Errno) -> MountError {
    let (what, target) = (what.to_owned(), target.to_owned());
    move |source| MountError::Mount { what, target, source }
}

fn make(path: &Path) -> impl FnOnce(io::Error) -> MountError {
    let path = path.to_owned();
    move |source| MountError::Make { path, source }
}
