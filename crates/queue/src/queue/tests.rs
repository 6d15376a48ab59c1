//! The queue by examples: one cluster of four brokers with four cores each, unless said otherwise.

use super::*;
use crate::event::Outcome;
use crate::job::Standing;
use crate::jobspec::{Condition, Dependency, EarlySignal, Jobspec, Program, Request};
use crate::pool::Offer;
use quorate_hostlist::IdSet;

const T0: Time = Time(1_000_000);

fn at(seconds: u64) -> Time {
    T0.after_seconds(seconds)
}

struct Scene {
    queue: Queue,
    now: Time,
    launched: Vec<u64>,
    stopped: Vec<u64>,
    warned: Vec<u64>,
    log: Vec<Entry>,
}

fn scene_with(settings: Settings, cores: &[u32]) -> Scene {
    let mut queue = Queue::new(settings).unwrap();
    for (rank, cores) in (0..).zip(cores) {
        queue.node_here(offer(rank, *cores));
    }
    Scene { queue, now: T0, launched: vec![], stopped: vec![], warned: vec![], log: vec![] }
}

fn offer(rank: u32, cores: u32) -> Offer {
    Offer {
        rank,
        host: format!("n{rank}"),
        cores: IdSet::first_n(cores),
        gpus: IdSet::new(),
        memory: 1 << 30,
        properties: vec![format!("p{rank}")],
    }
}

fn scene() -> Scene {
    scene_with(Settings::default(), &[4, 4, 4, 4])
}

fn job() -> Jobspec {
    Jobspec::command("j", &["true"])
}

/// A job of that many tasks and seconds.
fn sized(tasks: u32, seconds: u64) -> Jobspec {
    let request = Request { tasks, ..Request::default() };
    Jobspec { request, time_limit: Some(seconds), ..job() }
}

impl Scene {
    fn submit(&mut self, spec: Jobspec) -> u64 {
        self.submit_copies(spec, &Copies::One)
    }

    fn submit_copies(&mut self, spec: Jobspec, copies: &Copies) -> u64 {
        self.queue.submit(self.now, 1000, spec, copies).unwrap().0
    }

    fn refused(&mut self, spec: Jobspec) -> String {
        let error = self.queue.submit(self.now, 1000, spec, &Copies::One).unwrap_err();
        assert_eq!(self.queue.take().0, [], "a refusal leaves nothing behind");
        error.to_string()
    }

    /// The scheduler's turn; answers what was launched.
    fn turn(&mut self) -> Vec<u64> {
        self.queue.tick(self.now);
        self.queue.schedule(self.now);
        let (entries, effects) = self.queue.take();
        self.log.extend(entries);
        let mut launched = vec![];
        for effect in effects {
            match effect {
                Effect::Launch(id) => {
                    self.queue.started(self.now, id).unwrap();
                    launched.push(id.0);
                }
                Effect::Stop(id) => self.stopped.push(id.0),
                Effect::Warn(id) => self.warned.push(id.0),
                Effect::Reattach(id) => panic!("job {id} was never left alone"),
            }
        }
        self.log.extend(self.queue.take().0);
        self.launched.extend(&launched);
        launched
    }

    fn end(&mut self, id: u64, code: u8) {
        self.queue.finished(self.now, JobId(id), Outcome { code, ..Outcome::default() }).unwrap();
    }

    fn state(&self, id: u64) -> State {
        self.queue.job(JobId(id)).unwrap().state
    }

    fn standing(&self, id: u64) -> Option<Standing> {
        self.queue.job(JobId(id)).unwrap().standing()
    }
}

fn after(on: Condition, id: u64) -> Jobspec {
    Jobspec { dependencies: vec![Dependency { on, job: JobId(id) }], ..job() }
}

