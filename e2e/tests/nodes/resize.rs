//! Clusters that grow and shrink while they run.

use crate::{LAB, delete, inside, name, pod, pods, template, text, uid};
use std::collections::BTreeSet;

fn names(cluster: &str) -> BTreeSet<String> {
    pods(cluster).into_iter().map(|(name, _)| name).collect()
}

fn expected(workers: u32) -> BTreeSet<String> {
    (0..workers)
        .map(|index| format!("worker-0-{index}"))
        .chain(["launcher-0-0".to_owned()])
        .collect()
}

#[test]
fn a_running_overlay_takes_new_ranks_in_and_lets_the_highest_go() {
    let cluster = "elastic-overlay";
    let (template, program) = (template("quiet", ""), "program: {command: [sleep, '3600']}");
    LAB.minicluster(
        cluster,
        &format!(
            "size: 2\nminSize: 1\nmaxSize: 5\nslots: 1\n\
             failurePolicy: {{maxRestarts: 1}}\n{template}{program}"
        ),
    );
    LAB.state(cluster, "Running");
    let kept = ["launcher-0-0", "worker-0-0"].map(|short| uid(&pod(cluster, short)).to_owned());
    for size in [5, 3, 4, 2] {
        LAB.kubectl(&["scale", "mc", cluster, &format!("--replicas={size}")]).unwrap();
        LAB.until(cluster, &format!("of size {size}"), |object| {
            object["status"]["size"] == size && object["status"]["online"] == size
        });
        let pods = LAB.eventually("its pods", || names(cluster), |names| names.len() == size);
        assert_eq!(pods, expected(u32::try_from(size).unwrap() - 1));
        let launcher = name(&pod(cluster, "launcher-0-0")).to_owned();
        let ask = || {
            inside(&launcher, "/quorate/bin/quorate-agent overlay status -o json")
                .unwrap_or_default()
        };
        let ranks = format!("\"onlineRanks\":\"0-{}\"", size - 1);
        LAB.eventually(&ranks, ask, |text| text.contains(&ranks));
    }
    let still = ["launcher-0-0", "worker-0-0"].map(|short| uid(&pod(cluster, short)).to_owned());
    assert_eq!(kept, still, "nobody else was disturbed");
    let object = LAB.get("minicluster", cluster).unwrap();
    assert_eq!(
        (&object["status"]["attempt"], &object["status"]["state"]),
        (&0.into(), &"Running".into())
    );
    let refused = LAB.kubectl(&["scale", "mc", cluster, "--replicas=6"]).unwrap_err();
    assert!(refused.contains("maxSize"), "{refused}");
    // A restart begins with the template's size, which is not the one that is wanted.
    LAB.kubectl(&["scale", "mc", cluster, "--replicas=4"]).unwrap();
    LAB.until(cluster, "of size 4", |object| object["status"]["online"] == 4);
    let launcher = pod(cluster, "launcher-0-0");
    LAB.kubectl(&["delete", "pod", name(&launcher), "--wait=false"]).unwrap();
    LAB.until(cluster, "of size 4 again", |object| {
        object["status"]["attempt"] == 1 && object["status"]["online"] == 4
    });
    assert_eq!(names(cluster), expected(3));
    delete(cluster);
}

#[test]
fn an_autoscaler_finds_its_selector_and_scale_from_the_first_status_on() {
    let cluster = "scaled";
    let template = template("quiet", "");
    LAB.minicluster(cluster, &format!("size: 2\nminSize: 1\nmaxSize: 3\nslots: 1\n{template}"));
    let object = LAB.until(cluster, "told of", |object| object["status"]["state"].is_string());
    let selector = text(&object["status"]["selector"]).to_owned();
    assert_eq!(selector, format!("quorate.dev/cluster={cluster}"), "{}", object["status"]);
    let autoscaler = format!(
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {{name: {cluster}}}\n\
         spec:\n  scaleTargetRef: {{apiVersion: quorate.dev/v1alpha1, kind: MiniCluster, name: {cluster}}}\n  \
         minReplicas: 3\n  maxReplicas: 3\n  metrics: [{{type: Resource, resource: {{name: cpu, \
         target: {{type: Utilization, averageUtilization: 80}}}}}}]\n"
    );
    LAB.create(&autoscaler).unwrap();
    // Below its least size it needs no metric to act.
    LAB.until(cluster, "scaled up by the autoscaler", |object| {
        object["status"]["size"] == 3 && object["status"]["online"] == 3
    });
    let autoscaler = LAB.get("hpa", cluster).unwrap();
    let conditions = autoscaler["status"]["conditions"].as_array().unwrap();
    let able = conditions.iter().find(|one| one["type"] == "AbleToScale").unwrap();
    assert_eq!(able["status"], "True", "{able}");
    assert!(conditions.iter().all(|one| one["reason"] != "InvalidSelector"), "{conditions:?}");
    LAB.kubectl(&["delete", "hpa", cluster]).unwrap();
    delete(cluster);
}
