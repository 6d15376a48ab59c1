//! The order of the agent's functions in its binary: `crates/agent/order.ld`.
//!
//! The kernel maps 64 KiB around each page of a program that is touched. Where the functions that a
//! broker runs lie among all others, nearly the whole binary becomes resident in every pod. So they
//! are put together: two brokers are run under valgrind, which counts what each function of them
//! executes, and the map of the linker says which section of which object each function is.
//!
//! The list is a linker script, which `crates/agent/build.rs` hands to the linker of static builds. A
//! function that it does not know lies among the others, as does one that is gone by now: an old list
//! makes the agent larger in memory, never wrong. `cargo xtask bench bringup` tells how large.

mod profile;
mod script;

use crate::tally::Clock;
use crate::{dist, exec, workspace};
use anyhow::{Context, Result, bail, ensure};
use profile::Profile;
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// How the files that valgrind writes are called; the process's id follows.
const PROFILES: &str = "callgrind.";

/// Two brokers under valgrind take some seconds.
const LIMIT: Duration = Duration::from_mins(5);

/// Writes the list anew.
pub(crate) fn run() -> Result<bool> {
    let clock = Clock::start();
    let folder = workspace::target_dir().join("xtask/order");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    clock.say("building an agent with symbols (release)");
    let map = folder.join("agent.map");
    let agent = dist::agent_with_symbols(&folder.join("target"), &map)?;
    clock.say("running two brokers under valgrind");
    let [launcher, worker] = measure(&agent, &folder)?;
    let map = fs::read_to_string(&map).context("read the linker's map")?;
    let sections = script::Sections::read(&map);
    // What is resident in every pod first, what rank 0 alone needs last.
    let groups = [
        worker.broker.more_than(&worker.supervisor),
        worker.supervisor.functions(),
        launcher.broker.functions(),
    ];
    let text = script::write(&sections, &groups);
    let to = workspace::root().join("crates/agent/order.ld");
    fs::write(&to, &text).with_context(|| format!("write {}", to.display()))?;
    clock.say(format!("{} lines written to {}", text.lines().count(), to.display()));
    Ok(true)
}

/// What two brokers execute while their cluster comes up, runs a command and ends.
fn measure(agent: &Path, folder: &Path) -> Result<[Pod; 2]> {
    let dir = folder.join("run");
    if dir.exists() {
        fs::remove_dir_all(&dir).context("remove an earlier run")?;
    }
    for rank in ["0", "1"] {
        let own = dir.join(rank);
        fs::create_dir_all(&own).with_context(|| format!("create {}", own.display()))?;
    }
    describe(&dir)?;
    let run = |rank: &str| {
        let mut command = broker(agent, &dir, rank);
        exec::capture(&mut command, &format!("order-{rank}"), LIMIT)
    };
    let (launcher, worker) = thread::scope(|scope| {
        let launcher = scope.spawn(|| run("0"));
        let worker = run("1");
        (launcher.join(), worker)
    });
    let launcher = launcher.expect("the thread does not panic")?;
    let worker = worker?;
    // An old valgrind does not know pidfd_open(2), without which the launcher cannot watch its command:
    // it says so, and ends the cluster in good order.
    ensure!(launcher.status.is_some(), "the launcher: {}", launcher.how());
    ensure!(worker.success(), "the worker: {}\n{}", worker.how(), worker.output.trim_end());
    Ok([Pod::read(&dir.join("0"))?, Pod::read(&dir.join("1"))?])
}

/// The profiles of one pod's processes.
struct Pod {
    supervisor: Profile,
    /// What its process did before it parted from the supervisor is in it.
    broker: Profile,
}

impl Pod {
    fn read(dir: &Path) -> Result<Self> {
        let mut profiles = Vec::new();
        for entry in fs::read_dir(dir).context("look for profiles")? {
            let path = entry.context("look for profiles")?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(PROFILES) {
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("read {}", path.display()))?;
                profiles.push(Profile::read(&text));
            }
        }
        profiles.sort_by_key(Profile::total);
        let (Some(broker), Some(supervisor)) = (profiles.pop(), profiles.pop()) else {
            bail!("{} has not the profiles of two processes", dir.display());
        };
        Ok(Self { supervisor, broker })
    }
}

/// Writes the files of a cluster of two brokers on loopback.
fn describe(dir: &Path) -> Result<()> {
    let config = json!({
        "version": 1,
        "cluster": {"name": "order", "namespace": "order", "uid": "order", "subdomain": "order"},
        "size": 2, "minSize": 2, "maxSize": 2,
        "groups": [
            {"name": "launcher", "firstRank": 0, "count": 1},
            {"name": "worker", "firstRank": 1, "count": 1},
        ],
        "bootstrap": {"port": 8117, "timeoutSeconds": 60, "orphanTimeoutSeconds": 15},
        "program": {"kind": "command", "argv": ["true"]},
    });
    let ports: Vec<TcpListener> =
        (0..2).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    let mut hosts = String::new();
    for (rank, port) in ports.iter().enumerate() {
        writeln!(hosts, "{rank} {}", port.local_addr()?).context("list the hosts")?;
    }
    for (name, text) in
        [("agent.json", config.to_string()), ("hosts", hosts), ("seed", "s".repeat(32))]
    {
        fs::write(dir.join(name), text).with_context(|| format!("write {name}"))?;
    }
    Ok(())
}

fn broker(agent: &Path, dir: &Path, rank: &str) -> Command {
    let own = dir.join(rank);
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--demangle=no", "--quiet"]);
    command.arg(format!("--callgrind-out-file={}/{PROFILES}%p", own.display()));
    command.arg(agent).arg("broker").arg("--config").arg(dir.join("agent.json"));
    command.arg("--seed-file").arg(dir.join("seed"));
    command.arg("--hosts").arg(dir.join("hosts")).arg("--shared-host");
    command.arg("--run-dir").arg(&own).arg("--termination-log").arg(own.join("termination-log"));
    command.args(["--attempt", "0", "--rank", rank]);
    command
}
