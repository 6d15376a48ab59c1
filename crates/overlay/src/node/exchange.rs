//! Exchanges: every member gives a blob, every member gets all of them. A reduction up the tree
//! and a broadcast down it.
//!
//! On the way up each broker merges what the members below it send. It passes on at once when all
//! of them have sent, else after a short wait, so that nobody waits for a broker that is gone.
//! Rank 0 alone decides that an exchange is complete or has failed. Every broker keeps what it
//! passed on until the result comes by, and gives it all to a new parent; whoever has the result
//! answers on the link that asked. So a link that breaks anywhere costs a repeat and loses nothing.

use super::Node;
use crate::frame::{Frame, Gather, Happening, Item, ResultPart};
use crate::{
    Bytes, Delivery, ExchangeKey, Failure, FailureCode, LinkId, MAX_MESSAGE, Millis, Rank,
};
use bytes::BytesMut;
use quorate_hostlist::IdSet;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The most bytes of blobs in one frame: small enough that allocators take buffers for it from the
/// heap instead of mapping fresh pages for each.
const GATHER_PART: usize = 120 << 10;

/// The most bytes that an exchange may have in all.
const MAX_EXCHANGE: usize = 64 << 20;

/// The most exchanges that a broker keeps at a time.
const MAX_EXCHANGES: usize = 4096;

/// The longest text of a member set, so that it fits a frame beside the blobs.
const MAX_MEMBERS_TEXT: usize = 256 << 10;

/// Jobs that are remembered as ended.
const ENDED_JOBS: usize = 256;

/// How long a broker waits for the rest of the members below it.
const GATHER_WAIT: Millis = Millis(10);

/// The exchanges of a node.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    open: BTreeMap<ExchangeKey, Exchange>,
    timers: BTreeSet<(Millis, ExchangeKey)>,
    ended: VecDeque<u64>,
}

#[derive(Debug)]
struct Exchange {
    members: IdSet,
    blobs: BTreeMap<Rank, Bytes>,
    /// Blobs of which the rest is still on the way, by link.
    partial: BTreeMap<(LinkId, Rank), BytesMut>,
    bytes: usize,
    /// Members whose blobs the current parent has got.
    sent: BTreeSet<Rank>,
    /// Links that wait for the result.
    interest: BTreeSet<LinkId>,
    /// A local service waits for it.
    local: bool,
    wait_until: Option<Millis>,
    /// What has come of the result.
    incoming: Vec<Arc<ResultPart>>,
    /// On rank 0: how it ended.
    outcome: Option<Outcome>,
}

#[derive(Clone, Debug)]
enum Outcome {
    Done(Vec<Arc<ResultPart>>),
    Failed(Rank, Failure),
}

impl Exchanges {
    pub(super) fn deadline(&self) -> Option<Millis> {
        self.timers.first().map(|&(at, _)| at)
    }

    pub(super) fn check_bounds(&self) -> Result<(), String> {
        if self.open.len() > MAX_EXCHANGES || self.ended.len() > ENDED_JOBS {
            return Err(format!("{} exchanges are open", self.open.len()));
        }
        match self.open.iter().find(|(_, e)| e.bytes > MAX_EXCHANGE + MAX_MESSAGE) {
            Some((key, e)) => Err(format!("{key:?} has {} bytes", e.bytes)),
            None => Ok(()),
        }
    }

    fn remove(&mut self, key: ExchangeKey) -> Option<Exchange> {
        let exchange = self.open.remove(&key)?;
        if let Some(at) = exchange.wait_until {
            self.timers.remove(&(at, key));
        }
        Some(exchange)
    }

    fn stop_waiting(&mut self, key: ExchangeKey) {
        if let Some(at) = self.open.get_mut(&key).and_then(|e| e.wait_until.take()) {
            self.timers.remove(&(at, key));
        }
    }
}

