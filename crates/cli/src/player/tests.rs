//! Each rule of the two controllers as a small story.

use super::*;
use serde_json::{Value, json};

/// A launcher and `workers` workers, as the plan makes them, with changes laid over.
fn jobset(workers: u32, change: &dyn Fn(&mut Value)) -> JobSetSpec {
    let job = |pods: u32| {
        json!({"spec": {
            "completionMode": "Indexed", "completions": pods, "parallelism": pods,
            "backoffLimit": 0, "podReplacementPolicy": "Failed",
            "template": {"spec": {"restartPolicy": "Never", "containers": []}},
        }})
    };
    let mut spec = json!({
        "replicatedJobs": [
            {"name": "launcher", "replicas": 1, "template": job(1)},
            {"name": "worker", "replicas": 1, "template": job(workers)},
        ],
        "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
        "failurePolicy": {"maxRestarts": 0, "restartStrategy": "BlockingRecreate"},
    });
    change(&mut spec);
    serde_json::from_value(spec).unwrap()
}

/// Plays a JobSet by hand: names of pods in, names of pods out.
struct Stage {
    player: Player,
    now: Duration,
    live: Vec<PodId>,
    terminating: Vec<PodId>,
    restarts: Vec<u32>,
    outcome: Option<Outcome>,
}

impl Stage {
    fn new(spec: JobSetSpec) -> Self {
        let mut stage = Self {
            player: Player::new(spec).unwrap(),
            now: Duration::ZERO,
            live: Vec::new(),
            terminating: Vec::new(),
            restarts: Vec::new(),
            outcome: None,
        };
        stage.tell(Event::Tick);
        stage
    }

    fn tell(&mut self, event: Event) {
        for action in self.player.step(self.now, event) {
            match action {
                Action::Create(id) => {
                    let twin = |p: &&PodId| p.display_name() == id.display_name();
                    assert!(self.live.iter().find(twin).is_none(), "two pods of one index: {id:?}");
                    self.live.push(id);
                }
                Action::Terminate(id) => self.terminating.push(id),
                Action::Restarted { attempt, .. } => self.restarts.push(attempt),
                Action::Finished(outcome) => {
                    assert_eq!(self.outcome.replace(outcome), None, "the JobSet ended twice");
                }
            }
        }
    }

    fn exits(&mut self, pod: &str, code: i32, disrupted: bool) {
        let at = self.live.iter().position(|p| p.display_name() == pod);
        let id = self.live.remove(at.unwrap_or_else(|| panic!("{pod} is not there")));
        self.terminating.retain(|p| *p != id);
        self.tell(Event::PodEnded(id, Exit { code, disrupted }));
    }

