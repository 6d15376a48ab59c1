//! What PID 1 owes the processes of its namespace: their exits are taken, and at the end they are
//! ended.

use super::Keeper;
use crate::component::State;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(2);

/// Reaps orphans for ever. A child of some thread here is taken by that thread at once; what is
/// still a zombie at the next look, and is none of the parts, belongs to nobody.
pub(super) fn run(keeper: &Keeper) {
    let mut before = BTreeSet::new();
    loop {
        thread::sleep(EVERY);
        let zombies = zombies();
        let known = known(keeper);
        for pid in zombies.intersection(&before).filter(|pid| !known.contains(pid)) {
            let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
        }
        before = zombies;
    }
}

fn known(keeper: &Keeper) -> BTreeSet<i32> {
    let running = |state| match state {
        State::Running(pid) => Some(pid),
        State::Stopped | State::Ended(_) => None,
    };
    let components = keeper.components.iter().filter_map(|part| running(part.state()));
    let nodes = keeper.nodes.iter().filter_map(super::NodeHandle::outer);
    components.chain(nodes).map(u32::cast_signed).collect()
}

/// Children of this process that have ended (proc(5), `/proc/PID/stat`).
fn zombies() -> BTreeSet<i32> {
    let zombie = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The command's name may hold blanks and brackets; the last bracket ends it.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut words = rest.split_whitespace();
        (words.next()? == "Z" && words.next()? == "1").then_some(pid)
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(zombie).collect()
}

/// Kills every other process of this PID namespace and waits until all have ended.
pub(super) fn end_all() {
    let everyone = Pid::from_raw(-1);
    let _ = kill(everyone, Signal::SIGKILL);
    while waitpid(everyone, None).is_ok() {}
}
