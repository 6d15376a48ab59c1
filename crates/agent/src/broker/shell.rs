//! The node task: the one owner of the node and its links. It feeds events with the time, runs
//! effects in their order, and decides nothing.

use super::channel::Control;
use super::handle::{
    CastFailed, ExchangeError, Member, Membership, Offline, Overlay, Shared, ToNode,
};
use super::inventory::Inventory;
use super::link::{Dialer, FromNet, Links};
use super::observe::Counters;
use super::services::Services;
use super::status::{self, Told};
use super::traffic::{Core, Traffic};
use crate::settings::Settings;
use bytes::Bytes;
use quorate_contract::config::Program;
use quorate_contract::status::BrokerState;
use quorate_overlay::{
    Command, Config, Delivery, DialFailure, Effect, Event, ExchangeKey, ExitReason, Failure,
    FailureCode, LinkId, Millis, Node, State,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Wishes that wait for the node task. Small: whoever asks can wait.
const WISHES: usize = 256;
/// News of links that wait for the node task; readers wait when it is full, and TCP with them.
const NEWS: usize = 256;
/// Losses that a slow listener may be behind.
const LOSSES: usize = 256;
/// Wishes and news that are taken at once before the task yields.
const BATCH: usize = 128;

/// What the broker's life hears of the node.
#[derive(Debug)]
pub(super) enum LifeEvent {
    /// The node has moved to this state.
    State(State),
    /// All tasks must stop at once.
    Fence,
    /// On rank 0: another broker is online, the first one in this life.
    FirstMember,
    /// Rank 0 was started anew.
    RootReplaced,
    /// The node is done.
    Exit(ExitReason),
}

/// Milliseconds since the start of this broker, on a clock that runs on while it is stopped.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn now(self) -> Millis {
        Millis(self.0.elapsed().as_millis() as u64)
    }

    fn instant(self, at: Millis) -> Instant {
        self.0 + Duration::from_millis(at.0)
    }
}

/// The node task, before it runs.
pub(super) struct Shell {
    settings: Arc<Settings>,
    clock: Clock,
    node: Node,
    effects: VecDeque<Effect>,
    links: Links,
    traffic: Traffic,
    services: Arc<OnceLock<Services>>,
    wishes: mpsc::Receiver<ToNode>,
    control: mpsc::UnboundedReceiver<Control>,
    from_net: mpsc::Receiver<FromNet>,
    membership: watch::Sender<Arc<Membership>>,
    offline: broadcast::Sender<Offline>,
    cast_failed: broadcast::Sender<CastFailed>,
    changed: watch::Sender<u64>,
    dial_failed: watch::Sender<Option<String>>,
    life: mpsc::UnboundedSender<LifeEvent>,
    told: Told,
    /// The last reason by which each rank was refused, so that each is logged once.
    refused: HashMap<u32, String>,
    done: bool,
}

/// What [`Shell::new`] makes besides the shell itself.
pub(super) struct Ends {
    pub(super) overlay: Overlay,
    /// To be filled before the shell runs.
    pub(super) services: Arc<OnceLock<Services>>,
    /// For the task that accepts callers.
    pub(super) to_node: mpsc::Sender<FromNet>,
    /// Bytes of this broker's links.
    pub(super) counters: Arc<Counters>,
    pub(super) life: mpsc::UnboundedReceiver<LifeEvent>,
}

impl Shell {
    pub(super) fn new(
        settings: Arc<Settings>,
        config: Config,
        inventory: &Arc<Inventory>,
        dialer: Dialer,
    ) -> (Self, Ends) {
        let (to_node, wishes) = mpsc::channel(WISHES);
        let (to_control, control) = mpsc::unbounded_channel();
        let (net, from_net) = mpsc::channel(NEWS);
        let own = Member { inventory: inventory.clone(), torpid: false, draining: false };
        let membership = Membership {
            state: BrokerState::Join,
            size: settings.config.size,
            wanted: settings.config.size,
            free_from: None,
            online: BTreeMap::from([(settings.rank, own)]),
        };
        let (membership, members) = watch::channel(Arc::new(membership));
        let (changed, changes) = watch::channel(0);
        let (dial_failed, dial_failure) = watch::channel(None);
        let (offline, _) = broadcast::channel(LOSSES);
        let (cast_failed, _) = broadcast::channel(LOSSES);
        let (life, life_events) = mpsc::unbounded_channel();
        let services = Arc::new(OnceLock::new());
        let overlay = Overlay::new(Shared {
            settings: settings.clone(),
            node: to_node.clone(),
            membership: members,
            offline: offline.clone(),
            cast_failed: cast_failed.clone(),
            changed: changes,
            dial_failure,
        });
        let clock = Clock(Instant::now());
        let links = Links::new(Arc::new(settings.config.clone()), Arc::new(dialer), net.clone());
        let counters = links.counters();
        let shell = Self {
            settings,
            node: Node::new(config, clock.now()),
            clock,
            effects: VecDeque::new(),
            links,
            traffic: Traffic::new(to_node, to_control),
            services: services.clone(),
            wishes,
            control,
            from_net,
            membership,
            offline,
            cast_failed,
            changed,
            dial_failed,
            life,
            told: Told::default(),
            refused: HashMap::new(),
            done: false,
        };
        (shell, Ends { overlay, services, to_node: net, counters, life: life_events })
    }

