//! The way up: finding a parent and a better one.
//!
//! A broker attaches to one of its ancestors in the planned tree. It starts with its planned
//! parent and climbs when that cannot be reached. A broker that has a parent keeps it until another
//! has welcomed it, so a search costs nothing when it fails:
//! - *join*: no parent; dial, then hello;
//! - *better*: the parent has no fresh proof that rank 0 lives; dial another ancestor, probe, and
//!   say hello if its proof is fresher;
//! - *home*: attached to another than the planned parent; look for that one now and then.

use super::Node;
use super::links::Role;
use crate::frame::{Frame, Hello, PROTOCOL, Welcome};
use crate::{BootId, CloseReason, Effect, ExitReason, LinkId, Millis, Rank, State, Timing};

/// Lives of rank 0 that are remembered as over.
const PAST_ROOTS: usize = 4;

/// Refusals that are kept while there is no parent to tell.
const MAX_REFUSALS: usize = 64;

/// The state of the way up; unused on rank 0.
#[derive(Debug)]
pub(super) struct Uplink {
    /// The planned parent, its parent and so on to rank 0.
    ancestors: Vec<Rank>,
    pub(super) parent: Option<LinkId>,
    candidate: Option<Candidate>,
    /// Which of the ancestors is dialled next, and since when it is the one.
    target: usize,
    target_since: Millis,
    /// Was attached before: quick to look elsewhere when a link breaks.
    was_attached: bool,
    backoff: Millis,
    dial_at: Millis,
    home_at: Millis,
    home_wait: Millis,
    /// The latest point on the own clock at which rank 0 surely lived.
    pub(super) proof: Option<Millis>,
    /// Proof older than this sends the broker looking for a better parent.
    pub(super) stale_after: Millis,
    pub(super) ping_at: Millis,
    attached_at: Millis,
    /// Rank 0 knows this boot.
    pub(super) confirmed: bool,
    /// Lives of rank 0 that have been followed by another.
    past_roots: Vec<BootId>,
    /// Refusals that rank 0 has not been told of yet.
    refusals: Vec<(Rank, String)>,
}

/// A link that may become the parent.
#[derive(Debug)]
struct Candidate {
    link: LinkId,
    goal: Goal,
    /// When the current step was begun.
    since: Millis,
    /// The hello announced a table.
    table_follows: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Join,
    Better,
    Home,
}

