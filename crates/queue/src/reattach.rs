//! After a new start of rank 0: which jobs go on where they are, and which are lost.
//!
//! Owns the one decision about each job that had nodes when rank 0 died: brokers that live on kept its
//! tasks, or they did not. Pure: the jobs of the log, what brokers said of them and whether the
//! time for it is over go in, decisions come out. A job is decided once; until then it keeps its nodes, so
//! that nothing else runs in its place.

use crate::id::JobId;
use crate::job::{Job, State};
use crate::time::Time;
use std::collections::BTreeMap;

/// What one broker has of a job that an earlier life of rank 0 started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The job.
    pub job: JobId,
    /// How often it had begun again before it was started there.
    pub attempt: u32,
    /// When it had got its nodes: with the attempt, which start of which queue it is.
    pub allocated: Time,
    /// The number under which its leader had started it, the same on all of its brokers.
    pub number: u64,
    /// Whether some of its tasks still run there.
    pub live: bool,
    /// Its tasks there have met all others, and go on without any of them that meets nobody any more.
    pub met: bool,
    /// Why its tasks there cannot go on, if they cannot.
    pub broken: Option<String>,
}

impl Claim {
    /// Whether it is about this very start of a job.
    pub fn is_of(&self, job: &Job) -> bool {
        self.job == job.id && self.attempt == job.requeues && Some(self.allocated) == job.allocated
    }
}

/// What is known of a broker after the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is here, and has this and nothing else.
    Has(Vec<Claim>),
    /// It is not there any more, with the reason.
    Gone(String),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The job goes on where it is, under this number.
    Reattach {
        /// The job.
        job: JobId,
        /// The number.
        number: u64,
        /// Nodes of it that are lost, each with the reason: a nested instance goes on without them.
        without: Vec<(u32, String)>,
    },
    /// What is left of the job is ended, and it fails or begins again.
    Lost {
        /// The job.
        job: JobId,
        /// Why, for people.
        why: String,
    },
}

/// Decides about jobs that had nodes when rank 0 died. `undecided` are those that nothing has been
/// decided about; `answers` what brokers said, by rank; `overdue` says that nobody else is waited for. Jobs
/// that may still be spoken for are in no decision.
pub fn decide<'a>(
    undecided: impl IntoIterator<Item = &'a Job>,
    answers: &BTreeMap<u32, Answer>,
    overdue: bool,
) -> Vec<Decision> {
    undecided.into_iter().filter_map(|job| decide_one(job, answers, overdue)).collect()
}

fn decide_one(job: &Job, answers: &BTreeMap<u32, Answer>, overdue: bool) -> Option<Decision> {
    let lost = |why: String| Some(Decision::Lost { job: job.id, why });
    if let Some(cause) = &job.cause {
        // It was being ended, or is to end now: nothing of it goes on.
        return lost(cause.note.to_string());
    }
    let parts = job.allocation.iter().flat_map(|allocation| &allocation.parts);
    let mut number = None;
    let mut complete = job.state == State::Run;
    let mut met = true;
    let mut without = Vec::new();
    for part in parts {
        let rank = part.rank;
        let gone = match heard_of(job, rank, answers.get(&rank), overdue) {
            Heard::Nothing => {
                complete = false;
                continue;
            }
            Heard::Claim(claim) => {
                if let Some(why) = &claim.broken {
                    return lost(format!("the launcher's broker died while it ran: {why}"));
                }
                if *number.get_or_insert(claim.number) != claim.number {
                    return lost("its brokers speak of different starts of it".to_owned());
                }
                met &= claim.met;
                continue;
            }
            Heard::Gone(why) => why,
        };
        if !job.shrinks_without(rank) {
            return lost(gone);
        }
        without.push((rank, gone));
    }
    // Who has not met the others waits for them for ever when one is lost.
    let missing = without.first().map(|(_, why)| why.clone()).or_else(|| {
        let rank = job.lost_ranks().into_iter().next()?;
        Some(format!("broker {rank} was lost"))
    });
    match (number, missing) {
        (Some(_), Some(why)) if !met => lost(format!(
            "its brokers had not met each other yet when the launcher's died, and {why}"
        )),
        (Some(number), _) if complete => Some(Decision::Reattach { job: job.id, number, without }),
        _ => None,
    }
}

