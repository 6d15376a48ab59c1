//! The node: one broker's whole overlay state behind one entry, [`Node::handle`].
//!
//! ```text
//! links ─┬─ uplink   (join)      one parent: dial, probe, greet, re-parent
//!        └─ family   (children)  many children: greet, their tables, what goes up
//! registry (rank 0)              who is online; graces, quorum, expulsions
//! liveness                       pings, proof that rank 0 lives, torpid, lost, self-fencing
//! stream                         numbered events down the tree
//! session, receive, notice       reliable messages between any two brokers
//! channels, cast                 what services make of them
//! exchange                       reductions up, results down
//! shutdown                       children leave before their parents
//! ```
//!
//! Each file of this module owns one of these and its part of the node's fields. All of them run
//! within one call of `handle`, which ends with the timers that are due.

mod cast;
mod channels;
mod children;
mod exchange;
mod join;
mod links;
mod liveness;
mod notice;
mod online;
mod receive;
mod registry;
mod session;
mod shutdown;
mod stream;

pub use registry::Missing;

use crate::frame::Message;
use crate::{
    BootId, ChannelId, Command, Config, Delivery, Effect, Effects, Event, ExitReason, Inventory,
    LinkId, Millis, Rank, State, Topology,
};
use bytes::Bytes;
use channels::Channels;
use exchange::Exchanges;
use join::Uplink;
use links::Link;
use online::Family;
use quorate_hostlist::IdSet;
use registry::Registry;
use session::Sessions;
use shutdown::Shutdown;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use stream::Stream;

/// One broker's overlay.
#[derive(Debug)]
pub struct Node {
    config: Config,
    topology: Topology,
    /// The own inventory as JSON, as the hello carries it.
    inventory: Bytes,
    started: Millis,
    /// The time of the call that is running.
    now: Millis,
    /// The caller's queue while a call is running.
    effects: Effects,
    random: Random,
    state: State,
    links: BTreeMap<LinkId, Link>,
    next_link: u64,
    uplink: Uplink,
    family: Family,
    /// On rank 0 alone.
    registry: Option<Registry>,
    /// When children are next looked at for silence.
    scan_at: Millis,
    stream: Stream,
    sessions: Sessions,
    channels: Channels,
    /// Messages of this broker to itself, delivered before the call ends. Bounded by what one
    /// command can cause, since the queue is empty between calls.
    loopback: VecDeque<Message>,
    exchanges: Exchanges,
    shutdown: Shutdown,
}

impl Node {
    /// A node at the start of its life. Nothing happens before its first event, which can be
    /// [`Event::Tick`].
    pub fn new(config: Config, now: Millis) -> Self {
        // A rank beyond the cluster has ancestors too, which will refuse it.
        let ranks = config.max_size.max(config.size).max(config.rank.saturating_add(1));
        let topology = Topology::new(ranks, config.fanout);
        let inventory =
            serde_json::to_vec(&config.inventory).expect("plain data always serializes");
        let is_root = config.rank == 0;
        Self {
            topology,
            inventory: inventory.into(),
            started: now,
            now,
            effects: Effects::new(),
            random: Random(config.seed ^ (u64::from(config.rank) << 32)),
            state: State::Join,
            links: BTreeMap::new(),
            next_link: 0,
            uplink: Uplink::new(topology.ancestors(config.rank).collect(), &config.timing, now),
            family: Family::default(),
            registry: is_root.then(Registry::default),
            scan_at: now + config.timing.torpid_after,
            stream: Stream::default(),
            sessions: Sessions::default(),
            channels: Channels::default(),
            loopback: VecDeque::new(),
            exchanges: Exchanges::default(),
            shutdown: Shutdown::default(),
            config,
        }
    }