#[test]
fn a_job_goes_through_all_states_and_its_nodes_come_back() {
    let mut scene = scene();
    let id = scene.submit(job());
    assert_eq!(scene.state(id), State::Sched);
    assert_eq!(scene.turn(), [id]);
    assert_eq!(scene.state(id), State::Run);
    scene.end(id, 0);
    assert_eq!(scene.state(id), State::Inactive);
    assert_eq!(scene.standing(id), Some(Standing::Completed));
    scene.turn();
    let names: Vec<&str> = scene.log.iter().map(|entry| entry.event.name()).collect();
    assert_eq!(
        names,
        ["submit", "depend", "priority", "alloc", "start", "finish", "free", "clean"]
    );
}

#[test]
fn equal_urgency_is_submit_order_and_a_higher_one_passes_the_head() {
    let mut scene = scene_with(Settings::default(), &[1]);
    let ids: Vec<u64> = (0..4).map(|_| scene.submit(job())).collect();
    assert_eq!(scene.turn(), [ids[0]]);
    scene.queue.set_urgency(scene.now, JobId(ids[3]), 20).unwrap();
    scene.queue.set_urgency(scene.now, JobId(ids[1]), 1).unwrap();
    for expected in [3, 2, 1] {
        scene.end(*scene.launched.last().unwrap(), 0);
        assert_eq!(scene.turn(), [ids[expected]]);
    }
}

#[test]
fn held_jobs_wait_until_they_are_released() {
    let mut scene = scene();
    let held = scene.submit(Jobspec { urgency: 0, ..job() });
    let other = scene.submit(job());
    scene.queue.hold(scene.now, JobId(other)).unwrap();
    assert_eq!(scene.turn(), [] as [u64; 0]);
    scene.queue.release(scene.now, JobId(other)).unwrap();
    scene.queue.release(scene.now, JobId(held)).unwrap();
    assert_eq!(scene.turn(), [held, other]);
    let error = scene.queue.hold(scene.now, JobId(held)).unwrap_err().to_string();
    assert_eq!(
        error,
        "job 1 is in state Run: only a job that waits can be held, released or moved"
    );
}

#[test]
fn back_fill_starts_what_cannot_delay_the_first_and_nothing_else() {
    let mut scene = scene();
    let long = scene.submit(sized(12, 100));
    assert_eq!(scene.turn(), [long]);
    let head = scene.submit(sized(16, 50));
    let too_long = scene.submit(sized(4, 101));
    let endless = scene.submit(job());
    let fits = scene.submit(sized(2, 100));
    assert_eq!(scene.turn(), [fits]);
    let forecast = scene.queue.forecasts()[0];
    assert_eq!((forecast.job.0, forecast.start), (head, at(100)));
    // A moment later the same job would end too late.
    scene.now = at(1);
    let late = scene.submit(sized(1, 100));
    let in_time = scene.submit(sized(1, 99));
    assert_eq!(scene.turn(), [in_time]);
    scene.now = at(90);
    for id in [long, fits, in_time] {
        scene.end(id, 0);
    }
    assert_eq!(scene.turn(), [head], "{too_long}, {endless} and {late} wait behind it");
}

#[test]
fn a_job_that_leaves_the_reserved_nodes_alone_may_be_endless() {
    let mut scene = scene_with(Settings::default(), &[4, 4, 2]);
    let first = scene.submit(Jobspec { request: two_nodes(6), time_limit: Some(10), ..job() });
    assert_eq!(scene.turn(), [first]);
    let second = scene.submit(Jobspec { request: two_nodes(8), time_limit: Some(10), ..job() });
    let endless = scene.submit(job());
    assert_eq!(scene.turn(), [endless], "on the small node, which {second} has no use for");
    let parts = &scene.queue.job(JobId(endless)).unwrap().allocation.as_ref().unwrap().parts;
    assert_eq!(parts[0].rank, 2);
}

fn two_nodes(tasks: u32) -> Request {
    Request { tasks, nodes: Some((2, 2)), ..Request::default() }
}

#[test]
fn in_a_fifo_queue_nothing_overtakes() {
    let mut scene = scene_with(Settings { policy: Policy::Fifo, ..Settings::default() }, &[4]);
    let first = scene.submit(sized(3, 10));
    let second = scene.submit(sized(2, 10));
    let third = scene.submit(sized(1, 1));
    assert_eq!(scene.turn(), [first]);
    scene.end(first, 0);
    assert_eq!(scene.turn(), [second, third]);
}

