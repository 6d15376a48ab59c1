//! What the servers of all protocols share: the layout, how far ranks are, and the effects on
//! their way out. Knows no wire.

use crate::effect::{ClientId, Effect, Output, Protocol};
use crate::layout::Layout;
use crate::server::{Options, RankState};
use std::time::Duration;

/// The shared part of a server.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) layout: Layout,
    pub(crate) options: Options,
    ranks: Vec<RankState>,
    /// Bytes that each local rank has published.
    published: Vec<usize>,
    exited: Vec<bool>,
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
            exited: vec![false; local],
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
    pub(crate) fn exited(&mut self, rank: u32) {
        if let Some(index) = self.index_of(rank) {
            self.exited[index] = true;
        }
    }

    /// Tells whether a local rank's process has ended.
    pub(crate) fn has_exited(&self, rank: u32) -> bool {
        self.index_of(rank).is_some_and(|index| self.exited[index])
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
