//! Processes below this one, read from `/proc`.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::fs;

/// All processes below this one, in no order. With a subreaper that is all that it ever caused,
/// daemons included.
pub fn descendants() -> Vec<Pid> {
    below(Pid::this())
}

/// All processes below one, in no order.
pub fn below(top: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if let Some((parent, _)) = parent_and_state(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![top.as_raw()];
    while let Some(pid) = open.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            found.push(Pid::from_raw(child));
            open.push(child);
        }
    }
    found
}

/// The parent's pid and the state in `/proc/<pid>/stat` (proc(5)): the fields behind the command,
/// which is in parentheses and may itself contain some.
pub fn parent_and_state(pid: i32) -> Option<(i32, char)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((fields.next()?.parse().ok()?, state))
}

/// Sends a signal to all processes below this one.
pub fn signal_descendants(signal: Signal) {
    for pid in descendants() {
        // It may be gone by now.
        let _ = kill(pid, signal);
    }
}

/// Takes all children that have ended; true while some are left.
pub fn reap_all() -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Err(Errno::ECHILD) => return false,
            Ok(_) | Err(_) => {}
        }
    }
}
