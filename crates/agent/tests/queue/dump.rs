//! A whole queue in one file.

use crate::asking::{ended, job, states, submit, submit_all, wait_started};
use crate::typing::{Marks, cluster, code, run, stderr, stdout};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_queue_is_dumped_and_restored_elsewhere() {
    let marks = Marks::new();
    let file = marks.path("queue.dump").display().to_string();
    {
        let pods = cluster(2);
        let over = submit(&pods, 0, &["sh", "-c", "exit 6"]);
        assert_eq!(ended(&pods, over), 6);
        let fails = submit(&pods, 0, &["-n2", "sleep", "1000"]);
        let again = submit(&pods, 0, &["-n2", "--requeue", "true"]);
        assert_eq!(ended(&pods, again), 0);
        let again = submit(&pods, 0, &["-n2", "--requeue", "sleep", "1000"]);
        submit_all(&pods, 1, &["--urgency", "0", "--cc", "1-3", "sh", "-c", "exit {cc}"]);
        assert_eq!(code(&run(&pods, 0, &["queue", "stop", "-r", "moving"])), 0);
        wait_started(&pods, fails);
        wait_started(&pods, again);
        let output = run(&pods, 1, &["queue", "dump", &file]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        // To standard output it is the same.
        let output = run(&pods, 0, &["queue", "dump", "-"]);
        assert_eq!(output.stdout, fs::read(&file).unwrap());
        let output = run(&pods, 1, &["queue", "restore", &file]);
        assert_eq!(code(&output), 1);
        let said = stderr(&output);
        assert!(said.contains("has jobs already (7)") && said.contains("`purge`"), "{said}");
        let output = run(&pods, 1, &["queue", "dump", "/no/such/dir/file"]);
        assert!(code(&output) != 0 && stderr(&output).contains("/no/such/dir/file"));
    }
    // Another cluster, with fewer brokers.
    let pods = cluster(1);
    let text = fs::read(&file).unwrap();
    let cut = marks.path("cut").display().to_string();
    fs::write(&cut, &text[..text.len() - 20]).unwrap();
    let output = run(&pods, 0, &["queue", "restore", &cut]);
    assert!(code(&output) == 1 && stderr(&output).contains("its end is missing"));
    let output = run(&pods, 0, &["queue", "restore", &file]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stdout(&output), "7 jobs are restored; the next number is 8\n");
    let said = stderr(&output);
    assert!(said.contains("have failed: 2\n") && said.contains("begin again: 4\n"), "{said}");
    let wanted = ["failed", "failed", "completed", "SCHED", "PRIORITY", "PRIORITY", "PRIORITY"];
    assert_eq!(states(&pods), wanted);
    assert_eq!(job(&pods, 4)["why"], "queue default is stopped: moving");
    assert_eq!((ended(&pods, 1), ended(&pods, 2)), (6, 69));
    assert_eq!(code(&run(&pods, 0, &["cancel", "4"])), 0);
    assert_eq!(code(&run(&pods, 0, &["queue", "start"])), 0);
    assert_eq!(code(&run(&pods, 0, &["release", "5-7"])), 0);
    assert_eq!((ended(&pods, 5), ended(&pods, 7)), (1, 3));
    assert_eq!(submit(&pods, 0, &["true"]), 8);
    assert_eq!((ended(&pods, 6), ended(&pods, 8)), (2, 0));
    // It is as durable as any other.
    crate::durability::restart(&pods);
    assert_eq!((ended(&pods, 6), ended(&pods, 8)), (2, 0));
}
