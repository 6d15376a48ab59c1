//! Makes a cluster smaller without ending a job.
//!
//! Owns: when the brokers beyond a smaller size may go. From the moment that the size is wanted nothing new
//! starts on them ([`super::keeper`] tells the queue that they are away); they are free once no job has a
//! part of them. Whoever takes their pods away waits for that (`docs/spec/observe.md`), and is told which
//! brokers wait for how many jobs.

use super::keeper::{Closed, Keeping};
use crate::broker::Overlay;
use quorate_contract::AgentConfig;
use quorate_contract::status::Leaving;
use quorate_hostlist::{HostList, IdSet};
use quorate_queue::{NodeState, Queue};
use std::time::Duration;
use tokio::time::sleep;

/// How often it looks while a smaller size is wanted: that a broker takes nothing more is no change of a
/// job.
const LOOK: Duration = Duration::from_millis(250);

/// Starts it, on rank 0.
pub(super) fn start(keeping: &Keeping, overlay: &Overlay) {
    let (keeping, overlay) = (keeping.clone(), overlay.clone());
    tokio::spawn(async move {
        // Without a queue, or in a broker that leaves, nobody waits for anything.
        let _ = watch(&keeping, &overlay).await;
    });
}

async fn watch(keeping: &Keeping, overlay: &Overlay) -> Result<(), Closed> {
    let mut members = overlay.membership();
    let config = overlay.config();
    loop {
        let (wanted, settled, going) = {
            let members = members.borrow_and_update();
            let settled = members.wanted >= members.size
                || members.free_from.is_some_and(|rank| rank <= members.wanted);
            let going: IdSet =
                members.online.keys().copied().filter(|r| *r >= members.wanted).collect();
            (members.wanted, settled, going)
        };
        if settled {
            overlay.leaving(None).await.map_err(|_| Closed)?;
            members.changed().await.map_err(|_| Closed)?;
            continue;
        }
        let look = move |queue: &Queue| (jobs_from(queue, wanted), is_free_from(queue, wanted));
        let (jobs, free) = keeping.look(look).await?;
        if free {
            tracing::info!(size = wanted, "no job is left on the brokers that go");
            overlay.shrunk(wanted).await.map_err(|_| Closed)?;
        }
        let leaving = (jobs > 0).then(|| leaving(&going, jobs, config));
        overlay.leaving(leaving).await.map_err(|_| Closed)?;
        sleep(LOOK).await;
    }
}

/// What is told of brokers that wait for jobs.
fn leaving(going: &IdSet, jobs: usize, config: &AgentConfig) -> Leaving {
    let pods = going.iter().map(|rank| config.display_name(rank)).collect::<HostList>();
    Leaving {
        ranks: going.to_string(),
        pods: pods.to_string(),
        jobs: u32::try_from(jobs).unwrap_or(u32::MAX),
    }
}

/// How many jobs have something of the brokers from a rank on.
fn jobs_from(queue: &Queue, first: u32) -> usize {
    let there = |job: &&quorate_queue::Job| {
        job.allocation.iter().flat_map(|all| &all.parts).any(|part| part.rank >= first)
    };
    queue.running().filter(there).count()
}

/// Whether no job has anything of the brokers from a rank on, and none will get something of them.
fn is_free_from(queue: &Queue, first: u32) -> bool {
    let pool = queue.pool();
    jobs_from(queue, first) == 0
        && pool
            .nodes()
            .map(|(offer, _)| offer.rank)
            .filter(|rank| *rank >= first)
            .all(|rank| pool.state(rank) == Some(NodeState::Down))
}
