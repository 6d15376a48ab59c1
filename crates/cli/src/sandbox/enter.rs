//! Joining a pod from outside: for `shell`, `exec` and what the front runs in a pod.

use super::{SandboxError, root::Identity};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use std::os::fd::OwnedFd;

/// Moves the calling process into a pod: into the cluster's user namespace through the keeper
/// (which gives the rights to do the rest), into the pod's namespaces, and into the user namespace
/// that maps back. The PID namespace applies to children only. The process must be single-threaded.
pub fn enter_pod(identity: Identity, keeper: &OwnedFd, pod: &OwnedFd) -> Result<(), SandboxError> {
    if identity.user_namespace {
        setns(keeper, CloneFlags::CLONE_NEWUSER)
            .map_err(failed("enter the user namespace of the cluster"))?;
    }
    join(identity, pod, true)
}

/// The same for a process that already has the rights of the cluster's user namespace.
pub(super) fn join(
    identity: Identity,
    pod: &OwnedFd,
    with_processes: bool,
) -> Result<(), SandboxError> {
    let mut namespaces = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    if with_processes {
        namespaces |= CloneFlags::CLONE_NEWPID;
    }
    setns(pod, namespaces).map_err(failed("enter the namespaces of the pod"))?;
    if identity.user_namespace {
        setns(pod, CloneFlags::CLONE_NEWUSER)
            .map_err(failed("enter the user namespace of the pod"))?;
    }
    Ok(())
}

fn failed(doing: &'static str) -> impl Fn(Errno) -> SandboxError {
    move |source| SandboxError::Configure { doing, source }
}
