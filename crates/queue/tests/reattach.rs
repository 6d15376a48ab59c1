//! Random histories of a queue whose rank 0 dies again and again while brokers keep its jobs: nothing runs
//! twice at once, nothing is lost, and what ended is what was recorded.

#![allow(clippy::unwrap_used, reason = "a test says by a panic what is wrong")]

use proptest::prelude::*;
use quorate_hostlist::IdSet;
use quorate_queue::reattach::{Answer, Claim, Decision, decide};
use quorate_queue::{
    Copies, Effect, Event, JobId, Jobspec, Offer, Outcome, Program, Queue, Request, Settings,
    State, Time, log,
};
use std::collections::{BTreeMap, BTreeSet};

const NODES: u32 = 4;

/// Something that happens. Numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Act {
    Submit {
        nodes: u32,
        requeue: bool,
        /// A nested instance, which goes on without lost nodes.
        instance: bool,
    },
    Cancel(usize),
    /// A job's tasks end by themselves, whether somebody leads them or not.
    End(usize, u8),
    /// Rank 0 dies. What it was about to do is done on so many brokers of each job.
    Die {
        reached: usize,
    },
    /// A broker dies, with what it has.
    Lose(u32),
    /// A broker cannot be reached for now, or can again.
    Cut(u32),
    Mend(u32),
    /// A broker answers what it has.
    Answer(u32),
    /// The time for answers is over: who is away has ended its tasks.
    Overdue,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (1..4_u32, any::<bool>(), any::<bool>())
            .prop_map(|(nodes, requeue, instance)| Act::Submit { nodes, requeue, instance }),
        1 => any::<usize>().prop_map(Act::Cancel),
        4 => (any::<usize>(), 0..3_u8).prop_map(|(job, code)| Act::End(job, code)),
        3 => (0..4_usize).prop_map(|reached| Act::Die { reached }),
        1 => (1..NODES).prop_map(Act::Lose),
        1 => (1..NODES).prop_map(Act::Cut),
        2 => (1..NODES).prop_map(Act::Mend),
        6 => (1..NODES).prop_map(Act::Answer),
        1 => Just(Act::Overdue),
    ]
}

/// One start of a job.
#[derive(Clone, Debug)]
struct Start {
    job: JobId,
    attempt: u32,
    allocated: Time,
    number: u64,
    /// Its brokers that are not given up, and on which of them something of it still runs.
    ranks: BTreeSet<u32>,
    alive: BTreeSet<u32>,
    /// Brokers that know of it, or remember it.
    known: BTreeSet<u32>,
    /// All of its tasks were started, and have met.
    met: bool,
    /// How it ended by itself.
    code: Option<u8>,
    led: bool,
}

struct World {
    queue: Queue,
    now: Time,
    log: Vec<u8>,
    starts: Vec<Start>,
    away: BTreeSet<u32>,
    undecided: BTreeSet<JobId>,
    answers: BTreeMap<u32, Answer>,
    /// Jobs whose end on these brokers is waited for.
    ending: BTreeMap<JobId, BTreeSet<u32>>,
}

fn settings() -> Settings {
    Settings { may_grow: true, ..Settings::default() }
}

fn offer(rank: u32) -> Offer {
    let cores = IdSet::first_n(2);
    Offer { rank, host: format!("n{rank}"), cores, memory: 1 << 30, ..Offer::default() }
}

impl World {
    fn new() -> Self {
        let mut queue = Queue::new(settings()).unwrap();
        (0..NODES).for_each(|rank| queue.node_here(offer(rank)));
        Self {
            queue,
            now: Time(1_000),
            log: vec![],
            starts: vec![],
            away: BTreeSet::new(),
            undecided: BTreeSet::new(),
            answers: BTreeMap::new(),
            ending: BTreeMap::new(),
        }
    }

