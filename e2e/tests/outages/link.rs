//! The leader's own link is cut where its packets pass, on its node: it lives on, and its node is well.

use crate::{IMAGE, alone, restarts};
use quorate_e2e::{Lab, NAMESPACE, Namespace, SYSTEM, ledger};
use quorate_testbed::Node;
use serde_json::Value;

/// The lease's duration, as the controller has it unless told otherwise, and what a busy machine may add,
/// in seconds.
const BOUND: f64 = 15.0 + 10.0;

fn holder(lab: &Lab) -> String {
    let path = "jsonpath={.spec.holderIdentity}";
    lab.kubectl(&["-n", SYSTEM, "get", "lease", "quorate", "-o", path]).unwrap()
}

/// What the node of a pod passes on between it and all others.
struct Link<'lab> {
    lab: &'lab Lab,
    node: Node,
    address: String,
}

impl<'lab> Link<'lab> {
    fn of(lab: &'lab Lab, pod: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let node = Node::parse(&text(&pod["spec"]["nodeName"])).unwrap();
        Self { lab, node, address: text(&pod["status"]["podIP"]) }
    }

    /// Drops, or no longer drops, all that the node passes on from and to the pod. What the kubelet asks
    /// the pod comes from the node itself.
    fn set(&self, up: bool) {
        let action = if up { "-D" } else { "-I" };
        for side in ["-s", "-d"] {
            let mut command = self.lab.cluster.exec(Some(self.node)).unwrap();
            let rule = ["iptables", action, "FORWARD", side, &self.address, "-j", "DROP"];
            let output = command.args(rule).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
    }
}

/// What a controller's pod wrote, in its order: of the lease, or of everything else.
fn writes(lab: &Lab, pod: &str, lease: bool) -> Vec<ledger::Write> {
    let mut all = ledger::writes(lab, if lease { SYSTEM } else { NAMESPACE });
    all.retain(|write| {
        write.pod == pod && (write.resource == "leases") == lease && write.code < 300
    });
    all
}

#[test]
fn a_leader_whose_packets_are_lost_is_followed_within_its_lease_and_writes_nothing_afterwards() {
    let lab = &*alone();
    let place = Namespace::existing(lab, NAMESPACE);
    let before = restarts(lab);
    let first = holder(lab);
    place.minicluster("link-before", IMAGE);
    place.state("link-before", "Ready");
    let pod = lab.list("pods", SYSTEM).into_iter().find(|pod| pod["metadata"]["name"] == first);
    let link = Link::of(lab, &pod.unwrap());

    link.set(false);
    place.minicluster("link-during", IMAGE);
    let next = place.eventually("another one leads", || holder(lab), |next| *next != first);
    place.state("link-during", "Ready");
    assert_eq!(place.get("minicluster", "link-before").unwrap()["status"]["state"], "Ready");
    link.set(true);

    let log = || lab.kubectl(&["-n", SYSTEM, "logs", &first]).unwrap();
    place.eventually("the first says that it has lost", log, |log| log.contains("lost the lease"));
    place.minicluster("link-after", IMAGE);
    place.state("link-after", "Ready");
    assert_eq!(holder(lab), next);
    let (old, new) = (writes(lab, &first, false), writes(lab, &next, false));
    let (last, begin) = (old.last().unwrap(), new.first().unwrap());
    assert!(last.at < begin.at, "{last:?} is not before {begin:?}");
    let again = new.iter().find(|write| write.name.starts_with("link-before"));
    assert_eq!(again, None, "what the first had done is not done again");
    let took = writes(lab, &next, true).first().unwrap().seconds();
    let renewals = writes(lab, &first, true).into_iter().map(|write| write.seconds());
    let last = renewals.filter(|at| *at < took).fold(f64::MIN, f64::max);
    assert!(took - last < BOUND, "{} s without a leader", took - last);
    assert_eq!(restarts(lab), before, "both lived on");
    place.kubectl(&["delete", "mc", "--all"]).unwrap();
}
