//! The life of a status: what is kept, what is never believed, and what is told when.

use std::sync::Arc;
use std::time::Duration;

use crate::seen::{Seen, read};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use quorate_api::status::{MiniClusterStatus, State};
use quorate_observe::{
    EventType, JobSetFacts, Observed, Pace, PodFacts, pace, patience, recheck, status, transitions,
    why,
};

/// Lets the status of one look be the old one of the next.
fn written(from: &MiniClusterStatus, mut next: Seen) -> Seen {
    Arc::make_mut(&mut next.observed.cluster).status = Some(from.clone());
    next
}

fn look(seen: &Seen) -> MiniClusterStatus {
    status(&seen.observed, seen.now)
}

fn jobset(observed: &mut Observed) -> &mut JobSetFacts {
    Arc::make_mut(observed.jobset.as_mut().unwrap())
}

fn pod<'a>(observed: &'a mut Observed, name: &str) -> &'a mut PodFacts {
    let pod = observed.pods.iter_mut().find(|pod| pod.short_name() == name).unwrap();
    Arc::make_mut(pod)
}

fn holds(status: &MiniClusterStatus, kind: &str) -> bool {
    status.conditions.iter().any(|one| one.type_ == kind && one.status == "True")
}

const RUNNING: &str = include_str!("causes/running.yaml");
const READY: &str = include_str!("causes/running-by-readiness.yaml");
const FAILED: &str = include_str!("causes/program-failed.yaml");
const SUCCEEDED: &str = include_str!("causes/succeeded.yaml");

#[test]
fn the_first_status_has_what_the_scale_subresource_needs() {
    for text in ["kind: Scene\nwithout: [jobset, lammps]\n", include_str!("causes/invalid.yaml")] {
        let status = look(&read(text));
        assert_eq!(status.selector.as_deref(), Some("quorate.dev/cluster=lammps"));
        assert_eq!(status.size, Some(4));
        assert_eq!(status.observed_generation, Some(1));
    }
}

#[test]
fn what_the_program_left_behind_outlives_its_pods() {
    let mut ended = read(FAILED);
    jobset(&mut ended.observed).failed = quorate_observe::Reading::Absent;
    let first = look(&ended);
    assert_eq!(first.exit_code, Some(139));
    let failure = first.failure.clone().unwrap();
    assert_eq!((failure.rank, failure.pod.as_deref()), (Some(5), Some("worker-0-2")));
    assert_eq!((failure.node.as_deref(), failure.attempt), (Some("n1"), Some(0)));
    assert_eq!(failure.log_tail, ["reading mesh.h5", "allocated 2.1 GB"]);

    let mut gone = written(&first, read(FAILED));
    gone.observed.pods.clear();
    let last = look(&gone);
    assert_eq!(last.state, Some(State::Failed));
    assert_eq!(last.failure, Some(failure));
    assert_eq!(last.exit_code, Some(139));
    assert_eq!(last.reason.as_deref(), Some("Signaled"));
    let message = first.failure.unwrap().message.unwrap();
    assert_eq!(last.message, Some(format!("{message}; last line of rank 5: allocated 2.1 GB")));
}

#[test]
fn a_better_explanation_replaces_a_vague_one_and_not_the_other_way_round() {
    let vague = look(&read(include_str!("causes/broker-lost.yaml")));
    let text = include_str!("causes/broker-lost-for-its-memory.yaml");
    let mut open = vague.clone();
    open.conditions.retain(|one| one.type_ != "Failed");
    let better = look(&written(&open, read(text)));
    assert_eq!(better.failure.as_ref().unwrap().reason.as_deref(), Some("OutOfMemory"));
    let mut open = better.clone();
    open.conditions.retain(|one| one.type_ != "Failed");
    let kept = look(&written(&open, read(include_str!("causes/broker-lost.yaml"))));
    assert_eq!(kept.failure, better.failure);
}

#[test]
fn what_is_over_never_changes_again() {
    let first = look(&read(SUCCEEDED));
    assert_eq!(first.state, Some(State::Succeeded));
    let mut gone = written(&first, read(FAILED));
    gone.now += SignedDuration::from_hours(1);
    assert_eq!(look(&gone), first);
    gone.observed.jobset = None;
    gone.observed.pods.clear();
    assert_eq!(look(&gone), first);
    // An edited object is still over, and `kubectl wait` must see that this is the newest word.
    Arc::make_mut(&mut gone.observed.cluster).metadata.generation = Some(2);
    let edited = look(&gone);
    assert_eq!(edited.observed_generation, Some(2));
    assert!(edited.conditions.iter().all(|one| one.observed_generation == Some(2)));
    assert_eq!(edited.state, Some(State::Succeeded));
}

