//! A controller that is started before the definitions are there, and one whose chart brings them.

use crate::{IMAGE, LAB};
use quorate_e2e::proxy::{Call, Fate};
use quorate_e2e::{Controller, Namespace, SYSTEM};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

#[test]
fn a_controller_that_comes_before_the_definitions_waits_and_says_for_what() {
    let lab = &*LAB;
    let place = Namespace::new(lab, "early");
    // 0: there are no definitions; 1: no role; 2: all is well.
    let stage = Arc::new(AtomicU8::new(0));
    let script = {
        let stage = Arc::clone(&stage);
        Box::new(move |call: &Call| match stage.load(Ordering::SeqCst) {
            0 if call.path.ends_with("/miniclusters") => {
                Fate::Answer(404, "NotFound", "the server could not find the requested resource")
            }
            1 if call.path.ends_with("/jobsets") => {
                Fate::Answer(403, "Forbidden", "jobsets is forbidden")
            }
            _ => Fate::Pass,
        })
    };
    let mut controller = Controller::start(lab, "early", &place.name, &[], script);
    let says = |text: &str| controller.log().contains(text);
    place.eventually(
        "it says what is missing",
        || says("install the definition of MiniCluster"),
        |says| *says,
    );
    place.minicluster("early", IMAGE);
    stage.store(1, Ordering::SeqCst);
    place.eventually("it says what is missing", || says("a role that lists JobSets"), |says| *says);
    stage.store(2, Ordering::SeqCst);
    place.state("early", "Ready");
    assert!(controller.runs());
    assert_eq!(controller.log().matches("started").count(), 1, "{}", controller.log());
    place.kubectl(&["delete", "mc", "early"]).unwrap();
}

#[test]
fn the_chart_s_controllers_do_not_fall_over_while_its_definition_comes() {
    let lab = &*LAB;
    let restarts = lab
        .kubectl(&[
            "-n",
            SYSTEM,
            "get",
            "pods",
            "-o",
            "jsonpath={.items[*].status.containerStatuses[*].restartCount}",
        ])
        .unwrap();
    assert_eq!(restarts, "0 0");
}
