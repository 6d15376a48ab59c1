//! Objects of somebody else under names that a cluster wants: left as they are to the byte, named in a
//! condition, and waited for.
//!
//! A name of a Job is JobSet's to find taken; what is told then are its words.

use crate::{IMAGE, LAB};
use quorate_e2e::proxy::transparent;
use quorate_e2e::{Controller, Namespace};
use serde_json::Value;
use std::thread;

/// Kind, the cluster that wants its name, and what lies in the way.
const FOREIGN: [(&str, &str, &str); 5] = [
    ("Service", "wants-service", "spec: {clusterIP: None, selector: {app: theirs}}"),
    (
        "JobSet",
        "wants-jobset",
        "spec: {suspend: true, replicatedJobs: [{name: theirs, template: {spec: \
      {template: {spec: {restartPolicy: Never, containers: [{name: main, image: 'localhost/busybox:v1'}]}}}}}]}",
    ),
    ("Secret", "wants-secret", "stringData: {theirs: 'yes'}"),
    ("NetworkPolicy", "wants-policy", "spec: {podSelector: {matchLabels: {app: theirs}}}"),
    (
        "Job",
        "wants-job",
        "spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: \
      [{name: main, image: 'localhost/busybox:v1'}]}}}",
    ),
];

fn api_version(kind: &str) -> &'static str {
    match kind {
        "JobSet" => "jobset.x-k8s.io/v1alpha2",
        "NetworkPolicy" => "networking.k8s.io/v1",
        "Job" => "batch/v1",
        _ => "v1",
    }
}

/// The name of the cluster's object of a kind.
fn wanted(kind: &str, cluster: &str, uid: &str) -> String {
    match kind {
        "Secret" => quorate_plan::names::secret_of(cluster, Some(uid)),
        "Job" => format!("{cluster}-launcher-0"),
        _ => cluster.to_owned(),
    }
}

#[test]
fn foreign_objects_of_wanted_names_stay_as_they_are_and_are_named() {
    let lab = &*LAB;
    let place = Namespace::new(lab, "foreign");
    // Names have a part of the UID, so theirs can only be there before the controller is.
    let objects: Vec<(&str, String, Value)> = FOREIGN
        .iter()
        .map(|(kind, cluster, body)| {
            place.minicluster(cluster, IMAGE);
            let uid = place.get("minicluster", cluster).unwrap()["metadata"]["uid"].clone();
            let name = wanted(kind, cluster, uid.as_str().unwrap());
            let version = api_version(kind);
            // Even our own label does not make an object ours.
            let labels = format!("{{{}: {cluster}}}", quorate_plan::labels::CLUSTER);
            let metadata = format!("{{name: {name}, labels: {labels}}}");
            place.create(&format!(
                "apiVersion: {version}\nkind: {kind}\nmetadata: {metadata}\n{body}"
            ));
            (*kind, name.clone(), settled(&place, kind, &name))
        })
        .collect();
    let pod = "wants-nothing-launcher-0-0-abcde";
    place.minicluster("wants-nothing", IMAGE);
    place.create(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {pod}, labels: {{quorate.dev/cluster: \
         wants-nothing, quorate.dev/group: launcher}}}}\nspec: {{schedulingGates: [{{name: \
         example.org/never}}], containers: [{{name: main, image: 'localhost/busybox:v1'}}]}}"
    ));
    let stranger = settled(&place, "pod", pod);

    let controller = Controller::start(lab, "foreign", &place.name, &[], transparent());
    place.state("wants-nothing", "Ready");
    for ((kind, cluster, _), (_, name, _)) in FOREIGN.iter().zip(&objects) {
        // A Job is JobSet's to make, and its words come with JobSet's.
        let (condition, reason) = match *kind {
            "Job" => ("Quorate", "JobsRefused"),
            _ => ("Accepted", "NameTaken"),
        };
        let message = place.condition(cluster, condition, "False", reason);
        assert!(message.contains(kind) && message.contains(name.as_str()), "{message}");
        let about = format!("involvedObject.name={cluster},reason={reason}");
        let events =
            || place.kubectl(&["get", "events", "-o", "name", "--field-selector", &about]).unwrap();
        let told = place.eventually("an event tells it", events, |told| !told.is_empty());
        assert_eq!(told.lines().count(), 1, "{told}");
        let object = place.get(kind, name).unwrap();
        let before = &objects.iter().find(|(_, one, _)| one == name).unwrap().2;
        assert_eq!(object, *before, "{kind} {name} was changed");
    }
    assert_eq!(place.get("pod", pod).unwrap(), stranger);
    for (kind, name, _) in &objects {
        place.kubectl(&["delete", kind, name]).unwrap();
    }
    thread::scope(|scope| {
        for (_, cluster, _) in FOREIGN {
            let place = &place;
            scope.spawn(move || place.state(cluster, "Ready"));
        }
    });
    assert_eq!(place.get("pod", pod).unwrap(), stranger);
    drop(controller);
    place.kubectl(&["delete", "mc", "--all"]).unwrap();
}

/// An object once its own controllers have said all that they have to say.
fn settled(place: &Namespace<'_>, kind: &str, name: &str) -> Value {
    let last = std::cell::RefCell::new(Value::Null);
    let same = || {
        let object = place.get(kind, name).unwrap_or_default();
        let before = last.replace(object.clone());
        // JobSet says that it stands still before it has made its Job, and counts that afterwards.
        let told = match kind {
            "JobSet" => object["status"]["replicatedJobsStatus"][0]["suspended"] == 1,
            "Job" => object["status"]["conditions"].is_array(),
            _ => true,
        };
        (before == object && told, object)
    };
    place.eventually("it is settled", same, |(same, _)| *same).1
}
