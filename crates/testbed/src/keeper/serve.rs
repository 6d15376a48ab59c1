//! Answers requests on the cluster's socket.

use super::{Keeper, KeeperError, start};
use crate::control::{ComponentStatus, NodeAction, NodeStatus, Reply, Request, Status};
use crate::layout::Node;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{self, Command};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Serves for ever. Requests that change something wait for each other.
pub(super) fn run(
    keeper: &'static Keeper,
    socket: &UnixListener,
) -> Result<Infallible, KeeperError> {
    static CHANGES: Mutex<()> = Mutex::new(());
    loop {
        // A client that has gone again needs nothing.
        let Ok((stream, _)) = socket.accept() else { continue };
        thread::spawn(move || {
            let Some(request) = read(&stream) else { return };
            let reply = match &request {
                Request::Status => Reply::Status(Box::new(status(keeper))),
                Request::Down => {
                    answer(&stream, &Reply::Done);
                    // The kernel ends everything below PID 1 with it.
                    process::exit(0);
                }
                change => {
                    let _one = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
                    match perform(keeper, change) {
                        Ok(()) => Reply::Done,
                        Err(error) => Reply::Failed(error.chain()),
                    }
                }
            };
            answer(&stream, &reply);
        });
    }
}

fn read(stream: &UnixStream) -> Option<Request> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

fn answer(mut stream: &UnixStream, reply: &Reply) {
    let mut line = serde_json::to_string(reply).expect("a reply is plain data");
    line.push('\n');
    // Who does not wait for the answer does not need it.
    let _ = stream.write_all(line.as_bytes());
}

fn perform(keeper: &'static Keeper, request: &Request) -> Result<(), KeeperError> {
    match request {
        Request::Restart { component } => {
            let component = keeper.component(component)?;
            component.stop();
            Ok(component.start(&keeper.prober)?)
        }
        Request::Stop { component } => {
            keeper.component(component)?.stop();
            Ok(())
        }
        Request::Start { component } => Ok(keeper.component(component)?.start(&keeper.prober)?),
        Request::Node { node, action } => {
            let node = keeper.node(*node)?;
            match action {
                NodeAction::Cut => node.link(false),
                NodeAction::Heal => node.link(true),
                NodeAction::Kill => node.kill(&keeper.folder),
                NodeAction::Start => node.boot(&keeper.folder).and_then(|()| node.join()),
            }
        }
        Request::Load { image } => {
            for node in &keeper.nodes {
                if let Some(init) = node.init() {
                    load(node.node(), init, image)?;
                }
            }
            Ok(())
        }
        Request::Status | Request::Down => Ok(()),
    }
}

/// Runs `ctr` on a node.
fn load(node: Node, init: u32, image: &Path) -> Result<(), KeeperError> {
    let failed = |reason: String| KeeperError::Node { name: node.name(), reason };
    let output = Command::new("/proc/self/exe")
        .args(["enter", &init.to_string(), "ctr", "--namespace", "k8s.io", "images", "import"])
        .arg(image)
        .output()
        .map_err(|error| failed(format!("cannot run ctr: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(failed(format!("cannot load {}: {output}", image.display())))
}

fn status(keeper: &Keeper) -> Status {
    // With the API down, what it holds of the nodes is not known.
    let list = keeper.api.get("/api/v1/nodes?resourceVersion=0").unwrap_or_default();
    let ready: BTreeMap<&str, &str> = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|node| Some((node["metadata"]["name"].as_str()?, start::readiness(node)?)))
        .collect();
    let component = |part: &crate::component::Component| ComponentStatus {
        name: part.name().into(),
        state: part.state(),
    };
    let node = |handle: &super::NodeHandle| {
        let name = handle.node().name();
        NodeStatus {
            pid: handle.init(),
            linked: handle.linked(),
            ready: ready.get(name.as_str()).map(|ready| (*ready).to_owned()),
            name,
        }
    };
    Status {
        name: keeper.folder.name().into(),
        port: keeper.port,
        components: keeper.components.iter().map(component).collect(),
        nodes: keeper.nodes.iter().map(node).collect(),
        fake_nodes: keeper.plan.shape.fake_nodes,
    }
}
