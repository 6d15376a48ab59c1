use super::*;

/// Every file as it is written for a cluster of two nodes, so that a change of any is seen.
#[test]
fn files_of_a_cluster() {
    let folder = Folder::at("/clusters/t", "t");
    let shape = Shape { name: "t".into(), nodes: 2, ..Shape::default() };
    let pretty = |text: String| {
        let value: Value = serde_json::from_str(&text).unwrap();
        serde_json::to_string_pretty(&value).unwrap()
    };
    let files = [
        ("containerd", containerd(&folder, Runtime::Distribution, Node(2))),
        ("containerd-2", containerd(&folder, Runtime::Containerd2, Node(2))),
        ("cni", pretty(cni(Node(2)))),
        ("kubelet", pretty(kubelet(&folder, &shape, Node(2)))),
        ("proxy", pretty(proxy(&folder, Node(2)))),
        ("corefile", corefile(&folder, &shape)),
        ("jobset", pretty(jobset(&folder))),
        ("audit", pretty(audit_policy())),
        ("resolv.conf", resolv_conf(&shape)),
        ("hosts", hosts(&shape)),
    ];
    for (name, text) in files {
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn pods_of_others_do_not_wait_for_the_webhooks_of_jobset() {
    for (_, object) in jobset_webhooks("authority") {
        for hook in object["webhooks"].as_array().unwrap() {
            let of_pods = hook["rules"][0]["resources"][0] == "pods";
            assert_eq!(hook.get("objectSelector").is_some(), of_pods);
            assert_eq!(hook["clientConfig"]["caBundle"], "authority");
        }
    }
}

#[test]
fn another_domain_reaches_dns_and_pods() {
    let folder = Folder::at("/clusters/t", "t");
    let shape = Shape { cluster_domain: "hpc.example".into(), ..Shape::default() };
    assert!(corefile(&folder, &shape).contains("kubernetes hpc.example in-addr.arpa {"));
    assert!(kubelet(&folder, &shape, Node(1)).contains(r#""clusterDomain":"hpc.example""#));
    assert!(
        resolv_conf(&shape).contains("search default.svc.hpc.example svc.hpc.example hpc.example")
    );
}
