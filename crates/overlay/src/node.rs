//! The node: one broker's whole overlay state behind one entry, [`Node::handle`].

use crate::{ChannelId, Config, Effects, Event, Inventory, Millis, Rank, State, Topology};
use quorate_hostlist::IdSet;
use std::sync::Arc;

/// A planned broker that is not online.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its rank.
    pub rank: Rank,
    /// How long ago it was last heard of; `None` if it never was.
    pub silent: Option<Millis>,
    /// `no contact`, `refused: attempt 0, now 1`, `lost: ...`.
    pub why: String,
}

/// One broker's overlay.
#[derive(Debug)]
pub struct Node {
    config: Config,
    topology: Topology,
    state: State,
    next_channel: u64,
}

impl Node {
    /// A node at the start of its life; nothing happens before its first event, which can be
    /// [`Event::Tick`].
    pub fn new(config: Config, now: Millis) -> Self {
        let _ = now;
        let topology = Topology::new(config.max_size.max(config.size), config.fanout);
        Self { config, topology, state: State::Join, next_channel: 0 }
    }

    /// Takes one event and appends what is to be done about it.
    pub fn handle(&mut self, event: Event, now: Millis, effects: &mut Effects) {
        let _ = (event, now, effects);
    }

    /// When [`Node::handle`] wants to be called again, with `Tick` if nothing else happens.
    pub fn next_deadline(&self) -> Option<Millis> {
        None
    }

    /// A fresh id for [`crate::Command::Open`].
    pub fn new_channel(&mut self) -> ChannelId {
        self.next_channel += 2;
        ChannelId(self.next_channel)
    }

    /// Messages that a channel takes now; `None` for a channel that is not open.
    pub fn credits(&self, channel: ChannelId) -> Option<u32> {
        let _ = channel;
        None
    }

    /// What the node was told at its start.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The planned tree.
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// The broker's state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether rank 0 has confirmed this broker and the link towards it stands: a worker's
    /// readiness.
    pub fn is_connected(&self) -> bool {
        false
    }

    /// The broker that this one is attached to now.
    pub fn parent(&self) -> Option<Rank> {
        None
    }

    /// The brokers that are attached to this one now.
    pub fn children(&self) -> IdSet {
        IdSet::new()
    }

    /// The neighbour through which a broker is reached now.
    pub fn next_hop(&self, to: Rank) -> Option<Rank> {
        let _ = to;
        None
    }

    /// On rank 0: who is online, itself included. Elsewhere: who is reached through this broker.
    pub fn online(&self) -> IdSet {
        IdSet::new()
    }

    /// On rank 0: who is online and silent.
    pub fn torpid(&self) -> IdSet {
        IdSet::new()
    }

    /// On rank 0: what an online broker offers.
    pub fn inventory(&self, rank: Rank) -> Option<Arc<Inventory>> {
        let _ = rank;
        None
    }

    /// On rank 0: planned brokers that are not online, and why.
    pub fn missing(&self, now: Millis) -> Vec<Missing> {
        let _ = now;
        Vec::new()
    }

    /// On rank 0: when the bootstrap gives up; `None` once quorate.
    pub fn gives_up_at(&self) -> Option<Millis> {
        None
    }
}
