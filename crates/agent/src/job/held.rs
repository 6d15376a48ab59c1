//! What this broker has of jobs that outlive their leader, for the next leader's questions.
//!
//! Owns: the words for it on the wire, and the memory of members whose tasks have ended, since
//! nobody knows whether their leader has written it down. It decides nothing about a job.

use super::protocol::{Launch, Stamp};
use super::uplink::Uplink;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Ended members that are remembered, and the most bytes of what they still had to say. A leader
/// writes an end down within milliseconds.
const ENDED: usize = 1024;
const ENDED_BYTES: usize = 16 << 20;

/// What a broker has of one job of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// The job's number in the queue.
    pub queued: u64,
    /// Which start of it.
    pub stamp: Stamp,
    /// The number under which it was started.
    pub number: u64,
    /// Whether some of its tasks still run.
    pub live: bool,
    /// Whether its tasks have met all others, and meet nobody any more.
    #[serde(default)]
    pub met: bool,
    /// Why it cannot go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// What there is of a job, if it outlives its leader.
pub(super) fn of(launch: &Launch) -> Option<Held> {
    let (queued, stamp) = (launch.queued?, launch.keeps?);
    Some(Held { queued, stamp, number: launch.job, live: true, met: false, broken: None })
}

/// A member whose tasks have ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) held: Held,
    pub(super) uplink: Uplink,
    /// Bytes of standard input that its tasks were given, and whether that was all.
    pub(super) stdin: (u64, bool),
}

/// The last members whose tasks have ended.
#[derive(Debug, Default)]
pub(super) struct Past {
    ended: VecDeque<(Ended, usize)>,
    bytes: usize,
}

impl Past {
    /// Remembers one.
    pub(super) fn push(&mut self, ended: Ended) {
        let size = ended.uplink.size();
        self.bytes += size;
        self.ended.push_back((ended, size));
        while self.ended.len() > ENDED || self.bytes > ENDED_BYTES {
            let Some((_, size)) = self.ended.pop_front() else { return };
            self.bytes -= size;
        }
    }

    /// All that are remembered.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Ended> {
        self.ended.iter().map(|(ended, _)| ended)
    }
}
