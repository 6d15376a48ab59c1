//! What client, front, leader and members say to each other about a job.
//!
//! Owns: service names, message kinds and shapes. A message is one kind byte and a payload; on the
//! local socket the same kinds are frame kinds, so that the front copies without reading. Stdin has
//! its own credit end to end ([`STDIN_WINDOW`]): a task that does not read must not hold up a
//! signal that comes after the data.

use crate::launch::affinity::Binding;
use crate::launch::environment::Difference;
use crate::launch::outcome::Outcome;
use crate::launch::place::{Ask, Distribution, Placement};
use crate::launch::spawn::terminal::Size;
use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Channel service on rank 0: a front brings a [`Request`].
pub const RUN: &str = "job.run";
/// Channel service on the leader's broker: a member brings a [`Joining`].
pub const MEMBER: &str = "job.member";
/// Cast service on members: a [`Launch`].
pub const LAUNCH: &str = "job.launch";
/// Cast service on members: an [`Order`].
pub const ORDER: &str = "job.order";
/// Request service on members: a [`Modex`].
pub const MODEX: &str = "job.modex";
/// Request service on members: nothing. The answer is all that the broker has of jobs that outlive their
/// leader, as a list of [`super::held::Held`].
pub const HELD: &str = "job.held";
/// Request service on rank 0: the same list, by a broker that finds rank 0 started anew.
pub const CLAIM: &str = "job.claim";
/// Request service on members: a job's number in the queue. What is left of it there is ended; it
/// is answered when that is gone.
pub const GONE: &str = "job.gone";

/// Bytes of stdin that may be under way to a task, from the client to its pipe.
pub const STDIN_WINDOW: usize = 256 * 1024;

/// Message kinds.
pub mod kind {
    /// Up: a piece of stdout, rank (u32, big endian) and bytes.
    pub const OUT: u8 = 1;
    /// Up: a piece of stderr, the same shape.
    pub const ERR: u8 = 2;
    /// Up: so many bytes of stdin were taken (u32, big endian).
    pub const TAKEN: u8 = 3;
    /// Up, once: JSON of [`super::Placed`].
    pub const PLACED: u8 = 4;
    /// Up, last: JSON of [`super::Finished`].
    pub const FINISHED: u8 = 5;
    /// Up: a line for the user, text.
    pub const NOTICE: u8 = 6;
    /// Up, last of a remote shell: the exit code (i32, big endian).
    pub const EXIT: u8 = 7;
    /// Up: the task of rank 0 has a terminal, and takes its input from this client.
    pub const TERMINAL: u8 = 8;
    /// Up: a job of the queue has its nodes.
    pub const BEGUN: u8 = 9;
    /// Down: bytes for stdin.
    pub const STDIN: u8 = 10;
    /// Down: the end of stdin.
    pub const STDIN_END: u8 = 11;
    /// Down: a signal to pass on (one byte).
    pub const SIGNAL: u8 = 12;
    /// Down: kill the job now.
    pub const KILL: u8 = 13;
    /// Down: nobody reads the output any more.
    pub const OUTPUT_CLOSED: u8 = 14;
    /// Down: the size of the client's terminal ([`crate::launch::spawn::terminal::Size::to_bytes`]).
    pub const RESIZE: u8 = 15;
    /// Member to leader: JSON of [`crate::launch::outcome::Ended`] with the way it spoke.
    pub const ENDED: u8 = 20;
    /// Member to leader: JSON of [`super::Abort`].
    pub const ABORT: u8 = 21;
    /// Member to leader: JSON of [`super::Deserted`].
    pub const DESERTED: u8 = 22;
    /// Member to leader: JSON of [`super::Waiting`].
    pub const WAITING: u8 = 23;
    /// Leader to member, first to one that was led by another before: so many of its pieces of output
    /// are written (u64, big endian).
    pub const RESUME: u8 = 24;
    /// Leader to member: so many of its pieces of output are written (u64, big endian).
    pub const ACKNOWLEDGE: u8 = 25;
    /// Leader to member, before standard input goes on: where in it the next bytes stand (u64, big
    /// endian). Within a new leader: the same to who reads it.
    pub const STDIN_AT: u8 = 26;
}

/// Which tasks get the client's stdin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stdin {
    /// The task of rank 0; the others have /dev/null.
    #[default]
    First,
    /// Every task gets all of it.
    All,
    /// None.
    None,
}

impl Stdin {
    /// Whether a rank gets it.
    pub fn goes_to(self, rank: u32) -> bool {
        match self {
            Self::First => rank == 0,
            Self::All => true,
            Self::None => false,
        }
    }
}

