//! What people read, as a terminal and as a log.

use super::*;
use crate::control::Finish;
use crate::terminal::Style;
use quorate_contract::report::{Failure, Phases, Reason};
use quorate_contract::status::ProgramStatus;

fn progress(redraw: bool, unicode: bool) -> Progress {
    let style = Style { redraw, color: false, unicode, width: 80 };
    Progress::new("hello", 4, Marks::of(&style), redraw, false, 1_000_000)
}

fn status(online: u32, state: BrokerState) -> ClusterStatus {
    ClusterStatus {
        cluster: "hello".into(),
        attempt: 0,
        state,
        size: 4,
        free_from: None,
        min_size: 4,
        online,
        online_ranks: String::new(),
        torpid_ranks: String::new(),
        missing: Vec::new(),
        gives_up_in_seconds: None,
        program: None,
        ..ClusterStatus::default()
    }
}

fn missing(pod: &str, why: &str, silent_seconds: Option<u64>) -> Missing {
    Missing { rank: 1, pod: pod.into(), silent_seconds, why: why.into() }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn text(lines: &[Line]) -> Vec<String> {
    lines
        .iter()
        .map(|line| match line {
            Line::Keep(text) => text.clone(),
            Line::Live(text) => format!("~{text}"),
        })
        .collect()
}

fn finish(code: i32) -> Finish {
    Finish {
        code,
        completed: code == 0,
        reason: if code == 0 { "Completed" } else { "ReachedMaxRestarts" }.into(),
        message: String::new(),
    }
}

fn report(code: i32, reason: Reason) -> Report {
    let mut report = Report::new(code, reason, "the program failed");
    report.placement = Some(Placement {
        planned_pods: 4,
        actual_pods: 4,
        tasks: 8,
        tasks_by_pod: "4x2".into(),
        wire: [("PMI-1".to_owned(), 8)].into(),
    });
    report.phases = Phases {
        quorate: Some(1_000_090),
        program_started: Some(1_000_100),
        program_ended: Some(1_000_410),
        ..Phases::default()
    };
    report
}

#[test]
fn a_run_that_was_watched_reads_as_a_list_of_turns() {
    let mut p = progress(true, true);
    let mut all = text(&p.header());
    for _ in 0..4 {
        all.extend(text(&p.pod_started(ms(40))).into_iter().filter(|l| !l.starts_with('~')));
    }
    all.extend(text(&p.status(status(4, BrokerState::Run), ms(90))));
    let mut runs = status(4, BrokerState::Run);
    runs.program = Some(ProgramStatus { tasks: 8, pods: 4, tasks_by_pod: "4x2".into() });
    all.extend(text(&p.status(runs, ms(100))));
    let report = report(0, Reason::Completed);
    let ending = Ending { finish: &finish(0), report: Some(&report), logs: None };
    all.extend(text(&p.ended(ending, ms(470))));
    assert_eq!(
        all,
        [
            "hello · 4 pods on this machine",
            "  ✔ pods      4/4    0.04 s",
            "  ✔ brokers   4/4    0.09 s  quorate",
            "  ▸ program   8 ranks on 4 pods",
            "  ✔ program   exit 0  0.31 s  ranks 2 2 2 2, PMI-1",
            "hello succeeded in 0.47 s",
        ]
    );
}

#[test]
fn turns_too_quick_to_be_seen_are_told_at_the_end() {
    let mut p = progress(false, false);
    let report = report(0, Reason::Completed);
    let ending = Ending { finish: &finish(0), report: Some(&report), logs: None };
    assert_eq!(
        text(&p.ended(ending, ms(470))),
        [
            "  + brokers   4/4    0.09 s  quorate",
            "  > program   8 ranks on 4 pods",
            "  + program   exit 0  0.31 s  ranks 2 2 2 2, PMI-1",
            "hello succeeded in 0.47 s",
        ]
    );
}

#[test]
fn waiting_names_who_is_missing_why_and_for_how_long() {
    let mut p = progress(true, true);
    let mut s = status(1, BrokerState::Quorum);
    s.missing = vec![
        missing("worker-0-0", "no contact", Some(8)),
        missing("worker-0-1", "refused: attempt 0, now 1", None),
    ];
    s.gives_up_in_seconds = Some(592);
    assert_eq!(
        text(&p.status(s.clone(), ms(8000))),
        ["~  ⠋ brokers   1/4    waiting for worker-0-0 (no contact for 8 s), worker-0-1 \
          (refused: attempt 0, now 1) and 1 more · gives up in 9m52s"]
    );
    assert!(text(&p.tick(ms(8100)))[0].contains('⠙'));
}

#[test]
fn without_redrawing_a_wait_is_a_line_now_and_then() {
    let mut p = progress(false, false);
    let lines =
        |p: &mut Progress, online, at| text(&p.status(status(online, BrokerState::Quorum), ms(at)));
    assert!(lines(&mut p, 1, 10).is_empty(), "a quick start says nothing of waiting");
    assert_eq!(lines(&mut p, 2, 1000), ["  . brokers   2/4"]);
    assert!(lines(&mut p, 3, 1500).is_empty());
    assert_eq!(lines(&mut p, 3, 2000), ["  . brokers   3/4"]);
    assert!(text(&p.tick(ms(9000))).is_empty());
    assert_eq!(text(&p.tick(ms(12_000))), ["  . brokers   3/4"]);
}

#[test]
fn a_failing_rank_is_named_with_its_last_lines() {
    let mut p = progress(true, true);
    let mut report = report(139, Reason::Signaled);
    report.phases.program_ended = Some(1_012_500);
    report.failure = Some(Failure {
        rank: Some(5),
        pod: Some("worker-0-2".into()),
        signal: Some(11),
        log_tail: vec!["reading mesh.h5".into(), "allocated 2.1 GB".into()],
        ..Failure::default()
    });
    p.brokers_shown = true;
    p.program_shown = true;
    let ending = Ending {
        finish: &finish(139),
        report: Some(&report),
        logs: Some("~/.local/state/quorate/hello"),
    };
    assert_eq!(
        text(&p.ended(ending, ms(13_000))),
        [
            "  ✘ program   rank 5 on worker-0-2 ended by signal 11 (segmentation fault) after \
             12.4 s; the other 7 ranks were stopped",
            "              its last lines:",
            "              | reading mesh.h5",
            "              | allocated 2.1 GB",
            "hello failed with code 139 · kept logs: ~/.local/state/quorate/hello",
        ]
    );
}

#[test]
fn quiet_says_nothing_of_success_and_all_of_failure() {
    let style = Style { redraw: false, color: false, unicode: true, width: 80 };
    let mut p = Progress::new("hello", 1, Marks::of(&style), false, true, 0);
    assert!(p.header().is_empty() && p.pod_started(ms(1)).is_empty());
    let mut failed = p.clone();
    let good = report(0, Reason::Completed);
    let ending = Ending { finish: &finish(0), report: Some(&good), logs: None };
    assert!(p.ended(ending, ms(1)).is_empty());
    let bad = report(3, Reason::ProgramFailed);
    let ending = Ending { finish: &finish(3), report: Some(&bad), logs: None };
    let lines = text(&failed.ended(ending, ms(1)));
    assert!(lines.iter().any(|l| l.contains("✘ program   the program failed")), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "hello failed with code 3");
}

#[test]
fn restarts_begin_the_list_again() {
    let mut p = progress(false, false);
    for _ in 0..4 {
        p.pod_started(ms(1));
    }
    assert_eq!(
        text(&p.restarted(1, 2, "1 pods of launcher-0 failed")),
        ["  @ restart   1 of 2: 1 pods of launcher-0 failed"]
    );
    let mut last = Vec::new();
    for _ in 0..4 {
        last = text(&p.pod_started(ms(2000)));
    }
    assert_eq!(last, ["  + pods      4/4    2.00 s"]);
}

#[test]
fn runs_of_ranks_are_spelled_out() {
    assert_eq!(ranks_by_pod("1x0,3x2"), Some(vec![0, 2, 2, 2]));
    assert_eq!(ranks_by_pod(""), Some(Vec::new()));
    assert_eq!(ranks_by_pod("2"), None);
    assert_eq!(ranks_by_pod("9999999999x1"), None);
}

#[test]
fn colours_are_only_where_they_are_wanted() {
    let plain = Marks::of(&Style { redraw: true, color: false, unicode: true, width: 80 });
    let color = Marks::of(&Style { redraw: true, color: true, unicode: true, width: 80 });
    assert_eq!(plain.paint(plain.done), "✔");
    assert_eq!(color.paint(color.failed), "\x1b[31m✘\x1b[0m");
}

#[test]
fn the_summary_has_places_times_and_reason() {
    let report = report(0, Reason::Completed);
    let data = summary("hello", 4, &finish(0), Some(&report), 1_000_000, ms(470));
    assert_eq!(
        data,
        serde_json::json!({
            "name": "hello", "pods": 4, "succeeded": true, "exitCode": 0, "reason": "Completed",
            "message": "the program failed", "wallSeconds": 0.47, "bringUpSeconds": 0.09,
            "runSeconds": 0.31, "ranks": 8, "ranksByPod": [2, 2, 2, 2], "wire": {"PMI-1": 8},
        })
    );
    let mut lost = finish(70);
    lost.message = "the keeper died".into();
    let data = summary("hello", 4, &lost, None, 0, ms(1));
    assert_eq!(
        (data["exitCode"].as_i64(), data["message"].as_str()),
        (Some(70), Some("the keeper died"))
    );
}

#[test]
fn a_run_on_kubernetes_has_the_same_turns() {
    let mut p = progress(true, true).at("in namespace hpc of lab".into());
    assert_eq!(text(&p.header()), ["hello · 4 pods in namespace hpc of lab"]);
    let scene = |started, online, quorate, waits: &str| Scene {
        started,
        online,
        quorate,
        waits: Some(waits.to_owned()),
    };
    let waits = "2 of 4 pods cannot be scheduled";
    assert_eq!(
        text(&p.scene(scene(2, 2, false, waits), ms(900))),
        ["~  ⠋ pods      2/4    2 of 4 pods cannot be scheduled"]
    );
    assert_eq!(
        text(&p.scene(scene(4, 3, false, "worker-0-2 has not joined"), ms(1200))),
        ["  ✔ pods      4/4    1.20 s", "~  ⠋ brokers   3/4    worker-0-2 has not joined"]
    );
    assert_eq!(
        text(&p.scene(scene(4, 4, true, "the program runs"), ms(1300))),
        ["  ✔ brokers   4/4    1.30 s  quorate"]
    );
    assert_eq!(text(&p.program_seen(Some(8))), ["  ▸ program   8 ranks on 4 pods"]);
    assert!(p.program_seen(Some(8)).is_empty());
    // Later looks say nothing, and pods that end do not count back.
    assert!(p.scene(scene(0, 4, true, ""), ms(1400)).is_empty());
}

#[test]
fn a_wait_on_kubernetes_is_a_line_now_and_then_in_a_log() {
    let mut p = progress(false, false);
    let scene = |started| Scene {
        started,
        online: 0,
        quorate: false,
        waits: Some("no node has 4 free CPUs".into()),
    };
    assert!(p.scene(scene(0), ms(500)).is_empty());
    assert_eq!(
        text(&p.scene(scene(1), ms(2000))),
        ["  . pods      1/4    no node has 4 free CPUs"]
    );
    assert!(p.scene(scene(1), ms(4000)).is_empty());
    assert_eq!(
        text(&p.scene(scene(1), ms(12_500))),
        ["  . pods      1/4    no node has 4 free CPUs"]
    );
}
