//! Others that write to a cluster's objects: what is done about it is written down, and done once.
//!
//! | what somebody does | what the controller does |
//! | --- | --- |
//! | suspends the JobSet while `spec.suspend` says nothing | tells it, and leaves it so |
//! | suspends it against `spec.suspend: false` | resumes it, once for each time |
//! | changes labels and annotations | nothing; the label that watches go by is put back |
//! | deletes the NetworkPolicy | makes it again |
//! | deletes the Secret | nothing while the cluster runs: another seed would divide it |
//! | deletes the JobSet | makes the cluster again, from its first attempt |

use crate::{IMAGE, LAB};
use quorate_e2e::proxy::{Write, transparent};
use quorate_e2e::{Controller, Namespace, condition};
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// A loop of writes would fill such a span with hundreds of them.
const WATCHED: Duration = Duration::from_secs(4);

/// Writes of a controller that do not belong to a status, while nothing is to be done.
fn writes_meanwhile(controller: &Controller, span: Duration) -> Vec<String> {
    let before = controller.proxy.writes().len();
    sleep(span);
    let said = |write: &Write| {
        !write.call.path.contains("/status") && !write.call.path.contains("/events")
    };
    let writes = controller.proxy.writes();
    writes[before..]
        .iter()
        .filter(|write| said(write))
        .map(|write| format!("{} {}", write.call.method, write.call.path))
        .collect()
}

#[test]
fn what_others_change_is_answered_once_and_never_fought_over() {
    let lab = &*LAB;
    let place = Namespace::new(lab, "writers");
    let controller = Controller::start(lab, "writers", &place.name, &[], transparent());
    place.minicluster("quiet", IMAGE);
    place.minicluster("awake", &format!("suspend: false\n{IMAGE}"));
    place.state("quiet", "Ready");
    place.state("awake", "Ready");
    let suspended = |name: &str| place.get("jobset", name).unwrap()["spec"]["suspend"].clone();
    let uid = |kind: &str, name: &str| {
        place.get(kind, name).map(|object| object["metadata"]["uid"].clone()).unwrap_or_default()
    };

    // Labels and annotations of others, and our own label.
    let jobset = uid("jobset", "quiet");
    let theirs = json!({"metadata": {
        "labels": {"team": "hpc", "quorate.dev/cluster": null},
        "annotations": {"example.org/note": "kept"},
    }});
    place.patch("jobset", "quiet", &theirs);
    let label = || {
        place.get("jobset", "quiet").unwrap()["metadata"]["labels"]["quorate.dev/cluster"].clone()
    };
    place.eventually("the label is back", label, |label| *label == "quiet");
    let object = place.get("jobset", "quiet").unwrap();
    assert_eq!(object["metadata"]["labels"]["team"], "hpc");
    assert_eq!(object["metadata"]["annotations"]["example.org/note"], "kept");
    assert_eq!(object["metadata"]["uid"], jobset);
    assert_eq!(writes_meanwhile(&controller, WATCHED), [""; 0]);
    let object = place.get("minicluster", "quiet").unwrap();
    assert_eq!(object["status"]["state"], "Ready", "{object}");

    // Suspension.
    place.patch("jobset", "awake", &json!({"spec": {"suspend": true}}));
    place.eventually("it is resumed", || suspended("awake"), |suspend| *suspend == false);
    place.patch("jobset", "quiet", &json!({"spec": {"suspend": true}}));
    place.condition("quiet", "Suspended", "True", "SuspendedByOther");
    place.state("awake", "Ready");
    assert_eq!(writes_meanwhile(&controller, WATCHED), [""; 0]);
    assert_eq!(suspended("quiet"), true);
    place.patch("jobset", "quiet", &json!({"spec": {"suspend": false}}));
    place.state("quiet", "Ready");

    // Deletion.
    let secret = uid("secrets", &name_of(&place, "secrets", "quiet"));
    let policy = uid("networkpolicy", "quiet");
    place.kubectl(&["delete", "networkpolicy", "quiet"]).unwrap();
    place.eventually(
        "it is made again",
        || uid("networkpolicy", "quiet"),
        |uid| !uid.is_null() && *uid != policy,
    );
    let name = name_of(&place, "secrets", "quiet");
    place.kubectl(&["delete", "secret", &name]).unwrap();
    assert_eq!(writes_meanwhile(&controller, WATCHED), [""; 0]);
    assert_eq!(uid("secret", &name), Value::Null);
    let object = place.get("minicluster", "quiet").unwrap();
    assert_eq!(condition(&object, "Quorate")["status"], "True", "{object}");
    place.kubectl(&["delete", "jobset", "quiet", "--wait=false"]).unwrap();
    place.eventually(
        "it is made again",
        || uid("jobset", "quiet"),
        |uid| !uid.is_null() && *uid != jobset,
    );
    place.state("quiet", "Ready");
    assert_ne!(uid("secret", &name), secret);
    assert_eq!(writes_meanwhile(&controller, WATCHED), [""; 0]);
    drop(controller);
    place.kubectl(&["delete", "mc", "--all"]).unwrap();
}

/// The cluster's one object of a kind.
fn name_of(place: &Namespace<'_>, kind: &str, cluster: &str) -> String {
    let selector = format!("{}={cluster}", quorate_plan::labels::CLUSTER);
    let names = place
        .kubectl(&["get", kind, "-l", &selector, "-o", "jsonpath={.items[*].metadata.name}"])
        .unwrap();
    assert_eq!(names.split(' ').count(), 1, "{kind} of {cluster}: {names}");
    names
}
