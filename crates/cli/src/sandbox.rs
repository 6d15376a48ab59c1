//! Namespaces of a local cluster: what makes a pod a pod on one machine.
//!
//! ```text
//! quorate (front)                       the caller's namespaces
//!   └ keeper         PID 1 of the cluster: own user (if not root), net, mount, pid, ipc, uts
//!       │            owns the bridge and one tmpfs for files of the cluster
//!       └ pod        PID 1 of the pod: own net, mount, pid, ipc, uts; private root; veth to the bridge;
//!                    (not root) one more user namespace that maps back to the caller's uid
//! ```
//!
//! All of it hangs on the keeper: the kernel ends everything below a PID namespace when its PID 1
//! ends, and namespaces, mounts and links go with their last process. Nothing is ever mounted or
//! configured outside, so there is nothing to clean up outside.
//!
//! This is the one module of the crate that may use `unsafe` (in `sys`). It must not know what runs
//! in a pod, nor why: that is the keeper's part.

mod enter;
mod filesystem;
mod network;
mod pod;
mod probe;
mod root;
mod sys;

pub use enter::enter_pod;
pub use filesystem::{FileEntry, PodMount, Source};
pub use network::{ClusterNetwork, NetworkError, PodAddress};
pub use pod::{Place, PodProcess, PodRoot, PodSandbox, spawn_pod};
pub use probe::{Bar, Support, explain, probe};
pub use root::{Identity, Keeper, mount_volatile, settle, start_keeper};
pub use sys::{accept, close_other_descriptors, isolate_signals, own_descriptor, receive};

use nix::errno::Errno;
use std::path::PathBuf;

/// Why a sandbox or a part of it could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A process with own namespaces could not be started.
    #[error("cannot start a process in namespaces of its own")]
    Clone(#[source] Errno),
    /// The user namespace could not be given its one user.
    #[error("cannot write {file}, which maps the user of the namespace")]
    MapUser {
        /// The file of the map.
        file: &'static str,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// A mount failed.
    #[error("cannot mount {what} at {}", target.display())]
    Mount {
        /// What should be mounted.
        what: String,
        /// Where, as the pod sees it.
        target: PathBuf,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// A file or directory of the pod's root could not be made.
    #[error("cannot make {} in the pod", path.display())]
    Make {
        /// The path in the pod.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// A file or directory of this machine that the pod needs cannot be opened.
    #[error("cannot open {}, which the pod mounts", path.display())]
    Open {
        /// The path on this machine.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// The pod's root could not be made the root.
    #[error("cannot change to the pod's root")]
    PivotRoot(#[source] Errno),
    /// A namespace of the pod could not be entered or configured.
    #[error("cannot {doing}")]
    Configure {
        /// What was tried.
        doing: &'static str,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// The cluster's network could not be made.
    #[error("cannot make the network of the cluster")]
    Network(#[from] NetworkError),
    /// The directory to start in is not there.
    #[error("cannot change to the working directory {}", path.display())]
    WorkingDir {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// The pod's command could not be started.
    #[error("cannot start {program}")]
    Exec {
        /// The command.
        program: String,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
}

/// Maps an I/O error to the errno that the sandbox's errors carry.
fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}
