//! Virtual time, hosts, and the network between them: what shells and sockets do in reality.

use crate::ledger::{Ledger, Life};
use crate::net::{Conn, ConnId};
use crate::random::Random;
use crate::shell::{Shell, Wish};
use quorate_hostlist::IdSet;
use quorate_overlay::{
    BootId, ChannelId, Command, Config, Delivery, DialFailure, Effect, Effects, Event, ExitReason,
    FenceReason, Inventory, LinkId, Millis, Node, Rank, State, Timing,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

pub(crate) type HostId = usize;

/// One broker process and its place.
pub(crate) struct Host {
    pub(crate) rank: Rank,
    pub(crate) attempt: u32,
    pub(crate) life: u32,
    pub(crate) node: Option<Node>,
    pub(crate) shell: Shell,
    pub(crate) paused: bool,
    /// Hosts of different groups cannot hear each other.
    pub(crate) group: u8,
    pub(crate) exit: Option<ExitReason>,
    /// Started again when it dies, as by a supervisor.
    pub(crate) supervised: bool,
    /// Does not say when its tasks are gone.
    pub(crate) hangs: bool,
    pub(crate) started: u64,
    /// When it left its state for EXIT.
    pub(crate) exited: u64,
    timer: Option<u64>,
    pub(crate) links: BTreeMap<LinkId, (ConnId, usize)>,
    pub(crate) accepted: u64,
    pub(crate) written: Vec<(LinkId, usize)>,
    boots: u64,
}

pub(crate) enum Happening {
    Timer(HostId),
    Arrive(ConnId, usize),
    Dialled {
        from: HostId,
        life: u32,
        link: LinkId,
        to: Rank,
    },
    Established(ConnId),
    DialFailed {
        from: HostId,
        life: u32,
        link: LinkId,
        failure: DialFailure,
    },
    Start(HostId),
    Wish {
        host: HostId,
        life: u32,
        command: Command,
        then: Option<Command>,
    },
    /// A stream may send.
    Stream {
        host: HostId,
        life: u32,
        channel: ChannelId,
    },
    /// Something of the plan.
    Planned(usize),
}

struct Entry {
    at: u64,
    order: u64,
    what: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// What all hosts have in common.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) size: u32,
    pub(crate) min_size: u32,
    pub(crate) fanout: u32,
    pub(crate) timing: Timing,
    /// Every frame goes through the codec.
    pub(crate) codec: bool,
    pub(crate) latency: u64,
    pub(crate) trace: bool,
}

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) setup: Setup,
    pub(crate) hosts: Vec<Host>,
    pub(crate) ledger: Ledger,
    pub(crate) random: Random,
    heap: BinaryHeap<Reverse<Entry>>,
    pub(crate) order: u64,
    pub(crate) conns: Vec<Option<Conn>>,
    pub(crate) next_id: u64,
    pub(crate) steps: u64,
    /// A time and the events at it: a node whose deadline never moves on spins.
    spin: (u64, u64),
    pub(crate) frames: u64,
    effects: Vec<Effects>,
    /// What was delivered where and when, if anybody wants to know.
    pub(crate) record: Option<Vec<(u64, HostId, Delivery)>>,
    /// Nobody is started any more.
    pub(crate) closing: bool,
    /// Planned things that are due, for the caller.
    due: VecDeque<usize>,
    /// Lives that were expelled or fenced: their channels may have failed for good reason.
    pub(crate) cut_off: BTreeSet<Life>,
}

impl World {
    pub(crate) fn new(setup: Setup, seed: u64) -> Self {
        let mut world = Self {
            now: 0,
            hosts: Vec::new(),
            ledger: Ledger::default(),
            random: Random::new(seed),
            heap: BinaryHeap::new(),
            order: 0,
            conns: Vec::new(),
            next_id: 1,
            steps: 0,
            spin: (0, 0),
            frames: 0,
            effects: Vec::new(),
            record: None,
            closing: false,
            due: VecDeque::new(),
            cut_off: BTreeSet::new(),
            setup,
        };
        for rank in 0..world.setup.size {
            world.add_host(rank, 1, true);
        }
        world
    }

