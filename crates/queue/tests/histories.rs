//! Random histories of a queue: what must always be true, whatever happens in whatever order.

#![allow(clippy::unwrap_used, reason = "a test says by a panic what is wrong")]

use proptest::prelude::*;
use quorate_hostlist::IdSet;
use quorate_queue::{
    Copies, Counts, Effect, Entry, Event, JobId, Jobspec, Lane, Offer, Outcome, Phase, Policy,
    Queue, Request, Settings, Snapshot, Standing, State, Time, log,
};
use std::collections::{BTreeMap, BTreeSet};

/// Something that happens. Numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Act {
    Submit { tasks: u32, nodes: Option<u32>, cores: u32, limit: Option<u64>, exclusive: bool },
    Array { count: u32, limit: u32 },
    Instance { nodes: u32, requeue: bool },
    Depend { on: usize, condition: u8 },
    Cancel(usize),
    Hold(usize),
    Release(usize),
    Urgency(usize, u8),
    Limit(usize, u64),
    Throttle(usize, Option<u32>),
    Requeue(usize),
    Finish(usize, u8),
    Away(u32),
    Here(u32),
    Lost(u32),
    Drain(u32),
    Undrain(u32),
    Toggle,
    Purge(usize),
    Snapshot,
    Pass(u64),
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    let submit = (
        1..9_u32,
        proptest::option::of(1..4_u32),
        1..3_u32,
        proptest::option::of(1..40_u64),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(tasks, nodes, cores, limit, exclusive)| Act::Submit {
            tasks,
            nodes,
            cores,
            limit,
            exclusive,
        });
    prop_oneof![
        8 => submit,
        1 => (1..5_u32, 1..3_u32).prop_map(|(count, limit)| Act::Array { count, limit }),
        2 => (1..4_u32, any::<bool>())
            .prop_map(|(nodes, requeue)| Act::Instance { nodes, requeue }),
        2 => (any::<usize>(), 0..4_u8).prop_map(|(on, condition)| Act::Depend { on, condition }),
        2 => any::<usize>().prop_map(Act::Cancel),
        1 => any::<usize>().prop_map(Act::Hold),
        1 => any::<usize>().prop_map(Act::Release),
        1 => (any::<usize>(), 0..32_u8).prop_map(|(job, urgency)| Act::Urgency(job, urgency)),
        1 => (any::<usize>(), 1..60_u64).prop_map(|(job, limit)| Act::Limit(job, limit)),
        1 => (any::<usize>(), proptest::option::of(1..4_u32))
            .prop_map(|(job, limit)| Act::Throttle(job, limit)),
        1 => any::<usize>().prop_map(Act::Requeue),
        6 => (any::<usize>(), 0..3_u8).prop_map(|(job, code)| Act::Finish(job, code)),
        1 => (0..NODES).prop_map(Act::Away),
        2 => (0..NODES).prop_map(Act::Here),
        1 => (0..NODES).prop_map(Act::Lost),
        1 => (0..NODES).prop_map(Act::Drain),
        1 => (0..NODES).prop_map(Act::Undrain),
        1 => Just(Act::Toggle),
        1 => (0..6_usize).prop_map(Act::Purge),
        1 => Just(Act::Snapshot),
        4 => (0..30_u64).prop_map(Act::Pass),
        1 => Just(Act::Restart),
    ]
}

const NODES: u32 = 5;

fn offer(rank: u32) -> Offer {
    Offer {
        rank,
        host: format!("n{rank}"),
        // Uneven nodes.
        cores: IdSet::first_n(2 + rank),
        gpus: IdSet::new(),
        memory: 1 << 30,
        properties: vec![],
    }
}

struct World {
    settings: Settings,
    queue: Queue,
    now: Time,
    log: Vec<u8>,
    /// The queue as it was at some moment, and where the log ended then.
    snapshot: Option<(Snapshot, usize)>,
    here: BTreeSet<u32>,
    /// Every number that was ever given.
    given: BTreeSet<JobId>,
    /// The earliest promise to the job that is first in line, while it stays first.
    promise: Option<(JobId, Time)>,
    /// Nothing but time and ends of jobs happened since the promise.
    undisturbed: bool,
}

