//! Names that come again, names that are alike, and wishes that change faster than they are carried out.

use crate::{IMAGE, LAB};
use quorate_e2e::proxy::transparent;
use quorate_e2e::{Controller, Namespace, ledger, of_its_generation};
use serde_json::{Value, json};
use std::thread;

#[test]
fn a_name_that_is_deleted_and_made_again_twenty_times_ends_as_the_last_one() {
    let lab = &*LAB;
    let place = Namespace::new(lab, "again");
    let controller = Controller::start(lab, "again", &place.name, &[], transparent());
    let spec = format!("size: 2\n{IMAGE}");
    place.minicluster("again", &spec);
    for round in 1..20 {
        // At another stage each time: nothing made yet, some objects, pods, a whole cluster.
        if round % 5 == 0 {
            place.state("again", "Ready");
        } else if round % 2 == 0 {
            let jobset = || place.get("jobset", "again").is_some();
            place.eventually("a JobSet is there", jobset, |there| *there);
        }
        place.kubectl(&["delete", "mc", "again"]).unwrap();
        place.minicluster("again", &spec);
    }
    let object = place.state("again", "Ready");
    assert_eq!(object["status"]["attempt"], 0, "{object}");
    let uid = &object["metadata"]["uid"];
    let kinds = ["secrets", "networkpolicies", "jobsets"];
    let ours = || {
        kinds.map(|kind| {
            let found = place.all(kind);
            let owned = found.iter().filter(|one| !one["metadata"]["ownerReferences"].is_null());
            owned
                .map(|one| one["metadata"]["ownerReferences"][0]["uid"] == *uid)
                .collect::<Vec<_>>()
        })
    };
    // The garbage collector is on its way with those of the others.
    place.eventually("one object of each kind, and ours", ours, |ours| {
        ours.iter().all(|owned| *owned == [true])
    });
    let jobset = &place.get("jobset", "again").unwrap()["metadata"]["uid"];
    for pod in place.all("pods") {
        assert_eq!(pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-uid"], *jobset);
    }
    assert_eq!(place.all("pods").len(), 2);
    let writes = ledger::writes(lab, &place.name);
    let made = |resource: &str| {
        let made = |write: &&ledger::Write| {
            write.verb == "create" && write.resource == resource && write.code == 201
        };
        writes.iter().filter(made).count()
    };
    // Twenty lives at most: one that was over before anybody looked has none.
    for resource in kinds {
        assert!(made(resource) <= 20, "{resource}: {}", made(resource));
    }
    place.kubectl(&["delete", "mc", "again"]).unwrap();
    place.eventually("nothing is left", || place.census(), |census| census.len() == 1);
    drop(controller);
}

#[test]
fn clusters_of_similar_names_have_nothing_to_do_with_each_other() {
    let lab = &*LAB;
    let place = Namespace::new(lab, "similar");
    let controller = Controller::start(lab, "similar", &place.name, &[], transparent());
    let names = ["sim", "sim-worker", "sim-worker-0"];
    for name in names {
        place.minicluster(name, &format!("size: 2\n{IMAGE}"));
    }
    // A controller outside of the pods' network counts ready pods, which kubelets tell a moment later.
    let settled = |object: &Option<Value>| {
        object.as_ref().is_some_and(|object| {
            object["status"]["state"] == "Ready" && object["status"]["online"] == 2
        })
    };
    let before: Vec<Value> = names
        .iter()
        .map(|name| place.eventually("all is well", || place.get("minicluster", name), settled))
        .map(Option::unwrap_or_default)
        .collect();
    // The middle one is suspended and goes; the others do not notice.
    place.patch("minicluster", "sim-worker", &json!({"spec": {"suspend": true}}));
    place.state("sim-worker", "Suspended");
    place.kubectl(&["delete", "mc", "sim-worker"]).unwrap();
    let pods = || {
        let pods = place.all("pods");
        let of = |pod: &Value| pod["metadata"]["labels"]["quorate.dev/cluster"] == "sim-worker";
        pods.iter().filter(|pod| of(pod)).count()
    };
    place.eventually("its pods are gone", pods, |pods| *pods == 0);
    for index in [0, 2] {
        let object = place.get("minicluster", names[index]).unwrap();
        assert_eq!(object["status"], before[index]["status"], "{}", names[index]);
    }
    // A group may be called as another cluster's end: then both want one Job, and the first has it.
    place.minicluster("sim-worker-0-x", IMAGE);
    place.state("sim-worker-0-x", "Ready");
    place.kubectl(&["delete", "mc", "sim-worker-0"]).unwrap();
    place.minicluster("sim-worker-0", &format!("groups: [{{name: x-launcher, size: 1}}]\n{IMAGE}"));
    let message = place.condition("sim-worker-0", "Quorate", "False", "JobsRefused");
    assert!(message.contains("sim-worker-0-x-launcher-0"), "{message}");
    let first = place.get("minicluster", "sim-worker-0-x").unwrap();
    assert_eq!(first["status"]["state"], "Ready", "{first}");
    drop(controller);
    place.kubectl(&["delete", "mc", "--all", "--wait=false"]).unwrap();
}

#[test]
fn the_last_of_many_wishes_counts_and_those_that_cannot_be_are_named() {
    let lab = &*LAB;
    let place = Namespace::new(lab, "wishes");
    let controller = Controller::start(lab, "wishes", &place.name, &[], transparent());
    for name in ["ends-awake", "ends-asleep", "edited"] {
        place.minicluster(name, &format!("size: 2\n{IMAGE}"));
    }
    for name in ["ends-awake", "ends-asleep", "edited"] {
        place.state(name, "Ready");
    }
    thread::scope(|scope| {
        for (name, last) in [("ends-awake", false), ("ends-asleep", true)] {
            let place = &place;
            scope.spawn(move || {
                for round in 0..7 {
                    let suspend = (round % 2 == 0) == last;
                    place.patch("minicluster", name, &json!({"spec": {"suspend": suspend}}));
                }
                if last {
                    // It is suspended as soon as the JobSet is; pods still take their time to go.
                    place.until(name, "suspended, and nobody there", |object| {
                        of_its_generation(object)
                            && object["status"]["state"] == "Suspended"
                            && object["status"]["online"] == 0
                    });
                    place.patch("minicluster", name, &json!({"spec": {"suspend": false}}));
                }
                // One writer is on its way with each wish, so the status may be a wish behind its JobSet.
                let both = || {
                    ["minicluster", "jobset"].map(|kind| place.get(kind, name).unwrap_or_default())
                };
                place.eventually("awake and whole", both, |[object, jobset]| {
                    of_its_generation(object)
                        && object["status"]["state"] == "Ready"
                        && object["status"]["online"] == 2
                        && jobset["spec"]["suspend"] == false
                });
            });
        }
        let place = &place;
        scope.spawn(move || {
            let before = place.get("jobset", "edited").unwrap();
            let asked = |spec: Value, field: &str| {
                place.patch("minicluster", "edited", &json!({"spec": spec}));
                let named = place.until("edited", field, |object| {
                    let accepted = quorate_e2e::condition(object, "Accepted");
                    accepted["status"] == "False"
                        && accepted["reason"] == "Immutable"
                        && accepted["message"].as_str().is_some_and(|text| text.contains(field))
                });
                assert_eq!(named["status"]["online"], 2, "it goes on as it was: {named}");
            };
            asked(json!({"image": "localhost/static-program:v1"}), "spec.image");
            asked(json!({"image": "localhost/busybox:v1", "slots": 3}), "spec.slots");
            place.patch("minicluster", "edited", &json!({"spec": {"slots": null}}));
            place.condition("edited", "Accepted", "True", "Planned");
            let after = place.get("jobset", "edited").unwrap();
            assert_eq!(after["spec"], before["spec"]);
            assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
        });
    });
    let last = controller.proxy.writes();
    let suspends = |name: &str| {
        let path = format!("/jobsets/{name}");
        last.iter().filter(|write| write.call.path.ends_with(&path)).count()
    };
    for (name, wishes) in [("ends-awake", 7), ("ends-asleep", 8)] {
        let written = suspends(name);
        assert!(written <= wishes, "{name}: {written} writes for {wishes} wishes");
    }
    assert_eq!(suspends("edited"), 0);
    drop(controller);
    place.kubectl(&["delete", "mc", "--all", "--wait=false"]).unwrap();
}