    /// A broker that is not started yet. The first `size` hosts are the cluster's.
    pub(crate) fn add_host(&mut self, rank: Rank, attempt: u32, supervised: bool) -> HostId {
        self.hosts.push(Host {
            rank,
            attempt,
            life: 0,
            node: None,
            shell: Shell::new((rank, 0)),
            paused: false,
            group: 0,
            exit: None,
            supervised,
            hangs: false,
            started: 0,
            exited: 0,
            timer: None,
            links: BTreeMap::new(),
            accepted: 0,
            written: Vec::new(),
            boots: 0,
        });
        self.hosts.len() - 1
    }

    pub(crate) fn at(&mut self, at: u64, what: Happening) {
        self.order += 1;
        self.heap.push(Reverse(Entry { at, order: self.order, what }));
    }

    pub(crate) fn plan(&mut self, at: u64, index: usize) {
        self.at(at, Happening::Planned(index));
    }

    pub(crate) fn start_at(&mut self, host: HostId, at: u64) {
        self.at(at, Happening::Start(host));
    }

    pub(crate) fn wish_at(&mut self, host: HostId, at: u64, command: Command) {
        let life = self.hosts[host].life;
        self.at(at, Happening::Wish { host, life, command, then: None });
    }

    fn start(&mut self, host: HostId) {
        if self.hosts[host].node.is_some() || self.closing {
            return;
        }
        let seed = self.random.next();
        let setup = &self.setup;
        let entry = &mut self.hosts[host];
        entry.life += 1;
        entry.boots += 1;
        entry.started = self.now;
        let boot =
            (u128::from(seed) << 64) | (u128::from(entry.rank) << 32) | u128::from(entry.life);
        let config = Config {
            rank: entry.rank,
            size: setup.size,
            min_size: setup.min_size,
            max_size: setup.size,
            fanout: setup.fanout,
            cluster: "cluster".into(),
            attempt: entry.attempt,
            boot: BootId(boot),
            inventory: Inventory {
                hostname: format!("host-{}", entry.rank),
                cpus: "0-3".into(),
                slots: 4,
                ..Inventory::default()
            },
            timing: setup.timing.clone(),
            seed,
        };
        entry.node = Some(Node::new(config, Millis(self.now)));
        entry.shell = Shell::new((entry.rank, entry.life));
        entry.exit = None;
        entry.paused = false;
        entry.timer = None;
        entry.accepted = 0;
        self.handle(host, Event::Tick);
    }

    /// The process dies; its connections break.
    pub(crate) fn kill(&mut self, host: HostId) {
        if self.hosts[host].node.take().is_none() {
            return;
        }
        self.trace(host, "killed");
        self.hosts[host].exited = self.now;
        self.hosts[host].paused = false;
        let links = std::mem::take(&mut self.hosts[host].links);
        for (conn, side) in links.into_values() {
            self.fin(conn, 1 - side, "connection reset");
        }
        self.hosts[host].written.clear();
    }

    pub(crate) fn pause(&mut self, host: HostId) {
        self.hosts[host].paused = true;
    }

    pub(crate) fn resume(&mut self, host: HostId) {
        if !std::mem::take(&mut self.hosts[host].paused) {
            return;
        }
        // Timers may be seen before what came in, or after.
        if self.random.chance(50) {
            self.handle(host, Event::Tick);
        }
        self.kick();
        self.hosts[host].timer = None;
        self.rearm(host);
    }

    pub(crate) fn set_group(&mut self, host: HostId, group: u8) {
        self.hosts[host].group = group;
    }

    /// Runs until a planned thing is due, or until `end`.
    pub(crate) fn run(&mut self, end: u64) -> Option<usize> {
        loop {
            if let Some(planned) = self.due.pop_front() {
                return Some(planned);
            }
            match self.heap.peek() {
                Some(Reverse(entry)) if entry.at <= end => {}
                _ => {
                    self.now = end;
                    return None;
                }
            }
            let Reverse(entry) = self.heap.pop()?;
            self.now = self.now.max(entry.at);
            self.step(entry.what);
        }
    }

