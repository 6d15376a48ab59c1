//! Clusters that wait: for a person, for brokers, for their end.

use super::{Case, IMAGE, explained, kubectl, patch};
use crate::LAB;

/// Two workers, one of which finds no other pod: its name server does not exist.
fn deaf() -> String {
    format!(
        "{IMAGE}\ngroups:\n- {{name: worker, size: 1}}\n\
         - {{name: deaf, size: 1, template: {{spec: {{dnsPolicy: None, dnsConfig: {{nameservers: [192.0.2.1]}}}}}}}}"
    )
}

#[test]
fn clusters_that_wait_say_for_what() {
    explained(&[
        Case::new(
            "why-suspended",
            format!("size: 2\nsuspend: true\n{IMAGE}\nprogram: {{command: ['true']}}"),
            "SuspendedBySpec",
        )
        .says(&["spec.suspend is true"])
        .healed(|| patch("default", "why-suspended", r#"{"suspend":false}"#), "Succeeded"),
        Case::new("why-brokers", deaf(), "WaitingForBrokers").says(&[
            "2 of 3 brokers are connected, the quorum is 3; missing: deaf-0-0 (no contact",
        ]),
        Case::new(
            "why-late",
            format!("bootstrap: {{timeoutSeconds: 8}}\nprogram: {{command: ['true']}}\n{}", deaf()),
            "BootstrapTimeout",
        )
        .says(&["2 of 3 brokers came within 8 s, the quorum is 3; missing: deaf-0-0 (no contact)"])
        .and(|status| assert_eq!(status["exitCode"], 66)),
    ]);
}

#[test]
fn a_jobset_that_someone_else_suspends_is_explained_and_left_alone() {
    let name = "why-held";
    LAB.minicluster(name, &format!("size: 2\n{IMAGE}"));
    LAB.state(name, "Ready");
    let hold = |value: &str| {
        let patch = format!("{{\"spec\":{{\"suspend\":{value}}}}}");
        kubectl(&["patch", "jobset", name, "--type=merge", "-p", &patch]);
    };
    hold("true");
    let object = LAB.state(name, "Suspended");
    assert_eq!(object["status"]["reason"], "SuspendedByOther");
    let said = LAB.quorate(&["why", name]);
    let first = "why-held is not running: someone else has suspended its JobSet.";
    assert_eq!((said.code, said.out.lines().next()), (0, Some(first)), "{said:?}");
    hold("false");
    LAB.state(name, "Ready");
    kubectl(&["delete", "mc", name, "--wait=false"]);
}

#[test]
fn a_cluster_of_another_manager_says_who_has_not_looked_at_it() {
    let name = "why-elsewhere";
    LAB.minicluster(name, &format!("managedBy: example.com/queue\nsize: 2\n{IMAGE}"));
    let said = LAB.quorate(&["why", name]);
    let first = "why-elsewhere is not running: example.com/queue, which manages it, has not looked at it yet.";
    assert_eq!((said.code, said.out.lines().next()), (0, Some(first)), "{said:?}");
    assert!(LAB.get("minicluster", name).unwrap()["status"].is_null());
    kubectl(&["delete", "mc", name]);
}

#[test]
fn a_cluster_that_does_not_go_says_that_it_is_being_deleted() {
    let name = "why-going";
    LAB.minicluster(name, &format!("size: 2\n{IMAGE}"));
    LAB.state(name, "Ready");
    let finalizers = |list: &str| {
        let patch = format!("{{\"metadata\":{{\"finalizers\":{list}}}}}");
        kubectl(&["patch", "mc", name, "--type=merge", "-p", &patch]);
    };
    finalizers(r#"["example.com/hold"]"#);
    kubectl(&["delete", "mc", name, "--wait=false"]);
    let said = LAB.quorate(&["why", name, "-o", "json"]).json();
    assert_eq!(said["cause"], "Deleting", "{said}");
    assert!(said["message"].as_str().unwrap().starts_with("it is being deleted"), "{said}");
    finalizers("null");
    LAB.eventually("it is gone", || LAB.get("minicluster", name).is_none(), |gone| *gone);
}
