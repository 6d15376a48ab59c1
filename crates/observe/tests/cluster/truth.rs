//! Properties of every status, whatever was seen: facts of all kinds, thrown together, also such as
//! no API server would give at once.

use std::sync::{Arc, LazyLock};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use quorate_api::status::{MiniClusterStatus, State};
use quorate_contract::Report;
use quorate_contract::report::Reason;
use quorate_contract::status::{BrokerState, ClusterStatus, Leaving, Missing};
use quorate_observe::{
    Cause, ContainerFacts, ContainerState, Disruption, EventFacts, Fact, JobSetFacts, Live,
    Observed, Obstacle, Pace, Phase, PodFacts, Reading, Unscheduled, pace, recheck, status,
    transitions, why,
};

fn time() -> Timestamp {
    "2026-11-28T10:03:12Z".parse().unwrap()
}

fn reading() -> impl Strategy<Value = Reading> {
    let words = prop::sample::select(vec![
        "ReachedMaxRestarts",
        "FailJobSetFailurePolicyAction",
        "AllJobsCompleted",
        "Pending",
        "",
    ]);
    (0..6u8, words, prop::option::of(0..500i64)).prop_map(|(kind, word, ago)| {
        let since = ago.map(|ago| time() - SignedDuration::from_secs(ago));
        let fact = Fact { reason: word.into(), message: "so it is".into(), since };
        match kind {
            0 => Reading::True(fact),
            1 => Reading::False(fact),
            _ => Reading::Absent,
        }
    })
}

fn container() -> impl Strategy<Value = ContainerFacts> {
    let words = prop::sample::select(vec![
        "ContainerCreating",
        "ImagePullBackOff",
        "CreateContainerConfigError",
        "RunContainerError",
        "CrashLoopBackOff",
        "OOMKilled",
        "StartError",
        "Error",
        "Completed",
    ]);
    let codes = prop::sample::select(vec![0, 0, 1, 66, 128, 137, 139, 143]);
    (0..4u8, words, codes, any::<bool>()).prop_map(|(kind, word, code, init)| ContainerFacts {
        name: "main".into(),
        init,
        image: "example/lammps".into(),
        restarts: 0,
        state: match kind {
            0 => ContainerState::Unknown,
            1 => ContainerState::Waiting { reason: word.into(), message: "so\n it is.".into() },
            2 => ContainerState::Running { since: Some(time()) },
            _ => ContainerState::Terminated {
                code,
                signal: None,
                reason: word.into(),
                message: String::new(),
                at: Some(time()),
            },
        },
    })
}

fn report() -> impl Strategy<Value = Report> {
    let reasons = prop::sample::select(vec![
        Reason::Completed,
        Reason::ProgramFailed,
        Reason::BrokerLost,
        Reason::WrongPlacement,
        Reason::Terminated,
    ]);
    (prop::sample::select(vec![0, 1, 65, 69, 143]), reasons)
        .prop_map(|(code, reason)| Report::new(code, reason, "this is how it went"))
}

prop_compose! {
    fn pod()(
        rank in 0..5u32,
        attempt in 0..3u32,
        mine in prop::bool::weighted(0.9),
        phase in prop::sample::select(vec![Phase::Pending, Phase::Running, Phase::Succeeded, Phase::Failed]),
        ready in any::<bool>(),
        deleting in prop::option::weighted(0.2, -60..60i64),
        unscheduled in prop::option::weighted(0.2, Just("0/3 nodes are available: 3 Insufficient cpu.")),
        disrupted in prop::bool::weighted(0.1),
        main in prop::option::of(container()),
        others in prop::collection::vec(container(), 0..2),
        report in prop::option::weighted(0.4, report()),
        uid in any::<u32>(),
    ) -> PodFacts {
        let (group, index) = if rank == 0 { ("launcher", 0) } else { ("worker", rank - 1) };
        PodFacts {
            name: format!("lammps-{group}-0-{index}-{uid:x}"),
            uid: format!("{uid:x}"),
            jobset: if mine { "22222222-bbbb-4000-8000-000000000002" } else { "other" }.into(),
            group: group.into(),
            index,
            attempt,
            node: unscheduled.is_none().then(|| "n1".to_owned()),
            phase,
            ready,
            ready_since: Some(time()),
            created: Some(time() - SignedDuration::from_secs(60)),
            deleting: deleting.map(|at| time() + SignedDuration::from_secs(at)),
            unscheduled: unscheduled.map(|message| Box::new(Unscheduled {
                reason: "Unschedulable".into(),
                message: message.into(),
                ..Unscheduled::default()
            })),
            disruption: disrupted.then(|| Box::new(Disruption {
                reason: "EvictionByEvictionAPI".into(),
                message: "evicted".into(),
                since: None,
            })),
            main: main.map(|main| Box::new(ContainerFacts { init: false, ..main })),
            others,
            report: report.map(Box::new),
            ..PodFacts::default()
        }
    }
}

