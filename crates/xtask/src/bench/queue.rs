//! The job queue: how fast it takes jobs, starts them and comes back, and what a waiting job costs.
//!
//! Clusters of brokers on this machine are up meanwhile; commands are typed from outside, through the
//! launcher's socket, as in its pod.

use super::figure::Figure;
use super::rounds::{Contestant, Rounds};
use crate::dist::Dist;
use crate::tally::Clock;
use anyhow::{Context, Result, bail, ensure};
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

/// Measures everything.
pub(super) fn run(dist: &Dist, clock: Clock) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for size in [1, 4] {
        clock.say(format!("queue: programs, {size} brokers"));
        let cluster = Cluster::start(dist, size, 4)?;
        let many = cluster.submits("many", &["--bcc", "1-1000", "--wait", "-Q", "true"]);
        let one = cluster.submits("one", &["--wait", "-Q", "true"]);
        let samples = Rounds { warm_up: 1, count: 5, contestants: vec![many] }.run()?;
        let what = format!("{size} brokers: 1,000 x true");
        figures.push(Figure::of("queue", what, "ms", &samples["many"]).target(714.0));
        let samples = Rounds { warm_up: 3, count: 40, contestants: vec![one] }.run()?;
        let what = format!("{size} brokers: submit --wait true");
        figures.push(Figure::of("queue", what, "ms", &samples["one"]).target(6.0));
    }
    clock.say("queue: simulated jobs");
    for (count, target) in [(16_000, 800.0), (100_000, 6000.0)] {
        let cluster = Cluster::start(dist, 1, 256)?;
        let set = format!("1-{count}");
        let words = ["--bcc", &set, "--option", "simulate=0", "--wait", "-Q", "x"];
        let rounds = Rounds {
            warm_up: 0,
            count: 3,
            contestants: vec![cluster.submits("simulated", &words)],
        };
        let what = format!("{count} simulated jobs");
        figures.push(Figure::of("queue", what, "ms", &rounds.run()?["simulated"]).target(target));
    }
    clock.say("queue: submissions");
    figures.extend(submissions(dist)?);
    clock.say("queue: 100,000 jobs that wait");
    figures.extend(restart(dist)?);
    Ok(figures)
}

/// Durable submissions, at once and one after another.
fn submissions(dist: &Dist) -> Result<Vec<Figure>> {
    let cluster = Cluster::start(dist, 1, 4)?;
    let held = ["--urgency", "0", "-Q"];
    let bulk = cluster.submits("bulk", &[&["--bcc", "1-20000"], &held[..], &["x"]].concat());
    let agent = cluster.agent.display();
    let script = format!("seq 2000 | {agent} submit --lines --urgency 0 -Q x {{}}");
    let single = cluster.typed("single", &["sh", "-c", &script]);
    let samples = Rounds { warm_up: 1, count: 5, contestants: vec![bulk, single] }.run()?;
    Ok(vec![
        Figure::of("queue", "20,000 submissions at once", "ms", &samples["bulk"]).target(1000.0),
        Figure::of("queue", "2,000 one after another", "ms", &samples["single"]).target(1000.0),
    ])
}

/// What a waiting job costs, and how soon a killed broker answers again.
fn restart(dist: &Dist) -> Result<Vec<Figure>> {
    /// Jobs of a submission, and how many such: they share no specification.
    const EACH: u32 = 1000;
    const TIMES: u32 = 100;
    let cluster = Cluster::start(dist, 1, 4)?;
    let before = cluster.resident()?;
    for number in 0..TIMES {
        let set = format!("1-{EACH}");
        let name = format!("waits-{number}");
        let words = ["submit", "--urgency", "0", "-Q", "--bcc", &set, "--name", &name, "x"];
        ensure!(cluster.command(&words).status()?.success(), "a submission failed");
    }
    let jobs = f64::from(EACH * TIMES);
    let memory = (cluster.resident()? - before) / jobs;
    let mut times = Vec::new();
    for _ in 0..3 {
        let old = cluster.broker()?;
        let began = Instant::now();
        let mut kill = Command::new(&cluster.agent);
        kill.args(["testbed", "kill", "0", "--control"]).arg(&cluster.control);
        ensure!(kill.status().context("start the agent")?.success(), "the broker was not killed");
        until("the broker to be back", || Ok(cluster.broker().is_ok_and(|now| now != old)))?;
        until("the queue to be back", || {
            let mut look = cluster.command(&["jobs", "-c", "1", "-o", "json"]);
            let output = look.stderr(Stdio::null()).output()?;
            Ok(output.status.success() && !output.stdout.is_empty())
        })?;
        times.push(began.elapsed().as_secs_f64());
    }
    Ok(vec![
        Figure::of("queue", "memory of a waiting job", "KiB", &[memory]).target(2.0),
        Figure::of("queue", "restart with 100,000 jobs", "s", &times).target(1.0),
    ])
}

/// A cluster that is up until it is dropped.
struct Cluster {
    agent: PathBuf,
    control: PathBuf,
    socket: PathBuf,
    starter: Child,
    _dir: Scratch,
}

impl Cluster {
    fn start(dist: &Dist, size: u32, slots: u32) -> Result<Self> {
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

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.agent);
        command.args(words).env("QUORATE_SOCKET", &self.socket);
        command
    }

    fn typed(&self, label: &str, words: &[&str]) -> Contestant {
        let socket = self.socket.display().to_string();
        Contestant::new(label, words.iter().copied()).environment([("QUORATE_SOCKET", socket)])
    }

    fn submits(&self, label: &str, words: &[&str]) -> Contestant {
        let agent = self.agent.display().to_string();
        self.typed(label, &[&[agent.as_str(), "submit"], words].concat())
    }

    /// The process of the launcher's broker.
    fn broker(&self) -> Result<u32> {
        let path = self.socket.with_file_name("broker.pid");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        text.trim().parse().context("the broker's number is none")
    }

    /// KiB of memory of the launcher's broker.
    fn resident(&self) -> Result<f64> {
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

fn until(what: &str, mut look: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !look()? {
        if Instant::now() > deadline {
            bail!("waited {PATIENCE:?} in vain for {what}");
        }
        sleep(STEP);
    }
    Ok(())
}
