//! Clusters as callers use them: up, changed in tests, down with proof.

use crate::build;
use crate::census::{self, Census, Settings};
use crate::control::{self, ControlError, NodeAction, Request, Status};
use crate::keeper::Event;
use crate::layout::{Folder, Node, Shape, ShapeError, clusters_dir};
use crate::plan::{Plan, PlanError};
use crate::tools;
use crate::watches;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// How long a cluster may take to end.
const DOWN_LIMIT: Duration = Duration::from_secs(20);

/// Why a cluster could not be started, used or ended.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The shape is not one.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Programs or images are missing.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The keeper refused or is gone.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// One of that name is up, or was not ended.
    #[error("cluster {name} exists already; `testbed down --name {name}` ends it")]
    Exists {
        /// Its name.
        name: String,
    },
    /// It needs the rights of root.
    #[error("a cluster needs root: it makes namespaces, control groups and overlays")]
    NotRoot,
    /// Programs of the distribution are missing.
    #[error(transparent)]
    Tools(#[from] tools::Missing),
    /// The machine has no room for its file watchers.
    #[error(transparent)]
    Watches(#[from] watches::NoRoom),
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
    /// The program `testbed` is not there.
    #[error("cannot build the program testbed: {0}")]
    Program(String),
    /// It did not come up.
    #[error("cluster {name} does not start: {reason}")]
    Start {
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// It did not go.
    #[error("cluster {name} left something behind:\n  {}", left.join("\n  "))]
    Left {
        /// Its name.
        name: String,
        /// What, one line each.
        left: Vec<String>,
    },
}

fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ClusterError {
    let path = path.to_owned();
    move |source| ClusterError::File { doing, path, source }
}

/// Starts a cluster and returns when it can be used; `say` gets a line for each part.
pub fn up(shape: Shape, say: &mut dyn FnMut(&str)) -> Result<Folder, ClusterError> {
    shape.check()?;
    if !nix::unistd::geteuid().is_root() {
        return Err(ClusterError::NotRoot);
    }
    if shape.nodes > 0 {
        tools::check()?;
        watches::check(usize::from(shape.nodes))?;
    }
    let folder = Folder::new(&shape.name);
    let plan = Plan::new(shape, say)?;
    let program = program()?;
    create_root(&folder)?;
    let outcome = start(&folder, &plan, &program, say);
    if outcome.is_err() {
        // The guard removes the folder when it ends; where none came to be, this does.
        let deadline = Instant::now() + DOWN_LIMIT;
        while pid(&folder, "guard").is_some_and(census::alive) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = fs::remove_dir_all(folder.root());
    }
    outcome.map(|()| folder)
}

fn create_root(folder: &Folder) -> Result<(), ClusterError> {
    let parent = clusters_dir();
    loop {
        fs::create_dir_all(&parent).map_err(file("create", &parent))?;
        match fs::create_dir(folder.root()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(ClusterError::Exists { name: folder.name().into() });
            }
            // The end of the last other cluster has just removed the parent.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => return outcome.map_err(file("create", folder.root())),
        }
    }
}

fn start(
    folder: &Folder,
    plan: &Plan,
    program: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), ClusterError> {
    plan.write(folder)?;
    let settings = folder.path("settings.json");
    let text = serde_json::to_string(&Settings::read()).expect("settings are plain data");
    fs::write(&settings, text).map_err(file("write", &settings))?;
    let logs = folder.path("log");
    fs::create_dir(&logs).map_err(file("create", &logs))?;
    let log = folder.log("keeper");
    // Read through this descriptor if the start fails: by then the guard has removed the file.
    let mut options = fs::File::options();
    let mut kept =
        options.read(true).append(true).create(true).open(&log).map_err(file("create", &log))?;
    let errors = kept.try_clone().map_err(file("share", &log))?;
    let mut guard = Command::new(program)
        .args(["guard", folder.name()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .map_err(file("start", program))?;
    let events = BufReader::new(guard.stdout.take().expect("its output is a pipe"));
    let failed = |reason: String| ClusterError::Start { name: folder.name().into(), reason };
    for line in events.lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Event::Step { name, seconds }) => say(&format!("{seconds:5.1} s  {name} ready")),
            Ok(Event::Ready) => return Ok(()),
            Ok(Event::Failed(reason)) => return Err(failed(reason)),
            Err(_) => return Err(failed(format!("its keeper says {line}"))),
        }
    }
    let mut text = String::new();
    let _ = kept.seek(SeekFrom::Start(0)).and_then(|_| kept.read_to_string(&mut text));
    Err(failed(format!("its keeper ended: {}", text.trim())))
}

