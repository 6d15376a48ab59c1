//! Who reaches the controller's pods, and how many of them may be away.

use crate::{Stand, stand};
use quorate_e2e::SYSTEM;
use serde_json::Value;

#[test]
fn only_named_scrapers_reach_the_metrics() {
    let stand = stand();
    let lab = &stand.lab;
    let pod = lab.kubectl(&["-n", SYSTEM, "get", "pod", &stand.leader(), "-o", "json"]).unwrap();
    let pod: Value = serde_json::from_str(&pod).unwrap();
    let address = pod["status"]["podIP"].as_str().unwrap();
    lab.kubectl(&["create", "namespace", "monitoring"]).unwrap();
    let (scraper, stranger) = ("monitoring", "default");
    for namespace in [scraper, stranger] {
        let fetch = |port: u16, page: &str, word: &str| {
            format!(
                "busybox timeout 3 busybox wget -q -O- http://{address}:{port}/{page} | grep -q {word} && echo {page} open || echo {page} shut"
            )
        };
        let script = [fetch(8080, "metrics", "quorate_leader"), fetch(8081, "healthz", ".")];
        lab.create(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: reader, namespace: {namespace}}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: localhost/busybox:v1
    command: [sh, -c, '{}']",
            script.join("; ")
        ))
        .unwrap();
    }
    for (namespace, expected) in
        [(scraper, ["metrics open", "healthz shut"]), (stranger, ["metrics shut", "healthz shut"])]
    {
        let phase = || {
            let phase = ["-n", namespace, "get", "pod", "reader", "-o", "jsonpath={.status.phase}"];
            lab.kubectl(&phase).unwrap()
        };
        lab.eventually("the reader is done", phase, |phase| phase == "Succeeded");
        let said = lab.kubectl(&["-n", namespace, "logs", "reader"]).unwrap();
        // The shell tells of what it had to end, too.
        let said: Vec<&str> =
            said.lines().filter(|line| line.ends_with("open") || line.ends_with("shut")).collect();
        assert_eq!(said, expected, "{namespace}");
        lab.kubectl(&["-n", namespace, "delete", "pod", "reader", "--wait=false"]).unwrap();
    }
    lab.kubectl(&["delete", "namespace", scraper, "--wait=false"]).unwrap();
}

#[test]
fn one_of_two_controllers_may_be_drained_and_the_other_leads_then() {
    let stand = stand();
    let lab = &stand.lab;
    lab.rolled_out();
    let budget = || {
        let template = "jsonpath={.status.disruptionsAllowed}";
        lab.kubectl(&["-n", SYSTEM, "get", "pdb", "quorate", "-o", template]).unwrap()
    };
    lab.eventually("one may be away", budget, |allowed| allowed == "1");
    let leader = stand.leader();
    let both = stand.controllers();
    assert_eq!(both.len(), 2, "{both:?}");
    let other = both.iter().find(|pod| **pod != leader).unwrap();
    evict(&stand, &leader).unwrap();
    let refused = evict(&stand, other).unwrap_err();
    assert!(refused.contains("disruption budget"), "{refused}");
    assert_ne!(stand.leader(), leader);
    lab.rolled_out();
    lab.eventually("one may be away again", budget, |allowed| allowed == "1");
}

fn evict(stand: &Stand, pod: &str) -> Result<String, String> {
    let path = format!("/api/v1/namespaces/{SYSTEM}/pods/{pod}/eviction");
    let object = format!(
        r#"{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "{pod}", "namespace": "{SYSTEM}"}}}}"#
    );
    stand.lab.kubectl_with(&["create", "--raw", &path, "-f", "-"], &object)
}
