//! Pods as a kubelet would read them.

use super::volumes::quantity_bytes;
use super::*;
use crate::sandbox::Source;
use serde_json::{Value, json};

fn objects(change: &dyn Fn(&mut Value)) -> LocalObjects {
    let mut jobset = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "hello", "namespace": "hpc", "uid": "js-uid"},
        "spec": {"network": {"subdomain": "net"}, "replicatedJobs": [
            {"name": "launcher", "replicas": 1, "template": {"spec": {"completions": 1,
                "template": {"spec": {"containers": [{"name": "main"}]}}}}},
            {"name": "worker", "replicas": 1, "template": {"spec": {"completions": 2,
                "template": {
                    "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
                    "spec": {
                        "terminationGracePeriodSeconds": 5,
                        "containers": [
                            {"name": "side"},
                            {"name": "work", "command": [paths::AGENT, "broker"], "env": [],
                             "volumeMounts": []},
                        ],
                        "volumes": [],
                    },
                }}}},
        ]},
    });
    change(&mut jobset);
    LocalObjects {
        jobset: serde_json::from_value(jobset).unwrap(),
        secrets: vec![
            serde_json::from_value(
                json!({"metadata": {"name": "conf"}, "stringData": {"a": "1", "b": "2"}}),
            )
            .unwrap(),
            serde_json::from_value(json!({"metadata": {"name": "sec"}, "data": {"seed": "AAEC"}}))
                .unwrap(),
        ],
        node: "here".into(),
        environment: vec![("PATH".into(), "/bin".into()), ("HOSTNAME".into(), "outside".into())],
        working_dir: "/home/me".into(),
        agent: "/opt/quorate-agent".into(),
    }
}

fn facts() -> PodFacts {
    PodFacts {
        id: PodId { group: "worker".into(), job: 0, index: 1, attempt: 2, number: 0 },
        name: "hello-worker-0-1-abcde".into(),
        uid: "pod-uid".into(),
        ip: Ipv4Addr::new(10, 244, 0, 4),
    }
}

