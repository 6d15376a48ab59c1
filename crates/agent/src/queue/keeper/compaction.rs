//! The log is kept short: jobs that are long over are forgotten, and the log is written anew without them.

use super::Keeper;
use quorate_queue::Time;

/// Jobs that are over and still known; the oldest are forgotten beyond it. Their log is read at each
/// start, and a hundred thousand are read within a second.
const KEEP: usize = 100_000;
/// How many more than that there may be before some are forgotten.
const KEEP_SLACK: usize = 4096;

/// A log shorter than this is not worth compacting; nor is one that is mostly of jobs that are still
/// known, since all that is theirs would be written again.
const COMPACT_FROM: u64 = 32 << 20;

impl Keeper {
    pub(super) fn forget_and_compact(&mut self) {
        if self.queue.over() > KEEP + KEEP_SLACK {
            let now = self.clock.now();
            self.queue.purge(now, Time(0), KEEP);
            let (entries, effects) = self.queue.take();
            self.pending.extend(entries);
            self.deferred.extend(effects);
        }
        if worth_compacting(self.store().length(), self.forgotten, self.queue.over()) {
            let now = self.clock.now();
            let all = self.queue.compacted(now);
            match self.store.as_mut().map(|store| store.compact(all)) {
                // What was not written yet is in the shorter log.
                Some(Ok(())) => {
                    let written = std::mem::take(&mut self.pending);
                    self.tell_of(&written);
                }
                Some(Err(error)) => tracing::warn!(%error, "the queue's log stays long"),
                None => {}
            }
            self.forgotten = 0;
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