/// Where tasks go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Where {
    /// As slots allow.
    Slots(Ask),
    /// One on each of these brokers, whatever their slots: an id set, or `all`.
    Brokers(String),
    /// What the queue has allotted, ascending by broker.
    Allotted(Vec<Share>),
}

/// What a job of the queue has of one broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// The broker.
    pub broker: u32,
    /// Its tasks there, at least one.
    pub tasks: u32,
    /// Which of the broker's slots, counted from 0: an id set.
    pub slots: String,
    /// Places of accelerators in the broker's inventory: an id set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gpus: String,
}

/// What does not depend on where tasks go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing of a start, on the wire by its name"
)]
pub struct Command {
    /// The program and its arguments, as [`crate::launch::text::encode`] writes them.
    pub argv: Vec<String>,
    /// Changes to each pod's environment.
    #[serde(default)]
    pub env: Difference,
    /// The directory to start in; `None` means the container's.
    #[serde(default)]
    pub cwd: Option<String>,
    /// A missing directory is an error, not a reason to start in the container's.
    #[serde(default)]
    pub cwd_required: bool,
    /// The way to offer MPI, a word of [`quorate_pmi::Offer::WORDS`].
    pub mpi: String,
    /// Offers PMI by TCP too, for wrappers that close descriptors.
    #[serde(default)]
    pub pmi_port: bool,
    /// Who gets stdin.
    #[serde(default)]
    pub stdin: Stdin,
    /// CPUs of each task.
    #[serde(default)]
    pub cpus_per_task: Option<u32>,
    /// How tasks are bound.
    #[serde(default)]
    pub binding: Binding,
    /// Pieces of output are passed on as they come, not line by line.
    #[serde(default)]
    pub unbuffered: bool,
    /// The order of ranks over what the queue has allotted.
    #[serde(default)]
    pub distribution: Distribution,
    /// The task of rank 0 has a terminal of this size; the others read and write nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Size>,
    /// A script that each pod writes into a file, whose command follows `argv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Script>,
    /// Files that each pod gets from the leader into a directory of the job, by the name of their
    /// parcel; without `cwd` its tasks start there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// That directory is kept for a while when the job has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_files: bool,
}

/// A script that is run by the interpreter that it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Script {
    /// Its text.
    pub text: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

impl Script {
    /// The command that runs it from a file: as the kernel would, but from a file system whose files may
    /// not be run, too. The interpreter's argument is all that follows its name (execve(2)).
    pub fn command(&self, file: &str) -> Vec<String> {
        let first = self.text.lines().next().and_then(|line| line.strip_prefix("#!"));
        let first = first.map_or("/bin/sh", str::trim);
        let (interpreter, argument) = match first.split_once([' ', '\t']) {
            Some((interpreter, argument)) => (interpreter, Some(argument.trim())),
            None => (first, None),
        };
        let mut words = vec![interpreter.to_owned()];
        words.extend(argument.filter(|argument| !argument.is_empty()).map(str::to_owned));
        words.push(file.to_owned());
        words.extend(self.args.iter().cloned());
        words
    }
}

/// A client's request to run a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// What to run.
    pub command: Command,
    /// Where.
    pub place: Where,
    /// A failing task leaves the others alone.
    #[serde(default)]
    pub no_kill: bool,
    /// Its tasks are the brokers of a nested instance, which goes on without those that are lost.
    #[serde(default)]
    pub instance: bool,
    /// The job's number in the queue, by which people know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<u64>,
    /// Its tasks outlive the leader, as this start of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeps: Option<Stamp>,
}

/// Which start of a job of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stamp {
    /// How often it had begun again before.
    pub attempt: u32,
    /// When it got its nodes, in milliseconds since the Unix epoch.
    pub allocated: u64,
}

/// The leader's order to start tasks, the same for all members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    /// The job's number, unique in the life of the cluster.
    pub job: u64,
    /// The name of its key-value space; not guessable.
    pub namespace: String,
    /// The leader's broker.
    pub leader: u32,
    /// What to run.
    pub command: Command,
    /// Who runs which ranks.
    pub placement: Placement,
    /// More tasks than CPUs share a machine.
    pub crowded: bool,
    /// Several of the job's brokers are on one host with one `/dev/shm`, as in test clusters.
    #[serde(default)]
    pub one_host: bool,
    /// Slots of the whole cluster, for MPI's universe size.
    pub universe: u32,
    /// The job's number in the queue, by which people know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<u64>,
    /// Its tasks outlive the leader, as this start of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeps: Option<Stamp>,
    /// What the queue has allotted, in the order of the placement; empty for other jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
}