impl World {
    fn new(policy: Policy) -> Self {
        let settings = Settings { policy, may_grow: true, ..Settings::default() };
        let mut queue = Queue::new(settings.clone()).unwrap();
        for rank in 0..NODES {
            queue.node_here(offer(rank));
        }
        Self {
            settings,
            queue,
            now: Time(1_000),
            log: vec![],
            snapshot: None,
            here: (0..NODES).collect(),
            given: BTreeSet::new(),
            promise: None,
            undisturbed: false,
        }
    }

    fn any(&self, at: usize) -> Option<JobId> {
        let ids: Vec<JobId> = self.queue.jobs().map(|job| job.id).collect();
        (!ids.is_empty()).then(|| ids[at % ids.len()])
    }

    fn any_running(&self, at: usize) -> Option<JobId> {
        let ids: Vec<JobId> = self.queue.running().map(|job| job.id).collect();
        (!ids.is_empty()).then(|| ids[at % ids.len()])
    }

    fn submit(&mut self, spec: Jobspec, copies: &Copies) {
        if let Ok(first) = self.queue.submit(self.now, 1000, spec, copies) {
            for id in first.0..self.queue.next_id().0 {
                assert!(self.given.insert(JobId(id)), "the number {id} was given twice");
            }
        }
    }

    fn act(&mut self, act: &Act) {
        let quiet = matches!(act, Act::Finish(..) | Act::Pass(_));
        self.undisturbed &= quiet;
        let now = self.now;
        match act {
            Act::Submit { tasks, nodes, cores, limit, exclusive } => {
                let request = Request {
                    tasks: *tasks,
                    nodes: nodes.map(|nodes| (nodes, nodes)),
                    cores_per_task: *cores,
                    exclusive: *exclusive,
                    ..Request::default()
                };
                let requeue = tasks % 2 == 0;
                let job = Jobspec {
                    request,
                    time_limit: *limit,
                    requeue,
                    ..Jobspec::command("j", &["true"])
                };
                self.submit(job, &Copies::One);
            }
            Act::Instance { nodes, requeue } => {
                let request =
                    Request { tasks: *nodes, nodes: Some((*nodes, *nodes)), ..Request::default() };
                let program = quorate_queue::Program::Instance;
                let job = Jobspec {
                    request,
                    program,
                    requeue: *requeue,
                    ..Jobspec::command("i", &["true"])
                };
                self.submit(job, &Copies::One);
            }
            Act::Array { count, limit } => {
                let indices = IdSet::first_n(*count);
                let copies = Copies::Array { indices, limit: Some(*limit) };
                self.submit(Jobspec::command("a", &["true"]), &copies);
            }
            Act::Depend { on, condition } => {
                let Some(job) = self.any(*on) else { return };
                let on = [
                    quorate_queue::Condition::AfterStart,
                    quorate_queue::Condition::AfterAny,
                    quorate_queue::Condition::AfterOk,
                    quorate_queue::Condition::AfterNotOk,
                ][usize::from(*condition)];
                let dependencies = vec![quorate_queue::Dependency { on, job }];
                self.submit(
                    Jobspec { dependencies, ..Jobspec::command("d", &["true"]) },
                    &Copies::One,
                );
            }
            Act::Cancel(at) => self.on_any(*at, |queue, id| queue.cancel(now, id, "test")),
            Act::Hold(at) => self.on_any(*at, |queue, id| queue.hold(now, id)),
            Act::Release(at) => self.on_any(*at, |queue, id| queue.release(now, id)),
            Act::Urgency(at, urgency) => {
                self.on_any(*at, |queue, id| queue.set_urgency(now, id, *urgency));
            }
            Act::Limit(at, limit) => {
                self.on_any(*at, |queue, id| queue.set_time_limit(now, id, Some(*limit)));
            }
            Act::Throttle(at, limit) => self.throttle(*at, *limit),
            Act::Requeue(at) => self.on_any(*at, |queue, id| queue.requeue(now, id, "test")),
            Act::Finish(at, code) => {
                if let Some(id) = self.any_running(*at) {
                    let outcome = Outcome { code: *code, ..Outcome::default() };
                    self.queue.finished(now, id, outcome.clone()).unwrap();
                    // Said twice, as after a lost answer.
                    self.queue.finished(now, id, outcome).unwrap();
                }
            }
            Act::Away(rank) => {
                self.here.remove(rank);
                self.queue.node_away(*rank);
            }
            Act::Here(rank) => {
                self.here.insert(*rank);
                self.queue.node_here(offer(*rank));
            }
            Act::Lost(rank) => {
                self.here.remove(rank);
                self.queue.node_lost(now, *rank, "lost");
            }
            Act::Drain(rank) => drop(self.queue.drain(now, *rank, "test")),
            Act::Undrain(rank) => drop(self.queue.undrain(now, *rank)),
            Act::Toggle => {
                let lane = self.queue.lanes().next().unwrap().clone();
                self.queue.set_lane(now, Lane { started: !lane.started, ..lane }).unwrap();
            }
            Act::Purge(keep) => drop(self.queue.purge(now, Time(0), *keep)),
            Act::Snapshot => {
                self.turn();
                self.snapshot = Some((self.queue.snapshot(self.now), self.log.len()));
            }
            Act::Pass(seconds) => self.now = now.after_seconds(*seconds),
            Act::Restart => self.restart(),
        }
    }

