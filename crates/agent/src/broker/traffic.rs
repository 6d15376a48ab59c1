//! Channels, requests and exchanges that are under way at this broker, and how they map onto the
//! node's channels.
//!
//! - A channel is a node channel. An empty message ends a direction, so that the other goes on;
//!   the side that ends last closes.
//! - A request is a node channel whose opening carries the body; one message and a close are the
//!   answer, a close alone is an empty one.

use super::channel::{Channel, ChannelError, Control, Incoming, Receiver, Sender, WINDOW};
use super::handle::{ExchangeError, OverlayError, Reply, ToNode};
use bytes::Bytes;
use quorate_overlay::{
    ChannelId, Command, Delivery, Effect, ExchangeKey, Failure, FailureCode, INITIAL_CREDITS,
    Millis, Node,
};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Credits are given back when half of the first ones are used up: seldom enough to be cheap,
/// and always before the writer runs dry.
const GRANT_AT: u32 = INITIAL_CREDITS / 2;

/// The blobs of all members of an exchange.
pub(super) type Blobs = Result<Vec<(u32, Bytes)>, ExchangeError>;

/// Something that leaves on a channel.
enum Out {
    Data(Bytes),
    /// The end of our direction.
    End,
    /// The end of both.
    Close(Result<(), Failure>),
}

enum Kind {
    Channel {
        incoming: Option<mpsc::UnboundedSender<Incoming>>,
        credit: Arc<Semaphore>,
        taken: u32,
        sent_end: bool,
        got_end: bool,
    },
    /// We asked.
    Request { service: String, answer: Bytes, reply: Reply<Bytes> },
    /// We are asked.
    Response,
}

struct Entry {
    peer: u32,
    kind: Kind,
    waiting: VecDeque<Out>,
    blocked: bool,
}

/// What is under way.
pub(super) struct Traffic {
    table: HashMap<ChannelId, Entry>,
    exchanges: HashMap<ExchangeKey, oneshot::Sender<Blobs>>,
    node: mpsc::Sender<ToNode>,
    control: mpsc::UnboundedSender<Control>,
}

/// Where the node is, and where its effects go.
pub(super) struct Core<'a> {
    pub(super) node: &'a mut Node,
    pub(super) now: Millis,
    pub(super) effects: &'a mut VecDeque<Effect>,
}

impl Core<'_> {
    pub(super) fn command(&mut self, command: Command) {
        let mut effects = Vec::new();
        self.node.handle(quorate_overlay::Event::Local(command), self.now, &mut effects);
        self.effects.extend(effects);
    }

    /// Sends a message, or gives it back when the node has no room.
    fn send(&mut self, channel: ChannelId, payload: Bytes) -> Result<(), Bytes> {
        let mut effects = Vec::new();
        let command = Command::Send { channel, payload };
        self.node.handle(quorate_overlay::Event::Local(command), self.now, &mut effects);
        let mut back = None;
        for effect in effects {
            match effect {
                Effect::Deliver(Delivery::Blocked { channel: id, payload }) if id == channel => {
                    back = Some(payload);
                }
                effect => self.effects.push_back(effect),
            }
        }
        back.map_or(Ok(()), Err)
    }
}

impl Traffic {
    pub(super) fn new(node: mpsc::Sender<ToNode>, control: mpsc::UnboundedSender<Control>) -> Self {
        Self { table: HashMap::new(), exchanges: HashMap::new(), node, control }
    }

    /// Where tasks reach the node task.
    pub(super) fn node(&self) -> &mpsc::Sender<ToNode> {
        &self.node
    }

    /// Opens a channel from here.
    pub(super) fn open(
        &mut self,
        core: &mut Core<'_>,
        to: u32,
        service: String,
        first: Bytes,
    ) -> Channel {
        let channel = core.node.new_channel();
        let handle = self.insert_channel(channel, to, Bytes::new());
        core.command(Command::Open { channel, to, service, payload: first });
        handle
    }

    /// A peer has opened a channel.
    pub(super) fn opened(&mut self, channel: ChannelId, from: u32, first: Bytes) -> Channel {
        self.insert_channel(channel, from, first)
    }

    /// A peer has sent a request.
    pub(super) fn asked(&mut self, channel: ChannelId, from: u32) {
        self.insert(channel, from, Kind::Response);
    }

