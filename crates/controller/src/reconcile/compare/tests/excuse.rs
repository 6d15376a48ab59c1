//! Whose disruption a launcher's end would be.

use quorate_contract::ClusterStatus;
use quorate_observe::{Disruption, Live};

use super::*;

fn program() -> Wanted {
    let mut wanted = wanted(2);
    let shape = Arc::make_mut(&mut wanted.shape);
    shape.program = true;
    wanted
}

fn taken(pod: PodFacts) -> PodFacts {
    let why = Disruption { reason: "EvictionByEvictionAPI".into(), ..Disruption::default() };
    PodFacts { disruption: Some(Box::new(why)), ..pod }
}

fn set(seen: &mut Seen, pods: impl IntoIterator<Item = PodFacts>) {
    seen.observed.pods = pods.into_iter().map(Arc::new).collect();
    seen.observed.jobs = vec![Arc::new(job("launcher", 1)), Arc::new(job("worker", 2))];
}

fn excuse(why: Option<&str>) -> Action {
    Action::Excuse {
        pod: "hello-launcher-0-0-abcde".into(),
        uid: "pod-launcher-0".into(),
        why: why.map(str::to_owned),
    }
}

#[test]
fn a_launcher_whose_worker_is_drained_gets_the_workers_excuse_before_either_has_ended() {
    let launcher = || pod("launcher", 0, "n1");
    let drained = [launcher(), pod("worker", 0, "n2"), taken(pod("worker", 1, "n3"))];
    let drained = with(|seen| set(seen, drained));
    let why = "worker-0-1 is taken away (EvictionByEvictionAPI)";
    assert_eq!(actions(&program(), &drained), [excuse(Some(why))]);
    assert_eq!(actions(&wanted(2), &drained), [], "a queue goes on");
    let fails = with(|seen| {
        *seen = drained.clone();
        let cluster = Arc::make_mut(&mut seen.observed.cluster);
        cluster.spec.failure_policy.on_worker_lost =
            Some(quorate_api::minicluster::OnWorkerLost::Fail);
    });
    assert_eq!(actions(&program(), &fails), [], "it fails whatever the reason");

    let told = PodFacts { excused: true, ..launcher() };
    let again = with(|seen| set(seen, [told.clone(), taken(pod("worker", 1, "n3"))]));
    assert_eq!(actions(&program(), &again), [], "once");
    let gone = with(|seen| set(seen, [told.clone(), pod("worker", 0, "n2")]));
    assert_eq!(actions(&program(), &gone), [], "the worker is gone before the launcher has ended");
    let ended = PodFacts { phase: Phase::Failed, ..launcher() };
    let late = with(|seen| set(seen, [ended, taken(pod("worker", 1, "n3"))]));
    assert_eq!(actions(&program(), &late), []);
    let former = PodFacts { attempt: 0, ..taken(pod("worker", 1, "n3")) };
    let next = with(|seen| set(seen, [PodFacts { attempt: 1, ..launcher() }, former]));
    assert_eq!(actions(&program(), &next), [], "of the attempt before");
}

#[test]
fn a_launcher_that_does_not_hear_a_worker_is_excused_as_long_as_it_does_not() {
    let silent = |ranks: &str, online, excused| {
        with(|seen| {
            set(seen, [PodFacts { excused, ..pod("launcher", 0, "n1") }, pod("worker", 1, "n3")]);
            seen.observed.live = Some(Live {
                pod_uid: "pod-launcher-0".into(),
                at: at(0),
                status: ClusterStatus {
                    torpid_ranks: ranks.into(),
                    online,
                    ..ClusterStatus::default()
                },
            });
        })
    };
    let why = "nothing is heard of rank 2";
    assert_eq!(actions(&program(), &silent("2", 3, false)), [excuse(Some(why))]);
    assert_eq!(actions(&program(), &silent("2", 3, true)), []);
    assert_eq!(actions(&program(), &silent("", 2, true)), [], "it is lost by now");
    assert_eq!(actions(&program(), &silent("", 3, true)), [excuse(None)], "what comes is its own");
}
