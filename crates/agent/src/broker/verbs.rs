//! The broker's own verbs and services: readiness, status, look-up and trace.

use super::handle::{Overlay, OverlayError, ToNode};
use super::services::Services;
use crate::local::{Call, LocalError};
use crate::rsh::names::Names;
use bytes::Bytes;
use quorate_contract::exit;
use quorate_contract::status::{BrokerState, DIAL_FAILED};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The verb `ready`.
pub const READY: &str = "ready";
/// The verb `overlay status`, and rank 0's service of that name.
pub const STATUS: &str = "overlay.status";
/// The verb `overlay lookup`, and rank 0's service for what a rank offers.
pub const LOOKUP: &str = "overlay.lookup";
/// The verb `overlay trace`.
pub const TRACE: &str = "overlay.trace";
/// Rank 0's service for brokers that were told to stop.
pub(super) const DRAIN: &str = "overlay.drain";
/// The service that tells the next hop towards a rank.
const HOP: &str = "overlay.hop";

/// A frame that carries one JSON value of the verb's answer.
pub const VALUE: u8 = 1;

/// Changes that come closer together are shown as one.
const WATCH_PAUSE: Duration = Duration::from_millis(30);
/// A status is sent at least this often while something counts down.
const WATCH_TICK: Duration = Duration::from_secs(1);
/// The wait for another broker's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Arguments of [`STATUS`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct StatusArgs {
    /// Go on with each change.
    pub watch: bool,
}

/// Arguments of [`LOOKUP`] and [`TRACE`]: a rank, a name or an address.
#[derive(Debug, Serialize, Deserialize)]
pub struct TargetArgs {
    /// As typed.
    pub target: String,
}

/// The answer of [`LOOKUP`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// The rank.
    pub rank: u32,
    /// The pod as people call it.
    pub name: String,
    /// Its host name.
    pub host: String,
    /// Its full DNS name.
    pub full_name: String,
    /// Whether it is connected.
    pub online: bool,
    /// Its addresses, where it is connected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The node that it is on, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its accelerators, as `vendor:id`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
}

/// One step of [`TRACE`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// The broker.
    pub rank: u32,
    /// The pod as people call it.
    pub name: String,
    /// Microseconds from here to there and back.
    pub round_trip_micros: u64,
}

/// What rank 0 knows of a rank.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    online: bool,
    addresses: Vec<String>,
    node: Option<String>,
    #[serde(default)]
    gpus: Vec<String>,
}

/// Adds the broker's own verbs and services.
pub(super) fn register(overlay: &Overlay, services: &mut Services) {
    let own = overlay.clone();
    services.on_request(STATUS, move |_, _| {
        let overlay = own.clone();
        async move {
            let status = overlay.status().await.map_err(|error| error.to_string())?;
            Ok(json(&status))
        }
    });
    let own = overlay.clone();
    services.on_request(LOOKUP, move |_, body| {
        let known = known(&own, &body);
        async move { known }
    });
    let own = overlay.clone();
    services.on_request(DRAIN, move |from, _| {
        let overlay = own.clone();
        async move {
            let drain = overlay.tell(ToNode::Draining { rank: from }).await;
            drain.map(|()| Bytes::new()).map_err(|error| error.to_string())
        }
    });
    let own = overlay.clone();
    services.on_request(HOP, move |_, body| {
        let overlay = own.clone();
        async move {
            let to = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            let hop = overlay.next_hop(to).await.map_err(|error| error.to_string())?;
            Ok(json(&hop))
        }
    });
    verb(overlay, services, READY, |overlay, call| async move { ready(&overlay, call).await });
    verb(overlay, services, STATUS, |overlay, call| async move { status(&overlay, call).await });
    verb(overlay, services, LOOKUP, |overlay, call| async move { lookup(&overlay, call).await });
    verb(overlay, services, TRACE, |overlay, call| async move { trace(&overlay, call).await });
}

