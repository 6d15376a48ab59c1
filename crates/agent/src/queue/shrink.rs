//! Makes a cluster smaller without ending a job.
//!
//! Owns: when the brokers beyond a smaller size may go. From the moment that the size is wanted nothing new
//! starts on them ([`super::keeper`] tells the queue that they are away); they are free once no job has a
//! part of them. Whoever takes their pods away waits for that (`docs/spec/observe.md`).

use super::keeper::{Closed, Keeping};
use crate::broker::Overlay;
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
    loop {
        let (wanted, settled) = {
            let members = members.borrow_and_update();
            let settled = members.wanted >= members.size
                || members.free_from.is_some_and(|rank| rank <= members.wanted);
            (members.wanted, settled)
        };
        if settled {
            members.changed().await.map_err(|_| Closed)?;
            continue;
        }
        if keeping.look(move |queue| is_free_from(queue, wanted)).await? {
            tracing::info!(size = wanted, "no job is left on the brokers that go");
            overlay.shrunk(wanted).await.map_err(|_| Closed)?;
        }
        sleep(LOOK).await;
    }
}

/// Whether no job has anything of the brokers from a rank on, and none will get something of them.
fn is_free_from(queue: &Queue, first: u32) -> bool {
    let parts = queue
        .running()
        .flat_map(|job| job.allocation.iter().flat_map(|allocation| &allocation.parts));
    let pool = queue.pool();
    parts.map(|part| part.rank).all(|rank| rank < first)
        && pool
            .nodes()
            .map(|(offer, _)| offer.rank)
            .filter(|rank| *rank >= first)
            .all(|rank| pool.state(rank) == Some(NodeState::Down))
}
