//! What is started where, what it sees, and what its end means.

use crate::typing::{Marks, cluster, code, run, sorted, stderr, stdout, typed, wait_gone};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

const WHERE: &str = "echo $QUORATE_TASK_RANK of $QUORATE_TASK_COUNT on $QUORATE_BROKER_RANK";

#[test]
fn ranks_are_placed_as_asked_from_any_pod() {
    let pods = cluster(3);
    for from in 0..3 {
        let output = run(&pods, from, &["run", "-n3", "sh", "-c", WHERE]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert_eq!(sorted(&output), ["0 of 3 on 0", "1 of 3 on 0", "2 of 3 on 1"]);
    }
    let output = run(&pods, 1, &["run", "-N3", "-l", "sh", "-c", WHERE]);
    assert_eq!(sorted(&output), ["0: 0 of 3 on 0", "1: 1 of 3 on 1", "2: 2 of 3 on 2"]);
    let output = run(&pods, 0, &["run", "-N2", "-n4", "-m", "cyclic", "sh", "-c", WHERE]);
    assert_eq!(sorted(&output), ["0 of 4 on 0", "1 of 4 on 1", "2 of 4 on 0", "3 of 4 on 1"]);
    let output = run(&pods, 0, &["exec", "-r", "1-2", "sh", "-c", "echo $QUORATE_BROKER_RANK"]);
    assert_eq!(sorted(&output), ["1: 1", "2: 2"]);
}

#[test]
fn options_after_the_command_are_the_commands() {
    let pods = cluster(1);
    let output = run(&pods, 0, &["run", "echo", "-n", "-N4", "--mpi=none", "x"]);
    assert_eq!(stdout(&output), "-N4 --mpi=none x");
    let output = run(&pods, 0, &["run", "-n", "1", "--", "echo", "--", "y"]);
    assert_eq!(stdout(&output), "-- y\n");
}

#[test]
fn requests_that_do_not_fit_are_refused_with_the_way_out() {
    let pods = cluster(2);
    for (words, expected, want) in [
        (&["run", "-n5", "true"][..], 1, "--oversubscribe"),
        (&["run", "-N3", "-n3", "true"], 1, "it asks for 3 nodes, and there are 2"),
        (&["run", "-N2", "-n1", "true"], 2, "every node needs a task"),
        (&["run", "--direct", "-n5", "true"], 1, "--oversubscribe"),
        (&["run", "--direct", "-N3", "true"], 1, "the connected brokers that take tasks are 2"),
        (&["run", "--direct", "-N2", "-n1", "true"], 1, "ask for fewer nodes"),
        (&["exec", "-r", "7", "true"], 1, "rank 7"),
    ] {
        let output = run(&pods, 0, words);
        assert_eq!(code(&output), expected, "{words:?}");
        assert!(stderr(&output).contains(want), "{}", stderr(&output));
    }
    let output = run(&pods, 0, &["run", "-n5", "-O", "true"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(code(&run(&pods, 0, &["run", "--mpi=pmi9", "true"])), 2);
}

#[test]
fn codes_signals_and_their_ranks() {
    let pods = cluster(2);
    let script = "exit $((QUORATE_TASK_RANK * 3))";
    let output = run(&pods, 0, &["run", "-N2", "-n4", "sh", "-c", script]);
    assert_eq!(code(&output), 9, "{}", stderr(&output));
    let script = "test $QUORATE_TASK_RANK = 3 && kill -SEGV $$; sleep 1000";
    let output = run(&pods, 0, &["run", "-N2", "-n4", "sh", "-c", script]);
    assert_eq!(code(&output), 139);
    let said = stderr(&output);
    assert!(said.contains("rank 3 on worker-0-0 was ended by signal 11"), "{said}");
    assert!(said.contains("the other 3 ranks were stopped"), "{said}");
}

#[test]
fn commands_that_cannot_start_name_the_pod() {
    let pods = cluster(2);
    let output = run(&pods, 0, &["run", "-N2", "no-such-command"]);
    assert_eq!(code(&output), 127);
    assert!(stderr(&output).contains("no command no-such-command"), "{}", stderr(&output));
    let output = run(&pods, 0, &["exec", "-r", "1", "no-such-command"]);
    assert_eq!(code(&output), 127);
    assert!(stderr(&output).contains("worker-0-0"), "{}", stderr(&output));
    let marks = Marks::new();
    let file = marks.path("file");
    fs::write(&file, "text").unwrap();
    for mode in [0o644, 0o755] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let output = run(&pods, 0, &["run", file.to_str().unwrap()]);
        assert_eq!(code(&output), 126, "{}", stderr(&output));
        assert!(stderr(&output).contains("launcher-0-0"), "{}", stderr(&output));
    }
    let output = run(&pods, 0, &["run", "--cwd", "/no/such/directory", "pwd"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("/no/such/directory"), "{}", stderr(&output));
}

#[test]
fn the_users_changes_travel_and_launch_variables_do_not() {
    let pods = cluster(2);
    let show = "echo $COLOUR ${HOME-none} ${PMI_FD:+fd} ${LEFT-none} $OMPI_COMM_WORLD_SIZE";
    let words = ["run", "-N2", "--env=-HOME", "--env", "LEFT=a b", "sh", "-c", show];
    let mut typed = typed(&pods, 1, &words);
    typed.env("COLOUR", "blue").env("PMI_FD", "99").env("OMPI_COMM_WORLD_SIZE", "77");
    let output = typed.output().unwrap();
    assert_eq!(stdout(&output), "blue none fd a b 2\nblue none fd a b 2\n");
    // Without MPI there is no trace of it, not even of the typist's own.
    let mut command = crate::typing::typed(
        &pods,
        0,
        &["run", "--mpi=none", "sh", "-c", "echo ${PMI_FD-none} ${PMIX_RANK-none}"],
    );
    let output = command.env("PMI_FD", "99").output().unwrap();
    assert_eq!(stdout(&output), "none none\n");
}

#[test]
fn a_task_with_cpus_of_its_own_is_bound_to_them() {
    let pods = cluster(2);
    let show = "grep Cpus_allowed_list /proc/self/status";
    let output = run(&pods, 0, &["run", "-c1", "sh", "-c", show]);
    let list = stdout(&output);
    let list = list.trim().strip_prefix("Cpus_allowed_list:\t").unwrap();
    assert!(list.parse::<u32>().is_ok(), "{list}");
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let output = run(&pods, 0, &["run", "-c1", "--cpu-bind=none", "sh", "-c", show]);
    assert!(own.contains(stdout(&output).trim()), "{}", stdout(&output));
}

#[test]
fn one_dying_rank_ends_the_rest_even_those_that_ignore_sigterm() {
    let pods = cluster(2);
    let marks = Marks::new();
    let script = format!(
        "trap '' TERM; {} test $QUORATE_TASK_RANK = 0 && exit 3; while :; do sleep 0.1; done",
        marks.leave("rank$QUORATE_TASK_RANK")
    );
    let start = Instant::now();
    let output = run(&pods, 0, &["run", "-N2", "sh", "-c", &script]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    // Killed after three seconds; given up it would be after fifteen more.
    assert!(start.elapsed() < Duration::from_secs(15));
    wait_gone(marks.pid("rank1"));
}

#[test]
fn no_kill_lets_the_others_end() {
    let pods = cluster(2);
    let script = "test $QUORATE_TASK_RANK = 0 && exit 3; sleep 0.5; echo done";
    let output = run(&pods, 0, &["run", "--no-kill", "-N2", "sh", "-c", script]);
    assert_eq!((code(&output), stdout(&output).as_str()), (3, "done\n"));
}

#[test]
fn a_background_process_does_not_hold_up_the_end() {
    let pods = cluster(1);
    let start = Instant::now();
    // It left the group, and holds the pipe.
    let output = run(&pods, 0, &["run", "sh", "-c", "setsid sleep 60 & echo out"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "out\n"));
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn many_jobs_at_once_keep_apart() {
    let pods = cluster(2);
    let jobs: Vec<_> = (0..8)
        .map(|n| {
            let script = format!("echo {n}; exit {n}");
            typed(&pods, n % 2, &["run", "-N2", "sh", "-c", &script]).spawn().unwrap()
        })
        .collect();
    for (n, job) in jobs.into_iter().enumerate() {
        let output = job.wait_with_output().unwrap();
        assert_eq!(code(&output), i32::try_from(n).unwrap(), "{}", stderr(&output));
        assert_eq!(stdout(&output), format!("{n}\n{n}\n"));
    }
}

#[test]
fn hosts_of_every_family() {
    let pods = cluster(2);
    let output = run(&pods, 1, &["hosts"]);
    assert_eq!(stdout(&output), "t-launcher-0-0 slots=2\nt-worker-0-0 slots=2\n");
    let output = run(&pods, 0, &["hosts", "--flavor", "mpich"]);
    assert_eq!(stdout(&output), "t-launcher-0-0:2\nt-worker-0-0:2\n");
}