/// Packs blobs into lists of items for one frame each. A blob is only cut when it is larger than a
/// frame's share.
fn pack(blobs: impl Iterator<Item = (Rank, Bytes)>) -> Vec<Vec<Item>> {
    let (mut all, mut part, mut room) = (Vec::new(), Vec::new(), GATHER_PART);
    for (rank, blob) in blobs {
        let mut offset = 0;
        loop {
            let left = blob.len() - offset;
            if !part.is_empty() && left.min(GATHER_PART) + 16 > room {
                all.push(std::mem::take(&mut part));
                room = GATHER_PART;
            }
            let take = left.min(GATHER_PART);
            part.push(Item {
                rank,
                total: blob.len() as u32,
                offset: offset as u32,
                bytes: blob.slice(offset..offset + take),
            });
            room = room.saturating_sub(take + 16);
            offset += take;
            if offset >= blob.len() {
                break;
            }
        }
    }
    if !part.is_empty() {
        all.push(part);
    }
    all
}

/// Joins the parts of a result, by ascending rank.
fn unpack(parts: &[Arc<ResultPart>]) -> Vec<(Rank, Bytes)> {
    let mut blobs: Vec<(Rank, Bytes)> = Vec::new();
    let mut cut: Option<BytesMut> = None;
    for item in parts.iter().flat_map(|part| &part.items) {
        if item.bytes.len() == item.total as usize {
            blobs.push((item.rank, item.bytes.clone()));
            continue;
        }
        let buffer = cut.get_or_insert_with(BytesMut::new);
        buffer.extend_from_slice(&item.bytes);
        if buffer.len() >= item.total as usize
            && let Some(whole) = cut.take()
        {
            blobs.push((item.rank, whole.freeze()));
        }
    }
    blobs
}

impl Node {
    pub(super) fn contribute(&mut self, key: ExchangeKey, members: &IdSet, blob: Bytes) {
        let me = self.config.rank;
        let wrong = if !members.contains(me) {
            Some(Failure::new(FailureCode::Denied, format!("rank {me} is not a member")))
        } else if blob.len() > MAX_MESSAGE {
            Some(Failure::new(FailureCode::Limit, "the blob is too large"))
        } else if members.to_string().len() > MAX_MEMBERS_TEXT {
            Some(Failure::new(FailureCode::Limit, "the member set is too ragged"))
        } else {
            None
        };
        if let Some(failure) = wrong {
            self.deliver(Delivery::ExchangeFailed { key, rank: me, failure });
            return;
        }
        if members.len() == 1 {
            // Nobody else has a part in it.
            self.deliver(Delivery::Exchanged { key, blobs: vec![(me, blob)] });
            return;
        }
        if let Some(exchange) = self.join_exchange(key, members, None) {
            exchange.bytes += blob.len();
            exchange.blobs.insert(me, blob);
            self.progress(key);
        }
    }

    /// Blobs of a child came in.
    pub(super) fn gather(&mut self, link: LinkId, gather: &Arc<Gather>) {
        let key = gather.key;
        if self.exchanges.open.get(&key).is_some_and(|e| e.members != gather.members)
            && !self.is_root()
        {
            // Rank 0 shall see the contradiction.
            if let Some(exchange) = self.exchanges.open.get_mut(&key) {
                exchange.interest.insert(link);
            }
            if let Some(parent) = self.uplink.parent {
                self.send(parent, Frame::Gather(Arc::clone(gather)));
            }
            return;
        }
        let Some(exchange) = self.join_exchange(key, &gather.members, Some(link)) else { return };
        for item in &gather.items {
            if exchange.blobs.contains_key(&item.rank) || !exchange.members.contains(item.rank) {
                continue;
            }
            if item.bytes.len() == item.total as usize {
                exchange.bytes += item.bytes.len();
                exchange.blobs.insert(item.rank, item.bytes.clone());
                continue;
            }
            let buffer = exchange.partial.entry((link, item.rank)).or_default();
            if item.offset == 0 {
                buffer.clear();
            }
            if buffer.len() == item.offset as usize {
                buffer.extend_from_slice(&item.bytes);
            }
            if buffer.len() == item.total as usize
                && let Some(whole) = exchange.partial.remove(&(link, item.rank))
            {
                exchange.bytes += whole.len();
                exchange.blobs.insert(item.rank, whole.freeze());
            }
        }
        self.progress(key);
    }

