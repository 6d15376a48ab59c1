//! Nodes that do not answer: which pods are given up when, and where new ones must not go.

use quorate_contract::ClusterStatus;
use quorate_contract::report::{Failure, Reason, Report};
use quorate_contract::status::Missing;
use quorate_observe::{Disruption, Live, Unscheduled};

use super::*;

fn set(seen: &mut Seen, pods: impl IntoIterator<Item = PodFacts>) {
    seen.observed.pods = pods.into_iter().map(Arc::new).collect();
}

fn name(group: &str, index: u32) -> (String, String) {
    (format!("hello-{group}-0-{index}-abcde"), format!("pod-{group}-{index}"))
}

fn give_up(group: &str, index: u32, why: &str) -> Action {
    let (pod, uid) = name(group, index);
    Action::GiveUp { pod, uid, why: (!why.is_empty()).then(|| why.to_owned()) }
}

fn noted(nodes: &[&str], until: i64) -> LostNodes {
    let until = if nodes.is_empty() { Timestamp::default() } else { at(until) };
    LostNodes { nodes: nodes.iter().map(|&node| node.to_owned()).collect(), until }
}

fn keep_off(nodes: &[&str], until: i64) -> Action {
    Action::KeepOff { uid: JOBSET.into(), lost_nodes: noted(nodes, until) }
}

/// A pod that was asked to end `ago` seconds before, with 30 s of grace.
fn going(ago: i64, pod: PodFacts) -> PodFacts {
    PodFacts { deleting: Some(at(30 - ago)), grace: 30, ..pod }
}

#[test]
fn a_pod_that_a_kubelet_does_not_let_go_is_given_up_after_its_grace() {
    let stuck = |ago| with(|seen| set(seen, [going(ago, pod("worker", 1, "n2"))]));
    let early = compare(&wanted(3), &stuck(34), at(0));
    assert_eq!((early.actions, early.again), (vec![], Some(Duration::from_secs(6))));
    let gone = [keep_off(&["n2"], 60), give_up("worker", 1, "node n2 did not end it in time")];
    assert_eq!(actions(&wanted(3), &stuck(40)), gone);
    let former = with(|seen| {
        set(seen, [PodFacts { jobset: "former".into(), ..going(40, pod("worker", 1, "n2")) }]);
        seen.observed.jobset = None;
        seen.observed.jobs.clear();
    });
    assert_eq!(actions(&wanted(3), &former), gone[1..], "it holds up the next one of the name");
    let foreign = with(|seen| {
        set(seen, [PodFacts { jobset: String::new(), ..going(40, pod("worker", 1, "n2")) }]);
    });
    assert_eq!(actions(&wanted(3), &foreign), [], "no pod of a JobSet");
}

#[test]
fn a_short_grace_does_not_end_a_pod_before_its_broker_has_fenced_itself() {
    let stuck = |ago: i64| {
        with(|seen| {
            let pod = pod("worker", 1, "n2");
            set(seen, [PodFacts { deleting: Some(at(1 - ago)), grace: 1, ..pod }]);
        })
    };
    let early = compare(&wanted(3), &stuck(12), at(0));
    assert_eq!((early.actions, early.again), (vec![], Some(Duration::from_secs(8))));
    assert_eq!(actions(&wanted(3), &stuck(20)).len(), 2);
}

/// The launcher's pod as it ends when a worker is lost.
fn broker_lost(why: &str) -> PodFacts {
    let mut report = Report::new(69, Reason::BrokerLost, format!("lost worker-0-1: {why}"));
    report.failure = Some(Failure { pod: Some("worker-0-1".into()), ..Failure::default() });
    let report = Some(Box::new(report));
    PodFacts { phase: Phase::Failed, report, ..pod("launcher", 0, "n1") }
}

#[test]
fn pods_of_a_node_that_rank_0_has_given_up_are_removed_at_once() {
    let workers = [("worker", 0, "n3"), ("worker", 1, "n2"), ("worker", 2, "n2")]
        .map(|(group, index, node)| going(0, pod(group, index, node)));
    let reported = |why| with(|seen| set(seen, workers.iter().cloned().chain([broker_lost(why)])));
    let told = reported("its pod was told to stop");
    assert_eq!(actions(&wanted(3), &told), [], "its node lives");
    let decision = compare(&wanted(3), &reported("silent for too long"), at(0));
    let why = "node n2 does not answer";
    let gone = [keep_off(&["n2"], 60), give_up("worker", 1, why), give_up("worker", 2, why)];
    assert_eq!(decision.actions, gone);
    assert_eq!(
        decision.again,
        Some(Duration::from_secs(40)),
        "the one on a good node has its grace"
    );
}

