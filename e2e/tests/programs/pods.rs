//! Pods that are many, or unlike others: users, shared memory, images by group, exit codes.

use crate::{LAB, beside_others, columns, ranks_by_pod, ranks_per_pod, succeeded};

const IMAGE: &str = "image: localhost/mpi-debian:v1";

#[test]
fn sixty_four_pods_are_one_world() {
    let _nodes = beside_others();
    let name = "many";
    let program = "program: {parallel: {command: [/opt/tests/mpich/hello, '64'], tasks: 64}}";
    // So many brokers on a few CPUs may be silent for longer than one whose node is lost.
    let patient = "bootstrap: {orphanTimeoutSeconds: 120}";
    LAB.minicluster(name, &format!("size: 64\nslots: 1\n{IMAGE}\n{patient}\n{program}"));
    let output = succeeded(name, 64);
    let by_pod = ranks_by_pod(&output);
    assert_eq!(by_pod.len(), 64, "{output}");
    assert_eq!(by_pod["many-worker-0-62"], [63], "{output}");
    LAB.kubectl(&["delete", "mc", name, "--wait=false"]).unwrap();
}

#[test]
fn groups_with_images_and_slots_of_their_own_share_ranks_in_order() {
    let _nodes = beside_others();
    let name = "mixed";
    let groups = "launcher: {slots: 0}
groups:
- {name: deb, size: 2, slots: 2}
- name: box
  size: 3
  slots: 1
  template: {spec: {containers: [{name: main, image: 'localhost/busybox:v1'}]}}";
    // Both have a shell; only one of them is Debian.
    let script = "test -e /etc/os-release && os=debian || os=busybox; \
                  echo $QUORATE_TASK_RANK/$QUORATE_TASK_COUNT $os $(hostname)";
    let program = format!("program: {{parallel: {{command: [sh, -c, '{script}']}}}}");
    LAB.minicluster(name, &format!("{IMAGE}\n{groups}\n{program}"));
    let output = succeeded(name, 6);
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    let expected = [
        "0/7 debian mixed-deb-0-0",
        "1/7 debian mixed-deb-0-0",
        "2/7 debian mixed-deb-0-1",
        "3/7 debian mixed-deb-0-1",
        "4/7 busybox mixed-box-0-0",
        "5/7 busybox mixed-box-0-1",
        "6/7 busybox mixed-box-0-2",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn mpi_runs_as_any_user_with_shared_memory_for_its_slots() {
    let _nodes = beside_others();
    let name = "user";
    // 128 MiB and 64 for each of the three slots, in blocks of 4 KiB.
    let script = "[ $(id -u) = 4711 ] && [ $(id -g) = 815 ] || exit 3; \
                  [ $(stat -f -c %b /dev/shm) = 81920 ] && [ $(stat -f -c %S /dev/shm) = 4096 ] || exit 4; \
                  exec /opt/tests/openmpi/hello 2";
    let template = "template:
  spec:
    securityContext: {runAsUser: 4711, runAsGroup: 815, runAsNonRoot: true}
    containers: [{name: main, image: 'localhost/mpi-debian:v1'}]";
    let program = format!("program: {{parallel: {{command: [bash, -c, '{script}'], tasks: 6}}}}");
    LAB.minicluster(name, &format!("size: 2\nslots: 3\n{template}\n{program}"));
    let output = succeeded(name, 2);
    let expected = [("user-launcher-0-0", 3), ("user-worker-0-0", 3)];
    assert_eq!(ranks_per_pod(&output), expected, "{output}");
}

#[test]
fn a_time_limit_is_that_of_the_whole_run() {
    let _nodes = beside_others();
    let name = "limited";
    // Each attempt is well within the limit; all of them would never end.
    let program = "program: {command: [sh, -c, sleep 8; exit 3]}";
    let policy = "failurePolicy: {maxRestarts: 1000}\nactiveDeadlineSeconds: 25";
    LAB.minicluster(name, &format!("{IMAGE}\n{policy}\n{program}"));
    let object = LAB.state(name, "Failed");
    let status = &object["status"];
    assert_eq!(status["reason"], "DeadlineExceeded", "{status}");
    assert!(status["attempt"].as_u64().unwrap() >= 1, "{status}");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("the time limit of 25 s was over"), "{message}");
}

#[test]
fn exit_codes_and_signals_are_those_of_the_program() {
    let _nodes = beside_others();
    let cases = [
        ("code", "program: {command: [sh, -c, exit 42]}", 42),
        ("kill", "program: {command: [sh, -c, kill -SEGV $$]}", 139),
        ("rank", "program: {parallel: {command: [/opt/tests/mpich/segv], tasks: 4}}", 139),
    ];
    for (name, program, _) in cases {
        LAB.minicluster(name, &format!("size: 2\nslots: 2\n{IMAGE}\n{program}"));
    }
    for (name, _, code) in cases {
        let object = LAB.state(name, "Failed");
        assert_eq!(object["status"]["exitCode"], code, "{name}: {object}");
        columns(name, 2, "Failed");
    }
}

#[test]
fn a_job_of_a_stranger_with_the_name_of_a_child_is_named() {
    let _nodes = beside_others();
    let name = "foreign";
    LAB.create(&format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}-worker-0}}\nspec:\n  suspend: true\n  template:\n    spec:\n      restartPolicy: Never\n      containers: [{{name: main, image: 'localhost/busybox:v1'}}]"
    ))
    .unwrap();
    LAB.minicluster(name, &format!("size: 2\n{IMAGE}"));
    let object = LAB.until(name, "explained", |object| {
        let message = object["status"]["message"].as_str().unwrap_or_default();
        object["status"]["reason"] == "JobsRefused"
            && message.contains("foreign-worker-0")
            && message.contains("already exists")
    });
    assert_eq!(object["status"]["state"], "Pending", "{object}");
    let job = LAB.get("job", "foreign-worker-0").unwrap();
    assert!(job["metadata"]["ownerReferences"].is_null(), "{job}");
    LAB.kubectl(&["delete", "mc", name, "--wait=false"]).unwrap();
}