    fn act(&mut self, act: &Act) {
        self.now = Time(self.now.0 + 1);
        let now = self.now;
        match act {
            Act::Submit { nodes, requeue, instance } => {
                let (tasks, nodes) = (*nodes, Some((*nodes, *nodes)));
                let request = Request { tasks, nodes, ..Request::default() };
                let mut spec =
                    Jobspec { request, requeue: *requeue, ..Jobspec::command("j", &["true"]) };
                if *instance {
                    spec.program = Program::Instance;
                }
                self.queue.submit(now, 1, spec, &Copies::One).unwrap();
            }
            Act::Cancel(at) => {
                let ids: Vec<JobId> = self.queue.jobs().map(|job| job.id).collect();
                if let Some(id) = ids.get(at % ids.len().max(1)) {
                    let _ = self.queue.cancel(now, *id, "enough");
                }
            }
            Act::End(at, code) => {
                let whole =
                    |start: &&mut Start| !start.alive.is_empty() && start.alive == start.ranks;
                let count = self.starts.iter_mut().filter(whole).count();
                let Some(start) = self.starts.iter_mut().filter(whole).nth(at % count.max(1))
                else {
                    return;
                };
                start.alive.clear();
                start.code = Some(*code);
                if std::mem::take(&mut start.led) {
                    let outcome = Outcome { code: *code, ..Outcome::default() };
                    self.queue.finished(now, start.job, outcome).unwrap();
                }
            }
            Act::Die { reached } => self.die(*reached),
            Act::Lose(rank) => {
                self.gone(*rank);
                self.away.remove(rank);
                self.queue.node_lost(now, *rank, "lost");
                self.queue.node_here(offer(*rank));
            }
            Act::Cut(rank) => drop(self.away.insert(*rank)),
            Act::Mend(rank) => drop(self.away.remove(rank)),
            Act::Answer(rank) if !self.away.contains(rank) => {
                let claims = self.claims(*rank);
                self.answers.insert(*rank, Answer::Has(claims));
            }
            Act::Answer(_) => {}
            Act::Overdue => {
                // A broker that is away for so long has stopped its tasks and left.
                for rank in std::mem::take(&mut self.away) {
                    self.gone(rank);
                    self.queue.node_lost(now, rank, "silent");
                    self.queue.node_here(offer(rank));
                }
                self.decide(true);
            }
        }
    }

    /// All that a broker had is gone.
    fn gone(&mut self, rank: u32) {
        for start in &mut self.starts {
            start.known.remove(&rank);
            let job = self.queue.job(start.job);
            let shrinks = job.is_some_and(|job| {
                job.allocated == Some(start.allocated) && job.shrinks_without(rank)
            });
            if start.alive.remove(&rank) && !shrinks && std::mem::take(&mut start.led) {
                // Its leader ends the rest, and says so.
                start.alive.clear();
                start.code = Some(69);
                let outcome = Outcome { code: 69, ..Outcome::default() };
                self.queue.node_lost(self.now, rank, "lost");
                self.queue.finished(self.now, start.job, outcome).unwrap();
            }
        }
        self.answers.insert(rank, Answer::Gone("lost".to_owned()));
    }

    fn claims(&self, rank: u32) -> Vec<Claim> {
        let known = self.starts.iter().filter(|start| start.known.contains(&rank));
        let claim = |start: &Start| Claim {
            job: start.job,
            attempt: start.attempt,
            allocated: start.allocated,
            number: start.number,
            live: start.alive.contains(&rank),
            met: start.met,
            broken: None,
        };
        known.map(claim).collect()
    }

    /// What rank 0 would have carried out next is done in part; then it begins anew from its log.
    fn die(&mut self, reached: usize) {
        self.queue.tick(self.now);
        self.queue.schedule(self.now);
        self.carry_out(Some(reached));
        let entries = log::decode(&self.log).entries;
        let replayed = Queue::replay(settings(), entries, []).unwrap();
        assert_eq!(replayed.set_aside, []);
        self.queue = replayed.queue;
        (0..NODES).for_each(|rank| self.queue.node_here(offer(rank)));
        self.queue.resume(self.now);
        for start in &mut self.starts {
            start.led = false;
            start.alive.remove(&0);
            start.known.remove(&0);
        }
        self.ending.clear();
        self.answers.clear();
        let held = self.queue.running().filter(|job| job.outcome.is_none());
        self.undecided = held.map(|job| job.id).collect();
    }

