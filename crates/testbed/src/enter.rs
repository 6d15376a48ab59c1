//! Running a program inside a cluster: in the namespaces of the control plane or of a node.

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, execvp};
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Kinds of namespaces, in the order in which they are entered: after the mount namespace, paths
/// mean something else.
const KINDS: [(&str, CloneFlags); 6] = [
    ("net", CloneFlags::CLONE_NEWNET),
    ("uts", CloneFlags::CLONE_NEWUTS),
    ("ipc", CloneFlags::CLONE_NEWIPC),
    ("cgroup", CloneFlags::CLONE_NEWCGROUP),
    ("pid", CloneFlags::CLONE_NEWPID),
    ("mnt", CloneFlags::CLONE_NEWNS),
];

/// Why a program did not run inside.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// A namespace could not be opened: its process has ended.
    #[error("cannot open {}", path.display())]
    Open {
        /// Its file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A namespace could not be entered.
    #[error("cannot {doing}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// The program could not be started.
    #[error("cannot start {}", program.display())]
    Start {
        /// Which.
        program: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// Runs a program in all namespaces of process `target` and answers its exit code (128 and the
/// signal's number if one ended it). It starts in the folder that the caller is in, if the target
/// has that too. Signals to end are passed on to it; it dies with the caller. Must be called in a
/// process with one thread.
pub fn run(
    target: u32,
    argv: &[OsString],
    environment: &[(&str, OsString)],
) -> Result<i32, EnterError> {
    let system = |doing| move |source| EnterError::System { doing, source };
    let here = std::env::current_dir().ok();
    let mut namespaces = Vec::new();
    for (kind, flag) in KINDS {
        let path = PathBuf::from(format!("/proc/{target}/ns/{kind}"));
        let file = File::open(&path).map_err(|source| EnterError::Open { path, source })?;
        namespaces.push((file, flag));
    }
    for (file, flag) in namespaces {
        setns(file, flag).map_err(system("enter a namespace of the cluster"))?;
    }
    // No thread can be started any more: it would be in another PID namespace than its process.
    let mut signals = SigSet::from(Signal::SIGCHLD);
    signals.extend([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT]);
    signals.thread_block().map_err(system("block signals"))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg("become").args(argv).envs(environment.iter().map(|(name, value)| (name, value)));
    command.current_dir(here.filter(|path| path.is_dir()).unwrap_or_else(|| "/".into()));
    let program = || PathBuf::from(argv.first().cloned().unwrap_or_default());
    let start = |source| EnterError::Start { program: program(), source };
    let mut child = command.spawn().map_err(start)?;
    let pid = Pid::from_raw(child.id().cast_signed());
    loop {
        match signals.wait().map_err(system("wait for signals"))? {
            Signal::SIGCHLD => {
                if let Some(status) = child.try_wait().map_err(start)? {
                    return Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
                }
            }
            // The terminal's own signals reach it without us; twice does no harm.
            signal => drop(kill(pid, signal)),
        }
    }
}

/// Becomes the program, tied to the life of the process that entered.
pub fn execute(argv: &[OsString]) -> Result<std::convert::Infallible, EnterError> {
    let program = || PathBuf::from(argv.first().cloned().unwrap_or_default());
    let failed = |source: Errno| EnterError::Start { program: program(), source: source.into() };
    set_pdeathsig(Signal::SIGKILL)
        .map_err(|source| EnterError::System { doing: "tie the program to its caller", source })?;
    let text = |word: &OsString| CString::new(word.as_bytes()).map_err(|_| failed(Errno::EINVAL));
    let argv: Vec<CString> = argv.iter().map(text).collect::<Result<_, _>>()?;
    let first = argv.first().ok_or_else(|| failed(Errno::EINVAL))?;
    execvp(first, &argv).map_err(failed)
}
