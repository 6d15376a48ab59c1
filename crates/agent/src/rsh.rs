//! The stand-in for ssh and rsh: starts a command on another pod of the cluster for launchers
//! such as mpirun, through the overlay.
//!
//! ```text
//!   launcher ─exec─▶ client ─socket─▶ front ─channel─▶ session on the pod that is named
//! ```

pub mod arguments;
pub mod client;
pub mod names;
pub mod session;
mod visits;

use crate::broker::{Overlay, Services};
use crate::job::Jobs;
use crate::job::front::relay;
use crate::job::protocol::{body, kind};
use crate::local::Call;
use crate::program::placement;
use names::Names;
use std::net::IpAddr;
use visits::Visits;

/// The verb on the local socket.
pub const VERB: &str = "rsh";

/// Names by which the agent is called as a remote shell (`argv[0]`).
pub const CALLED: [&str; 3] = ["ssh", "rsh", "quorate-rsh"];

/// Request service on rank 0: the rank of an address, for brokers that know their own alone.
const FIND: &str = "rsh.find";

/// Adds the services and the verb.
pub fn register(jobs: &Jobs, overlay: &Overlay, services: &mut Services) {
    let (jobs, node, visits) = (jobs.clone(), overlay.clone(), Visits::default());
    services.on_channel(session::SERVICE, move |channel| {
        session::serve(jobs.clone(), node.clone(), visits.clone(), channel)
    });
    let node = overlay.clone();
    services.on_request(FIND, move |_, name| {
        let node = node.clone();
        async move {
            let name = String::from_utf8_lossy(&name).into_owned();
            table(&node).find(&name).map(|rank| body(&rank)).map_err(|error| error.to_string())
        }
    });
    let node = overlay.clone();
    services.on_verb(VERB, move |call| front(node.clone(), call));
}

/// The names of all pods, with the addresses that this broker knows of.
fn table(overlay: &Overlay) -> Names {
    let membership = overlay.membership().borrow().clone();
    let addresses: Vec<(u32, String)> = membership
        .online
        .iter()
        .flat_map(|(rank, member)| {
            member.inventory.addresses.iter().map(|address| (*rank, address.to_string()))
        })
        .collect();
    Names::new(overlay.config(), addresses.iter().map(|(rank, text)| (*rank, text.as_str())))
}

/// The rank that a name means.
async fn find(overlay: &Overlay, name: &str) -> Result<u32, String> {
    match table(overlay).find(name) {
        Ok(rank) => Ok(rank),
        // Only rank 0 knows the addresses of all.
        Err(_) if overlay.rank() != 0 && name.parse::<IpAddr>().is_ok() => {
            let answer = overlay.request(0, FIND, name.to_string().into()).await;
            let answer = answer.map_err(|error| error.to_string())?;
            serde_json::from_slice(&answer).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Serves one call of the local socket.
async fn front(overlay: Overlay, call: Call) {
    let request: client::Request = match serde_json::from_value(call.hello.args.clone()) {
        Ok(request) => request,
        Err(error) => {
            let _ = call.end(client::FAILED, Some(format!("unreadable request: {error}"))).await;
            return;
        }
    };
    let rank = match find(&overlay, &request.host).await {
        Ok(rank) => rank,
        Err(why) => {
            let _ = call.end(client::FAILED, Some(why)).await;
            return;
        }
    };
    let who = format!("{} ({})", request.host, overlay.config().display_name(rank));
    match overlay.open(rank, session::SERVICE, body(&request.session)).await {
        Ok(channel) => relay(call, channel.split(), last, (client::FAILED, Some(who))).await,
        Err(error) => {
            let why = format!("{who} cannot be reached: {error}");
            let _ = call.end(client::FAILED, Some(why)).await;
        }
    }
}

fn last(last_kind: u8, payload: &[u8]) -> Option<(i32, Option<String>)> {
    (last_kind == kind::EXIT).then(|| (session::code(payload).unwrap_or(client::FAILED), None))
}

/// Tells rank 0 that a launcher has reached this pod.
async fn landed(overlay: &Overlay) {
    let landing = placement::Landing { broker: overlay.rank() };
    if let Err(error) = overlay.cast(&[0], placement::LANDED, body(&landing)).await {
        tracing::warn!(%error, "rank 0 is not told of a remote command");
    }
}
