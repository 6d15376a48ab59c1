//! A controller for some namespaces: a Role in each, nothing of the cluster, and no word about others.

use crate::{IMAGE, chart, stand, trail};
use quorate_e2e::SYSTEM;

#[test]
fn named_namespaces_take_roles_alone_and_others_are_ignored() {
    let mut stand = stand();
    stand.lab.kubectl(&["create", "namespace", "team"]).unwrap();
    let values = stand.lab.cluster.folder().path("values.json").display().to_string();
    let upgrade = ["upgrade", "quorate", &chart(), "--values", &values];
    stand.changing_roles(|lab| {
        let mut named = upgrade.to_vec();
        named.push("--set=watch.namespaces={team}");
        lab.helm(&named).unwrap();
        lab.rolled_out();
    });
    let begin = trail::end(&stand.lab.cluster);
    let lab = &stand.lab;
    for kind in ["clusterrole", "clusterrolebinding"] {
        let found = lab.kubectl(&["get", kind, "quorate", "--ignore-not-found", "-o", "name"]);
        assert_eq!(found.unwrap(), "");
    }
    lab.kubectl(&["-n", "team", "get", "role,rolebinding", "quorate"]).unwrap();
    let account = "system:serviceaccount:quorate-system:quorate";
    let may = |verb: &str, resource: &str, namespace: &str| {
        let ask = ["auth", "can-i", verb, resource, "-n", namespace, "--as", account];
        lab.kubectl(&ask).is_ok_and(|answer| answer == "yes")
    };
    assert!(may("create", "secrets", "team"));
    assert!(!may("create", "secrets", "default"));
    assert!(!may("get", "secrets", "quorate-system"));

    // What people may do comes with the roles that Kubernetes has for them.
    for (role, may_create) in [("view", false), ("edit", true)] {
        let (of, user) = (format!("--clusterrole={role}"), format!("--user={role}er"));
        lab.kubectl(&["-n", "team", "create", "rolebinding", role, &of, &user]).unwrap();
        let can = |verb: &str, part: &str| {
            let (who, part) = (format!("{role}er"), format!("--subresource={part}"));
            let ask = ["auth", "can-i", verb, "miniclusters", &part, "-n", "team", "--as", &who];
            lab.kubectl(&ask).is_ok_and(|answer| answer == "yes")
        };
        let people = || (can("get", ""), can("create", ""), can("patch", "status"));
        lab.eventually("the role is aggregated", people, |people| {
            *people == (true, may_create, false)
        });
    }

    // Nodes are in no namespace, so nothing is known of them, and nothing is asked that is refused.
    let logs = || {
        let selector = "app.kubernetes.io/name=quorate-controller";
        lab.kubectl(&["-n", SYSTEM, "logs", "-l", selector, "--tail=-1"]).unwrap_or_default()
    };
    lab.eventually("says why the agent is copied", logs, |logs| {
        logs.contains("this account may not list nodes")
    });
    assert!(!may("list", "nodes", "team"));

    let program = "program: {command: ['true']}";
    let outside = "outside";
    lab.minicluster(outside, &format!("{IMAGE}\n{program}"));
    lab.create(
        "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster
metadata: {name: inside, namespace: team}
spec: {image: 'localhost/busybox:v1', program: {command: ['true']}}",
    )
    .unwrap();
    let done = ["-n", "team", "wait", "--for=condition=Succeeded", "mc/inside", "--timeout=120s"];
    lab.kubectl(&done).unwrap();
    assert!(lab.get("minicluster", outside).unwrap()["status"].is_null());
    assert!(lab.get("jobset", outside).is_none());
    let asked = trail::of(&lab.cluster, account);
    let refused: Vec<_> =
        asked.iter().filter(|asked| asked.at > begin && asked.code == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");

    stand.changing_roles(|lab| {
        lab.helm(&upgrade).unwrap();
        lab.rolled_out();
    });
    // With all namespaces it is no longer outside.
    let lab = &stand.lab;
    lab.state(outside, "Succeeded");
    lab.kubectl(&["delete", "mc", outside]).unwrap();
    lab.kubectl(&["delete", "namespace", "team"]).unwrap();
}
