//! Starting one task.
//!
//! Owns: finding the program as execvp(3) does, pipes, binding and the process group, and the words
//! for what goes wrong. It must not decide who starts what.
//!
//! Nothing runs between fork and exec, so that the C library may use its quick way (vfork): the CPU
//! set and the inherited descriptor are set on this thread for the moment of the start.

use super::environment::Variables;
use super::outcome::TaskEnd;
use crate::sys;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::setsid;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;

#[cfg(test)]
mod tests;

/// What to start.
#[derive(Debug)]
pub struct Start<'a> {
    /// The program and its arguments.
    pub argv: &'a [OsString],
    /// All of its environment.
    pub env: &'a Variables,
    /// Its directory.
    pub cwd: &'a Path,
    /// CPUs to bind it to.
    pub cpus: Option<&'a [u32]>,
    /// Gives it a pipe as stdin, otherwise /dev/null.
    pub stdin: bool,
    /// A descriptor that it inherits under the same number.
    pub keep: Option<BorrowedFd<'a>>,
    /// Gives it a session of its own, otherwise a process group only. Where the kernel shares CPUs
    /// out by session (sched(7), autogroup), ranks that spin in one session with the broker keep
    /// it from answering them, and together get the share of one process of somebody else.
    pub own_session: bool,
}

/// A started task.
#[derive(Debug)]
pub struct Task {
    /// Its process, which is also its process group.
    pub pid: i32,
    /// Where its input goes.
    pub stdin: Option<pipe::Sender>,
    /// Its output.
    pub stdout: pipe::Receiver,
    /// Its errors.
    pub stderr: pipe::Receiver,
    /// Its end.
    pub exit: Exit,
}

/// Waits for the end of a process.
#[derive(Debug)]
pub struct Exit {
    child: Child,
    pidfd: AsyncFd<OwnedFd>,
}

impl Exit {
    /// The end of the process. With `sweep` what is left of its process group is killed first,
    /// while the number cannot be anybody else's.
    pub async fn wait(mut self, sweep: bool) -> TaskEnd {
        // An error here would be one of epoll; waiting itself then finds the truth.
        let _ = self.pidfd.readable().await;
        if sweep {
            sys::signal_group(self.child.id().cast_signed(), libc::SIGKILL);
        }
        match self.child.wait() {
            Ok(status) => end_of(status),
            Err(error) => TaskEnd::NotStarted(format!("its end is unknown: {error}")),
        }
    }
}

/// The end that an exit status means.
pub fn end_of(status: std::process::ExitStatus) -> TaskEnd {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => TaskEnd::Exited(code),
        (None, Some(signal)) => TaskEnd::Signaled(signal),
        (None, None) => TaskEnd::NotStarted("its end is unknown".to_string()),
    }
}