    /// All pods that were asked to end do so, as the agent does on SIGTERM.
    fn obey(&mut self) {
        while let Some(id) = self.terminating.first().cloned() {
            self.exits(&id.display_name(), 143, false);
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.tell(Event::Tick);
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.live.iter().map(PodId::display_name).collect();
        names.sort();
        names
    }

    fn ending(&self) -> usize {
        self.terminating.len()
    }

    fn failed(&self) -> &str {
        match &self.outcome {
            Some(Outcome::Failed { reason, .. }) => reason,
            other => panic!("not failed: {other:?}"),
        }
    }
}

const ALL: [&str; 4] = ["launcher-0-0", "worker-0-0", "worker-0-1", "worker-0-2"];

#[test]
fn all_pods_start_at_once_and_the_launchers_success_ends_the_workers() {
    let mut stage = Stage::new(jobset(3, &|_| {}));
    assert_eq!(stage.names(), ALL);
    stage.exits("launcher-0-0", 0, false);
    assert_eq!(stage.outcome, Some(Outcome::Completed));
    assert_eq!(stage.ending(), 3);
    assert!(!stage.player.is_over());
    stage.obey();
    assert!(stage.player.is_over() && stage.live.is_empty());
}

#[test]
fn workers_that_are_done_first_are_not_made_again() {
    let mut stage = Stage::new(jobset(2, &|_| {}));
    stage.exits("worker-0-0", 0, false);
    stage.exits("worker-0-1", 0, false);
    assert_eq!((stage.names(), &stage.outcome), (vec!["launcher-0-0".to_owned()], &None));
    stage.exits("launcher-0-0", 0, false);
    assert_eq!(stage.outcome, Some(Outcome::Completed));
}

#[test]
fn without_restarts_a_failed_launcher_fails_the_jobset() {
    let mut stage = Stage::new(jobset(2, &|_| {}));
    stage.exits("launcher-0-0", 7, false);
    assert_eq!(stage.failed(), "ReachedMaxRestarts");
    assert_eq!(stage.ending(), 2);
}

#[test]
fn without_a_failure_policy_the_first_failed_job_fails_the_jobset() {
    let mut stage = Stage::new(jobset(2, &|spec| spec["failurePolicy"] = Value::Null));
    stage.exits("worker-0-1", 1, false);
    stage.obey();
    assert_eq!(stage.failed(), "FailedJobs");
}

#[test]
fn a_job_counts_as_failed_only_when_its_other_pods_are_gone() {
    let mut stage = Stage::new(jobset(2, &|_| {}));
    stage.exits("worker-0-1", 1, false);
    assert_eq!(
        (stage.ending(), &stage.outcome),
        (1, &None),
        "the other worker is told to end first"
    );
    stage.obey();
    assert_eq!(stage.failed(), "ReachedMaxRestarts");
}

#[test]
fn failure_is_judged_before_success() {
    // Both Jobs are at their end in the same pass: the worker's failure wins.
    let mut stage = Stage::new(jobset(1, &|_| {}));
    let (launcher, worker) = (stage.live[0].clone(), stage.live[1].clone());
    let ended = |code| Exit { code, disrupted: false };
    for (id, code) in [(worker, 1), (launcher, 0)] {
        let job = stage.player.jobs.iter_mut().find(|job| job.owns(&id)).unwrap();
        job.pod_ended(&id, ended(code), Duration::ZERO);
        stage.live.retain(|p| *p != id);
    }
    stage.tell(Event::Tick);
    assert_eq!(stage.failed(), "ReachedMaxRestarts");
}

#[test]
fn blocking_recreate_waits_for_the_last_pod_of_the_old_attempt() {
    let mut stage = Stage::new(jobset(2, &|spec| spec["failurePolicy"]["maxRestarts"] = json!(1)));
    stage.exits("launcher-0-0", 1, false);
    assert_eq!((stage.restarts.as_slice(), stage.ending()), (&[1][..], 2));
    assert_eq!(stage.names(), ["worker-0-0", "worker-0-1"], "none of the new attempt yet");
    stage.exits("worker-0-0", 143, false);
    assert_eq!(stage.names(), ["worker-0-1"]);
    stage.exits("worker-0-1", 143, false);
    assert_eq!(stage.names(), ALL[..3].to_vec());
    assert!(stage.live.iter().all(|p| p.attempt == 1));
    // The budget is used up now.
    stage.exits("launcher-0-0", 1, false);
    assert_eq!(stage.failed(), "ReachedMaxRestarts");
}

#[test]
fn recreate_makes_each_job_when_its_own_predecessor_is_gone() {
    let mut stage = Stage::new(jobset(1, &|spec| {
        spec["failurePolicy"] = json!({"maxRestarts": 1, "restartStrategy": "Recreate"});
    }));
    stage.exits("launcher-0-0", 1, false);
    let attempts: Vec<_> = stage.live.iter().map(|p| (p.display_name(), p.attempt)).collect();
    assert_eq!(attempts, [("worker-0-0".to_owned(), 0), ("launcher-0-0".to_owned(), 1)]);
}

#[test]
fn rules_are_a_table_and_the_first_match_decides() {
    let policy = json!({"maxRestarts": 3, "restartStrategy": "BlockingRecreate", "rules": [
        {"name": "program", "action": "FailJobSet", "targetReplicatedJobs": ["launcher"],
         "onJobFailureReasons": ["BackoffLimitExceeded"]},
        {"name": "disruption", "action": "RestartJobSetAndIgnoreMaxRestarts",
         "onJobFailureReasons": ["PodFailurePolicy"]},
    ]});
    let rules = json!({"rules": [
        {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]});
    // (pod, code, disrupted) -> how it goes on
    let cases = [
        ("launcher-0-0", 5, false, Some("FailJobSetFailurePolicyAction"), 0),
        ("launcher-0-0", 143, true, None, 0),
        ("worker-0-0", 143, true, None, 0),
        ("worker-0-0", 5, false, None, 1),
    ];
    for (pod, code, disrupted, fails, counted) in cases {
        let mut stage = Stage::new(jobset(1, &|spec| {
            spec["failurePolicy"] = policy.clone();
            for group in 0..2 {
                spec["replicatedJobs"][group]["template"]["spec"]["podFailurePolicy"] =
                    rules.clone();
            }
        }));
        stage.exits(pod, code, disrupted);
        stage.obey();
        let case = format!("{pod} {code} {disrupted}");
        match fails {
            Some(reason) => assert_eq!(stage.failed(), reason, "{case}"),
            None => assert_eq!(stage.restarts, [1], "{case}"),
        }
        assert_eq!(stage.player.counted, counted, "{case}");
    }
}

fn per_index(spec: &mut Value) {
    let worker = &mut spec["replicatedJobs"][1]["template"]["spec"];
    worker["backoffLimit"] = Value::Null;
    worker["backoffLimitPerIndex"] = json!(2);
    worker["maxFailedIndexes"] = json!(0);
}

#[test]
fn with_backoff_per_index_only_the_lost_index_waits_ten_then_twenty_seconds() {
    let mut stage = Stage::new(jobset(3, &per_index));
    stage.exits("worker-0-1", 143, false);
    assert_eq!(stage.names(), ["launcher-0-0", "worker-0-0", "worker-0-2"]);
    assert_eq!(stage.player.next_timer(stage.now), Some(Duration::from_secs(10)));
    stage.pass(9);
    assert_eq!(stage.names().len(), 3);
    stage.exits("worker-0-2", 143, false);
    stage.pass(1);
    assert_eq!(stage.names(), ["launcher-0-0", "worker-0-0", "worker-0-1"]);
    assert_eq!(stage.live.last().unwrap().number, 1);
    stage.exits("worker-0-1", 143, false);
    stage.pass(19);
    assert_eq!(stage.names(), ["launcher-0-0", "worker-0-0", "worker-0-2"]);
    stage.pass(1);
    assert_eq!(stage.names(), ALL);
}

#[test]
fn one_index_too_many_fails_the_job() {
    let mut stage = Stage::new(jobset(2, &per_index));
    for wait in [10, 20, 0] {
        stage.exits("worker-0-0", 1, false);
        stage.pass(wait);
    }
    stage.obey();
    assert_eq!(stage.failed(), "ReachedMaxRestarts");
}

#[test]
fn a_job_wide_backoff_holds_all_indexes_and_a_success_resets_it() {
    let mut stage = Stage::new(jobset(3, &|spec| {
        spec["replicatedJobs"][1]["template"]["spec"]["backoffLimit"] = json!(5);
    }));
    stage.exits("worker-0-0", 1, false);
    stage.exits("worker-0-1", 1, false);
    stage.pass(19);
    assert_eq!(stage.names(), ["launcher-0-0", "worker-0-2"]);
    stage.exits("worker-0-2", 0, false);
    assert_eq!(stage.names(), ["launcher-0-0", "worker-0-0", "worker-0-1"]);
}

#[test]
fn the_backoff_limit_counts_over_the_whole_job() {
    let mut stage = Stage::new(jobset(1, &|spec| {
        spec["replicatedJobs"][1]["template"]["spec"]["backoffLimit"] = json!(1);
    }));
    stage.exits("worker-0-0", 1, false);
    stage.pass(10);
    assert_eq!(stage.outcome, None);
    stage.exits("worker-0-0", 1, false);
    assert_eq!(stage.failed(), "ReachedMaxRestarts");
}

#[test]
fn ignored_failures_wait_but_do_not_count() {
    let mut stage = Stage::new(jobset(1, &|spec| {
        spec["replicatedJobs"][1]["template"]["spec"]["podFailurePolicy"] = json!({"rules": [
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [143]}},
            {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1, 2]}},
        ]});
    }));
    stage.exits("worker-0-0", 143, false);
    assert_eq!((stage.names(), &stage.outcome), (vec!["launcher-0-0".to_owned()], &None));
    stage.pass(10);
    assert_eq!(stage.names().len(), 2);
    stage.exits("worker-0-0", 3, false);
    assert_eq!(stage.failed(), "ReachedMaxRestarts");
}

