//! One candidate's bookkeeping between two decisions: what it saw, and since when.
//!
//! Must not: read a clock or talk to anybody; the shell (`elect`) and the simulation in the tests
//! drive the same code.

use super::decide::{Decision, Holder, Moment, Sight, Term, Timing, View, decide};

/// A process that leads or would.
#[derive(Clone, Debug)]
pub struct Candidate {
    me: String,
    timing: Timing,
    view: View,
}

impl Candidate {
    /// A follower that has seen nothing yet.
    pub fn new(me: String, timing: Timing) -> Self {
        Self { me, timing, view: View::default() }
    }

    /// Its identity.
    pub fn me(&self) -> &str {
        &self.me
    }

    /// Its timing.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// The Lease as last seen.
    pub fn lease(&self) -> Option<&Sight> {
        self.view.lease.as_ref()
    }

    /// The Lease was read, or came from a watch; `None` if there is none. A version that was seen
    /// before keeps the moment it was first seen.
    pub fn saw(&mut self, lease: Option<(String, Holder)>, now: Moment) {
        let before = self.view.lease.take();
        self.view.lease = lease.map(|(version, holder)| match before {
            Some(known) if known.version == version => known,
            _ => Sight { version, holder, since: now },
        });
    }

    /// An acquire or renewal that was sent at `sent` was confirmed with this version.
    pub fn confirmed(&mut self, version: String, sent: Moment, now: Moment) {
        let holder =
            Holder { identity: Some(self.me.clone()), duration: Some(self.timing.duration) };
        self.view.lease = Some(Sight { version, holder, since: now });
        self.view.term = Some(Term { sent });
    }

    /// The term is over.
    pub fn stepped_down(&mut self) {
        self.view.term = None;
    }

    /// What to do at `now`.
    pub fn decide(&self, now: Moment) -> Decision {
        decide(&self.view, &self.me, &self.timing, now)
    }

    /// Until when this process may write; `None` for a follower.
    pub fn leads_until(&self) -> Option<Moment> {
        self.view.term.map(|term| term.sent + self.timing.renew_deadline)
    }
}
