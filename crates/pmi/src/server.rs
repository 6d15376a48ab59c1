//! The server of one job on one node: clients' bytes and exchanged blobs in, [`Effect`]s out. Owns
//! who is connected, and which protocol a connection speaks; never touches a socket or a clock.

use crate::core::{Core, Exit};
use crate::effect::{ClientId, Effect, Protocol, Sequence};
use crate::fence::Fence;
use crate::layout::Layout;
use crate::pmi1::line::{Line, write};
use crate::pmi1::{self, Pmi1};
use crate::pmi2::{Pmi2, frame};
use crate::pmix::{Pmix, Step};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bounds of what one server holds. The defaults serve tens of thousands of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The longest PMIx message of a client, bytes; a longer one ends its connection. 16 MiB, as
    /// in OpenPMIx; what Open MPI publishes stays far below 100 kB. (PMI-1 lines end at 64 KiB,
    /// PMI-2 frames at 1 MB by their form.)
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

/// The longest line of PMI-1, bytes. Clients of today write up to about 1.5 kB.
const LINE_MAX: usize = 64 << 10;

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

/// A connection: what was received and not used yet, and who reads it.
#[derive(Debug)]
struct Connection {
    buffer: Vec<u8>,
    speaks: Speaks,
}

/// What a connection speaks.
#[derive(Debug)]
enum Speaks {
    /// PMI by TCP, before the rank has said who it is.
    Stranger,
    /// PMI before the first line, which names the version.
    Greeting { rank: u32 },
    /// PMI-1.
    Pmi1(pmi1::Session),
    /// PMI-2.
    Pmi2 { rank: u32 },
    /// PMIx; who it is, is [`Pmix`]'s to know.
    Pmix,
}

/// The server of one job on one node.
///
/// ```
/// use quorate_pmi::{Effect, Job, JobServer, JobSpec, Layout, Options};
///
/// let job = Job::new(JobSpec {
///     namespace: "f3a9".into(),
///     id: "17".into(),
///     hosts: vec!["worker-0".into()],
///     node_of: vec![0],
///     ..JobSpec::default()
/// })?;
/// let mut server = JobServer::new(Layout::new(job, 0, "/tmp/17")?, Options::default());
/// let client = server.connect_fd(0);
/// let effects = server.receive(client, b"cmd=init pmi_version=1 pmi_subversion=1\n");
/// assert!(matches!(&effects[1], Effect::Reply { bytes, .. }
///     if bytes.to_vec() == b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"));
/// # Ok::<(), quorate_pmi::LayoutError>(())
/// ```
#[derive(Debug)]
pub struct JobServer {
    core: Core,
    connections: BTreeMap<ClientId, Connection>,
    next_client: u64,
    /// The job was ended because ranks would wait for ever.
    deadlocked: bool,
    pmi1: Pmi1,
    pmi2: Pmi2,
    pmix: Pmix,
}

impl JobServer {
    /// A server without clients.
    pub fn new(layout: Layout, options: Options) -> Self {
        let local = layout.local_ranks().len();
        let size = layout.job().size();
        Self {
            core: Core::new(layout, options),
            connections: BTreeMap::new(),
            next_client: 0,
            deadlocked: false,
            pmi1: Pmi1::new(local),
            pmi2: Pmi2::new(local),
            pmix: Pmix::new(size, local),
        }
    }

    /// The job that is served.
    pub fn layout(&self) -> &Layout {
        &self.core.layout
    }

    fn connect(&mut self, speaks: Speaks) -> ClientId {
        self.next_client += 1;
        let client = ClientId(self.next_client);
        self.connections.insert(client, Connection { buffer: Vec::new(), speaks });
        client
    }

    /// The server's end of a local rank's socket pair (`PMI_FD`): PMI-1 or PMI-2, as the rank's
    /// first line says. For a rank that is not of this node, nothing will ever be answered.
    pub fn connect_fd(&mut self, rank: u32) -> ClientId {
        self.connect(Speaks::Greeting { rank })
    }

    /// A connection to the port of `PMI_PORT`; the rank says who it is.
    pub fn connect_tcp_pmi(&mut self) -> ClientId {
        self.connect(Speaks::Stranger)
    }

    /// A connection to the PMIx port; the rank says who it is.
    pub fn connect_pmix(&mut self) -> ClientId {
        self.connect(Speaks::Pmix)
    }