#[test]
fn fail_index_gives_the_index_up_without_further_tries() {
    let mut stage = Stage::new(jobset(2, &|spec| {
        per_index(spec);
        spec["replicatedJobs"][1]["template"]["spec"]["maxFailedIndexes"] = json!(1);
        spec["replicatedJobs"][1]["template"]["spec"]["podFailurePolicy"] = json!({"rules": [
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [9]}},
        ]});
    }));
    stage.exits("worker-0-0", 9, false);
    stage.pass(60);
    assert_eq!(stage.names(), ["launcher-0-0", "worker-0-1"]);
    stage.exits("worker-0-1", 0, false);
    assert_eq!(
        stage.failed(),
        "ReachedMaxRestarts",
        "an index is missing at the end: FailedIndexes"
    );
}

#[test]
fn the_deadline_of_a_job_is_a_failure_of_its_own() {
    let mut stage = Stage::new(jobset(1, &|spec| {
        spec["replicatedJobs"][0]["template"]["spec"]["activeDeadlineSeconds"] = json!(60);
        spec["failurePolicy"]["maxRestarts"] = json!(9);
        spec["failurePolicy"]["rules"] = json!([
            {"name": "late", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]},
        ]);
    }));
    assert_eq!(stage.player.next_timer(stage.now), Some(Duration::from_mins(1)));
    stage.pass(60);
    assert_eq!(stage.ending(), 1);
    stage.obey();
    assert_eq!(stage.failed(), "FailJobSetFailurePolicyAction");
}

