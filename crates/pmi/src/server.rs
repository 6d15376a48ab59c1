//! The server of one job on one node: clients' bytes and exchanged blobs in, [`Effect`]s out. Owns
//! who is connected and how far each rank is; never touches a socket or a clock.

use crate::effect::{ClientId, Effect, Protocol, Sequence};
use crate::layout::Layout;
use std::sync::Arc;

/// Bounds of what one server holds. The defaults serve tens of thousands of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The longest message of a client, bytes; a longer one ends its connection. Real messages stay
    /// below 100 kB; 16 MiB leaves room for endpoints with many rails.
    pub max_message: usize,
    /// Most bytes that one rank may have published; more is refused.
    pub max_published: usize,
    /// Most requests of one client that wait for something at a time.
    pub max_waiting: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_message: 16 << 20, max_published: 16 << 20, max_waiting: 4096 }
    }
}

/// How far a rank is with its protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankState {
    /// What it last spoke; `None` when it never said a word (not an MPI program).
    pub protocol: Option<Protocol>,
    /// It was initialised.
    pub initialized: bool,
    /// It was finalized after that.
    pub finalized: bool,
}

impl RankState {
    /// Tells whether an end with status 0 is still a failure: MPI was left open.
    pub fn left_open(self) -> bool {
        self.initialized && !self.finalized
    }
}

/// The server of one job on one node.
#[derive(Debug)]
pub struct JobServer {
    layout: Layout,
    options: Options,
    next_client: u64,
    ranks: Vec<RankState>,
}

impl JobServer {
    /// A server without clients.
    pub fn new(layout: Layout, options: Options) -> Self {
        let ranks = vec![RankState::default(); layout.local_ranks().len()];
        Self { layout, options, next_client: 0, ranks }
    }

    /// The job that is served.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn client(&mut self) -> ClientId {
        self.next_client += 1;
        ClientId(self.next_client)
    }

    /// The server's end of a local rank's socket pair (`PMI_FD`): PMI-1 or PMI-2, as the rank's
    /// first line says.
    pub fn connect_fd(&mut self, _rank: u32) -> ClientId {
        self.client()
    }

    /// A connection to the port of `PMI_PORT`; the rank says who it is.
    pub fn connect_tcp_pmi(&mut self) -> ClientId {
        self.client()
    }

    /// A connection to the PMIx port; the rank says who it is.
    pub fn connect_pmix(&mut self) -> ClientId {
        self.client()
    }

    /// Bytes that a client sent, cut anywhere.
    pub fn receive(&mut self, _client: ClientId, _bytes: &[u8]) -> Vec<Effect> {
        let _ = self.options;
        Vec::new()
    }

    /// An exchange is complete: the blobs of all nodes (own one included or not), any order.
    pub fn exchanged(&mut self, _sequence: Sequence, _blobs: &[(u32, Arc<[u8]>)]) -> Vec<Effect> {
        Vec::new()
    }

    /// An exchange will never be complete; the ranks that wait for it get an error.
    pub fn exchange_failed(&mut self, _sequence: Sequence, _reason: &str) -> Vec<Effect> {
        Vec::new()
    }

    /// Another node wants what a local rank has published.
    pub fn modex_requested(&mut self, _from: u32, _rank: u32) -> Vec<Effect> {
        Vec::new()
    }

    /// The answer to an [`Effect::FetchModex`]; `None` when there is nothing to be had.
    pub fn modex(&mut self, _rank: u32, _blob: Option<&[u8]>) -> Vec<Effect> {
        Vec::new()
    }

    /// A timer ran out.
    pub fn fired(&mut self, _id: u64) -> Vec<Effect> {
        Vec::new()
    }

    /// A client's connection is gone. The rank may live on.
    pub fn closed(&mut self, _client: ClientId) -> Vec<Effect> {
        Vec::new()
    }

    /// A rank's process has ended. Tells how far it came; what it still owed others is settled by
    /// the effects.
    pub fn rank_exited(&mut self, rank: u32) -> (RankState, Vec<Effect>) {
        (self.rank_state(rank), Vec::new())
    }

    /// How far a local rank is; the default for ranks elsewhere.
    pub fn rank_state(&self, rank: u32) -> RankState {
        let index = self.layout.local_ranks().binary_search(&rank);
        index.map(|index| self.ranks[index]).unwrap_or_default()
    }
}
