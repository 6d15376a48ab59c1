//! Clusters that stay, several at once, and the verbs that talk to them.

use super::stage::{STAY, Stage, finish, until};
use std::fs;

fn keep(stage: &Stage, name: &str) {
    let file = stage.file(
        &format!("{name}.yaml"),
        &format!(
            "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata: {{name: {name}}}\n\
             spec: {{size: 2}}\n"
        ),
    );
    let launcher = format!("echo up; {STAY}");
    let ran = stage.run(&["run", "--keep", file.to_str().unwrap()], &launcher, STAY);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.ends_with(&format!(
            "{name} stays up: `quorate shell {name}` enters it, `quorate delete {name}` ends it\n"
        )),
        "{}",
        ran.err
    );
}

fn say(stage: &Stage, args: &[&str]) -> String {
    let ran = stage.run(args, "", "");
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    ran.out
}

fn life(stage: &Stage) {
    keep(stage, "tools");
    assert_eq!(say(stage, &["ls", "-o", "name"]), "tools\n");
    let table = say(stage, &["ls"]);
    let (heading, row) = table.split_once('\n').unwrap();
    assert_eq!(
        heading.split_whitespace().collect::<Vec<_>>(),
        ["NAME", "SIZE", "RUNNING", "STATE", "JOBS", "AGE"]
    );
    assert_eq!(row.split_whitespace().take(4).collect::<Vec<_>>(), ["tools", "2", "2", "Ready"]);
    assert!(
        say(stage, &["ls", "-o", "wide"]).contains("launcher-0-0=10.244.0.2,worker-0-0=10.244.0.3")
    );
    assert!(say(stage, &["ls", "-o", "yaml"]).contains("name: tools"));

    // In the pod: its name, its processes, its user, its environment.
    let facts = "echo $(hostname) $(cat /proc/1/comm) $(id -u) $QUORATE_GROUP";
    let uid = say(stage, &["exec", "tools", "--", "id", "-u"]);
    let uid = uid.trim();
    assert_eq!(
        say(stage, &["exec", "tools", "--", "sh", "-c", facts]),
        format!("tools-launcher-0-0 quorate-agent {uid} launcher\n")
    );
    for target in ["worker-0-0", "tools/worker-0-0", "tools-worker-0-0"] {
        assert_eq!(
            say(stage, &["exec", target, "--", "sh", "-c", facts]),
            format!("tools-worker-0-0 quorate-agent {uid} worker\n")
        );
    }
    let code = |args: &[&str]| stage.run(args, "", "").code;
    assert_eq!(code(&["exec", "tools", "--", "sh", "-c", "exit 7"]), 7);
    assert_eq!(code(&["exec", "tools", "--", "sh", "-c", "kill -9 $$"]), 137);
    assert_eq!(code(&["exec", "tools", "--", "/no/such/program"]), 127);
    assert_eq!(code(&["exec", "tools", "--", "/etc/passwd"]), 126);

    assert_eq!(code(&["wait", "tools", "--for", "quorate", "--timeout", "60"]), 0);
    assert_eq!(code(&["wait", "tools", "--timeout", "0"]), 124);
    let why = say(stage, &["why", "tools"]);
    assert_eq!(why, "tools is ready: it is up for people.\n  brokers   2/2, the quorum is 2\n");
    let status = say(stage, &["status", "tools"]);
    assert!(status.starts_with(why.trim_end()), "{status}");
    assert!(status.contains("1      worker-0-0     Running   10.244.0.3"), "{status}");
    assert!(say(stage, &["status", "-o", "json"]).contains("\"minSize\": 2"));

    assert_eq!(say(stage, &["logs", "tools/launcher-0-0"]), "up\n");
    assert_eq!(say(stage, &["logs", "tools"]), "launcher-0-0: up\n");
    let unknown = stage.run(&["exec", "worker-0-9", "--", "true"], "", "");
    assert_eq!(
        (unknown.code, unknown.err.as_str()),
        (
            2,
            "error: tools has no running pod worker-0-9\n  = its pods are launcher-0-0, worker-0-0\n"
        )
    );
    let twice = stage.run(&["run", "--name", "tools", "--", "x"], "", "");
    assert_eq!(
        (twice.code, twice.err.as_str()),
        (
            1,
            "error: a cluster named tools is running already\n  = end it with `quorate delete \
             tools`, or choose another --name\n"
        )
    );
    let deleted = stage.run(&["delete", "tools"], "", "");
    assert_eq!((deleted.code, deleted.err.as_str()), (0, "tools deleted\n"));
    stage.expect_nothing_left();
    let again = stage.run(&["delete", "tools"], "", "");
    assert_eq!(
        (again.code, again.err.as_str()),
        (1, "error: there is no cluster tools\n  = no cluster runs on this machine\n")
    );
    assert_eq!(code(&["delete", "--ignore-not-found", "tools"]), 0);
}

