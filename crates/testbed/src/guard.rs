//! The guard: the keeper's parent, in the machine's own namespaces. It waits for the keeper's end
//! and removes what the kernel does not: control groups and the cluster's folder.
//!
//! The keeper does the same if the guard dies first, so that no kill of one process leaves anything.

use crate::census;
use crate::cgroups;
use crate::layout::{Folder, Shape, clusters_dir};
use crate::plan::{Plan, PlanError};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{dup2_stdout, setsid};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::Duration;

/// How often the guard looks whether the owner is still there.
const OWNER_CHECK: Duration = Duration::from_millis(25);

/// Why there is no keeper.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// No plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A system call failed.
    #[error("cannot {doing}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// The keeper or its files could not be used.
    #[error("cannot {doing}")]
    Keeper {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// Starts the keeper and outlives it. Must be called in a process with one thread; its standard
/// output becomes the keeper's.
pub fn run(folder: &Folder) -> Result<(), GuardError> {
    let system = |doing| move |source| GuardError::System { doing, source };
    let keeper_error = |doing| move |source| GuardError::Keeper { doing, source };
    let plan = Plan::read(folder)?;
    // Neither the terminal's signals nor its end are for the cluster.
    setsid().map_err(system("start a session"))?;
    fs::write(folder.path("guard.pid"), process::id().to_string())
        .map_err(keeper_error("write guard.pid"))?;
    unshare(CloneFlags::CLONE_NEWPID).map_err(system("make a PID namespace"))?;
    let mut keeper = Command::new("/proc/self/exe")
        .args(["keeper", folder.name()])
        .current_dir("/")
        .stdin(Stdio::piped())
        .spawn()
        .map_err(keeper_error("start the keeper"))?;
    // Held until this process ends, which is how the keeper learns of it.
    let _held = keeper.stdin.take();
    fs::write(folder.path("keeper.pid"), keeper.id().to_string())
        .map_err(keeper_error("write keeper.pid"))?;
    // Only the keeper holds the pipe to whoever waits for the cluster.
    let null =
        File::options().write(true).open("/dev/null").map_err(keeper_error("open /dev/null"))?;
    dup2_stdout(null).map_err(system("let go of standard output"))?;

    if let Some(owner) = plan.shape.owner {
        // A thread for this is not possible: it would be in another PID namespace than its process.
        while census::alive(owner) {
            if keeper.try_wait().map_err(keeper_error("wait for the keeper"))?.is_some() {
                break;
            }
            thread::sleep(OWNER_CHECK);
        }
        // One that has ended already needs no signal.
        let _ = keeper.kill();
    }
    // Returns when every process of the cluster has ended: the kernel waits for them.
    keeper.wait().map_err(keeper_error("wait for the keeper"))?;
    clean(folder, &plan.shape);
    Ok(())
}

/// Removes what is left of a cluster whose processes have ended. What cannot be removed is found by
/// whoever looks for it ([`crate::census`]).
pub fn clean(folder: &Folder, shape: &Shape) {
    cgroups::remove(&folder.control_group_prefix());
    if let Some(logs) = &shape.logs {
        let _ = copy_logs(&folder.path("log"), logs);
    }
    let _ = fs::remove_dir_all(folder.root());
    // Stays if there are other clusters.
    let _ = fs::remove_dir(clusters_dir());
}

fn copy_logs(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