    /// Takes one event and appends what is to be done about it. After [`Effect::Exit`] nothing has
    /// an effect any more.
    pub fn handle(&mut self, event: Event, now: Millis, effects: &mut Effects) {
        if self.state == State::Exit {
            return;
        }
        self.now = self.now.max(now);
        std::mem::swap(&mut self.effects, effects);
        if self.is_root() && self.state == State::Join {
            self.start_root();
        }
        match event {
            Event::Accepted { link, peer } => self.accepted(link, peer),
            Event::Connected { link } => self.connected(link),
            Event::DialFailed { link, failure } => self.dial_failed(link, &failure),
            Event::Closed { link, reason } => self.closed(link, &reason),
            Event::Frame { link, frame } => self.frame(link, frame),
            Event::Written { link, bytes } => {
                if let Some(link) = self.links.get_mut(&link) {
                    link.queued = link.queued.saturating_sub(bytes);
                }
            }
            Event::Tick => {}
            Event::Local(command) => self.command(command),
        }
        self.settle();
        std::mem::swap(&mut self.effects, effects);
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Open { channel, to, service, payload } => {
                self.open(channel, to, service, &payload);
            }
            Command::Send { channel, payload } => self.send_data(channel, payload),
            Command::Grant { channel, credits } => self.grant(channel, credits),
            Command::Close { channel, result } => self.close_channel(channel, result),
            Command::Cast { to, service, payload } => self.cast(&to, &service, &payload),
            Command::Publish { topic, payload } => self.publish(topic, payload),
            Command::Contribute { key, members, blob } => self.contribute(key, &members, blob),
            Command::EndJob { job } => self.end_job(job),
            Command::Finish { done, reason } => self.finish(done, reason),
            Command::Resize { size } => self.resize(size),
            Command::Cleaned => self.cleaned(),
            Command::Leave { reason } => self.leave(&reason),
            Command::PeerRefused { rank, reason } => self.report_refused(rank, reason),
        }
    }

    /// What follows from an event, and the timers that are due.
    fn settle(&mut self) {
        if self.state == State::Exit {
            self.loopback.clear();
            return;
        }
        while let Some(message) = self.loopback.pop_front() {
            let me = self.config.rank;
            self.message(me, message);
        }
        // An expulsion or a fence ends the node in the middle of its duties.
        for duty in [
            Self::tick_uplink,
            Self::tick_liveness,
            Self::tick_family,
            Self::tick_registry,
            Self::tick_sessions,
            Self::tick_exchanges,
            Self::tick_shutdown,
        ] {
            if self.state == State::Exit {
                return;
            }
            duty(self);
        }
        while let Some(message) = self.loopback.pop_front() {
            let me = self.config.rank;
            self.message(me, message);
        }
    }

    /// When [`Node::handle`] wants to be called again, with `Tick` if nothing else happens.
    pub fn next_deadline(&self) -> Option<Millis> {
        if self.state == State::Exit {
            return None;
        }
        self.deadlines().into_iter().flatten().min()
    }

    /// What [`Node::next_deadline`] is the earliest of: the way up, liveness, the brokers below,
    /// rank 0's registry, sessions, exchanges, shutdown. For logs.
    pub fn deadlines(&self) -> [Option<Millis>; 7] {
        [
            self.uplink_deadline(),
            self.liveness_deadline(),
            self.family_deadline(),
            self.registry_deadline(),
            self.sessions.deadline(),
            self.exchanges.deadline(),
            self.shutdown_deadline(),
        ]
    }

    fn is_root(&self) -> bool {
        self.config.rank == 0
    }

    fn deliver(&mut self, delivery: Delivery) {
        self.effects.push(Effect::Deliver(delivery));
    }

    fn set_state(&mut self, to: State, cause: &'static str) {
        if self.state != to {
            self.effects.push(Effect::State { from: self.state, to, cause });
            self.state = to;
        }
    }

    /// Ends the node: all links are closed, nothing has an effect any more.
    fn exit(&mut self, reason: ExitReason, cause: &'static str) {
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        for link in links {
            self.close(link, crate::CloseReason::Leaving);
        }
        self.set_state(State::Exit, cause);
        self.effects.push(Effect::Exit { reason });
    }

    /// A fresh id for [`Command::Open`].
    pub fn new_channel(&mut self) -> ChannelId {
        self.channels.new_id()
    }

    /// Messages that a channel takes now; `None` for a channel that is not open.
    pub fn credits(&self, channel: ChannelId) -> Option<u32> {
        let channel = self.channels.get(channel)?;
        Some(if self.sessions.is_full(channel.peer) { 0 } else { channel.credits })
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
        self.is_root() || (self.uplink.confirmed && self.uplink.parent.is_some())
    }

    /// The life of rank 0 that this broker follows.
    pub fn root_boot(&self) -> BootId {
        self.stream.root
    }

    /// Checks that no queue is longer than its bound; for tests and assertions.
    pub fn check_bounds(&self) -> Result<(), String> {
        if !self.loopback.is_empty() {
            return Err("messages to itself are left over".to_owned());
        }
        for link in self.links.values() {
            if link.queued > links::STUCK_LIMIT + crate::frame::MAX_FRAME + 4 {
                return Err(format!("{} bytes are queued to rank {}", link.queued, link.peer));
            }
        }
        self.stream.check_bounds()?;
        self.sessions.check_bounds()?;
        self.channels.check_bounds()?;
        self.exchanges.check_bounds()
    }

    /// The broker that this one is attached to now.
    pub fn parent(&self) -> Option<Rank> {
        self.uplink.parent.and_then(|link| self.links.get(&link)).map(|link| link.peer)
    }

    /// The brokers that are attached to this one now.
    pub fn children(&self) -> IdSet {
        self.family.children.keys().copied().collect()
    }

    /// The neighbour through which a broker is reached now.
    pub fn next_hop(&self, to: Rank) -> Option<Rank> {
        let link = self.route(to)?;
        self.links.get(&link).map(|link| link.peer)
    }

    /// On rank 0: who is online, itself included. Elsewhere: this broker and those below it.
    pub fn online(&self) -> IdSet {
        match &self.registry {
            Some(registry) => registry.online(),
            None => std::iter::once(self.config.rank).chain(self.family.ranks()).collect(),
        }
    }

    /// On rank 0: who is online and silent.
    pub fn torpid(&self) -> IdSet {
        self.registry.as_ref().map(Registry::torpid).unwrap_or_default()
    }

    /// On rank 0: which life of a broker is online.
    pub fn boot_of(&self, rank: Rank) -> Option<BootId> {
        self.registry.as_ref()?.boot(rank)
    }

    /// On rank 0: what an online broker offers.
    pub fn inventory(&self, rank: Rank) -> Option<Arc<Inventory>> {
        self.registry.as_ref()?.inventory(rank)
    }

    /// On rank 0: planned brokers that are not online, and why.
    pub fn missing(&self, now: Millis) -> Vec<Missing> {
        self.registry
            .as_ref()
            .map(|registry| registry.missing(self.size(), now))
            .unwrap_or_default()
    }

    /// Brokers planned now: what was said last, or more if higher ranks are online.
    pub fn size(&self) -> u32 {
        let highest = self.registry.as_ref().and_then(Registry::highest);
        highest.map_or(self.config.size, |rank| self.config.size.max(rank + 1))
    }

    /// On rank 0: brokers whose link stands, or that are below another broker which has just died.
    /// Unlike those that are online, brokers whose own link broke are left out at once.
    pub fn present(&self) -> IdSet {
        self.registry.as_ref().map_or_else(|| self.online(), Registry::present)
    }

    /// On rank 0: when the bootstrap gives up; `None` once quorate.
    pub fn gives_up_at(&self) -> Option<Millis> {
        (self.is_root() && self.state < State::Run)
            .then(|| self.started + self.config.timing.bootstrap_timeout)
    }
}

/// Numbers for jitter (SplitMix64, Steele et al. 2014).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A span between half of `span` and the whole of it.
    fn jitter(&mut self, span: Millis) -> Millis {
        let half = span.0 / 2;
        Millis(span.0 - half + self.next() % (half + 1))
    }
}
