//! Parts of the control plane that go and come back.

use crate::{IMAGE, alone, made, restarts};
use quorate_e2e::{NAMESPACE, Namespace, ledger, of_its_generation};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long JobSet's controller is away.
const OUTAGE: Duration = Duration::from_mins(1);

#[test]
fn a_program_runs_through_a_restart_of_the_api_server() {
    let lab = &*alone();
    let place = Namespace::existing(lab, NAMESPACE);
    let before = restarts(lab);
    place.minicluster(
        "through",
        &format!("size: 2\n{IMAGE}\nprogram: {{command: [sh, -c, 'sleep 6; echo through']}}"),
    );
    place.minicluster("stays", IMAGE);
    place.state("stays", "Ready");
    place.state("through", "Running");
    lab.cluster.restart("apiserver").unwrap();
    let object = place.state("through", "Succeeded");
    assert_eq!(object["status"]["exitCode"], 0, "{object}");
    assert_eq!(object["status"]["attempt"], 0, "{object}");
    assert_eq!(place.get("minicluster", "stays").unwrap()["status"]["state"], "Ready");
    assert_eq!(restarts(lab), before, "the controllers lived on");
    let made = made(lab, "through");
    for kind in ["secrets", "networkpolicies", "jobsets"] {
        assert_eq!(made.get(kind), Some(&1), "{kind}: {made:?}");
    }
    place.kubectl(&["delete", "mc", "through", "stays"]).unwrap();
}

/// Waits until the controller has taken note of an object as it is now.
fn noted(place: &Namespace<'_>, name: &str) {
    place.until(name, "noted", of_its_generation);
}

#[test]
fn wishes_that_change_for_a_minute_without_jobset_s_controller_come_true_when_it_is_back() {
    let lab = &*alone();
    let place = Namespace::existing(lab, NAMESPACE);
    let before = restarts(lab);
    for name in ["down-suspended", "down-deleted", "down-fickle", "down-untouched"] {
        place.minicluster(name, IMAGE);
    }
    place.minicluster("down-resumed", &format!("suspend: true\n{IMAGE}"));
    place.state("down-resumed", "Suspended");
    for name in ["down-suspended", "down-deleted", "down-fickle"] {
        place.state(name, "Ready");
    }
    // Its launcher tells of its queue a moment after it is up.
    let untouched = place.until("down-untouched", "ready with its queue", |object| {
        let status = &object["status"];
        of_its_generation(object) && status["state"] == "Ready" && status["queue"].is_object()
    });
    let wish = |name: &str, suspend: bool| {
        place.patch("minicluster", name, &json!({"spec": {"suspend": suspend}}));
    };

    lab.cluster.stop("jobset").unwrap();
    let down = Instant::now();
    wish("down-suspended", true);
    wish("down-resumed", false);
    place.kubectl(&["delete", "mc", "down-deleted"]).unwrap();
    place.minicluster("down-created", IMAGE);
    let said = |object: &Value| {
        let message = object["status"]["message"].as_str().unwrap_or_default();
        message.contains("JobSet down-created cannot be made yet") && message.contains("webhook")
    };
    place.until("down-created", "waiting for the webhook by name", said);
    // Of wishes that are taken back before they could come true, the last one counts.
    let mut changes = 0;
    while down.elapsed() < OUTAGE {
        changes += 1;
        for suspend in [true, false] {
            wish("down-fickle", suspend);
            noted(&place, "down-fickle");
        }
        let short = format!("down-short-{changes}");
        place.minicluster(&short, IMAGE);
        noted(&place, &short);
        place.kubectl(&["delete", "mc", &short]).unwrap();
    }
    let object = place.get("minicluster", "down-untouched").unwrap();
    assert_eq!(object["status"], untouched["status"]);
    lab.cluster.start("jobset").unwrap();

    place.state("down-suspended", "Suspended");
    for name in ["down-resumed", "down-created", "down-fickle"] {
        place.state(name, "Ready");
    }
    for name in ["down-created", "down-fickle"] {
        let made = made(lab, name);
        assert_eq!(made.get("jobsets"), Some(&1), "{name}: {made:?}");
    }
    let gone = |name: &String| name.contains("down-deleted") || name.contains("down-short");
    let left = || place.census().into_iter().filter(gone).count();
    place.eventually("nothing of the deleted ones is left", left, |left| *left == 0);
    // It asked again and again, and ever more rarely.
    let refused = ledger::writes(lab, NAMESPACE).into_iter().filter(|write| {
        write.verb == "create" && write.resource == "jobsets" && write.name == "down-created"
    });
    let refused = refused.filter(|write| write.code >= 500).count();
    assert!((2..=30).contains(&refused), "{refused} refused tries in a minute");
    assert_eq!(restarts(lab), before);
    place.kubectl(&["delete", "mc", "--all"]).unwrap();
}
