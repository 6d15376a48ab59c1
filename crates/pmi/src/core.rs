//! What the servers of all protocols share: the layout, how far ranks are, and the effects on
//! their way out. Knows no wire.

use crate::effect::{ClientId, Effect, Output, Protocol, Sequence};
use crate::layout::Layout;
use crate::server::{Options, RankState};
use std::sync::Arc;
use std::time::Duration;

/// How a rank's process ended, as far as it matters to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With code 0.
    Success,
    /// In any other way; the job's judge ends the job.
    Failure,
}

/// The shared part of a server.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) layout: Layout,
    pub(crate) options: Options,
    ranks: Vec<RankState>,
    /// Bytes that each local rank has published.
    published: Vec<usize>,
    exited: Vec<Option<Exit>>,
    effects: Vec<Effect>,
    timers: u64,
}

impl Core {
    /// A server's start.
    pub(crate) fn new(layout: Layout, options: Options) -> Self {
        let local = layout.local_ranks().len();
        Self {
            layout,
            options,
            ranks: vec![RankState::default(); local],
            published: vec![0; local],
            exited: vec![None; local],
            effects: Vec::new(),
            timers: 0,
        }
    }

    /// A local rank's index among the local ranks; `None` for ranks elsewhere.
    pub(crate) fn index_of(&self, rank: u32) -> Option<usize> {
        self.layout.local_ranks().binary_search(&rank).ok()
    }

    /// How far a local rank is; the default for ranks elsewhere.
    pub(crate) fn state(&self, rank: u32) -> RankState {
        self.index_of(rank).map(|index| self.ranks[index]).unwrap_or_default()
    }

    /// A rank was initialised.
    pub(crate) fn initialized(&mut self, rank: u32, protocol: Protocol) {
        if let Some(index) = self.index_of(rank) {
            self.ranks[index] =
                RankState { protocol: Some(protocol), initialized: true, finalized: false };
            self.effects.push(Effect::Wire { rank, protocol });
        }
    }

    /// A rank was finalized.
    pub(crate) fn finalized(&mut self, rank: u32) {
        if let Some(index) = self.index_of(rank) {
            self.ranks[index].finalized = true;
        }
    }

    /// A local rank's process has ended.
    pub(crate) fn exited(&mut self, rank: u32, exit: Exit) {
        if let Some(index) = self.index_of(rank) {
            self.exited[index] = Some(exit);
        }
    }

    /// Tells whether a local rank's process has ended.
    pub(crate) fn has_exited(&self, rank: u32) -> bool {
        self.index_of(rank).is_some_and(|index| self.exited[index].is_some())
    }

    /// Indexes and numbers of the local ranks that have ended with success, as they see it.
    pub(crate) fn contented(&self) -> impl Iterator<Item = (usize, u32)> {
        let ranks = self.layout.local_ranks().iter().copied().enumerate();
        ranks.filter(|(index, _)| {
            self.exited[*index] == Some(Exit::Success) && !self.ranks[*index].left_open()
        })
    }

    /// Counts bytes that a rank wants to publish; `false` when that is too much.
    pub(crate) fn may_publish(&mut self, rank: u32, bytes: usize) -> bool {
        let Some(index) = self.index_of(rank) else { return false };
        let total = self.published[index].saturating_add(bytes);
        let fits = total <= self.options.max_published;
        if fits {
            self.published[index] = total;
        }
        fits
    }

    /// Brings this node's blob into an exchange of all nodes. `false` when there is no other node:
    /// the exchange is complete at once, with nothing to take in.
    #[must_use]
    pub(crate) fn exchange(&mut self, sequence: Sequence, blob: Vec<u8>) -> bool {
        let others = self.layout.job().hosts().len() > 1;
        if others {
            self.effects.push(Effect::Exchange { sequence, blob });
        }
        others
    }

    /// The blobs of the other nodes among those of an exchange, with the nodes.
    pub(crate) fn others<'a>(
        &self,
        blobs: &'a [(u32, Arc<[u8]>)],
    ) -> impl Iterator<Item = (u32, &'a Arc<[u8]>)> + Clone + use<'a> {
        let own = self.layout.node();
        blobs.iter().filter(move |(node, _)| *node != own).map(|(node, blob)| (*node, blob))
    }

    /// Sends to a client.
    pub(crate) fn reply(&mut self, client: ClientId, bytes: impl Into<Output>) {
        self.effects.push(Effect::Reply { client, bytes: bytes.into() });
    }

    /// Asks for any other effect.
    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Starts a timer.
    pub(crate) fn timer(&mut self, after: Duration) -> u64 {
        self.timers += 1;
        self.effects.push(Effect::Timer { id: self.timers, after });
        self.timers
    }

    /// Hands out what has come together.
    pub(crate) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }
}
