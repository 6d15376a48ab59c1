//! A Slurm of this machine's packages, on loopback, in a folder of its own: munged, slurmctld and three
//! slurmd; and, if it is to keep accounts, slurmdbd with a database. It ends with its jobs when it is
//! dropped.

#[path = "accounts.rs"]
mod accounts;

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAMS: [&str; 3] = ["/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd"];
const NODES: u16 = 3;

pub(crate) struct Lab {
    folder: TempDir,
    daemons: Vec<Child>,
}

/// Why there can be no Slurm here: `None` if there can.
pub(crate) fn missing() -> Option<String> {
    if let Some(program) = PROGRAMS.into_iter().find(|program| !Path::new(program).exists()) {
        return Some(format!("{program} is not there: apt-get install slurm-wlm munge"));
    }
    let root = fs::metadata("/proc/self").is_ok_and(|it| {
        use std::os::unix::fs::MetadataExt as _;
        it.uid() == 0
    });
    (!root).then(|| "slurmd needs root".to_owned())
}

/// Why there can be no Slurm with accounts here: `None` if there can.
pub(crate) fn missing_with_accounts() -> Option<String> {
    missing().or_else(accounts::missing)
}

impl Lab {
    /// A Slurm that forgets jobs.
    pub(crate) fn start() -> Self {
        Self::with(false)
    }

    /// A Slurm that answers to sacct.
    pub(crate) fn start_with_accounts() -> Self {
        Self::with(true)
    }

    fn with(accounts: bool) -> Self {
        let folder = tempfile::Builder::new().prefix("quorate-slurm-").tempdir().unwrap();
        // Jobs of other users read their scripts in it.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut lab = Self { folder, daemons: Vec::new() };
        for name in ["state", "log", "work"] {
            fs::create_dir(lab.path(name)).unwrap();
        }
        lab.munge();
        let ports = free_ports(usize::from(NODES) + 2);
        lab.configure(&ports, accounts);
        if accounts {
            lab.keep_accounts(ports[0]);
        }
        lab.run("/usr/sbin/slurmctld", &["-D", "-c"]);
        for node in 0..NODES {
            let name = format!("worker-0-{node}");
            fs::create_dir_all(lab.path("spool").join(&name)).unwrap();
            lab.run("/usr/sbin/slurmd", &["-D", "-N", &name]);
        }
        lab.until("all nodes are idle", |lab| {
            lab.ask(&["sinfo", "-h", "-p", "batch", "-o", "%D %t"]).trim() == "3 idle"
        });
        lab
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn munge(&mut self) {
        let key = self.path("munge.key");
        let bytes: Vec<u8> = fs::read("/proc/sys/kernel/random/uuid").unwrap().repeat(8);
        fs::write(&key, bytes).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let flag = |name: &str, file: &str| format!("--{name}={}", self.path(file).display());
        let flags = [
            flag("key-file", "munge.key"),
            flag("socket", "munge.sock"),
            flag("pid-file", "munge.pid"),
            flag("log-file", "log/munged"),
            flag("seed-file", "munge.seed"),
        ];
        let mut words = vec!["--force", "--foreground"];
        words.extend(flags.iter().map(String::as_str));
        self.run(PROGRAMS[0], &words);
        self.until("munged listens", |lab| lab.path("munge.sock").exists());
    }

    /// Writes slurm.conf: the first port is slurmdbd's, the second slurmctld's.
    fn configure(&self, ports: &[u16], accounts: bool) {
        let at = self.folder.path().display();
        let mut text = format!(
            "ClusterName=lab\nSlurmctldHost=localhost\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={at}/munge.sock\nCredType=cred/munge\n\
             StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool/%n\n\
             SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd-%n.pid\n\
             SlurmctldLogFile={at}/log/slurmctld\nSlurmdLogFile={at}/log/slurmd-%n\n\
             ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             MpiDefault=none\nReturnToService=2\nSchedulerType=sched/backfill\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n\
             JobAcctGatherType=jobacct_gather/none\n\
             MailProg=/bin/true\nKillWait=1\nSlurmdParameters=config_overrides\nPriorityType=priority/basic\n",
            ports[1]
        );
        if accounts {
            let _ = writeln!(
                text,
                "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=localhost\n\
                 AccountingStoragePort={}\nAccountingStoragePass={at}/munge.sock",
                ports[0]
            );
        } else {
            text += "AccountingStorageType=accounting_storage/none\n";
        }
        for node in 0..NODES {
            let port = ports[usize::from(node) + 2];
            let _ = writeln!(
                text,
                "NodeName=worker-0-{node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=4 \
                 RealMemory=1000 State=UNKNOWN Feature=fast"
            );
        }
        text += "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n\
                 PartitionName=short Nodes=worker-0-[0-1] MaxTime=60 State=UP\n";
        fs::write(self.path("slurm.conf"), text).unwrap();
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // What the caller has of another Slurm, or of a job, is not this one's.
        for (name, _) in std::env::vars() {
            let other = ["SLURM", "SBATCH_", "SQUEUE_", "SINFO_", "SACCT", "SALLOC_"];
            if other.iter().any(|start| name.starts_with(start)) {
                command.env_remove(name);
            }
        }
        command
            .env("SLURM_CONF", self.path("slurm.conf"))
            // Where the database's clients look for it: slurmdbd cannot be told otherwise.
            .env("MYSQL_UNIX_PORT", self.path("database.sock"))
            .env("TZ", "UTC")
            .env("LC_ALL", "C.UTF-8")
            .current_dir(self.path("work"))
            .stdin(Stdio::null());
        command
    }

    fn run(&mut self, program: &str, words: &[&str]) {
        let mut command = self.command(program);
        command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push(command.spawn().unwrap());
    }

    /// Runs a command of Slurm.
    pub(crate) fn output(&self, words: &[&str]) -> Output {
        self.command(words[0]).args(&words[1..]).output().unwrap()
    }

    /// What a command of Slurm prints.
    pub(crate) fn ask(&self, words: &[&str]) -> String {
        String::from_utf8(self.output(words).stdout).unwrap()
    }

    /// Waits for a condition, and ends the test with the logs if it does not come.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            if start.elapsed() > Duration::from_mins(1) {
                let logs = fs::read_dir(self.path("log")).unwrap().flatten();
                for log in logs {
                    println!("== {}", log.path().display());
                    println!("{}", fs::read_to_string(log.path()).unwrap_or_default());
                }
                panic!("not within 60 s: {what}; {}", self.ask(&["squeue", "-t", "all"]));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Ports that nobody has at the moment.
fn free_ports(count: usize) -> Vec<u16> {
    let sockets: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect()
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Shepherds of jobs are no children of ours: they end with their jobs.
        if self.path("slurm.conf").exists() {
            for user in ["root", "nobody"] {
                let _ = self.command("scancel").args(["-u", user]).output();
            }
            let start = Instant::now();
            let empty = |output: Output| output.stdout.is_empty() && output.status.success();
            while start.elapsed() < Duration::from_secs(20)
                && !self.command("squeue").arg("-h").output().is_ok_and(empty)
            {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
