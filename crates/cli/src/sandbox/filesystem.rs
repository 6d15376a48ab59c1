//! The root of a pod: a tmpfs with this machine's top-level directories bound into it, so that
//! volumes can be mounted anywhere, with own `/proc`, `/sys`, `/dev` and `/etc/hosts`.
//!
//! Nothing here writes to this machine's file system. Where a mount point is missing below a bound
//! directory, that directory is first rebuilt in the same way: a tmpfs with its entries bound.

use super::{SandboxError, errno_of, sys};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use std::collections::HashSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// Where the old root is while the new one is built.
const OLD_ROOT: &str = "/oldroot";
/// Where programs share memory; a volume of the pod may take its place.
const SHARED_MEMORY: &str = "/dev/shm";
/// Device files that are bound; the others are links, since a machine may have hundreds.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Entries of `/dev` that a pod has for itself, or that are mounts of their own.
const OWN_DEVICES: [&str; 3] = ["shm", "pts", "termination-log"];
/// Links that every `/dev` has.
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// A file of a volume that is written when the pod starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Its path in the volume.
    pub path: PathBuf,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Its permission bits.
    pub mode: u32,
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Files in memory: a ConfigMap, a Secret, downward-API files.
    Files(Vec<FileEntry>),
    /// Empty memory, at most so many bytes.
    Memory(Option<u64>),
    /// A file or directory of this machine.
    Host(PathBuf),
}

/// A mount of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodMount {
    /// Where, absolute.
    pub path: PathBuf,
    /// What.
    pub source: Source,
    /// Refuses writes.
    pub read_only: bool,
}

/// Builds the root in the mount namespace of the calling process and changes to it.
///
/// `files` are single files of this machine to bind over existing ones of the pod (`/etc/hosts`);
/// a target that this machine lacks is left out. `termination_log` is bound into `/dev`.
pub(super) fn build_root(
    mounts: &[PodMount],
    files: &[(PathBuf, PathBuf)],
    termination_log: &Path,
) -> Result<(), SandboxError> {
    let mut sources = Vec::new();
    for source in mounts.iter().map(|m| &m.source) {
        sources.push(match source {
            Source::Host(path) => Some(open_path(path)?),
            Source::Files(_) | Source::Memory(_) => None,
        });
    }
    let files: Vec<(OwnedFd, &PathBuf)> = files
        .iter()
        .map(|(source, target)| Ok((open_path(source)?, target)))
        .collect::<Result<_, SandboxError>>()?;
    let termination_log = open_path(termination_log)?;

    let mut root = Root { ours: HashSet::new() };
    root.enter()?;
    Root::proc_and_sys()?;
    let own_memory = mounts.iter().all(|m| m.path != Path::new(SHARED_MEMORY));
    root.devices(own_memory, &termination_log)?;
    for (source, target) in files {
        if target.exists() {
            bind(&sys::descriptor_path("/proc", &source), target, false)?;
        }
    }
    for (mount, source) in mounts.iter().zip(sources) {
        root.mount(mount, source)?;
    }
    umount2(OLD_ROOT, MntFlags::MNT_DETACH).map_err(SandboxError::PivotRoot)?;
    let _ = fs::remove_dir(OLD_ROOT);
    Ok(())
}

struct Root {
    /// Directories that are on a tmpfs of ours: mount points can be made in them.
    ours: HashSet<PathBuf>,
}

impl Root {
    /// A tmpfs over `/tmp` becomes the root; then the old root's entries are bound into it.
    fn enter(&mut self) -> Result<(), SandboxError> {
        tmpfs(Path::new("/tmp"), "mode=755")?;
        fs::create_dir("/tmp/oldroot").map_err(|e| SandboxError::PivotRoot(errno_of(&e)))?;
        nix::unistd::pivot_root("/tmp", "/tmp/oldroot").map_err(SandboxError::PivotRoot)?;
        nix::unistd::chdir("/").map_err(SandboxError::PivotRoot)?;
        self.ours.insert(PathBuf::from("/"));
        Self::bind_entries(Path::new(OLD_ROOT), Path::new("/"), &["proc", "sys", "dev", "quorate"])
    }

