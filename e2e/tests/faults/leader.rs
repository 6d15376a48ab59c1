//! Two controllers, one of which works: when it dies, loses its link, or is told to go.

use crate::{IMAGE, LAB};
use quorate_e2e::proxy::transparent;
use quorate_e2e::{Controller, Lab, Namespace, ledger};
use serde_json::json;

/// The lease's duration, as the controller has it unless told otherwise, and what a busy machine may add,
/// in seconds.
const BOUND: f64 = 15.0 + 10.0;

struct Pair<'lab> {
    lab: &'lab Lab,
    place: Namespace<'lab>,
}

impl<'lab> Pair<'lab> {
    fn new(lab: &'lab Lab, name: &str) -> Self {
        Self { lab, place: Namespace::new(lab, name) }
    }

    fn start(&self, which: &str) -> Controller {
        let name = format!("{}-{which}", self.place.name);
        Controller::start(self.lab, &name, &self.place.name, &[], transparent())
    }

    fn holder(&self) -> String {
        let lease = self.place.get("lease", "quorate").unwrap_or_default();
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    fn led_by(&self, which: &str) {
        let name = format!("{}-{which}", self.place.name);
        self.place.eventually(&format!("{name} leads"), || self.holder(), |holder| *holder == name);
    }

    /// What one of the two wrote, in its order: of the lease, or of everything else.
    fn writes(&self, which: &str, lease: bool) -> Vec<ledger::Write> {
        let agent = format!("{}-{which}", self.place.name);
        let mut all = ledger::writes(self.lab, &self.place.name);
        all.retain(|write| {
            write.agent == agent && (write.resource == "leases") == lease && write.code < 300
        });
        all
    }

    /// Between the last renewal of the first and the moment when the second took the lease, by the
    /// server's clock.
    fn without_leader(&self) -> f64 {
        let (old, new) = (self.writes("first", true), self.writes("second", true));
        let took = new.first().unwrap().seconds();
        let last = old.iter().map(ledger::Write::seconds).filter(|at| *at < took);
        took - last.fold(f64::MIN, f64::max)
    }

    /// Whether the first had written its last before the second wrote its first.
    fn one_after_the_other(&self) {
        let (old, new) = (self.writes("first", false), self.writes("second", false));
        let (last, first) = (old.last().unwrap(), new.first().unwrap());
        assert!(last.at < first.at, "{last:?} is not before {first:?}");
    }
}

#[test]
fn a_leader_that_is_killed_is_followed_within_its_lease() {
    let lab = &*LAB;
    let pair = Pair::new(lab, "killed");
    let mut first = pair.start("first");
    pair.led_by("first");
    let mut second = pair.start("second");
    pair.place.minicluster("before", IMAGE);
    pair.place.state("before", "Ready");
    first.kill();
    pair.place.minicluster("after", IMAGE);
    pair.led_by("second");
    pair.place.state("after", "Ready");
    let took = pair.without_leader();
    assert!(took < BOUND, "{took} s without a leader");
    pair.one_after_the_other();
    // What the first had done is not done again.
    let again =
        pair.writes("second", false).into_iter().find(|write| write.name.starts_with("before"));
    assert_eq!(again, None);
    assert!(second.runs());
    pair.place.kubectl(&["delete", "mc", "--all"]).unwrap();
}

#[test]
fn a_leader_that_loses_its_link_writes_nothing_once_the_other_does() {
    let lab = &*LAB;
    let pair = Pair::new(lab, "cut");
    let mut first = pair.start("first");
    pair.led_by("first");
    let mut second = pair.start("second");
    // Something to write all the time, for whoever may.
    pair.place.minicluster("busy", &format!("suspend: true\n{IMAGE}"));
    pair.place.state("busy", "Suspended");
    first.proxy.link(false);
    let holder = || {
        let labels = json!({"metadata": {"labels": {"quorate.dev/cluster": null}}});
        pair.place.patch("jobset", "busy", &labels);
        pair.holder()
    };
    pair.place.eventually("the other leads", holder, |holder| holder == "cut-second");
    let label = || {
        pair.place.get("jobset", "busy").unwrap()["metadata"]["labels"]["quorate.dev/cluster"]
            .clone()
    };
    pair.place.eventually("the other works", label, |label| *label == "busy");
    first.proxy.link(true);
    pair.place.minicluster("later", IMAGE);
    pair.place.state("later", "Ready");
    let said = || first.log().contains("lost the lease");
    pair.place.eventually("the first says that it has lost", said, |said| *said);
    assert!(first.runs() && second.runs(), "nobody ended:\n{}\n{}", first.log(), second.log());
    assert_eq!(first.log().matches("started").count(), 1, "{}", first.log());
    pair.one_after_the_other();
    let took = pair.without_leader();
    assert!(took < BOUND, "{took} s without a leader");
    // The first stands by, and takes over when it is its turn.
    assert!(second.end().success());
    pair.led_by("first");
    pair.place.kubectl(&["delete", "mc", "--all"]).unwrap();
}

#[test]
fn a_leader_that_is_told_to_go_hands_over_at_once() {
    let lab = &*LAB;
    let pair = Pair::new(lab, "handover");
    let mut first = pair.start("first");
    pair.led_by("first");
    let mut second = pair.start("second");
    let seen = || pair.place.kubectl(&["get", "lease", "quorate", "-o", "name"]).is_ok();
    pair.place.eventually("the second stands by", seen, |seen| *seen);
    pair.place.minicluster("one", IMAGE);
    pair.place.state("one", "Ready");
    assert!(first.end().success(), "{}", first.log());
    pair.led_by("second");
    pair.place.minicluster("two", IMAGE);
    pair.place.state("two", "Ready");
    // Given up: nobody has to wait for the end of a lease of which most was left.
    let took = pair.without_leader();
    assert!(took < 4.0, "{took} s without a leader");
    pair.one_after_the_other();
    assert!(second.runs());
    pair.place.kubectl(&["delete", "mc", "--all"]).unwrap();
}
