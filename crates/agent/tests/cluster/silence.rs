//! Brokers that are stopped, or cut off.

use crate::pods::{AGENT, PATIENCE, Plan, signal};
use quorate_contract::config::Slots;
use quorate_contract::report::Reason;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;

#[test]
fn a_paused_broker_turns_torpid_and_lively_again_and_nothing_is_lost() {
    // Silence counts ten times: 10 s become 1 s, torpid after 0.5 s, lost after 2 s.
    let plan = Plan { haste: 10, ..Plan::new(3) };
    let pods = plan.start();
    pods.wait_running();
    let broker = pods.broker(2);
    signal(broker, SIGSTOP);
    let status = pods.wait_status("a torpid rank", |status| status.torpid_ranks == "2");
    assert_eq!(status.online, 3, "a torpid broker is still a member");
    signal(broker, SIGCONT);
    pods.wait_status("a lively rank", |status| status.torpid_ranks.is_empty());
    assert_eq!(pods.broker(2), broker);
    assert_eq!(pods.status(0).unwrap().online, 3);
    assert!(pods.ask(0, &["overlay", "trace", "2"]).status.success());
}

#[test]
fn a_broker_paused_for_ten_seconds_loses_nothing_of_what_its_tasks_wrote() {
    const PAUSE: Duration = Duration::from_secs(10);
    const LINES: usize = 600;
    let pods = Plan { slots: Slots::Fixed(1), ..Plan::new(3) }.start();
    pods.wait_running();
    let broker = pods.broker(2);
    // Each task writes for about 12 s, and the paused broker's pipe fills meanwhile.
    let script = format!(
        "n=0; while [ $n -lt {LINES} ]; do echo $QUORATE_TASK_RANK $n; n=$((n+1)); sleep 0.02; done"
    );
    let mut job = Command::new(AGENT)
        .args(["run", "-N", "3", "-n", "3", "--socket"])
        .arg(pods.dir(0).join("agent.sock"))
        .args(["sh", "-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = job.stdout.take().unwrap();
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| {
            let _ = sender.send(line);
        });
    });
    let mut seen = vec![lines.recv_timeout(PATIENCE).expect("the job writes")];
    let start = Instant::now();
    signal(broker, SIGSTOP);
    let status = pods.wait_status("a torpid rank", |status| status.torpid_ranks == "2");
    assert_eq!(status.online, 3, "a torpid broker is still a member");
    // The pause itself is what this is about.
    std::thread::sleep(PAUSE.saturating_sub(start.elapsed()));
    signal(broker, SIGCONT);
    pods.wait_status("a lively rank", |status| status.torpid_ranks.is_empty());
    assert_eq!(job.wait().unwrap().code(), Some(0));
    reader.join().unwrap();
    seen.extend(lines);
    for rank in ["0 ", "1 ", "2 "] {
        let of_rank: Vec<&str> = seen.iter().filter_map(|line| line.strip_prefix(rank)).collect();
        let wanted: Vec<String> = (0..LINES).map(|n| n.to_string()).collect();
        assert_eq!(of_rank, wanted, "all lines of rank {rank}, in order");
    }
    assert_eq!(seen.len(), 3 * LINES);
    assert_eq!(pods.broker(2), broker, "the same process");
    assert_eq!(pods.status(0).unwrap().online, 3);
}

#[test]
fn a_broker_paused_for_too_long_is_lost_and_comes_back_as_another() {
    let plan = Plan { haste: 20, ..Plan::new(3) };
    let mut pods = plan.start();
    pods.wait_running();
    let broker = pods.broker(2);
    signal(broker, SIGSTOP);
    pods.wait_status("a lost rank", |status| status.online == 2);
    signal(broker, SIGCONT);
    // It finds out that the cluster went on without it, and leaves.
    let code = pods.wait_exit(2);
    assert_eq!((code, pods.report(2).reason), (68, Reason::Orphaned));
    pods.start(2);
    pods.wait_running();
}

#[test]
fn workers_cut_off_from_the_launcher_stop_and_leave() {
    let plan = Plan { haste: 15, ..Plan::new(3) };
    let mut pods = plan.start();
    pods.wait_running();
    pods.kill_pod(0);
    for rank in 1..3 {
        assert_eq!(pods.wait_exit(rank), 68, "self-fenced after the orphan timeout");
        let report = pods.report(rank);
        assert_eq!(report.reason, Reason::Orphaned);
        assert!(report.message.contains("cut off"), "{report:?}");
    }
}
