//! The server of PMI-1, the simple PMI of MPICH, Intel MPI and their relatives. Owns the commands
//! and their answers; lines are [`mod@line`]'s, pairs are [`crate::kvs`]'s.
//!
//! Known from Flux RFC 13, MPICH's message tables and conversations of real clients
//! (`docs/spec/pmi.md`).

pub(crate) mod line;

use crate::core::Core;
use crate::effect::{ClientId, Effect, Protocol, Sequence};
use crate::fence::{Fence, Waiter};
use crate::kvs::Kvs;
use line::{Line, write};
use std::sync::Arc;

/// Longest name of a key-value space, as MPICH's process manager says it.
const NAME_MAX: usize = 256;
/// Longest key with its end mark.
const KEY_MAX: usize = 64;
/// Longest value with its end mark. Must be even: MPICH 4.0 computes segment sizes from it, and
/// aborts when its two ways differ.
const VALUE_MAX: usize = 1024;

/// A rank's conversation.
#[derive(Debug)]
pub(crate) struct Session {
    /// Who speaks.
    pub(crate) rank: u32,
    /// A command of several lines is being read.
    spawn: Option<Spawn>,
}

/// What matters of a spawn request, which is refused: when the client waits for the answer.
#[derive(Clone, Copy, Debug, Default)]
struct Spawn {
    total: u32,
    so_far: u32,
}

impl Session {
    /// A rank's start.
    pub(crate) fn new(rank: u32) -> Self {
        Self { rank, spawn: None }
    }
}

/// The server's state for all ranks.
#[derive(Debug)]
pub(crate) struct Pmi1 {
    kvs: Kvs,
    pub(crate) fence: Fence,
}

impl Pmi1 {
    /// A server for so many local ranks.
    pub(crate) fn new(ranks: usize) -> Self {
        Self { kvs: Kvs::default(), fence: Fence::new(Protocol::Pmi1, ranks) }
    }

    /// One line of a rank. `false` ends the connection.
    pub(crate) fn line(
        &mut self,
        core: &mut Core,
        client: ClientId,
        session: &mut Session,
        text: &[u8],
    ) -> bool {
        if let Some(spawn) = &mut session.spawn {
            if let Some(done) = spawn.line(text) {
                session.spawn = None;
                if done {
                    let refusal = [("rc", "-1"), ("msg", "spawn_is_not_supported")];
                    core.reply(client, write("spawn_result", &refusal));
                }
            }
            return true;
        }
        let Some(line) = Line::parse(text) else {
            core.reply(client, failure("error", "line_without_command"));
            return true;
        };
        if line.multiple {
            session.spawn = Some(Spawn::default());
            return true;
        }
        self.command(core, client, session.rank, &line)
    }

    fn command(&mut self, core: &mut Core, client: ClientId, rank: u32, line: &Line<'_>) -> bool {
        let answer = match line.command {
            b"init" => {
                core.initialized(rank, Protocol::Pmi1);
                let version = [("pmi_version", "1"), ("pmi_subversion", "1"), ("rc", "0")];
                write("response_to_init", &version)
            }
            b"get_maxes" => write(
                "maxes",
                &[
                    ("kvsname_max", &NAME_MAX.to_string()),
                    ("keylen_max", &KEY_MAX.to_string()),
                    ("vallen_max", &VALUE_MAX.to_string()),
                    ("rc", "0"),
                ],
            ),
            b"get_appnum" => {
                let app = core.layout.job().app().to_string();
                write("appnum", &[("appnum", &app), ("rc", "0")])
            }
            b"get_my_kvsname" => {
                let name = core.layout.job().namespace();
                write("my_kvsname", &[("kvsname", name), ("rc", "0")])
            }
            b"get_universe_size" => {
                let size = core.layout.job().universe().to_string();
                write("universe_size", &[("size", &size), ("rc", "0")])
            }
            b"put" => self.put(core, rank, line),
            b"get" => self.get(core, line),
            b"getbyidx" => self.get_by_index(line),
            b"barrier_in" => return self.barrier(core, client, rank),
            b"finalize" => {
                core.finalized(rank);
                write("finalize_ack", &[("rc", "0")])
            }
            b"abort" => {
                let code = line.number("exitcode").unwrap_or(1);
                let message = line.tail("message").unwrap_or_default().trim_ascii();
                let message = String::from_utf8_lossy(message).into_owned();
                core.push(Effect::Abort { rank, code, message });
                // No answer is defined, and old clients wait for one: the end of the connection
                // lets them go.
                return false;
            }
            b"publish_name" => failure("publish_result", "names_are_not_supported"),
            b"unpublish_name" => failure("unpublish_result", "names_are_not_supported"),
            b"lookup_name" => failure("lookup_result", "names_are_not_supported"),
            b"spawn" => failure("spawn_result", "spawn_is_not_supported"),
            other => failure(&result_name(other), "unknown_command"),
        };
        core.reply(client, answer);
        true
    }