#[test]
fn the_time_limit_goes_on_over_restarts_and_begins_anew_after_a_suspension() {
    let mut stage = Stage::new(jobset(1, &|spec| {
        spec["replicatedJobs"][0]["template"]["spec"]["activeDeadlineSeconds"] = json!(60);
        spec["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = json!(0);
        spec["failurePolicy"]["maxRestarts"] = json!(9);
        spec["failurePolicy"]["rules"] = json!([
            {"name": "late", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]},
        ]);
    }));
    stage.pass(40);
    stage.exits("launcher-0-0", 1, false);
    stage.obey();
    assert_eq!((stage.player.attempt(), &stage.outcome), (1, &None));
    assert_eq!(stage.player.next_timer(stage.now), Some(Duration::from_mins(1)));
    stage.tell(Event::Suspend(true));
    stage.obey();
    stage.tell(Event::Suspend(false));
    assert_eq!(stage.player.next_timer(stage.now), Some(stage.now + Duration::from_mins(1)));
    stage.pass(60);
    stage.obey();
    assert_eq!(stage.failed(), "FailJobSetFailurePolicyAction");
}

#[test]
fn a_suspended_jobset_has_jobs_but_no_pods_until_it_is_resumed() {
    let mut stage = Stage::new(jobset(1, &|spec| spec["suspend"] = json!(true)));
    assert_eq!((stage.live.len(), stage.player.jobs.len()), (0, 2));
    stage.tell(Event::Suspend(false));
    assert_eq!(stage.live.len(), 2);
    stage.tell(Event::Suspend(true));
    assert_eq!(stage.ending(), 2);
    stage.obey();
    assert_eq!((stage.live.len(), &stage.outcome), (0, &None), "ended by suspension is not failed");
    stage.tell(Event::Suspend(false));
    assert_eq!(stage.live.len(), 2);
}

#[test]
fn success_of_any_target_is_enough_where_the_policy_says_so() {
    let mut stage = Stage::new(jobset(1, &|spec| {
        spec["successPolicy"] = json!({"operator": "Any"});
    }));
    stage.exits("worker-0-0", 0, false);
    assert_eq!(stage.outcome, Some(Outcome::Completed));
    let mut stage =
        Stage::new(jobset(1, &|spec| spec["successPolicy"] = json!({"operator": "All"})));
    stage.exits("worker-0-0", 0, false);
    assert_eq!(stage.outcome, None);
}

#[test]
fn what_is_not_played_is_refused_by_name() {
    type Change<'a> = &'a dyn Fn(&mut Value);
    let cases: [(Change<'_>, &str); 5] = [
        (
            &|s| s["replicatedJobs"][0]["template"]["spec"]["completionMode"] = json!("NonIndexed"),
            "replicatedJobs[launcher].template.spec.completionMode",
        ),
        (
            &|s| {
                s["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["restartPolicy"] =
                    json!("OnFailure");
            },
            "replicatedJobs[worker].template.spec.template.spec.restartPolicy",
        ),
        (
            &|s| {
                s["replicatedJobs"][1]["template"]["spec"]["successPolicy"] = json!({"rules": []});
            },
            "replicatedJobs[worker].template.spec.successPolicy",
        ),
        (
            &|s| s["startupPolicy"] = json!({"startupPolicyOrder": "InOrder"}),
            "startupPolicy.startupPolicyOrder",
        ),
        (
            &|s| {
                s["failurePolicy"]["rules"] = json!([{"name": "r", "action": "FailJobSet",
                    "onJobFailureMessagePatterns": ["x"]}]);
            },
            "failurePolicy.rules[r].onJobFailureMessagePatterns",
        ),
    ];
    for (change, field) in cases {
        let error = Player::new(jobset(1, change)).unwrap_err().to_string();
        assert!(error.starts_with(field), "{error}");
    }
}
