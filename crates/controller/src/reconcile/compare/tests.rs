//! One table for each kind of decision. A case names what was seen; the actions are all that may follow.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use quorate_api::MiniCluster;
use quorate_contract::ClusterStatus;
use quorate_observe::{
    ContainerFacts, ContainerState, Fact, GroupShape, Live, Phase, PodFacts, Reading, Shape,
    WorkloadFacts,
};

use super::*;

mod excuse;
mod lost;

const UID: &str = "cluster-uid";
const JOBSET: &str = "jobset-uid";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn group(name: &str, first_rank: u32, size: u32) -> GroupShape {
    GroupShape { name: name.into(), first_rank, size, jobs: 1 }
}

/// A cluster of a launcher and `workers` workers.
fn wanted(workers: u32) -> Wanted {
    let groups = vec![group("launcher", 0, 1), group("worker", 1, workers)];
    Wanted {
        shape: Arc::new(Shape { size: 1 + workers, groups, ..Shape::default() }),
        identity: "v1-0000000000000001 image=1".into(),
        network_policy: Some("hello".into()),
        ..Wanted::default()
    }
}

fn cluster() -> MiniCluster {
    let mut cluster = MiniCluster::new("hello", quorate_api::MiniClusterSpec::default());
    cluster.metadata.namespace = Some("hpc".into());
    cluster.metadata.uid = Some(UID.into());
    cluster
}

fn jobset() -> JobSetFacts {
    JobSetFacts {
        name: "hello".into(),
        uid: JOBSET.into(),
        owner: Some((KIND.into(), "hello".into(), UID.into())),
        spec_hash: Some("v1-0000000000000001 image=1".into()),
        groups: vec![("launcher".into(), 1), ("worker".into(), 3)],
        seen: true,
        ..JobSetFacts::default()
    }
}

fn job(group: &str, pods: i32) -> JobFacts {
    JobFacts {
        name: format!("hello-{group}-0"),
        uid: format!("job-{group}"),
        jobset: JOBSET.into(),
        group: group.into(),
        parallelism: pods,
        completions: pods,
        ..JobFacts::default()
    }
}

fn pod(group: &str, index: u32, node: &str) -> PodFacts {
    PodFacts {
        name: format!("hello-{group}-0-{index}-abcde"),
        uid: format!("pod-{group}-{index}"),
        jobset: JOBSET.into(),
        group: group.into(),
        index,
        node: Some(node.into()),
        phase: Phase::Running,
        main: Some(Box::new(ContainerFacts {
            state: ContainerState::Running { since: None },
            ..ContainerFacts::default()
        })),
        ..PodFacts::default()
    }
}

/// A living cluster with a launcher and three workers.
fn seen() -> Seen {
    Seen {
        observed: Observed {
            cluster: Arc::new(cluster()),
            jobset: Some(Arc::new(jobset())),
            jobs: vec![Arc::new(job("launcher", 1)), Arc::new(job("worker", 3))],
            ..Observed::default()
        },
        network_policy: true,
        orphan_timeout: 15,
    }
}

fn with(change: impl FnOnce(&mut Seen)) -> Seen {
    let mut seen = seen();
    change(&mut seen);
    seen
}

fn with_jobset(change: impl FnOnce(&mut JobSetFacts)) -> Seen {
    with(|seen| {
        let mut jobset = jobset();
        change(&mut jobset);
        seen.observed.jobset = Some(Arc::new(jobset));
    })
}

fn actions(wanted: &Wanted, seen: &Seen) -> Vec<Action> {
    compare(wanted, seen, at(0)).actions
}

fn holds() -> Reading {
    Reading::True(Fact::default())
}

