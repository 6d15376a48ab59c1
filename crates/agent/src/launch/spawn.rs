//! Starting one task.
//!
//! Owns: finding the program as execvp(3) does, pipes, binding and the process group, and the words
//! for what goes wrong. It must not decide who starts what.
//!
//! Nothing runs between fork and exec, so that the C library may use its quick way (vfork): the CPU
//! set is set on this thread for the moment of the start. The kernel stops the thread for that long; tasks
//! of jobs are started by a thread that has nothing else to do ([`starter`]).

use super::environment::Variables;
use super::memory;
use super::outcome::TaskEnd;
use crate::sys;
use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;

pub mod starter;
pub mod terminal;
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
    pid: i32,
    pidfd: AsyncFd<OwnedFd>,
    /// Processes of this container that were killed for its memory before this one began.
    killed_before: u64,
}

/// A process of which nobody takes note yet.
#[derive(Debug)]
struct Unwatched {
    pid: i32,
    pidfd: OwnedFd,
    killed_before: u64,
}

impl Unwatched {
    fn new(pid: i32) -> Result<Self, TaskEnd> {
        match sys::pidfd(pid) {
            Ok(pidfd) => Ok(Self { pid, pidfd, killed_before: memory::kills_here() }),
            Err(error) => Err(given_up(pid, &error)),
        }
    }

    /// From here on its end is known. Must be called within the runtime.
    fn watch(self) -> Result<Exit, TaskEnd> {
        let Self { pid, pidfd, killed_before } = self;
        match sys::watch(pidfd, tokio::io::Interest::READABLE) {
            Ok(pidfd) => Ok(Exit { pid, pidfd, killed_before }),
            Err(error) => Err(given_up(pid, &error)),
        }
    }
}

/// Ends a process whose end nobody would see.
fn given_up(pid: i32, error: &io::Error) -> TaskEnd {
    sys::signal_group(pid, libc::SIGKILL);
    let _ = reap(pid);
    TaskEnd::NotStarted(format!("cannot watch it: {error}"))
}

impl Exit {
    fn watch(pid: i32) -> Result<Self, TaskEnd> {
        Unwatched::new(pid)?.watch()
    }

    /// The end of the process. With `sweep` what is left of its process group is killed first,
    /// while the number cannot be anybody else's.
    pub async fn wait(self, sweep: bool) -> TaskEnd {
        // An error here would be one of epoll; waiting itself then finds the truth.
        let _ = self.pidfd.readable().await;
        if sweep {
            sys::signal_group(self.pid, libc::SIGKILL);
        }
        match reap(self.pid) {
            TaskEnd::Signaled(libc::SIGKILL) if memory::kills_here() > self.killed_before => {
                TaskEnd::OutOfMemory
            }
            end => end,
        }
    }
}

/// Takes the exit status of an ended child.
fn reap(pid: i32) -> TaskEnd {
    loop {
        match waitpid(Pid::from_raw(pid), None) {
            Ok(WaitStatus::Exited(_, code)) => return TaskEnd::Exited(code),
            Ok(WaitStatus::Signaled(_, signal, _)) => return TaskEnd::Signaled(signal as i32),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return TaskEnd::NotStarted(format!("its end is unknown: {error}")),
        }
    }
}

/// Starts a task in a process group of its own, with `own_session` also a session.
pub fn start(start: &Start<'_>) -> Result<Task, TaskEnd> {
    begin(start)?.adopt()
}

