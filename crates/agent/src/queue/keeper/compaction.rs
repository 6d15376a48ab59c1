//! The log is kept short: jobs that are long over are forgotten, and the log is written anew without them.
//!
//! Owns: when that is done, and the shorter log while it is written. The keeper goes on meanwhile: it takes
//! a snapshot of the queue, a thread for such work writes it down and follows the log, and the keeper puts
//! the new log in place with the little that is still missing there.

use super::Keeper;
use super::draft::Draft;
use super::files::StoreError;
use quorate_queue::Time;
use tokio::task::JoinHandle;

/// Jobs that are over and still known; the oldest are forgotten beyond it. Their log is read at each
/// start, and a hundred thousand are read within a second.
const KEEP: usize = 100_000;
/// How many more than that there may be before some are forgotten.
const KEEP_SLACK: usize = 4096;

/// A log shorter than this is not worth compacting; nor is one that is mostly of jobs that are still
/// known, since all that is theirs would be written again.
const COMPACT_FROM: u64 = 32 << 20;

/// Bytes that the keeper may copy itself when the new log takes the place of the old one.
const LITTLE: u64 = 256 << 10;

/// How often the new log is brought up to what the old one has got meanwhile. The queue would have to write
/// as fast as a file is copied to need more.
const ROUNDS: u32 = 8;

/// The shorter log, while it is written.
#[derive(Debug, Default)]
pub(super) struct Compaction {
    writing: Option<JoinHandle<Result<Draft, StoreError>>>,
    rounds: u32,
}

impl Compaction {
    /// Whether one is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.writing.is_some()
    }

    fn begin(
        &mut self,
        rounds: u32,
        work: impl FnOnce() -> Result<Draft, StoreError> + Send + 'static,
    ) {
        self.rounds = rounds;
        self.writing = Some(tokio::task::spawn_blocking(work));
    }

    /// What has been written; never, if nothing is. Safe to cancel.
    pub(super) async fn written(&mut self) -> Result<Draft, StoreError> {
        let Some(writing) = &mut self.writing else { return std::future::pending().await };
        let draft = writing.await.expect("writing a log does not panic");
        self.writing = None;
        draft
    }
}

impl Keeper {
    /// Forgets jobs that are long over, and begins to write the log anew when that is worth it.
    pub(super) fn forget_and_compact(&mut self) {
        if self.queue.over() > KEEP + KEEP_SLACK {
            let now = self.clock.now();
            self.queue.purge(now, Time(0), KEEP);
            let (entries, effects) = self.queue.take();
            self.pending.extend(entries);
            self.deferred.extend(effects);
        }
        // A snapshot stands for the log only when all that happened is in it.
        if self.pending.is_empty()
            && !self.compaction.is_under_way()
            && worth_compacting(self.store().length(), self.forgotten, self.queue.over())
        {
            let now = self.clock.now();
            let (snapshot, mut draft) = (self.queue.snapshot(now), self.store().draft());
            self.compaction.begin(0, move || {
                draft.write(snapshot.into_entries())?;
                Ok(draft)
            });
            self.forgotten = 0;
        }
    }

    /// The new log is written as far as it was asked for: it follows the old one, or takes its place.
    pub(super) async fn go_on_compacting(&mut self, written: Result<Draft, StoreError>) {
        let replaced = match written {
            Ok(mut draft) => {
                let (until, rounds) = (self.store().length(), self.compaction.rounds);
                if until.saturating_sub(draft.stands_for()) > LITTLE && rounds < ROUNDS {
                    self.compaction.begin(rounds + 1, move || {
                        draft.follow(until)?;
                        Ok(draft)
                    });
                    return;
                }
                self.with_store(move |store| store.replace(draft)).await
            }
            Err(error) => Err(error),
        };
        match replaced {
            Ok(()) => {
                tracing::info!(length = self.store().length(), "the queue's log is short again");
            }
            Err(error) => {
                let error = crate::logs::chain(&error);
                tracing::warn!(error, "the queue's log stays long");
            }
        }
    }
}

/// Whether a log of so many bytes, in which jobs are that were forgotten and jobs that are over and
/// known, should be written anew without the former.
fn worth_compacting(length: u64, forgotten: usize, known: usize) -> bool {
    length > COMPACT_FROM && forgotten > 0 && forgotten >= known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_written_anew_only_when_that_makes_it_half_as_long() {
        let long = COMPACT_FROM + 1;
        // Nothing is won where every job is still known, however long the log is.
        assert!(!worth_compacting(long * 10, 0, 0));
        assert!(!worth_compacting(long * 10, KEEP - 1, KEEP));
        assert!(worth_compacting(long, KEEP, KEEP));
        assert!(worth_compacting(long, 1, 0));
        assert!(!worth_compacting(COMPACT_FROM, KEEP, KEEP));
    }
}
