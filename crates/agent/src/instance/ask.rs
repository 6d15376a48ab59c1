//! What Slurm's names ask of the cluster within a job: which steps there are, and to end one.
//!
//! Owns: the way there, as [`super::signal`] goes it: rank 0 of the cluster around it asks the broker of
//! the instance's pod (request service [`SERVICE`]), which asks the instance's queue by its socket. A step
//! of a script is a job of that queue; its number is the job's less one.

use super::known::{self, Instance, Known};
use crate::broker::{Overlay, Services};
use crate::job::protocol::body;
use crate::queue::{self, Steps};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Request service of the broker of an instance's pod.
const SERVICE: &str = "instance.ask";

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Ask {
    /// The last steps.
    Steps,
    /// Ends a step, or sends its tasks a signal.
    Cancel {
        /// Its number.
        step: u32,
        /// The signal, instead of its end.
        signal: Option<u8>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    socket: PathBuf,
    ask: Ask,
}

/// Adds the service.
pub(super) fn register(known: &Known, services: &mut Services) {
    let known = known.clone();
    services.on_request(SERVICE, move |_, asked| {
        let known = known.clone();
        async move {
            let Order { socket, ask } =
                serde_json::from_slice(&asked).map_err(|error| error.to_string())?;
            if !known.is_here(&socket) {
                return Err("the instance has ended".to_owned());
            }
            let steps = queue::ask_instance(&socket, ask).await;
            steps.map(|steps| body(&steps)).map_err(|error| format!("{error:#}"))
        }
    });
}

/// Asks the instance of a job; says why not.
pub(crate) async fn ask(overlay: &Overlay, job: &str, ask: Ask) -> Result<Steps, String> {
    let all = overlay.request(0, known::LIST, bytes::Bytes::new()).await;
    let all = all.map_err(|error| error.to_string())?;
    let all: Vec<Instance> = serde_json::from_slice(&all).map_err(|error| error.to_string())?;
    let Some(instance) = all.into_iter().rev().find(|instance| instance.id == job) else {
        return Err(format!("the brokers of job {job} are not there"));
    };
    let order = Order { socket: instance.socket, ask };
    let answer = overlay.request(instance.rank, SERVICE, body(&order)).await;
    serde_json::from_slice(&answer.map_err(|error| error.to_string())?)
        .map_err(|error| error.to_string())
}
