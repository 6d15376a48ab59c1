//! A whole cluster in one process: nodes joined by byte queues, for benchmarks and tests of what
//! sits on the overlay.
//!
//! Time stands still unless it is moved. Every frame is encoded, copied once as a socket would
//! copy it, and decoded. There are no faults here; the simulation in `tests/cluster` has those.

use crate::frame::Frame;
use crate::{
    BootId, Bytes, ChannelId, Command, Config, Delivery, Effect, Effects, Event, Inventory, LinkId,
    Millis, Node, Rank, State, Timing,
};
use std::collections::{BTreeMap, VecDeque};

/// Nodes of one cluster, and the links between them.
#[derive(Debug)]
pub struct MemoryCluster {
    nodes: Vec<Node>,
    now: Millis,
    /// Each node's links, by the node and the link at their far end.
    links: Vec<BTreeMap<LinkId, (usize, LinkId)>>,
    accepted: u64,
    events: VecDeque<(usize, Event)>,
    deliveries: VecDeque<(Rank, Delivery)>,
    scratch: Vec<u8>,
    bytes: u64,
}

impl MemoryCluster {
    /// A quorate cluster of `size` brokers with the tree of `fanout`.
    ///
    /// # Panics
    /// When the brokers do not join, which is a bug of the overlay.
    pub fn start(size: u32, fanout: u32) -> Self {
        let node = |rank| {
            let config = Config {
                rank,
                size,
                min_size: size,
                max_size: size,
                fanout,
                cluster: "memory".to_owned(),
                attempt: 0,
                boot: BootId(u128::from(rank) + 1),
                inventory: Inventory { slots: 1, ..Inventory::default() },
                timing: Timing::default(),
                seed: u64::from(rank),
            };
            Node::new(config, Millis(0))
        };
        let mut cluster = Self {
            nodes: (0..size).map(node).collect(),
            now: Millis(0),
            links: (0..size).map(|_| BTreeMap::new()).collect(),
            accepted: 0,
            events: (0..size as usize).map(|at| (at, Event::Tick)).collect(),
            deliveries: VecDeque::new(),
            scratch: Vec::new(),
            bytes: 0,
        };
        for _ in 0..100 {
            cluster.pass(Millis(10));
        }
        assert!(
            cluster.nodes.iter().all(|node| node.state() == State::Run),
            "every broker joins a cluster without faults"
        );
        cluster.deliveries.clear();
        cluster
    }

    /// Has a service of a broker want something; what follows is done by [`Self::run`].
    pub fn command(&mut self, rank: Rank, command: Command) {
        self.events.push_back((rank as usize, Event::Local(command)));
    }

    /// A fresh channel id of a broker.
    pub fn new_channel(&mut self, rank: Rank) -> ChannelId {
        self.nodes[rank as usize].new_channel()
    }

    /// Takes one step; `false` when nothing is under way any more.
    pub fn step(&mut self) -> bool {
        match self.events.pop_front() {
            Some((at, event)) => {
                self.handle(at, event);
                true
            }
            None => false,
        }
    }

    /// Runs until nothing is under way any more.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Moves the time on, with all that is due meanwhile.
    pub fn pass(&mut self, span: Millis) {
        self.run();
        self.now = self.now + span;
        for at in 0..self.nodes.len() {
            if self.nodes[at].next_deadline().is_some_and(|due| due <= self.now) {
                self.events.push_back((at, Event::Tick));
            }
        }
        self.run();
    }

    /// The next delivery to a local service of some broker.
    pub fn delivery(&mut self) -> Option<(Rank, Delivery)> {
        self.deliveries.pop_front()
    }

    /// A broker's node.
    pub fn node(&self, rank: Rank) -> &Node {
        &self.nodes[rank as usize]
    }

    /// Bytes that have crossed links so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn handle(&mut self, at: usize, event: Event) {
        let event = match event {
            Event::Frame { link, frame } => Event::Frame { link, frame: self.carry(&frame) },
            other => other,
        };
        let mut effects = Effects::new();
        self.nodes[at].handle(event, self.now, &mut effects);
        for effect in effects {
            match effect {
                Effect::Dial { link, rank } => {
                    self.accepted += 1;
                    let (far, peer) = (rank as usize, at as Rank);
                    let their = LinkId::accepted(self.accepted);
                    self.links[at].insert(link, (far, their));
                    self.links[far].insert(their, (at, link));
                    self.events.push_back((far, Event::Accepted { link: their, peer }));
                    self.events.push_back((at, Event::Connected { link }));
                }
                Effect::Send { link, frame } => {
                    if let Some(&(far, their)) = self.links[at].get(&link) {
                        let bytes = frame.wire_len();
                        self.events.push_back((far, Event::Frame { link: their, frame }));
                        self.events.push_back((at, Event::Written { link, bytes }));
                    }
                }
                Effect::Close { link, .. } => {
                    if let Some((far, their)) = self.links[at].remove(&link) {
                        self.links[far].remove(&their);
                        let reason = "closed by the peer".to_owned();
                        self.events.push_back((far, Event::Closed { link: their, reason }));
                    }
                }
                Effect::Deliver(delivery) => self.deliveries.push_back((at as Rank, delivery)),
                Effect::State { .. } | Effect::SelfFence { .. } | Effect::Exit { .. } => {}
            }
        }
    }

    /// A frame as it comes out at the other end of a connection.
    fn carry(&mut self, frame: &Frame) -> Frame {
        self.scratch.clear();
        frame.encode(&mut self.scratch);
        self.bytes += self.scratch.len() as u64;
        Frame::decode(Bytes::copy_from_slice(&self.scratch[4..]))
            .expect("a frame decodes because it was just encoded")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, ExchangeKey};
    use quorate_hostlist::IdSet;

    #[test]
    fn exchanges_and_requests_cross_a_cluster_in_memory() {
        let mut cluster = MemoryCluster::start(40, 3);
        let key = ExchangeKey { job: 1, sequence: 0 };
        let members = IdSet::first_n(40);
        for rank in 0..40u32 {
            let blob = Bytes::from(rank.to_be_bytes().to_vec());
            cluster.command(rank, Command::Contribute { key, members: members.clone(), blob });
        }
        cluster.run();
        let mut complete = 0;
        while let Some((_, delivery)) = cluster.delivery() {
            if let Delivery::Exchanged { blobs, .. } = delivery {
                assert!(blobs.iter().all(|(rank, blob)| blob[..] == rank.to_be_bytes()));
                complete += blobs.len();
            }
        }
        assert_eq!(complete, 1600);
        let channel = cluster.new_channel(39);
        let payload = Bytes::from_static(b"hello");
        let service = "echo".to_owned();
        cluster.command(39, Command::Open { channel, to: 20, service, payload });
        cluster.run();
        assert!(matches!(cluster.delivery(), Some((20, Delivery::Opened { from: 39, .. }))));
        assert!(cluster.bytes() > 0);
    }
}
