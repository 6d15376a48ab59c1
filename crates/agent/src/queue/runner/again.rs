//! Jobs that an earlier life of this broker has led: what brokers still have of them, how they are led
//! again, and their end where they are not.
//!
//! Owns: the questions to brokers. Which job goes on is [`quorate_queue::reattach`]'s decision.

use super::{Prepared, Runner, open_input, request};
use crate::broker::Overlay;
use crate::job::held::Held;
use crate::job::leader::{KILL_GRACE, Resumption};
use crate::job::protocol::{self, GONE, HELD, ORDER, Order, What};
use crate::queue::keeper::Command;
use crate::queue::output;
use bytes::Bytes;
use quorate_queue::reattach::{Answer, Claim};
use quorate_queue::{Job, JobId, Outcome, Time};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// How much longer than its own limit a broker that is away is waited for.
const MARGIN: Duration = Duration::from_secs(5);

/// How long brokers that are away are waited for. One that stays away longer has ended its tasks by itself.
pub(in crate::queue) fn patience(overlay: &Overlay) -> Duration {
    overlay.settings().orphan_timeout() + MARGIN
}

impl Runner {
    /// Asks brokers, as they come, what they have of jobs that outlived their leader, and tells the keeper.
    pub(in crate::queue) fn ask_for_held(&self, ranks: BTreeSet<u32>) {
        for rank in ranks {
            let runner = self.clone();
            tokio::spawn(async move {
                let overlay = runner.overlay();
                let asked = async {
                    here(overlay, rank).await;
                    overlay.request(rank, HELD, Bytes::new()).await
                };
                let answer = match tokio::time::timeout(patience(overlay), asked).await {
                    Ok(Ok(body)) => answer(&body),
                    Ok(Err(error)) => Answer::Gone(error.to_string()),
                    Err(_) => Answer::Gone("it did not come back in time".to_owned()),
                };
                let _ = runner.shared.keeper.send(Command::Holds(rank, Box::new(answer))).await;
            });
        }
    }

    /// Leads a job again that was started under a number.
    pub(in crate::queue) fn reattach(&self, job: &Job, number: u64) {
        let (id, runner) = (job.id, self.clone());
        let input = job.spec().streams.input.as_deref().filter(|input| *input != "-");
        let input = input.map(|input| open_input(&super::in_directory(job, input)));
        let prepared = request(job, self.shared.overlay.config())
            .and_then(|request| Ok((self.output(job, true, &request)?, request)));
        let (output, request) = match prepared {
            Ok(prepared) => prepared,
            Err(why) => {
                tracing::warn!(job = %id, why, "a job's files are gone: its tasks are ended");
                self.await_end(job, Outcome { code: 1, rank: None, message: why });
                return;
            }
        };
        let began = job.started.or(job.allocated).unwrap_or_default();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let again = Resumption {
            number,
            taken: output.taken(),
            age: wall.saturating_sub(Duration::from_millis(began.0)),
            gone: job.lost_ranks(),
            rereads: input.is_some(),
        };
        tracing::info!(job = %id, number, "a job that went on is led again");
        let prepared =
            Prepared { request, again: Some(again), output, input: input.and_then(Result::ok) };
        tokio::spawn(async move { runner.lead(id, prepared).await });
    }

    /// Has all brokers end what they have of a job that an earlier life of this one led, waits until they
    /// have nothing more, then says how it ended.
    pub(in crate::queue) fn await_end(&self, job: &Job, outcome: Outcome) {
        let id = job.id;
        let ranks: Vec<u32> = job
            .allocation
            .iter()
            .flat_map(|allocation| allocation.parts.iter().map(|part| part.rank))
            .collect();
        let runner = self.clone();
        tokio::spawn(async move {
            let overlay = runner.overlay();
            let gone = ranks.into_iter().map(|rank| {
                let overlay = overlay.clone();
                tokio::spawn(async move { gone_from(&overlay, rank, id).await })
            });
            for broker in gone.collect::<Vec<_>>() {
                let _ = broker.await;
            }
            output::forget_ledger(&runner.shared.dir, id.0);
            let _ = runner.shared.keeper.send(Command::Finished(id, Box::new(outcome))).await;
        });
    }

    /// Has a broker end what it has of a start that is not in the log.
    pub(in crate::queue) fn end_unknown(&self, rank: u32, claim: &Claim) {
        tracing::warn!(rank, job = %claim.job, "a broker has tasks that nobody knows: they are ended");
        self.end_left(rank, claim.number);
    }

    /// Has a broker end what it has of a start, if it is there and has anything. One that is not there has
    /// ended it by itself before it comes back.
    pub(in crate::queue) fn end_left(&self, rank: u32, job: u64) {
        let overlay = self.overlay().clone();
        let what = What::Stop { grace_ms: KILL_GRACE.as_millis() as u64 };
        tokio::spawn(async move {
            let order = protocol::body(&Order { job, what });
            if let Err(error) = overlay.cast(&[rank], ORDER, order).await {
                tracing::warn!(rank, %error, "it cannot be told");
            }
        });
    }
}

/// What a broker says that it has.
pub(in crate::queue) fn answer(body: &[u8]) -> Answer {
    match serde_json::from_slice::<Vec<Held>>(body) {
        Ok(held) => Answer::Has(held.into_iter().map(claim).collect()),
        Err(error) => Answer::Gone(format!("what it says cannot be read: {error}")),
    }
}

fn claim(held: Held) -> Claim {
    Claim {
        job: JobId(held.queued),
        attempt: held.stamp.attempt,
        allocated: Time(held.stamp.allocated),
        number: held.number,
        live: held.live,
        met: held.met,
        broken: held.broken,
    }
}

/// Waits until a broker is connected.
async fn here(overlay: &Overlay, rank: u32) {
    let mut membership = overlay.membership();
    // Fails when this broker is leaving, and then the question does as well.
    let _ = membership.wait_for(|membership| membership.online.contains_key(&rank)).await;
}

/// Waits until a broker has nothing of a job any more.
async fn gone_from(overlay: &Overlay, rank: u32, id: JobId) {
    let until = Instant::now() + patience(overlay);
    if tokio::time::timeout_at(until, here(overlay, rank)).await.is_err() {
        // A broker that stays away has ended its tasks by itself.
        return;
    }
    let question = protocol::body(&id.0);
    if let Err(error) = overlay.request(rank, GONE, question).await {
        tracing::info!(rank, %error, "a broker does not say whether it has tasks of a job");
    }
}
