//! The server of PMIx on the wire, for Open MPI 4.1 and 5. Owns who is admitted, and the answers
//! to requests; the bytes are its submodules'.
//!
//! Known from the PMIx standard, OpenPMIx's public sources and conversations of real clients
//! (`docs/spec/pmi.md`).

mod cleanup;
mod fences;
#[cfg(test)]
pub(crate) mod fuzz;
mod gets;
mod hello;
mod job_info;
mod message;
mod modex;
mod request;
mod status;
mod wire;

use crate::core::Core;
use crate::effect::{ClientId, Effect, Output, Protocol};
use crate::fence::{Fence, Waiter};
use fences::LocalFence;
use gets::Asking;
use hello::Hello;
use modex::Modex;
use request::Request;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::{Encoding, Reader, WireError, Writer};

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