    /// Nodes that their instances go on without are no part of them any more.
    fn give_up(&mut self) {
        for start in &mut self.starts {
            let job = self.queue.job(start.job);
            if let Some(job) = job.filter(|job| job.allocated == Some(start.allocated)) {
                for rank in job.lost_ranks() {
                    start.ranks.remove(&rank);
                }
            }
        }
    }

    fn decide(&mut self, overdue: bool) {
        self.give_up();
        let held = |id: &JobId| self.queue.job(*id).is_some_and(|job| job.outcome.is_none());
        self.undecided.retain(held);
        let undecided = self.undecided.iter().filter_map(|id| self.queue.job(*id));
        for decision in decide(undecided, &self.answers, overdue) {
            match decision {
                Decision::Reattach { job, number, without } => {
                    self.undecided.remove(&job);
                    assert!(self.queue.reattached(self.now, job, &without));
                    self.give_up();
                    let is_it = |start: &&mut Start| start.number == number;
                    let start = self.starts.iter_mut().find(is_it).unwrap();
                    for (rank, _) in &without {
                        // It is told to end what it has, if it was only silent.
                        start.alive.remove(rank);
                        start.known.remove(rank);
                    }
                    assert_eq!(start.known, start.ranks, "all of its brokers have it");
                    assert!(start.alive.is_subset(&start.ranks), "what is lost runs on");
                    assert!(start.met || self.queue.job(job).unwrap().lost_ranks().is_empty());
                }
                Decision::Lost { job, why } => {
                    self.undecided.remove(&job);
                    self.queue.tasks_lost(self.now, job, &why).unwrap();
                    let job = self.queue.job(job).unwrap();
                    let parts = job.allocation.as_ref().unwrap().parts.iter();
                    let ranks = parts.map(|part| part.rank).filter(|rank| *rank > 0);
                    self.ending.insert(job.id, ranks.collect());
                }
            }
        }
        // Brokers that can be reached end what is to end.
        let mut over = Vec::new();
        for (job, ranks) in &mut self.ending {
            ranks.retain(|rank| self.away.contains(rank));
            for start in self.starts.iter_mut().filter(|start| start.job == *job && !start.led) {
                start.alive.retain(|rank| ranks.contains(rank));
            }
            if ranks.is_empty() {
                over.push(*job);
            }
        }
        for job in over {
            self.ending.remove(&job);
            let outcome = Outcome { code: 69, ..Outcome::default() };
            self.queue.finished(self.now, job, outcome).unwrap();
        }
    }