    fn on_any<E>(&mut self, at: usize, act: impl FnOnce(&mut Queue, JobId) -> Result<(), E>) {
        if let Some(id) = self.any(at) {
            drop(act(&mut self.queue, id));
        }
    }

    /// Changes the limit of an array, not to less than run already.
    fn throttle(&mut self, at: usize, limit: Option<u32>) {
        let element = self.any(at).and_then(|id| self.queue.job(id)?.submission.element);
        let Some(array) = element.map(|element| element.array) else { return };
        let of_it = |job: &&quorate_queue::Job| {
            job.submission.element.is_some_and(|element| element.array == array)
        };
        let running = u32::try_from(self.queue.running().filter(of_it).count()).unwrap();
        let limit = limit.map(|limit| limit.max(running));
        let ids: Vec<JobId> = self.queue.jobs().filter(of_it).map(|job| job.id).collect();
        for id in ids {
            // Those that are over keep theirs.
            let _ = self.queue.set_array_limit(self.now, id, limit);
        }
    }

    /// The shell's turn: time, the scheduler, the log, then the effects.
    fn turn(&mut self) {
        self.queue.tick(self.now);
        self.queue.schedule(self.now);
        let (entries, effects) = self.queue.take();
        for entry in &entries {
            log::encode(entry, &mut self.log);
        }
        for effect in effects {
            if let Effect::Launch(id) = effect {
                // A job in front of the first, which had to wait for something else until now, may
                // delay it.
                let place = |id| Some((u8::MAX - self.queue.job(id)?.urgency, id));
                if self.promise.is_some_and(|(first, _)| place(id) < place(first)) {
                    self.promise = None;
                }
                self.queue.started(self.now, id).unwrap();
            }
        }
        for entry in &self.queue.take().0 {
            log::encode(entry, &mut self.log);
        }
        self.check();
    }

