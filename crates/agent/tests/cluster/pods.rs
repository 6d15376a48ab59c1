//! The pods of a test: one supervisor process each, with its own directory, as a kubelet would
//! start them.

use quorate_contract::config::{
    AgentConfig, Bootstrap, Cluster, Group, MpiFlavor, Program, Slots, VERSION,
};
use quorate_contract::report::Report;
use quorate_contract::status::{BrokerState, ClusterStatus};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The binary under test.
pub(crate) const AGENT: &str = env!("CARGO_BIN_EXE_quorate-agent");

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What the pods of a cluster share, before they start.
pub(crate) struct Plan {
    pub(crate) size: u32,
    pub(crate) min_size: u32,
    pub(crate) fanout: u32,
    pub(crate) timeout: u32,
    pub(crate) haste: u32,
    pub(crate) slots: Slots,
    pub(crate) program: Program,
}

impl Plan {
    /// A cluster that stays up.
    pub(crate) fn new(size: u32) -> Self {
        Self {
            size,
            min_size: size,
            fanout: 0,
            timeout: 60,
            haste: 1,
            slots: Slots::Auto,
            program: Program::None,
        }
    }

    /// A shell script on the launcher.
    pub(crate) fn script(size: u32, script: &str) -> Self {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        Self { program: Program::Command { argv }, ..Self::new(size) }
    }

    /// Writes the files; starts nothing.
    pub(crate) fn prepare(&self) -> Pods {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("agent.json"), self.config(dir.path()).render()).unwrap();
        fs::write(dir.path().join("seed"), [7; 32]).unwrap();
        let network = Network::take(self.size);
        fs::write(dir.path().join("hosts"), network.book()).unwrap();
        let pods = (0..self.size).map(|_| None).collect();
        let later = Mutex::default();
        Pods { dir, network, haste: self.haste, by_rank: pods, later }
    }

    /// Writes the files and starts all pods.
    pub(crate) fn start(&self) -> Pods {
        let mut pods = self.prepare();
        for rank in 0..self.size {
            pods.start(rank);
        }
        pods
    }

    fn config(&self, dir: &Path) -> AgentConfig {
        let group = |name: &str, first_rank, count| Group {
            name: name.into(),
            first_rank,
            count,
            pods_per_job: None,
            slots: self.slots,
        };
        let mut groups = vec![group("launcher", 0, 1)];
        if self.size > 1 {
            groups.push(group("worker", 1, self.size - 1));
        }
        AgentConfig {
            version: VERSION,
            cluster: Cluster {
                name: "t".into(),
                namespace: "t".into(),
                uid: dir.display().to_string(),
                subdomain: "t".into(),
                domain: None,
            },
            size: self.size,
            min_size: self.min_size,
            max_size: self.size,
            groups,
            bootstrap: Bootstrap {
                fanout: self.fanout,
                port: PORT,
                port_per_rank: false,
                timeout_seconds: self.timeout,
                orphan_timeout_seconds: 15,
            },
            program: self.program.clone(),
            mpi: MpiFlavor::Auto,
            names: Vec::new(),
            queue: quorate_contract::config::Queue::default(),
        }
    }
}

const PORT: u16 = 8117;

/// Loopback addresses that no other test has, one a pod, all with the same port.
pub(crate) struct Network {
    third: u32,
    second: u32,
    size: u32,
}

impl Network {
    fn take(size: u32) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let second = 16 + std::process::id() % 200;
        loop {
            let third = NEXT.fetch_add(1, Ordering::Relaxed) % 256;
            let network = Self { third, second, size };
            // Another test process may have the same numbers.
            if TcpListener::bind(network.address(0)).is_ok() {
                return network;
            }
        }
    }

    /// A pod's address.
    pub(crate) fn address(&self, rank: u32) -> String {
        format!("127.{}.{}.{}:{PORT}", self.second, self.third, rank + 1)
    }

    /// An address of no pod, for a way to one.
    pub(crate) fn beside(&self, rank: u32) -> String {
        format!("127.{}.{}.{}:{PORT}", self.second, self.third, rank + 101)
    }

    fn book(&self) -> String {
        (0..self.size).fold(String::new(), |mut book, rank| {
            let _ = writeln!(book, "{rank} {}", self.address(rank));
            book
        })
    }
}

