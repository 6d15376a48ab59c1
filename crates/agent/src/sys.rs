//! Linux calls without a safe wrapper, or whose use needs an argument of its own. The only
//! unsafe code of the agent; nothing here decides anything.

pub mod processes;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal};
use nix::unistd::{ForkResult, Pid};
use std::ffi::{CStr, CString};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use tokio::io::unix::AsyncFd;

/// Makes the kernel send `signal` to this process when the thread that started it ends.
pub fn die_with_parent(signal: Signal) -> nix::Result<()> {
    prctl::set_pdeathsig(signal)
}

/// Makes this process the parent of its orphaned descendants, as PID 1 is of all.
pub fn become_subreaper() -> nix::Result<()> {
    prctl::set_child_subreaper(true)
}

/// Seconds that local time is ahead of UTC at a moment, given in seconds since the Unix epoch: what the
/// C library knows of TZ and /etc/localtime. 0 where it knows nothing.
pub fn zone_offset(now: i64) -> i32 {
    let now: libc::time_t = now;
    #[expect(unsafe_code, reason = "the C library has no safe wrapper for local time")]
    // SAFETY: both pointers are of values of this function; localtime_r(3) fills the second, of which
    // all zeros are a value, and keeps neither.
    let offset = unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&raw const now, &raw mut local).is_null() {
            return 0;
        }
        local.tm_gmtoff
    };
    i32::try_from(offset).unwrap_or(0)
}

/// The host name as the kernel knows it.
pub fn host_name() -> String {
    nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The addresses of all interfaces that are up, IPv4 first; link-local ones need an interface's
/// name to be of use and are left out.
pub fn interface_addresses() -> Vec<IpAddr> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let mut found: Vec<IpAddr> = interfaces
        .filter(|interface| interface.flags.contains(nix::net::if_::InterfaceFlags::IFF_UP))
        .filter_map(|interface| {
            let address = interface.address?;
            if let Some(v4) = address.as_sockaddr_in() {
                return Some(IpAddr::V4(v4.ip()));
            }
            let v6 = address.as_sockaddr_in6()?.ip();
            (!v6.is_unicast_link_local()).then_some(IpAddr::V6(v6))
        })
        .collect();
    found.sort_by_key(IpAddr::is_ipv6);
    found
}

/// Takes over a descriptor that was left open for this process on purpose, and keeps it from
/// those that this process starts.
pub fn adopt(descriptor: RawFd) -> nix::Result<OwnedFd> {
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    #[expect(unsafe_code, reason = "a number from the command line becomes a descriptor")]
    // SAFETY: the caller names a descriptor that was inherited for it and that nothing else in
    // this process has taken; fcntl below proves that it is open before it is used.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    match fcntl(&owned, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)) {
        Ok(_) => Ok(owned),
        Err(errno) => {
            // Not open, so not ours to close.
            std::mem::forget(owned);
            Err(errno)
        }
    }
}

/// Runs `action` in the child between fork and exec.
///
/// `action` must be async-signal-safe: system calls only, no allocation, no locks. The closures
/// in this crate call nothing but `nix` wrappers of single system calls.
pub fn before_exec<F>(command: &mut Command, action: F)
where
    F: FnMut() -> io::Result<()> + Send + Sync + 'static,
{
    #[expect(unsafe_code, reason = "pre_exec has no safe form")]
    // SAFETY: the closure is async-signal-safe by this function's contract.
    unsafe {
        command.pre_exec(action);
    }
}

/// Starts the command so that it gets `signal` when this process ends, even if this process ends
/// before the child has asked for that.
pub fn kill_child_with_us(command: &mut Command, signal: Signal) {
    let parent = Pid::this();
    before_exec(command, move || {
        prctl::set_pdeathsig(signal)?;
        if Pid::parent() == parent { Ok(()) } else { Err(nix::errno::Errno::ESRCH.into()) }
    });
}

/// Leaves these descriptors open in the command's process, although they are closed on exec.
pub fn leave_open<const N: usize>(command: &mut Command, descriptors: [RawFd; N]) {
    before_exec(command, move || {
        for descriptor in descriptors {
            #[expect(unsafe_code, reason = "a number stands for a descriptor after fork")]
            // SAFETY: the caller keeps the descriptors open until the command is spawned, and the
            // child has copies of all of them.
            let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
            nix::fcntl::fcntl(
                borrowed,
                nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
            )?;
        }
        Ok(())
    });
}

/// Sets a signal's disposition to the default or to being ignored; handlers that run code are not
/// for this function.
pub fn set_handler(signal: Signal, handler: SigHandler) {
    if matches!(handler, SigHandler::SigDfl | SigHandler::SigIgn) {
        #[expect(unsafe_code, reason = "setting a signal's disposition has no safe form")]
        // SAFETY: no code of ours runs in the handler.
        let _ = unsafe { nix::sys::signal::signal(signal, handler) };
    }
}

