//! A controller that is killed (-9) at every step of a cluster's life.
//!
//! A life has a create, a restart and a delete, all of them the controller's business: its program fails
//! once, and its time after the end is none. The link of the controller is cut at the n-th write, right
//! before the server gets it; the next controller's right after its first write was carried out; the third
//! one finishes. What comes of it must be what an undisturbed life comes to.

use crate::{IMAGE, LAB};
use quorate_e2e::proxy::{Fate, cut_at, transparent};
use quorate_e2e::{Controller, Lab, Namespace, ledger};
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

/// Lives at the same time.
const SIDE_BY_SIDE: usize = 8;
/// More writes than a life can have.
const MOST_WRITES: usize = 64;

fn spec() -> String {
    format!(
        "{IMAGE}\nsize: 1\nfailurePolicy: {{maxRestarts: 1}}\nttlSecondsAfterFinished: 0\n\
         program: {{command: [sh, -c, 'exit $((1 - QUORATE_ATTEMPT))']}}"
    )
}

#[test]
fn a_controller_killed_at_any_step_leaves_what_an_undisturbed_one_leaves() {
    let lab = &*LAB;
    let mut number = 1;
    loop {
        let killed: Vec<bool> = thread::scope(|scope| {
            let lives: Vec<_> = (number..number + SIDE_BY_SIDE)
                .map(|number| scope.spawn(move || life(lab, number)))
                .collect();
            lives.into_iter().map(|life| life.join().unwrap()).collect()
        });
        // How many statuses are told in one write depends on the machine, so lives differ by a write or two.
        let count = killed.iter().filter(|killed| **killed).count();
        number += SIDE_BY_SIDE;
        if count < SIDE_BY_SIDE {
            break;
        }
        assert!(number < MOST_WRITES, "a life never ends");
    }
}

/// One life with its controller killed at the n-th write; answers whether it had so many.
fn life(lab: &Lab, number: usize) -> bool {
    let place = Namespace::new(lab, &format!("step-{number}"));
    let name = |which: &str| format!("step-{number}-{which}");
    let first = name("first");
    let mut controller =
        Controller::start(lab, &first, &place.name, &[], cut_at(number, Fate::CutBefore));
    place.minicluster("life", &spec());
    let killed = thread::scope(|scope| {
        let ended = scope.spawn(|| place.gone("life"));
        loop {
            if controller.proxy.cut_within(Duration::from_millis(100)) {
                controller.kill();
                let mut second = successor(lab, &place, cut_at(1, Fate::CutAfter));
                // The write that the first did not live to see; there may be none left to do.
                while !second.proxy.cut_within(Duration::from_millis(100)) && !ended.is_finished() {
                }
                second.kill();
                if !ended.is_finished() {
                    controller = successor(lab, &place, transparent());
                }
                break true;
            }
            if ended.is_finished() {
                break false;
            }
        }
    });
    nothing_is_left(&place);
    undisturbed(lab, &place, number);
    drop(controller);
    killed
}

/// The kubelet would start it again under the same name.
fn successor(lab: &Lab, place: &Namespace<'_>, script: quorate_e2e::proxy::Script) -> Controller {
    let name = format!("{}-first", place.name);
    Controller::start(lab, &name, &place.name, &[], script)
}

fn nothing_is_left(place: &Namespace<'_>) {
    let lease = "lease.coordination.k8s.io/quorate";
    place.eventually(
        "nothing but the lease is left",
        || place.census(),
        |census| census.iter().all(|name| name == lease),
    );
}

/// Nothing was made twice, and nothing done again that had been done.
fn undisturbed(lab: &Lab, place: &Namespace<'_>, number: usize) {
    let writes = ledger::writes(lab, &place.name);
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    for write in writes.iter().filter(|write| write.code < 300) {
        *done.entry(format!("{} {}", write.verb, write.resource)).or_default() += 1;
    }
    let count = |what: &str| done.get(what).copied().unwrap_or_default();
    for (what, expected) in [
        ("create secrets", 1),
        ("create networkpolicies", 1),
        ("create jobsets", 1),
        // One for each attempt, by JobSet and by the Jobs.
        ("create jobs", 2),
        ("create pods", 2),
    ] {
        assert_eq!(count(what), expected, "{what}, life {number}: {done:?}");
    }
}
