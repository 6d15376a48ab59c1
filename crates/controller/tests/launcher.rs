//! The controller's end of the status channel against real brokers, one process tree each, on
//! loopback addresses.
//!
//! The agent is another package's binary: it must have been built into the same directory
//! (`cargo build -p quorate-agent`; `cargo xtask` does so), or `QUORATE_AGENT` names one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use quorate_contract::config::{
    AgentConfig, Bootstrap, Cluster, Group, MpiFlavor, Program, Slots, VERSION,
};
use quorate_contract::keys::Seed;
use quorate_contract::status::ClusterStatus;
use quorate_controller::launcher::{Launchers, SeedError, Seeds, Target};
use quorate_controller::metrics::{Format, Metrics};
use quorate_controller::watch::Key;
use tokio::time::{sleep, timeout};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

const SEED: [u8; 32] = [7; 32];
const PORT: u16 = 8217;

/// A cluster of brokers. Dropped, it is killed.
struct Brokers {
    dir: tempfile::TempDir,
    network: String,
    processes: Vec<Child>,
}

impl Brokers {
    fn start(size: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let network = network();
        let path = |name: &str| dir.path().join(name);
        let book: Vec<String> =
            (0..size).map(|rank| format!("{rank} {}\n", address(&network, rank))).collect();
        fs::write(path("hosts"), book.concat()).unwrap();
        fs::write(path("seed"), SEED).unwrap();
        fs::write(path("agent.json"), config(dir.path(), size).render()).unwrap();
        let start = |rank: u32| {
            let run_dir = path(&format!("rank-{rank}"));
            fs::create_dir(&run_dir).unwrap();
            Command::new(agent())
                .args(["broker", "--with-parent", "--attempt", "0", "--rank", &rank.to_string()])
                .arg("--config")
                .arg(path("agent.json"))
                .arg("--seed-file")
                .arg(path("seed"))
                .arg("--hosts")
                .arg(path("hosts"))
                .arg("--termination-log")
                .arg(run_dir.join("termination-log"))
                .arg("--run-dir")
                .arg(run_dir)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        };
        let processes = (0..size).map(start).collect();
        Self { dir, network, processes }
    }

    fn target(&self, rank: u32, size: u32) -> Target {
        Target {
            cluster_uid: uid(self.dir.path()),
            pod_uid: format!("pod-{rank}"),
            address: address(&self.network, rank),
            size,
        }
    }

    /// Kills a pod's supervisor, and with it the broker, as a lost node does.
    fn kill(&mut self, rank: usize) {
        self.processes[rank].kill().unwrap();
        self.processes[rank].wait().unwrap();
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn uid(dir: &Path) -> String {
    dir.display().to_string()
}

/// Loopback addresses that no other test has, up to the last byte.
fn network() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let third = NEXT.fetch_add(1, Ordering::Relaxed) % 256;
        let network = format!("127.{}.{third}", 16 + std::process::id() % 200);
        // Another test process may have the same numbers.
        if TcpListener::bind(address(&network, 0)).is_ok() {
            return network;
        }
    }
}

fn address(network: &str, rank: u32) -> SocketAddr {
    format!("{network}.{}:{PORT}", rank + 1).parse().unwrap()
}

fn config(dir: &Path, size: u32) -> AgentConfig {
    let group = |name: &str, first_rank, count| Group {
        name: name.into(),
        first_rank,
        count,
        pods_per_job: None,
        slots: Slots::Auto,
    };
    AgentConfig {
        version: VERSION,
        cluster: Cluster {
            name: "solver".into(),
            namespace: "hpc".into(),
            uid: uid(dir),
            subdomain: "solver".into(),
            domain: None,
        },
        size,
        min_size: 1,
        max_size: size,
        groups: vec![group("launcher", 0, 1), group("worker", 1, size - 1)],
        bootstrap: Bootstrap {
            fanout: 0,
            port: PORT,
            port_per_rank: false,
            timeout_seconds: 60,
            orphan_timeout_seconds: 15,
        },
        program: Program::None,
        mpi: MpiFlavor::Auto,
        names: Vec::new(),
        queue: quorate_contract::config::Queue::default(),
    }
}

fn agent() -> PathBuf {
    if let Some(named) = std::env::var_os("QUORATE_AGENT") {
        return named.into();
    }
    let own = PathBuf::from(env!("CARGO_BIN_EXE_quorate-controller"));
    let agent = own.with_file_name("quorate-agent");
    assert!(
        agent.is_file(),
        "{} is missing: run `cargo build -p quorate-agent` first",
        agent.display()
    );
    agent
}

struct Known([u8; 32]);

impl Seeds for Known {
    fn seed<'a>(&'a self, _: &'a Key, _: &'a str) -> BoxFuture<'a, Result<Seed, SeedError>> {
        let seed = Seed::new(self.0);
        Box::pin(async move { Ok(seed) })
    }
}

fn launchers(seed: [u8; 32]) -> (Launchers, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new());
    (Launchers::new(Arc::new(Known(seed)), metrics.clone()), metrics)
}