#[test]
fn a_pod_that_kubernetes_takes_off_a_lost_node_is_removed_at_once() {
    let taken = |reason: &str, change: fn(&mut PodFacts)| {
        with(|seen| {
            let why =
                Disruption { reason: reason.into(), since: Some(at(0)), ..Disruption::default() };
            let pod = going(0, pod("worker", 1, "n2"));
            let mut pod = PodFacts { disruption: Some(Box::new(why)), ..pod };
            change(&mut pod);
            set(seen, [pod]);
        })
    };
    let gone = [keep_off(&["n2"], 60), give_up("worker", 1, "")];
    let taint = "DeletionByTaintManager";
    let unready: fn(&mut PodFacts) = |pod| pod.ready_since = Some(at(-15));
    assert_eq!(actions(&wanted(3), &taken(taint, unready)), gone);
    let unheard: fn(&mut PodFacts) = |pod| {
        pod.main = None;
        pod.phase = Phase::Pending;
    };
    assert_eq!(actions(&wanted(3), &taken(taint, unheard)), gone, "never heard of its kubelet");
    let ready: fn(&mut PodFacts) = |pod| {
        pod.ready = true;
        pod.ready_since = Some(at(-60));
    };
    assert_eq!(actions(&wanted(3), &taken(taint, ready)), [], "a taint of somebody's own");
    let drain = taken("EvictionByEvictionAPI", unready);
    assert_eq!(actions(&wanted(3), &drain), [], "its node lives, and so does its grace");
}

#[test]
fn what_rank_0_said_last_outlives_its_pod_and_the_beginning_of_the_next_attempt() {
    let restarted = |attempt| {
        let mut seen = with_jobset(|jobset| jobset.restarts = 1);
        let mut cluster = cluster();
        let failure = quorate_api::status::Failure {
            attempt: Some(attempt),
            reason: Some("BrokerLost".into()),
            message: Some("lost worker-0-1: silent for too long".into()),
            pod: Some("worker-0-1".into()),
            ..quorate_api::status::Failure::default()
        };
        cluster.status =
            Some(MiniClusterStatus { failure: Some(failure), ..MiniClusterStatus::default() });
        seen.observed.cluster = Arc::new(cluster);
        set(&mut seen, [going(0, pod("worker", 1, "n2"))]);
        seen
    };
    let gone = [keep_off(&["n2"], 60), give_up("worker", 1, "node n2 does not answer")];
    assert_eq!(actions(&wanted(3), &restarted(0)), gone);
    assert_eq!(actions(&wanted(3), &restarted(1)), [], "a pod of another attempt");
}

/// Rank 0 says that it lost a worker that it had not heard for so many seconds, `ago` seconds ago.
fn told(why: &str, silent: u64, ago: i64) -> Seen {
    with(|seen| {
        let missing = Missing {
            rank: 2,
            pod: "worker-0-1".into(),
            silent_seconds: Some(silent),
            why: why.into(),
        };
        let status = ClusterStatus { missing: vec![missing], ..ClusterStatus::default() };
        seen.observed.live = Some(Live { pod_uid: "pod-launcher-0".into(), at: at(-ago), status });
        let (launcher, worker) = (pod("launcher", 0, "n1"), pod("worker", 1, "n2"));
        set(seen, [launcher, worker, pod("worker", 0, "n3")]);
    })
}

#[test]
fn a_running_pod_whose_broker_was_lost_is_given_up_once_that_has_fenced_itself_for_certain() {
    let gone = [
        keep_off(&["n2"], 60),
        give_up("worker", 1, "node n2 does not answer: the launcher lost it"),
    ];
    assert_eq!(actions(&wanted(3), &told("lost: silent for too long", 20, 0)), gone);
    let broke = compare(&wanted(3), &told("lost: connection reset", 3, 5), at(0));
    assert_eq!((broke.actions, broke.again), (vec![], Some(Duration::from_secs(12))));
    assert_eq!(actions(&wanted(3), &told("lost: connection reset", 3, 17)), gone);
    assert_eq!(actions(&wanted(3), &told("away: connection reset", 60, 0)), [], "not lost yet");
    let ended = told("lost: silent for too long", 20, 0);
    let ended = with(|seen| {
        seen.observed.live = ended.observed.live;
        let pod = PodFacts { phase: Phase::Failed, ..pod("worker", 1, "n2") };
        set(seen, [super::pod("launcher", 0, "n1"), pod]);
    });
    assert_eq!(actions(&wanted(3), &ended), [], "its node answers");
}

#[test]
fn a_pod_in_the_place_of_a_lost_one_is_not_given_up_for_joining_late() {
    let began = |then: i64| {
        let told = told("lost: silent for too long", 30, 0);
        with(|seen| {
            seen.observed.live = told.observed.live;
            let mut next = pod("worker", 1, "n2");
            next.main.as_mut().unwrap().state = ContainerState::Running { since: Some(at(then)) };
            set(seen, [pod("launcher", 0, "n1"), next, going(1, pod("worker", 0, "n2"))]);
        })
    };
    assert_eq!(actions(&wanted(3), &began(-2)), [], "nor is anything else on its node");
    let gone = [
        keep_off(&["n2"], 60),
        give_up("worker", 1, "node n2 does not answer: the launcher lost it"),
        give_up("worker", 0, "node n2 does not answer"),
    ];
    assert_eq!(actions(&wanted(3), &began(-60)), gone);
}

