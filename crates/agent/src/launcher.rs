//! The launching side of the agent, as the broker sees it: what it registers, what it runs, and
//! how it stops.

use crate::broker::services::BoxFuture;
use crate::broker::{Launching, Overlay, ProgramOutcome, Services, StopReason};
use crate::job::Jobs;
use crate::job::protocol::What;
use crate::job::registry::Pod;
use crate::launch::records::{self, Records};
use crate::launch::{environment, sweep};
use crate::program::{self, Observed};
use crate::{hosts, instance, outside, queue, rsh};
use quorate_contract::env as names;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long remote commands may take to end by themselves when the program has.
const LEAVE: Duration = Duration::from_millis(500);

/// How long after SIGKILL the end of processes is waited for.
const AFTER_KILL: Duration = Duration::from_secs(2);

/// How long the log of the queue is waited for. A disk that hangs holds nobody up.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Launches jobs, remote commands and the program.
#[derive(Clone, Debug)]
pub struct Launcher {
    jobs: Jobs,
    observed: Observed,
    /// On rank 0.
    log: Arc<OnceLock<queue::Log>>,
}

impl Launcher {
    /// Must be made while this process still has the pod's own environment and directory.
    pub fn new() -> Self {
        Self {
            jobs: Jobs::new(Pod::of_this_process()),
            observed: Observed::default(),
            log: Arc::default(),
        }
    }
}

impl Default for Launcher {
    fn default() -> Self {
        Self::new()
    }
}

impl Launching for Launcher {
    fn register(&self, overlay: &Overlay, services: &mut Services) {
        let settings = overlay.settings();
        if let Some(left) = records::sweep(&settings.run_dir) {
            // What started in the very moment of the crash is in no record, but marked.
            let more = sweep::kill_marked(names::MARK, &environment::mark(settings, ""));
            if more > 0 || !left.is_empty() {
                let what = left.join(", ");
                tracing::warn!(%what, more, "ended what an earlier broker of this pod left running");
            }
        }
        match Records::open(&settings.run_dir) {
            Ok(records) => self.jobs.record_in(records),
            Err(error) => tracing::warn!(%error, "the run directory takes no task records"),
        }
        if let Err(error) = hosts::link(&settings.run_dir) {
            tracing::warn!(%error, "the run directory takes no links: remote shells will not work");
        }
        self.jobs.register(overlay, services);
        self.observed.register(services);
        rsh::register(&self.jobs, overlay, services);
        hosts::register(overlay, services);
        instance::register(&self.jobs, overlay, services);
        if let Some(log) = queue::register(&self.jobs, overlay, services) {
            // A broker registers once.
            let _ = self.log.set(log);
        }
        outside::register(&self.jobs, overlay, services);
    }

    fn run_program(&self, overlay: Overlay) -> BoxFuture<ProgramOutcome> {
        program::run(self.jobs.clone(), self.observed.clone(), overlay)
    }

    fn signal(&self, overlay: &Overlay, signal: i32) {
        // The program is rank 0's; what runs elsewhere belongs to it or to a job of its own.
        if overlay.rank() == 0 {
            self.jobs.signal_groups(signal);
            self.jobs.signal_led(signal);
        }
    }

    fn stop_tasks(&self, overlay: Overlay, reason: StopReason, grace: Duration) -> BoxFuture<()> {
        let (jobs, log) = (self.jobs.clone(), self.log.clone());
        Box::pin(async move {
            if reason == StopReason::Done {
                // Daemons of a launcher that has ended are about to end too, and clean up.
                let _ = tokio::time::timeout(LEAVE, jobs.idle()).await;
            }
            let stop = What::Stop { grace_ms: grace.as_millis() as u64 };
            let anew = reason == StopReason::RootReplaced;
            if anew {
                // Jobs that outlive their leader wait for the next one.
                jobs.order_bound(stop);
                jobs.claim(&overlay).await;
            } else {
                jobs.order_all(stop);
            }
            jobs.signal_groups(libc::SIGTERM);
            jobs.signal_groups(libc::SIGCONT);
            // Whoever ends an instance may not wait for steps that resist.
            let early = async {
                if reason == StopReason::Terminated {
                    instance::steps::tell(&overlay).await;
                }
            };
            let (idle, ()) = tokio::join!(tokio::time::timeout(grace, jobs.idle()), early);
            if idle.is_err() {
                jobs.signal_groups(libc::SIGKILL);
                let _ = tokio::time::timeout(AFTER_KILL, jobs.idle()).await;
            }
            // Daemons of launchers are in no group that is known.
            if jobs.had_groups() {
                // A launcher such as Hydra gives its own pod's mark to ranks elsewhere; when the
                // whole cluster is done, all of its marks are.
                let prefix = match reason {
                    StopReason::Done => environment::cluster_mark(overlay.settings()),
                    StopReason::RootReplaced => environment::mark(overlay.settings(), "rsh-"),
                    _ => environment::mark(overlay.settings(), ""),
                };
                let killed = sweep::kill_marked(names::MARK, &prefix);
                if killed > 0 {
                    tracing::info!(killed, "ended what remote commands had left running");
                }
            }
            if let Some(log) = log.get().filter(|_| !anew) {
                let _ = tokio::time::timeout(LAST_WORDS, log.written()).await;
                instance::steps::tell(&overlay).await;
            }
        })
    }
}
