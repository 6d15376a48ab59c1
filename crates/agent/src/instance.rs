//! `quorate-agent start` without `--test-size`: a cluster within another's allocation.
//!
//! Owns: how brokers that something else has started as the tasks of one job find each other. Each
//! tells the others its address through PMI-1, which Quorate's own jobs, MPICH's Hydra and Slurm's
//! `srun --mpi=pmi2` or `pmi1` offer; rank 0 tells the seed. Where there is no PMI the instance is
//! one broker. What a broker is and does is the business of [`crate::broker`], as in a pod.
//!
//! While it is there it says so to the cluster around it ([`known`]), through whose brokers verbs
//! reach it ([`proxy`]).
//!
//! The names of the pods stay those of the outer cluster, so that host files and remote shells of
//! the instance lead to the same places. CPUs are those that the task is bound to.

pub(crate) mod ask;
mod known;
mod meeting;
mod pmi;
pub mod proxy;
pub mod signal;
pub(crate) mod steps;
pub mod tree;

use crate::broker::{Launching, Overlay, Services, life};
use crate::job::Jobs;
use crate::settings::{Flags, Settings};
use crate::sys;
use anyhow::Context;
use meeting::{Meeting, Member};
use pmi::Pmi;
use quorate_contract::config::{
    AgentConfig, Bootstrap, Cluster, Group, MpiFlavor, Program, RankName, Slots, VERSION,
};
use quorate_contract::{Report, env, paths};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

pub use known::{Instance, Known};

/// The hidden verb that ends with its standard input: what an instance runs that is to be there for as
/// long as somebody holds it.
pub const UNTIL_INPUT_ENDS: &str = "until-input-ends";

/// Waits for the end of standard input.
pub fn until_input_ends() -> anyhow::Result<i32> {
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())
        .context("cannot read standard input")?;
    Ok(quorate_contract::exit::OK)
}

/// How the instance is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Children of an inner broker of the tree; 0: chosen by the size.
    pub fanout: u32,
    /// Seconds until an instance without quorum fails.
    pub timeout: u32,
    /// The command of rank 0; none: up until stopped.
    pub command: Vec<String>,
}

/// Joins the instance that this process is a task of; gives the code to exit with.
pub fn run(options: &Options, launching: &Arc<dyn Launching>) -> anyhow::Result<i32> {
    let variable = |name: &str| std::env::var(name).ok();
    let mut pmi = Pmi::from_environment(&variable).context("the launcher's PMI is not usable")?;
    let rank = pmi.as_ref().map_or(0, |pmi| pmi.rank);
    let size = pmi.as_ref().map_or(1, |pmi| pmi.size);
    let listener = TcpListener::bind((address(size, &variable), 0)).context("no free port")?;
    let own = Member {
        address: listener.local_addr().context("a socket has an address")?,
        display: variable(env::BROKER_NAME).unwrap_or_else(sys::host_name),
        host: variable(env::HOST).unwrap_or_else(sys::host_name),
        place: place(),
    };
    let secret = (rank == 0).then(secret).transpose()?;
    let meeting = match &mut pmi {
        Some(pmi) => meeting::meet(pmi, &own, secret.as_deref().map(Vec::as_slice))
            .context("the brokers of the instance cannot find each other")?,
        None => Meeting::alone(own, &secret.context("rank 0 has made a seed")?),
    };
    drop(pmi);
    let dir = directory(rank, &meeting, &variable)?;
    let config = config(options, &meeting, size, &variable);
    let slots = variable(env::SLOTS).and_then(|text| text.parse().ok());
    let flags = write(&dir, &config, &meeting, rank, slots)?;
    let log = flags.termination_log.clone();
    let args = life::Args {
        flags,
        listen_fd: Some(listener.as_raw_fd()),
        hold_fd: None,
        with_parent: true,
    };
    // The broker's life owns the descriptor from here on.
    std::mem::forget(listener);
    let code = life::run(&args, launching);
    if let Some(text) = log.and_then(|log| fs::read_to_string(log).ok())
        && let Ok(report) = Report::parse(&text)
        && rank == 0
        && crate::start::says_more(&report)
    {
        sys::complain(&report.message);
    }
    if let Err(error) = fs::remove_dir_all(&dir) {
        sys::complain(&format!("the instance's directory {} stays: {error}", dir.display()));
    }
    code
}

/// Joins this broker to what is known of instances: of those within its cluster, and, on rank 0 of an
/// instance, of that one to the cluster around it.
pub fn register(jobs: &Jobs, overlay: &Overlay, services: &mut Services) {
    let settings = overlay.settings();
    let variable = |name: &str| std::env::var(name).ok();
    let outer = outer(settings);
    let known = Known::default();
    known.register(overlay, services, outer.clone());
    signal::register(jobs, &known, services);
    ask::register(&known, services);
    steps::register(overlay, services);
    if let Some(outer) = outer
        && overlay.rank() == 0
    {
        let uid = &settings.config.cluster.uid;
        let instance = Instance {
            id: variable(env::JOB_ID).unwrap_or_else(|| uid.chars().take(8).collect()),
            rank: 0,
            pod: String::new(),
            socket: settings.socket(),
            size: overlay.size(),
            since: life::unix_millis(),
        };
        let overlay = overlay.clone();
        tokio::spawn(async move { known::announce(&overlay, &outer, instance).await });
    }
}