    /// A new life from the log, or from a compacted one.
    fn restart(&mut self) {
        self.turn();
        let contents = log::decode(&self.log);
        assert_eq!((contents.torn, contents.damage.len()), (0, 0));
        let mut lives = vec![contents.entries];
        lives.push(self.queue.compacted(self.now).collect());
        if let Some((snapshot, end)) = self.snapshot.take() {
            // A log that was compacted while the queue went on.
            let since = log::decode(&self.log[end..]).entries;
            lives.push(snapshot.into_entries().chain(since).collect());
        }
        for entries in lives {
            let replayed = Queue::replay(self.settings.clone(), entries.clone(), []).unwrap();
            assert_eq!(replayed.set_aside, []);
            let mut queue = replayed.queue;
            for rank in &self.here {
                queue.node_here(offer(*rank));
            }
            assert!(queue.jobs().eq(self.queue.jobs()), "a replay is the same queue");
            assert!(queue.waiting().eq(self.queue.waiting()));
            assert_eq!(queue.next_id(), self.queue.next_id());
            assert_eq!(free(&queue, &self.here), free(&self.queue, &self.here));
            queue.resume(self.now);
            self.log.clear();
            for entry in &entries {
                log::encode(entry, &mut self.log);
            }
            self.queue = queue;
        }
    }

    fn check(&mut self) {
        // Nothing is given twice, and nothing that is not there.
        let mut cores: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for job in self.queue.jobs().filter(|job| job.holds_nodes()) {
            let allocation = job.allocation.as_ref().unwrap();
            // In this attempt: who begins again has all that it asked for.
            let again = |(_, event): &(Time, Event)| matches!(event, Event::Requeue { .. });
            let attempt = job.history.rsplit(again).next().unwrap();
            let lost = attempt.iter().any(|(_, event)| matches!(event, Event::Shrink { .. }));
            let tasks = u64::from(job.spec().request.tasks);
            assert!(if lost { allocation.tasks() < tasks } else { allocation.tasks() == tasks });
            for part in &allocation.parts {
                assert!(part.tasks > 0, "every node of a job has a task");
                for core in part.cores.iter() {
                    assert!(core < 2 + part.rank);
                    assert!(
                        cores.entry(part.rank).or_default().insert(core),
                        "core {core} of {} twice",
                        part.rank
                    );
                }
            }
        }
        for (offer, part) in self.queue.pool().nodes() {
            let used = cores.get(&offer.rank).map_or(0, BTreeSet::len);
            assert_eq!(
                part.cores.len() + used,
                offer.cores.len(),
                "cores of {} are lost",
                offer.rank
            );
        }
        // No array runs more at once than it may.
        let mut arrays: BTreeMap<JobId, (u32, u32)> = BTreeMap::new();
        for job in self.queue.running() {
            if let Some(element) = job.submission.element {
                // Whoever is being ended knows only the limit before a change.
                let limit = element.limit.unwrap_or(u32::MAX);
                let entry = arrays.entry(element.array).or_insert((0, limit));
                *entry = (entry.0 + 1, entry.1.max(limit));
            }
        }
        assert!(arrays.values().all(|(running, limit)| running <= limit), "{arrays:?}");
        let mut counts = Counts::default();
        for job in self.queue.jobs() {
            let place = match (job.phase(), job.standing()) {
                (Phase::Pending, _) => &mut counts.pending,
                (Phase::Running, _) => &mut counts.running,
                (Phase::Inactive, Some(Standing::Completed)) => &mut counts.completed,
                (Phase::Inactive, _) => &mut counts.failed,
            };
            *place += 1;
        }
        assert_eq!(self.queue.counts(), counts);
        let lane = self.queue.lane_counts()["default"];
        let oldest = self.queue.waiting().map(|job| job.submitted).min();
        assert_eq!((lane.jobs, lane.oldest), (counts, oldest));
        // What is in the order is what waits for nodes; nobody is overdue without having been stopped.
        assert!(self.queue.waiting().all(|job| job.state == State::Sched && !job.held));
        let waiting = self.queue.jobs().filter(|job| job.state == State::Sched).count();
        assert_eq!(self.queue.waiting().count(), waiting);
        assert!(
            self.queue
                .running()
                .all(|job| job.state != State::Run || job.end_at_latest() > self.now)
        );
        assert!(self.queue.wake_at().is_none_or(|wake| wake > self.now));
        self.check_promise();
    }