/// A member's opening of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Joining {
    /// The job.
    pub job: u64,
    /// Of a member that was led by another before: where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<Again>,
}

/// Where a member stands that another leader has led.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Again {
    /// Bytes of standard input that it was given.
    pub stdin: u64,
    /// Whether it was told that there is no more.
    pub stdin_ended: bool,
}

/// An order to running members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// The job.
    pub job: u64,
    /// What to do.
    pub what: What,
}

/// What an [`Order`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum What {
    /// Pass a signal on to every task.
    Signal(i32),
    /// End all tasks: SIGTERM, then SIGKILL after so many milliseconds.
    Stop {
        /// Time between the two.
        grace_ms: u64,
    },
    /// Be led by another leader, to whom the member opens a channel.
    Reattach {
        /// Its broker.
        leader: u32,
    },
}

/// A broker's question for what a rank has published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modex {
    /// The job.
    pub job: u64,
    /// The node of the job that asks.
    pub node: u32,
    /// The rank.
    pub rank: u32,
}

/// A rank called MPI_Abort.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abort {
    /// The rank.
    pub rank: u32,
    /// Its code.
    pub code: i32,
    /// Its words.
    pub message: String,
}

/// A rank has ended with success while others of its pod wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deserted {
    /// The rank.
    pub rank: u32,
    /// Whether it had initialized MPI.
    pub initialized: bool,
}

/// A member waits for other members in an exchange, and has done so for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Waiting {
    /// The place of the protocol in [`quorate_pmi::Protocol::ALL`].
    pub protocol: usize,
    /// The exchange's number, from 0.
    pub number: u64,
}

/// A task's end with the protocol that it spoke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedTask {
    /// How it ended.
    pub ended: crate::launch::outcome::Ended,
    /// `PMI-1`, `PMI-2`, `PMIx`; `None` when it never spoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// How many exchanges its broker had entered for the job by then, by protocol.
    #[serde(default)]
    pub exchanges: [u64; 3],
}

/// Tells the client where its job went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placed {
    /// The job.
    pub job: u64,
    /// Who runs which ranks.
    pub placement: Placement,
}

/// The end of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finished {
    /// How it ended.
    pub outcome: Outcome,
    /// Brokers on which tasks were really started.
    pub started: Vec<u32>,
    /// Tasks by the protocol that they spoke.
    pub wire: BTreeMap<String, u32>,
}

/// A message of a kind.
pub fn message(kind: u8, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(1 + payload.len());
    bytes.put_u8(kind);
    bytes.put_slice(payload);
    bytes.freeze()
}

/// A message whose payload is JSON.
pub fn json(kind: u8, value: &impl Serialize) -> Bytes {
    message(kind, &body(value))
}

/// JSON of a message that is all of a body.
pub fn body(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("plain data always serializes").into()
}

/// A piece of a task's output.
pub fn output(kind: u8, rank: u32, piece: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(5 + piece.len());
    bytes.put_u8(kind);
    bytes.put_u32(rank);
    bytes.put_slice(piece);
    bytes.freeze()
}

/// Kind and payload of a message; `None` when it is empty.
pub fn split(mut message: Bytes) -> Option<(u8, Bytes)> {
    if message.is_empty() {
        return None;
    }
    let kind = message.split_to(1)[0];
    Some((kind, message))
}

/// Rank and bytes of a piece of output; `None` when it is cut short.
pub fn piece(mut payload: Bytes) -> Option<(u32, Bytes)> {
    if payload.len() < 4 {
        return None;
    }
    let rank = payload.split_to(4);
    Some((u32::from_be_bytes([rank[0], rank[1], rank[2], rank[3]]), payload))
}

/// A message that is a number.
pub fn number(kind: u8, value: u64) -> Bytes {
    message(kind, &value.to_be_bytes())
}

/// The number of a [`number`].
pub fn number_of(payload: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(payload.first_chunk::<8>().copied()?))
}

/// The number of a [`kind::TAKEN`].
pub fn taken(payload: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(payload.first_chunk::<4>().copied()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_run_by_the_interpreter_that_it_names() {
        let command = |text: &str| {
            let script = Script { text: text.to_owned(), args: vec!["a b".to_owned()] };
            script.command("/run/script").join("|")
        };
        assert_eq!(command("#!/bin/sh\ntrue\n"), "/bin/sh|/run/script|a b");
        let with_argument = "#! /usr/bin/env  python3 -u \nprint()\n";
        assert_eq!(command(with_argument), "/usr/bin/env|python3 -u|/run/script|a b");
    }
}