#[test]
fn a_kept_cluster_is_listed_entered_read_and_deleted() {
    life(&Stage::new());
}

#[test]
fn a_kept_cluster_of_an_ordinary_user_is_listed_entered_read_and_deleted() {
    life(&Stage::ordinary());
}

#[test]
fn following_a_log_ends_with_its_cluster() {
    let stage = Stage::new();
    keep(&stage, "talk");
    let follow = stage.quorate(&["logs", "-f", "talk"], "", "").spawn().unwrap();
    say(&stage, &["exec", "talk", "--", "sh", "-c", "echo more >> /proc/1/fd/1"]);
    say(&stage, &["delete", "talk"]);
    assert_eq!(finish(follow).out, "launcher-0-0: up\nlauncher-0-0: more\n");
}

#[test]
fn waiting_for_a_cluster_ends_with_it() {
    let stage = Stage::new();
    keep(&stage, "end");
    let wait = stage.quorate(&["wait", "end"], "", "").spawn().unwrap();
    // It has found the cluster when it waits for what its keeper says.
    let doing = format!("/proc/{}/wchan", wait.id());
    until("it waits", || fs::read_to_string(&doing).is_ok_and(|what| what.contains("poll")));
    say(&stage, &["delete", "end"]);
    assert_eq!(finish(wait).code, 0);
}

#[test]
fn a_lost_worker_of_a_kept_cluster_ends_or_is_replaced_but_never_hangs() {
    let stage = Stage::new();
    keep(&stage, "lost");
    // PID 1 is told to end from inside of its pod, as a crash of the agent looks from outside.
    // The command may go down with its pod before it can end well.
    stage.run(&["exec", "lost/worker-0-0", "--", "kill", "-TERM", "1"], "", "");
    until("the worker is back, or the cluster is gone", || {
        let list = stage.run(&["ls", "-o", "json"], "", "").out;
        !list.contains("lost") || list.contains("\"running\": 2")
    });
    stage.run(&["delete", "--all"], "", "");
    stage.expect_nothing_left();
}

#[test]
fn four_clusters_at_once_do_not_meet() {
    let stage = Stage::new();
    let names = ["one", "two", "three", "four"];
    let launcher = r#"
name=${HOSTNAME%-launcher-0-0}
echo "$name $QUORATE_POD_IP $(getent hosts $name-worker-0-2 | cut -d' ' -f1)""#;
    let runs: Vec<_> = names
        .iter()
        .map(|name| {
            let args = ["run", "-N", "4", "--name", name, "--", "x"];
            stage.quorate(&args, launcher, STAY).spawn().unwrap()
        })
        .collect();
    for (name, run) in names.iter().zip(runs) {
        let ran = finish(run);
        assert_eq!(
            (ran.code, ran.out),
            (0, format!("{name} 10.244.0.2 10.244.0.5\n")),
            "{}",
            ran.err
        );
    }
    stage.expect_nothing_left();
}