    /// The exchange that somebody contributes to, with the interest noted; `None` when it has
    /// ended already, which the contributor is told.
    fn join_exchange(
        &mut self,
        key: ExchangeKey,
        members: &IdSet,
        from: Option<LinkId>,
    ) -> Option<&mut Exchange> {
        if self.exchanges.ended.contains(&key.job) {
            let failure = Failure::new(FailureCode::Cancelled, "the job has ended");
            self.answer(key, from, &Outcome::Failed(0, failure));
            return None;
        }
        if !self.exchanges.open.contains_key(&key) {
            if self.exchanges.open.len() >= MAX_EXCHANGES {
                let failure = Failure::new(FailureCode::Limit, "too many open exchanges");
                self.answer(key, from, &Outcome::Failed(self.config.rank, failure));
                return None;
            }
            let exchange = Exchange {
                members: members.clone(),
                blobs: BTreeMap::new(),
                partial: BTreeMap::new(),
                bytes: 0,
                sent: BTreeSet::new(),
                interest: BTreeSet::new(),
                local: false,
                wait_until: None,
                incoming: Vec::new(),
                outcome: None,
            };
            self.exchanges.open.insert(key, exchange);
            if let Some(registry) = &self.registry
                && let Some(rank) = members.iter().find(|&rank| !registry.knows(rank))
            {
                let failure = Failure::new(FailureCode::NotConnected, registry.why_gone(rank));
                self.fail_exchange(key, rank, failure);
            }
        }
        if self.exchanges.open.get(&key).is_some_and(|e| &e.members != members) {
            let failure = Failure::new(FailureCode::Denied, "members name different member sets");
            let rank = from
                .and_then(|link| self.links.get(&link))
                .map_or(self.config.rank, |link| link.peer);
            if self.is_root() {
                self.fail_exchange(key, rank, failure.clone());
            }
            self.answer(key, from, &Outcome::Failed(rank, failure));
            return None;
        }
        if let Some(outcome) = self.exchanges.open.get(&key).and_then(|e| e.outcome.clone()) {
            self.answer(key, from, &outcome);
            return None;
        }
        let exchange = self.exchanges.open.get_mut(&key)?;
        match from {
            Some(link) => {
                exchange.interest.insert(link);
            }
            None => exchange.local = true,
        }
        Some(exchange)
    }

    /// After new blobs: completes the exchange on rank 0, passes blobs on elsewhere.
    fn progress(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.exchanges.open.get_mut(&key) else { return };
        if self.registry.is_some() {
            if exchange.bytes > MAX_EXCHANGE {
                let failure = Failure::new(
                    FailureCode::Limit,
                    format!("the exchange has more than {MAX_EXCHANGE} bytes"),
                );
                self.fail_exchange(key, self.config.rank, failure);
            } else if exchange.blobs.len() == exchange.members.len() {
                self.complete(key);
            }
            return;
        }
        let me = self.config.rank;
        let below = self.family.ranks().chain(std::iter::once(me));
        let all = below
            .filter(|&rank| exchange.members.contains(rank))
            .all(|rank| exchange.blobs.contains_key(&rank));
        if all {
            self.pass_on(key);
        } else if exchange.wait_until.is_none() {
            let at = self.now + GATHER_WAIT;
            exchange.wait_until = Some(at);
            self.exchanges.timers.insert((at, key));
        }
    }

