//! The server of PMIx on the wire, for Open MPI 4.1 and 5. Owns who is admitted, and the answers
//! to requests; the bytes are its submodules'.
//!
//! Known from the PMIx standard, OpenPMIx's public sources and conversations of real clients
//! (`docs/spec/pmi.md`).

mod cleanup;
#[cfg(test)]
pub(crate) mod fuzz;
mod hello;
mod job_info;
mod message;
mod modex;
mod request;
mod status;
mod wire;

use crate::core::Core;
use crate::effect::{ClientId, Effect, Output, Protocol, Sequence};
use crate::fence::{Fence, Waiter};
use cleanup::WILDCARD;
use hello::Hello;
use modex::{Found, Modex};
use request::Request;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use wire::{Encoding, Proc, Reader, WireError, Writer};

/// Keys of this family are for the job's own data; what ranks publish has others.
const RESERVED: &[u8] = b"pmix";

/// A client that was admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    /// Who speaks.
    pub(crate) rank: u32,
    encoding: Encoding,
    index: u32,
}

/// How far a connection came in reading one message.
#[derive(Debug)]
pub(crate) enum Step {
    /// More bytes are needed.
    More,
    /// So many bytes were used.
    Taken(usize),
    /// The connection is over.
    Close,
}

/// A get that waits for a rank to publish.
#[derive(Clone, Copy, Debug)]
struct Asking {
    waiter: Waiter,
    session: Session,
    rank: u32,
    timer: Option<u64>,
}

/// A fence of some ranks of this node.
#[derive(Clone, Debug)]
struct LocalFence {
    ranks: Vec<u32>,
    entered: Vec<(Session, Waiter)>,
}

/// The server's state for all ranks.
#[derive(Debug)]
pub(crate) struct Pmix {
    pub(crate) fence: Fence,
    local_fences: Vec<LocalFence>,
    modex: Modex,
    job_info: [Option<Vec<Arc<[u8]>>>; 2],
    sessions: BTreeMap<ClientId, Session>,
    asking: Vec<Asking>,
    /// Remote ranks whose data was asked for.
    fetching: BTreeSet<u32>,
    /// Other nodes that wait for a local rank.
    asked: BTreeSet<(u32, u32)>,
    indexes: u32,
}

impl Pmix {
    /// A server for a job's ranks, `local` of them here.
    pub(crate) fn new(ranks: u32, local: usize) -> Self {
        Self {
            fence: Fence::new(Protocol::Pmix, local),
            local_fences: Vec::new(),
            modex: Modex::new(ranks, local),
            job_info: [None, None],
            sessions: BTreeMap::new(),
            asking: Vec::new(),
            fetching: BTreeSet::new(),
            asked: BTreeSet::new(),
            indexes: 0,
        }
    }

    /// Reads one message of a client out of its buffer and answers it.
    pub(crate) fn receive(&mut self, core: &mut Core, client: ClientId, buffer: &[u8]) -> Step {
        let Some(session) = self.sessions.get(&client).copied() else {
            return match message::first(buffer, hello::LIMIT) {
                Err(_) => Step::Close,
                Ok(None) => Step::More,
                Ok(Some(first)) => self.admit(core, client, first.payload, first.taken),
            };
        };
        match message::next(buffer, core.options.max_message) {
            Err(_) => Step::Close,
            Ok(None) => Step::More,
            Ok(Some(next)) => {
                // A heartbeat or a dropped peer sends empty messages.
                if !next.payload.is_empty() {
                    self.request(core, client, session, next.tag, next.payload);
                }
                Step::Taken(next.taken)
            }
        }
    }

    fn admit(&mut self, core: &mut Core, client: ClientId, payload: &[u8], taken: usize) -> Step {
        let admitted = match hello::parse(payload) {
            Ok(hello) => self.check(core, &hello).map(|()| hello),
            Err(hello::HelloError::Truncated) => Err(status::UNPACK_FAILURE),
            Err(_) => Err(status::NOT_SUPPORTED),
        };
        let hello = match admitted {
            Ok(hello) => hello,
            Err(code) => {
                core.reply(client, code.to_be_bytes().to_vec());
                return Step::Close;
            }
        };
        self.indexes += 1;
        let session = Session { rank: hello.rank, encoding: hello.encoding, index: self.indexes };
        if let Some(index) = core.index_of(session.rank) {
            self.modex.forget(index);
        }
        self.sessions.insert(client, session);
        core.initialized(session.rank, Protocol::Pmix);
        let mut answer = status::SUCCESS.to_be_bytes().to_vec();
        answer.extend_from_slice(&session.index.to_be_bytes());
        core.reply(client, answer);
        Step::Taken(taken)
    }