fn verb<F, Fut>(overlay: &Overlay, services: &mut Services, name: &str, run: F)
where
    F: Fn(Overlay, Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), LocalError>> + Send + 'static,
{
    let overlay = overlay.clone();
    services.on_verb(name, move |call| {
        let answer = run(overlay.clone(), call);
        async move {
            if let Err(error) = answer.await {
                // The client has gone: nobody is left to tell.
                tracing::debug!(%error, "a local call broke off");
            }
        }
    });
}

fn json<T: Serialize>(value: &T) -> Bytes {
    serde_json::to_vec(value).expect("plain data always serializes").into()
}

async fn ready(overlay: &Overlay, call: Call) -> Result<(), LocalError> {
    let state = overlay.membership().borrow().state;
    // A launcher is ready when the cluster is quorate, a worker when rank 0 knows it.
    let ready = match overlay.rank() {
        0 => state == BrokerState::Run,
        _ => matches!(state, BrokerState::Quorum | BrokerState::Run),
    };
    if ready {
        call.end(exit::OK, None).await
    } else {
        let text = not_ready(state, overlay.dial_failure().as_deref());
        call.end(exit::FAILED, Some(text)).await
    }
}

/// What the kubelet writes into an event, from which `quorate_observe` takes the error again.
fn not_ready(state: BrokerState, dial_failure: Option<&str>) -> String {
    let text = format!("not ready: the broker is in state {}", word(state));
    match dial_failure {
        Some(why) => format!("{text}{DIAL_FAILED}{why}"),
        None => text,
    }
}

fn word(state: BrokerState) -> String {
    serde_json::to_value(state)
        .ok()
        .and_then(|value| value.as_str().map(str::to_uppercase))
        .unwrap_or_default()
}

async fn status(overlay: &Overlay, mut call: Call) -> Result<(), LocalError> {
    let args: StatusArgs = serde_json::from_value(call.hello.args.take()).unwrap_or_default();
    let mut changes = overlay.changes();
    let mut last = Bytes::new();
    loop {
        changes.mark_unchanged();
        let now = if overlay.rank() == 0 {
            match overlay.status().await {
                Ok(status) => Ok(json(&status)),
                // The broker leaves: so ends the watch.
                Err(_) if args.watch => return call.end(exit::OK, None).await,
                Err(error) => Err(error),
            }
        } else {
            ask(overlay, 0, STATUS, Bytes::new()).await
        };
        match now {
            Ok(now) => {
                if now != last {
                    call.connection.send(VALUE, &now).await?;
                    last = now;
                }
            }
            Err(error) if !args.watch => {
                let text = format!("rank 0 does not answer: {error}");
                return call.end(exit::UNAVAILABLE, Some(text)).await;
            }
            Err(_) => {}
        }
        if !args.watch {
            return call.end(exit::OK, None).await;
        }
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    return call.end(exit::OK, None).await;
                }
                sleep(WATCH_PAUSE).await;
            }
            () = sleep(WATCH_TICK) => {}
            gone = call.connection.recv() => {
                if !matches!(gone, Ok(Some(_))) {
                    return Ok(());
                }
            }
        }
    }
}

async fn ask(
    overlay: &Overlay,
    to: u32,
    service: &str,
    body: Bytes,
) -> Result<Bytes, OverlayError> {
    let late = OverlayError::Lost { rank: to, reason: "no answer in time".to_owned() };
    timeout(PATIENCE, overlay.request(to, service, body)).await.unwrap_or(Err(late))
}

/// The rank that a text means: a number, or one of the names of a pod.
fn target(overlay: &Overlay, call: &mut Call) -> Result<u32, String> {
    let args: TargetArgs = serde_json::from_value(call.hello.args.take())
        .map_err(|error| format!("an unreadable call: {error}"))?;
    let config = overlay.config();
    let unknown = |rank| {
        format!("rank {rank} is not in the cluster: its largest size is {}", config.max_size)
    };
    if let Ok(rank) = args.target.parse::<u32>() {
        return if config.locate(rank).is_some() { Ok(rank) } else { Err(unknown(rank)) };
    }
    let members = overlay.membership().borrow().clone();
    let addresses: Vec<(u32, String)> = members
        .online
        .iter()
        .flat_map(|(&rank, member)| {
            member.inventory.addresses.iter().map(move |ip| (rank, ip.to_string()))
        })
        .collect();
    let addresses = addresses.iter().map(|(rank, ip)| (*rank, ip.as_str()));
    Names::new(config, addresses).find(&args.target).map_err(|error| error.to_string())
}

