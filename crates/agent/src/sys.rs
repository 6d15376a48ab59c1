//! Linux calls without a safe wrapper, or whose use needs an argument of its own. The only
//! unsafe code of the agent; nothing here decides anything.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the kernel send `signal` to this process when the thread that started it ends.
pub fn die_with_parent(signal: Signal) -> nix::Result<()> {
    prctl::set_pdeathsig(signal)
}

/// Makes this process the parent of its orphaned descendants, as PID 1 is of all.
pub fn become_subreaper() -> nix::Result<()> {
    prctl::set_child_subreaper(true)
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

/// The CPUs that the scheduler lets this process use, ascending.
pub fn allowed_cpus() -> nix::Result<Vec<u32>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true)).map(|c| c as u32).collect())
}
