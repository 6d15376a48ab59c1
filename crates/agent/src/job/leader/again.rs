//! What a leader knows of a job that another has led before it.
//!
//! Owns: what the former had written of each member's output, and where standard input goes on. Pure.

use crate::job::protocol::Again;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A job that is led again.
#[derive(Clone, Debug)]
pub struct Resumption {
    /// Its number, as it was started.
    pub number: u64,
    /// How many pieces of output are written, by broker.
    pub taken: BTreeMap<u32, u64>,
    /// How long it has run.
    pub age: Duration,
    /// Brokers of it that are lost: it goes on without them.
    pub gone: Vec<u32>,
    /// It reads a file that is read again from where its tasks are.
    pub rereads: bool,
}

/// Where standard input goes on, once all members that read it have said where they are.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// Members that have not said it.
    awaited: BTreeSet<u32>,
    /// The least that one has.
    at: Option<u64>,
    /// Some member was not told the end.
    open: bool,
}

impl Input {
    /// Waits for the word of these brokers.
    pub(super) fn awaiting(brokers: impl IntoIterator<Item = u32>) -> Self {
        Self { awaited: brokers.into_iter().collect(), at: None, open: false }
    }

    /// A member says where it is; gives the place from which all go on when that was the last. Input
    /// that has ended everywhere goes on nowhere.
    pub(super) fn said(&mut self, broker: u32, again: Again) -> Option<u64> {
        if !self.awaited.remove(&broker) {
            return None;
        }
        self.at = Some(self.at.map_or(again.stdin, |at| at.min(again.stdin)));
        self.open |= !again.stdin_ended;
        self.at.filter(|_| self.awaited.is_empty() && self.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_goes_on_where_the_slowest_reader_is_when_all_have_said_it() {
        let mut input = Input::awaiting([1, 2]);
        let at = |stdin, stdin_ended| Again { stdin, stdin_ended };
        assert_eq!(input.said(3, at(0, false)), None, "no reader");
        assert_eq!(input.said(1, at(70, true)), None);
        assert_eq!(input.said(2, at(50, false)), Some(50));
        let mut ended = Input::awaiting([1]);
        assert_eq!(ended.said(1, at(70, true)), None);
    }
}
