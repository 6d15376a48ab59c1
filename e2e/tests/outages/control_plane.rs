//! Parts of the control plane that go and come back, under the controllers of the chart.

use crate::{IMAGE, alone};
use quorate_e2e::{Lab, NAMESPACE, Namespace, SYSTEM, ledger};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How often the containers of the chart's controllers were started again.
fn restarts(lab: &Lab) -> String {
    let path = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
    lab.kubectl(&["-n", SYSTEM, "get", "pods", "-o", path]).unwrap()
}

/// Objects of a cluster that were made, by resource.
fn made(lab: &Lab, name: &str) -> BTreeMap<String, usize> {
    let mut made = BTreeMap::new();
    for write in ledger::writes(lab, NAMESPACE) {
        let ours = write.name == name || write.name.starts_with(&format!("{name}-"));
        if ours && write.verb == "create" && write.code == 201 {
            *made.entry(write.resource).or_default() += 1;
        }
    }
    made
}

#[test]
fn a_program_runs_through_a_restart_of_the_api_server() {
    let lab = alone();
    let place = Namespace::existing(lab.0, NAMESPACE);
    let before = restarts(lab.0);
    place.minicluster(
        "through",
        &format!("size: 2\n{IMAGE}\nprogram: {{command: [sh, -c, 'sleep 6; echo through']}}"),
    );
    place.minicluster("stays", IMAGE);
    place.state("stays", "Ready");
    place.state("through", "Running");
    lab.0.cluster.restart("apiserver").unwrap();
    let object = place.state("through", "Succeeded");
    assert_eq!(object["status"]["exitCode"], 0, "{object}");
    assert_eq!(object["status"]["attempt"], 0, "{object}");
    assert_eq!(place.get("minicluster", "stays").unwrap()["status"]["state"], "Ready");
    assert_eq!(restarts(lab.0), before, "the controllers lived on");
    let made = made(lab.0, "through");
    for kind in ["secrets", "configmaps", "networkpolicies", "jobsets"] {
        assert_eq!(made.get(kind), Some(&1), "{kind}: {made:?}");
    }
    place.kubectl(&["delete", "mc", "through", "stays"]).unwrap();
}

#[test]
fn wishes_made_while_jobset_s_controller_is_down_come_true_when_it_is_back() {
    let lab = alone();
    let place = Namespace::existing(lab.0, NAMESPACE);
    let before = restarts(lab.0);
    for name in ["down-suspended", "down-deleted", "down-untouched"] {
        place.minicluster(name, IMAGE);
    }
    place.minicluster("down-resumed", &format!("suspend: true\n{IMAGE}"));
    place.state("down-resumed", "Suspended");
    let ready =
        ["down-suspended", "down-deleted", "down-untouched"].map(|name| place.state(name, "Ready"));
    lab.0.cluster.stop("jobset").unwrap();
    place.patch("minicluster", "down-suspended", &json!({"spec": {"suspend": true}}));
    place.patch("minicluster", "down-resumed", &json!({"spec": {"suspend": false}}));
    place.kubectl(&["delete", "mc", "down-deleted"]).unwrap();
    place.minicluster("down-created", IMAGE);
    let said = |object: &Value| {
        let message = object["status"]["message"].as_str().unwrap_or_default();
        message.contains("JobSet down-created cannot be made yet") && message.contains("webhook")
    };
    place.until("down-created", "waiting for the webhook by name", said);
    let object = place.get("minicluster", "down-untouched").unwrap();
    assert_eq!(object["status"], ready[2]["status"]);
    lab.0.cluster.start("jobset").unwrap();
    place.state("down-suspended", "Suspended");
    place.state("down-resumed", "Ready");
    place.state("down-created", "Ready");
    let made = made(lab.0, "down-created");
    assert_eq!(made.get("jobsets"), Some(&1), "{made:?}");
    let left = || place.census().into_iter().filter(|name| name.contains("down-deleted")).count();
    place.eventually("nothing of the deleted one is left", left, |left| *left == 0);
    assert_eq!(restarts(lab.0), before);
    place.kubectl(&["delete", "mc", "--all"]).unwrap();
}
