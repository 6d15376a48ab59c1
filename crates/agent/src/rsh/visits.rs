//! Remote commands that are under way in this pod: while there are any, their ranks are looked for.

use crate::broker::Overlay;
use crate::program;
use std::sync::{Arc, Mutex, MutexGuard};

/// The visits of one broker's pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Visits {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Commands under way.
    count: usize,
    /// Ranks are being looked for.
    watched: bool,
}

/// One command; it is over when this is dropped.
#[derive(Debug)]
pub(super) struct Visit {
    visits: Visits,
}

impl Visits {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("the lock holds because nothing panics under it")
    }

    /// A command begins. On rank 0 the program itself is watched, and with it all of its pod.
    pub(super) fn begin(&self, overlay: &Overlay) -> Visit {
        let mut shared = self.lock();
        shared.count += 1;
        if !shared.watched && overlay.rank() != 0 {
            shared.watched = true;
            let visits = self.clone();
            tokio::spawn(program::watch_for_others(overlay.clone(), move || visits.end_watch()));
        }
        Visit { visits: self.clone() }
    }

    /// Whether nobody needs the watch any more; it is then taken to have ended.
    fn end_watch(&self) -> bool {
        let mut shared = self.lock();
        let over = shared.count == 0;
        shared.watched &= !over;
        over
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.visits.lock().count -= 1;
    }
}