    fn step(&mut self, what: Happening) {
        match what {
            Happening::Timer(host) => {
                let due = self.hosts[host].timer.is_some_and(|at| at <= self.now);
                if due && !self.hosts[host].paused {
                    self.hosts[host].timer = None;
                    self.handle(host, Event::Tick);
                }
            }
            Happening::Arrive(conn, side) => self.arrive(conn, side),
            Happening::Dialled { from, life, link, to } => self.dialled(from, life, link, to),
            Happening::Established(conn) => {
                let Some(c) = &self.conns[conn] else { return };
                let end = &c.ends[0];
                let (host, life, link) = (end.host, end.life, end.link);
                if self.hosts[host].paused {
                    let at = self.now + 50;
                    self.at(at, Happening::Established(conn));
                } else if self.hosts[host].life == life
                    && self.hosts[host].links.contains_key(&link)
                {
                    self.handle(host, Event::Connected { link });
                }
            }
            Happening::DialFailed { from, life, link, failure } => {
                if self.hosts[from].paused {
                    let at = self.now + 50;
                    self.at(at, Happening::DialFailed { from, life, link, failure });
                } else if self.hosts[from].life == life {
                    self.handle(from, Event::DialFailed { link, failure });
                }
            }
            Happening::Start(host) => self.start(host),
            Happening::Wish { host, life, command, then } => {
                let entry = &self.hosts[host];
                if entry.life != life {
                    return;
                }
                let full = match (&command, &entry.node) {
                    (Command::Send { channel, .. }, Some(node)) => {
                        node.credits(*channel) == Some(0)
                    }
                    _ => false,
                };
                if entry.paused || full {
                    let at = self.now + 50;
                    self.at(at, Happening::Wish { host, life, command, then });
                } else {
                    if let Command::Contribute { key, .. } = &command {
                        if !self.hosts[host].shell.is_in_job(key.job) {
                            return;
                        }
                        let rank = self.hosts[host].rank;
                        if let Some(exchange) = self.ledger.exchanges.get_mut(key)
                            && !exchange.contributed.insert(rank)
                        {
                            self.ledger.broken(format!("{key:?} was begun twice at {rank}"));
                        }
                    }
                    self.command(host, command);
                    if let Some(command) = then {
                        self.command(host, command);
                    }
                }
            }
            Happening::Stream { host, life, channel } => {
                if self.hosts[host].life == life {
                    self.write_stream(host, channel);
                }
            }
            Happening::Planned(index) => self.due.push_back(index),
        }
    }

    pub(crate) fn command(&mut self, host: HostId, command: Command) {
        self.handle(host, Event::Local(command));
    }

    pub(crate) fn handle(&mut self, host: HostId, event: Event) {
        self.steps += 1;
        if self.now > self.spin.0 {
            self.spin = (self.now, 0);
        }
        self.spin.1 += 1;
        assert!(
            self.spin.1 < 200_000,
            "rank {} spins at {}: {event:?}, deadlines {:?}",
            self.hosts[host].rank,
            self.now,
            self.hosts[host].node.as_ref().map(Node::deadlines)
        );
        let mut effects = self.effects.pop().unwrap_or_default();
        let now = Millis(self.now);
        let entry = &mut self.hosts[host];
        let Some(node) = &mut entry.node else { return };
        if self.setup.trace {
            println!("{:>7} rank {} <- {}", self.now, entry.rank, brief(&format!("{event:?}")));
        }
        for (link, bytes) in std::mem::take(&mut entry.written) {
            node.handle(Event::Written { link, bytes }, now, &mut effects);
        }
        node.handle(event, now, &mut effects);
        if self.steps.is_multiple_of(64)
            && let Err(what) = node.check_bounds()
        {
            let text = format!("rank {}: {what}", entry.rank);
            self.ledger.broken(text);
        }
        for effect in effects.drain(..) {
            self.effect(host, effect);
        }
        self.effects.push(effects);
        self.rearm(host);
    }

    fn rearm(&mut self, host: HostId) {
        let entry = &mut self.hosts[host];
        let Some(at) = entry.node.as_ref().and_then(Node::next_deadline) else { return };
        // A deadline in the past would spin.
        let at = at.0.max(self.now + u64::from(at.0 < self.now));
        if entry.timer.is_none_or(|known| known > at) {
            entry.timer = Some(at);
            self.at(at, Happening::Timer(host));
        }
    }