    fn put(&mut self, core: &mut Core, rank: u32, line: &Line<'_>) -> Vec<u8> {
        let refusal = match (line.word("key"), line.tail("value")) {
            _ if !is_own_name(core, line) => "unknown_kvsname",
            (None | Some(b""), _) => "missing_key",
            (_, None | Some(b"")) => "missing_value",
            (Some(key), _) if key.len() >= KEY_MAX => "key_too_long",
            (_, Some(value)) if value.len() >= VALUE_MAX => "value_too_long",
            (Some(key), _) if key.starts_with(b"PMI_") => "reserved_key",
            (Some(key), Some(value)) if !core.may_publish(rank, key.len() + value.len()) => {
                "too_much_data"
            }
            (Some(key), Some(value)) => {
                self.kvs.put(key, value);
                return write("put_result", &[("rc", "0"), ("msg", "success")]);
            }
        };
        failure("put_result", refusal)
    }

    fn get(&self, core: &Core, line: &Line<'_>) -> Vec<u8> {
        let refusal = match line.word("key") {
            _ if !is_own_name(core, line) => "unknown_kvsname",
            None | Some(b"") => "missing_key",
            Some(key) => match self.value(core, key) {
                None => "key_not_found",
                Some(value) => {
                    // Written by hand: values may hold blanks.
                    let mut answer = b"cmd=get_result rc=0 msg=success value=".to_vec();
                    answer.extend_from_slice(value);
                    answer.push(b'\n');
                    return answer;
                }
            },
        };
        write("get_result", &[("rc", "-1"), ("msg", refusal), ("value", "unknown")])
    }

    fn value<'a>(&'a self, core: &'a Core, key: &[u8]) -> Option<&'a [u8]> {
        if key == b"PMI_process_mapping" {
            let mapping = core.layout.job().process_mapping().as_bytes();
            // One that does not fit would be cut; without it, clients compare host names.
            return (mapping.len() < VALUE_MAX).then_some(mapping);
        }
        if key == b"PMI_hwloc_xmlfile" {
            let path = core.layout.topology().map(str::as_bytes);
            return path.filter(|path| path.len() < VALUE_MAX);
        }
        self.kvs.get(key)
    }

    fn get_by_index(&self, line: &Line<'_>) -> Vec<u8> {
        let Some(index) = line.number::<u32>("idx") else {
            return write("getbyidx_results", &[("rc", "-1"), ("reason", "missing_idx")]);
        };
        let Some((key, value)) = self.kvs.nth(index as usize) else {
            return write("getbyidx_results", &[("rc", "-2"), ("reason", "no_more_keyvals")]);
        };
        let mut answer =
            format!("cmd=getbyidx_results rc=0 nextidx={} key=", u64::from(index) + 1).into_bytes();
        answer.extend_from_slice(key);
        answer.extend_from_slice(b" val=");
        answer.extend_from_slice(value);
        answer.push(b'\n');
        answer
    }

    fn barrier(&mut self, core: &mut Core, client: ClientId, rank: u32) -> bool {
        let Some(index) = core.index_of(rank) else { return false };
        if self.fence.waiting(index) >= core.options.max_waiting {
            core.reply(client, failure("barrier_out", "too_many_barriers"));
            return true;
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
        let answer = match self.kvs.add_pages(core.others(blobs)) {
            Ok(()) => write("barrier_out", &[("rc", "0")]),
            Err(_) => failure("barrier_out", "unreadable_data_of_another_node"),
        };
        self.release(core, sequence, &answer);
    }

    /// The exchange will not come about.
    pub(crate) fn failed(&mut self, core: &mut Core, sequence: Sequence) {
        self.release(core, sequence, &failure("barrier_out", "a_node_was_lost"));
    }

    fn release(&mut self, core: &mut Core, sequence: Sequence, answer: &[u8]) {
        for waiter in self.fence.finish(sequence.number).unwrap_or_default() {
            core.reply(waiter.client, answer.to_vec());
        }
    }
}

impl Spawn {
    /// One line of the request. At its end, `Some`: with `true` when the client now waits for the
    /// answer, with `false` when more requests belong to it.
    fn line(&mut self, text: &[u8]) -> Option<bool> {
        let number = |value: &[u8]| std::str::from_utf8(value).ok()?.trim().parse().ok();
        let text = text.trim_ascii();
        if text == b"endcmd" {
            return Some(self.so_far >= self.total);
        }
        if let Some(value) = text.strip_prefix(b"totspawns=") {
            self.total = number(value).unwrap_or_default();
        } else if let Some(value) = text.strip_prefix(b"spawnssofar=") {
            self.so_far = number(value).unwrap_or_default();
        }
        None
    }
}

/// The command and the client's name for the space it means, which may be left out.
fn is_own_name(core: &Core, line: &Line<'_>) -> bool {
    line.word("kvsname").is_none_or(|name| name == core.layout.job().namespace().as_bytes())
}

pub(crate) fn failure(command: &str, message: &str) -> Vec<u8> {
    write(command, &[("rc", "-1"), ("msg", message)])
}

/// What the answer to an unknown command is called: `<command>_result`, if the command is a word.
fn result_name(command: &[u8]) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    match std::str::from_utf8(command) {
        Ok(word) if word.len() <= KEY_MAX && command.iter().all(plain) => format!("{word}_result"),
        _ => "error".to_owned(),
    }
}

#[cfg(test)]
mod tests;
