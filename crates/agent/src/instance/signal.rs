//! Signals for what an instance runs: its script, its jobs, or both.
//!
//! Owns: the way there. Rank 0 of the cluster around it asks the broker of the instance's pod (request
//! service [`SIGNAL`]), which asks the instance's rank 0 by its socket (verb of that name). A signal to
//! the instance's brokers themselves would end it, if it is one that ends brokers.

use super::known::{self, Instance, Known};
use crate::broker::{Overlay, Services};
use crate::job::Jobs;
use crate::job::protocol::body;
use crate::local::{Call, Hello, connect, kind};
use bytes::Bytes;
use quorate_contract::exit;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Verb, and request service of the broker of an instance's pod.
const SIGNAL: &str = "instance.signal";

/// A signal and who gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Its number on Linux.
    pub signal: u8,
    /// The script's own process.
    pub script: bool,
    /// The tasks of its jobs.
    pub steps: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    socket: PathBuf,
    delivery: Delivery,
}

/// Adds the verb and the service.
pub(super) fn register(jobs: &Jobs, known: &Known, services: &mut Services) {
    let known = known.clone();
    services.on_request(SIGNAL, move |_, body| {
        let known = known.clone();
        async move {
            let order = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            pass(&known, order).await.map(|()| Bytes::new())
        }
    });
    let jobs = jobs.clone();
    services.on_verb(SIGNAL, move |call| {
        let jobs = jobs.clone();
        async move { deliver(&jobs, call).await }
    });
}

/// Sends a signal to what the instance of a job runs; says why not.
pub async fn send(overlay: &Overlay, job: &str, delivery: Delivery) -> Result<(), String> {
    let all = overlay.request(0, known::LIST, Bytes::new()).await;
    let all = all.map_err(|error| error.to_string())?;
    let all: Vec<Instance> = serde_json::from_slice(&all).map_err(|error| error.to_string())?;
    let Some(instance) = all.into_iter().rev().find(|instance| instance.id == job) else {
        return Err(format!("the brokers of job {job} are not there"));
    };
    let order = Order { socket: instance.socket, delivery };
    let answer = overlay.request(instance.rank, SIGNAL, body(&order)).await;
    answer.map(drop).map_err(|error| error.to_string())
}

/// In the pod of the instance's rank 0.
async fn pass(known: &Known, order: Order) -> Result<(), String> {
    if !known.is_here(&order.socket) {
        return Err("the instance has ended".to_owned());
    }
    let args = serde_json::to_value(order.delivery).expect("plain data always serializes");
    let hello = Hello { verb: SIGNAL.to_owned(), args };
    let mut connection =
        connect(&order.socket, &hello).await.map_err(|error| crate::logs::chain(&error))?;
    while let Ok(Some((number, _))) = connection.recv().await {
        if number == kind::END {
            return Ok(());
        }
    }
    Err("the instance does not answer".to_owned())
}

/// On rank 0 of the instance.
async fn deliver(jobs: &Jobs, mut call: Call) {
    let Ok(delivery) = serde_json::from_value::<Delivery>(call.hello.args.take()) else {
        let _ = call.end(exit::USAGE, Some("an unreadable call".into())).await;
        return;
    };
    if delivery.script {
        jobs.signal_leaders(delivery.signal.into());
    }
    if delivery.steps {
        jobs.signal_led(delivery.signal.into());
    }
    let _ = call.end(exit::OK, None).await;
}
