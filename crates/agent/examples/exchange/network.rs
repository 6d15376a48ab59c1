//! Brokers joined in memory: runs the effects of overlay nodes without sockets.

use bytes::BytesMut;
use quorate_hostlist::IdSet;
use quorate_overlay::frame::{Decoder, Frame};
use quorate_overlay::{
    BootId, Command, Config, Delivery, Effect, Event, Inventory, LinkId, Millis, Node, State,
    Timing,
};
use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

/// Events that are handled before the clocks of all nodes are looked at.
const BATCH: usize = 512;

/// A network of brokers.
pub(crate) struct Network {
    nodes: Vec<Node>,
    /// The other end of each link.
    peers: HashMap<(usize, LinkId), (usize, LinkId)>,
    accepted: Vec<u64>,
    queue: VecDeque<(usize, Event)>,
    deliveries: Vec<(usize, Delivery)>,
    /// The nodes' clock. It moves while they wait, not while this process works for all of them
    /// at once: then each would take the others for silent.
    now: Millis,
}

impl Network {
    /// `size` brokers that know nothing of each other.
    pub(crate) fn new(size: u32) -> Self {
        let node = |rank: u32| {
            let config = Config {
                rank,
                size,
                min_size: size,
                max_size: size,
                fanout: 0,
                cluster: "exchange".into(),
                attempt: 0,
                boot: BootId(u128::from(rank) + 1),
                inventory: Inventory { slots: 96, ..Inventory::default() },
                timing: Timing::default(),
                seed: u64::from(rank),
            };
            Node::new(config, Millis(0))
        };
        Self {
            nodes: (0..size).map(node).collect(),
            peers: HashMap::new(),
            accepted: vec![0; size as usize],
            queue: (0..size as usize).map(|node| (node, Event::Tick)).collect(),
            deliveries: Vec::new(),
            now: Millis(0),
        }
    }

    /// All ranks.
    pub(crate) fn all(&self) -> IdSet {
        (0..self.nodes.len() as u32).collect()
    }

    /// Runs until every broker is in state RUN.
    pub(crate) fn bring_up(&mut self, limit: Duration) -> Result<(), Box<dyn Error>> {
        let started = Instant::now();
        while self.nodes.iter().any(|node| node.state() != State::Run) {
            if started.elapsed() > limit {
                let up = self.nodes.iter().filter(|node| node.state() == State::Run).count();
                return Err(format!("{up} of {} brokers are up", self.nodes.len()).into());
            }
            self.turn();
        }
        Ok(())
    }

    /// A wish of a local service.
    pub(crate) fn command(&mut self, node: usize, command: Command) {
        self.queue.push_back((node, Event::Local(command)));
    }

    /// Handles a batch of events, or waits for the next clock; answers what was delivered.
    pub(crate) fn turn(&mut self) -> Vec<(usize, Delivery)> {
        if self.queue.is_empty() {
            let next = self.nodes.iter().filter_map(Node::next_deadline).min();
            let wait = Millis(next.map_or(1, |deadline| deadline.since(self.now).0.min(1000)));
            thread::sleep(Duration::from_millis(wait.0));
            self.now = self.now + wait;
        }
        let now = self.now;
        for node in 0..self.nodes.len() {
            if self.nodes[node].next_deadline().is_some_and(|deadline| deadline <= now) {
                self.handle(node, Event::Tick);
            }
        }
        for _ in 0..BATCH {
            let Some((node, event)) = self.queue.pop_front() else { break };
            self.handle(node, event);
        }
        std::mem::take(&mut self.deliveries)
    }

    fn handle(&mut self, node: usize, event: Event) {
        let mut effects = Vec::new();
        self.nodes[node].handle(event, self.now, &mut effects);
        for effect in effects {
            match effect {
                Effect::Dial { link, rank } => self.dial(node, link, rank),
                Effect::Send { link, frame } => self.send(node, link, &frame),
                Effect::Close { link, reason } => {
                    if let Some((peer, other)) = self.peers.remove(&(node, link)) {
                        self.peers.remove(&(peer, other));
                        let event = Event::Closed { link: other, reason: reason.to_string() };
                        self.queue.push_back((peer, event));
                    }
                }
                Effect::Deliver(delivery) => self.deliveries.push((node, delivery)),
                Effect::State { .. } | Effect::SelfFence { .. } | Effect::Exit { .. } => {}
            }
        }
    }

    fn dial(&mut self, node: usize, link: LinkId, rank: u32) {
        let peer = rank as usize;
        let other = LinkId::accepted(self.accepted[peer]);
        self.accepted[peer] += 1;
        self.peers.insert((node, link), (peer, other));
        self.peers.insert((peer, other), (node, link));
        self.queue.push_back((peer, Event::Accepted { link: other, peer: node as u32 }));
        self.queue.push_back((node, Event::Connected { link }));
    }

    /// Over the wire and back: what the two ends of a real link would do to the frame.
    fn send(&mut self, node: usize, link: LinkId, frame: &Frame) {
        self.queue.push_back((node, Event::Written { link, bytes: frame.wire_len() }));
        let Some(&(peer, other)) = self.peers.get(&(node, link)) else { return };
        let mut pieces = Vec::new();
        frame.encode_shared(&mut pieces);
        let mut decoder = Decoder::new();
        let buffer: &mut BytesMut = decoder.buffer();
        for piece in pieces {
            buffer.extend_from_slice(&piece);
        }
        while let Some(frame) = decoder.next_frame().expect("a frame that was encoded is a frame") {
            self.queue.push_back((peer, Event::Frame { link: other, frame }));
        }
    }
}