/// A task that runs, before the runtime knows of it.
#[derive(Debug)]
struct Begun {
    process: Unwatched,
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl Begun {
    /// Hands it to the runtime.
    fn adopt(self) -> Result<Task, TaskEnd> {
        let Self { process, stdin, stdout, stderr } = self;
        let pid = process.pid;
        let exit = process.watch()?;
        let adopt = || -> io::Result<_> {
            let stdin = stdin.map(pipe::Sender::from_owned_fd).transpose()?;
            let stdout = pipe::Receiver::from_owned_fd(stdout)?;
            Ok((stdin, stdout, pipe::Receiver::from_owned_fd(stderr)?))
        };
        match adopt() {
            Ok((stdin, stdout, stderr)) => Ok(Task { pid, stdin, stdout, stderr, exit }),
            Err(error) => {
                sys::signal_group(pid, libc::SIGKILL);
                let _ = reap(pid);
                Err(without_pipes(error))
            }
        }
    }

    /// Ends it: nobody wants it any more.
    fn end(self) {
        sys::signal_group(self.process.pid, libc::SIGKILL);
        let _ = reap(self.process.pid);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is mapped over results")]
fn without_pipes(error: io::Error) -> TaskEnd {
    TaskEnd::NotStarted(format!("no pipes for it: {error}"))
}

/// Starts a task, on any thread.
fn begin(start: &Start<'_>) -> Result<Begun, TaskEnd> {
    let failed = without_pipes;
    let (stdin, to_task) = if start.stdin {
        let (reader, writer) = io::pipe().map_err(failed)?;
        (OwnedFd::from(reader), Some(OwnedFd::from(writer)))
    } else {
        (std::fs::File::open("/dev/null").map_err(failed)?.into(), None)
    };
    let (stdout, its_stdout) = io::pipe().map_err(failed)?;
    let (stderr, its_stderr) = io::pipe().map_err(failed)?;
    let streams = [stdin.as_fd(), its_stdout.as_fd(), its_stderr.as_fd()];
    let pid = spawn(start, Some(streams), None)?;
    // From here on only the task holds its ends.
    drop((stdin, its_stdout, its_stderr));
    let process = Unwatched::new(pid)?;
    Ok(Begun { process, stdin: to_task, stdout: stdout.into(), stderr: stderr.into() })
}

/// Starts a command that shares this process's stdin, stdout and stderr, in its own process group.
pub fn start_inheriting(start: &Start<'_>) -> Result<(i32, Exit), TaskEnd> {
    let pid = spawn(start, None, None)?;
    Ok((pid, Exit::watch(pid)?))
}

/// Starts a task in a process group of its own that has nothing to read, and whose output goes nowhere.
pub fn start_silent(start: &Start<'_>) -> Result<(i32, Exit), TaskEnd> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
    let null = null.map_err(|error| TaskEnd::NotStarted(format!("no /dev/null: {error}")))?;
    let pid = spawn(start, Some([null.as_fd(); 3]), None)?;
    Ok((pid, Exit::watch(pid)?))
}

fn spawn(
    start: &Start<'_>,
    streams: Option<[BorrowedFd<'_>; 3]>,
    terminal: Option<&CStr>,
) -> Result<i32, TaskEnd> {
    let name = start.argv.first().ok_or_else(|| TaskEnd::NotFound(String::new()))?;
    let program = find(name, start.env.get(OsStr::new("PATH")).map(AsRef::as_ref), start.cwd)?;
    let word = |bytes: &[u8]| {
        CString::new(bytes).map_err(|_| {
            TaskEnd::NotStarted("an argument or variable has a zero byte in it".to_string())
        })
    };
    let argv: Vec<CString> =
        start.argv.iter().map(|text| word(text.as_bytes())).collect::<Result<_, _>>()?;
    let env: Vec<CString> = start
        .env
        .iter()
        .map(|(name, value)| word(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect::<Result<_, _>>()?;
    // The directory that is inherited anyhow needs no system call in the child.
    let here = std::env::current_dir().ok().as_deref() == Some(start.cwd);
    let cwd = if here { None } else { Some(word(start.cwd.as_os_str().as_bytes())?) };
    let file = word(program.as_os_str().as_bytes())?;
    let process = sys::Start {
        program: &file,
        argv: &argv,
        env: &env,
        cwd: cwd.as_deref(),
        streams,
        terminal,
        keep: start.keep,
        own_session: start.own_session,
    };
    bound(start.cpus, || sys::spawn(&process)).map_err(|error| refused(&program, &error))
}

/// Runs `action` while this thread, and what it starts, is bound to these CPUs.
fn bound<T>(cpus: Option<&[u32]>, action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(cpus) = cpus else { return action() };
    let before = sys::allowed_cpus()?;
    sys::bind(cpus)?;
    let result = action();
    sys::bind(&before)?;
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
        Some(Errno::E2BIG) => TaskEnd::NotStarted(format!(
            "cannot start {program}: arguments and environment are more than a program can be given here \
             (execve(2), a quarter of the limit of the stack): leave variables out, or raise ulimit -s"
        )),
        _ => TaskEnd::NotStarted(format!("cannot start {program}: {error}")),
    }
}
