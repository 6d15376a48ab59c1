//! A node: namespaces in which containerd, kubelet and kube-proxy believe to have a machine.
//!
//! ```text
//! keeper
//!   └ node          in the node's control groups and network namespace; waits for the next one
//!       └ node-init PID 1 of the node: private /proc, /sys, /run, /var/lib, /var/log, /etc files
//!           ├ containerd ─ shims ─ pods
//!           ├ kubelet
//!           └ kube-proxy
//! ```
//!
//! Both halves are this program under another verb. The kernel ends everything on the node when its
//! PID 1 is killed. The two halves talk to the keeper over their standard streams: [`Word`]s on the
//! output, and one line on the input when the API is there.

pub(crate) mod mounts;

use crate::addons::{Addon, AddonError, policies};
use crate::cgroups::{self, CgroupError};
use crate::configuration as text;
use crate::layout::{Folder, Node};
use crate::network;
use crate::plan::{Plan, PlanError};
use crate::tools;
use mounts::MountError;
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, sethostname};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// containerd answers within this, or something is wrong.
const RUNTIME_LIMIT: Duration = Duration::from_secs(30);
/// The socket of containerd on the node.
pub const RUNTIME_SOCKET: &str = "/run/containerd/containerd.sock";

/// What a node tells the keeper, one line of JSON each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// Its first process, in the keeper's PID namespace.
    Pid(u32),
    /// containerd runs and has its images.
    Runtime,
    /// kubelet and kube-proxy are started.
    Started,
    /// One of its programs ended.
    Ended(String),
    /// It cannot go on.
    Failed(String),
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No control groups.
    #[error(transparent)]
    Groups(#[from] CgroupError),
    /// A mount failed.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A namespace could not be entered or made.
    #[error("cannot {doing}")]
    Namespace {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// A file could not be used.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {name}")]
    Start {
        /// Which.
        name: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// containerd does not answer.
    #[error("containerd does not answer after {} s; its log ends with:\n{log}", RUNTIME_LIMIT.as_secs())]
    Runtime {
        /// Its last lines.
        log: String,
    },
    /// An image could not be loaded.
    #[error("cannot load {}: {output}", image.display())]
    Load {
        /// The archive.
        image: PathBuf,
        /// What ctr(8) said.
        output: String,
    },
    /// An addon cannot be started.
    #[error(transparent)]
    Addon(#[from] AddonError),
    /// The kernel does not take the rule that asks the network policies' agent.
    #[error("cannot have connections decided by network policies: {output}")]
    Rule {
        /// What iptables(8) said.
        output: String,
    },
    /// The keeper went away.
    #[error("the keeper gave this node up")]
    GivenUp,
}

/// The outer half: enters the node's control groups and namespaces and waits for the inner half.
/// Must be called in a process with one thread.
pub fn run(folder: &Folder, node: Node) -> Result<(), NodeError> {
    let namespace = |doing| move |source| NodeError::Namespace { doing, source };
    cgroups::enter(&folder.control_group(node))?;
    let path = network::namespace_path(&node.name());
    let network = File::open(&path).map_err(file("open", &path))?;
    setns(network, CloneFlags::CLONE_NEWNET)
        .map_err(namespace("enter the network namespace of the node"))?;
    let own = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWCGROUP
        | CloneFlags::CLONE_NEWPID;
    unshare(own).map_err(namespace("make the namespaces of the node"))?;
    let mut init = Command::new("/proc/self/exe")
        .args(["node-init", folder.name(), &node.name()])
        .spawn()
        .map_err(|source| NodeError::Start { name: "the node's first process", source })?;
    say(&Word::Pid(init.id()));
    init.wait().map_err(|source| NodeError::Start { name: "the node's first process", source })?;
    Ok(())
}

/// The inner half, PID 1 of the node. It returns only if the node cannot start.
pub fn init(folder: &Folder, node: Node) -> Result<(), NodeError> {
    let plan = Plan::read(folder)?;
    sethostname(node.name())
        .map_err(|source| NodeError::Namespace { doing: "set the host name", source })?;
    write_files(folder, &plan, node)?;
    mounts::settle(folder, node)?;
    let forward = Path::new("/proc/sys/net/ipv4/ip_forward");
    fs::write(forward, "1").map_err(file("write", forward))?;

    let config = folder.node(node, "containerd.toml");
    let path = plan.node_path();
    let program = plan.runtime.as_ref().map(|output| output.join("bin/containerd"));
    let mut containerd = Command::new(program.unwrap_or_else(|| "containerd".into()));
    containerd.arg("--config").arg(config);
    let mut programs =
        vec![("containerd", start(folder, node, "containerd", containerd.env("PATH", path))?)];
    await_runtime(folder, node)?;
    for image in std::iter::once(&plan.pause).chain(&plan.shape.images) {
        load(image)?;
    }
    say(&Word::Runtime);
    let mut line = String::new();
    match io::stdin().read_line(&mut line) {
        Ok(read) if read > 0 => {}
        _ => return Err(NodeError::GivenUp),
    }

    let mut kubelet = Command::new(plan.core("kubelet"));
    kubelet
        .arg(format!("--config={}", folder.node(node, "kubelet.json").display()))
        .arg(format!("--kubeconfig={}", folder.kubeconfig(&node.name()).display()))
        .arg(format!("--hostname-override={}", node.name()))
        .arg(format!("--node-ip={}", node.address()))
        .arg("--root-dir=/var/lib/kubelet");
    programs.push(("kubelet", start(folder, node, "kubelet", &mut kubelet)?));
    let mut proxy = Command::new(plan.core("kube-proxy"));
    proxy.arg(format!("--config={}", folder.node(node, "proxy.json").display()));
    programs.push(("kube-proxy", start(folder, node, "proxy", &mut proxy)?));
    if let Some(output) = plan.addons.get(&Addon::NetworkPolicies) {
        programs.push(("network-policies", enforce_policies(folder, node, output)?));
    }
    say(&Word::Started);
    reap(&programs)
}

/// Starts the agent that decides about pods' connections, and has the kernel ask it.
fn enforce_policies(folder: &Folder, node: Node, output: &Path) -> Result<Child, NodeError> {
    for (path, content) in policies::login(folder)? {
        let parent = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(file("create", parent))?;
        fs::write(&path, content).map_err(file("write", &path))?;
    }
    let agent = policies::agent(node, output);
    let mut command = Command::new(agent.program);
    command.args(agent.arguments).envs(agent.environment);
    let child = start(folder, node, "network-policies", &mut command)?;
    let output = Command::new("iptables")
        .args(policies::RULE)
        .env("PATH", tools::PATH)
        .output()
        .map_err(|source| NodeError::Start { name: "iptables", source })?;
    if output.status.success() {
        return Ok(child);
    }
    Err(NodeError::Rule { output: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
}

/// The files that the node's programs read, and empty folders for what they write.
fn write_files(folder: &Folder, plan: &Plan, node: Node) -> Result<(), NodeError> {
    for name in mounts::FOLDERS.iter().chain(&["cni", "opt", "volume-plugins"]) {
        let path = folder.node(node, name);
        fs::create_dir_all(&path).map_err(file("create", &path))?;
    }
    for (name, text) in [
        ("containerd.toml", text::containerd(folder, plan.shape.runtime, node)),
        ("cni/10-pods.conflist", text::cni(node)),
        ("kubelet.json", text::kubelet(folder, &plan.shape, node)),
        ("proxy.json", text::proxy(folder, node)),
        ("resolv.conf", text::node_resolv_conf()),
        ("hosts", text::hosts(&plan.shape)),
    ] {
        let path = folder.node(node, name);
        fs::write(&path, text).map_err(file("write", &path))?;
    }
    Ok(())
}

fn start(
    folder: &Folder,
    node: Node,
    name: &'static str,
    command: &mut Command,
) -> Result<Child, NodeError> {
    let failed = |source| NodeError::Start { name, source };
    let path = folder.log(&format!("{}-{name}", node.name()));
    let log = File::options().create(true).append(true).open(&path).map_err(failed)?;
    let errors = log.try_clone().map_err(failed)?;
    if command.get_envs().all(|(name, _)| name != "PATH") {
        command.env("PATH", tools::PATH);
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(log).stderr(errors);
    command.spawn().map_err(failed)
}

fn await_runtime(folder: &Folder, node: Node) -> Result<(), NodeError> {
    let deadline = Instant::now() + RUNTIME_LIMIT;
    while UnixStream::connect(RUNTIME_SOCKET).is_err() {
        if Instant::now() > deadline {
            let log = folder.log(&format!("{}-containerd", node.name()));
            return Err(NodeError::Runtime { log: crate::component::tail(&log) });
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Loads an archive into the containerd of the node whose namespaces this process is in.
pub fn load(image: &Path) -> Result<(), NodeError> {
    let output = Command::new("ctr")
        .args(["--namespace", "k8s.io", "images", "import"])
        .arg(image)
        .env("PATH", tools::PATH)
        .output()
        .map_err(|source| NodeError::Start { name: "ctr", source })?;
    if output.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(NodeError::Load { image: image.to_owned(), output })
}

/// Takes the exits of all orphans of the node, for ever: shims and what they leave behind.
fn reap(programs: &[(&'static str, Child)]) -> Result<(), NodeError> {
    loop {
        match waitpid(Pid::from_raw(-1), None) {
            Ok(status) => {
                let pid = status.pid().map(|pid| pid.as_raw().cast_unsigned());
                let own = programs.iter().find(|(_, child)| Some(child.id()) == pid);
                if let Some((name, _)) = own {
                    say(&Word::Ended(format!("{name} {}", how(status))));
                }
            }
            Err(Errno::EINTR) => {}
            Err(source) => {
                return Err(NodeError::Namespace { doing: "wait for processes", source });
            }
        }
    }
}

fn how(status: WaitStatus) -> String {
    match status {
        WaitStatus::Exited(_, code) => format!("exited with {code}"),
        WaitStatus::Signaled(_, signal, _) => format!("was killed by {signal}"),
        other => format!("{other:?}"),
    }
}

/// Tells the keeper; if that is gone, so is this node in a moment.
pub fn say(word: &Word) {
    let mut line = serde_json::to_string(word).expect("a word is plain data");
    line.push('\n');
    let mut stdout = io::stdout();
    let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
}

fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> NodeError {
    let path = path.to_owned();
    move |source| NodeError::File { doing, path, source }
}