/// Rank 0's answer to [`LOOKUP`].
fn known(overlay: &Overlay, body: &[u8]) -> Result<Bytes, String> {
    let rank: u32 = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let membership = overlay.membership().borrow().clone();
    let known = membership.online.get(&rank).map_or_else(Known::default, |member| Known {
        online: true,
        addresses: member.inventory.addresses.iter().map(ToString::to_string).collect(),
        node: member.inventory.node.clone(),
        gpus: member
            .inventory
            .gpus
            .iter()
            .map(|gpu| format!("{}:{}", gpu.vendor, gpu.id))
            .collect(),
    });
    Ok(json(&known))
}

async fn lookup(overlay: &Overlay, mut call: Call) -> Result<(), LocalError> {
    let rank = match target(overlay, &mut call) {
        Ok(rank) => rank,
        Err(text) => return call.end(exit::FAILED, Some(text)).await,
    };
    let answer = ask(overlay, 0, LOOKUP, json(&rank)).await;
    let known: Known = match answer {
        Ok(body) => serde_json::from_slice(&body).unwrap_or_default(),
        Err(error) => {
            let text = format!("rank 0 does not answer: {error}");
            return call.end(exit::UNAVAILABLE, Some(text)).await;
        }
    };
    let config = overlay.config();
    let found = Found {
        rank,
        name: config.display_name(rank),
        host: config.host_name(rank).unwrap_or_default(),
        full_name: config.full_name(rank).unwrap_or_default(),
        online: known.online,
        addresses: known.addresses,
        node: known.node,
        gpus: known.gpus,
    };
    call.connection.send(VALUE, &json(&found)).await?;
    call.end(exit::OK, None).await
}

/// Tells rank 0 that this broker was told to stop, and waits until it knows.
pub(super) async fn drain(overlay: &Overlay) -> Result<(), OverlayError> {
    ask(overlay, 0, DRAIN, Bytes::new()).await.map(drop)
}

/// Asks a broker for its next hop towards `to`.
pub(super) async fn hop(
    overlay: &Overlay,
    broker: u32,
    to: u32,
) -> Result<Option<u32>, OverlayError> {
    let body = ask(overlay, broker, HOP, json(&to)).await?;
    Ok(serde_json::from_slice(&body).unwrap_or_default())
}

/// Asks each broker on the way for the next one, and takes the time of each answer.
async fn trace(overlay: &Overlay, mut call: Call) -> Result<(), LocalError> {
    let to = match target(overlay, &mut call) {
        Ok(rank) => rank,
        Err(text) => return call.end(exit::FAILED, Some(text)).await,
    };
    let mut at = overlay.rank();
    let mut seen = vec![at];
    loop {
        let start = Instant::now();
        let next = match hop(overlay, at, to).await {
            Ok(next) => next,
            Err(error) => {
                let text = format!("the way ends at rank {at}: {error}");
                return call.end(exit::UNAVAILABLE, Some(text)).await;
            }
        };
        let hop = Hop {
            rank: at,
            name: overlay.config().display_name(at),
            round_trip_micros: start.elapsed().as_micros() as u64,
        };
        call.connection.send(VALUE, &json(&hop)).await?;
        if at == to {
            return call.end(exit::OK, None).await;
        }
        match next {
            Some(next) if !seen.contains(&next) => {
                seen.push(next);
                at = next;
            }
            _ => {
                let text = format!("rank {at} knows no way to rank {to}");
                return call.end(exit::UNAVAILABLE, Some(text)).await;
            }
        }
    }
}
