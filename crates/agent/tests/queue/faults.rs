//! Programs that misbehave, and a queue that cannot keep its log.

use crate::asking::{ended, job, submit, wait_started};
use crate::pods::signal;
use crate::typing::{Marks, cluster, code, run, stderr, stdout, wait, wait_gone};
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn a_daemon_that_keeps_the_output_open_does_not_keep_its_job() {
    let pods = cluster(1);
    let marks = Marks::new();
    let daemon = format!("setsid sh -c '{} exec sleep 1000' &", marks.leave("daemon"));
    let there = marks.path("daemon").display().to_string();
    let script = format!("{daemon} while ! test -e {there}; do sleep 0.01; done; exit 3");
    let began = Instant::now();
    let id = submit(&pods, 0, &["sh", "-c", &script]);
    assert_eq!(ended(&pods, id), 3);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    // A job that did not end well leaves nothing behind.
    wait_gone(marks.pid("daemon"));
    let all = submit(&pods, 0, &["-n2", "true"]);
    assert_eq!(ended(&pods, all), 0);
}

#[test]
fn a_daemon_is_gone_when_its_job_was_cancelled() {
    let pods = cluster(1);
    let marks = Marks::new();
    let daemon = format!("setsid sh -c '{} exec sleep 1000' &", marks.leave("daemon"));
    let script = format!("{daemon} {} exec sleep 1000", marks.leave("task"));
    let id = submit(&pods, 0, &["sh", "-c", &script]);
    let pids = [marks.pid("daemon"), marks.pid("task")];
    assert_eq!(code(&run(&pods, 0, &["cancel", &id.to_string()])), 0);
    assert_eq!(ended(&pods, id), 143);
    pids.into_iter().for_each(wait_gone);
}

#[test]
fn a_program_that_closes_its_output_ends_when_it_ends() {
    let pods = cluster(1);
    let script = "echo before; exec >&- 2>&-; sleep 0.3; exit 3";
    let id = submit(&pods, 0, &["sh", "-c", script]);
    assert_eq!(ended(&pods, id), 3);
    let output = run(&pods, 0, &["attach", &id.to_string()]);
    assert_eq!((code(&output), stdout(&output).as_str()), (3, "before\n"));
}

#[test]
fn a_flood_of_output_nobody_reads_is_bounded_and_holds_nobody_up() {
    let pods = cluster(1);
    let id = submit(&pods, 0, &["head", "-c", "128M", "/dev/zero"]);
    assert_eq!(ended(&pods, id), 0);
    let spool = pods.dir(0).join("queue/output").join(id.to_string());
    let kept = fs::metadata(spool).unwrap().len();
    assert!(kept > 31 << 20 && kept <= (32 << 20) + 4096, "{kept} bytes are kept");
    let output = run(&pods, 0, &["attach", &id.to_string()]);
    assert_eq!(code(&output), 0);
    assert!(output.stdout.len() > 31 << 20 && output.stdout.iter().all(|byte| *byte == 0));
    assert!(stderr(&output).contains("not kept"), "{}", stderr(&output));
}

#[test]
fn a_queue_whose_log_cannot_be_opened_refuses_jobs_with_the_reason_and_says_so_in_the_status() {
    let pods = cluster(1);
    let id = submit(&pods, 0, &["true"]);
    assert_eq!(ended(&pods, id), 0);
    let (broker, supervisor) = (pods.broker(0), pods.supervisor(0));
    // While nobody is there the log's directory becomes a file.
    signal(supervisor, 19);
    signal(broker, 9);
    let (queue, aside) = (pods.dir(0).join("queue"), pods.dir(0).join("aside"));
    fs::rename(&queue, &aside).unwrap();
    fs::write(&queue, "").unwrap();
    signal(supervisor, 18);
    wait("the next broker", || (pods.broker(0) != broker).then_some(()));
    pods.wait_status("told of the trouble", |status| {
        let trouble = status.queue_trouble.as_deref().unwrap_or_default();
        trouble.contains("cannot be opened") && trouble.contains("/queue")
    });
    let output = run(&pods, 0, &["submit", "true"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("/queue"), "{}", stderr(&output));
    // Once it is there again, the next broker goes on.
    fs::remove_file(&queue).unwrap();
    fs::rename(&aside, &queue).unwrap();
    crate::durability::restart(&pods);
    pods.wait_status("without trouble", |status| status.queue_trouble.is_none());
    assert_eq!(job(&pods, id)["standing"], "completed");
    let next = submit(&pods, 0, &["true"]);
    wait_started(&pods, next);
    assert_eq!((next, ended(&pods, next)), (id + 1, 0));
}

/// Says hello by PMI-1 as a rank of MPI does, leaves shared memory as MPI's and a file of its own, and
/// fails.
const LEAVES_SHARED_MEMORY: &str = r#"
import os, socket, sys
s = socket.socket(fileno=int(os.environ["PMI_FD"]))
s.sendall(b"cmd=init pmi_version=1 pmi_subversion=1\n")
assert b"rc=0" in s.recv(4096)
for path in sys.argv[1:]:
    open(path, "w").write("x" * 4096)
sys.exit(3)
"#;

#[test]
fn shared_memory_that_dead_ranks_left_goes_and_files_that_somebody_put_there_stay() {
    let pods = cluster(1);
    let own = std::process::id();
    let segment = format!("/dev/shm/vader_segment.quorate-test.0.{own}.0");
    let file = format!("/dev/shm/quorate-test-{own}");
    let id = submit(&pods, 0, &["python3", "-c", LEAVES_SHARED_MEMORY, &segment, &file]);
    assert_eq!(ended(&pods, id), 3);
    let left = (fs::exists(&segment).unwrap(), fs::exists(&file).unwrap());
    let _ = fs::remove_file(&file);
    assert_eq!(left, (false, true));
}

#[test]
fn an_environment_as_large_as_a_program_can_have_travels_whole() {
    let pods = cluster(2);
    // The longest string there is, and others up to a megabyte.
    let value = |name: &str| "v".repeat((128 << 10) - 1 - name.len() - 1);
    let names: Vec<String> = (0..8).map(|at| format!("LARGE_{at}")).collect();
    let script = "for n in 0 1 2 3 4 5 6 7; do eval \"echo \\${#LARGE_$n}\"; done";
    let mut command = crate::typing::typed(&pods, 1, &["submit", "sh", "-c", script]);
    command.envs(names.iter().map(|name| (name, value(name))));
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let id: u64 = stdout(&output).trim().parse().unwrap();
    assert_eq!(ended(&pods, id), 0);
    let output = run(&pods, 0, &["attach", &id.to_string()]);
    assert_eq!(stdout(&output), format!("{}\n", value("LARGE_0").len()).repeat(8));
}