    /// Sends a request from here.
    pub(super) fn request(
        &mut self,
        core: &mut Core<'_>,
        to: u32,
        service: String,
        body: Bytes,
        reply: Reply<Bytes>,
    ) {
        let channel = core.node.new_channel();
        let kind = Kind::Request { service: service.clone(), answer: Bytes::new(), reply };
        self.insert(channel, to, kind);
        core.command(Command::Open { channel, to, service, payload: body });
    }

    /// Answers a request.
    pub(super) fn respond(
        &mut self,
        core: &mut Core<'_>,
        channel: ChannelId,
        outcome: Result<Bytes, String>,
    ) {
        match outcome {
            Ok(answer) => {
                if !answer.is_empty() {
                    self.push(core, channel, Out::Data(answer));
                }
                self.push(core, channel, Out::Close(Ok(())));
            }
            Err(text) => {
                let failure = Failure::new(FailureCode::Failed, text);
                self.push(core, channel, Out::Close(Err(failure)));
            }
        }
    }

    /// A message of a channel of ours.
    pub(super) fn data(&mut self, core: &mut Core<'_>, channel: ChannelId, part: Bytes) {
        self.push(core, channel, Out::Data(part));
    }

    /// Our direction of a channel ends.
    pub(super) fn finish(
        &mut self,
        core: &mut Core<'_>,
        channel: ChannelId,
        outcome: Result<(), String>,
    ) {
        match outcome {
            Ok(()) => self.push(core, channel, Out::End),
            Err(text) => {
                let failure = Failure::new(FailureCode::Failed, text);
                self.push(core, channel, Out::Close(Err(failure)));
            }
        }
    }

    /// What channels tell without waiting.
    pub(super) fn control(&mut self, core: &mut Core<'_>, control: Control) {
        match control {
            Control::Consumed(channel) => self.consumed(core, channel),
            Control::Unread(channel) => {
                if let Some(Entry { kind: Kind::Channel { incoming, .. }, .. }) =
                    self.table.get_mut(&channel)
                {
                    *incoming = None;
                }
            }
            Control::Abandoned(channel) => {
                let failure = Failure::new(FailureCode::Cancelled, "it gave up");
                self.push(core, channel, Out::Close(Err(failure)));
            }
        }
    }

    /// The node's side of a channel has a message for us.
    pub(super) fn received(&mut self, core: &mut Core<'_>, channel: ChannelId, payload: Bytes) {
        let Some(entry) = self.table.get_mut(&channel) else { return };
        match &mut entry.kind {
            Kind::Request { answer, .. } => *answer = payload,
            Kind::Response => {}
            Kind::Channel { incoming, got_end, sent_end, .. } => {
                if payload.is_empty() {
                    *got_end = true;
                    if let Some(queue) = incoming.take() {
                        let _ = queue.send(Incoming::End(Ok(())));
                    }
                    if *sent_end {
                        self.push(core, channel, Out::Close(Ok(())));
                    }
                    return;
                }
                let kept = match incoming {
                    Some(queue) => queue.send(Incoming::Data(payload)).is_ok(),
                    None => false,
                };
                if !kept {
                    // Nobody reads: the writer must not wait for that.
                    *incoming = None;
                    self.consumed(core, channel);
                }
            }
        }
    }

    /// The node has room again.
    pub(super) fn writable(&mut self, core: &mut Core<'_>, channel: ChannelId) {
        if let Some(entry) = self.table.get_mut(&channel) {
            entry.blocked = false;
            self.pump(core, channel);
        }
    }

    /// The channel is over.
    pub(super) fn closed(&mut self, channel: ChannelId, result: Result<(), Failure>) {
        let Some(entry) = self.table.remove(&channel) else { return };
        let peer = entry.peer;
        match entry.kind {
            Kind::Channel { incoming, credit, .. } => {
                credit.close();
                let end = result.map_err(|failure| match failure.code {
                    FailureCode::PeerLost | FailureCode::NotConnected => {
                        ChannelError::Lost { peer, reason: failure.text }
                    }
                    _ => ChannelError::Failed { peer, reason: reason(failure) },
                });
                if let Some(queue) = incoming {
                    let _ = queue.send(Incoming::End(end));
                }
            }
            Kind::Request { service, answer, reply } => {
                let outcome = result.map(|()| answer).map_err(|failure| match failure.code {
                    FailureCode::NotConnected => OverlayError::NotConnected { rank: peer },
                    FailureCode::PeerLost => {
                        OverlayError::Lost { rank: peer, reason: failure.text }
                    }
                    FailureCode::NoService => OverlayError::NoService { rank: peer, service },
                    FailureCode::Limit => OverlayError::Busy { rank: peer },
                    FailureCode::Cancelled | FailureCode::Denied | FailureCode::Failed => {
                        OverlayError::Refused { rank: peer, service, reason: failure.text }
                    }
                });
                let _ = reply.send(outcome);
            }
            Kind::Response => {}
        }
    }