/// What one pod differs in.
#[derive(Default)]
pub(crate) struct Special {
    pub(crate) attempt: u32,
    pub(crate) seed: Option<[u8; 32]>,
    pub(crate) termination_log: Option<PathBuf>,
    pub(crate) environment: Vec<(&'static str, String)>,
    pub(crate) hosts: Option<PathBuf>,
}

/// One running pod.
pub(crate) struct Pod {
    supervisor: Child,
    dir: PathBuf,
    termination_log: PathBuf,
}

/// The pods of a cluster. Dropped, they are killed.
pub(crate) struct Pods {
    dir: tempfile::TempDir,
    pub(crate) network: Network,
    haste: u32,
    by_rank: Vec<Option<Pod>>,
    /// Pods that took the place of others.
    later: Mutex<Vec<(u32, Pod)>>,
}

impl Pods {
    /// Starts a pod like all others.
    pub(crate) fn start(&mut self, rank: u32) {
        self.start_special(rank, Special::default());
    }

    /// Starts a pod that differs.
    pub(crate) fn start_special(&mut self, rank: u32, special: Special) {
        let pod = self.spawn(rank, special);
        self.by_rank[rank as usize] = Some(pod);
    }

    /// Starts a pod again that has ended by itself, as its Job would, in a directory of its own. Tells whether it
    /// had ended.
    pub(crate) fn replace_if_ended(&self, rank: u32, special: Special) -> bool {
        let mut later = self.later.lock().unwrap();
        let latest = later.iter().rev().find(|(each, _)| *each == rank).map(|(_, pod)| pod);
        let supervisor = latest.unwrap_or_else(|| self.pod(rank)).supervisor.id().cast_signed();
        if alive(supervisor) {
            return false;
        }
        later.push((rank, self.spawn(rank, special)));
        true
    }

    fn spawn(&self, rank: u32, special: Special) -> Pod {
        let dir = self.dir.path().join(format!("rank-{rank}"));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        let seed = match special.seed {
            Some(seed) => {
                fs::write(dir.join("seed"), seed).unwrap();
                dir.join("seed")
            }
            None => self.dir.path().join("seed"),
        };
        let termination_log =
            special.termination_log.unwrap_or_else(|| dir.join("termination-log"));
        let supervisor = Command::new(AGENT)
            .args(["broker", "--with-parent", "--config"])
            .arg(self.dir.path().join("agent.json"))
            .arg("--seed-file")
            .arg(seed)
            .arg("--shared-host")
            .arg("--hosts")
            .arg(special.hosts.unwrap_or_else(|| self.dir.path().join("hosts")))
            .arg("--run-dir")
            .arg(&dir)
            .arg("--termination-log")
            .arg(&termination_log)
            .args(["--rank", &rank.to_string(), "--attempt", &special.attempt.to_string()])
            .args(["--haste", &self.haste.to_string()])
            .env("QUORATE_LOG", "debug")
            .envs(special.environment)
            .stdin(Stdio::null())
            .stdout(File::create(dir.join("stdout")).unwrap())
            .stderr(File::create(dir.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        Pod { supervisor, dir, termination_log }
    }

    /// A book of addresses in which one pod is reached another way; gives its file.
    pub(crate) fn hosts_with(&self, rank: u32, way: &str) -> PathBuf {
        let (own, other) = (self.network.address(rank), format!("{rank} {way}"));
        let book = self.network.book().replace(&format!("{rank} {own}"), &other);
        let path = self.dir.path().join(format!("hosts-{}", way.replace(':', "-")));
        fs::write(&path, book).unwrap();
        path
    }

    /// The cluster's secret, which pods read when they start.
    pub(crate) fn seed_path(&self) -> PathBuf {
        self.dir.path().join("seed")
    }

    /// The cluster's UID, over which its keys are derived.
    pub(crate) fn uid(&self) -> String {
        self.dir.path().display().to_string()
    }

    fn pod(&self, rank: u32) -> &Pod {
        self.by_rank[rank as usize].as_ref().expect("the pod was started")
    }

    /// A pod's directory.
    pub(crate) fn dir(&self, rank: u32) -> &Path {
        &self.pod(rank).dir
    }

    /// A pod's stderr so far.
    pub(crate) fn stderr(&self, rank: u32) -> String {
        fs::read_to_string(self.dir(rank).join("stderr")).unwrap_or_default()
    }

    /// A pod's stdout so far.
    pub(crate) fn stdout(&self, rank: u32) -> String {
        fs::read_to_string(self.dir(rank).join("stdout")).unwrap_or_default()
    }

    /// The process id of a pod's supervisor.
    pub(crate) fn supervisor(&self, rank: u32) -> i32 {
        self.pod(rank).supervisor.id().cast_signed()
    }

    /// The process id of a pod's broker.
    pub(crate) fn broker(&self, rank: u32) -> i32 {
        let path = self.dir(rank).join("broker.pid");
        self.wait("the broker's pid", || {
            fs::read_to_string(&path).ok().and_then(|text| text.parse().ok())
        })
    }

    /// Kills a pod's broker with -9; its supervisor lives on.
    pub(crate) fn kill_broker(&self, rank: u32) {
        signal(self.broker(rank), 9);
    }

    /// Kills a whole pod with -9, as a lost node does.
    pub(crate) fn kill_pod(&mut self, rank: u32) {
        let broker = self.broker(rank);
        signal(self.supervisor(rank), 9);
        let mut pod = self.by_rank[rank as usize].take().expect("the pod was started");
        pod.supervisor.wait().unwrap();
        // The kernel ends the broker with its supervisor.
        self.wait("the broker's end", || (!alive(broker)).then_some(()));
    }

    /// What `overlay status` says on a pod; `None` while nobody answers.
    pub(crate) fn status(&self, rank: u32) -> Option<ClusterStatus> {
        let output = Command::new(AGENT)
            .args(["overlay", "status", "-o", "json", "--socket"])
            .arg(self.dir(rank).join("agent.sock"))
            .output()
            .unwrap();
        output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Waits until the launcher's status is as wanted.
    pub(crate) fn wait_status(
        &self,
        what: &str,
        wanted: impl Fn(&ClusterStatus) -> bool,
    ) -> ClusterStatus {
        self.wait(what, || self.status(0).filter(&wanted))
    }

    /// Waits until all are online and the cluster runs.
    pub(crate) fn wait_running(&self) -> ClusterStatus {
        let size = self.by_rank.len() as u32;
        self.wait_status("a running cluster", |status| {
            status.state == BrokerState::Run && status.online == size
        })
    }

    /// Waits until `look` gives something.
    pub(crate) fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            if Instant::now() > deadline {
                self.tell();
                panic!("waited {PATIENCE:?} in vain for {what}");
            }
            sleep(Duration::from_millis(10));
        }
    }

    /// Waits for a pod's end; gives its code.
    pub(crate) fn wait_exit(&mut self, rank: u32) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let pod = self.by_rank[rank as usize].as_mut().expect("the pod was started");
            if let Some(status) = pod.supervisor.try_wait().unwrap() {
                use std::os::unix::process::ExitStatusExt;
                return status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            }
            if Instant::now() > deadline {
                self.tell();
                panic!("rank {rank} did not end within {PATIENCE:?}");
            }
            sleep(Duration::from_millis(5));
        }
    }

