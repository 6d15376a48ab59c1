//! What Kueue lets in, and what waits.

use crate::{
    LAB, PRIORITY_CLASS, QUEUE_NAME, condition, jobset_was_written_by_kueue_alone, minicluster,
    queue, quota, until, why, workload,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[test]
fn an_admitted_cluster_runs_mpi_over_its_nodes_and_leaves_no_workload() {
    let name = "admitted";
    queue(name, "300m", &json!({}));
    let spread = json!({ "spec": { "topologySpreadConstraints": [{
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "quorate.dev/cluster": name } },
    }] } });
    let program =
        json!({ "parallel": { "command": ["/opt/tests/openmpi/hello", "3"], "tasks": 6 } });
    minicluster(
        name,
        &json!({ QUEUE_NAME: name, PRIORITY_CLASS: "low" }),
        &json!({ "size": 3, "slots": 2, "template": spread, "program": program }),
    );
    let object = LAB.state(name, "Succeeded");
    assert_eq!(object["status"]["exitCode"], 0);
    let output = LAB.output(name);
    let ranks: Vec<&str> = output.lines().filter(|line| line.starts_with("rank ")).collect();
    let hosts: BTreeSet<&str> = ranks.iter().filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!((ranks.len(), hosts.len()), (6, 3), "{output}");
    let pods = LAB.of("pods", name);
    let launcher =
        pods.iter().find(|pod| pod["metadata"]["labels"]["quorate.dev/role"] == "launcher");
    assert!(launcher.unwrap()["spec"]["nodeName"].is_string());

    let jobset = LAB.get("jobset", name).unwrap();
    let labels = &jobset["metadata"]["labels"];
    assert_eq!((&labels[QUEUE_NAME], &labels[PRIORITY_CLASS]), (&name.into(), &"low".into()));
    let finished = |workload: &Option<Value>| {
        workload.as_ref().is_some_and(|one| condition(one, "Finished")["status"] == "True")
    };
    let done = LAB.eventually("its Workload is finished", || workload(name), finished).unwrap();
    assert_eq!((&done["spec"]["queueName"], &done["spec"]["priority"]), (&name.into(), &1.into()));
    let sets = done["spec"]["podSets"].as_array().unwrap();
    let counts: Vec<_> = sets.iter().map(|set| (&set["name"], &set["count"])).collect();
    assert_eq!(counts, [(&"launcher".into(), &1.into()), (&"worker".into(), &2.into())]);

    LAB.kubectl(&["delete", "mc", name]).unwrap();
    let left =
        || (workload(name).is_some(), LAB.of("jobsets", name).len(), LAB.of("pods", name).len());
    LAB.eventually("nothing is left, no Workload either", left, |left| *left == (false, 0, 0));
    jobset_was_written_by_kueue_alone(name);
}

#[test]
fn above_its_quota_a_cluster_waits_in_the_words_of_kueue_until_there_is_room() {
    let name = "above-quota";
    queue(name, "100m", &json!({}));
    let program = json!({ "command": ["true"] });
    minicluster(name, &json!({ QUEUE_NAME: name }), &json!({ "size": 2, "program": program }));
    let told = |object: &Value| {
        object["status"]["message"].as_str().is_some_and(|text| text.contains("insufficient"))
    };
    let object = LAB.until(name, "told of the quota", told);
    let status = &object["status"];
    let workload = workload(name).unwrap();
    let words = condition(&workload, "QuotaReserved")["message"].as_str().unwrap();
    // Kueue names a pod set, which is a group here.
    let words = words.strip_prefix("couldn't assign flavors to pod set ").unwrap();
    let message = status["message"].as_str().unwrap();
    assert!(message.contains(words) && message.contains(name), "{message}");
    assert_eq!(
        (&status["state"], &status["reason"]),
        (&"Suspended".into(), &"WaitingForAdmission".into())
    );
    let suspended = condition(&object, "Suspended");
    assert_eq!(
        (&suspended["status"], &suspended["reason"]),
        (&"True".into(), &"WaitingForAdmission".into())
    );
    assert_eq!(suspended["message"], status["message"]);
    assert_eq!(condition(&object, "Accepted")["status"], "True");
    let table = LAB.kubectl(&["get", "mc", name, "-o", "wide"]).unwrap();
    assert!(table.contains("Suspended"), "{table}");
    let answer = why(name);
    assert!(answer.contains(message), "{answer}\nis not\n{message}");
    assert!(LAB.of("pods", name).is_empty());

    quota(name, "200m");
    let object = LAB.state(name, "Succeeded");
    assert_eq!(condition(&object, "Suspended")["status"], "False");
    jobset_was_written_by_kueue_alone(name);
}

#[test]
fn a_queue_that_does_not_exist_is_named() {
    let name = "no-queue";
    minicluster(name, &json!({ QUEUE_NAME: "absent" }), &json!({ "size": 2 }));
    let object = LAB.until(name, "told of the queue", |object| {
        object["status"]["message"].as_str().is_some_and(|text| text.contains("absent"))
    });
    assert_eq!(object["status"]["reason"], "WaitingForAdmission");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}

#[test]
fn a_queue_admits_all_pods_or_none_and_growth_is_refused_with_words() {
    let name = "no-growth";
    queue(name, "1", &json!({}));
    minicluster(
        name,
        &json!({ QUEUE_NAME: name }),
        &json!({ "size": 2, "minSize": 1, "maxSize": 4 }),
    );
    LAB.state(name, "Ready");
    LAB.kubectl(&["scale", "mc", name, "--replicas=4"]).unwrap();
    let object = LAB.until(name, "refused to grow", |object| {
        condition(object, "Accepted")["status"] == "False"
    });
    let accepted = condition(&object, "Accepted");
    let message = accepted["message"].as_str().unwrap();
    assert_eq!(accepted["reason"], "Immutable");
    assert!(message.contains("spec.size") && message.contains("Kueue"), "{message}");
    let status = &object["status"];
    assert_eq!((&status["state"], &status["size"]), (&"Ready".into(), &2.into()), "{status}");
    assert_eq!(LAB.of("pods", name).len(), 2);
    LAB.kubectl(&["scale", "mc", name, "--replicas=2"]).unwrap();
    LAB.until(name, "accepted again", |object| condition(object, "Accepted")["status"] == "True");
    LAB.kubectl(&["delete", "mc", name]).unwrap();
    jobset_was_written_by_kueue_alone(name);
    assert_eq!(LAB.writes("jobs", "default", &format!("{name}-worker-0")), Vec::<String>::new());
}

#[test]
fn a_cluster_that_waits_moves_to_another_queue_with_its_label() {
    let name = "moves";
    queue("too-small", "100m", &json!({}));
    queue("roomy", "200m", &json!({}));
    let program = json!({ "command": ["true"] });
    minicluster(
        name,
        &json!({ QUEUE_NAME: "too-small" }),
        &json!({ "size": 2, "program": program }),
    );
    until(name, "Suspended", "WaitingForAdmission");
    LAB.kubectl(&["label", "mc", name, "--overwrite", &format!("{QUEUE_NAME}=roomy")]).unwrap();
    LAB.state(name, "Succeeded");
    assert_eq!(
        LAB.writes("jobsets", "default", name).iter().filter(|verb| *verb == "patch").count(),
        1
    );
}
