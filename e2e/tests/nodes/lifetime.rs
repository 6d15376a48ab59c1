//! Ends by the clock, and deletion at any moment.

use crate::{LAB, summary, template};

#[test]
fn a_time_limit_is_final_although_there_are_restarts_left() {
    let cluster = "limited";
    let template = template("quiet", "");
    LAB.minicluster(
        cluster,
        &format!(
            "size: 2\nslots: 1\nactiveDeadlineSeconds: 12\nttlSecondsAfterFinished: 5\n\
             failurePolicy: {{maxRestarts: 3}}\n{template}program: {{command: [sleep, '3600']}}"
        ),
    );
    let object = LAB.state(cluster, "Failed");
    assert_eq!((summary(&object).0, summary(&object).1), (0, 0), "{}", object["status"]);
    assert_eq!(object["status"]["reason"], "DeadlineExceeded", "{}", object["status"]);
    LAB.eventually("its time is over", || LAB.get("minicluster", cluster).is_none(), |gone| *gone);
}

fn left(cluster: &str) -> [usize; 5] {
    ["jobsets", "jobs", "pods", "secrets", "networkpolicies"]
        .map(|kind| LAB.of(kind, cluster).len())
}

#[test]
fn a_cluster_can_be_deleted_at_any_moment_and_leaves_nothing() {
    let template = template("quiet", "");
    let make = |cluster: &str, more: &str| {
        LAB.minicluster(cluster, &format!("size: 3\nslots: 1\n{more}{template}"));
    };
    let drop = |cluster: &str| {
        LAB.kubectl(&["delete", "mc", cluster, "--wait=false"]).unwrap();
    };
    make("gone-at-once", "");
    drop("gone-at-once");
    for (cluster, kind) in [("gone-planned", "jobsets"), ("gone-started", "pods")] {
        make(cluster, "");
        LAB.eventually(kind, || LAB.of(kind, cluster).len(), |count| *count > 0);
        drop(cluster);
    }
    make("gone-suspended", "suspend: true\n");
    make("gone-running", "");
    LAB.state("gone-suspended", "Suspended");
    drop("gone-suspended");
    LAB.state("gone-running", "Ready");
    drop("gone-running");
    for cluster in
        ["gone-at-once", "gone-planned", "gone-started", "gone-suspended", "gone-running"]
    {
        LAB.eventually(cluster, || LAB.get("minicluster", cluster).is_none(), |gone| *gone);
        LAB.eventually(cluster, || left(cluster), |left| left.iter().all(|count| *count == 0));
    }
}
