//! The job queue of the cluster: rank 0 keeps it, verbs typed in any pod talk to it.
//!
//! ```text
//!   client ──socket──▶ front ──channel──▶ service ──commands──▶ keeper ──▶ log
//!          ◀─ answers ─      ◀─ answers ──        ◀─ replies ──   │ effects, once durable
//!                                                               runner ──▶ job::leader ──▶ tasks
//! ```
//!
//! [`quorate_queue::Queue`] decides; the [`keeper`] is the one task that owns it, makes what it
//! decided durable and has it carried out. Nobody else changes a job.

mod allocate;
pub mod arguments;
pub mod by_rank;
mod client;
mod facts;
mod fetch;
pub mod flux;
mod keeper;
mod output;
pub mod protocol;
mod runner;
mod service;
mod shrink;
pub mod slurm;
mod spools;
mod steps;
mod table;
mod talk;
mod tally;
pub mod top;
mod verbs;
pub mod work;

use crate::broker::{Overlay, Services};
use crate::files::Parcels;
use crate::instance::steps::TOLD;
use crate::job::Jobs;
use crate::job::protocol::CLAIM;
use bytes::Bytes;
use keeper::Keeping;

pub(crate) use runner::TERMINAL;
pub(crate) use steps::{Steps, ask_instance};

/// The log of the queue, for a launcher that is about to leave.
#[derive(Clone, Debug)]
pub struct Log(Keeping);

impl Log {
    /// Waits until all that has happened is written, or cannot be.
    pub async fn written(&self) {
        // Answered once what came before it is durable; with an error where nothing can be written.
        let _ = self.0.change(|_, _| ()).await;
    }
}

/// Adds the services and verbs of the queue; on rank 0 the queue itself, whose log is given back.
pub fn register(jobs: &Jobs, overlay: &Overlay, services: &mut Services) -> Option<Log> {
    let keeping = (overlay.rank() == 0).then(|| keeper::start(jobs.clone(), overlay.clone()));
    verbs::register(jobs, overlay, keeping.as_ref(), services);
    fetch::register(jobs, overlay, services);
    if let Some(keeping) = keeping.as_ref() {
        service::register(keeping, services);
        let claims = keeping.clone();
        services.on_request(CLAIM, move |rank, body| {
            let keeping = claims.clone();
            async move {
                keeping.holds(rank, runner::answer(&body)).await;
                Ok(Bytes::new())
            }
        });
        let noting = keeping.clone();
        services.on_request(TOLD, move |_, body| {
            let keeping = noting.clone();
            async move {
                let told = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
                steps::keep(&keeping, told).await.map(|()| Bytes::new())
            }
        });
        parcels(overlay).register(services);
        tally::start(keeping, jobs, overlay);
        shrink::start(keeping, overlay);
    }
    keeping.map(Log)
}

/// What was sent along with the jobs of this launcher's queue.
pub fn parcels(overlay: &Overlay) -> Parcels {
    Parcels::beside(&keeper::directory(overlay))
}

/// What a verb does to a job for which files were sent along with the verb.
fn with_files(spec: &mut quorate_queue::Jobspec, directory_named: bool) {
    let Ok(parcel) = std::env::var(quorate_contract::outside::PARCEL_VARIABLE) else { return };
    has_files(spec, parcel, directory_named);
}

/// A parcel travels with a job, and its tasks start among its files unless a directory was named.
fn has_files(spec: &mut quorate_queue::Jobspec, parcel: String, directory_named: bool) {
    spec.options.insert(runner::FILES.to_owned(), parcel);
    if !directory_named {
        spec.directory.clear();
    }
}

/// A job's own directory is kept for a while when it has ended.
fn keeps_files(spec: &mut quorate_queue::Jobspec) {
    spec.options.insert(runner::KEEP_FILES.to_owned(), String::new());
}
