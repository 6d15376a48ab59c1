//! Clusters of brokers on this machine, typed into from outside.

use super::super::rounds::Contestant;
use crate::dist::Dist;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Until a cluster is up, or up again.
const PATIENCE: Duration = Duration::from_mins(1);
/// Between two looks.
const STEP: Duration = Duration::from_millis(5);

/// A cluster that is up until it is dropped.
pub(super) struct Cluster {
    pub(super) agent: PathBuf,
    pub(super) control: PathBuf,
    socket: PathBuf,
    starter: Child,
    _dir: Scratch,
}

impl Cluster {
    pub(super) fn start(dist: &Dist, size: u32, slots: u32) -> Result<Self> {
        let dir = Scratch::new()?;
        let control = dir.0.join("control.sock");
        let mut command = Command::new(&dist.agent);
        command
            .args(["start", "--test-size", &size.to_string(), "--slots", &slots.to_string()])
            .arg("--control")
            .arg(&control)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let starter = command.spawn().context("start a cluster")?;
        let (agent, socket) = (dist.agent.clone(), PathBuf::new());
        let mut cluster = Self { agent, control, socket, starter, _dir: dir };
        until("a cluster to be up", || {
            let Ok(run_dir) = cluster.run_dir() else { return Ok(false) };
            cluster.socket = run_dir.join("agent.sock");
            let mut ready = cluster.command(&["ready"]);
            Ok(ready.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success())
        })?;
        Ok(cluster)
    }

    /// Where the launcher keeps its socket.
    fn run_dir(&self) -> Result<PathBuf> {
        let mut command = Command::new(&self.agent);
        command.args(["testbed", "status", "-o", "json", "--control"]).arg(&self.control);
        let output = command.stderr(Stdio::null()).output().context("start the agent")?;
        let status: Value = serde_json::from_slice(&output.stdout).context("read the status")?;
        let dir = status.pointer("/brokers/0/runDir").and_then(Value::as_str);
        Ok(PathBuf::from(dir.context("the status names no run directory")?))
    }

    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.agent);
        command.args(words).env("QUORATE_SOCKET", &self.socket);
        command
    }

    pub(super) fn typed(&self, label: &str, words: &[&str]) -> Contestant {
        let socket = self.socket.display().to_string();
        Contestant::new(label, words.iter().copied()).environment([("QUORATE_SOCKET", socket)])
    }

    /// A verb with what follows it.
    pub(super) fn verb(&self, label: &str, verb: &str, words: &[&str]) -> Contestant {
        let agent = self.agent.display().to_string();
        self.typed(label, &[&[agent.as_str(), verb], words].concat())
    }

    pub(super) fn submits(&self, label: &str, words: &[&str]) -> Contestant {
        self.verb(label, "submit", words)
    }

    /// The process of the launcher's broker.
    pub(super) fn broker(&self) -> Result<u32> {
        let path = self.socket.with_file_name("broker.pid");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        text.trim().parse().context("the broker's number is none")
    }

    /// Bytes of the queue's log.
    pub(super) fn log_length(&self) -> Result<u64> {
        let path = self.socket.with_file_name("queue").join("events.log");
        let log = fs::metadata(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(log.len())
    }

    /// KiB of memory of the launcher's broker.
    pub(super) fn resident(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.broker()?))
            .context("read the broker's memory")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.context("the broker's memory is not told")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let pid = self.starter.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        if told.is_err() {
            let _ = self.starter.kill();
        }
        let _ = self.starter.wait();
    }
}

/// A short directory: the name of a socket has hardly more than 100 characters.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let unique = format!("quorate-bench-{}", std::process::id());
        let dir = std::env::temp_dir().join(unique);
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(Path::new(&self.0));
    }
}

/// Looks until it is so.
pub(super) fn until(what: &str, mut look: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !look()? {
        if Instant::now() > deadline {
            bail!("waited {PATIENCE:?} in vain for {what}");
        }
        sleep(STEP);
    }
    Ok(())
}