#[test]
fn a_cluster_that_was_made_anew_does_not_inherit_a_verdict() {
    let first = look(&read(FAILED));
    let mut anew = written(&first, read("kind: Scene\n"));
    jobset(&mut anew.observed).created = Some(anew.now);
    let status = look(&anew);
    assert_eq!(status.state, Some(State::Starting));
    assert_eq!((status.failure.as_ref(), status.exit_code), (None, None));
    assert!(!holds(&status, "Failed"));
}

#[test]
fn a_jobset_of_a_former_cluster_says_nothing_about_this_one() {
    let mut seen = read(SUCCEEDED);
    jobset(&mut seen.observed).owner =
        Some(("MiniCluster".into(), "lammps".into(), "99999999-former".into()));
    let status = look(&seen);
    assert_eq!(status.state, Some(State::Pending));
    assert_eq!((status.online, status.exit_code), (Some(0), None));
    assert_eq!(status.reason.as_deref(), Some("NameTaken"));
}

#[test]
fn a_ready_launcher_of_an_earlier_attempt_is_no_quorum() {
    let mut seen = read(READY);
    assert!(holds(&look(&seen), "Quorate"));
    jobset(&mut seen.observed).restarts = 1;
    let status = look(&seen);
    assert!(!holds(&status, "Quorate"));
    assert_eq!((status.attempt, status.online), (Some(1), Some(0)));
    assert_eq!(status.state, Some(State::Restarting));
}

#[test]
fn a_ready_launcher_of_another_jobset_is_no_quorum() {
    let mut seen = read(READY);
    pod(&mut seen.observed, "launcher-0-0").jobset = "someone".into();
    assert!(!holds(&look(&seen), "Quorate"));
}

#[test]
fn the_words_of_a_launcher_that_is_gone_are_not_believed() {
    let mut seen = read(RUNNING);
    assert_eq!(look(&seen).online, Some(4));
    seen.observed.live.as_mut().unwrap().pod_uid = "another".into();
    assert_eq!(look(&seen).online, Some(0));
}

#[test]
fn ready_workers_alone_are_no_quorum() {
    let mut seen = read("kind: Scene\n");
    for index in 0..3 {
        pod(&mut seen.observed, &format!("worker-0-{index}")).ready = true;
    }
    let status = look(&seen);
    assert_eq!(status.online, Some(3));
    assert!(!holds(&status, "Quorate"));
}

#[test]
fn online_follows_a_lost_broker() {
    let mut seen = read(RUNNING);
    let before = look(&seen);
    seen.observed.live.as_mut().unwrap().status.online = 3;
    let seen = written(&before, seen);
    let after = look(&seen);
    assert_eq!(after.online, Some(3));
    assert!(!holds(&after, "Quorate"));
    // The program has not said that it cannot go on.
    assert!(holds(&after, "Running"));
    assert_eq!(after.state, Some(State::Running));
    assert_eq!(after.quorate_time, before.quorate_time);
    assert_eq!(pace(Some(&before), &after, 1), Pace::Now);
}

#[test]
fn a_broker_whose_pod_is_gone_is_not_online_although_rank_0_has_not_noticed() {
    let mut seen = read(RUNNING);
    let live = &mut seen.observed.live.as_mut().unwrap().status;
    (live.online, live.online_ranks) = (4, "0-3".into());
    assert_eq!(look(&seen).online, Some(4));
    pod(&mut seen.observed, "worker-0-1").phase = quorate_observe::Phase::Failed;
    assert_eq!(look(&seen).online, Some(3), "it was given up");
    let now = seen.now;
    pod(&mut seen.observed, "worker-0-2").deleting = Some(now);
    assert_eq!(look(&seen).online, Some(3), "it is told to leave, and connected");
    let live = &mut seen.observed.live.as_mut().unwrap().status;
    live.torpid_ranks = "3".into();
    assert_eq!(look(&seen).online, Some(2), "nothing is heard of it");
    let live = &mut seen.observed.live.as_mut().unwrap().status;
    (live.online, live.online_ranks) = (2, "0-1".into());
    assert_eq!(look(&seen).online, Some(2), "rank 0 knows it by now");
}

