//! The calls that no safe wrapper covers. Everything here is small and says why it is sound.

use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::Pid;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What [`clone_process`] returns, once in each of the two processes.
pub(super) enum Cloned {
    /// In the new process.
    Child,
    /// In the caller: the child's id in the caller's PID namespace and a descriptor of it.
    Parent(Pid, OwnedFd),
}

/// Starts a copy of this process with namespaces of its own, as fork(2) does.
///
/// The caller must be single-threaded: the child keeps running Rust code (it allocates) before it
/// executes another program, which is sound only if no other thread can hold a lock. Both callers,
/// the front before it starts threads and the keeper that never does, are.
#[expect(unsafe_code, reason = "clone(2) with namespaces has no safe wrapper")]
pub(super) fn clone_process(namespaces: CloneFlags) -> nix::Result<Cloned> {
    let flags = namespaces.bits() | libc::CLONE_PIDFD | libc::SIGCHLD;
    let mut pidfd: RawFd = -1;
    // SAFETY: without CLONE_VM the child gets a copy of the address space, so a null stack keeps
    // the copied one, as fork does. `pidfd` is a valid place for CLONE_PIDFD to write to. The last
    // two arguments (tid pointer and TLS, in either order by architecture) are unused and null.
    let id = unsafe {
        libc::syscall(libc::SYS_clone, libc::c_long::from(flags), 0, &raw mut pidfd, 0, 0)
    };
    match Errno::result(id)? {
        0 => Ok(Cloned::Child),
        // SAFETY: the kernel has just opened this descriptor for us; nobody else owns it.
        id => Ok(Cloned::Parent(Pid::from_raw(id as i32), unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// Ends this process at once, without destructors or exit handlers: they belong to the process
/// that this one is a copy of.
#[expect(unsafe_code, reason = "a forked child must not run the exit handlers of its parent")]
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` is always sound; it does not return.
    unsafe { libc::_exit(code) }
}

/// Closes every descriptor but 0, 1, 2 and those listed: what the caller's shell left open must not
/// stay open in a process that lives longer.
#[expect(unsafe_code, reason = "descriptors without an owner can only be closed by number")]
pub fn close_other_descriptors(keep: &[RawFd]) {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<RawFd> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2 && !keep.contains(fd))
        .collect();
    for fd in open {
        // SAFETY: this runs right after the fork, before anything in this process uses a
        // descriptor that is not in `keep`; closing a number that is no longer open is harmless.
        unsafe { libc::close(fd) };
    }
}

/// Marks every descriptor from 3 on to be closed by exec(2).
#[expect(unsafe_code, reason = "close_range(2) has no safe wrapper")]
pub(super) fn close_on_exec_all() {
    // SAFETY: only sets a flag on descriptors; none is closed.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
}

/// Gives a program the signal state that a program expects: nothing blocked, nothing ignored.
#[expect(unsafe_code, reason = "signal(2) is unsafe because handlers can be")]
pub(super) fn default_signals() {
    for signal in Signal::iterator() {
        if matches!(signal, Signal::SIGKILL | Signal::SIGSTOP) {
            continue;
        }
        // SAFETY: the default action runs no code of ours.
        let _ = unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigDfl) };
    }
    let _ = nix::sys::signal::sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
}

/// Blocks the signals that a signalfd(2) will deliver, and returns them.
pub fn isolate_signals(signals: &[Signal]) -> nix::Result<SigSet> {
    let mut set = SigSet::empty();
    for signal in signals {
        set.add(*signal);
    }
    set.thread_block()?;
    Ok(set)
}

/// The path under which an open descriptor can be mounted from, given where /proc is.
pub(super) fn descriptor_path(proc_root: &str, fd: &OwnedFd) -> String {
    format!("{proc_root}/self/fd/{}", fd.as_raw_fd())
}

/// Receives one message with the descriptors that came with it; `None` at the end.
#[expect(unsafe_code, reason = "received descriptors come as bare numbers")]
pub fn receive(
    socket: &impl AsRawFd,
    buffer: &mut [u8],
) -> nix::Result<Option<(usize, Vec<OwnedFd>)>> {
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
    let mut space = nix::cmsg_space!([RawFd; 8]);
    let mut parts = [std::io::IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(
        socket.as_raw_fd(),
        &mut parts,
        Some(&mut space),
        MsgFlags::MSG_CMSG_CLOEXEC,
    )?;
    let mut descriptors = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = control {
            for number in numbers {
                // SAFETY: the kernel has just opened it for this process; nobody else owns it.
                descriptors.push(unsafe { OwnedFd::from_raw_fd(number) });
            }
        }
    }
    Ok((message.bytes > 0).then_some((message.bytes, descriptors)))
}

/// Takes a waiting connection of a listening socket.
#[expect(unsafe_code, reason = "accept4(2) is wrapped with a bare number")]
pub fn accept(listener: &impl AsRawFd) -> nix::Result<OwnedFd> {
    use nix::sys::socket::{SockFlag, accept4};
    let number = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC)?;
    // SAFETY: the kernel has just opened it for this process; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A descriptor of this process, by which others can enter its namespaces.
#[expect(unsafe_code, reason = "pidfd_open(2) has no safe wrapper")]
pub fn own_descriptor() -> nix::Result<OwnedFd> {
    // SAFETY: the call takes plain numbers and returns a new descriptor.
    let number = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    let number = Errno::result(number)?;
    // SAFETY: the kernel has just opened it for this process; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number as RawFd) })
}