    /// A rank is admitted once; again only after a proper end, for scripts that run one MPI
    /// program after another.
    fn check(&self, core: &Core, hello: &Hello<'_>) -> Result<(), i32> {
        let known = hello.namespace == core.layout.job().namespace().as_bytes();
        if !known || core.index_of(hello.rank).is_none() {
            return Err(status::INVALID_CREDENTIAL);
        }
        let state = core.state(hello.rank);
        let spoken = state.protocol == Some(Protocol::Pmix);
        let connected = self.sessions.values().any(|session| session.rank == hello.rank);
        if connected || spoken && !state.finalized {
            return Err(status::INVALID_CREDENTIAL);
        }
        Ok(())
    }

    fn request(
        &mut self,
        core: &mut Core,
        client: ClientId,
        session: Session,
        tag: u32,
        payload: &[u8],
    ) {
        let waiter = Waiter { client, tag };
        let answer = |core: &mut Core, code| send_status(core, session, waiter, code);
        match Request::parse(&mut Reader::new(payload, session.encoding)) {
            Err(WireError::Type { .. }) => answer(core, status::UNKNOWN_DATA_TYPE),
            Err(_) => answer(core, status::UNPACK_FAILURE),
            Ok(Request::JobInfo) => {
                let shared = self.job_info(core, session.encoding);
                let length = shared.iter().map(|part| part.len()).sum();
                let own = message::header(session.index, tag, length).to_vec();
                core.reply(client, Output { own, shared });
            }
            Ok(Request::Abort { code, message }) => {
                answer(core, status::SUCCESS);
                let message = String::from_utf8_lossy(message).trim().to_owned();
                core.push(Effect::Abort { rank: session.rank, code, message });
            }
            Ok(Request::Commit { local, remote }) => {
                let code = self.commit(core, session, &local, &remote);
                answer(core, code);
            }
            Ok(Request::Fence { procs }) => self.enter(core, session, waiter, &procs),
            Ok(Request::Get { proc, key, immediate, timeout }) => {
                let patience = (!immediate).then_some(timeout);
                if let Err(code) = self.get(core, session, waiter, proc, key, patience) {
                    answer(core, code);
                }
            }
            Ok(Request::Finalize) => {
                core.finalized(session.rank);
                answer(core, status::SUCCESS);
            }
            Ok(Request::Notify | Request::RegisterEvents) => answer(core, status::SUCCESS),
            Ok(Request::DeregisterEvents) => (),
            Ok(Request::Control(control)) => {
                let layout = &core.layout;
                let namespace = layout.job().namespace().as_bytes();
                match control.cleanup(session.rank, namespace, |rank| layout.is_local(rank)) {
                    Ok(cleanup) => {
                        core.push(Effect::Cleanup(cleanup));
                        answer(core, status::SUCCESS);
                    }
                    Err(code) => answer(core, code),
                }
            }
            Ok(Request::Other) => answer(core, status::NOT_SUPPORTED),
        }
    }

    fn job_info(&mut self, core: &Core, encoding: Encoding) -> Vec<Arc<[u8]>> {
        let slot = &mut self.job_info[usize::from(encoding == Encoding::V41)];
        slot.get_or_insert_with(|| job_info::pack(&core.layout, encoding)).clone()
    }

    fn commit(&mut self, core: &mut Core, session: Session, local: &[u8], remote: &[u8]) -> i32 {
        let Some(index) = core.index_of(session.rank) else { return status::BAD_PARAMETER };
        let (local, remote) = self.modex.news(index, local, remote);
        if !core.may_publish(session.rank, local.len() + remote.len()) {
            return status::OUT_OF_RESOURCE;
        }
        self.modex.publish(index, session.encoding, local, remote);
        self.serve(core, session.rank);
        if let Some(blob) = self.modex.blob_of(index, session.rank) {
            for node in self.take_asked(session.rank) {
                let blob = Some(blob.clone());
                core.push(Effect::AnswerModex { node, rank: session.rank, blob });
            }
        }
        status::SUCCESS
    }

