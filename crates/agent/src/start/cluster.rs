//! The files and processes of a test cluster.

use super::Args;
use super::janitor::Janitor;
use crate::{sys, testbed};
use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use quorate_contract::config::{
    AgentConfig, Bootstrap, Cluster as Names, Group, MpiFlavor, Parallel, Program, Slots, VERSION,
};
use quorate_contract::{Report, env};
use std::fmt::Write;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use zeroize::Zeroizing;

/// A cluster, prepared or running.
#[derive(Debug)]
pub(super) struct Cluster<'a> {
    args: &'a Args,
    dir: PathBuf,
    /// The control socket, which is named to all that the cluster starts.
    control: PathBuf,
    /// What all processes of the cluster hold open.
    held: BorrowedFd<'a>,
    config: AgentConfig,
    pub(super) members: Vec<Member>,
    /// The launcher has ended, and with it the cluster.
    pub(super) over: bool,
}

/// One broker with its pod.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) rank: u32,
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) run_dir: PathBuf,
    /// Its port, taken before its first start.
    listener: Option<TcpListener>,
    /// The pod's supervisor, while there is one.
    pub(super) supervisor: Option<Pid>,
}

impl<'a> Cluster<'a> {
    /// Writes the files and takes the ports.
    pub(super) fn prepare(
        args: &'a Args,
        size: u32,
        min_size: u32,
        control: PathBuf,
        janitor: &'a Janitor,
    ) -> anyhow::Result<Self> {
        let dir = janitor.dir();
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
        let config = config(args, size, min_size, dir);
        fs::write(dir.join("agent.json"), config.render())
            .context("cannot write the configuration")?;
        let mut members = Vec::new();
        let mut book = String::new();
        for rank in 0..size {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
            let address = listener.local_addr()?;
            let _ = writeln!(book, "{rank} {address}");
            members.push(Member {
                rank,
                name: config.display_name(rank),
                address,
                run_dir: dir.join(format!("rank-{rank}")),
                listener: Some(listener),
                supervisor: None,
            });
        }
        fs::write(dir.join("hosts"), book).context("cannot write the address book")?;
        let (dir, held) = (dir.to_owned(), janitor.held());
        Ok(Self { args, dir, control, held, config, members, over: false })
    }

    /// Starts all brokers.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        (0..self.members.len()).try_for_each(|index| self.start_one(index))
    }

    /// Starts a broker whose pod is not there (yet, or any more), with an empty run directory.
    pub(super) fn start_one(&mut self, index: usize) -> anyhow::Result<()> {
        let member = &mut self.members[index];
        let listener = match member.listener.take() {
            Some(listener) => listener,
            None => TcpListener::bind(member.address)
                .with_context(|| format!("the port {} was taken", member.address))?,
        };
        match fs::remove_dir_all(&member.run_dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => fs::create_dir(&member.run_dir),
        }
        .context("cannot make a run directory")?;
        let (rank, run_dir) = (member.rank, member.run_dir.clone());
        self.members[index].supervisor = Some(self.spawn(rank, &run_dir, listener.as_raw_fd())?);
        Ok(())
    }

    /// What the launcher has left behind.
    pub(super) fn last_words(&self) -> Option<Report> {
        let text = fs::read_to_string(self.dir.join("rank-0/termination-log")).ok()?;
        Report::parse(&text).ok()
    }

    fn spawn(&self, rank: u32, run_dir: &Path, listener: RawFd) -> anyhow::Result<Pid> {
        let (args, held) = (self.args, self.held.as_raw_fd());
        let mut command = Command::new("/proc/self/exe");
        command.arg0("quorate-agent").arg("broker").arg("--with-parent");
        command.arg("--config").arg(self.dir.join("agent.json"));
        command.arg("--seed-file").arg(self.dir.join("seed"));
        command.arg("--hosts").arg(self.dir.join("hosts")).arg("--shared-host");
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
        command.env(testbed::SOCKET, &self.control);
        // A group of its own: a terminal's Ctrl-C is for this process, which passes it on.
        command.process_group(0);
        if rank != 0 {
            command.stdin(Stdio::null()).stdout(Stdio::null());
        }
        sys::leave_open(&mut command, [listener, held]);
        let child = command.spawn().with_context(|| format!("cannot start rank {rank}"))?;
        Ok(Pid::from_raw(child.id().cast_signed()))
    }

    /// Where the cluster's files are.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Brokers that have not ended.
    pub(super) fn running(&self) -> usize {
        self.members.iter().filter(|member| member.supervisor.is_some()).count()
    }

    /// Takes note of an end; gives the rank.
    pub(super) fn ended(&mut self, pid: Pid) -> Option<u32> {
        let member = self.members.iter_mut().find(|member| member.supervisor == Some(pid))?;
        member.supervisor = None;
        self.over |= member.rank == 0;
        Some(member.rank)
    }

    /// Passes a signal on: to the launcher, which ends the others, or to all when there is no
    /// program whose end would be the cluster's.
    pub(super) fn pass_on(&self, signal: Signal) {
        match self.config.program {
            Program::None => self.signal_all(signal),
            _ => {
                if let Some(pid) = self.members[0].supervisor {
                    let _ = kill(pid, signal);
                }
            }
        }
    }

    /// Sends a signal to all brokers.
    pub(super) fn signal_all(&self, signal: Signal) {
        for pid in self.members.iter().filter_map(|member| member.supervisor) {
            let _ = kill(pid, signal);
        }
    }
}

fn config(args: &Args, size: u32, min_size: u32, dir: &Path) -> AgentConfig {
    let slots = args.slots.map_or(Slots::Auto, Slots::Fixed);
    let mut groups =
        vec![Group { name: "launcher".into(), first_rank: 0, count: 1, pods_per_job: None, slots }];
    if size > 1 {
        let count = size - 1;
        groups.push(Group {
            name: "worker".into(),
            first_rank: 1,
            count,
            pods_per_job: None,
            slots,
        });
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
        size,
        min_size,
        max_size: size,
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
        names: Vec::new(),
        queue: quorate_contract::config::Queue::default(),
    }
}