#[test]
fn nobody_waits_behind_a_job_that_needs_a_node_that_is_away() {
    let mut scene = scene();
    scene.queue.node_away(3);
    let head = scene.submit(sized(16, 10));
    let other = scene.submit(job());
    assert_eq!(scene.turn(), [other]);
    scene.end(other, 0);
    scene.queue.node_here(Offer {
        rank: 3,
        host: "n3".into(),
        cores: IdSet::first_n(4),
        ..Offer::default()
    });
    assert_eq!(scene.turn(), [head]);
}

#[test]
fn what_the_cluster_can_never_run_is_refused_at_once() {
    let mut scene = scene();
    assert_eq!(
        scene.refused(sized(17, 1)),
        "the cluster cannot run it, even when nothing else runs: it asks for 17 cores, and there are 16"
    );
    let gpus = Request { gpus_per_task: 1, ..Request::default() };
    assert_eq!(
        scene.refused(Jobspec { request: gpus, ..job() }),
        "the cluster cannot run it, even when nothing else runs: it asks for 1 accelerators, and there are 0"
    );
    let wide = Request { tasks: 2, cores_per_task: 5, ..Request::default() };
    assert_eq!(
        scene.refused(Jobspec { request: wide, ..job() }),
        "the cluster cannot run it, even when nothing else runs: the nodes do not hold 2 tasks of 5 cores each"
    );
    scene.queue.node_away(0);
    scene.queue.drain(scene.now, 1, "disk").unwrap();
    scene.queue.take();
    scene.submit(sized(16, 1));
    assert_eq!(scene.turn(), [] as [u64; 0], "nodes that are away may come back");
}

#[test]
fn queues_refuse_what_they_do_not_allow_and_say_it() {
    let limits = Limits { nodes: Some(2), time: Some(60), ..Limits::default() };
    let mut small = Lane { limits, ..Lane::named("small") };
    let lanes = vec![Lane::named("all"), small.clone()];
    let mut scene = scene_with(Settings { lanes, ..Settings::default() }, &[4, 4, 4, 4]);
    let in_small = |spec| Jobspec { queue: Some("small".into()), ..spec };
    assert_eq!(
        scene.refused(in_small(sized(1, 61))),
        "timeLimit is 61, and queue `small` allows 60"
    );
    assert_eq!(
        scene.refused(in_small(job())),
        "queue `small` needs a time limit of at most 60 s, and the job has none"
    );
    let three = Request { tasks: 3, nodes: Some((3, 3)), ..Request::default() };
    assert_eq!(
        scene.refused(in_small(Jobspec { request: three, time_limit: Some(1), ..job() })),
        "request.nodes is 3, and queue `small` allows 2"
    );
    assert_eq!(
        scene.refused(Jobspec { queue: Some("big".into()), ..job() }),
        "there is no queue `big`; there are all, small"
    );
    let waiting = scene.submit(in_small(sized(1, 60)));
    small.started = false;
    scene.queue.set_lane(scene.now, small.clone()).unwrap();
    let other = scene.submit(job());
    assert_eq!(scene.turn(), [other], "a stopped queue starts nothing");
    small.enabled = false;
    small.reason = "maintenance at noon".into();
    scene.queue.set_lane(scene.now, small.clone()).unwrap();
    scene.queue.take();
    assert_eq!(
        scene.refused(in_small(sized(1, 1))),
        "queue `small` takes no jobs: maintenance at noon"
    );
    small.started = true;
    scene.queue.set_lane(scene.now, small).unwrap();
    assert_eq!(scene.turn(), [waiting], "a disabled queue starts what it has");
}