prop_compose! {
    fn jobset()(
        mine in prop::bool::weighted(0.9),
        age in 0..100i64,
        suspend in prop::option::weighted(0.3, any::<bool>()),
        restarts in 0..3u32,
        seen in any::<bool>(),
        completed in reading(),
        failed in reading(),
        restarting in reading(),
        queue in prop::option::weighted(0.2, Just("team".to_owned())),
    ) -> JobSetFacts {
        let owner = if mine { "11111111-aaaa-4000-8000-000000000001" } else { "other" };
        JobSetFacts {
            name: "lammps".into(),
            uid: "22222222-bbbb-4000-8000-000000000002".into(),
            owner: Some(("MiniCluster".into(), "lammps".into(), owner.into())),
            created: Some(time() - SignedDuration::from_secs(age)),
            suspend,
            queue,
            restarts,
            restarts_counted: restarts,
            seen,
            completed,
            failed,
            restarting,
            ..JobSetFacts::default()
        }
    }
}

fn live() -> impl Strategy<Value = ClusterStatus> {
    let states = prop::sample::select(vec![
        BrokerState::Quorum,
        BrokerState::Run,
        BrokerState::Cleanup,
        BrokerState::Exit,
    ]);
    let leaving = prop::option::of((1..9u32).prop_map(|jobs| Leaving {
        ranks: "3".into(),
        pods: "worker-0-2".into(),
        jobs,
    }));
    (states, 0..5u32, 0..3u32, leaving).prop_map(|(state, online, attempt, leaving)| {
        ClusterStatus {
            cluster: "lammps".into(),
            attempt,
            state,
            size: 4,
            leaving,
            free_from: None,
            min_size: 4,
            online,
            online_ranks: String::new(),
            torpid_ranks: String::new(),
            missing: vec![Missing {
                rank: 3,
                pod: "worker-0-2".into(),
                silent_seconds: Some(u64::from(online)),
                why: "no contact".into(),
            }],
            ..ClusterStatus::default()
        }
    })
}

prop_compose! {
    fn observed()(
        suspend in prop::option::weighted(0.3, any::<bool>()),
        program in any::<bool>(),
        jobset in prop::option::weighted(0.9, jobset()),
        pods in prop::collection::vec(pod(), 0..7),
        live in prop::option::of(live()),
        immutable in prop::bool::weighted(0.1),
        refused in prop::bool::weighted(0.2),
    ) -> Observed {
        static BASE: LazyLock<Observed> = LazyLock::new(|| crate::seen::read("kind: Scene\n").observed);
        let mut observed = BASE.clone();
        let cluster = Arc::make_mut(&mut observed.cluster);
        cluster.spec.suspend = suspend;
        let mut shape = observed.shape.as_deref().cloned().unwrap();
        shape.program = program;
        observed.shape = Some(Arc::new(shape));
        let launcher = pods.iter().find(|pod| pod.group == "launcher").map(|pod| pod.uid.clone());
        observed.live = live.zip(launcher).map(|(status, pod_uid)| Live { pod_uid, at: time(), status });
        observed.jobset = jobset.map(Arc::new);
        observed.pods = pods.into_iter().map(Arc::new).collect();
        observed.jobs.clear();
        observed.obstacles =
            immutable.then(|| Obstacle::Immutable { fields: vec!["spec.image".into()] }).into_iter().collect();
        observed.events = refused.then(|| EventFacts {
            kind: "Job".into(),
            name: "lammps-worker-0".into(),
            warning: true,
            reason: "FailedCreate".into(),
            message: "Error creating: pods \"x\" is forbidden: no".into(),
            ..EventFacts::default()
        }).into_iter().collect();
        observed
    }
}