    /// While nothing but time and ends of jobs happens, the first that waits never gets a later
    /// moment than it was promised: what overtook it did not delay it. Jobs whose tasks outlive their
    /// limit do, so the promise is dropped then.
    fn check_promise(&mut self) {
        let late = self.queue.running().any(|job| job.state == State::Cleanup);
        let first = self.queue.forecasts().first().copied();
        if let (Some((job, start)), true, false) = (self.promise, self.undisturbed, late)
            && let Some(first) = first.filter(|first| first.job == job)
        {
            assert!(
                first.start <= start,
                "job {job} was promised {start:?}, now {:?}",
                first.start
            );
        }
        match first {
            Some(first) => {
                self.promise = Some((first.job, first.start));
                self.undisturbed = !late;
            }
            None => {
                // The last pass may not have looked, as nothing changed: the promise stands.
                if self.queue.waiting().next().is_none() {
                    self.promise = None;
                }
            }
        }
    }
}

/// Free cores of each broker that is here.
fn free(queue: &Queue, here: &BTreeSet<u32>) -> Vec<(u32, String)> {
    queue
        .pool()
        .nodes()
        .filter(|(offer, _)| here.contains(&offer.rank))
        .map(|(offer, part)| (offer.rank, part.cores.to_string()))
        .collect()
}

/// Ends everything: nothing is left behind.
fn wind_down(world: &mut World) {
    let ids: Vec<JobId> = world.queue.jobs().map(|job| job.id).collect();
    for id in ids {
        drop(world.queue.cancel(world.now, id, "end"));
    }
    let running: Vec<JobId> = world.queue.running().map(|job| job.id).collect();
    for id in running {
        world.queue.finished(world.now, id, Outcome { code: 143, ..Outcome::default() }).unwrap();
    }
    world.turn();
    assert!(world.queue.jobs().all(|job| job.state == State::Inactive), "all jobs can be ended");
    assert_eq!(world.queue.running().count(), 0);
    for (offer, part) in world.queue.pool().nodes() {
        assert_eq!(part.cores, offer.cores, "all cores came back");
        assert_eq!(part.memory, offer.memory);
    }
    let entries: Vec<Entry> = log::decode(&world.log).entries;
    let mut frees: BTreeMap<JobId, i32> = BTreeMap::new();
    for entry in &entries {
        match (&entry.event, entry.job) {
            (Event::Alloc(_), Some(id)) => *frees.entry(id).or_default() += 1,
            (Event::Free {}, Some(id)) => *frees.entry(id).or_default() -= 1,
            _ => {}
        }
    }
    assert!(frees.values().all(|balance| *balance == 0), "every allocation is freed once");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_history_breaks_the_queue(
        easy in any::<bool>(),
        acts in prop::collection::vec(act(), 1..80),
    ) {
        let mut world = World::new(if easy { Policy::Easy } else { Policy::Fifo });
        for act in &acts {
            world.act(act);
            world.turn();
        }
        wind_down(&mut world);
    }

    /// A log that ends anywhere is a log of an earlier moment: every prefix is a legal queue.
    #[test]
    fn every_prefix_of_a_log_replays(
        acts in prop::collection::vec(act(), 1..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut world = World::new(Policy::Easy);
        for act in &acts {
            world.act(act);
            world.turn();
        }
        let cut = cut.index(world.log.len() + 1);
        let contents = log::decode(&world.log[..cut]);
        prop_assert!(contents.damage.is_empty());
        let replayed = Queue::replay(world.settings.clone(), contents.entries, []).unwrap();
        prop_assert!(replayed.set_aside.is_empty(), "{:?}", replayed.set_aside);
        let mut queue = replayed.queue;
        for rank in 0..NODES {
            queue.node_here(offer(rank));
        }
        queue.resume(world.now);
        queue.schedule(world.now);
    }
}
