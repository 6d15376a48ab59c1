//! The connections to neighbours: what each is for, sending with a bound, closing, and which frame
//! is legal where.

use super::Node;
use crate::frame::Frame;
use crate::{BootId, CloseReason, DialFailure, Effect, LinkId, Millis, Rank, State};
use std::collections::BTreeSet;

/// Bytes queued on a link beyond which messages between brokers are dropped: their senders send
/// them again. What other brokers have on the way through here stays below this.
pub(super) const FORWARD_LIMIT: usize = 4 << 20;

/// Bytes queued on a link beyond which the peer is taken for stuck and the link is closed. Has
/// room for the largest exchange and all control frames of a tree.
pub(super) const STUCK_LIMIT: usize = 96 << 20;

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    /// The neighbour, as TLS proved it.
    pub(super) peer: Rank,
    pub(super) role: Role,
    /// When something was last heard on it.
    pub(super) heard: Millis,
    /// Bytes handed to the shell and not yet written.
    pub(super) queued: usize,
}

/// What a connection is for.
#[derive(Debug)]
pub(super) enum Role {
    /// Accepted; its first frame will tell.
    Fresh,
    /// Dialled; the uplink's candidate.
    Candidate,
    /// The way to rank 0.
    Parent,
    /// A broker below.
    Child(Child),
}

/// What is known of a child.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) boot: BootId,
    /// The ranks that it claims to reach, itself included.
    pub(super) ranks: BTreeSet<Rank>,
    /// Of those, the ones taken over from an earlier link that the child has not named on this one
    /// yet.
    pub(super) inherited: BTreeSet<Rank>,
    pub(super) torpid: bool,
    /// Its last ping: the stamp, and when it came in.
    pub(super) ping: Option<(Millis, Millis)>,
    /// Knows where the event stream goes on.
    pub(super) synced: bool,
}

impl Node {
    /// A new link that this node dials.
    pub(super) fn dial(&mut self, rank: Rank) -> LinkId {
        self.next_link += 1;
        let link = LinkId::dialled(self.next_link);
        let entry = Link { peer: rank, role: Role::Candidate, heard: self.now, queued: 0 };
        self.links.insert(link, entry);
        self.effects.push(Effect::Dial { link, rank });
        link
    }

    pub(super) fn accepted(&mut self, link: LinkId, peer: Rank) {
        let entry = Link { peer, role: Role::Fresh, heard: self.now, queued: 0 };
        self.links.insert(link, entry);
    }

    pub(super) fn connected(&mut self, link: LinkId) {
        if let Some(entry) = self.links.get_mut(&link) {
            entry.heard = self.now;
            self.candidate_connected(link);
        }
    }

    pub(super) fn dial_failed(&mut self, link: LinkId, failure: &DialFailure) {
        if self.links.remove(&link).is_some() {
            // Both are worth another try; the shell has logged them.
            let (DialFailure::Unreachable(_) | DialFailure::WrongKey(_)) = failure;
            self.candidate_failed(link);
        }
    }

    /// The other side, or the network, ended a link.
    pub(super) fn closed(&mut self, link: LinkId, reason: &str) {
        let Some(entry) = self.links.remove(&link) else { return };
        match entry.role {
            Role::Fresh => {}
            Role::Candidate => self.candidate_failed(link),
            Role::Parent => self.parent_lost(entry.peer),
            Role::Child(child) => {
                self.child_gone(link, entry.peer, &child, crate::frame::Cause::Broken, reason);
            }
        }
    }

    /// Ends a link from this side. What follows for its role is the caller's affair.
    pub(super) fn close(&mut self, link: LinkId, reason: CloseReason) -> Option<Link> {
        let entry = self.links.remove(&link)?;
        self.effects.push(Effect::Close { link, reason });
        Some(entry)
    }

    /// Ends a link whose peer misbehaves, as if it had broken.
    fn reject(&mut self, link: LinkId, reason: CloseReason) {
        let text = reason.to_string();
        self.effects.push(Effect::Close { link, reason });
        self.closed(link, &text);
    }

    /// Hands a frame to the shell, within the bounds of the link's queue.
    pub(super) fn send(&mut self, link: LinkId, frame: Frame) {
        let Some(entry) = self.links.get_mut(&link) else { return };
        let resent_by_its_sender =
            matches!(frame, Frame::Packet(_) | Frame::Cast(_) | Frame::Notice(_));
        if resent_by_its_sender && entry.queued > FORWARD_LIMIT {
            return;
        }
        if entry.queued > STUCK_LIMIT {
            self.reject(link, CloseReason::Stuck);
            return;
        }
        entry.queued += frame.wire_len();
        self.effects.push(Effect::Send { link, frame });
    }

    /// Takes a frame in.
    pub(super) fn frame(&mut self, link: LinkId, frame: Frame) {
        let Some(entry) = self.links.get_mut(&link) else { return };
        entry.heard = self.now;
        let peer = entry.peer;
        let wrong = match &mut entry.role {
            Role::Fresh => match frame {
                Frame::Hello(hello) => return self.hello(link, peer, &hello),
                Frame::Probe => {
                    let age = self.proof_age();
                    return self.send(link, Frame::ProbeReply { age });
                }
                _ => "a first frame that is no hello",
            },
            Role::Candidate => match frame {
                Frame::ProbeReply { age } => return self.probe_reply(link, age),
                Frame::Welcome(welcome) => return self.welcome(link, *welcome),
                Frame::Refuse { attempt, reason } => return self.refused(link, attempt, reason),
                _ => "a frame before the welcome",
            },
            Role::Parent => match frame {
                Frame::Pong { stamp, ahead } => return self.prove(stamp + ahead),
                Frame::Confirm { members } => return self.confirm(members),
                Frame::Expel { rank, boot, reason } => return self.expel(rank, boot, reason),
                Frame::Sync(sync) => return self.sync(sync),
                Frame::Event(event) => return self.event(&event),
                Frame::Packet(packet) => return self.packet(packet, true),
                Frame::Cast(cast) => return self.cast_frame(*cast, true),
                Frame::Notice(notice) => return self.notice(notice, true),
                Frame::Result(part) => return self.result_part(&part),
                Frame::Failed { key, rank, failure } => {
                    return self.exchange_failed(key, rank, failure);
                }
                _ => "a frame that parents do not send",
            },
            Role::Child(child) => {
                let lively = std::mem::take(&mut child.torpid);
                if lively {
                    self.mark_torpid(link, peer, false);
                }
                match frame {
                    Frame::Ping { stamp } => return self.ping(link, stamp),
                    Frame::Table { phase, changes } => return self.table(link, phase, changes),
                    Frame::Refused { rank, reason } => return self.report_refused(rank, reason),
                    Frame::Packet(packet) => return self.packet(packet, false),
                    Frame::Cast(cast) => return self.cast_frame(*cast, false),
                    Frame::Notice(notice) => return self.notice(notice, false),
                    Frame::Gather(gather) => return self.gather(link, &gather),
                    Frame::Leave { reason } => return self.child_left(link, &reason),
                    _ => "a frame that children do not send",
                }
            }
        };
        self.reject(link, CloseReason::Protocol(wrong));
    }

    /// The link by which a broker is reached: down where it is known to be below, up otherwise.
    pub(super) fn route(&self, to: Rank) -> Option<LinkId> {
        self.family.link_of(to).or(self.uplink.parent)
    }

    /// Whether the node takes part in the cluster's work (not before its first contact with rank
    /// 0, and not when leaving).
    pub(super) fn is_member(&self) -> bool {
        self.state >= State::Init && self.state < State::Exit
    }
}
