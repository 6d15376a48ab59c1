//! Nodes that an administrator keeps free of pods.

use crate::{IMAGE, alone, explained};
use quorate_e2e::{NAMESPACE, Namespace};

#[test]
fn a_taint_that_no_pod_tolerates_is_named_until_it_is_taken_off() {
    let lab = &*alone();
    let place = Namespace::existing(lab, NAMESPACE);
    let taint = |text: &str| lab.kubectl(&["taint", "nodes", "--all", text]).unwrap();
    taint("example.com/upkeep=tonight:NoSchedule");
    place.minicluster("tainted", &format!("size: 2\n{IMAGE}"));
    let object =
        place.until("tainted", "explained", |object| object["status"]["reason"] == "Unschedulable");
    assert_eq!(
        object["status"]["message"],
        "both pods cannot be scheduled: every node has a taint that the pods do not tolerate",
    );
    explained(lab, "tainted", &object);
    taint("example.com/upkeep-");
    place.state("tainted", "Ready");
    place.kubectl(&["delete", "mc", "tainted"]).unwrap();
}
