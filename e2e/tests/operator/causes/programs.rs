//! Programs that fail, each in its way. They are over: nothing mends them.

use super::{Case, IMAGE, explained};

fn command(words: &str) -> String {
    format!("{IMAGE}\nprogram: {{command: [{words}]}}")
}

/// Three ranks on three pods.
fn ranks(script: &str) -> String {
    format!(
        "size: 3\nslots: 1\n{IMAGE}\nprogram: {{parallel: {{command: [sh, -c, '{script}'], tasks: 3}}}}"
    )
}

#[test]
fn programs_that_fail_are_explained_by_rank_code_and_last_line() {
    explained(&[
        Case::new("why-127", command("/no/such/program"), "CommandNotFound")
            .says(&["the command on launcher-0-0 was not started: there is no command /no/such/program"])
            .and(|status| assert_eq!(status["exitCode"], 127)),
        Case::new(
            "why-127-ranks",
            format!("size: 2\nslots: 1\n{IMAGE}\nprogram: {{parallel: {{command: [no-such], tasks: 2}}}}"),
            "CommandNotFound",
        )
        .says(&["was not started: there is no command no-such; the other rank was stopped"])
        .and(|status| assert_eq!(status["exitCode"], 127)),
        Case::new("why-126", command("/etc/passwd"), "NotExecutable")
            .says(&["the command on launcher-0-0 was not started: /etc/passwd is not executable"])
            .and(|status| assert_eq!(status["exitCode"], 126)),
        Case::new(
            "why-code",
            ranks("echo about to fail; [ $QUORATE_TASK_RANK != 2 ] || exit 7; sleep 600"),
            "ProgramFailed",
        )
        .says(&[
            "rank 2 on worker-0-1 ended with code 7 after ",
            "; the other 2 ranks were stopped; last line of rank 2: about to fail",
        ])
        .and(|status| {
            let failure = &status["failure"];
            assert_eq!((&status["exitCode"], &failure["rank"]), (&7.into(), &2.into()));
            assert_eq!(failure["pod"], "worker-0-1");
            assert!(failure["node"].as_str().unwrap().starts_with('n'), "{status}");
        }),
        Case::new(
            "why-signal",
            ranks("echo reading mesh; [ $QUORATE_TASK_RANK != 1 ] || kill -SEGV $$; sleep 600"),
            "Signaled",
        )
        .says(&[
            "rank 1 on worker-0-0 was ended by signal 11 (segmentation fault) after ",
            "last line of rank 1: reading mesh",
        ])
        .and(|status| {
            let failure = &status["failure"];
            assert_eq!((&status["exitCode"], &failure["signal"]), (&139.into(), &11.into()));
        }),
        // Where the kernel kills the whole container, Kubernetes says so; else the agent does.
        Case::new(
            "why-memory-rank",
            format!(
                "size: 2\nslots: 1\n{IMAGE}\nresources: {{limits: {{memory: 64Mi}}}}\nprogram: {{parallel: \
                 {{command: [sh, -c, '[ $QUORATE_TASK_RANK = 0 ] || exec tail /dev/zero; sleep 600'], tasks: 2}}}}"
            ),
            "OutOfMemory",
        )
        .says(&["worker-0-0", "memory"])
        .and(|status| assert_eq!(status["failure"]["pod"], "worker-0-0")),
        Case::new(
            "why-misplaced",
            format!(
                "size: 3\nslots: 1\n{IMAGE}\nprogram: {{command: [mpirun, --oversubscribe, --host, \
                 'localhost:3', -np, '3', /opt/tests/openmpi/hello, '1']}}"
            ),
            "WrongPlacement",
        )
        .says(&["put all 3 ranks on its own pod, which has 1 slot, and none on the other 2 pods"])
        .and(|status| assert_eq!(status["exitCode"], 65)),
        Case::new(
            "why-infeasible",
            format!("size: 2\n{IMAGE}\nprogram: {{parallel: {{command: ['true'], tasks: 4096}}}}"),
            "Infeasible",
        )
        .says(&["4096 tasks of 1 CPU cannot be placed: 2 brokers"]),
        Case::new(
            "why-deadline",
            format!("activeDeadlineSeconds: 4\n{}", command("sleep, '600'")),
            "DeadlineExceeded",
        )
        .says(&["the time limit of 4 s was over (activeDeadlineSeconds)"]),
        Case::new(
            "why-restarts",
            format!("failurePolicy: {{maxRestarts: 1}}\n{}", command("sh, -c, exit 4")),
            "RestartsExhausted",
        )
        .says(&["the command on launcher-0-0 ended with code 4", "in attempt 1, and 1 restart is used up"])
        .and(|status| assert_eq!((&status["exitCode"], &status["attempt"]), (&4.into(), &1.into()))),
        Case::new(
            "why-probe",
            format!(
                "{IMAGE}\ntemplate: {{spec: {{containers: [{{name: main, livenessProbe: {{exec: {{command: \
                 [sh, -c, 'echo no heartbeat; exit 1']}}, periodSeconds: 1, failureThreshold: 2}}}}]}}}}"
            ),
            "ProbeFailed",
        )
        .says(&["the kubelet ended launcher-0-0 on n", "because its liveness probe failed: no heartbeat"]),
    ]);
}
