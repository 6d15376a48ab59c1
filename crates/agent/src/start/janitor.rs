//! The process that removes a test cluster's directory when the last process of the cluster has
//! gone, however it went.
//!
//! All of them hold the writing end of a pipe, which the janitor reads: the end of the file is the
//! end of the cluster.

use crate::sys;
use anyhow::Context;
use nix::sys::signal::{SigHandler, Signal};
use nix::sys::wait::waitpid;
use nix::unistd::{AccessFlags, Pid, access, mkdtemp, pipe2, setsid};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A janitor at work.
#[derive(Debug)]
pub(super) struct Janitor {
    pid: Pid,
    dir: PathBuf,
    held: OwnedFd,
}

impl Janitor {
    /// Makes a directory and starts its janitor, who removes the file `outside` of it too. Must be
    /// called before anything else is started or opened that the janitor should not have.
    pub(super) fn hire(outside: Option<&Path>) -> anyhow::Result<Self> {
        let template = place().join("quorate-test-XXXXXX");
        let dir = mkdtemp(&template)
            .with_context(|| format!("cannot make a directory {}", template.display()))?;
        let (read, held) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).context("cannot make a pipe")?;
        let (read, held) = (File::from(read), std::cell::RefCell::new(Some(held)));
        let pid = sys::fork(&|| {
            drop(held.take());
            wait_and_remove(&read, &dir, outside)
        });
        let pid = match pid {
            Ok(pid) => pid,
            Err(error) => {
                let _ = fs::remove_dir_all(&dir);
                return Err(error).context("cannot start the janitor");
            }
        };
        let held = held.take().expect("only the child has let go of it");
        Ok(Self { pid, dir, held })
    }

    /// The directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The janitor's process.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// What the processes of the cluster have to hold open.
    pub(super) fn held(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }

    /// Waits until the directory is gone. All other processes of the cluster must have ended.
    pub(super) fn dismiss(self) {
        drop(self.held);
        let _ = waitpid(self.pid, None);
    }
}

/// Where the directory is made: where the user wants it, else in memory as a pod's run directory
/// is, else with the other temporary files. Disks make it slow: ext4 looks for inodes that were
/// not freed just now, and test clusters free thousands.
fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let writable = access(memory, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
    if std::env::var_os("TMPDIR").is_none() && writable {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

fn wait_and_remove(mut read: &File, dir: &Path, outside: Option<&Path>) -> i32 {
    // Out of the terminal's reach, and holding none of the caller's pipes open.
    let _ = setsid();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        sys::set_handler(signal, SigHandler::SigIgn);
    }
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdin(&null);
        let _ = nix::unistd::dup2_stdout(&null);
        let _ = nix::unistd::dup2_stderr(&null);
    }
    let mut byte = [0];
    while read.read(&mut byte).is_ok_and(|count| count > 0) {}
    let _ = fs::remove_dir_all(dir);
    if let Some(path) = outside {
        let _ = fs::remove_file(path);
    }
    0
}