#[test]
fn dependencies_wait_are_met_or_end_the_job_with_the_reason() {
    use Condition::{AfterAny, AfterNotOk, AfterOk, AfterStart};
    // What the other job comes to, then which of the conditions let a job run.
    for (comes_to, met) in [
        ("ok", vec![AfterStart, AfterAny, AfterOk]),
        ("fails", vec![AfterStart, AfterAny, AfterNotOk]),
        ("cancelled while running", vec![AfterStart, AfterAny, AfterNotOk]),
        ("cancelled before", vec![AfterAny]),
    ] {
        let mut scene = scene_with(Settings::default(), &[8]);
        let held = comes_to == "cancelled before";
        let other = scene.submit(Jobspec { urgency: if held { 0 } else { 16 }, ..job() });
        let all = [AfterStart, AfterAny, AfterOk, AfterNotOk];
        let ids = all.map(|on| {
            let spec = after(on, other);
            scene.submit(spec)
        });
        assert!(ids.iter().all(|id| scene.state(*id) == State::Depend));
        scene.turn();
        match comes_to {
            "ok" => scene.end(other, 0),
            "fails" => scene.end(other, 3),
            "cancelled before" => scene.queue.cancel(scene.now, JobId(other), "").unwrap(),
            _ => {
                scene.queue.cancel(scene.now, JobId(other), "").unwrap();
                scene.end(other, 143);
            }
        }
        scene.turn();
        for (on, id) in all.iter().zip(ids) {
            let expected = if met.contains(on) { State::Run } else { State::Inactive };
            assert_eq!(scene.state(id), expected, "{on:?} of a job that {comes_to}");
            if expected == State::Inactive {
                let cause = scene.queue.job(JobId(id)).unwrap().cause.clone().unwrap();
                assert_eq!(&*cause.kind, "dependency");
                assert!(cause.note.starts_with("job 1 "), "{}", cause.note);
            }
        }
    }
}

#[test]
fn a_chain_of_ten_thousand_jobs_ends_when_its_first_fails() {
    let mut scene = scene();
    let mut last = scene.submit(job());
    for _ in 0..10_000 {
        let spec = after(Condition::AfterOk, last);
        last = scene.submit(spec);
    }
    scene.turn();
    scene.end(1, 1);
    assert_eq!(scene.standing(last), Some(Standing::Failed));
}

#[test]
fn a_dependency_on_an_unknown_job_is_refused_and_loops_cannot_be_made() {
    let mut scene = scene();
    let spec = after(Condition::AfterOk, 1);
    assert_eq!(
        scene.refused(spec),
        "it depends on job 1, which is not known (it may have been purged)",
        "a job cannot depend on itself or on a later one: it has no number yet"
    );
}

#[test]
fn a_singleton_waits_for_all_of_its_name_and_user() {
    let mut scene = scene();
    let first = scene.submit(job());
    let second = scene.submit(Jobspec { singleton: true, ..job() });
    let third = scene.submit(Jobspec { singleton: true, ..job() });
    let other = scene.submit(Jobspec { singleton: true, name: "k".into(), ..job() });
    assert_eq!(scene.turn(), [first, other]);
    scene.end(first, 1);
    assert_eq!(scene.turn(), [second]);
    scene.end(second, 0);
    assert_eq!(scene.turn(), [third]);
}

#[test]
fn a_job_begins_at_its_moment_and_ends_at_its_limit() {
    let mut scene = scene();
    let id = scene.submit(Jobspec { begin: Some(at(10)), ..sized(1, 5) });
    assert_eq!(scene.turn(), [] as [u64; 0]);
    assert_eq!(scene.queue.wake_at(), Some(at(10)));
    scene.now = at(10);
    assert_eq!(scene.turn(), [id]);
    assert_eq!(scene.queue.wake_at(), Some(at(15)));
    scene.now = at(15);
    scene.turn();
    assert_eq!(scene.stopped, [id]);
    assert_eq!(scene.state(id), State::Cleanup, "its nodes are its own until its tasks are gone");
    scene.end(id, 137);
    assert_eq!(scene.standing(id), Some(Standing::TimedOut));
    assert_eq!(scene.queue.job(JobId(id)).unwrap().exit_code(), Some(142));
    assert_eq!(scene.queue.wake_at(), None);
}