fn work(jobset: &mut Value) -> &mut Value {
    &mut jobset["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]
}

fn pod(change: &dyn Fn(&mut Value)) -> Result<LocalPod, PodError> {
    objects(&|jobset| change(work(jobset))).pod(&facts(), Path::new("/scratch"))
}

fn env_of(pod: &LocalPod, name: &str) -> Option<String> {
    let mut values = pod.env.iter().filter(|(n, _)| n == name).map(|(_, v)| v.clone());
    let value = values.next();
    assert_eq!(values.next(), None, "{name} is set twice");
    value
}

#[test]
fn hosts_have_short_service_and_full_names_in_rank_order() {
    let objects = objects(&|_| {});
    let file = objects.hosts_file(|n| Ipv4Addr::new(10, 0, 0, n as u8));
    assert_eq!(
        file.lines().skip(2).collect::<Vec<_>>(),
        [
            "10.0.0.0 hello-launcher-0-0.net.hpc.svc.cluster.local hello-launcher-0-0.net hello-launcher-0-0",
            "10.0.0.1 hello-worker-0-0.net.hpc.svc.cluster.local hello-worker-0-0.net hello-worker-0-0",
            "10.0.0.2 hello-worker-0-1.net.hpc.svc.cluster.local hello-worker-0-1.net hello-worker-0-1",
        ]
    );
    assert!(objects.resolver_file().starts_with("search hpc.svc.cluster.local"));
}

#[test]
fn the_container_with_the_agent_is_the_main_one() {
    let plain = pod(&|_| {}).unwrap();
    assert_eq!(plain.argv, [paths::AGENT, "broker"]);
    assert_eq!((plain.grace_seconds, plain.working_dir.as_path()), (5, Path::new("/home/me")));
    let there = pod(&|p| p["containers"][1]["workingDir"] = json!("/data")).unwrap();
    assert_eq!(there.working_dir, Path::new("/data"));
}

#[test]
fn downward_values_and_references_fill_the_environment() {
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let pod = pod(&|p| {
        p["containers"][1]["resources"] = json!({"limits": {"cpu": "4"}});
        p["containers"][1]["envFrom"] = json!([
            {"secretRef": {"name": "conf"}, "prefix": "C_"},
            {"secretRef": {"name": "absent", "optional": true}},
            {"configMapRef": {"name": "absent", "optional": true}},
        ]);
        p["containers"][1]["env"] = json!([
            {"name": "POD", "valueFrom": field("metadata.name")},
            {"name": "NS", "valueFrom": field("metadata.namespace")},
            {"name": "UID", "valueFrom": field("metadata.uid")},
            {"name": "IP", "valueFrom": field("status.podIP")},
            {"name": "NODE", "valueFrom": field("spec.nodeName")},
            {"name": "TEAM", "valueFrom": field("metadata.labels['team']")},
            {"name": "NOTE", "valueFrom": field("metadata.annotations['note']")},
            {"name": "ATTEMPT",
             "valueFrom": field("metadata.labels['jobset.sigs.k8s.io/restart-attempt']")},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "conf", "key": "b"}}},
            {"name": "NONE",
             "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "z", "optional": true}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "BOTH", "value": "$(POD)/$(TEAM) $$(POD) $(NOBODY) $"},
            {"name": "PATH", "value": "/x:$(PATH)"},
        ]);
    })
    .unwrap();
    for (name, value) in [
        ("POD", "hello-worker-0-1-abcde"),
        ("NS", "hpc"),
        ("UID", "pod-uid"),
        ("IP", "10.244.0.4"),
        ("NODE", "here"),
        ("TEAM", "a"),
        ("NOTE", "b"),
        ("ATTEMPT", "2"),
        ("KEY", "2"),
        ("CPU", "4"),
        ("C_a", "1"),
        ("BOTH", "hello-worker-0-1-abcde/a $(POD) $(NOBODY) $"),
        ("PATH", "/x:/bin"),
        ("HOSTNAME", "hello-worker-0-1"),
        ("JOB_COMPLETION_INDEX", "1"),
    ] {
        assert_eq!(env_of(&pod, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(env_of(&pod, "NONE"), None);
}

#[test]
fn volumes_become_mounts_and_the_agent_is_bound() {
    let pod = pod(&|p| {
        p["volumes"] = json!([
            {"name": "bin", "emptyDir": {}},
            {"name": "conf", "secret": {"secretName": "conf", "defaultMode": 0o444}},
            {"name": "sec", "secret": {"secretName": "sec",
                "items": [{"key": "seed", "path": "deep/seed", "mode": 0o400}]}},
            {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            {"name": "work", "emptyDir": {}},
            {"name": "data", "hostPath": {"path": "/srv"}},
            {"name": "info", "downwardAPI": {"items": [
                {"path": "team", "fieldRef": {"fieldPath": "metadata.labels['team']"}}]}},
        ]);
        p["containers"][1]["volumeMounts"] = json!([
            {"name": "work", "mountPath": "/a/b", "subPath": "s"},
            {"name": "data", "mountPath": "/a"},
            {"name": "bin", "mountPath": paths::BIN_DIR, "readOnly": true},
            {"name": "conf", "mountPath": "/quorate/config", "readOnly": true},
            {"name": "sec", "mountPath": "/seed"},
            {"name": "run", "mountPath": "/quorate/run"},
            {"name": "info", "mountPath": "/info"},
        ]);
    })
    .unwrap();
    let at = |path: &str| pod.mounts.iter().find(|m| m.path == Path::new(path)).unwrap();
    assert_eq!(at(paths::AGENT).source, Source::Host("/opt/quorate-agent".into()));
    assert_eq!(at("/quorate/run").source, Source::Memory(Some(64 << 20)));
    assert_eq!(at("/a/b").source, Source::Host("/scratch/work/s".into()));
    assert!(pod.directories.contains(&PathBuf::from("/scratch/work/s")));
    assert_eq!(at("/a").source, Source::Host("/srv".into()));
    let files = |path: &str| match &at(path).source {
        Source::Files(files) => files.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((files("/quorate/config").len(), files("/quorate/config")[0].mode), (2, 0o444));
    assert!(at("/quorate/config").read_only && !at("/a").read_only);
    let seed = &files("/seed")[0];
    assert_eq!((seed.path.as_path(), seed.mode), (Path::new("deep/seed"), 0o400));
    assert_eq!(seed.bytes, [0, 1, 2]);
    assert_eq!(files("/info")[0].bytes, b"a");
    let place = |path: &str| pod.mounts.iter().position(|m| m.path == Path::new(path)).unwrap();
    assert!(place("/a") < place("/a/b"), "parents are mounted first");
}

#[test]
fn temporary_files_of_a_pod_are_its_own_unless_the_container_says_where_they_go() {
    let own = |pod: &LocalPod| {
        let mount = pod.mounts.iter().find(|m| m.path == Path::new("/quorate/tmp"));
        mount.map(|m| (m.source.clone(), m.read_only))
    };
    let dir = PathBuf::from("/scratch/.tmp");
    let plain = pod(&|_| {}).unwrap();
    assert_eq!(env_of(&plain, "TMPDIR").as_deref(), Some("/quorate/tmp"));
    assert_eq!(own(&plain), Some((Source::Host(dir.clone()), false)));
    assert!(plain.directories.contains(&dir));
    // Where nothing is mounted the variable leads to the directory itself.
    assert_eq!(env_of(&plain.unmounted(), "TMPDIR").as_deref(), Some("/scratch/.tmp"));

    let named = pod(&|p| p["containers"][1]["env"] = json!([{"name": "TMPDIR", "value": "/fast"}]));
    let named = named.unwrap();
    assert_eq!((env_of(&named, "TMPDIR").as_deref(), own(&named)), (Some("/fast"), None));
    let mounted = pod(&|p| {
        p["volumes"] = json!([{"name": "tmp", "emptyDir": {}}]);
        p["containers"][1]["volumeMounts"] = json!([{"name": "tmp", "mountPath": "/tmp"}]);
    })
    .unwrap();
    assert_eq!((env_of(&mounted, "TMPDIR"), own(&mounted)), (None, None));
}

#[test]
fn what_only_a_cluster_has_is_named() {
    let volume = |kind: Value| {
        move |p: &mut Value| {
            p["volumes"] = json!([kind.clone()]);
            p["volumes"][0]["name"] = json!("v");
            p["containers"][1]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        }
    };
    let cases: [(Value, &str); 5] = [
        (json!({"persistentVolumeClaim": {"claimName": "c"}}), "needs a Kubernetes cluster"),
        (json!({"configMap": {"name": "other"}}), "ConfigMap other exists in a Kubernetes cluster"),
        (json!({"secret": {"secretName": "other"}}), "Secret other exists in a Kubernetes cluster"),
        (json!({"emptyDir": {"medium": "HugePages-2Mi"}}), "huge pages"),
        (json!({"hostPath": {"path": "/x", "type": "DirectoryOrCreate"}}), "never created"),
    ];
    for (kind, why) in cases {
        let error = pod(&volume(kind)).unwrap_err().to_string();
        assert!(error.starts_with("volume v of worker") && error.contains(why), "{error}");
    }
    let error = pod(&|p| {
        p["containers"][1]["env"] =
            json!([{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.nope"}}}]);
    });
    assert_eq!(
        error.unwrap_err().to_string(),
        "variable X of worker has no value on one machine: field status.nope is not known"
    );
}

#[test]
fn quantities_are_bytes() {
    for (text, bytes) in [("64Mi", 64 << 20), ("1.5Gi", 3 << 29), ("2k", 2000), ("7", 7)] {
        assert_eq!(quantity_bytes(text), Ok(bytes), "{text}");
    }
    assert!(quantity_bytes("much").is_err() && quantity_bytes("-1Mi").is_err());
}