    /// Bytes that a client sent, cut anywhere. Those of clients that are gone are ignored.
    pub fn receive(&mut self, client: ClientId, bytes: &[u8]) -> Vec<Effect> {
        let Some(mut connection) = self.connections.remove(&client) else { return Vec::new() };
        connection.buffer.extend_from_slice(bytes);
        let mut used = 0;
        loop {
            match self.step(client, &mut connection.speaks, &connection.buffer[used..]) {
                Step::Taken(taken) => used += taken,
                Step::More => {
                    connection.buffer.drain(..used);
                    // One large message must not cost its size for ever.
                    if connection.buffer.is_empty() {
                        connection.buffer.shrink_to(LINE_MAX);
                    }
                    self.connections.insert(client, connection);
                    break;
                }
                Step::Close => {
                    self.forget(client);
                    self.core.push(Effect::Close { client });
                    break;
                }
            }
        }
        self.check_deadlock();
        self.check_deserted();
        self.core.take()
    }

    /// Reads one line, frame or message.
    fn step(&mut self, client: ClientId, speaks: &mut Speaks, buffer: &[u8]) -> Step {
        match speaks {
            Speaks::Pmix => self.pmix.receive(&mut self.core, client, buffer),
            Speaks::Pmi2 { rank } => match frame::next(buffer) {
                Err(frame::BadLength) => Step::Close,
                Ok(None) => Step::More,
                Ok(Some((body, taken))) => {
                    let goes_on = self.pmi2.frame(&mut self.core, client, *rank, body);
                    if goes_on { Step::Taken(taken) } else { Step::Close }
                }
            },
            _ => {
                let Some(end) = buffer.iter().position(|&b| b == b'\n') else {
                    return if buffer.len() > LINE_MAX { Step::Close } else { Step::More };
                };
                if end > LINE_MAX {
                    return Step::Close;
                }
                let goes_on = self.line(client, speaks, &buffer[..end]);
                if goes_on { Step::Taken(end + 1) } else { Step::Close }
            }
        }
    }

    /// One line of PMI; `false` ends the connection.
    fn line(&mut self, client: ClientId, speaks: &mut Speaks, text: &[u8]) -> bool {
        match speaks {
            Speaks::Stranger => match self.introduce(client, text) {
                Some(rank) => {
                    *speaks = Speaks::Greeting { rank };
                    true
                }
                None => false,
            },
            Speaks::Greeting { rank } => {
                let rank = *rank;
                let version = Line::parse(text)
                    .filter(|line| line.command == b"init")
                    .and_then(|line| line.number::<u32>("pmi_version"));
                if version.is_some_and(|version| version >= 2) {
                    self.core.initialized(rank, Protocol::Pmi2);
                    let fields = [("pmi_version", "2"), ("pmi_subversion", "0"), ("rc", "0")];
                    self.core.reply(client, write("response_to_init", &fields));
                    *speaks = Speaks::Pmi2 { rank };
                    return true;
                }
                // Clients of before 1.1 begin without a greeting.
                let mut session = pmi1::Session::new(rank);
                let goes_on = self.pmi1.line(&mut self.core, client, &mut session, text);
                *speaks = Speaks::Pmi1(session);
                goes_on
            }
            Speaks::Pmi1(session) => self.pmi1.line(&mut self.core, client, session, text),
            Speaks::Pmi2 { .. } | Speaks::Pmix => false,
        }
    }

    /// The first line by TCP, which says who speaks: a rank of this node that has no connection.
    fn introduce(&mut self, client: ClientId, text: &[u8]) -> Option<u32> {
        let line = Line::parse(text).filter(|line| line.command == b"initack");
        let rank = line.and_then(|line| line.number::<u32>("pmiid"));
        let rank = rank.filter(|&rank| self.core.layout.is_local(rank) && !self.speaks_pmi(rank));
        let Some(rank) = rank else {
            self.core.reply(client, pmi1::failure("initack", "rank_not_accepted"));
            return None;
        };
        let size = self.core.layout.job().size();
        let answer = format!(
            "cmd=initack rc=0\ncmd=set size={size}\ncmd=set rank={rank}\ncmd=set debug=0\n"
        );
        self.core.reply(client, answer.into_bytes());
        Some(rank)
    }

    /// Tells whether a rank has said anything in PMI and is connected.
    fn speaks_pmi(&self, wanted: u32) -> bool {
        self.connections.values().any(|connection| match &connection.speaks {
            Speaks::Pmi1(session) => session.rank == wanted,
            Speaks::Pmi2 { rank } => *rank == wanted,
            // The unused end of a pair does not count; a rank by TCP has spoken.
            Speaks::Greeting { .. } | Speaks::Stranger | Speaks::Pmix => false,
        })
    }

    /// An exchange is complete: the blobs of all nodes (own one included or not), any order. One
    /// that this server does not wait for is ignored.
    pub fn exchanged(&mut self, sequence: Sequence, blobs: &[(u32, Arc<[u8]>)]) -> Vec<Effect> {
        match sequence.protocol {
            Protocol::Pmi1 => self.pmi1.exchanged(&mut self.core, sequence, blobs),
            Protocol::Pmi2 => self.pmi2.exchanged(&mut self.core, sequence, blobs),
            Protocol::Pmix => self.pmix.exchanged(&mut self.core, sequence, blobs),
        }
        self.core.take()
    }