#[test]
fn a_longer_limit_is_counted_from_the_start() {
    let mut scene = scene();
    let id = scene.submit(sized(1, 5));
    scene.turn();
    scene.now = at(4);
    scene.queue.set_time_limit(scene.now, JobId(id), Some(8)).unwrap();
    assert_eq!(scene.queue.wake_at(), Some(at(8)));
    scene.queue.set_time_limit(scene.now, JobId(id), None).unwrap();
    assert_eq!(scene.queue.wake_at(), None);
}

#[test]
fn cancel_in_every_state_frees_once() {
    let mut scene = scene();
    let waits = scene.submit(Jobspec { begin: Some(at(100)), ..job() });
    let held = scene.submit(Jobspec { urgency: 0, ..job() });
    let runs = scene.submit(sized(16, 10));
    scene.turn();
    let ready = scene.submit(job());
    for id in [waits, held, ready] {
        scene.queue.cancel(scene.now, JobId(id), "not needed").unwrap();
        assert_eq!(scene.standing(id), Some(Standing::Cancelled));
        assert_eq!(scene.queue.job(JobId(id)).unwrap().exit_code(), Some(1));
    }
    for _ in 0..2 {
        scene.queue.cancel(scene.now, JobId(runs), "not needed").unwrap();
    }
    scene.turn();
    assert_eq!(scene.stopped, [runs, runs], "asked again, it is stopped harder");
    scene.end(runs, 143);
    scene.end(runs, 143);
    assert_eq!(scene.queue.job(JobId(runs)).unwrap().exit_code(), Some(143));
    let error = scene.queue.cancel(scene.now, JobId(runs), "").unwrap_err().to_string();
    assert_eq!(error, "job 3 is over (Inactive)");
    scene.turn();
    let frees = scene.log.iter().filter(|entry| entry.event == Event::Free {}).count();
    assert_eq!(frees, 1);
    assert_eq!(scene.queue.wake_at(), None, "no timer of a job that is over is left");
}

#[test]
fn an_array_runs_at_most_as_many_at_once_as_it_may() {
    let mut scene = scene();
    let indices = "0-4".parse().unwrap();
    let first = scene.submit_copies(job(), &Copies::Array { indices, limit: Some(2) });
    assert_eq!(scene.turn(), [first, first + 1]);
    scene.end(first + 1, 0);
    assert_eq!(scene.turn(), [first + 2]);
    scene.end(first, 1);
    scene.end(first + 2, 0);
    assert_eq!(scene.turn(), [first + 3, first + 4]);
    let element = scene.queue.job(JobId(first + 4)).unwrap().submission.element.unwrap();
    assert_eq!((element.array.0, element.index), (first, 4));
}

#[test]
fn the_limit_of_an_array_is_changed_while_it_runs() {
    let mut scene = scene();
    let indices = "0-5".parse().unwrap();
    let first = scene.submit_copies(job(), &Copies::Array { indices, limit: Some(1) });
    assert_eq!(scene.turn(), [first]);
    let set = |scene: &mut Scene, limit| {
        for id in first..first + 6 {
            let _ = scene.queue.set_array_limit(scene.now, JobId(id), limit);
        }
    };
    set(&mut scene, Some(3));
    assert_eq!(scene.turn(), [first + 1, first + 2]);
    set(&mut scene, Some(1));
    scene.end(first, 0);
    scene.end(first + 1, 0);
    assert_eq!(scene.turn(), [0; 0], "one of it still runs");
    set(&mut scene, None);
    assert_eq!(scene.turn(), [first + 3, first + 4, first + 5]);
    let alone = scene.submit(job());
    assert!(scene.queue.set_array_limit(scene.now, JobId(alone), Some(2)).is_err());
}