    /// What a pod has left behind.
    pub(crate) fn report(&self, rank: u32) -> Report {
        let text = fs::read_to_string(&self.pod(rank).termination_log).unwrap();
        Report::parse(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    /// Runs the binary against a pod's socket.
    pub(crate) fn ask(&self, rank: u32, words: &[&str]) -> std::process::Output {
        Command::new(AGENT)
            .args(words)
            .arg("--socket")
            .arg(self.dir(rank).join("agent.sock"))
            .output()
            .unwrap()
    }

    /// All logs, for a test that has failed.
    pub(crate) fn tell(&self) {
        for (rank, pod) in self.by_rank.iter().enumerate() {
            if let Some(pod) = pod {
                let log = fs::read_to_string(pod.dir.join("stderr")).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(25).collect();
                let tail: Vec<&str> = tail.into_iter().rev().collect();
                eprintln!("--- rank {rank}\n{}", tail.join("\n"));
            }
        }
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell();
        }
        let later = std::mem::take(self.later.get_mut().unwrap());
        let mut later: Vec<Pod> = later.into_iter().map(|(_, pod)| pod).collect();
        for pod in self.by_rank.iter_mut().flatten().chain(&mut later) {
            // A broker that is stopped would not die with its supervisor's signal.
            if let Ok(text) = fs::read_to_string(pod.dir.join("broker.pid"))
                && let Ok(broker) = text.parse()
                && pod.supervisor.try_wait().unwrap().is_none()
            {
                signal(broker, 18);
            }
            let _ = pod.supervisor.kill();
            let _ = pod.supervisor.wait();
        }
    }
}

/// Sends a signal by number.
pub(crate) fn signal(pid: i32, number: i32) {
    use nix::sys::signal::{Signal, kill};
    let signal = Signal::try_from(number).unwrap();
    let _ = kill(nix::unistd::Pid::from_raw(pid), signal);
}

/// Whether a process is there and not a zombie.
pub(crate) fn alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z")))
}