/// Writes down what a cluster consists of now.
pub fn census(folder: &Folder) -> Census {
    let before = fs::read_to_string(folder.path("settings.json")).ok();
    let before = before.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let top = pid(folder, "guard").or_else(|| pid(folder, "keeper"));
    Census::take(top, before, outer_port(folder))
}

/// Ends a cluster, running or not, and proves that nothing of it is left. Answers how many processes
/// and namespaces there were.
pub fn down(folder: &Folder) -> Result<(usize, usize), ClusterError> {
    if !folder.root().exists() {
        return Err(ControlError::NotUp { name: folder.name().into() }.into());
    }
    let shape = Plan::read(folder).map(|plan| plan.shape);
    let guard = pid(folder, "guard");
    let keeper = pid(folder, "keeper");
    let census = census(folder);
    if control::ask(folder, &Request::Down).is_err()
        && let Some(keeper) = keeper
    {
        // A keeper that does not listen (yet, or any more) is killed: the guard does the rest.
        let keeper = nix::unistd::Pid::from_raw(keeper.cast_signed());
        let _ = nix::sys::signal::kill(keeper, nix::sys::signal::Signal::SIGKILL);
    }
    let deadline = Instant::now() + DOWN_LIMIT;
    let running = |pid: Option<u32>| pid.is_some_and(census::alive);
    while (running(guard) || running(keeper)) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    if folder.root().exists() && !running(guard) {
        crate::guard::clean(folder, &shape.unwrap_or_default());
    }
    let left = census.left(folder);
    if left.is_empty() {
        return Ok(census.size());
    }
    Err(ClusterError::Left { name: folder.name().into(), left })
}

/// The guard or keeper of a cluster, if it runs.
fn pid(folder: &Folder, role: &str) -> Option<u32> {
    let text = fs::read_to_string(folder.path(&format!("{role}.pid"))).ok()?;
    let pid = text.trim().parse().ok()?;
    // The number may be another program's by now.
    census::command(pid).ends_with(&format!("{role} {}", folder.name())).then_some(pid)
}

/// The port of the machine's loopback that leads to the API.
fn outer_port(folder: &Folder) -> Option<u16> {
    let text = fs::read_to_string(folder.outer_kubeconfig()).ok()?;
    let config: serde_json::Value = serde_json::from_str(&text).ok()?;
    config["clusters"][0]["cluster"]["server"].as_str()?.rsplit_once(':')?.1.parse().ok()
}

/// The clusters that were started and not ended.
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(clusters_dir()).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A process whose namespaces are those of the control plane, or of a node that runs.
pub fn process_of(folder: &Folder, node: Option<Node>) -> Result<u32, ClusterError> {
    let not_up = || ControlError::NotUp { name: folder.name().into() };
    let keeper = pid(folder, "keeper").ok_or_else(not_up)?;
    let Some(node) = node else { return Ok(keeper) };
    let status = control::status(folder)?;
    let init = status.nodes.iter().find(|one| one.name == node.name()).and_then(|one| one.pid);
    init.and_then(|init| census::node_init(keeper, init))
        .ok_or_else(|| ControlError::Refused(format!("node {} is not running", node.name())).into())
}

/// The program `testbed`, which keepers and nodes are: `QUORATE_TESTBED_PROGRAM`, else the calling program
/// if it is that, else built by cargo.
pub fn program() -> Result<PathBuf, ClusterError> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(program) = env::var_os("QUORATE_TESTBED_PROGRAM").filter(|value| !value.is_empty())
    {
        return Ok(PathBuf::from(program));
    }
    if let Ok(own) = env::current_exe()
        && own.file_name() == Some(OsStr::new("testbed"))
    {
        return Ok(own);
    }
    BUILT.get_or_init(build_program).clone().map_err(ClusterError::Program)
}