    /// Contributes to an exchange.
    pub(super) fn exchange(
        &mut self,
        core: &mut Core<'_>,
        key: ExchangeKey,
        members: &[u32],
        blob: Bytes,
        reply: oneshot::Sender<Blobs>,
    ) {
        let members = members.iter().copied().collect();
        self.exchanges.insert(key, reply);
        core.command(Command::Contribute { key, members, blob });
    }

    /// An exchange has ended.
    pub(super) fn exchanged(&mut self, key: ExchangeKey, blobs: Blobs) {
        if let Some(reply) = self.exchanges.remove(&key) {
            let _ = reply.send(blobs);
        }
    }

    fn insert(&mut self, channel: ChannelId, peer: u32, kind: Kind) {
        let entry = Entry { peer, kind, waiting: VecDeque::new(), blocked: false };
        self.table.insert(channel, entry);
    }

    fn insert_channel(&mut self, channel: ChannelId, peer: u32, first: Bytes) -> Channel {
        let credit = Arc::new(Semaphore::new(WINDOW));
        let (incoming, messages) = mpsc::unbounded_channel();
        let kind = Kind::Channel {
            incoming: Some(incoming),
            credit: credit.clone(),
            taken: 0,
            sent_end: false,
            got_end: false,
        };
        self.insert(channel, peer, kind);
        let sender = Sender::new(channel, peer, credit, self.node.clone(), self.control.clone());
        let receiver = Receiver::new(channel, peer, messages, self.control.clone());
        Channel::new(first, sender, receiver)
    }

    fn consumed(&mut self, core: &mut Core<'_>, channel: ChannelId) {
        let Some(Entry { kind: Kind::Channel { taken, .. }, .. }) = self.table.get_mut(&channel)
        else {
            return;
        };
        *taken += 1;
        if *taken >= GRANT_AT {
            let credits = std::mem::take(taken);
            core.command(Command::Grant { channel, credits });
        }
    }

    fn push(&mut self, core: &mut Core<'_>, channel: ChannelId, out: Out) {
        // A channel that was closed by the peer in the meantime is no longer known.
        if let Some(entry) = self.table.get_mut(&channel) {
            entry.waiting.push_back(out);
            self.pump(core, channel);
        }
    }

    /// Hands over what waits, as far as the node takes it.
    fn pump(&mut self, core: &mut Core<'_>, channel: ChannelId) {
        let Some(entry) = self.table.get_mut(&channel) else { return };
        while !entry.blocked
            && let Some(out) = entry.waiting.pop_front()
        {
            match out {
                Out::Data(payload) => match core.send(channel, payload) {
                    Ok(()) => {
                        if let Kind::Channel { credit, .. } = &entry.kind {
                            credit.add_permits(1);
                        }
                    }
                    Err(payload) => {
                        entry.blocked = true;
                        entry.waiting.push_front(Out::Data(payload));
                    }
                },
                Out::End => {
                    let Kind::Channel { sent_end, got_end, .. } = &mut entry.kind else { continue };
                    if *got_end {
                        entry.waiting.push_front(Out::Close(Ok(())));
                    } else if core.send(channel, Bytes::new()).is_err() {
                        entry.blocked = true;
                        entry.waiting.push_front(Out::End);
                    } else {
                        *sent_end = true;
                    }
                }
                Out::Close(result) => {
                    core.command(Command::Close { channel, result });
                    // There is no `Closed` for the end that asked.
                    if let Some(Entry {
                        kind: Kind::Channel { incoming, credit, .. }, peer, ..
                    }) = self.table.remove(&channel)
                    {
                        credit.close();
                        if let Some(queue) = incoming {
                            let _ = queue.send(Incoming::End(Err(ChannelError::Closed { peer })));
                        }
                    }
                    return;
                }
            }
        }
    }
}

/// What a failure says for people; services say it themselves.
fn reason(failure: Failure) -> String {
    match failure.code {
        FailureCode::Failed | FailureCode::Denied | FailureCode::Cancelled => failure.text,
        code if failure.text.is_empty() => code.as_str().to_owned(),
        code => format!("{}: {}", code.as_str(), failure.text),
    }
}
