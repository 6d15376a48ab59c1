//! The keeper's start: a copy of the front that is PID 1 of the cluster's namespaces.

use super::sys::{self, Cloned};
use super::{SandboxError, errno_of};
use nix::mount::{MsFlags, mount};
use nix::sched::CloneFlags;
use nix::unistd::{Pid, getegid, geteuid};
use std::os::fd::OwnedFd;
use std::path::Path;

/// As whom the cluster is made and as whom its programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The calling user.
    pub uid: u32,
    /// The calling user's group.
    pub gid: u32,
    /// The caller lacks the rights to make namespaces directly, so a user namespace gives them.
    pub user_namespace: bool,
}

impl Identity {
    /// The calling process's. Root without `CAP_SYS_ADMIN` (a container's root) is an ordinary
    /// user here.
    pub fn of_caller() -> Self {
        Self { uid: geteuid().as_raw(), gid: getegid().as_raw(), user_namespace: !has_sys_admin() }
    }
}

/// Whether the effective capabilities hold `CAP_SYS_ADMIN` (bit 21 of capabilities(7)).
fn has_sys_admin() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & (1 << 21) != 0)
}

/// The keeper as the front sees it.
#[derive(Debug)]
pub struct Keeper {
    /// Its id in the caller's PID namespace.
    pub pid: Pid,
    /// A descriptor that becomes readable when it ends.
    pub pidfd: OwnedFd,
}

/// Starts the keeper, which runs `body` in the cluster's namespaces (or, if not wanted, in the
/// caller's) and ends with the code that it returns. Must be called before any thread is started.
pub fn start_keeper(
    identity: Identity,
    namespaces: bool,
    body: impl FnOnce() -> i32,
) -> Result<Keeper, SandboxError> {
    let mut flags = CloneFlags::empty();
    if namespaces {
        flags |= CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWUTS;
        if identity.user_namespace {
            flags |= CloneFlags::CLONE_NEWUSER;
        }
    }
    match sys::clone_process(flags).map_err(SandboxError::Clone)? {
        Cloned::Parent(pid, pidfd) => Ok(Keeper { pid, pidfd }),
        Cloned::Child => sys::exit_now(body()),
    }
}

/// Mounts memory for the keeper's files, which only the keeper and its pods see.
pub fn mount_volatile(dir: &Path) -> Result<(), SandboxError> {
    super::filesystem::tmpfs(dir, "mode=700")
}

/// First steps of the keeper in its namespaces: becomes their root user and cuts mounts off from
/// the outside, in both directions.
pub fn settle(identity: Identity) -> Result<(), SandboxError> {
    if identity.user_namespace {
        map_user(0, identity.uid, 0, identity.gid)?;
    }
    nix::unistd::setsid()
        .map_err(|source| SandboxError::Configure { doing: "start a session", source })?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(|source| SandboxError::Configure { doing: "make mounts private", source })?;
    // The numbers of the keeper's own PID namespace, by which it knows its pods.
    super::filesystem::own_proc()
}

/// Maps one user and group of the parent namespace into the user namespace that this process has
/// just entered (user_namespaces(7); one's own id is all that an ordinary user may map).
pub(super) fn map_user(
    inside_uid: u32,
    outside_uid: u32,
    inside_gid: u32,
    outside_gid: u32,
) -> Result<(), SandboxError> {
    let write = |file: &'static str, text: String| {
        std::fs::write(file, text).map_err(|e| SandboxError::MapUser { file, source: errno_of(&e) })
    };
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("{inside_uid} {outside_uid} 1"))?;
    write("/proc/self/gid_map", format!("{inside_gid} {outside_gid} 1"))
}