/// Starts a task in a process group of its own, with `own_session` also a session.
pub fn start(start: &Start<'_>) -> Result<Task, TaskEnd> {
    let (program, mut command) = command(start)?;
    command.stdin(if start.stdin { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(&mut command, start).map_err(|error| refused(&program, &error))?;
    let pid = child.id().cast_signed();
    let mut adopt = || -> io::Result<_> {
        let stdin = match child.stdin.take() {
            Some(stdin) => Some(pipe::Sender::from_owned_fd(stdin.into())?),
            None => None,
        };
        let stdout = child.stdout.take().expect("stdout is piped because it was asked for above");
        let stderr = child.stderr.take().expect("stderr is piped because it was asked for above");
        let stdout = pipe::Receiver::from_owned_fd(stdout.into())?;
        let stderr = pipe::Receiver::from_owned_fd(stderr.into())?;
        let pidfd = sys::watch(sys::pidfd(pid)?, tokio::io::Interest::READABLE)?;
        Ok((stdin, stdout, stderr, pidfd))
    };
    match adopt() {
        Ok((stdin, stdout, stderr, pidfd)) => {
            Ok(Task { pid, stdin, stdout, stderr, exit: Exit { child, pidfd } })
        }
        Err(error) => {
            sys::signal_group(pid, libc::SIGKILL);
            let _ = child.wait();
            Err(TaskEnd::NotStarted(format!("cannot watch it: {error}")))
        }
    }
}

/// Starts a command that shares this process's stdin, stdout and stderr, in its own process group.
pub fn start_inheriting(start: &Start<'_>) -> Result<(i32, Exit), TaskEnd> {
    let (program, mut command) = command(start)?;
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let mut child = spawn(&mut command, start).map_err(|error| refused(&program, &error))?;
    let pid = child.id().cast_signed();
    let watch = || sys::watch(sys::pidfd(pid)?, tokio::io::Interest::READABLE);
    match watch() {
        Ok(pidfd) => Ok((pid, Exit { child, pidfd })),
        Err(error) => {
            sys::signal_group(pid, libc::SIGKILL);
            let _ = child.wait();
            Err(TaskEnd::NotStarted(format!("cannot watch it: {error}")))
        }
    }
}

fn command(start: &Start<'_>) -> Result<(PathBuf, Command), TaskEnd> {
    let name = start.argv.first().ok_or_else(|| TaskEnd::NotFound(String::new()))?;
    let program = find(name, start.env.get(OsStr::new("PATH")).map(AsRef::as_ref), start.cwd)?;
    let mut command = Command::new(&program);
    command.arg0(name).args(&start.argv[1..]).env_clear().envs(start.env);
    // The directory that is inherited anyhow needs no system call in the child.
    if std::env::current_dir().ok().as_deref() != Some(start.cwd) {
        command.current_dir(start.cwd);
    }
    if start.own_session {
        sys::before_exec(&mut command, || Ok(setsid().map(drop)?));
    } else {
        command.process_group(0);
    }
    Ok((program, command))
}

fn spawn(command: &mut Command, start: &Start<'_>) -> io::Result<Child> {
    let before = match start.cpus {
        Some(cpus) => {
            let before = sys::allowed_cpus()?;
            sys::bind(cpus)?;
            Some(before)
        }
        None => None,
    };
    let spawned = match start.keep {
        Some(fd) => inheriting(fd, || command.spawn()),
        None => command.spawn(),
    };
    if let Some(before) = before {
        sys::bind(&before)?;
    }
    spawned
}

/// Runs `action` while `fd` passes through exec.
fn inheriting<T>(fd: BorrowedFd<'_>, action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    fcntl(fd.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))?;
    let result = action();
    fcntl(fd.as_fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    result
}

/// Finds a program as execvp(3) does: a name with a slash is a path from `cwd` on, another is
/// looked for along `path`.
fn find(name: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, TaskEnd> {
    let shown = || name.to_string_lossy().into_owned();
    if name.as_bytes().contains(&b'/') {
        let file = cwd.join(name);
        return match usable(&file) {
            Ok(()) => Ok(file),
            Err(Why::Missing) => Err(TaskEnd::NotFound(shown())),
            Err(Why::Unusable(why)) => Err(TaskEnd::NotExecutable(format!("{} {why}", shown()))),
        };
    }
    let mut unusable = None;
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    if !name.is_empty() {
        for dir in std::env::split_paths(path) {
            let file = cwd.join(dir).join(name);
            match usable(&file) {
                Ok(()) => return Ok(file),
                Err(Why::Missing) => {}
                // A directory along PATH is no candidate, as in the shell.
                Err(Why::Unusable(_)) if file.is_dir() => {}
                Err(Why::Unusable(why)) => {
                    unusable.get_or_insert_with(|| format!("{} {why}", file.display()));
                }
            }
        }
    }
    Err(match unusable {
        Some(why) => TaskEnd::NotExecutable(why),
        None => TaskEnd::NotFound(shown()),
    })
}

enum Why {
    Missing,
    Unusable(&'static str),
}

fn usable(file: &Path) -> Result<(), Why> {
    match std::fs::metadata(file) {
        Ok(meta) if meta.is_dir() => Err(Why::Unusable("is a directory")),
        Ok(meta) if meta.permissions().mode() & 0o111 == 0 => {
            Err(Why::Unusable("is not executable (permission denied)"))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(Why::Unusable("cannot be reached (permission denied)"))
        }
        Err(_) => Err(Why::Missing),
    }
}

fn refused(program: &Path, error: &io::Error) -> TaskEnd {
    let program = program.display();
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOEXEC) => TaskEnd::NotExecutable(format!(
            "{program} is neither a program of this machine nor a script with a #! line"
        )),
        Some(Errno::EACCES) => {
            TaskEnd::NotExecutable(format!("{program} is not executable (permission denied)"))
        }
        Some(Errno::ENOENT) => {
            TaskEnd::NotExecutable(format!("the interpreter of {program} does not exist"))
        }
        _ => TaskEnd::NotStarted(format!("cannot start {program}: {error}")),
    }
}
