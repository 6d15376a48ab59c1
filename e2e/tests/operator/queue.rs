//! Clusters without a program: their queue outlives the launcher's pod, is counted in the status, and
//! ends the cluster when nobody uses it.

use crate::LAB;
use quorate_e2e::NAMESPACE;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

const IMAGE: &str = "image: localhost/mpi-debian:v1";
const AGENT: &str = "/quorate/bin/quorate-agent";

/// Names and UIDs of the pods of a cluster that are not on their way out, by their group.
fn pods(cluster: &str, group: &str) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    LAB.of("pods", cluster)
        .iter()
        .map(|pod| &pod["metadata"])
        .filter(|pod| pod["labels"]["quorate.dev/group"] == group)
        .filter(|pod| pod["deletionTimestamp"].is_null())
        .map(|pod| (text(&pod["name"]), text(&pod["uid"])))
        .collect()
}

/// Runs a verb of the agent in the launcher's pod.
fn agent(cluster: &str, arguments: &[&str]) -> Result<String, String> {
    let (launcher, _) = pods(cluster, "launcher").pop_first().ok_or("no launcher")?;
    let place = ["-n", NAMESPACE, "exec", &launcher, "--", AGENT];
    LAB.kubectl(&[&place[..], arguments].concat())
}

#[test]
fn a_launcher_that_is_deleted_is_replaced_alone_and_its_queue_goes_on() {
    let name = "queue-kept";
    let state = tempfile::tempdir().unwrap();
    // The image's user is not this one.
    std::fs::set_permissions(state.path(), Permissions::from_mode(0o777)).unwrap();
    let path = state.path().display();
    LAB.minicluster(
        name,
        &format!(
            "size: 3\nslots: 1\n{IMAGE}\nqueue: {{stateVolume: state}}\nlauncher:\n  template:\n    \
             spec: {{volumes: [{{name: state, hostPath: {{path: {path}}}}}]}}"
        ),
    );
    LAB.state(name, "Ready");
    let workers = pods(name, "worker");
    assert_eq!(workers.len(), 2, "{workers:?}");
    let launcher = pods(name, "launcher");

    // One on the launcher, one on the workers, and those that wait for them.
    let on_launcher = ["submit", "--requires", "launcher", "sleep", "3600"];
    assert_eq!(agent(name, &on_launcher), Ok("1".into()));
    let script = "trap 'exit 5' USR1; echo once; while :; do sleep 0.1; done";
    let on_workers = ["submit", "-N2", "--requires", "worker", "sh", "-c", script];
    assert_eq!(agent(name, &on_workers), Ok("2".into()));
    assert_eq!(
        agent(name, &["submit", "--cc", "1-4", "-n2", "sleep", "3"]),
        Ok("3\n4\n5\n6".into())
    );
    let object =
        LAB.until(name, "told of its jobs", |object| object["status"]["queue"]["jobs"] == "2/6");
    let queue = &object["status"]["queue"];
    assert_eq!((&queue["running"], &queue["pending"]), (&2.into(), &4.into()), "{queue}");
    let table = LAB.kubectl(&["get", "mc", name]).unwrap();
    assert!(table.contains("JOBS") && table.contains("2/6"), "{table}");

    let pod = launcher.first_key_value().unwrap().0;
    LAB.kubectl(&["-n", NAMESPACE, "delete", "pod", pod, "--wait=false"]).unwrap();
    LAB.until(name, "without its launcher", |object| object["status"]["state"] != "Ready");
    LAB.state(name, "Ready");
    assert_ne!(pods(name, "launcher"), launcher);
    assert_eq!(pods(name, "worker"), workers, "workers stay");

    // What ran beside the launcher has ended once; what ran on the workers runs on, and is led again.
    let facts = |id: &str| -> Value {
        let told = agent(name, &["info", "-o", "json", id]).unwrap_or_default();
        serde_json::from_str(&told).unwrap_or_default()
    };
    LAB.eventually("job 1 has ended", || facts("1"), |job| job["standing"] == "failed");
    LAB.eventually(
        "job 2 is led again",
        || agent(name, &["events", "2"]).unwrap_or_default(),
        |events| events.contains("reattach"),
    );
    let job = facts("2");
    assert_eq!((&job["state"], &job["requeues"]), (&"RUN".into(), &0.into()), "{job}");
    assert_eq!(agent(name, &["kill", "-s", "USR1", "2"]).map(drop), Ok(()));
    LAB.eventually("job 2 has ended", || facts("2"), |job| job["code"] == 5);
    let (launcher, _) = pods(name, "launcher").pop_first().unwrap();
    let attach = format!("{AGENT} attach 2; test $? = 5");
    let place = ["-n", NAMESPACE, "exec", &launcher, "--", "sh", "-c", &attach];
    assert_eq!(LAB.kubectl(&place), Ok("once\nonce".into()));
    // Numbers go on, and so does what had waited.
    assert_eq!(agent(name, &["wait", "3", "4", "5", "6"]).map(drop), Ok(()));
    assert_eq!(agent(name, &["submit", "--wait", "true"]), Ok("7".into()));
    // From a laptop, with a script that is there alone.
    let script = state.path().join("job.sh");
    std::fs::write(&script, "#!/bin/sh\n#SBATCH -N2 -n2\nsrun hostname | sort\n").unwrap();
    let script = script.display().to_string();
    let said = LAB.quorate(&["submit", "-n", NAMESPACE, name, "--watch", &script]);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!((said.code, lines.len(), lines.first()), (0, 3, Some(&"8")), "{said:?}");
    assert!(
        lines[1] != lines[2] && lines[1..].iter().all(|host| host.starts_with(name)),
        "{said:?}"
    );
    let object = LAB.until(name, "told of their end", |object| {
        let queue = &object["status"]["queue"];
        queue["completed"] == 6 && queue["jobs"] == "0/0"
    });
    let status = &object["status"];
    assert_eq!(status["queue"]["failed"], 2, "{status}");
    assert_eq!((&status["attempt"], &status["restarts"]), (&0.into(), &0.into()), "{status}");
    let jobset = LAB.get("jobset", name).unwrap();
    assert!(jobset["status"]["restarts"].as_i64().unwrap_or(0) == 0, "{}", jobset["status"]);
    assert_eq!(pods(name, "worker"), workers, "workers stay");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

#[test]
fn a_smaller_cluster_waits_for_the_jobs_of_those_that_go() {
    let name = "queue-shrink";
    LAB.minicluster(name, &format!("size: 3\nminSize: 1\nmaxSize: 3\nslots: 1\n{IMAGE}"));
    LAB.state(name, "Ready");
    let workers = pods(name, "worker");
    let end = "while [ ! -e /tmp/end ]; do sleep 0.1; done; hostname";
    let last = ["submit", "--requires", "rank:2", "sh", "-c", end];
    assert_eq!(agent(name, &last), Ok("1".into()));
    let runs = || agent(name, &["jobs"]).unwrap_or_else(|error| error);
    LAB.eventually("the job runs", runs, |text| {
        text.lines().any(|line| line.contains("RUN") && line.contains("worker-0-1"))
    });
    LAB.kubectl(&["scale", "mc", name, "--replicas=2"]).unwrap();
    let takes_no_more = || agent(name, &["resource", "list"]).unwrap_or_else(|error| error);
    LAB.eventually("nothing new starts there", takes_no_more, |text| {
        text.lines().any(|line| line.contains("worker-0-1") && line.contains("down"))
    });
    let words = "it is up, and gets smaller once 1 job on worker-0-1 has ended";
    LAB.until(name, "told what it waits for", |object| {
        let status = &object["status"];
        status["reason"] == "WaitingForJobs" && status["message"] == words
    });
    let field = format!("involvedObject.kind=MiniCluster,involvedObject.name={name}");
    let template = "jsonpath={range .items[*]}{.reason} {.message}{\"\\n\"}{end}";
    let events = || LAB.kubectl(&["get", "events", "--field-selector", &field, "-o", template]);
    LAB.eventually(
        "its event",
        || events().unwrap_or_default(),
        |text| text.lines().any(|line| line == format!("WaitingForJobs {words}")),
    );
    // Those that stay go on with their work, for as long as it takes.
    assert_eq!(agent(name, &["submit", "--wait", "-n2", "-N2", "sleep", "3"]), Ok("2".into()));
    assert_eq!(pods(name, "worker"), workers, "nobody has gone");
    let job = &LAB.of("jobs", name);
    let worker = job.iter().find(|job| job["metadata"]["labels"]["quorate.dev/group"] == "worker");
    assert_eq!(worker.unwrap()["spec"]["parallelism"], 2);
    let pod = workers.keys().find(|pod| pod.contains("-worker-0-1-")).unwrap();
    LAB.kubectl(&["-n", NAMESPACE, "exec", pod, "--", "touch", "/tmp/end"]).unwrap();
    assert_eq!(agent(name, &["attach", "1"]), Ok(format!("{name}-worker-0-1")));
    LAB.until(name, "smaller", |object| {
        let status = &object["status"];
        status["online"] == 2 && status["reason"] == "Ready" && pods(name, "worker").len() == 1
    });
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

#[test]
fn a_cluster_that_nobody_uses_any_more_succeeds_and_one_with_a_job_stays() {
    let name = "queue-idle";
    LAB.minicluster(name, &format!("size: 2\nslots: 1\n{IMAGE}\nqueue: {{idleTimeoutSeconds: 8}}"));
    LAB.state(name, "Ready");
    // Longer than it may be without a job.
    assert_eq!(agent(name, &["submit", "-n2", "sleep", "14"]), Ok("1".into()));
    LAB.until(name, "told of its job", |object| object["status"]["queue"]["jobs"] == "1/1");
    let object = LAB.state(name, "Succeeded");
    let status = &object["status"];
    assert_eq!(status["queue"]["completed"], 1, "the job was not cut short: {status}");
    assert_eq!(status["exitCode"], 0, "{status}");
    assert_eq!(
        status["message"], "there was no job for 8 s (queue.idleTimeoutSeconds)",
        "{status}"
    );
}

#[test]
fn a_script_and_jobs_are_programs_and_the_job_that_failed_is_named() {
    let script =
        "program:\n  script: |\n    #!/bin/sh -e\n    #SBATCH -N2 -n2\n    srun hostname | sort";
    LAB.minicluster("queue-script", &format!("size: 3\nslots: 1\n{IMAGE}\n{script}"));
    let jobs = "program:\n  jobs:\n  - {name: good, command: ['true']}\n  \
                - {name: bad, command: [sh, -c, 'exit 7']}\n  \
                - {name: never, command: ['true'], after: [bad]}";
    LAB.minicluster("queue-jobs", &format!("size: 2\nslots: 1\n{IMAGE}\n{jobs}"));
    LAB.state("queue-script", "Succeeded");
    let output = LAB.output("queue-script");
    let hosts: BTreeSet<&str> = output.lines().collect();
    assert_eq!((output.lines().count(), hosts.len()), (2, 2), "{output}");
    assert!(hosts.iter().all(|host| host.starts_with("queue-script-")), "{output}");
    let status = LAB.state("queue-jobs", "Failed")["status"].clone();
    assert_eq!(status["exitCode"], 7, "{status}");
    let message = status["failure"]["message"].as_str().unwrap();
    assert!(message.starts_with("job 2 (bad) ended with code 7"), "{status}");
    for name in ["queue-script", "queue-jobs"] {
        LAB.kubectl(&["delete", "mc", name]).unwrap();
    }
}