fn condition(type_: &str, reason: &str, since: Timestamp) -> Condition {
    Condition {
        type_: type_.into(),
        status: "True".into(),
        reason: reason.into(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: Time(since),
    }
}

fn with_condition(type_: &str, reason: &str, since: Timestamp, seen: &mut Seen) {
    let mut cluster = cluster();
    cluster.status = Some(MiniClusterStatus {
        conditions: vec![condition(type_, reason, since)],
        ..MiniClusterStatus::default()
    });
    seen.observed.cluster = Arc::new(cluster);
}

#[test]
fn a_cluster_that_is_as_it_shall_be_is_left_alone() {
    assert_eq!(compare(&wanted(3), &seen(), at(0)), Decision::default());
}

#[test]
fn a_new_cluster_is_made_and_one_that_goes_is_not() {
    let none = |seen: &mut Seen| {
        seen.observed = Observed { cluster: Arc::new(cluster()), ..Observed::default() }
    };
    assert_eq!(actions(&wanted(3), &with(none)), [Action::Create]);
    let deleting = with(|seen| {
        let mut cluster = cluster();
        cluster.metadata.deletion_timestamp = Some(Time(at(-1)));
        seen.observed = Observed { cluster: Arc::new(cluster), ..Observed::default() };
    });
    assert_eq!(actions(&wanted(3), &deleting), []);
}

#[test]
fn what_a_former_cluster_of_the_name_left_is_waited_for() {
    let former = |change: fn(&mut Observed)| {
        with(|seen| {
            seen.observed.jobset = None;
            seen.observed.jobs.clear();
            change(&mut seen.observed);
        })
    };
    for (name, change) in [
        (
            "its JobSet",
            (|o| {
                let owner = Some((KIND.into(), "hello".into(), "former".into()));
                o.jobset = Some(Arc::new(JobSetFacts { owner, ..jobset() }));
            }) as fn(&mut Observed),
        ),
        ("a Job", |o| {
            o.jobs = vec![Arc::new(JobFacts { deleting: Some(at(0)), ..job("worker", 3) })];
        }),
        ("a pod", |o| o.pods = vec![Arc::new(pod("worker", 0, "n1"))]),
    ] {
        let decision = compare(&wanted(3), &former(change), at(0));
        assert_eq!(decision, Decision::default(), "{name}");
    }
}

#[test]
fn a_jobset_that_lost_its_label_is_looked_for_while_its_jobs_live() {
    let seen = with(|seen| seen.observed.jobset = None);
    let decision = compare(&wanted(3), &seen, at(0));
    assert_eq!(decision, Decision { actions: vec![Action::Find], ..Decision::default() });
}

#[test]
fn a_jobset_of_somebody_else_is_reported_and_left_alone() {
    let owner = Some(("CronThing".to_owned(), "nightly".to_owned(), "x".to_owned()));
    for (owner, told) in [(owner, Some("CronThing/nightly".to_owned())), (None, None)] {
        let seen = with_jobset(|jobset| jobset.owner = owner);
        let decision = compare(&wanted(3), &seen, at(0));
        assert_eq!(decision.actions, []);
        let taken =
            Obstacle::NameTaken { kind: "JobSet".into(), name: "hello".into(), owner: told };
        assert_eq!(decision.obstacles, [taken]);
    }
}

#[test]
fn suspend_has_one_writer() {
    let suspend = |suspend| vec![Action::Suspend { uid: JOBSET.into(), suspend }];
    let queue: fn(&mut JobSetFacts) = |jobset| jobset.queue = Some("team".into());
    let is: fn(&mut JobSetFacts) = |jobset| jobset.suspend = Some(true);
    let both: fn(&mut JobSetFacts) = |jobset| {
        jobset.queue = Some("team".into());
        jobset.suspend = Some(true);
    };
    let elsewhere: fn(&mut JobSetFacts) = |jobset| jobset.managed_by = Some("example.com/x".into());
    for (name, asked, change, expected) in [
        ("asked for", Some(true), (|_| {}) as fn(&mut JobSetFacts), suspend(true)),
        ("is already", Some(true), is, vec![]),
        ("resumed", Some(false), is, suspend(false)),
        ("somebody else's suspension", None, is, vec![]),
        ("Kueue admits", Some(true), queue, vec![]),
        ("Kueue keeps away", Some(false), both, vec![]),
        ("run elsewhere", Some(true), elsewhere, vec![]),
    ] {
        let wanted = Wanted { suspend: asked, ..wanted(3) };
        assert_eq!(actions(&wanted, &with_jobset(change)), expected, "{name}");
    }
    let mut ours = with_jobset(is);
    with_condition(conditions::SUSPENDED, reason::SUSPENDED_BY_SPEC, at(0), &mut ours);
    assert_eq!(actions(&wanted(3), &ours), suspend(false), "the field was removed");
}

#[test]
fn an_evicted_cluster_forgets_the_labels_of_the_flavor_that_it_had() {
    let evicted = |change: fn(&mut JobFacts)| {
        let mut seen = with_jobset(|jobset| {
            jobset.queue = Some("lab".into());
            jobset.suspend = Some(true);
            jobset.node_keys = vec![("worker".into(), vec!["disk".into()])];
        });
        let mut workers = JobFacts {
            suspended: true,
            node_keys: vec!["disk".into(), "flavor-blue".into()],
            ..job("worker", 3)
        };
        change(&mut workers);
        seen.observed.jobs = vec![Arc::new(job("launcher", 1)), Arc::new(workers)];
        seen
    };
    let keys = vec!["flavor-blue".to_owned()];
    let (job, uid) = ("hello-worker-0".to_owned(), "job-worker".to_owned());
    let stale = evicted(|_| {});
    assert_eq!(actions(&wanted(3), &stale), [Action::Unselect { job, uid, keys }]);
    assert_eq!(actions(&wanted(3), &evicted(|job| job.active = 1)), [], "its pods still go");
    assert_eq!(actions(&wanted(3), &evicted(|job| job.suspended = false)), [], "resumed");
    assert_eq!(actions(&wanted(3), &evicted(|job| job.node_keys.truncate(1))), [], "as planned");
}

#[test]
fn the_size_is_that_of_the_worker_s_job_and_again_after_a_restart() {
    let resize =
        |pods| Action::Resize { job: "hello-worker-0".into(), uid: "job-worker".into(), pods };
    assert_eq!(actions(&wanted(5), &seen()), [resize(5)]);
    assert_eq!(actions(&wanted(2), &seen()), [resize(2)]);
    let restarted = with(|seen| {
        let mut jobset = jobset();
        jobset.restarts = 1;
        seen.observed.jobset = Some(Arc::new(jobset));
        // The Job of the attempt before is still on its way out.
        let before = JobFacts { deleting: Some(at(-1)), ..job("worker", 5) };
        let after = JobFacts { attempt: 1, name: "hello-worker-0b".into(), ..job("worker", 3) };
        seen.observed.jobs = vec![Arc::new(before), Arc::new(after)];
    });
    let again = Action::Resize { job: "hello-worker-0b".into(), uid: "job-worker".into(), pods: 5 };
    assert_eq!(actions(&wanted(5), &restarted), [again]);
    let ended = with(|seen| {
        seen.observed.jobs = vec![Arc::new(JobFacts { complete: holds(), ..job("worker", 3) })];
    });
    assert_eq!(actions(&wanted(5), &ended), [], "a Job that is over has its size");
    let queued = with_jobset(|jobset| jobset.queue = Some("team".into()));
    let decision = compare(&wanted(5), &queued, at(0));
    assert_eq!(decision.actions, []);
    let told = Obstacle::Queued { field: "spec.size".into(), queue: "team".into() };
    assert_eq!(decision.obstacles, [told]);
}

#[test]
fn a_queue_is_made_smaller_once_its_launcher_has_let_the_jobs_end() {
    let told = |size: u32, free_from: Option<u32>| {
        with(|seen| {
            let launcher = pod("launcher", 0, "n1");
            let status = ClusterStatus { size, free_from, ..ClusterStatus::default() };
            let (pod_uid, at) = (launcher.uid.clone(), Timestamp::UNIX_EPOCH);
            seen.observed.pods = vec![Arc::new(launcher)];
            seen.observed.live = Some(Live { pod_uid, at, status });
        })
    };
    let resize =
        |pods| Action::Resize { job: "hello-worker-0".into(), uid: "job-worker".into(), pods };
    assert_eq!(actions(&wanted(2), &told(4, None)), [], "jobs run on the last");
    assert_eq!(actions(&wanted(2), &told(4, Some(5))), [], "some more are free, not all");
    // Those that are free are connected until their pods are gone.
    assert_eq!(actions(&wanted(2), &told(4, Some(3))), [resize(2)]);
    assert_eq!(actions(&wanted(2), &told(3, None)), [resize(2)], "they have never come");
    assert_eq!(actions(&wanted(5), &told(4, None)), [resize(5)], "nobody has to go");
    let mut program = wanted(2);
    Arc::make_mut(&mut program.shape).program = true;
    assert_eq!(
        actions(&program, &told(4, None)),
        [resize(2)],
        "a program has no queue to wait for"
    );
}

#[test]
fn what_kueue_decides_is_told_and_not_written() {
    let told = |queue: &str| Obstacle::Queued { field: "spec.suspend".into(), queue: queue.into() };
    let default = with_jobset(|jobset| jobset.queue = Some("default".into()));
    // Where Kueue manages JobSets outside of queues too, its Workload says so.
    let unlabelled = with(|seen| {
        let workload = WorkloadFacts { owners: vec![JOBSET.into()], ..WorkloadFacts::default() };
        seen.observed.workload = Some(Arc::new(workload));
    });
    for (queue, seen) in [("default", default), ("", unlabelled)] {
        let wanted = Wanted { suspend: Some(true), ..wanted(3) };
        let decision = compare(&wanted, &seen, at(0));
        assert_eq!((decision.actions, decision.obstacles), (vec![], vec![told(queue)]));
    }
}

#[test]
fn a_cluster_that_waits_takes_another_queue_and_one_that_runs_does_not() {
    const QUEUE: &str = "kueue.x-k8s.io/queue-name";
    const PRIORITY: &str = "kueue.x-k8s.io/priority-class";
    let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    };
    let seen = |suspend: bool| {
        with_jobset(|jobset| {
            jobset.queue = Some("a".into());
            jobset.suspend = Some(suspend);
            // What Kueue adds by itself stays.
            jobset.queueing = labels(&[(QUEUE, "a"), (PRIORITY, "low"), ("kueue.x-k8s.io/x", "y")]);
        })
    };
    let wanted = |pairs: &[(&str, &str)]| Wanted { queueing: labels(pairs), ..wanted(3) };
    let label =
        |pairs: &[(&str, &str)]| vec![Action::Label { uid: JOBSET.into(), labels: labels(pairs) }];
    assert_eq!(compare(&wanted(&[(QUEUE, "a")]), &seen(false), at(0)), Decision::default());
    let moved = wanted(&[(QUEUE, "b"), (PRIORITY, "low")]);
    assert_eq!(actions(&moved, &seen(true)), label(&[(QUEUE, "b")]));
    let refused = compare(&moved, &seen(false), at(0));
    let fields = vec![format!("metadata.labels[{QUEUE}]")];
    assert_eq!(refused.actions, []);
    assert_eq!(refused.obstacles, [Obstacle::Immutable { fields }]);
    let raised = wanted(&[(QUEUE, "a"), (PRIORITY, "high")]);
    assert_eq!(actions(&raised, &seen(false)), label(&[(PRIORITY, "high")]));
}

