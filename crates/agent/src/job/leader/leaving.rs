//! Whether a broker that is told to stop waits for a job that it leads.

use crate::broker::{Membership, Overlay};
use crate::job::Jobs;
use crate::job::registry::Busy;
use std::sync::Arc;
use tokio::sync::watch;

/// Keeps this broker from leaving before a job has ended. A job that others keep, and that has nothing on
/// this broker, is the next leader's: it holds nobody up.
#[derive(Debug)]
pub(super) struct Leaving {
    busy: Option<Busy>,
    members: Option<watch::Receiver<Arc<Membership>>>,
    own: u32,
}

impl Leaving {
    /// For a job that others keep `elsewhere`, or for any other.
    pub(super) fn new(jobs: &Jobs, overlay: &Overlay, elsewhere: bool) -> Self {
        Self {
            busy: Some(jobs.busy()),
            members: elsewhere.then(|| overlay.membership()),
            own: overlay.rank(),
        }
    }

    /// Waits until this broker is told to stop, and lets it go then. Never ends for a job that it has to wait
    /// for, nor a second time.
    pub(super) async fn let_go(&mut self) {
        let own = self.own;
        if let Some(members) = &mut self.members
            && members.wait_for(|members| members.is_draining(own)).await.is_ok()
        {
            (self.members, self.busy) = (None, None);
            return;
        }
        std::future::pending::<()>().await;
    }
}