    /// An exchange will never be complete; the ranks that wait for it get an error. The shell
    /// tells people why, and ends the job.
    pub fn exchange_failed(&mut self, sequence: Sequence) -> Vec<Effect> {
        match sequence.protocol {
            Protocol::Pmi1 => self.pmi1.failed(&mut self.core, sequence),
            Protocol::Pmi2 => self.pmi2.failed(&mut self.core, sequence),
            Protocol::Pmix => self.pmix.failed(&mut self.core, sequence),
        }
        self.core.take()
    }

    /// Another node wants what a local rank has published. The answer is an
    /// [`Effect::AnswerModex`], now or when the rank publishes or ends.
    pub fn modex_requested(&mut self, from: u32, rank: u32) -> Vec<Effect> {
        self.pmix.modex_requested(&mut self.core, from, rank);
        self.core.take()
    }

    /// The answer to an [`Effect::FetchModex`]; `None` when there is nothing to be had.
    pub fn modex(&mut self, rank: u32, blob: Option<&[u8]>) -> Vec<Effect> {
        self.pmix.modex(&mut self.core, rank, blob);
        self.core.take()
    }

    /// A timer ran out.
    pub fn fired(&mut self, id: u64) -> Vec<Effect> {
        self.pmix.fired(&mut self.core, id);
        self.core.take()
    }

    /// A client's connection is gone. The rank may live on.
    pub fn closed(&mut self, client: ClientId) -> Vec<Effect> {
        self.connections.remove(&client);
        self.forget(client);
        self.core.take()
    }

    fn forget(&mut self, client: ClientId) {
        self.pmi1.fence.forget(client);
        self.pmi2.forget(client);
        self.pmix.forget(client);
    }

    /// A rank's process has ended. Tells how far it came ([`RankState::left_open`]); what it still
    /// owed others is settled by the effects.
    pub fn rank_exited(&mut self, rank: u32, exit: Exit) -> (RankState, Vec<Effect>) {
        self.core.exited(rank, exit);
        self.pmix.rank_exited(&mut self.core, rank);
        self.check_deserted();
        (self.core.state(rank), self.core.take())
    }

    /// How many exchanges this node has entered, by protocol as in [`Protocol::ALL`]. A node whose
    /// ranks have all ended will not enter the next ones.
    pub fn exchanges(&self) -> [u64; 3] {
        self.fences().map(Fence::exchanges)
    }

    fn fences(&self) -> [&Fence; 3] {
        [&self.pmi1.fence, &self.pmi2.fence, &self.pmix.fence]
    }

    /// How far a local rank is; the default for ranks elsewhere.
    pub fn rank_state(&self, rank: u32) -> RankState {
        self.core.state(rank)
    }

    /// Bytes that wait for the rest of their message.
    #[cfg(test)]
    pub(crate) fn buffered(&self) -> usize {
        self.connections.values().map(|connection| connection.buffer.len()).sum()
    }

    /// Ranks that meet by different protocols wait for each other for ever: when all local ranks
    /// wait, and not all by one protocol, the job is ended with a reason.
    fn check_deadlock(&mut self) {
        let waiting = self.fences().map(Fence::ready);
        let used = waiting.iter().filter(|&&ranks| ranks > 0).count();
        let local = self.core.layout.local_ranks();
        if self.deadlocked || used < 2 || waiting.iter().sum::<usize>() < local.len() {
            return;
        }
        let names: Vec<&str> = Protocol::ALL
            .iter()
            .zip(waiting)
            .filter(|(_, ranks)| *ranks > 0)
            .map(|(protocol, _)| protocol.as_str())
            .collect();
        let message = format!(
            "ranks of this job speak different protocols ({}) and would wait for each other for \
             ever; choose one with --mpi",
            names.join(", ")
        );
        let rank = local[0];
        self.deadlocked = true;
        self.core.push(Effect::Abort { rank, code: 1, message });
    }

    /// A rank that has ended, and all was well as it saw it, comes to no fence any more: who waits
    /// for it there would wait for ever.
    fn check_deserted(&mut self) {
        let deserter =
            self.fences().into_iter().filter(|fence| fence.ready() > 0).find_map(|fence| {
                self.core.contented().find(|(index, _)| fence.waiting(*index) == 0)
            });
        let Some((_, rank)) = deserter else { return };
        if !self.deadlocked {
            self.deadlocked = true;
            let initialized = self.core.state(rank).initialized;
            self.core.push(Effect::Deserted { rank, initialized });
        }
    }
}

#[cfg(test)]
mod tests;
