//! After a new start of this broker: which of the jobs that had nodes go on.
//!
//! Owns: the jobs that nothing is decided about yet, and what brokers have said of them. The decision is
//! [`quorate_queue::reattach::decide`]; here it is carried out.

use super::super::runner::{Runner, patience};
use crate::broker::Overlay;
use quorate_contract::exit;
use quorate_queue::reattach::{Answer, Claim, Decision, decide};
use quorate_queue::{JobId, Outcome, Queue, Time};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// How much later than the last broker may answer the rest is decided.
const MARGIN: Duration = Duration::from_secs(1);

/// The jobs of a former life.
#[derive(Debug)]
pub(super) struct Reunion {
    undecided: BTreeSet<JobId>,
    answers: BTreeMap<u32, Answer>,
    /// Something was said, or changed, since the last decision.
    news: bool,
    deadline: Instant,
    /// Under which numbers jobs go on, until they are led again.
    numbers: HashMap<JobId, u64>,
}

impl Reunion {
    /// All jobs that have nodes are undecided; their brokers are asked.
    pub(super) fn begin(queue: &Queue, runner: &Runner, overlay: &Overlay) -> Self {
        let (mut undecided, mut ranks) = (BTreeSet::new(), BTreeSet::new());
        for job in queue.running().filter(|job| job.outcome.is_none()) {
            undecided.insert(job.id);
            let parts = job.allocation.iter().flat_map(|has| &has.parts);
            ranks.extend(parts.map(|part| part.rank).filter(|rank| *rank > 0));
        }
        runner.ask_for_held(ranks);
        Self {
            undecided,
            answers: BTreeMap::new(),
            news: true,
            deadline: Instant::now() + patience(overlay) + MARGIN,
            numbers: HashMap::new(),
        }
    }

    /// A broker says what it has, asked or by itself. What belongs to no start that is known is ended.
    pub(super) fn said(&mut self, queue: &Queue, runner: &Runner, rank: u32, answer: Answer) {
        if let Answer::Has(claims) = &answer {
            for claim in claims.iter().filter(|claim| claim.live && !is_known(queue, rank, claim)) {
                runner.end_unknown(rank, claim);
            }
        }
        self.answers.insert(rank, answer);
        self.news = true;
    }

    /// A job may have changed.
    pub(super) fn stir(&mut self) {
        self.news = true;
    }

    /// Decides what can be decided now.
    pub(super) fn decide(&mut self, queue: &mut Queue, runner: &Runner, now: Time) {
        let overdue = Instant::now() >= self.deadline;
        if self.undecided.is_empty() || !(self.news || overdue) {
            return;
        }
        self.news = false;
        let held = |id: &JobId| queue.job(*id).filter(|job| job.holds_nodes());
        self.undecided.retain(|id| held(id).is_some_and(|job| job.outcome.is_none()));
        let undecided = self.undecided.iter().filter_map(|id| queue.job(*id));
        for decision in decide(undecided, &self.answers, overdue) {
            match decision {
                Decision::Reattach { job, number, without } => {
                    self.undecided.remove(&job);
                    // One that is silent may have something of it yet.
                    for (rank, _) in &without {
                        runner.end_left(*rank, number);
                    }
                    if queue.reattached(now, job, &without) {
                        self.numbers.insert(job, number);
                    }
                }
                Decision::Lost { job, why } => {
                    self.undecided.remove(&job);
                    let _ = queue.tasks_lost(now, job, &why);
                    if let Some(job) = queue.job(job) {
                        runner.await_end(job, lost(why));
                    }
                }
            }
        }
        if self.undecided.is_empty() {
            self.answers.clear();
        }
    }

    /// Under which number a job goes on; asked once.
    pub(super) fn number(&mut self, job: JobId) -> Option<u64> {
        self.numbers.remove(&job)
    }

    /// When the rest is decided.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        (!self.undecided.is_empty()).then_some(self.deadline)
    }
}

/// Whether a broker's claim is about a start that is in the log and not over, and has not given the broker
/// up.
fn is_known(queue: &Queue, rank: u32, claim: &Claim) -> bool {
    queue.job(claim.job).is_some_and(|job| {
        job.holds_nodes() && claim.is_of(job) && !job.lost_ranks().contains(&rank)
    })
}

/// The end of tasks that nobody saw.
fn lost(message: String) -> Outcome {
    let code = u8::try_from(exit::BROKER_LOST).unwrap_or(u8::MAX);
    Outcome { code, rank: None, message }
}