    /// Runs until the node is done and what it has said last is out.
    pub(super) async fn run(mut self) {
        self.feed(Event::Tick);
        self.run_effects();
        while !self.done {
            let deadline = self.node.next_deadline().map(|at| self.clock.instant(at));
            let due = async {
                match deadline {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(news) = self.from_net.recv() => self.news(news),
                Some(control) = self.control.recv() => self.control(control),
                Some(wish) = self.wishes.recv() => self.wish(wish),
                () = due => self.feed(Event::Tick),
            }
            self.run_effects();
            for _ in 0..BATCH {
                if let Ok(news) = self.from_net.try_recv() {
                    self.news(news);
                } else if let Ok(control) = self.control.try_recv() {
                    self.control(control);
                } else if let Ok(wish) = self.wishes.try_recv() {
                    self.wish(wish);
                } else {
                    break;
                }
                self.run_effects();
                if self.done {
                    break;
                }
            }
        }
        self.links.drain(self.from_net).await;
    }

    fn feed(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.node.handle(event, self.clock.now(), &mut effects);
        self.effects.extend(effects);
    }

    /// Splits the borrow: the node on one side, what is under way on the other.
    fn with_core<T>(&mut self, run: impl FnOnce(&mut Traffic, &mut Core<'_>) -> T) -> T {
        let now = self.clock.now();
        let mut core = Core { node: &mut self.node, now, effects: &mut self.effects };
        run(&mut self.traffic, &mut core)
    }

    fn control(&mut self, control: Control) {
        self.with_core(|traffic, core| traffic.control(core, control));
    }

    fn news(&mut self, news: FromNet) {
        match news {
            FromNet::Accepted { peer, stream } => {
                let link = self.links.next_accepted();
                self.links.start(link, *stream);
                self.feed(Event::Accepted { link, peer });
            }
            FromNet::Refused { peer, reason } => {
                if self.refused.get(&peer) != Some(&reason) {
                    tracing::warn!(rank = peer, reason, "refused");
                    self.refused.insert(peer, reason.clone());
                }
                self.feed(Event::Local(Command::PeerRefused { rank: peer, reason }));
                self.bump();
            }
            FromNet::Connected { link, stream } => {
                if self.links.connected(link, *stream) {
                    self.dial_failed.send_replace(None);
                    self.feed(Event::Connected { link });
                }
            }
            FromNet::DialFailed { link, failure } => {
                if self.links.broken(link) {
                    tracing::debug!(?failure, "dial failed");
                    let (DialFailure::Unreachable(why) | DialFailure::WrongKey(why)) = &failure;
                    self.dial_failed.send_replace(Some(why.clone()));
                    self.feed(Event::DialFailed { link, failure });
                }
            }
            FromNet::Frame { link, frame } => {
                tracing::trace!(?link, ?frame, "received");
                self.feed(Event::Frame { link, frame });
            }
            FromNet::Written { link, bytes } => self.feed(Event::Written { link, bytes }),
            FromNet::Closed { link, reason } => self.link_closed(link, reason),
        }
    }

    fn link_closed(&mut self, link: LinkId, reason: String) {
        if self.links.broken(link) {
            tracing::debug!(?link, reason, "link closed");
            self.feed(Event::Closed { link, reason });
        }
    }

    fn wish(&mut self, wish: ToNode) {
        match wish {
            ToNode::Open { to, service, first, reply } => {
                let channel =
                    self.with_core(|traffic, core| traffic.open(core, to, service, first));
                let _ = reply.send(Ok(channel));
            }
            ToNode::Data { id, part } => {
                self.with_core(|traffic, core| traffic.data(core, id, part));
            }
            ToNode::Finish { id, outcome } => {
                self.with_core(|traffic, core| traffic.finish(core, id, outcome));
            }
            ToNode::Request { to, service, body, reply } => {
                self.with_core(|traffic, core| traffic.request(core, to, service, body, reply));
            }
            ToNode::Respond { request, outcome } => {
                self.with_core(|traffic, core| traffic.respond(core, request, outcome));
            }
            ToNode::Cast { to, service, body, reply } => {
                let to = to.into_iter().collect();
                self.feed(Event::Local(Command::Cast { to, service, payload: body }));
                let _ = reply.send(Ok(()));
            }
            ToNode::Exchange { job, sequence, members, blob, reply } => {
                let key = ExchangeKey { job, sequence: fold(sequence) };
                self.with_core(|traffic, core| {
                    traffic.exchange(core, key, &members, blob, reply);
                });
            }
            ToNode::Publish { topic, body } => {
                self.feed(Event::Local(Command::Publish { topic, payload: body }));
            }
            ToNode::EndJob { job } => self.feed(Event::Local(Command::EndJob { job })),
            ToNode::Hop { to, reply } => {
                let _ = reply.send(self.node.next_hop(to));
            }
            ToNode::Life(command) => self.feed(Event::Local(command)),
            ToNode::Status { reply } => {
                let now = self.clock.now();
                let members = self.membership.borrow().clone();
                let status = status::of(&self.node, &self.settings, &members, &self.told, now);
                let _ = reply.send(status);
            }
            ToNode::Program { status } => {
                self.told.program = Some(status);
                self.bump();
            }
            ToNode::Queue { counts, queues, trouble } => {
                let now = (Some(counts), queues, trouble);
                let told = &mut self.told;
                let before = (told.queue, &told.queues, &told.queue_trouble);
                if before != (now.0, &now.1, &now.2) {
                    (told.queue, told.queues, told.queue_trouble) = now;
                    self.bump();
                }
            }
            ToNode::Leaving { leaving } => {
                if self.told.leaving != leaving {
                    self.told.leaving = leaving;
                    self.bump();
                }
            }
            ToNode::Progress { phases, report } => {
                self.told.phases = phases;
                self.told.report = report;
                self.bump();
            }
            ToNode::Size { size } => {
                self.update(|membership| {
                    membership.wanted = size;
                    // Those beyond another size have to be looked at again.
                    membership.free_from = membership.free_from.filter(|rank| *rank == size);
                });
                // The queue lets those beyond go, once their jobs are over (`queue::shrink`).
                let waits = self.settings.config.program == Program::None;
                if !waits || size >= self.node.size() {
                    self.feed(Event::Local(Command::Resize { size }));
                }
            }
            // Unless it was thought better of meanwhile.
            ToNode::Shrunk { size } => {
                if self.membership.borrow().wanted == size {
                    self.update(|membership| membership.free_from = Some(size));
                    self.feed(Event::Local(Command::Resize { size }));
                }
            }
            ToNode::Draining { rank } => {
                tracing::info!(rank, "draining");
                self.update(|membership| {
                    if let Some(member) = membership.online.get_mut(&rank) {
                        member.draining = true;
                    }
                });
            }
        }
    }

    fn run_effects(&mut self) {
        while let Some(effect) = self.effects.pop_front() {
            self.effect(effect);
        }
        let (from, to) = (self.membership.borrow().size, self.node.size());
        if from != to {
            tracing::info!(from, to, "size");
            self.update(|membership| membership.size = to);
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Dial { link, rank } => self.links.dial(link, rank),
            Effect::Send { link, frame } => {
                tracing::trace!(?link, ?frame, "sent");
                self.links.send(link, frame);
            }
            Effect::Close { link, reason } => {
                tracing::debug!(?link, %reason, "closing link");
                self.links.close(link);
            }
            Effect::State { from, to, cause } => {
                tracing::info!(%from, %to, cause, "state");
                self.update(|membership| membership.state = status::state(to));
                let _ = self.life.send(LifeEvent::State(to));
            }
            Effect::Deliver(delivery) => self.deliver(delivery),
            Effect::SelfFence { reason } => {
                tracing::warn!(%reason, "stopping all tasks");
                let _ = self.life.send(LifeEvent::Fence);
            }
            Effect::Exit { reason } => {
                let _ = self.life.send(LifeEvent::Exit(reason));
                self.done = true;
            }
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Opened { channel, from, service, payload } => {
                self.opened(channel, from, &service, payload);
            }
            Delivery::Data { channel, payload } => {
                self.with_core(|traffic, core| traffic.received(core, channel, payload));
            }
            Delivery::Writable { channel, .. } => {
                self.with_core(|traffic, core| traffic.writable(core, channel));
            }
            // Taken out where the message was sent.
            Delivery::Blocked { .. } => {}
            Delivery::Closed { channel, result } => self.traffic.closed(channel, result),
            Delivery::Cast { from, service, payload } => {
                let services = self.services.get();
                if let Some(handler) = services.and_then(|table| table.casts.get(&service)) {
                    handler(from, payload);
                } else {
                    tracing::warn!(from, service, "a cast to an unknown service");
                }
            }
            Delivery::CastFailed { service, failed } => {
                let ranks = failed.into_iter().map(|(rank, why)| (rank, why.to_string())).collect();
                let _ = self.cast_failed.send(CastFailed { service, ranks });
            }
            Delivery::Published { sequence, topic, payload } => {
                let services = self.services.get();
                if let Some(handler) = services.and_then(|table| table.events.get(&topic)) {
                    handler(sequence, payload);
                }
            }
            Delivery::EventsLost { from, to } => tracing::warn!(from, to, "events were missed"),
            Delivery::PublishRefused { topic, failure, .. } => {
                tracing::warn!(topic, %failure, "an event could not be published");
            }
            Delivery::Offline { rank, reason, .. } => {
                tracing::info!(rank, reason, "offline");
                if rank != self.settings.rank {
                    self.update(|membership| {
                        membership.online.remove(&rank);
                    });
                }
                let _ = self.offline.send(Offline { rank, reason });
            }
            Delivery::Online { rank, inventory, .. } => {
                tracing::info!(rank, "online");
                self.refused.remove(&rank);
                if rank != self.settings.rank && self.membership.borrow().online.len() == 1 {
                    let _ = self.life.send(LifeEvent::FirstMember);
                }
                let inventory = Arc::new(Inventory::from_wire(&inventory));
                let member = Member { inventory, torpid: false, draining: false };
                self.update(|membership| {
                    membership.online.insert(rank, member);
                });
            }
            Delivery::Torpid { rank } => self.torpid(rank, true),
            Delivery::Lively { rank } => self.torpid(rank, false),
            Delivery::Away { rank } => {
                tracing::info!(rank, "away");
                self.bump();
            }
            Delivery::Back { rank } => {
                tracing::info!(rank, "back");
                self.bump();
            }
            Delivery::RootReplaced { .. } => {
                tracing::warn!("rank 0 was started anew");
                let _ = self.life.send(LifeEvent::RootReplaced);
            }
            Delivery::Exchanged { key, blobs } => self.traffic.exchanged(key, Ok(blobs)),
            Delivery::ExchangeFailed { key, rank, failure } => {
                let error = match failure.code {
                    FailureCode::PeerLost | FailureCode::NotConnected => {
                        ExchangeError::Lost { rank }
                    }
                    _ => ExchangeError::Refused { reason: failure.text },
                };
                self.traffic.exchanged(key, Err(error));
            }
            Delivery::ShutdownSlow { waiting } => {
                tracing::warn!(%waiting, "waiting for brokers to leave");
            }
        }
    }

    fn opened(
        &mut self,
        channel: quorate_overlay::ChannelId,
        from: u32,
        service: &str,
        payload: Bytes,
    ) {
        let Some(services) = self.services.get() else { return };
        if let Some(handler) = services.channels.get(service) {
            let channel = self.traffic.opened(channel, from, payload);
            tokio::spawn(handler(channel));
        } else if let Some(handler) = services.requests.get(service) {
            let answer = handler(from, payload);
            let node = self.traffic.node().clone();
            self.traffic.asked(channel, from);
            tokio::spawn(async move {
                let outcome = answer.await;
                let _ = node.send(ToNode::Respond { request: channel, outcome }).await;
            });
        } else {
            let failure = Failure::new(FailureCode::NoService, service);
            self.feed(Event::Local(Command::Close { channel, result: Err(failure) }));
        }
    }

    fn torpid(&mut self, rank: u32, torpid: bool) {
        tracing::warn!(rank, "{}", if torpid { "torpid" } else { "lively" });
        self.update(|membership| {
            if let Some(member) = membership.online.get_mut(&rank) {
                member.torpid = torpid;
            }
        });
    }

    fn update(&mut self, change: impl FnOnce(&mut Membership)) {
        self.membership.send_modify(|membership| change(Arc::make_mut(membership)));
        self.bump();
    }

    fn bump(&mut self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

/// The overlay numbers exchanges with 32 bits. Callers that put a kind into the top byte keep it
/// there; 16 million exchanges of one kind in one job are more than any program does.
fn fold(sequence: u64) -> u32 {
    (sequence >> 56 << 24 | sequence & 0x00ff_ffff) as u32
}