impl Uplink {
    pub(super) fn new(ancestors: Vec<Rank>, timing: &Timing, now: Millis) -> Self {
        Self {
            ancestors,
            parent: None,
            candidate: None,
            target: 0,
            target_since: now,
            was_attached: false,
            backoff: timing.dial_backoff_min,
            dial_at: now,
            home_at: now,
            home_wait: timing.home_retry,
            proof: None,
            stale_after: Millis(timing.orphan_timeout.0 / 2),
            ping_at: now,
            attached_at: now,
            confirmed: false,
            past_roots: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// Another life of rank 0 has taken over.
    pub(super) fn root_replaced(&mut self, former: BootId) {
        self.confirmed = false;
        self.past_roots.push(former);
        if self.past_roots.len() > PAST_ROOTS {
            self.past_roots.remove(0);
        }
    }

    /// Keeps a refusal until there is a parent to tell.
    pub(super) fn keep_refusal(&mut self, rank: Rank, reason: String) {
        self.refusals.retain(|(other, _)| *other != rank);
        if self.refusals.len() < MAX_REFUSALS {
            self.refusals.push((rank, reason));
        }
    }

    pub(super) fn take_refusals(&mut self) -> Vec<(Rank, String)> {
        std::mem::take(&mut self.refusals)
    }
}

impl Node {
    pub(super) fn uplink_deadline(&self) -> Option<Millis> {
        if self.is_root() {
            return None;
        }
        let up = &self.uplink;
        if let Some(candidate) = &up.candidate {
            return Some(candidate.since + self.patience(candidate.goal));
        }
        if up.parent.is_none() {
            return (!self.is_over()).then_some(up.dial_at);
        }
        let stale_at = self.stale_at();
        if self.is_away() && self.now < stale_at {
            return Some(up.home_at.min(stale_at));
        }
        Some(stale_at.max(up.dial_at))
    }

    pub(super) fn tick_uplink(&mut self) {
        if self.is_root() {
            return;
        }
        if let Some(candidate) = &self.uplink.candidate {
            if self.now.since(candidate.since) >= self.patience(candidate.goal) {
                let link = candidate.link;
                self.close(link, CloseReason::Timeout);
                self.candidate_failed(link);
            }
            return;
        }
        if self.uplink.parent.is_none() {
            if self.now >= self.uplink.dial_at && !self.is_over() {
                self.start(self.uplink.target, Goal::Join);
            }
        } else if self.now >= self.stale_at() {
            if self.now >= self.uplink.dial_at {
                self.next_target();
                if self.ancestor_is_parent(self.uplink.target) {
                    self.next_target();
                }
                // With one ancestor there is nobody else to ask; a new link to the same one may
                // still go through where the old one is stuck.
                self.start(self.uplink.target, Goal::Better);
            }
        } else if self.is_away() && self.now >= self.uplink.home_at {
            self.start(0, Goal::Home);
        }
    }

    /// How long a step of a candidate may take. A broker whose lease is running out has no time to
    /// spend on one that does not answer.
    fn patience(&self, goal: Goal) -> Millis {
        let timing = &self.config.timing;
        match goal {
            Goal::Join | Goal::Home => timing.dial_timeout,
            Goal::Better => timing.dial_timeout.min(Millis(timing.orphan_timeout.0 / 10)),
        }
    }

    /// When the parent's proof counts as stale.
    fn stale_at(&self) -> Millis {
        match self.uplink.proof {
            Some(proof) => proof + self.uplink.stale_after,
            None => self.uplink.attached_at + self.config.timing.reparent_after,
        }
    }

    /// Attached to another than the planned parent.
    fn is_away(&self) -> bool {
        self.uplink.parent.is_some() && !self.ancestor_is_parent(0)
    }

    fn ancestor_is_parent(&self, at: usize) -> bool {
        self.uplink.ancestors.get(at).copied() == self.parent()
    }

    fn next_target(&mut self) {
        self.uplink.target = (self.uplink.target + 1) % self.uplink.ancestors.len().max(1);
        self.uplink.target_since = self.now;
        self.uplink.backoff = self.config.timing.dial_backoff_min;
    }

    fn start(&mut self, target: usize, goal: Goal) {
        let Some(&rank) = self.uplink.ancestors.get(target) else { return };
        let link = self.dial(rank);
        self.uplink.candidate =
            Some(Candidate { link, goal, since: self.now, table_follows: false });
    }

    pub(super) fn candidate_connected(&mut self, link: LinkId) {
        let now = self.now;
        let Some(candidate) = self.uplink.candidate.as_mut().filter(|c| c.link == link) else {
            return;
        };
        candidate.since = now;
        if candidate.goal == Goal::Join {
            self.greet();
        } else {
            self.send(link, Frame::Probe);
        }
    }

    /// Says hello to the candidate.
    fn greet(&mut self) {
        let table_follows = !self.family.is_empty();
        let now = self.now;
        let Some(candidate) = &mut self.uplink.candidate else { return };
        candidate.since = now;
        candidate.table_follows = table_follows;
        let link = candidate.link;
        let hello = Hello {
            version: PROTOCOL,
            cluster: self.config.cluster.clone(),
            attempt: self.config.attempt,
            rank: self.config.rank,
            boot: self.config.boot,
            root: self.stream.root,
            seen: self.stream.last,
            table_follows,
            inventory: self.inventory.clone(),
        };
        self.send(link, Frame::Hello(Box::new(hello)));
    }

    pub(super) fn probe_reply(&mut self, link: LinkId, age: Option<Millis>) {
        let Some(candidate) = self.uplink.candidate.as_ref().filter(|c| c.link == link) else {
            return;
        };
        // The peer's proof was `age` old at some time after the probe was sent.
        let proof = age.map(|age| candidate.since - age);
        let wanted = match candidate.goal {
            Goal::Join => true,
            Goal::Better => proof.is_some_and(|proof| {
                self.uplink.proof.is_none_or(|own| proof > own + self.config.timing.keepalive)
            }),
            Goal::Home => {
                proof.is_some_and(|proof| self.now.since(proof) < self.uplink.stale_after)
            }
        };
        if wanted {
            self.greet();
        } else {
            self.close(link, CloseReason::NotNeeded);
            self.candidate_failed(link);
        }
    }

    pub(super) fn candidate_failed(&mut self, link: LinkId) {
        let Some(candidate) = self.uplink.candidate.take_if(|c| c.link == link) else { return };
        let timing = &self.config.timing;
        let up = &mut self.uplink;
        match candidate.goal {
            Goal::Join => {
                let patience = if up.was_attached || up.target > 0 {
                    timing.redial_for
                } else {
                    timing.reparent_after
                };
                if self.now.since(up.target_since) >= patience {
                    self.next_target();
                } else {
                    up.backoff = Millis(up.backoff.0 * 2).min(timing.dial_backoff_max);
                }
                let wait = self.random.jitter(self.uplink.backoff);
                self.uplink.dial_at = self.now + wait;
            }
            Goal::Better => {
                let wait = self.random.jitter(self.config.timing.dial_backoff_max);
                self.uplink.dial_at = self.now + wait;
            }
            Goal::Home => {
                let most = Millis(self.config.timing.home_retry.0 * 8);
                self.uplink.home_wait = Millis(self.uplink.home_wait.0 * 2).min(most);
                let wait = self.random.jitter(self.uplink.home_wait);
                self.uplink.home_at = self.now + wait;
            }
        }
    }

    pub(super) fn refused(&mut self, link: LinkId, attempt: u32, reason: String) {
        self.close(link, CloseReason::Refused(reason.clone()));
        if attempt < self.config.attempt {
            // A straggler refuses what it does not know; its place will be taken.
            self.candidate_failed(link);
        } else {
            self.exit(ExitReason::Refused { reason }, "refused by the overlay");
        }
    }

    pub(super) fn welcome(&mut self, link: LinkId, welcome: Welcome) {
        let Some(candidate) = self.uplink.candidate.take_if(|c| c.link == link) else { return };
        let behind =
            welcome.sync.as_ref().is_some_and(|s| self.uplink.past_roots.contains(&s.root));
        if behind {
            // It has not noticed yet that rank 0 was started anew.
            self.uplink.candidate = Some(candidate);
            self.close(link, CloseReason::NotNeeded);
            self.candidate_failed(link);
            return;
        }
        if let Some(old) = self.uplink.parent.take() {
            self.close(old, CloseReason::NotNeeded);
        }
        if let Some(entry) = self.links.get_mut(&link) {
            entry.role = Role::Parent;
        }
        let first = !self.uplink.was_attached;
        // A spread over the cluster keeps a silent rank 0 from being dialled by all at once.
        let orphan = self.config.timing.orphan_timeout.0;
        let stale_after = Millis(orphan * 4 / 10) + self.random.jitter(Millis(orphan * 2 / 10));
        let first_ping = self.random.jitter(self.config.timing.keepalive);
        let home = self.random.jitter(self.config.timing.home_retry);
        let up = &mut self.uplink;
        up.parent = Some(link);
        up.was_attached = true;
        up.attached_at = self.now;
        up.ping_at = self.now + first_ping;
        up.backoff = self.config.timing.dial_backoff_min;
        up.dial_at = self.now;
        up.home_at = self.now + home;
        if first {
            up.stale_after = stale_after;
        }
        if let Some(age) = welcome.age {
            self.prove(candidate.since - age);
        }
        if !self.is_away() {
            self.uplink.home_wait = self.config.timing.home_retry;
        }
        if let Some(sync) = welcome.sync {
            self.sync(sync);
        }
        self.report_all(candidate.table_follows);
        self.resend_up();
        self.regather();
        self.report_refusals();
    }

    /// The link to the parent, which was `rank`, is gone; the caller has removed it.
    pub(super) fn parent_lost(&mut self, rank: Rank) {
        let up = &mut self.uplink;
        up.parent = None;
        up.target = up.ancestors.iter().position(|&r| r == rank).unwrap_or(0);
        up.target_since = self.now;
        up.backoff = self.config.timing.dial_backoff_min;
        up.dial_at = self.now;
        // A search that is under way goes on, for any parent now.
        if let Some(candidate) = &mut up.candidate {
            candidate.goal = Goal::Join;
        }
        self.shutdown_without_parent();
    }

    /// The latest proof of life of rank 0, by the own clock.
    pub(super) fn prove(&mut self, at: Millis) {
        if self.uplink.proof.is_none_or(|proof| proof < at) {
            self.uplink.proof = Some(at);
            self.pass_proof_on(at);
        }
    }

    /// The node's state before CLEANUP, from what it knows.
    pub(super) fn advance(&mut self, cause: &'static str) {
        if self.is_over() || self.is_root() {
            return;
        }
        let to = if !self.stream.root.is_known() {
            State::Join
        } else if !self.uplink.confirmed {
            State::Init
        } else if self.stream.is_forming() {
            State::Quorum
        } else {
            State::Run
        };
        if to == State::Run && self.state < State::Quorum {
            self.set_state(State::Quorum, cause);
        }
        self.set_state(to, cause);
    }

    /// Drops the search for a parent: the cluster's work is over.
    pub(super) fn stop_search(&mut self) {
        if let Some(candidate) = self.uplink.candidate.take() {
            self.links.remove(&candidate.link);
            self.effects.push(Effect::Close { link: candidate.link, reason: CloseReason::Leaving });
        }
    }
}