#[test]
fn a_condition_keeps_its_time_until_its_value_changes() {
    let waiting = look(&read("kind: Scene\n"));
    let mut later = written(&waiting, read(include_str!("causes/unschedulable-cpu.yaml")));
    later.now += SignedDuration::from_mins(5);
    let stuck = look(&later);
    let time = |status: &MiniClusterStatus, kind: &str| -> Timestamp {
        status.conditions.iter().find(|one| one.type_ == kind).unwrap().last_transition_time.0
    };
    assert_ne!(waiting.message, stuck.message);
    assert_eq!(time(&waiting, "Quorate"), time(&stuck, "Quorate"));
    let mut up = written(&stuck, read(READY));
    up.now += SignedDuration::from_mins(9);
    let up_now = up.now;
    assert_eq!(time(&look(&up), "Quorate"), up_now);
}

#[test]
fn a_suspended_cluster_needs_a_new_quorum() {
    let up = look(&read(READY));
    assert!(up.quorate_time.is_some());
    let away = look(&written(&up, read(include_str!("causes/suspended-by-spec.yaml"))));
    assert_eq!(away.state, Some(State::Suspended));
    assert_eq!(away.quorate_time, None);
    let back = look(&written(&away, read(READY)));
    assert_eq!(back.state, Some(State::Running));
    let resumed = back.conditions.iter().find(|one| one.type_ == "Suspended").unwrap();
    assert_eq!((resumed.status.as_str(), resumed.reason.as_str()), ("False", "Resumed"));
}

#[test]
fn a_change_that_is_not_taken_leaves_the_size() {
    let up = look(&read(RUNNING));
    let text = format!(
        "{RUNNING}obstacles:\n- {{type: Immutable, fields: [spec.size]}}\n---\nkind: MiniCluster\nmetadata: {{name: lammps, generation: 2}}\nspec: {{size: 7}}\n"
    );
    let status = look(&written(&up, read(&text)));
    assert_eq!(status.size, Some(4));
    assert!(!holds(&status, "Accepted"));
    assert!(holds(&status, "Running"));
    assert_eq!(status.state, Some(State::Running));
}

#[test]
fn a_cluster_in_deletion_keeps_its_last_status() {
    let up = look(&read(RUNNING));
    let gone = written(&up, read(include_str!("causes/deleting.yaml")));
    assert_eq!(look(&gone), up);
    assert_eq!(why(&gone.observed, gone.now).cause.reason(), "Deleting");
}

#[test]
fn until_it_runs_a_cluster_costs_few_events_and_writes() {
    let mut old: Option<MiniClusterStatus> = None;
    let (mut writes, mut events) = (0, Vec::new());
    for text in [
        "kind: Scene\nwithout: [jobset, lammps]\n",
        "kind: Scene\nnow: \"2026-11-28T10:00:02Z\"\nwithout: [lammps-launcher-0, lammps-worker-0]\n",
        include_str!("causes/pods-starting.yaml"),
        include_str!("causes/brokers-finding-each-other.yaml"),
        RUNNING,
    ] {
        let mut seen = read(text);
        if let Some(old) = &old {
            seen = written(old, seen);
        }
        let new = look(&seen);
        if pace(old.as_ref(), &new, 1) != Pace::Nothing {
            writes += 1;
        }
        events.extend(transitions(old.as_ref(), &new));
        assert_eq!(transitions(Some(&new), &new), []);
        old = Some(new);
    }
    // With four objects that makes 8 at most, and the controller may join writes that can wait.
    assert!(writes <= 4, "{writes} writes");
    let events: Vec<_> = events.iter().map(|event| event.reason.as_str()).collect();
    assert_eq!(events, ["ProgramStarted"]);
}

#[test]
fn each_turn_is_told_once() {
    let told = |old: &MiniClusterStatus, new: &MiniClusterStatus| -> Vec<(EventType, String)> {
        transitions(Some(old), new).into_iter().map(|one| (one.kind, one.reason)).collect()
    };
    let up = look(&read(RUNNING));
    let stuck = look(&read(include_str!("causes/unschedulable-cpu.yaml")));
    let start = look(&read("kind: Scene\n"));
    assert_eq!(told(&start, &stuck), [(EventType::Warning, "Unschedulable".into())]);
    assert_eq!(told(&stuck, &stuck), []);
    assert_eq!(told(&stuck, &up), [(EventType::Normal, "ProgramStarted".into())]);
    let again = look(&written(&up, read(include_str!("causes/restarting.yaml"))));
    assert_eq!(told(&up, &again), [(EventType::Warning, "Restarting".into())]);
    let failed = look(&written(&up, read(FAILED)));
    assert_eq!(told(&up, &failed), [(EventType::Warning, "Signaled".into())]);
    let done = look(&written(&up, read(SUCCEEDED)));
    assert_eq!(told(&up, &done), [(EventType::Normal, "Completed".into())]);
    let away = look(&read(include_str!("causes/waiting-for-admission.yaml")));
    assert_eq!(told(&start, &away), [(EventType::Normal, "WaitingForAdmission".into())]);
    assert_eq!(
        told(&away, &look(&written(&away, read("kind: Scene\n")))),
        [(EventType::Normal, "Resumed".into())]
    );
    let lost = {
        let mut seen = read(RUNNING);
        seen.observed.live.as_mut().unwrap().status.online = 3;
        look(&written(&up, seen))
    };
    assert_eq!(told(&up, &lost), [(EventType::Warning, "WaitingForBrokers".into())]);
}