/// The CPUs that the scheduler lets this process use, ascending.
pub fn allowed_cpus() -> nix::Result<Vec<u32>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true)).map(|c| c as u32).collect())
}

/// A descriptor that becomes readable when the process ends (pidfd_open(2)). `pid` must be an
/// unreaped child of this process.
pub fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    #[expect(unsafe_code, reason = "pidfd_open has no wrapper in nix")]
    // SAFETY: the call takes two integers and gives a new descriptor that nobody else owns.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

/// Sends a signal to a process group. Tells whether there was anybody to get it.
pub fn signal_group(group: i32, signal: i32) -> bool {
    let Ok(signal) = Signal::try_from(signal) else { return false };
    group > 1 && nix::sys::signal::killpg(Pid::from_raw(group), signal).is_ok()
}

/// Sends a signal to one process. Tells whether it was there.
pub fn signal_process(pid: i32, signal: i32) -> bool {
    let Ok(signal) = Signal::try_from(signal) else { return false };
    pid > 1 && nix::sys::signal::kill(Pid::from_raw(pid), signal).is_ok()
}

/// Binds this thread, and what it starts from now on, to these CPUs.
pub fn bind(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu as usize)?;
    }
    Ok(nix::sched::sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Registers a descriptor with the runtime, which must be running.
pub fn watch(fd: OwnedFd, interest: tokio::io::Interest) -> io::Result<AsyncFd<OwnedFd>> {
    #[expect(unsafe_code, reason = "registering trusts the type to keep its descriptor")]
    // SAFETY: an `OwnedFd` has one open descriptor, the same for all of its life.
    let registered = unsafe { AsyncFd::register_with_interest(fd, interest) };
    registered.map_err(|refused| refused.into_parts().1)
}

/// Runs `child` in a new process, which exits with the code that it gives; gives the new
/// process's pid.
///
/// Nothing is executed anew: the child goes on with a copy of this process's memory, which saves
/// the loading of the binary. Must be called while the process has one thread.
pub fn fork(child: &dyn Fn() -> i32) -> nix::Result<Pid> {
    #[expect(unsafe_code, reason = "fork has no safe form")]
    // SAFETY: the process has one thread by this function's contract, so no lock is held by a
    // thread that the child does not have.
    let side = unsafe { nix::unistd::fork() }?;
    match side {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => std::process::exit(child()),
    }
}

/// A line on stderr from a place that has no logger. A closed stderr is no reason to fail.
pub fn complain(line: &str) {
    use std::io::Write;
    let _ = io::stderr().write_all(format!("quorate-agent: {line}\n").as_bytes());
}

/// Writes all bytes to a descriptor of this process.
pub fn write_all(fd: i32, mut bytes: &[u8]) -> io::Result<()> {
    #[expect(unsafe_code, reason = "stdout and stderr have no owner to borrow from")]
    // SAFETY: the descriptor is only used within this call; a wrong number gives EBADF.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    while !bytes.is_empty() {
        match nix::unistd::write(fd, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(nix::errno::Errno::EINTR) => {}
            Err(nix::errno::Errno::EAGAIN) => {
                // Somebody made the shared descriptor non-blocking: wait for room.
                let mut polled = [nix::poll::PollFd::new(fd, nix::poll::PollFlags::POLLOUT)];
                nix::poll::poll(&mut polled, nix::poll::PollTimeout::NONE)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Rows and columns of a terminal; `None` for what is none, or does not know.
pub fn window_size(terminal: BorrowedFd<'_>) -> Option<(u16, u16)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    #[expect(unsafe_code, reason = "the request has no safe wrapper")]
    // SAFETY: the descriptor is borrowed and thus open, and the request fills a `winsize`.
    let asked = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (asked == 0 && size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// Tells a terminal how large it is; its foreground processes get SIGWINCH.
pub fn set_window_size(terminal: BorrowedFd<'_>, (rows, columns): (u16, u16)) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    #[expect(unsafe_code, reason = "the request has no safe wrapper")]
    // SAFETY: the descriptor is borrowed and thus open, and the request reads a `winsize`.
    let set = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The network interface that has an address.
pub fn interface_of(address: IpAddr) -> Option<String> {
    let interfaces = nix::ifaddrs::getifaddrs().ok()?;
    interfaces
        .filter(|interface| {
            let Some(found) = &interface.address else { return false };
            let v4 = found.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
            let v6 = found.as_sockaddr_in6().map(|a| IpAddr::from(a.ip()));
            v4.or(v6) == Some(address)
        })
        .map(|interface| interface.interface_name)
        .next()
}

/// What terminals, and those who end programs, send. A shell without job control starts what runs in the
/// background with SIGINT and SIGQUIT ignored, and nohup(1) ignores SIGHUP: that is meant for this process,
/// not for those whose terminal or streams it is.
const OF_TERMINALS: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
];

/// A process to be started.
#[derive(Debug)]
pub struct Start<'a> {
    /// The file to execute.
    pub program: &'a CStr,
    /// All of its arguments, the name it is called by first.
    pub argv: &'a [CString],
    /// All of its environment, `NAME=VALUE` each.
    pub env: &'a [CString],
    /// Its directory; `None` is this process's.
    pub cwd: Option<&'a CStr>,
    /// Its stdin, stdout and stderr; `None` are this process's.
    pub streams: Option<[BorrowedFd<'a>; 3]>,
    /// The terminal that is all three instead. With a session of its own it is what the session is
    /// controlled from: Ctrl-C there is a signal here.
    pub terminal: Option<&'a CStr>,
    /// A descriptor that it has under the same number.
    pub keep: Option<BorrowedFd<'a>>,
    /// A session of its own, otherwise a process group.
    pub own_session: bool,
}

/// Starts a process by posix_spawn(3), without copying this process's page tables as fork does:
/// that costs more than all the rest. Signals are as for a new program: none blocked, SIGPIPE not
/// ignored, and none of [`OF_TERMINALS`] for one that does not share this process's streams.
pub fn spawn(start: &Start<'_>) -> io::Result<i32> {
    fn checked(code: libc::c_int) -> io::Result<()> {
        if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
    }
    fn pointers(words: &[CString]) -> Vec<*mut libc::c_char> {
        words.iter().map(|word| word.as_ptr().cast_mut()).chain([std::ptr::null_mut()]).collect()
    }
    let (argv, env) = (pointers(start.argv), pointers(start.env));
    let mut pid = 0;
    #[expect(unsafe_code, reason = "posix_spawn has no safe form with all of these attributes")]
    // SAFETY: both objects are initialized before use and destroyed once. The vectors of pointers
    // end with null and, like the strings they point to, live until the call returns; the C
    // library does not write to them. Descriptors are borrowed and thus open.
    unsafe {
        let mut actions = std::mem::MaybeUninit::uninit();
        checked(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
        let mut actions = actions.assume_init();
        let mut attributes = std::mem::MaybeUninit::uninit();
        if let Err(error) = checked(libc::posix_spawnattr_init(attributes.as_mut_ptr())) {
            libc::posix_spawn_file_actions_destroy(&raw mut actions);
            return Err(error);
        }
        let mut attributes = attributes.assume_init();
        let result = (|| {
            for (number, stream) in (0..).zip(start.streams.iter().flatten()) {
                let fd = stream.as_raw_fd();
                checked(libc::posix_spawn_file_actions_adddup2(&raw mut actions, fd, number))?;
            }
            if let Some(path) = start.terminal {
                // The session is made before that, and takes the first terminal that it opens.
                checked(libc::posix_spawn_file_actions_addopen(
                    &raw mut actions,
                    libc::STDIN_FILENO,
                    path.as_ptr(),
                    libc::O_RDWR,
                    0,
                ))?;
                for number in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
                    checked(libc::posix_spawn_file_actions_adddup2(
                        &raw mut actions,
                        libc::STDIN_FILENO,
                        number,
                    ))?;
                }
            }
            if let Some(keep) = start.keep {
                // A copy of itself stays open in the new process (POSIX.1-2024), and in no other one.
                let fd = keep.as_raw_fd();
                checked(libc::posix_spawn_file_actions_adddup2(&raw mut actions, fd, fd))?;
            }
            if let Some(cwd) = start.cwd {
                checked(libc::posix_spawn_file_actions_addchdir_np(
                    &raw mut actions,
                    cwd.as_ptr(),
                ))?;
            }
            let group = if start.own_session {
                libc::POSIX_SPAWN_SETSID
            } else {
                checked(libc::posix_spawnattr_setpgroup(&raw mut attributes, 0))?;
                libc::POSIX_SPAWN_SETPGROUP as libc::c_short
            };
            let mut defaults = nix::sys::signal::SigSet::from_iter([Signal::SIGPIPE]);
            if start.streams.is_some() || start.terminal.is_some() {
                defaults.extend(OF_TERMINALS);
            }
            let mask = nix::sys::signal::SigSet::empty();
            checked(libc::posix_spawnattr_setsigdefault(&raw mut attributes, defaults.as_ref()))?;
            checked(libc::posix_spawnattr_setsigmask(&raw mut attributes, mask.as_ref()))?;
            let signals = libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
            let flags = group | signals as libc::c_short;
            checked(libc::posix_spawnattr_setflags(&raw mut attributes, flags))?;
            checked(libc::posix_spawn(
                &raw mut pid,
                start.program.as_ptr(),
                &raw const actions,
                &raw const attributes,
                argv.as_ptr(),
                env.as_ptr(),
            ))
        })();
        libc::posix_spawnattr_destroy(&raw mut attributes);
        libc::posix_spawn_file_actions_destroy(&raw mut actions);
        result?;
    }
    Ok(pid)
}
