//! A launcher's broker that dies while jobs run elsewhere: they go on, once, with all that they say.

use crate::asking::{ended, job, states, submit, submit_batch, wait_for, wait_started};
use crate::durability::restart;
use crate::pods::{Pods, signal};
use crate::typing::{Marks, cluster, code, run, stderr, stdout, typed, wait, wait_gone};
use std::collections::BTreeSet;
use std::fs;

/// The names of what happened to a job.
fn events(pods: &Pods, id: u64) -> Vec<String> {
    let text = stdout(&run(pods, 0, &["events", &id.to_string()]));
    text.lines().map(|line| line.split_whitespace().nth(1).unwrap().to_owned()).collect()
}

/// Waits until a job is led again, for the so-manieth time.
fn wait_led_again(pods: &Pods, id: u64, times: usize) {
    wait(&format!("job {id} to be led again"), || {
        let again = events(pods, id).iter().filter(|name| *name == "reattach").count();
        (again == times).then_some(())
    });
}

/// Words that ask for brokers other than the launcher's.
const ELSEWHERE: &str = "--requires=-rank:0";

#[test]
fn a_running_job_goes_on_and_no_line_is_lost_or_doubled() {
    let pods = cluster(3);
    let marks = Marks::new();
    let (gate, out) = (marks.path("gate"), marks.path("out"));
    let script = format!(
        "{} echo start >> {}; i=0; while ! test -e {}; do i=$((i+1)); \
         echo $QUORATE_TASK_RANK-$i; echo e$QUORATE_TASK_RANK-$i >&2; sleep 0.005; done; \
         echo $QUORATE_TASK_RANK-last-$i; exit $((3 + QUORATE_TASK_RANK))",
        marks.leave("task$QUORATE_TASK_RANK"),
        marks.path("starts").display(),
        gate.display(),
    );
    let out_word = out.display().to_string();
    let to_file = ["-N2", ELSEWHERE, "--output", &out_word, "sh", "-c", &script];
    let filed = submit(&pods, 1, &to_file);
    let kept = submit(&pods, 1, &["-N2", ELSEWHERE, "sh", "-c", &script]);
    let waiting = submit(&pods, 1, &["-N3", "-x", "true"]);
    for (round, id) in [(1, filed), (2, filed)] {
        wait("some output", || {
            fs::read_to_string(&out).ok().filter(|text| text.lines().count() > 100 * round)
        });
        restart(&pods);
        wait_led_again(&pods, id, round);
        wait_led_again(&pods, kept, round);
        assert_eq!(job(&pods, id)["state"], "RUN");
    }
    let listener = typed(&pods, 2, &["attach", &kept.to_string()]).spawn().unwrap();
    fs::write(&gate, "").unwrap();
    assert_eq!((ended(&pods, filed), ended(&pods, kept)), (4, 4));
    assert_eq!(fs::read_to_string(marks.path("starts")).unwrap().lines().count(), 4);
    let listener = listener.wait_with_output().unwrap();
    assert_eq!(code(&listener), 4);
    let heard = stdout(&listener) + &stderr(&listener);
    for text in [fs::read_to_string(&out).unwrap(), heard] {
        for rank in ["0", "1"] {
            let last = format!("{rank}-last-");
            let count: usize =
                text.lines().find_map(|line| line.strip_prefix(&last)?.parse().ok()).unwrap();
            for head in [format!("{rank}-"), format!("e{rank}-")] {
                let numbers = text.lines().filter_map(|line| line.strip_prefix(&head));
                let numbers: Vec<usize> = numbers.filter_map(|n| n.parse().ok()).collect();
                assert!(numbers.iter().copied().eq(1..=count), "{head}: {numbers:?} of {count}");
            }
        }
    }
    assert_eq!(ended(&pods, waiting), 0);
    assert_eq!(states(&pods), ["failed", "failed", "completed"]);
}

#[test]
fn a_job_that_ended_while_nobody_listened_is_recorded_with_its_code() {
    let pods = cluster(2);
    let marks = Marks::new();
    let gate = marks.path("gate").display().to_string();
    let script = format!(
        "{} while ! test -e {gate}; do sleep 0.02; done; echo said; exit 7",
        marks.leave("task")
    );
    let id = submit(&pods, 1, &[ELSEWHERE, "sh", "-c", &script]);
    let pid = marks.pid("task");
    let broker = pods.broker(0);
    signal(broker, 19);
    fs::write(&gate, "").unwrap();
    wait_gone(pid);
    signal(broker, 9);
    wait("the next broker", || (pods.broker(0) != broker).then_some(()));
    pods.wait_running();
    assert_eq!(ended(&pods, id), 7);
    assert_eq!(job(&pods, id)["requeues"], 0);
    let output = run(&pods, 0, &["attach", &id.to_string()]);
    assert_eq!((code(&output), stdout(&output).as_str()), (7, "said\n"));
}

