//! A pod's start: a process with namespaces of its own that builds its root, takes its address and
//! executes the pod's command as PID 1.

use super::network::{self, PodAddress};
use super::root::{Identity, map_user};
use super::sys::{self, Cloned};
use super::{PodMount, SandboxError, enter, filesystem};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sched::CloneFlags;
use nix::unistd::Pid;
use std::ffi::CString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What a pod says when its link is configured: a byte that no error begins with.
const LINKED: [u8; 1] = [b'\n'];

/// The pod's root and network.
#[derive(Clone, Debug)]
pub struct PodRoot {
    /// The host name.
    pub host_name: String,
    /// The address; the caller attaches it ([`super::ClusterNetwork::attach`]).
    pub address: PodAddress,
    /// All mounts, in order.
    pub mounts: Vec<PodMount>,
    /// Single files (source on this machine, target in the pod) bound over existing ones.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// The file of this machine that becomes the termination log.
    pub termination_log: PathBuf,
}

/// Where a process runs.
#[derive(Debug)]
pub enum Place {
    /// In a pod of its own.
    Own(PodRoot),
    /// In the pod of another process, given by a descriptor, beside its command. It keeps the
    /// keeper's PID namespace and ends with the keeper.
    Beside(OwnedFd),
    /// In the keeper's namespaces: no sandbox.
    Plain,
}

/// A process to start.
#[derive(Debug)]
pub struct PodSandbox {
    /// Where.
    pub place: Place,
    /// The program (looked up in `PATH` unless it has a slash) and its arguments.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// Where it starts.
    pub working_dir: PathBuf,
}

/// A started pod.
#[derive(Debug)]
pub struct PodProcess {
    /// Its PID 1 in the caller's PID namespace.
    pub pid: Pid,
    /// A descriptor of it.
    pub pidfd: OwnedFd,
    go: OwnedFd,
    /// Ends when the command runs; carries one line of text if it cannot.
    pub outcome: File,
    /// The first byte of a failure that came instead of [`LINKED`].
    early: Vec<u8>,
}

impl PodProcess {
    /// Lets the pod go one step further: to configure its link, once that is there, and then to
    /// its command, once all links are up.
    pub fn release(&mut self) {
        // A pod that has died already is noticed by its exit.
        let _ = nix::unistd::write(&self.go, b"g");
    }

    /// Waits until the pod has configured its link. A pod that could not do so says why later, by
    /// [`Self::failure`].
    pub fn wait_for_link(&mut self) {
        let mut linked = [0];
        let _ = self.outcome.read_exact(&mut linked);
        if linked != LINKED {
            self.early = linked.iter().copied().filter(|byte| *byte != 0).collect();
        }
    }

    /// What kept the command from starting; `None` when it runs. Call when `outcome` is readable.
    pub fn failure(&mut self) -> Option<String> {
        let mut text = std::mem::take(&mut self.early);
        let _ = self.outcome.read_to_end(&mut text);
        (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned())
    }
}

/// Starts a process. In a place of its own it waits for [`PodProcess::release`] twice, before it
/// configures its link and before it executes its command; elsewhere it goes on at once. The caller must be single-threaded.
pub fn spawn_pod(
    identity: Identity,
    pod: &PodSandbox,
    stdio: [&OwnedFd; 3],
) -> Result<PodProcess, SandboxError> {
    let flags = match pod.place {
        Place::Own(_) => {
            CloneFlags::CLONE_NEWNS
                | CloneFlags::CLONE_NEWNET
                | CloneFlags::CLONE_NEWPID
                | CloneFlags::CLONE_NEWIPC
                | CloneFlags::CLONE_NEWUTS
        }
        Place::Beside(_) | Place::Plain => CloneFlags::empty(),
    };
    let pipe = || {
        nix::unistd::pipe2(OFlag::O_CLOEXEC)
            .map_err(|source| SandboxError::Configure { doing: "make a pipe", source })
    };
    let (wait, go) = pipe()?;
    let (outcome, tell) = pipe()?;
    match sys::clone_process(flags).map_err(SandboxError::Clone)? {
        Cloned::Parent(pid, pidfd) => {
            drop((wait, tell));
            Ok(PodProcess { pid, pidfd, go, outcome: File::from(outcome), early: Vec::new() })
        }
        Cloned::Child => {
            drop(go);
            let Err(error) = run(identity, pod, stdio, &wait, &tell);
            let mut text = error.to_string();
            let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
            while let Some(error) = cause {
                text.push_str(": ");
                text.push_str(&error.to_string());
                cause = error.source();
            }
            let _ = nix::unistd::write(&tell, text.as_bytes());
            let code = match error {
                SandboxError::Exec { source: Errno::ENOENT, .. } => {
                    quorate_contract::exit::NOT_FOUND
                }
                SandboxError::Exec { .. } => quorate_contract::exit::NOT_EXECUTABLE,
                _ => quorate_contract::exit::INTERNAL,
            };
            sys::exit_now(code)
        }
    }
}

