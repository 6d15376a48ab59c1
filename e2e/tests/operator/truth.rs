//! What status, events and messages say when things go wrong.

use crate::LAB;

const IMAGE: &str = "image: localhost/mpi-debian:v1";

#[test]
fn a_failed_rank_is_named_with_its_pod_node_code_and_last_lines_after_the_pods_are_gone() {
    let name = "failing";
    let script = "echo about to fail; [ $QUORATE_TASK_RANK != 2 ] || exit 7; sleep 600";
    let program = format!("program: {{parallel: {{command: [sh, -c, '{script}'], tasks: 3}}}}");
    LAB.minicluster(name, &format!("size: 3\nslots: 1\n{IMAGE}\n{program}"));
    LAB.state(name, "Failed");
    LAB.kubectl(&["wait", "--for=condition=Failed", &format!("mc/{name}"), "--timeout=30s"])
        .unwrap();
    LAB.kubectl(&["delete", "pods", "-l", &format!("quorate.dev/cluster={name}")]).unwrap();
    let status = LAB.get("minicluster", name).unwrap()["status"].clone();
    let failure = &status["failure"];
    assert_eq!(status["exitCode"], 7, "{status}");
    assert_eq!((&failure["rank"], &failure["exitCode"]), (&2.into(), &7.into()), "{status}");
    assert!(failure["pod"].as_str().unwrap().contains("worker-0-1"), "{status}");
    assert!(failure["node"].as_str().unwrap().starts_with('n'), "{status}");
    assert_eq!(failure["logTail"][0], "about to fail", "{status}");
    assert!(status["message"].as_str().unwrap().contains("rank 2"), "{status}");
}

/// Creates a cluster that cannot run and waits for the words that must be in its message.
fn message(name: &str, spec: &str, words: &[&str]) {
    LAB.minicluster(name, spec);
    let object = LAB.until(name, &format!("explained by {words:?}"), |object| {
        let message = object["status"]["message"].as_str().unwrap_or_default();
        words.iter().all(|word| message.contains(word))
    });
    assert_ne!(object["status"]["state"], "Succeeded");
    LAB.kubectl(&["delete", "mc", name, "--wait=false"]).unwrap();
}

#[test]
fn pods_that_fit_nowhere_are_explained_by_what_is_short() {
    let spec = format!("size: 2\n{IMAGE}\nresources: {{requests: {{cpu: '1000'}}}}");
    message("huge", &spec, &["both pods cannot be scheduled", "no node has 1000 free CPUs"]);
}

#[test]
fn an_image_that_is_not_to_be_had_is_named() {
    message("no-image", "image: localhost/absent:v1", &["localhost/absent:v1"]);
}

#[test]
fn a_missing_config_map_of_the_user_is_named() {
    let spec = format!(
        "{IMAGE}\ntemplate:\n  spec:\n    containers:\n    - name: main\n      envFrom: [{{configMapRef: {{name: absent-map}}}}]"
    );
    message("no-map", &spec, &["absent-map"]);
}

#[test]
fn a_command_that_does_not_exist_is_named_with_code_127() {
    let name = "no-command";
    LAB.minicluster(name, &format!("{IMAGE}\nprogram: {{command: [/no/such/program]}}"));
    let object = LAB.state(name, "Failed");
    assert_eq!(object["status"]["exitCode"], 127);
    assert_eq!(object["status"]["reason"], "CommandNotFound");
}

#[test]
fn an_object_of_the_same_name_that_is_not_ours_is_left_alone_and_named() {
    let name = "taken";
    LAB.create(&format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: {name}}}\nspec: {{podSelector: {{matchLabels: {{mine: 'yes'}}}}}}"
    ))
    .unwrap();
    let existing = LAB.get("networkpolicy", name).unwrap();
    LAB.minicluster(name, &format!("{IMAGE}\nprogram: {{command: ['true']}}"));
    LAB.until(name, "not accepted", |object| {
        let conditions = object["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|condition| {
            condition["type"] == "Accepted"
                && condition["status"] == "False"
                && condition["reason"] == "NameTaken"
        })
    });
    let after = LAB.get("networkpolicy", name).unwrap();
    assert_eq!(existing["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
}

#[test]
fn events_tell_each_turn_once() {
    let name = "events";
    LAB.minicluster(name, &format!("size: 2\n{IMAGE}\nprogram: {{command: ['true']}}"));
    LAB.state(name, "Succeeded");
    let field = format!("involvedObject.kind=MiniCluster,involvedObject.name={name}");
    let ask = || {
        let template = "jsonpath={range .items[*]}{.reason} {.count}{\"\\n\"}{end}";
        LAB.kubectl(&["get", "events", "--field-selector", &field, "-o", template]).unwrap()
    };
    let events =
        LAB.eventually("an event tells of the end", ask, |text| text.contains("Completed"));
    let mut reasons: Vec<&str> = events.lines().filter_map(|line| line.split(' ').next()).collect();
    let all = reasons.len();
    reasons.sort_unstable();
    reasons.dedup();
    assert_eq!(reasons.len(), all, "{events}");
    assert!(all <= 4, "{events}");
}

#[test]
fn the_seed_is_in_its_secret_and_nowhere_else() {
    use base64::Engine as _;
    let name = "seed";
    LAB.minicluster(name, &format!("size: 2\n{IMAGE}"));
    LAB.state(name, "Ready");
    let secret = LAB.of("secrets", name).remove(0);
    let text = secret["data"]["seed"].as_str().unwrap().to_owned();
    let bytes = base64::engine::general_purpose::STANDARD.decode(&text).unwrap();
    assert_eq!(bytes.len(), 32);
    let hex = bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let kinds = "mc,jobsets,jobs,pods,configmaps,events,networkpolicies,services";
    let mut seen = LAB.kubectl(&["get", kinds, "-o", "json"]).unwrap();
    for pod in LAB.of("pods", name) {
        let pod = pod["metadata"]["name"].as_str().unwrap();
        seen += &LAB.kubectl(&["logs", pod, "--all-containers"]).unwrap();
        let ask = "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'";
        seen += &LAB.kubectl(&["exec", pod, "-c", "main", "--", "sh", "-c", ask]).unwrap();
    }
    let selector = "app.kubernetes.io/name=quorate-controller";
    seen += &LAB.kubectl(&["-n", "quorate-system", "logs", "-l", selector, "--tail=-1"]).unwrap();
    assert!(seen.contains("QUORATE_GROUP"), "the environment was looked at");
    assert!(!seen.contains(&text) && !seen.to_lowercase().contains(&hex));
    LAB.kubectl(&["delete", "mc", name]).unwrap();
}