    fn effect(&mut self, host: HostId, effect: Effect) {
        if self.setup.trace {
            println!(
                "{:>7} rank {} -> {}",
                self.now,
                self.hosts[host].rank,
                brief(&format!("{effect:?}"))
            );
        }
        let life = self.hosts[host].life;
        match effect {
            Effect::Dial { link, rank } => {
                let at = self.now + 1 + self.random.below(self.setup.latency + 1);
                self.at(at, Happening::Dialled { from: host, life, link, to: rank });
            }
            Effect::Send { link, frame } => self.transmit(host, link, frame),
            Effect::Close { link, .. } => {
                if let Some((conn, side)) = self.hosts[host].links.remove(&link) {
                    if let Some(c) = &mut self.conns[conn] {
                        c.over[side] = true;
                    }
                    self.fin(conn, 1 - side, "closed by the peer");
                }
            }
            Effect::State { to, .. } => {
                if to == State::Cleanup && !self.hosts[host].hangs {
                    let at = self.now + self.random.below(100);
                    self.wish_at(host, at, Command::Cleaned);
                }
            }
            Effect::Deliver(delivery) => self.deliver(host, delivery),
            Effect::SelfFence { .. } => {
                self.cut_off.insert((self.hosts[host].rank, life));
            }
            Effect::Exit { reason } => {
                let again = matches!(
                    reason,
                    ExitReason::Fenced(FenceReason::Expelled { .. } | FenceReason::Orphaned { .. })
                ) && self.hosts[host].supervised;
                self.hosts[host].exit = Some(reason);
                self.hosts[host].exited = self.now;
                self.hosts[host].node = None;
                self.hosts[host].links.clear();
                self.hosts[host].written.clear();
                if again {
                    let at = self.now + 100 + self.random.below(400);
                    self.start_at(host, at);
                }
            }
        }
    }

    fn deliver(&mut self, host: HostId, delivery: Delivery) {
        if let Some(record) = &mut self.record {
            record.push((self.now, host, delivery.clone()));
        }
        let writable = match &delivery {
            Delivery::Writable { channel, .. } => Some(*channel),
            _ => None,
        };
        let entry = &mut self.hosts[host];
        if let Some(node) = &entry.node {
            entry.shell.root = node.root_boot();
        }
        let wishes = entry.shell.deliver(delivery, &mut self.ledger, &mut self.random);
        let life = self.hosts[host].life;
        for Wish { after, command, then } in wishes {
            let at = self.now + after;
            self.at(at, Happening::Wish { host, life, command, then });
        }
        if let Some(channel) = writable {
            self.wish_stream(host, channel);
        }
    }

    /// Goes on with a stream, but not within the call that is running.
    pub(crate) fn wish_stream(&mut self, host: HostId, channel: ChannelId) {
        let (at, life) = (self.now, self.hosts[host].life);
        self.at(at, Happening::Stream { host, life, channel });
    }

    /// Goes on with a stream as far as credits allow, and one message further.
    fn write_stream(&mut self, host: HostId, channel: ChannelId) {
        loop {
            let entry = &mut self.hosts[host];
            let Some(node) = &entry.node else { return };
            let Some(credits) = node.credits(channel) else { return };
            match entry.shell.next_message(channel) {
                Some(command) => self.command(host, command),
                None if entry.shell.is_stream(channel) => {
                    entry.shell.stream_closed(channel, &mut self.ledger);
                    self.command(host, Command::Close { channel, result: Ok(()) });
                    return;
                }
                None => return,
            }
            if credits == 0 {
                return;
            }
        }
    }

    pub(crate) fn node(&self, rank: Rank) -> Option<&Node> {
        self.hosts[rank as usize].node.as_ref()
    }

    /// The lives that run now, of this attempt.
    pub(crate) fn alive(&self) -> BTreeSet<Life> {
        self.hosts
            .iter()
            .filter(|host| host.node.is_some() && host.attempt == 1)
            .map(|host| (host.rank, host.life))
            .collect()
    }

    pub(crate) fn live_ranks(&self) -> IdSet {
        self.alive().into_iter().map(|(rank, _)| rank).collect()
    }

    pub(crate) fn trace(&self, host: HostId, what: &str) {
        if self.setup.trace {
            println!("{:>7} rank {} {what}", self.now, self.hosts[host].rank);
        }
    }
}

fn brief(text: &str) -> &str {
    match text.char_indices().nth(300) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}
