//! How much of the job's standard input came here, so that another leader can go on with it.

use crate::job::protocol::Again;
use bytes::Bytes;

/// Standard input as it came here.
#[derive(Debug, Default)]
pub(super) struct Stdin {
    /// Bytes that the tasks were given.
    pub(super) given: u64,
    pub(super) ended: bool,
    /// Bytes that come again from another leader.
    pub(super) skip: u64,
}

impl Stdin {
    /// The next bytes stand there.
    pub(super) fn goes_on_at(&mut self, at: Option<u64>) {
        self.skip = self.given.saturating_sub(at.unwrap_or(self.given));
    }

    /// What is new of some bytes.
    pub(super) fn fresh(&mut self, mut bytes: Bytes) -> Bytes {
        let known = self.skip.min(bytes.len() as u64);
        self.skip -= known;
        let fresh = bytes.split_off(known as usize);
        self.given += fresh.len() as u64;
        fresh
    }

    pub(super) fn again(&self) -> Again {
        Again { stdin: self.given, stdin_ended: self.ended }
    }
}