#[test]
fn what_is_led_again_is_cancelled_signalled_and_ended_by_its_limit() {
    let pods = cluster(3);
    let marks = Marks::new();
    let sleeps = |name: &str| format!("{} while :; do sleep 0.05; done", marks.leave(name));
    let here = |name: &str, words: &[&str]| {
        submit(&pods, 0, &[&[ELSEWHERE], words, &["sh", "-c", &sleeps(name)]].concat())
    };
    let cancelled = here("cancelled", &[]);
    let limited = here("limited", &["-t", "1h"]);
    let trap = format!("trap 'exit 9' USR1; {}", sleeps("signalled"));
    let signalled = submit(&pods, 0, &[ELSEWHERE, "sh", "-c", &trap]);
    let waited = typed(&pods, 1, &["wait", &cancelled.to_string()]).spawn().unwrap();
    let pids = ["cancelled", "limited", "signalled"].map(|name| marks.pid(name));
    restart(&pods);
    for id in [cancelled, limited, signalled] {
        wait_led_again(&pods, id, 1);
    }
    drop(waited.wait_with_output());
    assert_eq!(code(&run(&pods, 1, &["kill", "-s", "USR1", &signalled.to_string()])), 0);
    assert_eq!(ended(&pods, signalled), 9);
    assert_eq!(code(&run(&pods, 1, &["cancel", &cancelled.to_string()])), 0);
    assert_eq!(ended(&pods, cancelled), 143);
    assert_eq!(code(&run(&pods, 1, &["update", "-t", "1s", &limited.to_string()])), 0);
    assert_eq!(ended(&pods, limited), 142);
    pids.into_iter().for_each(wait_gone);
    let all = submit(&pods, 0, &["-n6", "true"]);
    assert_eq!(ended(&pods, all), 0);
}

#[test]
fn a_batch_script_goes_on_with_the_jobs_of_its_own() {
    let pods = cluster(3);
    let marks = Marks::new();
    let gate = marks.path("gate").display().to_string();
    let script = format!(
        "#!/bin/sh\n{agent} run -n2 sh -c 'echo inner-$QUORATE_TASK_RANK'\n{} \
         while ! test -e {gate}; do sleep 0.02; done\n{agent} run -n2 true || exit 3\nexit 5\n",
        marks.leave("script"),
        agent = crate::pods::AGENT,
    );
    let file = marks.path("job.sh");
    fs::write(&file, script).unwrap();
    let id = submit_batch(&pods, &["-N2", ELSEWHERE, file.to_str().unwrap()]);
    marks.pid("script");
    restart(&pods);
    wait_led_again(&pods, id, 1);
    wait("the instance to be found", || {
        let tree = stdout(&run(&pods, 0, &["tree"]));
        tree.contains(&format!(" {id} ")).then_some(())
    });
    fs::write(&gate, "").unwrap();
    assert_eq!(ended(&pods, id), 5);
}

#[test]
fn input_from_a_file_goes_on_where_it_was() {
    let pods = cluster(2);
    let marks = Marks::new();
    // More than is under way at once, so that some is left to read by the next leader.
    let lines: Vec<String> = (0..300_000).map(|line: u32| line.to_string()).collect();
    let lines = lines.join("\n") + "\n";
    fs::write(marks.path("in"), &lines).unwrap();
    let gate = marks.path("gate").display().to_string();
    let script = format!(
        "read first; {} while ! test -e {gate}; do sleep 0.02; done; echo $first; cat",
        marks.leave("task")
    );
    let (input, out) = (marks.path("in"), marks.path("out"));
    let words = ["--input", input.to_str().unwrap(), "--output", out.to_str().unwrap()];
    let words = [&[ELSEWHERE], &words[..], &["sh", "-c", &script]].concat();
    let id = submit(&pods, 1, &words);
    marks.pid("task");
    restart(&pods);
    wait_led_again(&pods, id, 1);
    fs::write(&gate, "").unwrap();
    assert_eq!(ended(&pods, id), 0);
    assert_eq!(fs::read_to_string(&out).unwrap(), lines);
}

#[test]
fn what_was_on_the_lost_broker_or_is_a_client_s_own_ends_once() {
    let pods = cluster(2);
    let marks = Marks::new();
    let sleeps = |name: &str| format!("{} exec sleep 1000", marks.leave(name));
    // It leaves one slot free, on the worker.
    let words = ["-N2", "-n3", "sh", "-c", &sleeps("mixed$QUORATE_TASK_RANK")];
    let mixed = submit(&pods, 1, &words);
    let names = ["mixed0", "mixed1", "mixed2"];
    let mut pids: BTreeSet<i32> = names.iter().map(|name| marks.pid(name)).collect();
    let client = typed(&pods, 1, &["run", "sh", "-c", &sleeps("own")]).spawn().unwrap();
    pids.insert(marks.pid("own"));
    restart(&pods);
    assert_eq!(ended(&pods, mixed), 69);
    pids.into_iter().for_each(wait_gone);
    assert_ne!(code(&client.wait_with_output().unwrap()), 0);
    wait_for(&pods, mixed + 1, "failed");
    assert!(events(&pods, mixed).iter().all(|name| name != "reattach"));
    let all = submit(&pods, 1, &["-n4", "true"]);
    assert_eq!(ended(&pods, all), 0);
    wait_started(&pods, all);
}
