//! Which exchanges of a job can never be complete, because a member's tasks have all ended well
//! before they came to it. Pure: what members tell goes in, a verdict comes out.

use crate::job::protocol::Waiting;
use std::collections::{BTreeMap, BTreeSet};

/// The last task of a member, ended with success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deserter {
    pub(super) broker: u32,
    pub(super) rank: u32,
    /// Whether it had ever initialized MPI.
    pub(super) initialized: bool,
}

/// What members have told.
#[derive(Debug, Default)]
pub(super) struct Desertion {
    /// Exchanges that somebody waits for.
    waiting: BTreeSet<Waiting>,
    /// Members that will enter no more exchanges, with how many they have entered by protocol.
    gone: BTreeMap<u32, ([u64; 3], Deserter)>,
}

impl Desertion {
    /// A member waits for an exchange, and has done so for a while.
    pub(super) fn waits(&mut self, waiting: Waiting) -> Option<Deserter> {
        self.waiting.insert(waiting);
        self.found()
    }

    /// All tasks of a member have ended, the last one with success.
    pub(super) fn gone(&mut self, deserter: Deserter, exchanges: [u64; 3]) -> Option<Deserter> {
        self.gone.insert(deserter.broker, (exchanges, deserter));
        self.found()
    }

    fn found(&self) -> Option<Deserter> {
        let missed = |entered: &[u64; 3]| {
            self.waiting.iter().any(|waiting| {
                // An exchange's number is how many came before it.
                entered.get(waiting.protocol).is_some_and(|entered| *entered <= waiting.number)
            })
        };
        self.gone.values().find(|(entered, _)| missed(entered)).map(|(_, deserter)| *deserter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deserter(broker: u32) -> Deserter {
        Deserter { broker, rank: broker * 2, initialized: false }
    }

    #[test]
    fn a_member_that_ended_before_the_exchange_is_found_whichever_comes_first() {
        let mut desertion = Desertion::default();
        assert_eq!(desertion.gone(deserter(1), [0; 3]), None, "nobody waits");
        assert_eq!(desertion.waits(Waiting { protocol: 0, number: 0 }), Some(deserter(1)));
        let mut desertion = Desertion::default();
        assert_eq!(desertion.waits(Waiting { protocol: 2, number: 1 }), None);
        assert_eq!(desertion.gone(deserter(3), [0, 0, 1]), Some(deserter(3)));
    }

    #[test]
    fn a_member_that_took_part_is_not_to_blame_for_a_slow_exchange() {
        let mut desertion = Desertion::default();
        desertion.waits(Waiting { protocol: 0, number: 4 });
        assert_eq!(desertion.gone(deserter(1), [5, 0, 0]), None);
        assert_eq!(desertion.waits(Waiting { protocol: 9, number: 4 }), None, "no such protocol");
    }
}