#[test]
fn what_programs_wait_for_is_written_at_once_and_the_rest_together() {
    let start = look(&read("kind: Scene\n"));
    assert_eq!(pace(None, &start, 1), Pace::Now);
    let up = look(&read(READY));
    assert_eq!(pace(Some(&start), &up, 1), Pace::Now);
    let mut more = start.clone();
    more.online = Some(3);
    assert_eq!(pace(Some(&start), &more, 1), Pace::Within(Duration::from_secs(2)));
    assert_eq!(pace(Some(&more), &start, 1), Pace::Within(Duration::from_millis(300)));
    let mut ended = read(FAILED);
    jobset(&mut ended.observed).failed = quorate_observe::Reading::Absent;
    assert_eq!(pace(Some(&up), &look(&written(&up, ended)), 1), Pace::Now);
}

#[test]
fn the_progress_of_a_thousand_clusters_leaves_the_server_to_their_pods() {
    let start = look(&read("kind: Scene\n"));
    let mut more = start.clone();
    more.online = Some(3);
    let seconds = |seconds| Pace::Within(Duration::from_secs(seconds));
    for (starting, span) in [(10, 2), (100, 20), (300, 60), (1_000_000, 200)] {
        assert_eq!(pace(Some(&start), &more, starting), seconds(span), "{starting}");
    }
    assert_eq!(pace(None, &start, 10), Pace::Now);
    assert_eq!(pace(None, &start, 100), seconds(20));
    // What programs wait for does not wait.
    let mut up = look(&read(READY));
    up.online = up.size;
    assert_eq!(pace(Some(&start), &up, 1000), Pace::Now);
    assert_eq!(pace(None, &up, 1000), Pace::Now);
    // What somebody has to mend does not wait either; what all of them wait for does.
    let image = look(&read(include_str!("causes/image-pull.yaml")));
    assert_eq!(pace(None, &image, 1000), Pace::Now);
    assert_eq!(pace(Some(&start), &image, 1000), seconds(2));
    let no_node = look(&read(include_str!("causes/unschedulable-cpu.yaml")));
    assert_eq!(pace(None, &no_node, 1000), seconds(200));
    let refused = look(&read(include_str!("causes/refused-by-a-webhook.yaml")));
    assert_eq!(pace(None, &refused, 1000), Pace::Now);
}

/// Pods of a cluster become ready one after the other: without it each of a thousand was written of twice.
#[test]
fn among_a_thousand_clusters_the_quorum_is_told_with_the_brokers_that_come_right_behind_it() {
    let start = look(&read("kind: Scene\n"));
    let mut up = look(&read(READY));
    up.online = up.size;
    let mut first = up.clone();
    first.online = up.online.map(|all| all - 1);
    let second = Pace::Within(Duration::from_secs(1));
    assert_eq!(pace(Some(&start), &first, 1000), second);
    assert_eq!(pace(None, &first, 1000), second);
    assert_eq!(pace(Some(&start), &up, 1000), Pace::Now, "nobody else comes");
    assert_eq!(
        pace(Some(&start), &first, 10),
        Pace::Now,
        "there is nobody to spare the writes for"
    );
    assert_eq!(pace(None, &first, 10), Pace::Now);
}

#[test]
fn one_cluster_is_followed_at_once_and_the_news_of_a_thousand_are_gathered() {
    let ms = Duration::from_millis;
    for (starting, span) in [(0, 0), (1, 0), (11, 50), (101, 500), (401, 2000), (usize::MAX, 2000)]
    {
        assert_eq!(patience(starting), ms(span), "{starting}");
    }
}