/// The socket of the cluster around this one, if it is an instance.
fn outer(settings: &Settings) -> Option<PathBuf> {
    let outer = std::env::var(env::SOCKET).ok().map(PathBuf::from);
    outer.filter(|path| settings.outer_marks.is_some() && *path != settings.socket())
}

/// Where brokers of the instance reach this one: where those of the outer cluster do.
fn address(size: u32, variable: &dyn Fn(&str) -> Option<String>) -> IpAddr {
    let known = [env::ADDRESS, env::POD_IP].into_iter().find_map(variable);
    if let Some(address) = known.and_then(|text| text.parse().ok()) {
        return address;
    }
    let others = sys::interface_addresses().into_iter().find(|ip| size > 1 && !ip.is_loopback());
    others.unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// Tells which processes share a host: the kernel's boot and this process's namespace of processes.
fn place() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let pids = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{}/{}", boot.trim(), pids.display())
}

fn secret() -> anyhow::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; meeting::SECRET]);
    getrandom::fill(&mut bytes).map_err(std::io::Error::other).context("no random numbers")?;
    Ok(bytes)
}

/// A directory beside the outer broker's socket, so that it is memory and goes with the pod, else
/// one of the machine's temporary ones. The same path for all brokers that do not share a host, since
/// launchers call the remote shell of another pod by the path that it has on theirs.
fn directory(
    rank: u32,
    meeting: &Meeting,
    variable: &dyn Fn(&str) -> Option<String>,
) -> anyhow::Result<PathBuf> {
    let outer = variable(env::SOCKET).map(PathBuf::from);
    let within = outer.as_deref().and_then(Path::parent).filter(|dir| dir.is_dir());
    let base = within.map_or_else(std::env::temp_dir, Path::to_owned);
    let mut name = format!("i{}", &meeting.uid[..8]);
    if within.is_none() || meeting.shared_host() {
        name = format!("{name}.{rank}");
    }
    let dir = base.join(name);
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&dir)
        .with_context(|| format!("cannot make the instance's directory {}", dir.display()))?;
    Ok(dir)
}

/// Writes what a broker is told; gives the flags that lead there.
fn write(
    dir: &Path,
    config: &AgentConfig,
    meeting: &Meeting,
    rank: u32,
    slots: Option<u32>,
) -> anyhow::Result<Flags> {
    let file = |name: &str, bytes: &[u8]| -> anyhow::Result<PathBuf> {
        let path = dir.join(name);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(bytes))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    };
    Ok(Flags {
        config: Some(file(paths::CONFIG_KEY, config.render().as_bytes())?),
        seed_file: Some(file(paths::SEED_KEY, meeting.seed.as_slice())?),
        hosts: Some(file("hosts.book", meeting.book().as_bytes())?),
        shared_host: meeting.shared_host(),
        slots,
        run_dir: Some(dir.to_owned()),
        termination_log: Some(dir.join("termination-log")),
        rank: Some(rank),
        attempt: Some(0),
        haste: 1,
    })
}

/// The configuration, the same for all brokers of the instance.
fn config(
    options: &Options,
    meeting: &Meeting,
    size: u32,
    variable: &dyn Fn(&str) -> Option<String>,
) -> AgentConfig {
    let group = |name: &str, first_rank, count| Group {
        name: name.to_owned(),
        first_rank,
        count,
        pods_per_job: None,
        slots: Slots::Auto,
    };
    let mut groups = vec![group("launcher", 0, 1)];
    if size > 1 {
        groups.push(group("worker", 1, size - 1));
    }
    let name = match (variable(env::CLUSTER), variable(env::JOB_ID)) {
        (Some(cluster), Some(job)) => format!("{cluster}/{job}"),
        _ => String::from("instance"),
    };
    AgentConfig {
        version: VERSION,
        cluster: Cluster {
            name: name.clone(),
            namespace: String::new(),
            uid: meeting.uid.clone(),
            subdomain: name,
            domain: None,
        },
        size,
        min_size: size,
        max_size: size,
        groups,
        bootstrap: Bootstrap {
            fanout: options.fanout,
            port: paths::DEFAULT_PORT,
            port_per_rank: false,
            timeout_seconds: options.timeout,
            orphan_timeout_seconds: 15,
        },
        program: match &options.command[..] {
            [] => Program::None,
            command => Program::Command { argv: command.to_vec() },
        },
        mpi: MpiFlavor::Auto,
        names: meeting
            .members
            .iter()
            .map(|member| RankName { display: member.display.clone(), host: member.host.clone() })
            .collect(),
        queue: quorate_contract::config::Queue::default(),
    }
}
