//! What an API server can say instead of yes. A proxy says it; other clusters of the same controller are
//! not held up meanwhile.

use crate::{IMAGE, LAB};
use quorate_e2e::proxy::{Call, Fate, Script};
use quorate_e2e::{Controller, Namespace, condition};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What is said to the create of each cluster's JobSet, and whether it is final.
const ANSWERS: [(&str, u16, &str, bool); 8] = [
    ("unauthorized", 401, "Unauthorized", false),
    ("forbidden", 403, "Forbidden", true),
    ("conflict", 409, "Conflict", false),
    ("invalid", 422, "Invalid", true),
    ("too-many", 429, "TooManyRequests", false),
    ("internal", 500, "InternalError", false),
    ("unavailable", 503, "ServiceUnavailable", false),
    ("late", 504, "Timeout", false),
];

/// Moments at which the JobSet of each cluster was asked for.
type Tries = Arc<Mutex<HashMap<&'static str, Vec<Instant>>>>;

/// Answers POSTs of JobSets, one cluster at a time by whose turn it is: a POST does not have the name in
/// its path, so each cluster is in a namespace of its own.
fn script(tries: &Tries, wrong: &Arc<AtomicBool>) -> Script {
    let (tries, wrong) = (Arc::clone(tries), Arc::clone(wrong));
    Box::new(move |call: &Call| {
        if call.method != "POST" || !call.path.ends_with("/jobsets") {
            return Fate::Pass;
        }
        let meant = |(name, ..): &&(&'static str, u16, &'static str, bool)| {
            call.path.contains(&format!("/namespaces/answer-{name}/"))
        };
        let Some((name, code, reason, _)) = ANSWERS.iter().find(meant) else { return Fate::Pass };
        tries.lock().unwrap().entry(name).or_default().push(Instant::now());
        if wrong.load(Ordering::SeqCst) {
            Fate::Answer(*code, reason, "the test says so")
        } else {
            Fate::Pass
        }
    })
}

#[test]
fn what_is_refused_is_told_and_what_fails_is_tried_again_beside_the_others() {
    let lab = &*LAB;
    let places: Vec<Namespace<'_>> = ANSWERS
        .iter()
        .map(|(name, ..)| Namespace::new(lab, &format!("answer-{name}")))
        .chain([Namespace::new(lab, "answer-well")])
        .collect();
    let names: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
    let watched = format!("--watch-namespaces={}", names.join(","));
    let (tries, wrong) = (Tries::default(), Arc::new(AtomicBool::new(true)));
    // As many at the same time as there are scopes: each has a share of one.
    let more = [watched.as_str(), "--concurrency=1"];
    let script = script(&tries, &wrong);
    let well = places.last().unwrap();
    let controller = Controller::start(lab, "answers", &well.name, &more, script);
    for place in &places[..ANSWERS.len()] {
        place.minicluster("asks", IMAGE);
    }
    // By now each of the others has failed at least twice.
    let failed = || tries.lock().unwrap().values().filter(|tries| tries.len() >= 2).count();
    let lasting = ANSWERS.iter().filter(|(.., last)| !last).count();
    well.eventually("they fail", failed, |failed| *failed >= lasting);
    for (place, (name, code, _, last)) in places.iter().zip(&ANSWERS) {
        if *last {
            let message = place.condition("asks", "Accepted", "False", "AdmissionRefused");
            assert!(message.contains("the test says so"), "{name}: {message}");
            let events = place.kubectl(&[
                "get",
                "events",
                "-o",
                "name",
                "--field-selector",
                "involvedObject.kind=MiniCluster,reason=AdmissionRefused",
            ]);
            assert_eq!(events.unwrap().lines().count(), 1, "{name}");
            assert_eq!(tries.lock().unwrap()[name].len(), 1, "{name}: {code} is final");
        } else {
            let object = place.get("minicluster", "asks").unwrap();
            assert_ne!(condition(&object, "Accepted")["status"], "False", "{name}: {object}");
        }
    }
    for name in ["one", "two"] {
        well.minicluster(name, IMAGE);
    }
    well.state("one", "Ready");
    well.state("two", "Ready");
    for (name, .., last) in ANSWERS.iter().filter(|(.., last)| !last) {
        let tries = tries.lock().unwrap()[name].clone();
        let waits: Vec<Duration> = tries.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(!last && waits.iter().max() > waits.iter().min(), "{name}: {waits:?}");
        // A wait of 250 ms that doubles makes few tries in the time that a cluster needs.
        assert!(tries.len() < 20, "{name}: {waits:?}");
    }
    wrong.store(false, Ordering::SeqCst);
    for (place, (_, _, _, last)) in places.iter().zip(&ANSWERS) {
        if *last {
            // A changed object is tried at once.
            place.patch("minicluster", "asks", &serde_json::json!({"spec": {"size": 2}}));
        }
        place.state("asks", "Ready");
    }
    drop(controller);
    for place in &places {
        place.kubectl(&["delete", "mc", "--all", "--wait=false"]).unwrap();
    }
}
