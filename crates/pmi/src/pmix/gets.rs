//! What ranks publish and get: commits, gets that wait, and questions between nodes. Owns when an
//! answer is due; the data itself is [`super::modex`]'s.

use super::modex::Found;
use super::wire::{Encoding, Proc, Writer};
use super::{Pmix, Session, send, send_status, status};
use crate::core::Core;
use crate::effect::Effect;
use crate::fence::Waiter;
use std::time::Duration;

/// Keys of this family are for the job's own data; what ranks publish has others.
const RESERVED: &[u8] = b"pmix";

/// A get that waits for a rank to publish.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    pub(super) waiter: Waiter,
    session: Session,
    pub(super) rank: u32,
    timer: Option<u64>,
}

impl Pmix {
    /// A rank publishes; who waits for that is answered. Gives the status to answer.
    pub(super) fn commit(
        &mut self,
        core: &mut Core,
        session: Session,
        local: &[u8],
        remote: &[u8],
    ) -> i32 {
        let Some(index) = core.index_of(session.rank) else { return status::BAD_PARAMETER };
        let (local, remote) = self.modex.news(index, local, remote);
        if !core.may_publish(session.rank, local.len() + remote.len()) {
            return status::OUT_OF_RESOURCE;
        }
        self.modex.publish(index, session.encoding, local, remote);
        self.serve(core, session.rank);
        for node in self.take_asked(session.rank) {
            let blob = self.modex.blob_of(index, session.rank);
            core.push(Effect::AnswerModex { node, rank: session.rank, blob });
        }
        status::SUCCESS
    }

    /// Answers a get or keeps it; an error is the status to answer. `patience` is the seconds to
    /// wait, 0 for ever, `None` for not at all.
    pub(super) fn get(
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
    pub(super) fn serve(&mut self, core: &mut Core, rank: u32) {
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
}
