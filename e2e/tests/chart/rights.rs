//! The controller's roles grant what it uses and nothing else, told by the API server's own log.
//!
//! Rare verbs belong to rare situations, so each is brought about here.

use crate::{IMAGE, Stand, stand, trail};
use quorate_e2e::{Lab, SYSTEM, of_its_generation};
use quorate_testbed::Node;
use serde_json::Value;
use std::collections::BTreeSet;
use std::thread;
use trail::Right;

const ACCOUNT: &str = "system:serviceaccount:quorate-system:quorate";

#[test]
fn the_controller_uses_every_right_that_it_has_and_is_refused_none() {
    let stand = stand();
    let lab = &stand.lab;
    thread::scope(|scope| {
        scope.spawn(|| suspended_twice(lab));
        scope.spawn(|| grown(lab));
        scope.spawn(|| deleted_after_its_end(lab));
        scope.spawn(|| robbed_of_its_objects(lab));
        scope.spawn(|| with_a_name_that_is_taken(lab));
        scope.spawn(|| a_lease_that_somebody_writes(lab));
        scope.spawn(|| a_lead_with_a_flow_of_its_own(lab));
        scope.spawn(|| a_pod_on_a_lost_node(&stand));
    });
    let asked = trail::of(&lab.cluster, ACCOUNT);
    let used: BTreeSet<&Right> = asked.iter().map(|asked| &asked.right).collect();
    let read = |arguments: &[&str]| -> Value {
        let mut all = vec!["get", "-o", "json"];
        all.extend(arguments);
        serde_json::from_str(&lab.kubectl(&all).unwrap()).unwrap()
    };
    let mut granted = trail::granted(&read(&["clusterrole", "quorate"]));
    granted.extend(trail::granted(&read(&["-n", SYSTEM, "role", "quorate-leader"])));
    assert!(used.len() > 20 && granted.len() > 20, "{used:?} {granted:?}");
    let idle: Vec<String> =
        granted.iter().filter(|right| !used.contains(right)).map(Right::to_string).collect();
    assert!(idle.is_empty(), "granted and never used: {idle:#?}");
    let refused: Vec<String> = asked
        .iter()
        .filter(|asked| asked.code == 403)
        .filter(|asked| !stand.changing.iter().any(|part| part.contains(&asked.at)))
        .map(|asked| format!("{} ({})", asked.right, asked.uri))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

fn suspend(lab: &Lab, name: &str, suspend: bool) {
    let patch = format!(r#"{{"spec": {{"suspend": {suspend}}}}}"#);
    lab.kubectl(&["patch", "mc", name, "--type=merge", "-p", &patch]).unwrap();
    lab.until(name, "as its spec says", |object| {
        (object["status"]["state"] == "Suspended") == suspend && of_its_generation(object)
    });
}

/// JobSets are patched, and an event that is told again becomes a series.
fn suspended_twice(lab: &Lab) {
    let name = "suspender";
    lab.minicluster(name, &format!("{IMAGE}\nsuspend: true"));
    lab.state(name, "Suspended");
    for round in [false, true, false, true] {
        suspend(lab, name, round);
    }
    lab.kubectl(&["delete", "mc", name]).unwrap();
}

/// Worker Jobs are patched.
fn grown(lab: &Lab) {
    let name = "growing";
    lab.minicluster(name, &format!("size: 2\nminSize: 1\nmaxSize: 3\n{IMAGE}"));
    lab.state(name, "Ready");
    lab.kubectl(&["scale", "mc", name, "--replicas=3"]).unwrap();
    lab.until(name, "three brokers", |object| object["status"]["online"] == 3);
    lab.kubectl(&["delete", "mc", name]).unwrap();
}

/// MiniClusters are deleted.
fn deleted_after_its_end(lab: &Lab) {
    let name = "short";
    let program = "program: {command: ['true']}";
    lab.minicluster(name, &format!("ttlSecondsAfterFinished: 1\n{IMAGE}\n{program}"));
    lab.eventually("it is gone", || lab.get("minicluster", name).is_none(), |gone| *gone);
}

/// What was deleted is made again; what is there already is looked at, to see whose it is.
fn robbed_of_its_objects(lab: &Lab) {
    let name = "robbed";
    lab.minicluster(name, IMAGE);
    lab.state(name, "Ready");
    let uid = |kind: &str| lab.of(kind, name).first().map(|one| one["metadata"]["uid"].clone());
    for kind in ["networkpolicies", "jobset"] {
        let before = uid(kind).unwrap();
        let label = format!("quorate.dev/cluster={name}");
        lab.kubectl(&["delete", kind, "-l", &label, "--wait=false"]).unwrap();
        lab.eventually(kind, || uid(kind), |now| now.as_ref().is_some_and(|now| *now != before));
    }
    lab.until(name, "ready again", |object| object["status"]["state"] == "Ready");
    lab.kubectl(&["delete", "mc", name]).unwrap();
}

/// A JobSet that is somebody else's has none of our labels, so that no watch shows it.
fn with_a_name_that_is_taken(lab: &Lab) {
    let name = "foreign";
    let jobset = format!(
        "apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: {name}}}
spec:
  suspend: true
  replicatedJobs:
  - name: one
    template: {{spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: main, image: 'localhost/busybox:v1'}}]}}}}}}}}
