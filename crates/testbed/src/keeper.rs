//! The keeper: PID 1 of everything that a cluster is made of, in a PID and a mount namespace of its
//! own. When it ends, the kernel ends the rest.
//!
//! It starts the parts in order, answers requests on the cluster's socket, and offers the API on a
//! port of the machine's loopback. What must be done after its end is the guard's
//! ([`crate::guard`]).

mod forward;
mod node;
mod orphans;
mod serve;
mod start;

use crate::addons::{AddonError, stages};
use crate::api::{Api, ApiError, Prober};
use crate::component::{Component, ComponentError, Recipe};
use crate::configuration as text;
use crate::control_plane;
use crate::layout::{Folder, Node};
use crate::network::{self, CONTROL_PLANE_NAMESPACE, NetworkError};
use crate::node::mounts::{self, MountError};
use crate::pki::{self, PkiError};
use crate::plan::{Plan, PlanError};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use node::NodeHandle;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;

/// What the keeper tells whoever starts the cluster, one line of JSON each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// A part is ready.
    Step {
        /// Which.
        name: String,
        /// Seconds since the start.
        seconds: f64,
    },
    /// The cluster can be used.
    Ready,
    /// It cannot be started; causes are joined by colons.
    Failed(String),
}

/// Why a cluster does not start, or a request fails.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// No plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A mount failed.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// No network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// No certificates.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// A component does not run.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// What an addon needs is not there.
    #[error(transparent)]
    Addon(#[from] AddonError),
    /// The API refused.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A namespace could not be made or entered.
    #[error("cannot {doing}")]
    Namespace {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// A file or socket could not be used.
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
    /// A node does not start or stop.
    #[error("node {name}: {reason}")]
    Node {
        /// Which.
        name: String,
        /// Why not.
        reason: String,
    },
    /// There is no such part.
    #[error("there is no {what} {name}; there are {known}")]
    Unknown {
        /// Component or node.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Something does not become ready.
    #[error("{what} after {seconds} s")]
    Late {
        /// What is not.
        what: String,
        /// How long it had.
        seconds: u64,
    },
}

impl KeeperError {
    /// Whether it may go by itself.
    fn passes(&self) -> bool {
        match self {
            Self::Api(error) | Self::Addon(AddonError::Api { source: error, .. }) => error.passes(),
            _ => false,
        }
    }

    /// It and its causes, joined by colons.
    fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}

/// A running cluster.
struct Keeper {
    folder: Folder,
    plan: Plan,
    port: u16,
    components: Vec<Component>,
    nodes: Vec<NodeHandle>,
    api: Api,
    prober: Prober,
}

/// Runs a cluster until it is told to end. Must be called in a process with one thread that is PID 1
/// of its PID namespace. Standard output takes [`Event`]s until the cluster is ready; the end of
/// standard input says that the guard has died.
pub fn run(folder: Folder) -> Result<std::convert::Infallible, KeeperError> {
    let plan = Plan::read(&folder)?;
    settle(&folder, &plan)?;
    let loopback = (Ipv4Addr::LOCALHOST, 0);
    let unbound =
        |source| KeeperError::File { doing: "listen on", path: "127.0.0.1".into(), source };
    // Made before the network namespace is entered, so it belongs to the machine's.
    let outside = TcpListener::bind(loopback).map_err(unbound)?;
    let port = outside.local_addr().map_err(unbound)?.port();
    network::create(&plan.shape)?;
    enter_control_plane()?;

    let token = pki::write(&folder, &plan.shape, port)?;
    write_files(&folder, &plan)?;
    let authority = folder.pki("ca.crt");
    let authority = fs::read_to_string(&authority).map_err(file("read", &authority))?;
    let component = |recipe: Recipe| {
        let log = folder.log(recipe.name);
        Component::new(recipe, log)
    };
    let keeper: &'static Keeper = Box::leak(Box::new(Keeper {
        components: control_plane::recipes(&folder, &plan).into_iter().map(component).collect(),
        nodes: plan.shape.nodes().map(NodeHandle::new).collect(),
        api: Api::new(&authority, &token)?,
        prober: Prober::default(),
        folder,
        plan,
        port,
    }));
    let socket = keeper.folder.socket();
    let control = UnixListener::bind(&socket).map_err(file("listen on", &socket))?;
    thread::spawn(|| end_with_guard(keeper));
    thread::spawn(move || forward::run(&outside));
    thread::spawn(|| orphans::run(keeper));
    thread::spawn(move || {
        let outcome = start::run(keeper, &authority);
        report(&match outcome {
            Ok(()) => Event::Ready,
            Err(error) => report_failure(&error),
        });
    });
    serve::run(keeper, &control)
}

/// Tells of a failure and ends: what runs already ends with this process.
pub fn report_failure(error: &KeeperError) -> ! {
    report(&Event::Failed(error.chain()));
    std::process::exit(1)
}

