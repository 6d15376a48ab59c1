//! The server of PMI-2, spoken by Slurm's libpmi2 and programs linked with it. Owns the commands
//! and their answers; frames are [`frame`]'s, pairs are [`crate::kvs`]'s.
//!
//! Known from MPICH's message tables and conversations of real clients (`docs/spec/pmi.md`).

pub(crate) mod frame;

use crate::core::Core;
use crate::effect::{ClientId, Effect, Protocol, Sequence};
use crate::fence::{Fence, Waiter};
use crate::kvs::Kvs;
use frame::{Frame, Writer};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The longest key that is stored, bytes.
const KEY_MAX: usize = 256;
/// The longest value that is stored, bytes.
const VALUE_MAX: usize = 64 << 10;

/// Who asked for an attribute of the node that is not there yet.
#[derive(Debug)]
struct Asking {
    client: ClientId,
    key: Vec<u8>,
    thread: Option<Vec<u8>>,
}

/// The server's state for all ranks.
#[derive(Debug)]
pub(crate) struct Pmi2 {
    kvs: Kvs,
    pub(crate) fence: Fence,
    /// Attributes of this node that local ranks share.
    attributes: HashMap<Vec<u8>, Vec<u8>>,
    asking: Vec<Asking>,
    /// The `thrid` that the answer to a client's fence has to repeat.
    threads: BTreeMap<ClientId, Vec<u8>>,
}

impl Pmi2 {
    /// A server for so many local ranks.
    pub(crate) fn new(ranks: usize) -> Self {
        Self {
            kvs: Kvs::default(),
            fence: Fence::new(Protocol::Pmi2, ranks),
            attributes: HashMap::new(),
            asking: Vec::new(),
            threads: BTreeMap::new(),
        }
    }

    /// One frame of a rank. `false` ends the connection.
    pub(crate) fn frame(
        &mut self,
        core: &mut Core,
        client: ClientId,
        rank: u32,
        body: &[u8],
    ) -> bool {
        let frame = Frame::parse(body);
        let thread = frame.get("thrid");
        let command = frame.get("cmd").unwrap_or_default();
        let answer = match command {
            b"fullinit" => full_init(core, rank, thread),
            b"job-getid" => {
                begin("job-getid", thread, Ok(())).field("jobid", core.layout.job().namespace())
            }
            b"info-getjobattr" => {
                let value = job_attribute(core, frame.get("key").unwrap_or_default());
                found(begin("info-getjobattr", thread, Ok(())), value.as_deref())
            }
            b"kvs-put" => begin("kvs-put", thread, self.put(core, rank, &frame)),
            b"kvs-get" => self.get(core, &frame, thread),
            b"kvs-fence" => return self.enter(core, client, rank, thread),
            b"info-putnodeattr" => self.put_attribute(core, rank, &frame, thread),
            b"info-getnodeattr" => {
                let key = frame.get("key").unwrap_or_default();
                match self.attributes.get(key) {
                    None if frame.is_true("wait") && self.may_ask(core, client) => {
                        let thread = thread.map(<[u8]>::to_vec);
                        self.asking.push(Asking { client, key: key.to_vec(), thread });
                        return true;
                    }
                    value => {
                        found(begin("info-getnodeattr", thread, Ok(())), value.map(Vec::as_slice))
                    }
                }
            }
            b"finalize" => {
                core.finalized(rank);
                begin("finalize", thread, Ok(()))
            }
            b"abort" => {
                let code = frame.get("exitcode").and_then(|code| std::str::from_utf8(code).ok());
                let message = frame.get("msg").or(frame.get("message")).unwrap_or_default();
                core.push(Effect::Abort {
                    rank,
                    code: code.and_then(|code| code.parse().ok()).unwrap_or(1),
                    message: String::from_utf8_lossy(message).trim().to_owned(),
                });
                return false;
            }
            b"name-publish" | b"name-unpublish" | b"name-lookup" => {
                begin(&text(command), thread, Err("names are not supported"))
            }
            b"spawn" => begin("spawn", thread, Err("spawn is not supported")),
            b"job-connect" | b"job-disconnect" => {
                begin(&text(command), thread, Err("connecting jobs is not supported"))
            }
            b"" => begin("error", thread, Err("frame without a command")),
            other => begin(&text(other), thread, Err("unknown command")),
        };
        send(core, client, answer)
    }