    /// Sends up what the parent has not got yet.
    fn pass_on(&mut self, key: ExchangeKey) {
        self.exchanges.stop_waiting(key);
        let Some(parent) = self.uplink.parent else { return };
        let Some(exchange) = self.exchanges.open.get_mut(&key) else { return };
        let members = exchange.members.clone();
        let fresh: Vec<(Rank, Bytes)> = exchange
            .blobs
            .iter()
            .filter(|(rank, _)| !exchange.sent.contains(rank))
            .map(|(&rank, blob)| (rank, blob.clone()))
            .collect();
        exchange.sent.extend(fresh.iter().map(|(rank, _)| rank));
        for items in pack(fresh.into_iter()) {
            let gather = Gather { key, members: members.clone(), items };
            self.send(parent, Frame::Gather(Arc::new(gather)));
        }
    }

    /// There is a new parent: it gets all blobs whose result has not come by.
    pub(super) fn regather(&mut self) {
        let keys: Vec<ExchangeKey> = self.exchanges.open.keys().copied().collect();
        for key in keys {
            if let Some(exchange) = self.exchanges.open.get_mut(&key) {
                exchange.sent.clear();
                exchange.incoming.clear();
            }
            self.pass_on(key);
        }
    }

    pub(super) fn tick_exchanges(&mut self) {
        while let Some(&(at, key)) = self.exchanges.timers.first() {
            if at > self.now {
                break;
            }
            self.exchanges.stop_waiting(key);
            self.pass_on(key);
        }
    }

    /// On rank 0: all blobs are there.
    fn complete(&mut self, key: ExchangeKey) {
        let Some(exchange) = self.exchanges.open.get_mut(&key) else { return };
        let blobs = std::mem::take(&mut exchange.blobs);
        exchange.partial.clear();
        let packed = pack(blobs.into_iter());
        let count = packed.len();
        let parts: Vec<Arc<ResultPart>> = packed
            .into_iter()
            .enumerate()
            .map(|(at, items)| {
                Arc::new(ResultPart { key, first: at == 0, last: at + 1 == count, items })
            })
            .collect();
        let outcome = Outcome::Done(parts);
        exchange.outcome = Some(outcome.clone());
        let members = exchange.members.clone();
        self.settle_exchange(key, &outcome);
        // Whoever contributes to an exchange has the results of the earlier ones.
        let range = ExchangeKey { job: key.job, sequence: 0 }..key;
        let over: Vec<ExchangeKey> = self
            .exchanges
            .open
            .range(range)
            .filter(|(_, earlier)| {
                matches!(earlier.outcome, Some(Outcome::Done(_)))
                    && earlier.members.is_subset(&members)
            })
            .map(|(&key, _)| key)
            .collect();
        for key in over {
            self.exchanges.remove(key);
        }
    }

    fn fail_exchange(&mut self, key: ExchangeKey, rank: Rank, failure: Failure) {
        let Some(exchange) = self.exchanges.open.get_mut(&key) else { return };
        if exchange.outcome.is_some() {
            return;
        }
        exchange.blobs.clear();
        exchange.partial.clear();
        let outcome = Outcome::Failed(rank, failure);
        exchange.outcome = Some(outcome.clone());
        self.settle_exchange(key, &outcome);
    }

    /// Tells all who wait how an exchange ended.
    fn settle_exchange(&mut self, key: ExchangeKey, outcome: &Outcome) {
        let Some(exchange) = self.exchanges.open.get_mut(&key) else { return };
        let interest = std::mem::take(&mut exchange.interest);
        if std::mem::take(&mut exchange.local) {
            self.answer(key, None, outcome);
        }
        for link in interest {
            self.answer(key, Some(link), outcome);
        }
    }