fn orphan(index: u32, node: &str) -> PodFacts {
    let report = Some(Box::new(Report::new(68, Reason::Orphaned, "no rank 0")));
    PodFacts { phase: Phase::Failed, report, ..pod("worker", index, node) }
}

#[test]
fn a_launcher_that_all_workers_have_lost_is_given_up() {
    let deserted = |second: PodFacts| {
        with(|seen| set(seen, [pod("launcher", 0, "n1"), orphan(0, "n2"), second]))
    };
    let gone = [
        keep_off(&["n1"], 60),
        give_up("launcher", 0, "node n1 does not answer: all workers lost it"),
    ];
    assert_eq!(actions(&wanted(3), &deserted(orphan(1, "n2"))), gone);
    let there = deserted(pod("worker", 1, "n1"));
    assert_eq!(actions(&wanted(3), &there), gone, "the other one is on the launcher's node");
    let hears = deserted(pod("worker", 1, "n3"));
    assert_eq!(actions(&wanted(3), &hears), [], "one still hears it");
    let mut speaks = deserted(orphan(1, "n2"));
    let status = ClusterStatus::default();
    speaks.observed.live = Some(Live { pod_uid: "pod-launcher-0".into(), at: at(0), status });
    assert_eq!(actions(&wanted(3), &speaks), [], "it answers the controller");
    let alone = with(|seen| set(seen, [pod("launcher", 0, "n1"), pod("worker", 0, "n1")]));
    assert_eq!(actions(&wanted(3), &alone), [], "nobody is elsewhere to lose it");
}

#[test]
fn a_deserted_launcher_is_given_up_though_a_worker_has_been_replaced_already() {
    let seen = with(|seen| {
        let next = PodFacts { uid: "next".into(), ..pod("worker", 0, "n3") };
        set(seen, [pod("launcher", 0, "n1"), orphan(0, "n2"), orphan(1, "n3"), next]);
    });
    assert_eq!(actions(&wanted(3), &seen).len(), 2);
}

#[test]
fn the_note_of_lost_nodes_grows_lasts_and_goes() {
    let seen = |nodes: &[&str], until, lost: Option<&str>| {
        let mut seen = with_jobset(|jobset| jobset.lost_nodes = noted(nodes, until));
        set(&mut seen, lost.map(|node| going(40, pod("worker", 1, node))));
        seen
    };
    let first = |seen: &Seen| compare(&wanted(3), seen, at(0)).actions.into_iter().next();
    let given_up = give_up("worker", 1, "node n2 did not end it in time");
    assert_eq!(first(&seen(&["n2"], 60, Some("n2"))), Some(given_up), "it is known");
    assert_eq!(first(&seen(&["n3"], 60, Some("n2"))), Some(keep_off(&["n2", "n3"], 60)));
    assert_eq!(first(&seen(&["n3"], -1, Some("n2"))), Some(keep_off(&["n2"], 60)), "n3 is back");
    let lasts = compare(&wanted(3), &seen(&["n2"], 60, None), at(0));
    assert_eq!((lasts.actions, lasts.again), (vec![], Some(Duration::from_mins(1))));
    assert_eq!(first(&seen(&["n2"], 0, None)), Some(keep_off(&[], 0)), "its time is over");
    assert_eq!(first(&seen(&[], 0, None)), None);
}

#[test]
fn a_pod_that_no_node_took_is_made_again_once_its_lost_node_may_be_back() {
    let waits = |nodes: &[&str], until, kept_off: &str| {
        let mut seen = with_jobset(|jobset| jobset.lost_nodes = noted(nodes, until));
        let unscheduled = Some(Box::new(Unscheduled::default()));
        let pod = PodFacts {
            node: None,
            phase: Phase::Pending,
            main: None,
            unscheduled,
            kept_off: kept_off.into(),
            ..pod("worker", 1, "")
        };
        set(&mut seen, [pod]);
        seen
    };
    let again = give_up("worker", 1, "it was kept off nodes that may answer again");
    assert_eq!(actions(&wanted(3), &waits(&["n2"], 60, "n2")), []);
    let over = actions(&wanted(3), &waits(&["n2"], 0, "n2"));
    assert_eq!(over, [keep_off(&[], 0), again.clone()]);
    assert_eq!(actions(&wanted(3), &waits(&[], 0, "n2")), [again]);
    assert_eq!(actions(&wanted(3), &waits(&[], 0, "")), [], "it waits for other reasons");
}