    fn put(&mut self, core: &mut Core, rank: u32, frame: &Frame) -> Result<(), &'static str> {
        let (key, value) = pair(frame)?;
        if !core.may_publish(rank, key.len() + value.len()) {
            return Err("too much data");
        }
        self.kvs.put(key, value);
        Ok(())
    }

    fn get(&self, core: &Core, frame: &Frame, thread: Option<&[u8]>) -> Writer {
        let job = frame.get("jobid").unwrap_or_default();
        let own = job.is_empty() || job == core.layout.job().namespace().as_bytes();
        let key = frame.get("key").unwrap_or_default();
        let value = if own { self.kvs.get(key) } else { None };
        found(begin("kvs-get", thread, Ok(())), value)
    }

    fn put_attribute(
        &mut self,
        core: &mut Core,
        rank: u32,
        frame: &Frame,
        thread: Option<&[u8]>,
    ) -> Writer {
        let stored = pair(frame).and_then(|(key, value)| {
            if !core.may_publish(rank, key.len() + value.len()) {
                return Err("too much data");
            }
            self.attributes.insert(key.to_vec(), value.to_vec());
            Ok((key.to_vec(), value.to_vec()))
        });
        let stored = match stored {
            Ok(stored) => stored,
            Err(refusal) => return begin("info-putnodeattr", thread, Err(refusal)),
        };
        let (key, value) = stored;
        let served = self.asking.extract_if(.., |asking| asking.key == key);
        for asking in served.collect::<Vec<_>>() {
            let answer = begin("info-getnodeattr", asking.thread.as_deref(), Ok(()));
            send(core, asking.client, found(answer, Some(&value)));
        }
        begin("info-putnodeattr", thread, Ok(()))
    }

    fn may_ask(&self, core: &Core, client: ClientId) -> bool {
        let asking = self.asking.iter().filter(|asking| asking.client == client).count();
        asking < core.options.max_waiting
    }

    fn enter(
        &mut self,
        core: &mut Core,
        client: ClientId,
        rank: u32,
        thread: Option<&[u8]>,
    ) -> bool {
        let Some(index) = core.index_of(rank) else { return false };
        if self.fence.waiting(index) > 0 {
            return send(core, client, begin("kvs-fence", thread, Err("already in a fence")));
        }
        if let Some(thread) = thread {
            self.threads.insert(client, thread.to_vec());
        }
        if let Some(sequence) = self.fence.enter(index, Waiter { client, tag: 0 }) {
            let blob = self.kvs.take_blob();
            if !core.exchange(sequence, blob) {
                self.exchanged(core, sequence, &[]);
            }
        }
        true
    }

    /// The blobs of the other nodes have come.
    pub(crate) fn exchanged(
        &mut self,
        core: &mut Core,
        sequence: Sequence,
        blobs: &[(u32, Arc<[u8]>)],
    ) {
        let read = self.kvs.add_pages(core.others(blobs));
        self.release(core, sequence, read.map_err(|_| "unreadable data of another node"));
    }

    /// The exchange will not come about.
    pub(crate) fn failed(&mut self, core: &mut Core, sequence: Sequence) {
        self.release(core, sequence, Err("a node was lost"));
    }

    fn release(&mut self, core: &mut Core, sequence: Sequence, result: Result<(), &str>) {
        for waiter in self.fence.finish(sequence.number).unwrap_or_default() {
            let thread = self.threads.remove(&waiter.client);
            send(core, waiter.client, begin("kvs-fence", thread.as_deref(), result));
        }
    }

    /// A client is gone: it waits for nothing more.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.fence.forget(client);
        self.asking.retain(|asking| asking.client != client);
        self.threads.remove(&client);
    }
}

fn full_init(core: &mut Core, rank: u32, thread: Option<&[u8]>) -> Writer {
    let job = core.layout.job();
    begin("fullinit", thread, Ok(()))
        .field("pmi-version", "2")
        .field("pmi-subversion", "0")
        .field("rank", rank.to_string())
        .field("size", job.size().to_string())
        .field("appnum", job.app().to_string())
        .field("debugged", "FALSE")
        .field("pmiverbose", "FALSE")
}

/// What a job attribute says; `None` for those that do not exist.
fn job_attribute(core: &Core, key: &[u8]) -> Option<Vec<u8>> {
    match key {
        b"PMI_process_mapping" => Some(core.layout.job().process_mapping().as_bytes().to_vec()),
        b"PMI_hwloc_xmlfile" => core.layout.topology().map(|path| path.as_bytes().to_vec()),
        b"universeSize" => Some(core.layout.job().universe().to_string().into_bytes()),
        _ => None,
    }
}

/// The pair that a frame brings, within bounds.
fn pair(frame: &Frame) -> Result<(&[u8], &[u8]), &'static str> {
    match (frame.get("key"), frame.get("value")) {
        (None | Some(b""), _) => Err("missing key"),
        (_, None) => Err("missing value"),
        (Some(key), _) if key.len() > KEY_MAX => Err("key too long"),
        (_, Some(value)) if value.len() > VALUE_MAX => Err("value too long"),
        (Some(key), Some(value)) => Ok((key, value)),
    }
}

/// An answer's beginning: name, thread and result.
fn begin(command: &str, thread: Option<&[u8]>, result: Result<(), &str>) -> Writer {
    let mut answer = Writer::new(&format!("{command}-response"));
    if let Some(thread) = thread {
        answer = answer.field("thrid", thread);
    }
    match result {
        Ok(()) => answer.field("rc", "0"),
        Err(message) => answer.field("rc", "1").field("errmsg", message),
    }
}

fn found(answer: Writer, value: Option<&[u8]>) -> Writer {
    match value {
        Some(value) => answer.field("found", "TRUE").field("value", value),
        None => answer.field("found", "FALSE"),
    }
}

/// A command's name for an answer: at most 64 characters.
fn text(command: &[u8]) -> String {
    String::from_utf8_lossy(&command[..command.len().min(64)]).into_owned()
}

fn send(core: &mut Core, client: ClientId, answer: Writer) -> bool {
    match answer.finish() {
        Some(frame) => {
            core.reply(client, frame);
            true
        }
        // Only a `thrid` or value near the limit can do this.
        None => false,
    }
}

#[cfg(test)]
mod tests;