#[test]
fn an_annotation_for_kueue_that_is_changed_later_is_told_and_not_written() {
    const TOPOLOGY: &str = "kueue.x-k8s.io/podset-required-topology";
    let pairs = |value: &str| [(TOPOLOGY.to_owned(), value.to_owned())];
    let wanted = |value: &str| Wanted { queue_notes: pairs(value).into(), ..wanted(3) };
    let seen = with_jobset(|jobset| {
        let own = [("kueue.x-k8s.io/workload-slice-name".into(), "x".into())];
        jobset.queue_notes = pairs("rack").into_iter().chain(own).collect();
    });
    assert_eq!(compare(&wanted("rack"), &seen, at(0)), Decision::default());
    let fields = vec![format!("metadata.annotations[{TOPOLOGY}]")];
    let told = Decision { obstacles: vec![Obstacle::Immutable { fields }], ..Decision::default() };
    assert_eq!(compare(&wanted("block"), &seen, at(0)), told);
}

#[test]
fn a_later_attempt_has_what_is_left_of_the_time_limit() {
    let wanted = Wanted { active_deadline_seconds: Some(60), ..wanted(3) };
    let again = |started: i64, limit: i64| {
        with(|seen| {
            let launcher = JobFacts {
                attempt: 1,
                started: Some(at(started)),
                limit: Some(limit),
                ..job("launcher", 1)
            };
            let workers = JobFacts { attempt: 1, ..job("worker", 3) };
            seen.observed.jobs = vec![Arc::new(launcher), Arc::new(workers)];
            let mut cluster = cluster();
            cluster.status =
                Some(MiniClusterStatus { start_time: Some(Time(at(0))), ..Default::default() });
            seen.observed.cluster = Arc::new(cluster);
        })
    };
    let left = |seconds: i64| {
        vec![Action::Limit { job: "hello-launcher-0".into(), uid: "job-launcher".into(), seconds }]
    };
    assert_eq!(actions(&wanted, &again(40, 60)), left(20));
    assert_eq!(actions(&wanted, &again(40, 20)), [], "it is said once");
    assert_eq!(actions(&wanted, &again(70, 60)), left(1), "none is left");
    assert_eq!(actions(&wanted, &seen()), [], "the first attempt has all of it");
    let mut resumed = again(40, 60);
    let mut cluster = (*resumed.observed.cluster).clone();
    cluster.status.as_mut().unwrap().conditions.push(Condition {
        type_: conditions::SUSPENDED.into(),
        status: "False".into(),
        last_transition_time: Time(at(30)),
        reason: "Resumed".into(),
        message: String::new(),
        observed_generation: None,
    });
    resumed.observed.cluster = Arc::new(cluster);
    assert_eq!(actions(&wanted, &resumed), left(50));
}

