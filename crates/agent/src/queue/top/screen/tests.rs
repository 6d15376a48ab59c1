use super::*;
use serde_json::json;

fn seen() -> Seen {
    let job = |id: u32, state: &str, name: &str| {
        serde_json::from_value(json!({
            "id": id, "name": name, "user": 0, "state": state, "urgency": 16, "held": false, "priority": 16,
            "queue": "default", "tasks": 2, "nodes": 1, "coresPerTask": 1, "gpusPerTask": 0,
            "memoryPerNode": 0, "exclusive": false, "submitted": 0, "requeues": 0, "command": ["x"],
            "directory": "/", "why": if state == "RUN" { "" } else { "waits for nodes" },
            "started": if state == "RUN" { json!(1000) } else { json!(null) },
            "allocated": if state == "RUN" { json!(1000) } else { json!(null) },
            "pods": if state == "RUN" { json!(["worker-0-0"]) } else { json!([]) },
        }))
        .unwrap()
    };
    let node = |rank: u32, pod: &str, free: u32| {
        serde_json::from_value(json!({
            "rank": rank, "pod": pod, "host": pod, "up": true, "cores": 2, "freeCores": free, "gpus": 0,
            "freeGpus": 0, "memory": 1_u64 << 30, "freeMemory": 1_u64 << 30,
        }))
        .unwrap()
    };
    let lane = serde_json::from_value(json!({
        "lane": quorate_queue::Lane::named("default"), "default": true, "pending": 2, "running": 1,
        "completed": 7, "failed": 1,
    }))
    .unwrap();
    Seen {
        lanes: vec![lane],
        nodes: vec![node(0, "launcher-0-0", 2), node(1, "worker-0-0", 0)],
        jobs: vec![job(3, "RUN", "relax"), job(4, "SCHED", "next"), job(5, "SCHED", "last")],
        now: Time(61_000),
        error: None,
    }
}

const SIZE: Size = Size { rows: 13, columns: 60 };

#[test]
fn a_frame_has_the_size_of_its_terminal() {
    let seen = seen();
    let lines = frame(&seen, &Desk::default(), SIZE);
    assert_eq!(lines.len(), 13);
    let text: Vec<String> =
        lines.iter().map(|line| line.replace("\x1b[7m", "").replace("\x1b[0m", "")).collect();
    assert!(text.iter().all(|line| line.chars().count() <= 60), "{text:#?}");
    assert!(
        text[0].starts_with("brokers 2 of 2   cores [#####.....] 2 of 4   1970-01-01"),
        "{text:#?}"
    );
    assert_eq!(text[1], "queue default: 1 running, 2 waiting, 7 completed, 1 failed");
    assert!(text[3].starts_with("RANK  POD") && text[4].contains("launcher-0-0"), "{text:#?}");
    let head = text.iter().position(|line| line.starts_with("ID  NAME")).unwrap();
    assert!(
        text[head + 1].starts_with(" 3  relax") && lines[head + 1].starts_with("\x1b[7m"),
        "{text:#?}"
    );
    assert!(text[12].starts_with("q leave"), "{text:#?}");
    // However small it is.
    for rows in 1..13 {
        let lines = frame(&seen, &Desk::default(), Size { rows, columns: 7 });
        assert_eq!(lines.len(), usize::from(rows));
    }
}

#[test]
fn changes_are_asked_about_and_done_to_the_marked_job() {
    let (seen, mut desk) = (seen(), Desk::default());
    for key in keys(b"\x1b[B\x1b[B\x1b[B\x1bOA") {
        assert_eq!(desk.hit(key, &seen), None);
    }
    assert_eq!(desk.hit(Key::Letter(b'c'), &seen), None);
    assert_eq!(frame(&seen, &desk, SIZE)[12], "cancel job 4 (next)? y or n");
    assert_eq!(desk.hit(Key::Letter(b'n'), &seen), None);
    assert_eq!(desk.hit(Key::Letter(b'h'), &seen), None);
    assert_eq!(desk.hit(Key::Letter(b'y'), &seen), Some(Act::Do(Change::Hold, JobId(4))));
    // The mark stays with its job while others come and go.
    let mut later = seen.clone();
    later.jobs.remove(0);
    desk.hit(Key::Letter(b'r'), &later);
    assert_eq!(desk.hit(Key::Letter(b'y'), &later), Some(Act::Do(Change::Release, JobId(4))));
    assert_eq!(desk.hit(Key::Letter(b'q'), &seen), Some(Act::Leave));
    let nothing = Seen::default();
    assert_eq!(Desk::default().hit(Key::Letter(b'c'), &nothing), None);
    assert_eq!(Desk::default().hit(Key::Letter(b'y'), &nothing), None);
}

#[test]
fn keys_of_their_own_are_passed_over_whole() {
    assert_eq!(keys(b"a\x1b[15~\x1b[1;5Cq"), [b'a', b'q'].map(Key::Letter));
    assert_eq!(keys(b"\x1b[Cq"), [Key::Letter(b'q')]);
}

#[test]
fn what_is_no_terminal_gets_all_of_it_once() {
    let text = once(&seen());
    for want in ["brokers 2 of 2", "queue default", "worker-0-0", "relax", "waits for nodes"] {
        assert!(text.contains(want), "{want} is not in {text}");
    }
    assert!(!text.contains('\x1b'));
    let lost = Seen { error: Some("nobody answers".to_owned()), ..Seen::default() };
    assert!(once(&lost).starts_with("nobody answers\n"));
}