/// What is known of one broker's part of a job.
enum Heard<'a> {
    /// It may speak for it yet.
    Nothing,
    /// It has it.
    Claim(&'a Claim),
    /// It has nothing of it, with the reason.
    Gone(String),
}

fn heard_of<'a>(job: &Job, rank: u32, answer: Option<&'a Answer>, overdue: bool) -> Heard<'a> {
    if rank == 0 {
        return Heard::Gone("the launcher's broker died while it ran".to_owned());
    }
    match answer {
        None if overdue => {
            Heard::Gone(format!("broker {rank} did not come back after the launcher's died"))
        }
        None => Heard::Nothing,
        Some(Answer::Gone(why)) => Heard::Gone(format!("broker {rank} is gone: {why}")),
        Some(Answer::Has(claims)) => match claims.iter().find(|claim| claim.is_of(job)) {
            Some(claim) => Heard::Claim(claim),
            None => Heard::Gone(format!(
                "the launcher's broker died, and broker {rank} has nothing of it"
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Severity, Submission};
    use crate::jobspec::{Jobspec, Program};
    use crate::pool::{Allocation, Part};
    use std::sync::Arc;

    fn running(ranks: &[u32]) -> Job {
        runs(Jobspec::command("j", &["true"]), ranks)
    }

    fn instance(ranks: &[u32]) -> Job {
        runs(Jobspec { program: Program::Instance, ..Jobspec::command("j", &["true"]) }, ranks)
    }

    fn runs(spec: Jobspec, ranks: &[u32]) -> Job {
        let spec = Arc::new(spec);
        let submission = Submission { user: 1, element: None, cc: None, spec };
        let mut job = Job::new(JobId(7), Time(1), Arc::new(submission));
        job.apply(Time(2), Event::Depend {}).unwrap();
        job.apply(Time(2), Event::Priority { priority: 16 }).unwrap();
        let part = |rank: &u32| Part { rank: *rank, tasks: 1, ..Part::default() };
        let parts = ranks.iter().map(part).collect();
        job.apply(Time(3), Event::Alloc(Arc::new(Allocation { parts }))).unwrap();
        job.apply(Time(3), Event::Start {}).unwrap();
        job
    }

    fn claim() -> Claim {
        let (job, allocated) = (JobId(7), Time(3));
        Claim { job, attempt: 0, allocated, number: 70, live: true, met: true, broken: None }
    }

    fn said(answers: &[(u32, Answer)]) -> BTreeMap<u32, Answer> {
        answers.iter().cloned().collect()
    }

    fn why(job: &Job, answers: &[(u32, Answer)], overdue: bool) -> Option<String> {
        match decide([job], &said(answers), overdue).pop()? {
            Decision::Lost { why, .. } => Some(why),
            Decision::Reattach { number, without, .. } if without.is_empty() => {
                Some(format!("goes on as {number}"))
            }
            Decision::Reattach { without, .. } => {
                let ranks: Vec<u32> = without.iter().map(|(rank, _)| *rank).collect();
                Some(format!("goes on without {ranks:?}"))
            }
        }
    }

    #[test]
    fn a_job_goes_on_when_all_of_its_brokers_have_it() {
        let job = running(&[1, 3]);
        let has = Answer::Has(vec![claim()]);
        assert_eq!(why(&job, &[(1, has.clone())], false), None, "broker 3 may come yet");
        assert_eq!(
            why(&job, &[(1, has.clone()), (3, has)], false).as_deref(),
            Some("goes on as 70")
        );
    }

    #[test]
    fn a_job_is_lost_with_the_first_broker_that_has_nothing_of_this_start() {
        let job = running(&[1, 3]);
        let nothing = Answer::Has(vec![]);
        assert!(why(&job, &[(3, nothing)], false).unwrap().contains("broker 3 has nothing"));
        let gone = Answer::Gone("its node".to_owned());
        assert!(why(&job, &[(1, gone)], false).unwrap().contains("broker 1 is gone: its node"));
        for other in [
            Claim { attempt: 1, ..claim() },
            Claim { allocated: Time(4), ..claim() },
            Claim { job: JobId(8), ..claim() },
        ] {
            let other = Answer::Has(vec![other]);
            assert!(why(&job, &[(1, other)], false).unwrap().contains("nothing of it"));
        }
        let has = Answer::Has(vec![claim()]);
        let late = why(&job, &[(1, has.clone())], true).unwrap();
        assert!(late.contains("broker 3 did not come back"), "{late}");
        let other = Answer::Has(vec![Claim { number: 71, ..claim() }]);
        assert!(why(&job, &[(1, has), (3, other)], false).unwrap().contains("different starts"));
    }

    #[test]
    fn what_was_on_rank_0_or_cannot_go_on_or_is_to_end_is_lost() {
        let has = Answer::Has(vec![claim()]);
        assert!(why(&running(&[0, 1]), &[], false).unwrap().contains("launcher's broker died"));
        let broken = Claim { broken: Some("its ranks were meeting".to_owned()), ..claim() };
        let broken = why(&running(&[1]), &[(1, Answer::Has(vec![broken]))], false).unwrap();
        assert!(broken.contains("its ranks were meeting"), "{broken}");
        let mut job = running(&[1]);
        let event = Event::Exception {
            kind: "cancel".into(),
            severity: Severity::Fatal,
            note: "enough".into(),
        };
        job.apply(Time(4), event).unwrap();
        assert_eq!(why(&job, &[(1, has)], false).as_deref(), Some("enough"));
    }

    #[test]
    fn a_nested_instance_goes_on_without_nodes_that_are_lost_with_rank_0() {
        let has = || Answer::Has(vec![claim()]);
        let nothing = || Answer::Has(vec![]);
        let gone = || Answer::Gone("its node".to_owned());
        let job = instance(&[1, 2, 3]);
        for lost in [nothing(), gone()] {
            let answers = [(1, has()), (2, lost), (3, has())];
            assert_eq!(why(&job, &answers, false).as_deref(), Some("goes on without [2]"));
        }
        let two = [(1, has()), (2, gone())];
        assert_eq!(why(&job, &two, false), None, "broker 3 may come yet");
        assert_eq!(why(&job, &two, true).as_deref(), Some("goes on without [2, 3]"));
        let first = [(1, gone()), (2, has()), (3, has())];
        assert!(why(&job, &first, false).unwrap().contains("broker 1 is gone: its node"));
        // It asked to begin again instead.
        let mut again = job.clone();
        let submission = Arc::make_mut(&mut again.submission);
        Arc::make_mut(&mut submission.spec).requeue = true;
        assert!(why(&again, &two, false).unwrap().contains("broker 2 is gone"));
    }

    #[test]
    fn a_nested_instance_whose_brokers_have_not_met_is_lost_with_any_of_them() {
        let early = || Answer::Has(vec![Claim { met: false, ..claim() }]);
        let mut job = instance(&[1, 2, 3]);
        let all = [(1, early()), (2, early()), (3, early())];
        assert_eq!(why(&job, &all, false).as_deref(), Some("goes on as 70"));
        let gone = (2, Answer::Gone("its node".to_owned()));
        let lost = why(&job, &[(1, early()), gone, (3, early())], false).unwrap();
        assert!(lost.contains("had not met") && lost.contains("broker 2 is gone"), "{lost}");
        // The loss may have been written down before.
        job.apply(Time(4), Event::Shrink { rank: 2, note: "lost".into() }).unwrap();
        let lost = why(&job, &all, false).unwrap();
        assert!(lost.contains("had not met") && lost.contains("broker 2 was lost"), "{lost}");
        assert_eq!(job.lost_ranks(), [2]);
    }
}