/// Tells whoever waits for the cluster. When nobody does any more, the cluster is not wanted.
fn report(event: &Event) {
    let mut line = serde_json::to_string(event).expect("an event is plain data");
    line.push('\n');
    let mut stdout = io::stdout();
    if stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Waits for the end of the guard, whose work is then this process's.
fn end_with_guard(keeper: &Keeper) {
    let _ = io::stdin().read_to_end(&mut Vec::new());
    orphans::end_all();
    // A folder with a mount on it cannot be removed, and the guard's view had none.
    mounts::detach(&keeper.folder.path("etcd"));
    for node in keeper.plan.shape.nodes() {
        mounts::detach(&keeper.folder.node(node, "containerd"));
    }
    mounts::detach(Path::new("/etc"));
    crate::guard::clean(&keeper.folder, &keeper.plan.shape);
    std::process::exit(1);
}

/// A mount namespace in which `/proc`, `/run` and `/etc` are the cluster's own. Here, and not on the
/// nodes, is the memory that their images and containers are in: it outlives a node that is killed,
/// as a disk does.
fn settle(folder: &Folder, plan: &Plan) -> Result<(), KeeperError> {
    unshare(CloneFlags::CLONE_NEWNS)
        .map_err(|source| KeeperError::Namespace { doing: "make a mount namespace", source })?;
    mounts::private_root()?;
    mounts::own_proc()?;
    mounts::tmpfs(Path::new("/run"))?;
    let (upper, work) = (folder.path("etc-up"), folder.path("etc-work"));
    for path in [&upper, &work] {
        fs::create_dir_all(path).map_err(file("create", path))?;
    }
    mounts::overlay(Path::new("/etc"), &upper, &work)?;
    mounts::memory(&folder.path("etcd"))?;
    for node in plan.shape.nodes() {
        mounts::memory(&folder.node(node, "containerd"))?;
    }
    Ok(())
}

fn enter_control_plane() -> Result<(), KeeperError> {
    let path = network::namespace_path(CONTROL_PLANE_NAMESPACE);
    let namespace = File::open(&path).map_err(file("open", &path))?;
    setns(namespace, CloneFlags::CLONE_NEWNET).map_err(|source| KeeperError::Namespace {
        doing: "enter the control plane's network namespace",
        source,
    })
}

/// The files that the control plane reads.
fn write_files(folder: &Folder, plan: &Plan) -> Result<(), KeeperError> {
    for name in ["log", "webhook", "volume-plugins"] {
        let path = folder.path(name);
        fs::create_dir_all(&path).map_err(file("create", &path))?;
    }
    copy_certificate(folder, &folder.path("webhook"))?;
    let etc = |name: &str| {
        let path = Path::new("/etc").join(name);
        // It may be a link to a place that is not there any more.
        let _ = fs::remove_file(&path);
        path
    };
    for addon in plan.addons.keys() {
        if let Some(copies) = addon.certificates(folder) {
            copy_certificate(folder, &copies)?;
        }
        for (path, text) in addon.files(folder) {
            fs::write(&path, text).map_err(file("write", &path))?;
        }
    }
    if let Some(kwok) = &plan.kwok {
        let path = folder.path("kwok.yaml");
        let text = stages::configuration(kwok)?;
        fs::write(&path, text).map_err(file("write", &path))?;
    }
    for (path, text) in [
        (folder.path("audit-policy.json"), text::audit_policy()),
        (folder.path("Corefile"), text::corefile(folder, &plan.shape)),
        (folder.path("jobset.json"), text::jobset(folder)),
        (etc("resolv.conf"), text::resolv_conf(&plan.shape)),
        (etc("hosts"), text::hosts(&plan.shape)),
    ] {
        fs::write(&path, text).map_err(file("write", &path))?;
    }
    Ok(())
}

/// The webhooks' certificate and key by the names that controllers' libraries look for.
fn copy_certificate(folder: &Folder, to: &Path) -> Result<(), KeeperError> {
    fs::create_dir_all(to).map_err(file("create", to))?;
    for kind in ["crt", "key"] {
        let from = folder.pki(&format!("webhook.{kind}"));
        fs::copy(&from, to.join(format!("tls.{kind}"))).map_err(file("copy", &from))?;
    }
    Ok(())
}

fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KeeperError {
    let path = path.to_owned();
    move |source| KeeperError::File { doing, path, source }
}

impl Keeper {
    fn component(&self, name: &str) -> Result<&Component, KeeperError> {
        self.components.iter().find(|component| component.name() == name).ok_or_else(|| {
            let known: Vec<_> = self.components.iter().map(Component::name).collect();
            let known = known.join(", ");
            KeeperError::Unknown { what: "component", name: name.into(), known }
        })
    }

    fn node(&self, node: Node) -> Result<&NodeHandle, KeeperError> {
        self.nodes.iter().find(|handle| handle.node() == node).ok_or_else(|| {
            let known: Vec<_> = self.nodes.iter().map(|handle| handle.node().name()).collect();
            let known = known.join(", ");
            KeeperError::Unknown { what: "node", name: node.name(), known }
        })
    }
}
