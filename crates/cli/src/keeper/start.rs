//! The keeper's start: from a copy of the front to a loop in namespaces of its own, and its end.

use super::{End, Keeper, KeeperInput, Sandbox};
use crate::control::{Finish, Listener, Notice};
use crate::sandbox::{self, ClusterNetwork, SandboxError};
use nix::sys::signal::Signal;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Instant;

/// Where the keeper complains, should it have to.
const LOG: &str = "keeper.log";
/// Files that the pods mount and that must not outlive the cluster: memory of the keeper's own
/// mount namespace where there is one.
pub(super) const VOLATILE: &str = "volatile";
/// On-disk volumes of the pods.
pub(super) const VOLUMES: &str = "volumes";

/// Starts the keeper; the caller must have no threads yet. It lives until the cluster has ended,
/// the front dies without a word, or, once the front has left, somebody deletes the cluster.
pub fn start(input: KeeperInput, started: Instant) -> Result<sandbox::Keeper, SandboxError> {
    let namespaces = input.sandbox == Sandbox::Namespaces;
    let identity = input.identity;
    sandbox::start_keeper(identity, namespaces, || body(input, started))
}

fn body(input: KeeperInput, started: Instant) -> i32 {
    let front = input.front.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    let keep = [input.lock.as_raw_fd(), front, input.stdin.as_raw_fd()];
    sandbox::close_other_descriptors(&keep);
    let namespaces = input.sandbox == Sandbox::Namespaces;
    let dir = input.dir.clone();
    match prepare(Box::new(input), started) {
        Ok(mut keeper) => {
            let end = keeper.run();
            if !namespaces {
                super::cluster::end_descendants();
            }
            let orphan = keeper.input.front.is_none();
            clean(&dir, orphan || end == End::Abandoned);
            // The front waits for this process; what it has to know it has been told.
            0
        }
        Err((input, problem, bar)) => {
            let finish = Finish {
                code: quorate_contract::exit::INTERNAL,
                completed: false,
                reason: if bar { "Forbidden" } else { "Internal" }.into(),
                message: problem,
            };
            if let Some(front) = &input.front {
                let _ = front.send(&Notice::Finished(finish), &[]);
            }
            clean(&dir, false);
            1
        }
    }
}

/// Removes what only a living cluster needs, or everything.
fn clean(dir: &Path, everything: bool) {
    let _ = fs::remove_file(dir.join(crate::control::SOCKET));
    if everything {
        // What is mounted in this namespace is busy; detached, it no longer is.
        let _ = nix::mount::umount2(&dir.join(VOLATILE), nix::mount::MntFlags::MNT_DETACH);
        let _ = fs::remove_dir_all(dir);
        return;
    }
    let _ = nix::mount::umount2(&dir.join(VOLATILE), nix::mount::MntFlags::MNT_DETACH);
    let _ = fs::remove_dir_all(dir.join(VOLATILE));
    let _ = fs::remove_dir_all(dir.join(VOLUMES));
    if fs::metadata(dir.join(LOG)).is_ok_and(|m| m.len() == 0) {
        let _ = fs::remove_file(dir.join(LOG));
    }
}

/// The input back, what went wrong, and whether this machine forbids it.
type Problem = (Box<KeeperInput>, String, bool);

fn prepare(input: Box<KeeperInput>, started: Instant) -> Result<Keeper, Problem> {
    let sandboxed = input.sandbox == Sandbox::Namespaces;
    if let Err(error) = settle(&input) {
        let bar = matches!(error, SandboxError::MapUser { .. } | SandboxError::Configure { .. });
        let bar = bar && sandboxed;
        let problem = if bar { sandbox::explain(&error).to_string() } else { chain(&error) };
        return Err((input, problem, bar));
    }
    macro_rules! attempt {
        ($what:expr, $result:expr) => {
            match $result {
                Ok(value) => value,
                Err(error) => return Err((input, format!("{}: {error}", $what), false)),
            }
        };
    }
    let signals = attempt!(
        "cannot wait for signals",
        sandbox::isolate_signals(&[Signal::SIGCHLD, Signal::SIGTERM]).and_then(|set| {
            SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        })
    );
    let listener = attempt!("cannot listen for callers", Listener::bind(&input.dir));
    let network = if sandboxed {
        match ClusterNetwork::create() {
            Ok(network) => Some(network),
            Err(error) => {
                let bar = sandbox::explain(&SandboxError::Network(error));
                return Err((input, bar.to_string(), true));
            }
        }
    } else {
        None
    };
    let block = attempt!("no random numbers", getrandom::u32());
    let policy = input.objects.jobset.spec.failure_policy.as_ref();
    let max_restarts = policy.map_or(0, |p| u32::try_from(p.max_restarts).unwrap_or(0));
    let hosts = input.objects.hosts();
    let keeper = Keeper {
        listener,
        clients: Vec::new(),
        signals,
        network,
        hosts,
        pods: BTreeMap::new(),
        watcher: None,
        started,
        max_restarts,
        loopback_block: block as u16,
        launcher_code: None,
        first_failure: None,
        ending: false,
        interrupted: None,
        finish: None,
        input,
    };
    match keeper.write_files() {
        Ok(()) => Ok(keeper),
        Err(error) => {
            let text = format!("cannot write the cluster's files: {error}");
            Err((keeper.input, text, false))
        }
    }
}

fn settle(input: &KeeperInput) -> Result<(), SandboxError> {
    let configure = |doing| move |source| SandboxError::Configure { doing, source };
    let volatile = input.dir.join(VOLATILE);
    if input.sandbox == Sandbox::Namespaces {
        sandbox::settle(input.identity)?;
        make(&volatile)?;
        sandbox::mount_volatile(&volatile)?;
    } else {
        make(&volatile)?;
        nix::unistd::setsid().map_err(configure("start a session"))?;
        nix::sys::prctl::set_child_subreaper(true).map_err(configure("adopt orphans"))?;
    }
    let null = File::options().read(true).write(true).open("/dev/null");
    let log = OpenOptions::new().create(true).append(true).open(input.dir.join(LOG));
    let (null, log) = match (null, log) {
        (Ok(null), Ok(log)) => (null, log),
        (Err(e), _) | (_, Err(e)) => {
            let errno = nix::errno::Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO));
            return Err(SandboxError::Make { path: input.dir.join(LOG), source: errno });
        }
    };
    nix::unistd::dup2_stdin(&null).map_err(configure("leave the terminal"))?;
    nix::unistd::dup2_stdout(&null).map_err(configure("leave the terminal"))?;
    nix::unistd::dup2_stderr(&log).map_err(configure("leave the terminal"))
}

fn make(dir: &Path) -> Result<(), SandboxError> {
    fs::create_dir_all(dir).map_err(|e| SandboxError::Make {
        path: dir.to_owned(),
        source: nix::errno::Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)),
    })
}

/// An error with its causes on one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