#[test]
fn a_jobset_controller_that_has_much_to_do_is_not_called_silent() {
    let mut seen = read(include_str!("causes/jobset-silent.yaml"));
    assert_eq!(why(&seen.observed, seen.now).cause.reason(), "JobSetSilent");
    seen.observed.jobset_acted = Some(seen.now - SignedDuration::from_secs(5));
    assert_eq!(why(&seen.observed, seen.now).cause.reason(), "PodsStarting");
    let again = recheck(&seen.observed, seen.now).unwrap();
    assert_eq!(again, seen.now + SignedDuration::from_secs(55));
    assert_eq!(why(&seen.observed, again).cause.reason(), "JobSetSilent");
}

#[test]
fn a_silent_jobset_controller_is_looked_at_again_in_time() {
    let mut seen = read(include_str!("causes/jobset-silent.yaml"));
    let created = seen.observed.jobset.as_ref().unwrap().created.unwrap();
    seen.now = created + SignedDuration::from_secs(3);
    assert_eq!(why(&seen.observed, seen.now).cause.reason(), "PodsStarting");
    while let Some(at) = recheck(&seen.observed, seen.now) {
        assert!(at > seen.now);
        seen.now = at;
    }
    assert_eq!(seen.now, created + SignedDuration::from_secs(60));
    assert_eq!(why(&seen.observed, seen.now).cause.reason(), "JobSetSilent");
}

#[test]
fn a_running_cluster_needs_no_second_look() {
    let seen = read(RUNNING);
    assert_eq!(recheck(&seen.observed, seen.now), None);
}

/// A cluster without a program, whose launcher tells of jobs.
const QUEUE: &str = "kind: MiniCluster\nmetadata: {name: lammps}\nspec: {program: null}\n---\n\
    kind: Scene\nlive: {cluster: lammps, attempt: 0, state: run, size: 4, minSize: 4, online: 4, \
    onlineRanks: 0-3, torpidRanks: '', missing: [], \
    queue: {pending: 9, running: 3, completed: 20, failed: 1}}\n";

#[test]
fn jobs_are_told_as_the_launcher_told_them_last() {
    let status = look(&read(QUEUE));
    assert_eq!(status.state, Some(State::Ready));
    let queue = status.queue.clone().unwrap();
    assert_eq!((queue.jobs.as_str(), queue.pending, queue.running), ("3/12", 9, 3));
    assert_eq!((queue.completed, queue.failed), (20, 1));
    // While nobody answers, and when it is over, they are as they were.
    let mut silent = written(&status, read(QUEUE));
    silent.observed.live = None;
    assert_eq!(look(&silent).queue, Some(queue));
    // Another cluster of the name has had none of them.
    let mut anew = written(&status, read("kind: Scene\n"));
    jobset(&mut anew.observed).created = Some(anew.now);
    assert_eq!(look(&anew).queue, None);
}

#[test]
fn a_program_without_jobs_tells_of_no_queue() {
    let with = |queue: &str| look(&read(&format!("{RUNNING}  queue: {queue}\n"))).queue;
    assert_eq!(with("{pending: 0, running: 0, completed: 0, failed: 0}"), None);
    let jobs = with("{pending: 0, running: 0, completed: 1, failed: 0}").unwrap().jobs;
    assert_eq!(jobs, "0/0");
}

#[test]
fn counts_of_jobs_wait_and_hold_up_nothing_else() {
    let before = look(&read(QUEUE));
    let mut counted = before.clone();
    counted.queue.as_mut().unwrap().running = 4;
    assert_eq!(pace(Some(&before), &counted, 1), Pace::Within(Duration::from_secs(5)));
    counted.online = Some(3);
    assert_eq!(pace(Some(&before), &counted, 1), Pace::Within(Duration::from_millis(300)));
}

#[test]
fn a_launcher_of_a_queue_that_has_ended_is_waited_for_and_one_that_gave_up_is_the_end() {
    let replaced = include_str!("causes/launcher-of-a-queue-replaced.yaml");
    let waits = look(&written(&look(&read(QUEUE)), read(replaced)));
    assert_eq!(waits.state, Some(State::Pending));
    assert_eq!(waits.exit_code, None, "another launcher comes");
    let gave_up = replaced.replace("143", "66").replace("Terminated", "BootstrapTimeout");
    let ended = look(&written(&look(&read(QUEUE)), read(&gave_up)));
    let reason = ended.conditions.iter().find(|one| one.type_ == "Quorate").unwrap();
    assert_eq!(reason.reason, "ProgramEnded");
}
