//! The files and processes of a test cluster.

use super::Args;
use super::janitor::Janitor;
use crate::sys;
use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use quorate_contract::config::{
    AgentConfig, Bootstrap, Cluster as Names, Group, MpiFlavor, Parallel, Program, Slots, VERSION,
};
use quorate_contract::{Report, env};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use zeroize::Zeroizing;

/// What `--cluster-file` says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listing<'a> {
    dir: &'a Path,
    brokers: Vec<Broker>,
}

/// One broker of a [`Listing`].
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Broker {
    rank: u32,
    /// The process id of the supervisor; the broker's own is in `broker.pid` of its directory.
    supervisor: i32,
    run_dir: PathBuf,
    address: SocketAddr,
}

/// A cluster, prepared or running.
#[derive(Debug)]
pub(super) struct Cluster {
    dir: PathBuf,
    listeners: Vec<(TcpListener, SocketAddr)>,
    pids: HashMap<Pid, u32>,
    launcher: Option<Pid>,
    has_program: bool,
}

impl Cluster {
    /// Writes the files and takes the ports.
    pub(super) fn prepare(args: &Args, min_size: u32, dir: &Path) -> anyhow::Result<Self> {
        let seed_file = dir.join("seed");
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut_slice()).map_err(std::io::Error::other)?;
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&seed_file)
            .and_then(|mut file| file.write_all(seed.as_slice()))
            .context("cannot write the seed")?;
        fs::write(dir.join("agent.json"), config(args, min_size, dir).render())
            .context("cannot write the configuration")?;
        let mut listeners = Vec::new();
        let mut book = String::new();
        for rank in 0..args.test_size {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
            let address = listener.local_addr()?;
            let _ = writeln!(book, "{rank} {address}");
            listeners.push((listener, address));
        }
        fs::write(dir.join("hosts"), book).context("cannot write the address book")?;
        Ok(Self {
            dir: dir.to_owned(),
            listeners,
            pids: HashMap::new(),
            launcher: None,
            has_program: !args.command.is_empty(),
        })
    }

    /// Starts all brokers.
    pub(super) fn start(&mut self, args: &Args, janitor: &Janitor) -> anyhow::Result<()> {
        let held = janitor.held().as_raw_fd();
        let mut brokers = Vec::new();
        for (rank, (listener, address)) in (0..).zip(std::mem::take(&mut self.listeners)) {
            let run_dir = self.dir.join(format!("rank-{rank}"));
            fs::create_dir(&run_dir).context("cannot make a run directory")?;
            let pid = self.spawn(args, rank, &run_dir, listener.as_raw_fd(), held)?;
            self.pids.insert(pid, rank);
            if rank == 0 {
                self.launcher = Some(pid);
            }
            brokers.push(Broker { rank, supervisor: pid.as_raw(), run_dir, address });
        }
        if let Some(path) = &args.cluster_file {
            let listing = Listing { dir: &self.dir, brokers };
            let text = serde_json::to_string_pretty(&listing)?;
            // Renamed into place, so that a reader who waits for it never sees half of it.
            let draft = path.with_extension("draft");
            fs::write(&draft, text)
                .and_then(|()| fs::rename(&draft, path))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// What the launcher has left behind.
    pub(super) fn last_words(&self) -> Option<Report> {
        let text = fs::read_to_string(self.dir.join("rank-0/termination-log")).ok()?;
        Report::parse(&text).ok()
    }

    fn spawn(
        &self,
        args: &Args,
        rank: u32,
        run_dir: &Path,
        listener: RawFd,
        held: RawFd,
    ) -> anyhow::Result<Pid> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("quorate-agent").arg("broker").arg("--with-parent");
        command.arg("--config").arg(self.dir.join("agent.json"));
        command.arg("--seed-file").arg(self.dir.join("seed"));
        command.arg("--hosts").arg(self.dir.join("hosts"));
        command.arg("--run-dir").arg(run_dir);
        command.arg("--termination-log").arg(run_dir.join("termination-log"));
        command.arg("--attempt").arg("0").arg("--rank").arg(rank.to_string());
        command.arg("--haste").arg(args.haste.to_string());
        command.arg("--listen-fd").arg(listener.to_string());
        command.arg("--hold-fd").arg(held.to_string());
        for (name, value) in &args.env {
            command.env(name, value);
        }
        command.env(env::POD_NAME, format!("test-{rank}"));
        // A group of its own: a terminal's Ctrl-C is for this process, which passes it on.
        command.process_group(0);
        if rank != 0 {
            command.stdin(Stdio::null()).stdout(Stdio::null());
        }
        sys::leave_open(&mut command, [listener, held]);
        let child = command.spawn().with_context(|| format!("cannot start rank {rank}"))?;
        Ok(Pid::from_raw(child.id().cast_signed()))
    }

    /// Brokers that have not ended.
    pub(super) fn running(&self) -> usize {
        self.pids.len()
    }

    /// Takes note of an end; gives the rank.
    pub(super) fn ended(&mut self, pid: Pid) -> Option<u32> {
        self.pids.remove(&pid)
    }

    /// Passes a signal on: to the launcher, which ends the others, or to all when there is no
    /// program whose end would be the cluster's.
    pub(super) fn pass_on(&self, signal: Signal) {
        if !self.has_program {
            return self.signal_all(signal);
        }
        if let Some(pid) = self.launcher {
            let _ = kill(pid, signal);
        }
    }

    /// Sends a signal to all brokers.
    pub(super) fn signal_all(&self, signal: Signal) {
        for pid in self.pids.keys() {
            let _ = kill(*pid, signal);
        }
    }
}

fn config(args: &Args, min_size: u32, dir: &Path) -> AgentConfig {
    let slots = args.slots.map_or(Slots::Auto, Slots::Fixed);
    let mut groups = vec![Group { name: "launcher".into(), first_rank: 0, count: 1, slots }];
    if args.test_size > 1 {
        let count = args.test_size - 1;
        groups.push(Group { name: "worker".into(), first_rank: 1, count, slots });
    }
    let program = match (&args.command[..], args.ntasks) {
        ([], _) => Program::None,
        (_, None) => Program::Command { argv: args.command.clone() },
        (_, tasks) => {
            Program::Parallel(Parallel { argv: args.command.clone(), tasks, ..Parallel::default() })
        }
    };
    AgentConfig {
        version: VERSION,
        cluster: Names {
            name: "test".into(),
            namespace: "test".into(),
            // The directory's name is as good as random: clusters of one host differ.
            uid: dir
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            subdomain: "test".into(),
            domain: None,
        },
        size: args.test_size,
        min_size,
        max_size: args.test_size,
        groups,
        bootstrap: Bootstrap {
            fanout: args.fanout,
            port: quorate_contract::paths::DEFAULT_PORT,
            port_per_rank: false,
            timeout_seconds: args.timeout,
            orphan_timeout_seconds: 15,
        },
        program,
        mpi: MpiFlavor::Auto,
    }
}