fn build_program() -> Result<PathBuf, String> {
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(build::workspace_root())
        .args(["build", "--quiet", "-p", "quorate-testbed", "--bin", "testbed"])
        .arg("--message-format=json")
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    };
    let found = text.lines().filter_map(executable).next_back();
    found.ok_or_else(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// A cluster that ends with this value.
#[derive(Debug)]
pub struct Cluster {
    folder: Folder,
    kubectl: PathBuf,
    ended: bool,
}

impl Cluster {
    /// Starts a cluster that also ends if this process is killed. Its progress goes to standard
    /// error.
    #[expect(clippy::print_stderr, reason = "tests show it when they fail")]
    pub fn up(shape: Shape) -> Result<Self, ClusterError> {
        let shape = Shape { owner: Some(std::process::id()), ..shape };
        let name = shape.name.clone();
        let folder = up(shape, &mut |line| eprintln!("{name}: {line}"))?;
        let kubectl = Plan::read(&folder)?.core("kubectl");
        Ok(Self { folder, kubectl, ended: false })
    }

    /// Its paths: logs, certificates, the audit log.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// How the machine reaches the API, as administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.outer_kubeconfig()
    }

    /// kubectl for this cluster.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        // Its cache goes by address, and clusters share one.
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .arg("--cache-dir")
            .arg(self.folder.path("kubectl-cache"));
        command
    }

    /// A command to run beside the control plane, or on a node, where it reaches pods and services
    /// by name; its arguments are to be added. It ends with the command's code, and passes signals
    /// to end on.
    pub fn exec(&self, node: Option<Node>) -> Result<Command, ClusterError> {
        let mut command = Command::new(program()?);
        command.args(["exec", "--name", self.folder.name()]);
        if let Some(node) = node {
            command.args(["--node", &node.name()]);
        }
        command.arg("--");
        Ok(command)
    }

    /// How it is.
    pub fn status(&self) -> Result<Status, ClusterError> {
        Ok(control::status(&self.folder)?)
    }

    /// Takes a node's link down: what runs there runs on, alone.
    pub fn cut_node(&self, node: Node) -> Result<(), ClusterError> {
        self.node(node, NodeAction::Cut)
    }

    /// Takes a node's link up again.
    pub fn heal_node(&self, node: Node) -> Result<(), ClusterError> {
        self.node(node, NodeAction::Heal)
    }

    /// Kills a node with everything on it.
    pub fn kill_node(&self, node: Node) -> Result<(), ClusterError> {
        self.node(node, NodeAction::Kill)
    }

    /// Starts a killed node again.
    pub fn start_node(&self, node: Node) -> Result<(), ClusterError> {
        self.node(node, NodeAction::Start)
    }

    fn node(&self, node: Node, action: NodeAction) -> Result<(), ClusterError> {
        self.ask(&Request::Node { node, action })
    }

    /// Kills a component of the control plane, such as `jobset`.
    pub fn stop(&self, component: &str) -> Result<(), ClusterError> {
        self.ask(&Request::Stop { component: component.into() })
    }

    /// Starts a component that was stopped, and waits until it is ready.
    pub fn start(&self, component: &str) -> Result<(), ClusterError> {
        self.ask(&Request::Start { component: component.into() })
    }

    /// Both.
    pub fn restart(&self, component: &str) -> Result<(), ClusterError> {
        self.ask(&Request::Restart { component: component.into() })
    }

    /// Loads an archive of an image into every node.
    pub fn load(&self, image: &Path) -> Result<(), ClusterError> {
        let image = fs::canonicalize(image).map_err(file("open", image))?;
        self.ask(&Request::Load { image })
    }

    fn ask(&self, request: &Request) -> Result<(), ClusterError> {
        control::ask(&self.folder, request)?;
        Ok(())
    }

    /// Ends it and proves that nothing is left.
    pub fn down(mut self) -> Result<(), ClusterError> {
        self.ended = true;
        down(&self.folder).map(drop)
    }
}

impl Drop for Cluster {
    #[expect(
        clippy::print_stderr,
        clippy::panic,
        reason = "a test that leaves something must fail"
    )]
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        match down(&self.folder) {
            Err(error) if thread::panicking() => eprintln!("{error}"),
            Err(error) => panic!("{error}"),
            Ok(_) => {}
        }
    }
}