#[test]
fn a_job_that_asked_for_it_runs_again_after_its_broker_was_lost() {
    let mut scene = scene();
    let again = scene.submit(Jobspec { requeue: true, ..sized(8, 10) });
    let fails = scene.submit(sized(8, 10));
    scene.turn();
    let rank_of =
        |scene: &Scene, id| scene.queue.job(JobId(id)).unwrap().allocation.clone().unwrap();
    let lost = [rank_of(&scene, again).parts[0].rank, rank_of(&scene, fails).parts[0].rank];
    for rank in lost {
        scene.queue.node_lost(scene.now, rank, "broker lost");
    }
    scene.turn();
    assert_eq!(scene.stopped, [again, fails]);
    scene.end(again, 69);
    scene.end(fails, 69);
    assert_eq!(scene.standing(fails), Some(Standing::Failed));
    assert_eq!(scene.turn(), [again], "on the brokers that are left");
    assert_eq!(scene.queue.job(JobId(again)).unwrap().requeues, 1);
}

#[test]
fn an_instance_goes_on_without_a_lost_node_but_its_first() {
    let mut scene = scene();
    let wide = |nodes| Jobspec {
        program: Program::Instance,
        request: Request { tasks: nodes * 4, nodes: Some((nodes, nodes)), ..Request::default() },
        ..job()
    };
    let (first, again) = (scene.submit(wide(2)), Jobspec { requeue: true, ..wide(2) });
    let again = scene.submit(again);
    scene.turn();
    let ranks = |scene: &Scene, id| scene.queue.job(JobId(id)).unwrap().allocation.clone().unwrap();
    assert_eq!(ranks(&scene, first).ranks().to_string(), "0-1");
    scene.queue.node_lost(scene.now, 1, "broker lost");
    // Who asked to begin again does that instead.
    scene.queue.node_lost(scene.now, 3, "broker lost");
    scene.turn();
    assert_eq!((scene.state(first), &scene.stopped[..]), (State::Run, &[again][..]));
    assert_eq!(ranks(&scene, first).ranks().to_string(), "0");
    // When it comes again its cores are for others.
    scene.queue.node_here(offer(1, 4));
    let next = scene.submit(sized(4, 10));
    assert_eq!(scene.turn(), [next]);
    assert_eq!(ranks(&scene, next).ranks().to_string(), "1");
    scene.queue.node_lost(scene.now, 0, "broker lost");
    scene.turn();
    assert_eq!(scene.stopped, [again, first]);
    scene.end(first, 69);
    assert_eq!(scene.standing(first), Some(Standing::Failed));
}

#[test]
fn a_job_is_warned_once_before_its_time_is_over() {
    let mut scene = scene();
    let warned = |seconds, limit| {
        let signal = Some(EarlySignal { number: 10, seconds, script: false });
        Jobspec { signal, ..sized(1, limit) }
    };
    let (long, short) = (scene.submit(warned(4, 10)), scene.submit(warned(60, 3)));
    scene.turn();
    // There is no more time than that: it is warned as soon as it runs.
    scene.turn();
    assert_eq!((&scene.warned[..], scene.queue.wake_at()), (&[short][..], Some(at(3))));
    scene.now = at(3);
    scene.turn();
    assert_eq!((&scene.stopped[..], scene.queue.wake_at()), (&[short][..], Some(at(6))));
    // More time moves the warning.
    scene.queue.set_time_limit(scene.now, JobId(long), Some(12)).unwrap();
    assert_eq!(scene.queue.wake_at(), Some(at(8)));
    scene.now = at(8);
    scene.turn();
    scene.turn();
    assert_eq!((&scene.warned[..], scene.queue.wake_at()), (&[short, long][..], Some(at(12))));
    let last = scene.queue.job(JobId(long)).unwrap().history.last().unwrap().1.clone();
    assert_eq!(last.name(), "exception");
    scene.end(long, 0);
    scene.turn();
    assert_eq!(scene.standing(long), Some(Standing::Completed));
    let refused = scene.refused(Jobspec {
        signal: Some(EarlySignal { number: 65, seconds: 1, script: false }),
        ..job()
    });
    assert_eq!(refused, "the job cannot be taken");
}