    /// Makes what happened durable, and has it carried out: all of it, or on a few brokers.
    fn carry_out(&mut self, reached: Option<usize>) {
        let (entries, effects) = self.queue.take();
        for entry in &entries {
            log::encode(entry, &mut self.log);
        }
        for effect in effects {
            let job = self.queue.job(effect.job()).unwrap();
            match effect {
                Effect::Launch(id) => {
                    let running = self.starts.iter().filter(|start| start.job == id);
                    let running: Vec<&Start> =
                        running.filter(|start| !start.alive.is_empty()).collect();
                    assert!(running.is_empty(), "job {id} would run twice: {running:?}");
                    let parts = &job.allocation.as_ref().unwrap().parts;
                    let ranks: BTreeSet<u32> = parts.iter().map(|part| part.rank).collect();
                    let some = ranks.iter().copied().take(reached.unwrap_or(usize::MAX));
                    let alive: BTreeSet<u32> =
                        some.filter(|rank| !self.away.contains(rank)).collect();
                    self.starts.push(Start {
                        job: id,
                        attempt: job.requeues,
                        allocated: job.allocated.unwrap(),
                        number: self.starts.len() as u64,
                        known: alive.clone(),
                        met: alive == ranks,
                        led: reached.is_none() && alive == ranks,
                        alive,
                        ranks,
                        code: None,
                    });
                    let start = self.starts.last().unwrap();
                    if start.led {
                        self.queue.started(self.now, id).unwrap();
                    } else if reached.is_none() {
                        // Somebody could not be told: its leader ends the rest.
                        let start = self.starts.last_mut().unwrap();
                        start.alive.clear();
                        start.code = Some(69);
                        let outcome = Outcome { code: 69, ..Outcome::default() };
                        self.queue.finished(self.now, id, outcome).unwrap();
                    }
                }
                Effect::Stop(id) if reached.is_none() => {
                    let led = |start: &&mut Start| start.job == id && start.led;
                    if let Some(start) = self.starts.iter_mut().find(led) {
                        start.led = false;
                        start.alive.clear();
                        let outcome = Outcome { code: 143, ..Outcome::default() };
                        self.queue.finished(self.now, id, outcome).unwrap();
                    }
                }
                Effect::Reattach(id) if reached.is_none() => {
                    let stamp = |start: &&mut Start| {
                        start.job == id && Some(start.allocated) == job.allocated
                    };
                    let start = self.starts.iter_mut().find(stamp).unwrap();
                    self.queue.started(self.now, id).unwrap();
                    match start.code {
                        // It had ended while nobody listened.
                        Some(code) => {
                            let outcome = Outcome { code, ..Outcome::default() };
                            self.queue.finished(self.now, id, outcome).unwrap();
                        }
                        None => start.led = true,
                    }
                }
                Effect::Stop(_) | Effect::Reattach(_) | Effect::Warn(_) => {}
            }
        }
        let (entries, effects) = self.queue.take();
        for entry in &entries {
            log::encode(entry, &mut self.log);
        }
        assert!(effects.is_empty(), "{effects:?}");
    }

    fn turn(&mut self) {
        self.queue.tick(self.now);
        self.decide(false);
        self.queue.schedule(self.now);
        self.carry_out(None);
    }

    /// Everything is let go to its end.
    fn wind_down(&mut self) {
        for round in 0.. {
            assert!(round < 1000, "the history does not end");
            self.act(&Act::Overdue);
            self.turn();
            if self.queue.jobs().all(|job| job.state == State::Inactive) {
                return;
            }
            self.act(&Act::End(0, 0));
            self.turn();
        }
    }

    fn check_ends(&self) {
        for job in self.queue.jobs() {
            let had =
                |name: &str| job.history.iter().filter(|(_, event)| event.name() == name).count();
            let starts: Vec<&Start> =
                self.starts.iter().filter(|start| start.job == job.id).collect();
            assert!(starts.len() <= had("alloc"), "{} starts of job {}", starts.len(), job.id);
            if !job.spec().requeue {
                assert!(starts.len() <= 1, "job {} was started again", job.id);
            }
            assert_eq!(had("clean"), 1, "job {} has one end", job.id);
            assert!(starts.iter().all(|start| start.alive.is_empty()), "job {} runs on", job.id);
            // What ended by itself under a leader, or was led again after that, has its code.
            let finish = job.history.iter().rev().find_map(|(_, event)| match event {
                Event::Finish(outcome) => Some(outcome.code),
                _ => None,
            });
            if let (Some(start), Some(code), None) = (starts.last(), finish, &job.cause) {
                assert_eq!(start.code, Some(code), "job {}", job.id);
            }
        }
        for (offer, part) in self.queue.pool().nodes() {
            assert_eq!(part.cores.len(), offer.cores.len(), "cores of {} are held", offer.rank);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn jobs_go_on_or_end_once_however_often_rank_0_dies(acts in prop::collection::vec(act(), 1..70)) {
        let mut world = World::new();
        for act in &acts {
            world.act(act);
            world.turn();
        }
        world.wind_down();
        world.check_ends();
    }
}