    fn enter(&mut self, core: &mut Core, session: Session, waiter: Waiter, procs: &[Proc<'_>]) {
        let Some(index) = core.index_of(session.rank) else { return };
        let answer = |core: &mut Core, code| send_status(core, session, waiter, code);
        let namespace = core.layout.job().namespace().as_bytes();
        if procs.iter().any(|proc| proc.namespace != namespace) {
            return answer(core, status::NOT_SUPPORTED);
        }
        if self.fence.waiting(index) >= core.options.max_waiting {
            return answer(core, status::OUT_OF_RESOURCE);
        }
        let mut ranks: Vec<u32> = procs.iter().map(|proc| proc.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let all = ranks.is_empty()
            || ranks.contains(&WILDCARD)
            || ranks.iter().copied().eq(0..core.layout.job().size());
        if !all {
            return self.enter_local(core, session, waiter, ranks);
        }
        if let Some(sequence) = self.fence.enter(index, waiter) {
            let blob = self.modex.take_blob(core.layout.local_ranks());
            if core.layout.job().hosts().len() == 1 {
                self.exchanged(core, sequence, &[]);
            } else {
                core.push(Effect::Exchange { sequence, blob });
            }
        }
    }

    /// A fence of some ranks: served when all of them are here.
    fn enter_local(&mut self, core: &mut Core, session: Session, waiter: Waiter, ranks: Vec<u32>) {
        let local = ranks.iter().all(|&rank| core.layout.is_local(rank));
        if !local || !ranks.contains(&session.rank) {
            return send_status(core, session, waiter, status::NOT_SUPPORTED);
        }
        let is_new = |fence: &LocalFence| {
            fence.ranks == ranks && fence.entered.iter().all(|(s, _)| s.rank != session.rank)
        };
        let place = match self.local_fences.iter().position(is_new) {
            Some(place) => place,
            None if self.local_fences.len() >= core.options.max_waiting => {
                return send_status(core, session, waiter, status::OUT_OF_RESOURCE);
            }
            None => {
                self.local_fences.push(LocalFence { ranks, entered: Vec::new() });
                self.local_fences.len() - 1
            }
        };
        let fence = &mut self.local_fences[place];
        fence.entered.push((session, waiter));
        if fence.entered.len() == fence.ranks.len() {
            for (session, waiter) in self.local_fences.remove(place).entered {
                send_status(core, session, waiter, status::SUCCESS);
            }
        }
    }

    /// Answers a get or keeps it; an error is the status to answer. `patience` is the seconds to
    /// wait, 0 for ever, `None` for not at all.
    fn get(
        &mut self,
        core: &mut Core,
        session: Session,
        waiter: Waiter,
        proc: Proc<'_>,
        key: &[u8],
        patience: Option<u32>,
    ) -> Result<(), i32> {
        let Proc { namespace, rank } = proc;
        if namespace != core.layout.job().namespace().as_bytes() {
            return Err(status::NOT_FOUND);
        }
        let node = core.layout.job().node_of(rank).ok_or(status::NOT_FOUND)?;
        if self.answer_get(core, session, waiter, rank) {
            return Ok(());
        }
        // Data of the job itself was told at the start; no rank will publish it.
        let seconds = patience.filter(|_| !key.starts_with(RESERVED)).ok_or(status::NOT_FOUND)?;
        let waiting = self.asking.iter().filter(|a| a.waiter.client == waiter.client).count();
        if waiting >= core.options.max_waiting {
            return Err(status::OUT_OF_RESOURCE);
        }
        let timer = (seconds > 0).then(|| core.timer(Duration::from_secs(u64::from(seconds))));
        self.asking.push(Asking { waiter, session, rank, timer });
        if node != core.layout.node() && self.fetching.insert(rank) {
            core.push(Effect::FetchModex { node, rank });
        }
        Ok(())
    }

    /// Answers a get if there is something to answer.
    fn answer_get(&self, core: &mut Core, session: Session, waiter: Waiter, rank: u32) -> bool {
        let found = match core.index_of(rank) {
            Some(index) => self.modex.local(index, session.encoding),
            None => self.modex.remote(rank, session.encoding),
        };
        let pieces = match found {
            None => return false,
            Some(Found::Foreign) => {
                send_status(core, session, waiter, status::NOT_SUPPORTED);
                return true;
            }
            Some(Found::Data(pieces)) => pieces,
        };
        let mut data = Writer::new(session.encoding);
        data.pack(1).process(core.layout.job().namespace(), rank);
        for piece in pieces {
            data.raw(piece);
        }
        let mut answer = Writer::new(session.encoding);
        answer.pack(1).i32(status::SUCCESS).pack(1).object(&data.finish());
        send(core, session, waiter, &answer.finish());
        true
    }

    /// Answers all gets that wait for a rank and can be answered now.
    fn serve(&mut self, core: &mut Core, rank: u32) {
        let asking = std::mem::take(&mut self.asking);
        let left = asking.into_iter().filter(|asking| {
            asking.rank != rank || !self.answer_get(core, asking.session, asking.waiter, rank)
        });
        let left = left.collect();
        self.asking = left;
    }

    /// Answers all gets that wait for a rank with a status.
    fn give_up(&mut self, core: &mut Core, rank: u32, code: i32) {
        for asking in self.asking.extract_if(.., |asking| asking.rank == rank) {
            send_status(core, asking.session, asking.waiter, code);
        }
    }

    fn take_asked(&mut self, rank: u32) -> Vec<u32> {
        let asked = self.asked.extract_if((rank, 0)..=(rank, u32::MAX), |_| true);
        asked.map(|(_, node)| node).collect()
    }

    /// The blobs of the other nodes have come.
    pub(crate) fn exchanged(
        &mut self,
        core: &mut Core,
        sequence: Sequence,
        blobs: &[(u32, Arc<[u8]>)],
    ) {
        let own = core.layout.node();
        let job = core.layout.job().clone();
        let mut code = status::SUCCESS;
        for (node, blob) in blobs.iter().filter(|(node, _)| *node != own) {
            let from_there = |rank| job.node_of(rank) == Some(*node);
            if self.modex.add_page(*node, blob, from_there).is_err() {
                code = status::ERROR;
            }
        }
        self.release(core, sequence, code);
        let waited_for: BTreeSet<u32> = self.asking.iter().map(|asking| asking.rank).collect();
        for rank in waited_for {
            self.serve(core, rank);
        }
    }

    /// The exchange will not come about.
    pub(crate) fn failed(&mut self, core: &mut Core, sequence: Sequence) {
        self.release(core, sequence, status::UNREACHABLE);
    }

    fn release(&mut self, core: &mut Core, sequence: Sequence, code: i32) {
        for waiter in self.fence.finish(sequence.number).unwrap_or_default() {
            if let Some(&session) = self.sessions.get(&waiter.client) {
                send_status(core, session, waiter, code);
            }
        }
    }

    /// Another node wants what a local rank has published: now, or as soon as it is.
    pub(crate) fn modex_requested(&mut self, core: &mut Core, from: u32, rank: u32) {
        let blob = core.index_of(rank).and_then(|index| self.modex.blob_of(index, rank));
        let hopeless = core.index_of(rank).is_none() || core.has_exited(rank);
        if blob.is_some() || hopeless {
            core.push(Effect::AnswerModex { node: from, rank, blob });
        } else {
            self.asked.insert((rank, from));
        }
    }

    /// The answer of another node about a rank of its own.
    pub(crate) fn modex(&mut self, core: &mut Core, rank: u32, blob: Option<&[u8]>) {
        if !self.fetching.remove(&rank) {
            return;
        }
        let node = core.layout.job().node_of(rank);
        let known = self.modex.remote(rank, Encoding::V41).is_some();
        match (blob, node) {
            // A fence was quicker.
            (_, Some(_)) if known => self.serve(core, rank),
            (Some(blob), Some(node)) => {
                match self.modex.add_page(node, &blob.into(), |other| other == rank) {
                    Ok(()) => self.serve(core, rank),
                    Err(_) => self.give_up(core, rank, status::ERROR),
                }
            }
            _ => self.give_up(core, rank, status::NOT_FOUND),
        }
    }

    /// A timer ran out.
    pub(crate) fn fired(&mut self, core: &mut Core, id: u64) {
        for asking in self.asking.extract_if(.., |asking| asking.timer == Some(id)) {
            send_status(core, asking.session, asking.waiter, status::TIMEOUT);
        }
    }

    /// A rank's process is gone: who waits for its data waits no more.
    pub(crate) fn rank_exited(&mut self, core: &mut Core, rank: u32) {
        self.give_up(core, rank, status::NOT_FOUND);
        for node in self.take_asked(rank) {
            core.push(Effect::AnswerModex { node, rank, blob: None });
        }
        let broken = self.local_fences.extract_if(.., |fence| fence.ranks.contains(&rank));
        for (session, waiter) in broken.flat_map(|fence| fence.entered) {
            send_status(core, session, waiter, status::UNREACHABLE);
        }
    }

    /// A client is gone: it waits for nothing more.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.sessions.remove(&client);
        self.fence.forget(client);
        self.asking.retain(|asking| asking.waiter.client != client);
        for fence in &mut self.local_fences {
            fence.entered.retain(|(_, waiter)| waiter.client != client);
        }
        self.local_fences.retain(|fence| !fence.entered.is_empty());
    }
}

fn send(core: &mut Core, session: Session, waiter: Waiter, payload: &[u8]) {
    let mut bytes = message::header(session.index, waiter.tag, payload.len()).to_vec();
    bytes.extend_from_slice(payload);
    core.reply(waiter.client, bytes);
}

fn send_status(core: &mut Core, session: Session, waiter: Waiter, code: i32) {
    let mut answer = Writer::new(session.encoding);
    answer.pack(1).i32(code);
    send(core, session, waiter, &answer.finish());
}

#[cfg(test)]
mod tests;