#[test]
fn what_only_a_broker_gone_for_good_could_run_is_refused() {
    let mut scene = scene_with(Settings::default(), &[4, 4]);
    let first = scene.submit(sized(4, 10));
    scene.turn();
    let waits = scene.submit(sized(8, 10));
    let afterwards = Jobspec {
        dependencies: vec![Dependency { on: Condition::AfterAny, job: JobId(first) }],
        ..sized(8, 10)
    };
    let afterwards = scene.submit(afterwards);
    scene.queue.node_gone(scene.now, 1, "broker lost");
    // They would be stuck for ever.
    for id in [waits, afterwards] {
        assert_eq!(scene.standing(id), Some(Standing::Failed));
        let cause = scene.queue.job(JobId(id)).unwrap().cause.clone().unwrap();
        assert_eq!(&*cause.note, "it asks for 8 cores, and there are 4: broker lost");
    }
    assert_eq!(scene.state(first), State::Run);
    scene.end(first, 0);
    scene.turn();
    assert!(scene.refused(sized(8, 10)).contains("cannot run it"));
    let fits = scene.submit(sized(4, 10));
    assert_eq!(scene.turn(), [fits]);
}

#[test]
fn a_drained_broker_keeps_its_job_and_gets_no_other() {
    let mut scene = scene_with(Settings::default(), &[4]);
    let runs = scene.submit(job());
    scene.turn();
    scene.queue.drain(scene.now, 0, "fan").unwrap();
    let waits = scene.submit(job());
    assert_eq!(scene.turn(), [] as [u64; 0]);
    assert_eq!(scene.state(runs), State::Run);
    scene.queue.undrain(scene.now, 0).unwrap();
    assert_eq!(scene.turn(), [waits]);
    let error = scene.queue.drain(scene.now, 7, "").unwrap_err().to_string();
    assert_eq!(error, "there is no broker 7");
}

#[test]
fn numbers_are_never_given_again_not_even_after_a_purge_and_a_restart() {
    let mut scene = scene();
    for _ in 0..3 {
        let id = scene.submit(job());
        scene.turn();
        scene.end(id, 0);
    }
    let waits = scene.submit(Jobspec { urgency: 0, ..job() });
    assert_eq!(scene.queue.purge(scene.now, Time(0), 1), 2);
    assert_eq!(scene.queue.purge(scene.now, at(1), 9), 1);
    scene.turn();
    for log in [scene.log.clone(), scene.queue.compacted(scene.now).collect()] {
        let replayed = Queue::replay(Settings::default(), log, []).unwrap();
        assert_eq!(replayed.set_aside, []);
        assert_eq!(replayed.queue.jobs().map(|job| job.id.0).collect::<Vec<_>>(), [waits]);
        assert_eq!(replayed.queue.next_id(), JobId(waits + 1));
    }
}

#[test]
fn a_job_with_a_damaged_line_is_set_aside_and_the_others_go_on() {
    let mut scene = scene();
    let runs = scene.submit(job());
    let other = scene.submit(job());
    scene.turn();
    let log = scene.log.clone();
    let without = log
        .iter()
        .filter(|entry| entry.job != Some(JobId(runs)) || !matches!(entry.event, Event::Depend {}));
    let replayed = Queue::replay(Settings::default(), without.cloned(), []).unwrap();
    assert_eq!(replayed.set_aside.len(), 1);
    assert_eq!(
        replayed.set_aside[0].1,
        "job 1 in state Depend cannot have had the event `priority`"
    );
    assert_eq!(replayed.queue.running().map(|job| job.id.0).collect::<Vec<_>>(), [other]);
    assert_eq!(replayed.queue.next_id(), JobId(other + 1));
}

#[test]
fn a_job_that_is_cancelled_while_it_would_begin_again_does_not() {
    let mut scene = scene();
    let id = scene.submit(Jobspec { requeue: true, ..job() });
    scene.turn();
    scene.queue.requeue(scene.now, JobId(id), "again").unwrap();
    scene.queue.cancel(scene.now, JobId(id), "no").unwrap();
    scene.end(id, 143);
    assert_eq!(scene.standing(id), Some(Standing::Cancelled));
}