fn with(mut observed: Observed, status: MiniClusterStatus) -> Observed {
    Arc::make_mut(&mut observed.cluster).status = Some(status);
    observed
}

fn truth(kind: &str, status: &MiniClusterStatus) -> bool {
    status.conditions.iter().any(|one| one.type_ == kind && one.status == "True")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_status_that_is_written_is_not_written_again(observed in observed(), later in 0..10_000i64) {
        let first = status(&observed, time());
        let observed = with(observed, first.clone());
        let second = status(&observed, time());
        prop_assert_eq!(&second, &first);
        prop_assert_eq!(pace(Some(&first), &second, 1), Pace::Nothing);
        prop_assert!(transitions(Some(&first), &second).is_empty());
        // When nobody is asked to look again, time changes nothing.
        let at = time() + SignedDuration::from_secs(later);
        if recheck(&observed, time()).is_none_or(|due| at < due) {
            prop_assert_eq!(status(&observed, at), first);
        }
    }

    #[test]
    fn a_status_never_contradicts_itself(before in observed(), after in observed()) {
        let before = status(&before, time());
        let status = status(&with(after, before.clone()), time());
        let (succeeded, failed) = (truth("Succeeded", &status), truth("Failed", &status));
        let (running, quorate) = (truth("Running", &status), truth("Quorate", &status));
        let suspended = truth("Suspended", &status);
        prop_assert!(!(succeeded && failed));
        prop_assert!(!((succeeded || failed) && (running || quorate || suspended)));
        prop_assert!(!(suspended && (running || quorate)));
        prop_assert_eq!(succeeded, status.state == Some(State::Succeeded));
        prop_assert_eq!(failed, status.state == Some(State::Failed));
        prop_assert_eq!(suspended, status.state == Some(State::Suspended));
        if succeeded {
            prop_assert_eq!(status.exit_code, Some(0));
        }
        if running {
            prop_assert!(matches!(status.state, Some(State::Running | State::Ready)));
        }
        prop_assert!(!quorate || status.quorate_time.is_some());
        prop_assert_eq!(succeeded || failed, status.completion_time.is_some());
        let mut kinds: Vec<_> = status.conditions.iter().map(|one| &one.type_).collect();
        kinds.sort();
        kinds.dedup();
        prop_assert_eq!(kinds.len(), status.conditions.len());
        if before.state == Some(State::Succeeded) && status.start_time == before.start_time {
            prop_assert_eq!(status, before);
        }
    }

    #[test]
    fn there_is_always_one_cause_with_one_sentence(observed in observed()) {
        let why = why(&observed, time());
        prop_assert!(!why.message.is_empty());
        prop_assert!(why.message.len() <= 1024);
        prop_assert!(!why.message.contains('\n'));
        prop_assert!(!why.message.ends_with('.'));
        prop_assert_eq!(Cause::of_word(why.cause.reason()), Some(why.cause));
        let status = status(&observed, time());
        prop_assert_eq!(status.message.as_deref(), Some(&*why.message));
        for event in transitions(None, &status) {
            prop_assert!(!event.note.is_empty());
            prop_assert!(event.note.len() <= 1024);
        }
    }

    #[test]
    fn quorate_is_the_word_of_rank_0_alone(observed in observed()) {
        let status = status(&observed, time());
        if truth("Quorate", &status) {
            let launcher = observed.launcher().expect("someone said so");
            prop_assert_eq!(launcher.attempt, observed.attempt());
            prop_assert!(!launcher.ended());
            match observed.live() {
                Some(live) => prop_assert!(live.state == BrokerState::Run && live.online >= 4),
                None => prop_assert!(launcher.ready),
            }
        }
    }
}