    fn answer(&mut self, key: ExchangeKey, to: Option<LinkId>, outcome: &Outcome) {
        match (to, outcome) {
            (Some(link), Outcome::Done(parts)) => {
                for part in parts {
                    self.send(link, Frame::Result(Arc::clone(part)));
                }
            }
            (Some(link), Outcome::Failed(rank, failure)) => {
                self.send(link, Frame::Failed { key, rank: *rank, failure: failure.clone() });
            }
            (None, Outcome::Done(parts)) => {
                self.deliver(Delivery::Exchanged { key, blobs: unpack(parts) });
            }
            (None, Outcome::Failed(rank, failure)) => {
                let (rank, failure) = (*rank, failure.clone());
                self.deliver(Delivery::ExchangeFailed { key, rank, failure });
            }
        }
    }

    /// A part of a result came down.
    pub(super) fn result_part(&mut self, part: &Arc<ResultPart>) {
        let Some(exchange) = self.exchanges.open.get_mut(&part.key) else { return };
        if part.first {
            exchange.incoming.clear();
        } else if exchange.incoming.is_empty() {
            return;
        }
        exchange.incoming.push(Arc::clone(part));
        if part.last {
            let parts = std::mem::take(&mut exchange.incoming);
            self.settle_exchange(part.key, &Outcome::Done(parts));
            self.exchanges.remove(part.key);
        }
    }

    /// The parent says that an exchange has failed.
    pub(super) fn exchange_failed(&mut self, key: ExchangeKey, rank: Rank, failure: Failure) {
        self.settle_exchange(key, &Outcome::Failed(rank, failure));
        self.exchanges.remove(key);
    }

    /// On rank 0: a broker is lost, and with it what it was to contribute, or to get.
    pub(super) fn exchange_member_lost(&mut self, rank: Rank, reason: &str) {
        let hit: Vec<ExchangeKey> = self
            .exchanges
            .open
            .iter()
            .filter(|(_, e)| e.outcome.is_none() && e.members.contains(rank))
            .map(|(&key, _)| key)
            .collect();
        for key in hit {
            let failure =
                Failure::new(FailureCode::PeerLost, format!("rank {rank} is lost: {reason}"));
            self.fail_exchange(key, rank, failure);
        }
    }

    /// Another life of rank 0 knows nothing of what was under way.
    pub(super) fn exchange_root_lost(&mut self) {
        let open = std::mem::take(&mut self.exchanges.open);
        self.exchanges.timers.clear();
        for (key, exchange) in open {
            if exchange.local {
                let failure = Failure::new(FailureCode::PeerLost, "rank 0 was started anew");
                self.deliver(Delivery::ExchangeFailed { key, rank: 0, failure });
            }
        }
    }

    /// Nobody waits at the end of this link any more.
    pub(super) fn exchange_link_gone(&mut self, link: LinkId) {
        for exchange in self.exchanges.open.values_mut() {
            exchange.interest.remove(&link);
            exchange.partial.retain(|(from, _), _| *from != link);
        }
    }

    pub(super) fn end_job(&mut self, job: u64) {
        if self.is_root() {
            if !self.exchanges.ended.contains(&job) {
                self.publish_event(Happening::EndJob { job });
            }
            return;
        }
        for (_, exchange) in self.job_range(job) {
            exchange.local = false;
        }
    }

    fn job_range(
        &mut self,
        job: u64,
    ) -> std::collections::btree_map::RangeMut<'_, ExchangeKey, Exchange> {
        let first = ExchangeKey { job, sequence: 0 };
        let last = ExchangeKey { job, sequence: u32::MAX };
        self.exchanges.open.range_mut(first..=last)
    }

    /// The job has no more exchanges.
    pub(super) fn drop_job(&mut self, job: u64) {
        let keys: Vec<ExchangeKey> = self.job_range(job).map(|(&key, _)| key).collect();
        for key in keys {
            let failure = Failure::new(FailureCode::Cancelled, "the job has ended");
            self.settle_exchange(key, &Outcome::Failed(0, failure));
            self.exchanges.remove(key);
        }
        self.exchanges.ended.push_back(job);
        if self.exchanges.ended.len() > ENDED_JOBS {
            self.exchanges.ended.pop_front();
        }
    }
}
