//! The end: tasks are stopped, children leave before their parents, rank 0 is last.
//!
//! Every broker waits no longer than its share of `shutdown_timeout`, which is the smaller the
//! deeper it sits, so that a broker which hangs holds up nobody beyond the bound.

use super::Node;
use crate::frame::{Frame, Happening, Outcome, Phase};
use crate::{Delivery, ExitReason, Millis, Missing, State};
use quorate_hostlist::IdSet;
use std::sync::Arc;

/// How far the end has come.
#[derive(Debug, Default)]
pub(super) struct Shutdown {
    /// When CLEANUP was entered.
    since: Option<Millis>,
    cleaned: bool,
    warned: bool,
    /// On rank 0 after a failed bootstrap.
    missing: Option<Vec<Missing>>,
}

impl Node {
    pub(super) fn finish(&mut self, done: bool, reason: String) {
        if self.is_root() && !self.is_over() {
            let outcome = Outcome { done, bootstrap: false, reason };
            self.publish_event(Happening::Cleanup(Arc::new(outcome)));
        }
    }

    /// The quorum was not reached in time.
    pub(super) fn bootstrap_failed(&mut self) {
        self.shutdown.missing = Some(self.missing(self.now));
        let reason = format!(
            "{} of {} brokers came, {} are needed",
            self.online().len(),
            self.size(),
            self.config.min_size
        );
        let outcome = Outcome { done: false, bootstrap: true, reason };
        self.publish_event(Happening::Cleanup(Arc::new(outcome)));
    }

    /// After a change of the phase: CLEANUP, if that is what it is.
    pub(super) fn phase_entered(&mut self, cause: &'static str) {
        if self.is_over() && self.shutdown.since.is_none() {
            self.shutdown.since = Some(self.now);
            self.set_state(State::Cleanup, cause);
        }
    }

    pub(super) fn cleaned(&mut self) {
        self.shutdown.cleaned = true;
    }

    /// When this broker stops to wait.
    fn gives_in_at(&self) -> Option<Millis> {
        let since = self.shutdown.since?;
        let depth = u64::from(self.topology.depth());
        let level = u64::from(self.topology.level(self.config.rank)).min(depth);
        let share = self.config.timing.shutdown_timeout.0 * (depth - level + 1) / (depth + 1);
        Some(since + Millis(share))
    }

    pub(super) fn shutdown_deadline(&self) -> Option<Millis> {
        let since = self.shutdown.since?;
        let warn = (!self.shutdown.warned).then(|| since + self.config.timing.shutdown_warn);
        [warn, self.gives_in_at()].into_iter().flatten().min()
    }

    pub(super) fn tick_shutdown(&mut self) {
        let (Some(since), Some(gives_in)) = (self.shutdown.since, self.gives_in_at()) else {
            return;
        };
        let late = self.now >= gives_in;
        if self.state == State::Cleanup && self.shutdown.cleaned {
            self.set_state(State::Shutdown, "tasks are gone");
        }
        let alone = self.family.children.is_empty();
        if late || (self.state == State::Shutdown && alone) {
            let cause = if late { "waited long enough" } else { "children have left" };
            self.finished(cause);
        } else if !self.shutdown.warned && self.now >= since + self.config.timing.shutdown_warn {
            self.shutdown.warned = true;
            let waiting = if self.shutdown.cleaned { self.children() } else { IdSet::new() };
            self.deliver(Delivery::ShutdownSlow { waiting });
        }
    }

    /// The link to the parent broke: in CLEANUP nobody looks for another.
    pub(super) fn shutdown_without_parent(&mut self) {
        if self.is_over() {
            self.stop_search();
        }
    }

    /// Leaves after the cluster's work.
    pub(super) fn finished(&mut self, cause: &'static str) {
        if let Some(parent) = self.uplink.parent {
            self.send(parent, Frame::Leave { reason: "finished".to_owned() });
        }
        let reason = match (&self.stream.phase, self.shutdown.missing.take()) {
            (_, Some(missing)) => ExitReason::BootstrapTimeout { missing },
            (Phase::Cleanup(outcome), None) if outcome.bootstrap => {
                ExitReason::BootstrapTimeout { missing: Vec::new() }
            }
            (Phase::Cleanup(outcome), None) => {
                ExitReason::Finished { done: outcome.done, reason: outcome.reason.clone() }
            }
            (_, None) => ExitReason::Left,
        };
        self.exit(reason, cause);
    }

    /// This broker alone leaves.
    pub(super) fn leave(&mut self, reason: &str) {
        if self.is_over() {
            // Told to stop while it leaves anyway: the cluster is done, and it may say so.
            return self.finished("told to leave");
        }
        if let Some(parent) = self.uplink.parent {
            self.send(parent, Frame::Leave { reason: reason.to_owned() });
        }
        self.exit(ExitReason::Left, "told to leave");
    }
}