#[test]
fn jobs_of_topology_groups_have_the_pods_of_one_group() {
    let mut wanted = wanted(6);
    let mut shape = (*wanted.shape).clone();
    shape.groups[1].jobs = 3;
    wanted.shape = shape.into();
    let grouped = with(|seen| seen.observed.jobs = vec![Arc::new(job("worker", 2))]);
    assert_eq!(actions(&wanted, &grouped), []);
}

#[test]
fn a_change_that_a_jobset_cannot_take_is_told_and_nothing_else_is_changed() {
    let wanted =
        Wanted { identity: "v1-0000000000000002 image=2".into(), suspend: Some(true), ..wanted(5) };
    let decision = compare(&wanted, &seen(), at(0));
    assert_eq!(decision.actions, []);
    assert_eq!(decision.obstacles, [Obstacle::Immutable { fields: vec!["spec.image".into()] }]);
}

#[test]
fn a_policy_that_was_deleted_of_a_living_cluster_is_made_again() {
    let missing = with(|seen| seen.network_policy = false);
    assert_eq!(actions(&wanted(3), &missing), [Action::RestorePolicy]);
    let unwanted = Wanted { network_policy: None, ..wanted(3) };
    assert_eq!(actions(&unwanted, &missing), []);
    let over = with_jobset(|jobset| jobset.failed = holds());
    let over = Seen { network_policy: false, ..over };
    assert_eq!(actions(&wanted(3), &over), []);
}

#[test]
fn a_cluster_that_ended_is_never_made_again_and_goes_when_its_time_is_over() {
    for kind in [conditions::SUCCEEDED, conditions::FAILED] {
        let mut seen = with(|seen| seen.observed.jobset = None);
        with_condition(kind, "Completed", at(-60), &mut seen);
        assert_eq!(compare(&wanted(3), &seen, at(0)), Decision::default());
        let ttl = |ttl| Wanted { ttl_seconds: Some(ttl), ..wanted(3) };
        let early = compare(&ttl(100), &seen, at(0));
        assert_eq!((early.actions, early.again), (vec![], Some(Duration::from_secs(40))));
        assert_eq!(actions(&ttl(60), &seen), [Action::DeleteCluster]);
    }
    let unwritten = with_jobset(|jobset| jobset.completed = holds());
    let ttl = Wanted { ttl_seconds: Some(0), ..wanted(3) };
    assert_eq!(actions(&ttl, &unwritten), [], "its status has to tell the end first");
}