#[test]
fn jobs_that_could_not_be_made_durable_leave_nothing_behind() {
    let mut scene = scene_with(Settings::default(), &[4]);
    let kept = scene.submit(job());
    scene.queue.schedule(scene.now);
    let gone = scene.submit_copies(sized(2, 10), &Copies::Many(2));
    scene.queue.schedule(scene.now);
    scene.queue.retract(&[JobId(gone), JobId(gone + 1)].into());
    let (entries, effects) = scene.queue.take();
    assert!(entries.iter().all(|entry| entry.job == Some(JobId(kept))), "{entries:?}");
    assert_eq!(effects, [Effect::Launch(JobId(kept))]);
    assert_eq!(scene.queue.jobs().count(), 1);
    // Their cores are free, and their numbers are not given again in this life.
    let next = scene.submit(sized(3, 10));
    assert_eq!(next, gone + 2);
    assert_eq!(scene.turn(), [next]);
}

#[test]
fn copies_share_one_specification_in_the_log_and_after_it() {
    let mut scene = scene();
    let numbers = "7-9".parse().unwrap();
    let spec = Jobspec::command("case-{cc}", &["run", "{cc}", "{{id}}"]);
    let first = scene.submit_copies(spec, &Copies::Each { numbers });
    scene.turn();
    let whole = scene.log.iter().filter(|entry| matches!(entry.event, Event::Submit(_))).count();
    assert_eq!(whole, 1);
    scene.queue.cancel(scene.now, JobId(first), "").unwrap();
    scene.end(first, 0);
    scene.turn();
    scene.queue.purge(scene.now, Time::NEVER, usize::MAX);
    scene.turn();
    for log in [scene.log.clone(), scene.queue.compacted(scene.now).collect()] {
        let replayed = Queue::replay(Settings::default(), log, []).unwrap();
        assert_eq!(replayed.set_aside, []);
        let names: Vec<String> = replayed.queue.jobs().map(|job| job.name().into_owned()).collect();
        assert_eq!(names, ["case-8", "case-9"]);
        let mut specs = replayed.queue.jobs().map(|job| &job.submission.spec);
        assert!(Arc::ptr_eq(specs.next().unwrap(), specs.next().unwrap()));
        let job = replayed.queue.job(JobId(first + 1)).unwrap();
        assert_eq!(job.filled("{cc} {{id}} {{name}} {x}"), format!("8 {} case-8 {{x}}", job.id));
    }
}

#[test]
fn numbers_that_only_a_former_boot_knew_are_not_given_again() {
    let settings = || Settings { may_grow: true, ..Settings::default() };
    let mut queue = Queue::new(settings()).unwrap();
    let job = || Jobspec::command("j", &["true"]);
    assert!(!queue.within_reserve());
    queue.submit(Time(1), 1, job(), &Copies::One).unwrap();
    let (mut log, _) = queue.take();
    log.push(queue.reserve(Time(1), 3, "boot one"));
    assert!(queue.within_reserve());
    queue.submit(Time(2), 1, job(), &Copies::Many(3)).unwrap();
    assert!(queue.within_reserve(), "number 4 is the last");
    queue.submit(Time(2), 1, job(), &Copies::One).unwrap();
    assert!(!queue.within_reserve(), "number 5 needs more");
    // What was submitted after the reserve is lost with the machine, and only then.
    let replay = |boot: &str, log: Vec<Entry>| {
        let mut queue = Queue::replay(settings(), log, []).unwrap().queue;
        queue.boot_is(boot);
        queue
    };
    assert_eq!(replay("boot one", log.clone()).next_id(), JobId(2));
    let other = replay("boot two", log.clone());
    assert_eq!((other.next_id(), other.within_reserve()), (JobId(5), false));
    let compacted = replay("boot one", log).compacted(Time(3)).collect();
    assert_eq!(replay("boot two", compacted).next_id(), JobId(5));
}