/// In the new process, up to its command.
fn run(
    identity: Identity,
    pod: &PodSandbox,
    stdio: [&OwnedFd; 3],
    wait: &OwnedFd,
    tell: &OwnedFd,
) -> Result<std::convert::Infallible, SandboxError> {
    let configure = |doing| move |source| SandboxError::Configure { doing, source };
    let [input, output, error] = stdio.map(AsFd::as_fd);
    nix::unistd::dup2_stdin(input).map_err(configure("connect standard input"))?;
    nix::unistd::dup2_stdout(output).map_err(configure("connect standard output"))?;
    nix::unistd::dup2_stderr(error).map_err(configure("connect standard error"))?;
    nix::unistd::setsid().map_err(configure("start a session"))?;
    match &pod.place {
        Place::Own(root) => {
            filesystem::build_root(&root.mounts, &root.files, &root.termination_log)?;
            nix::unistd::sethostname(&root.host_name).map_err(configure("set the host name"))?;
        }
        Place::Beside(pid) => enter::join(identity, pid, false)?,
        // Without a PID namespace nothing else ends this process when the keeper is killed.
        Place::Plain => nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
            .map_err(configure("tie the pod to its keeper"))?,
    }
    if let Place::Own(root) = &pod.place {
        await_release(wait);
        network::configure_pod(root.address)?;
        let _ = nix::unistd::write(tell, &LINKED);
        await_release(wait);
        if identity.user_namespace {
            nix::sched::unshare(CloneFlags::CLONE_NEWUSER)
                .map_err(configure("map the user back"))?;
            map_user(identity.uid, 0, identity.gid, 0)?;
        }
    }
    execute(pod)
}

fn await_release(wait: &OwnedFd) {
    let mut byte = [0];
    if nix::unistd::read(wait, &mut byte) != Ok(1) {
        // The keeper gave this pod up.
        sys::exit_now(quorate_contract::exit::TERMINATED);
    }
}

/// Replaces this process by the command.
fn execute(pod: &PodSandbox) -> Result<std::convert::Infallible, SandboxError> {
    nix::unistd::chdir(&pod.working_dir)
        .map_err(|source| SandboxError::WorkingDir { path: pod.working_dir.clone(), source })?;
    let program = pod.argv.first().cloned().unwrap_or_default();
    let failed = |source| SandboxError::Exec { program: program.clone(), source };
    let text = |text: &str| CString::new(text).map_err(|_| failed(Errno::EINVAL));
    let argv: Vec<CString> = pod.argv.iter().map(|a| text(a)).collect::<Result<_, _>>()?;
    let env: Vec<CString> =
        pod.env.iter().map(|(k, v)| text(&format!("{k}={v}"))).collect::<Result<_, _>>()?;
    sys::default_signals();
    sys::close_on_exec_all();
    let mut result = Errno::ENOENT;
    for path in candidates(&program, &pod.env) {
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { continue };
        let Err(errno) = nix::unistd::execve(&path, &argv, &env);
        if errno != Errno::ENOENT && errno != Errno::ENOTDIR {
            result = errno;
        }
    }
    Err(failed(result))
}

/// Where a program may be, as execvp(3) looks for it.
fn candidates(program: &str, env: &[(String, String)]) -> Vec<PathBuf> {
    if program.contains('/') {
        return vec![PathBuf::from(program)];
    }
    let path = env.iter().rev().find(|(k, _)| k == "PATH").map_or("/usr/bin:/bin", |(_, v)| v);
    std::env::split_paths(path).map(|dir| dir.join(program)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_up_in_the_last_path_of_the_environment() {
        let env = vec![("PATH".into(), "/a".into()), ("PATH".into(), "/b:/c".into())];
        assert_eq!(candidates("x", &env), [PathBuf::from("/b/x"), PathBuf::from("/c/x")]);
        assert_eq!(candidates("./x", &env), [PathBuf::from("./x")]);
    }
}
