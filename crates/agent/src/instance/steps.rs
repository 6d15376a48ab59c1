//! Which steps a job had: what an instance leaves with the job that it was, when it ends.
//!
//! Owns: the way there. Rank 0 of the instance asks its own queue and tells the broker of its pod in the
//! cluster around it (verb [`TOLD`]), which tells rank 0 (request service of that name). An instance
//! without steps says nothing.

use super::ask::Ask;
use crate::broker::{Overlay, Services};
use crate::job::protocol::body;
use crate::local::{Call, Hello, connect, kind};
use crate::queue::{self, Steps};
use quorate_contract::{env, exit};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::timeout;

/// Verb, and rank 0's request service.
pub(crate) const TOLD: &str = "instance.steps";

/// How long an instance that ends takes for it at the most.
const PATIENCE: Duration = Duration::from_secs(1);

/// The steps of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    /// The job that the instance is.
    pub(crate) job: String,
    /// Its last steps.
    pub(crate) steps: Steps,
}

/// Adds the verb.
pub(super) fn register(overlay: &Overlay, services: &mut Services) {
    let overlay = overlay.clone();
    services.on_verb(TOLD, move |call| {
        let overlay = overlay.clone();
        async move { pass(&overlay, call).await }
    });
}

/// In the pod of the instance's rank 0.
async fn pass(overlay: &Overlay, mut call: Call) {
    let told = call.hello.args.take();
    let (code, error) = match overlay.request(0, TOLD, body(&told)).await {
        Ok(_) => (exit::OK, None),
        Err(error) => (exit::UNAVAILABLE, Some(error.to_string())),
    };
    // An instance that has gone needs no answer.
    let _ = call.end(code, error).await;
}

/// On rank 0 of an instance that ends: tells the cluster around it which steps there were. Elsewhere
/// nothing.
pub(crate) async fn tell(overlay: &Overlay) {
    let settings = overlay.settings();
    let (Some(outer), Ok(job), 0) =
        (super::outer(settings), std::env::var(env::JOB_ID), overlay.rank())
    else {
        return;
    };
    let tell = async {
        let steps = queue::ask_instance(&settings.socket(), Ask::Steps).await?;
        if steps.is_empty() {
            return anyhow::Ok(());
        }
        let args = serde_json::to_value(Told { job, steps })?;
        let mut connection = connect(&outer, &Hello { verb: TOLD.to_owned(), args }).await?;
        while let Some((number, _)) = connection.recv().await? {
            if number == kind::END {
                break;
            }
        }
        Ok(())
    };
    match timeout(PATIENCE, tell).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(error = format!("{error:#}"), "the steps are forgotten"),
        Err(_) => tracing::warn!("nobody took note of the steps in time"),
    }
}