    /// Makes every entry of a directory appear in another: directories and files are bound,
    /// symbolic links copied.
    fn bind_entries(from: &Path, to: &Path, except: &[&str]) -> Result<(), SandboxError> {
        let entries = fs::read_dir(from).map_err(|e| open_error(from, &e))?;
        for entry in entries {
            let entry = entry.map_err(|e| open_error(from, &e))?;
            let name = entry.file_name();
            if except.iter().any(|e| *e == name) {
                continue;
            }
            let target = to.join(&name);
            let kind = entry.file_type().map_err(|e| open_error(&entry.path(), &e))?;
            if kind.is_symlink() {
                let link = fs::read_link(entry.path()).map_err(|e| open_error(from, &e))?;
                symlink(link, &target).map_err(|e| make_error(&target, &e))?;
                continue;
            }
            if kind.is_dir() {
                make_directory(&target)?;
            } else {
                make_file(&target)?;
            }
            match bind(&entry.path().to_string_lossy(), &target, true) {
                // What cannot be bound (another user's FUSE, a server that is down, a mount that
                // forbids it) stays an empty entry: it must not keep programs from running that
                // have no use for it.
                Ok(()) | Err(SandboxError::Mount { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    fn proc_and_sys() -> Result<(), SandboxError> {
        for name in ["/proc", "/sys", "/dev"] {
            make_directory(Path::new(name))?;
        }
        own_proc()?;
        // The pod's own /sys shows its own links; where that is not allowed, this machine's is
        // better than none.
        if kernel_file_system("sysfs", Path::new("/sys")).is_ok() {
            let groups = Path::new("/sys/fs/cgroup");
            if groups.exists() {
                let _ = bind(&format!("{OLD_ROOT}/sys/fs/cgroup"), groups, true);
            }
            Ok(())
        } else {
            bind(&format!("{OLD_ROOT}/sys"), Path::new("/sys"), true)
        }
    }

    fn devices(&mut self, own_memory: bool, log: &OwnedFd) -> Result<(), SandboxError> {
        tmpfs(Path::new("/dev"), "mode=755")?;
        self.ours.insert(PathBuf::from("/dev"));
        let host = Path::new("/dev/.host");
        make_directory(host)?;
        bind(&format!("{OLD_ROOT}/dev"), host, true)?;
        for (name, target) in DEVICE_LINKS {
            let link = Path::new("/dev").join(name);
            symlink(target, &link).map_err(|e| make_error(&link, &e))?;
        }
        for entry in fs::read_dir(host).map_err(|e| open_error(host, &e))? {
            let entry = entry.map_err(|e| open_error(host, &e))?;
            let name = entry.file_name();
            let target = Path::new("/dev").join(&name);
            if DEVICES.iter().any(|d| *d == name) {
                make_file(&target)?;
                bind(&entry.path().to_string_lossy(), &target, false)?;
            } else if !OWN_DEVICES.iter().any(|d| *d == name)
                && !is_console(&name.to_string_lossy())
                && !target.is_symlink()
            {
                let link = Path::new(".host").join(&name);
                symlink(link, &target).map_err(|e| make_error(&target, &e))?;
            }
        }
        let terminals = Path::new("/dev/pts");
        make_directory(terminals)?;
        bind(&format!("{OLD_ROOT}/dev/pts"), terminals, true)?;
        let memory = Path::new(SHARED_MEMORY);
        make_directory(memory)?;
        if own_memory {
            tmpfs(memory, &memory_options(None, 0o1777))?;
        }
        let target = Path::new("/dev/termination-log");
        make_file(target)?;
        bind(&sys::descriptor_path("/proc", log), target, false)
    }

    fn mount(&mut self, m: &PodMount, source: Option<OwnedFd>) -> Result<(), SandboxError> {
        let is_file = match &m.source {
            Source::Host(path) => !path.is_dir(),
            Source::Files(_) | Source::Memory(_) => false,
        };
        self.mount_point(&m.path, is_file)?;
        match &m.source {
            Source::Memory(size) => tmpfs(&m.path, &memory_options(*size, 0o1777))?,
            Source::Files(files) => {
                tmpfs(&m.path, "mode=755")?;
                for file in files {
                    write_file(&m.path, file)?;
                }
            }
            Source::Host(_) => {
                let source = source.expect("build_root opened every host source");
                bind(&sys::descriptor_path("/proc", &source), &m.path, true)?;
            }
        }
        if m.read_only {
            let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
            let flags = flags | locked_flags(&m.path);
            mount(None::<&str>, &m.path, None::<&str>, flags, None::<&str>)
                .map_err(|source| mount_error("read-only", &m.path, source))?;
        }
        Ok(())
    }

    /// Makes sure that something can be mounted at a path.
    fn mount_point(&mut self, path: &Path, is_file: bool) -> Result<(), SandboxError> {
        let mut here = PathBuf::from("/");
        let parts: Vec<_> =
            path.components().filter(|c| matches!(c, Component::Normal(_))).collect();
        for (n, part) in parts.iter().enumerate() {
            let next = here.join(part);
            if !next.exists() {
                if !self.ours.contains(&here) {
                    self.rebuild(&here)?;
                }
                if is_file && n + 1 == parts.len() {
                    make_file(&next)?;
                } else {
                    make_directory(&next)?;
                    self.ours.insert(next.clone());
                }
            }
            here = next;
        }
        // What is mounted here now is the volume, no longer a directory of ours.
        self.ours.remove(&here);
        Ok(())
    }

    /// Puts a tmpfs over a bound directory and binds its entries into it.
    fn rebuild(&mut self, dir: &Path) -> Result<(), SandboxError> {
        let original = open_path(dir)?;
        tmpfs(dir, "mode=755")?;
        self.ours.insert(dir.to_owned());
        Self::bind_entries(Path::new(&sys::descriptor_path("/proc", &original)), dir, &[])
    }
}

/// Virtual consoles and the like: dozens of entries that no program of a pod uses.
fn is_console(name: &str) -> bool {
    ["tty", "vcsa", "vcsu", "vcs", "loop", "ram"].iter().any(|kind| {
        name.strip_prefix(kind).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    })
}

fn memory_options(size: Option<u64>, mode: u32) -> String {
    match size {
        Some(size) => format!("mode={mode:o},size={size}"),
        None => format!("mode={mode:o}"),
    }
}

/// Flags that a bind mount keeps from its source: a user namespace may not drop them.
fn locked_flags(path: &Path) -> MsFlags {
    use nix::sys::statvfs::{FsFlags, statvfs};
    let mut flags = MsFlags::empty();
    if let Ok(stat) = statvfs(path) {
        for (have, keep) in [
            (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
            (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
            (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
            (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
            (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
            (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
        ] {
            if stat.flags().contains(have) {
                flags |= keep;
            }
        }
    }
    flags
}

fn write_file(volume: &Path, file: &FileEntry) -> Result<(), SandboxError> {
    let path = volume.join(&file.path);
    if let Some(parent) = path.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(parent)
            .map_err(|e| make_error(parent, &e))?;
    }
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(file.mode)
        .open(&path)
        .and_then(|mut f| std::io::Write::write_all(&mut f, &file.bytes))
        .map_err(|e| make_error(&path, &e))
}

pub(super) fn tmpfs(target: &Path, options: &str) -> Result<(), SandboxError> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), target, Some("tmpfs"), flags, Some(options))
        .map_err(|source| mount_error("tmpfs", target, source))
}

/// Mounts the processes of the calling process's PID namespace at `/proc`.
pub(super) fn own_proc() -> Result<(), SandboxError> {
    kernel_file_system("proc", Path::new("/proc"))
}

fn kernel_file_system(kind: &str, target: &Path) -> Result<(), SandboxError> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some(kind), target, Some(kind), flags, None::<&str>)
        .map_err(|source| mount_error(kind, target, source))
}

fn bind(source: &str, target: &Path, recursive: bool) -> Result<(), SandboxError> {
    let deep = if recursive { MsFlags::MS_REC } else { MsFlags::empty() };
    mount(Some(source), target, None::<&str>, MsFlags::MS_BIND | deep, None::<&str>).map_err(
        |errno| mount_error(source.strip_prefix(OLD_ROOT).unwrap_or(source), target, errno),
    )
}

fn open_path(path: &Path) -> Result<OwnedFd, SandboxError> {
    nix::fcntl::open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(|source| SandboxError::Open { path: path.to_owned(), source })
}

fn make_directory(path: &Path) -> Result<(), SandboxError> {
    match fs::create_dir(path) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(make_error(path, &e)),
        _ => Ok(()),
    }
}

fn make_file(path: &Path) -> Result<(), SandboxError> {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map(drop)
        .map_err(|e| make_error(path, &e))
}

fn mount_error(what: &str, target: &Path, source: Errno) -> SandboxError {
    SandboxError::Mount { what: what.to_owned(), target: target.to_owned(), source }
}

fn make_error(path: &Path, error: &std::io::Error) -> SandboxError {
    SandboxError::Make { path: path.to_owned(), source: errno_of(error) }
}

fn open_error(path: &Path, error: &std::io::Error) -> SandboxError {
    SandboxError::Open { path: path.to_owned(), source: errno_of(error) }
}