"
    );
    lab.create(&jobset).unwrap();
    lab.minicluster(name, IMAGE);
    lab.until(name, "told that its name is taken", |object| {
        object["status"]["message"].as_str().is_some_and(|text| text.contains("JobSet"))
    });
    lab.kubectl(&["delete", "mc,jobset", name]).unwrap();
}

/// A renewal that meets another version reads the lease again.
fn a_lease_that_somebody_writes(lab: &Lab) {
    let renewed = || {
        let template = "jsonpath={.spec.renewTime} {.metadata.labels.stranger}";
        lab.kubectl(&["-n", SYSTEM, "get", "lease", "quorate", "-o", template]).unwrap()
    };
    let before = renewed();
    let time = |text: &str| text.split(' ').next().map(str::to_owned);
    let label = ["-n", SYSTEM, "label", "--overwrite", "lease", "quorate", "stranger=yes"];
    lab.kubectl(&label).unwrap();
    lab.eventually("renewed over the stranger's write", renewed, |now| {
        time(now) != time(&before) && now.ends_with("yes")
    });
}

/// An API server with too much to do lets renewals pass: they are on the level of elections, by the
/// release's own FlowSchema.
fn a_lead_with_a_flow_of_its_own(lab: &Lab) {
    let flow = r#"flow_schema="quorate-leader",priority_level="leader-election""#;
    let dispatched = || -> Option<f64> {
        let metrics = lab.kubectl(&["get", "--raw", "/metrics"]).unwrap();
        let line = metrics.lines().find(|line| {
            line.starts_with("apiserver_flowcontrol_dispatched_requests_total{")
                && line.contains(flow)
        })?;
        line.rsplit(' ').next()?.parse().ok()
    };
    let before = dispatched();
    lab.eventually("a renewal by the flow of elections", dispatched, |now| *now > before);
}

/// A pod on a node that is cut off is said to have failed, and is deleted without grace. (What becomes
/// of the cluster then is another test's.)
fn a_pod_on_a_lost_node(stand: &Stand) {
    let lab = &stand.lab;
    let pods = lab.list("pods", SYSTEM);
    let of = |pod: &Value| Some(pod["spec"]["nodeName"].as_str()?.to_owned());
    let taken: BTreeSet<String> = pods.iter().filter_map(of).collect();
    let free: Vec<Node> = (1..=3).map(Node).filter(|node| !taken.contains(&node.name())).collect();
    let [lost, ..] = free[..] else { panic!("the controllers are on all nodes: {taken:?}") };
    let on = |node: &str| {
        format!("template: {{spec: {{nodeSelector: {{kubernetes.io/hostname: {node}}}}}}}")
    };
    let name = "cut";
    let cluster = format!(
        "size: 2\nslots: 1\n{IMAGE}\nbootstrap: {{orphanTimeoutSeconds: 6}}
launcher: {{{}}}
groups: [{{name: worker, size: 1, {}}}]
failurePolicy: {{maxRestarts: 3}}
program: {{parallel: {{command: [sleep, '3600'], tasks: 2}}}}",
        on(taken.first().unwrap()),
        on(&lost.name())
    );
    lab.minicluster(name, &cluster);
    lab.state(name, "Running");
    // As a controller leaves it that dies before it has noted on the JobSet what it says here.
    let jobset = lab.of("jobset", name).remove(0);
    let note = format!("quorate-lost-nodes-{}", jobset["metadata"]["uid"].as_str().unwrap());
    let template = format!(
        "apiVersion: v1
kind: PodTemplate
metadata: {{name: {note}}}
template: {{spec: {{containers: [{{name: none, image: none}}]}}}}
"
    );
    lab.create(&template).unwrap();
    lab.cluster.cut_node(lost).unwrap();
    let told = |verb: &str, resource: &str| {
        let asked = trail::of(&lab.cluster, ACCOUNT);
        asked.iter().any(|asked| asked.right.verb == verb && asked.right.resource == resource)
    };
    lab.eventually("a pod is given up", || told("patch", "pods/status"), |told| *told);
    lab.eventually("it is deleted", || told("delete", "pods"), |told| *told);
    let said = lab.get("podtemplate", &note).unwrap();
    assert_eq!(said["metadata"]["annotations"]["quorate.dev/lost-nodes"], lost.name(), "{said}");
    lab.kubectl(&["delete", "mc", name]).unwrap();
    lab.cluster.heal_node(lost).unwrap();
}