fn text(metrics: &Metrics) -> String {
    metrics.encode(Format::Prometheus)
}

fn key() -> Key {
    Key::new("hpc", "solver")
}

/// Waits until what is heard is as wanted.
async fn wait(launchers: &Launchers, what: &str, wanted: impl Fn(&ClusterStatus) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let heard = launchers.status(&key());
        if heard.as_ref().is_some_and(|heard| wanted(&heard.status)) {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: in vain, heard {heard:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn wait_silent(launchers: &Launchers) {
    let deadline = Instant::now() + PATIENCE;
    while launchers.silent_since(&key()).is_none() {
        assert!(Instant::now() < deadline, "it is not said to be silent");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_lost_broker_is_heard_of_within_two_seconds() {
    let mut brokers = Brokers::start(3);
    let (launchers, metrics) = launchers(SEED);
    let mut changes = launchers.changes(&None);
    launchers.ask(&key(), Some(brokers.target(0, 3)));
    wait(&launchers, "all brokers", |status| status.online == 3).await;
    assert!(text(&metrics).contains("brokers_online 3"));
    while timeout(Duration::from_millis(300), changes.next()).await.is_ok() {}

    brokers.kill(2);
    let killed = Instant::now();
    let told = timeout(PATIENCE, changes.next()).await.unwrap();
    assert_eq!(told, Some(key()));
    wait(&launchers, "one broker less", |status| status.online == 2).await;
    assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
}

#[tokio::test]
async fn the_broker_is_told_the_size_now_and_when_it_changes() {
    let mut brokers = Brokers::start(3);
    let (launchers, _) = launchers(SEED);
    launchers.ask(&key(), Some(brokers.target(0, 3)));
    wait(&launchers, "all brokers", |status| status.online == 3).await;
    brokers.kill(2);
    wait(&launchers, "one is missed", |status| status.missing.len() == 1).await;
    launchers.ask(&key(), Some(brokers.target(0, 2)));
    wait(&launchers, "it was let go", |status| status.size == 2 && status.missing.is_empty()).await;
}

#[tokio::test]
async fn a_launcher_that_is_gone_is_silent_and_its_words_are_forgotten() {
    let brokers = Brokers::start(1);
    let (launchers, metrics) = launchers(SEED);
    let mut changes = launchers.changes(&Some("hpc".into()));
    let mut others = launchers.changes(&Some("elsewhere".into()));
    launchers.ask(&key(), Some(brokers.target(0, 1)));
    wait(&launchers, "a broker", |status| status.online == 1).await;
    assert_eq!(launchers.silent_since(&key()), None);
    drop(brokers);
    wait_silent(&launchers).await;
    assert_eq!(launchers.status(&key()), None);
    assert!(text(&metrics).contains("brokers_online 0"));
    assert_eq!(timeout(PATIENCE, changes.next()).await.unwrap(), Some(key()));
    launchers.ask(&key(), None);
    drop(launchers);
    assert_eq!(timeout(PATIENCE, others.next()).await.unwrap(), None, "another's business");
}

#[tokio::test]
async fn another_seed_or_a_worker_gives_no_words() {
    let brokers = Brokers::start(2);
    let (other, _) = launchers([9; 32]);
    other.ask(&key(), Some(brokers.target(0, 2)));
    wait_silent(&other).await;
    assert_eq!(other.status(&key()), None);
    let (launchers, _) = launchers(SEED);
    launchers.ask(&key(), Some(brokers.target(1, 2)));
    wait_silent(&launchers).await;
    assert_eq!(launchers.status(&key()), None);
    // The right one, once it is known.
    launchers.ask(&key(), Some(brokers.target(0, 2)));
    wait(&launchers, "the launcher", |status| status.online == 2).await;
    assert_eq!(launchers.silent_since(&key()), None);
}

#[tokio::test]
async fn a_controller_that_no_longer_leads_counts_no_brokers() {
    let brokers = Brokers::start(2);
    let (launchers, metrics) = launchers(SEED);
    launchers.ask(&key(), Some(brokers.target(0, 2)));
    wait(&launchers, "all brokers", |status| status.online == 2).await;
    assert!(text(&metrics).contains("brokers_online 2"));
    drop(launchers);
    assert!(text(&metrics).contains("brokers_online 0"));
}

#[tokio::test]
async fn a_cluster_made_again_under_its_name_is_not_counted_twice() {
    let (first, second) = (Brokers::start(2), Brokers::start(1));
    let (launchers, metrics) = launchers(SEED);
    launchers.ask(&key(), Some(first.target(0, 2)));
    wait(&launchers, "the first", |status| status.online == 2).await;
    let target = Target { pod_uid: "another".into(), ..second.target(0, 1) };
    launchers.ask(&key(), Some(target));
    wait(&launchers, "the second", |status| status.online == 1).await;
    assert!(text(&metrics).contains("brokers_online 1"), "{}", text(&metrics));
}
