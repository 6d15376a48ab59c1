//! What is done to the brokers of a soak, and when: a sequence that its seed alone determines.
//!
//! Owns: the drawing of faults. How one is carried out is the soak's.

use std::collections::BTreeMap;
use std::time::Duration;

/// Between two kills of one broker: more often than that, and its supervisor gives it up.
const KILL_AGAIN: Duration = Duration::from_secs(2);

/// Numbers that look random, the same for the same seed (SplitMix64, Steele et al. 2014).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// Something bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// SIGKILL for a broker.
    Kill(u32),
    /// SIGKILL for two brokers, one after the other, of which one is the launcher's.
    KillBoth([u32; 2], Duration),
    /// A broker stands still for so long.
    Pause(u32, Duration),
    /// A worker's way to the launcher is cut for so long.
    Cut(u32, Duration),
}

/// A blow, and how long it waits after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) after: Duration,
    pub(crate) blow: Blow,
}

impl Fault {
    /// Its kind, as counts name it.
    pub(crate) fn kind(&self) -> &'static str {
        match self.blow {
            Blow::Kill(0) => "launcher killed",
            Blow::Kill(_) => "worker killed",
            Blow::KillBoth([0, _], _) => "launcher and then worker killed",
            Blow::KillBoth(..) => "worker and then launcher killed",
            Blow::Pause(0, _) => "launcher paused",
            Blow::Pause(..) => "worker paused",
            Blow::Cut(..) => "worker cut off",
        }
    }
}

/// All faults of a seed, one after another, for ever.
pub(crate) struct Faults {
    dice: Dice,
    workers: u64,
    /// The least time that has passed, and when each broker was killed last.
    clock: Duration,
    killed: BTreeMap<u32, Duration>,
}

impl Faults {
    pub(crate) fn of(seed: u64, brokers: u32) -> Self {
        let (dice, workers) = (Dice(seed), u64::from(brokers) - 1);
        Self { dice, workers, clock: Duration::ZERO, killed: BTreeMap::new() }
    }

    fn may_die(&self, rank: u32) -> bool {
        self.killed.get(&rank).is_none_or(|at| self.clock >= *at + KILL_AGAIN)
    }
}

impl Iterator for Faults {
    type Item = Fault;

    fn next(&mut self) -> Option<Fault> {
        let after = Duration::from_millis(200 + self.dice.roll(600));
        self.clock += after;
        let worker = 1 + self.dice.roll(self.workers) as u32;
        // The launcher as often as all workers together.
        let rank = if self.dice.roll(2) == 0 { 0 } else { worker };
        let a_while = Duration::from_millis(20 + self.dice.roll(600));
        let kind = self.dice.roll(8);
        let long = self.dice.roll(8) == 0;
        let order = if self.dice.roll(2) == 0 { [0, worker] } else { [worker, 0] };
        let blow = match kind {
            0 if self.may_die(0) && self.may_die(worker) => Blow::KillBoth(order, a_while / 2),
            0..=3 if self.may_die(rank) => Blow::Kill(rank),
            0..=5 => Blow::Pause(rank, a_while),
            // Some of them for longer than a broker goes on without rank 0 (5 s here).
            _ if long => Blow::Cut(worker, Duration::from_secs(6)),
            _ => Blow::Cut(worker, a_while),
        };
        match blow {
            Blow::Kill(rank) => drop(self.killed.insert(rank, self.clock)),
            Blow::KillBoth(ranks, between) => {
                self.clock += between;
                self.killed.extend(ranks.map(|rank| (rank, self.clock)));
            }
            Blow::Pause(_, time) | Blow::Cut(_, time) => self.clock += time,
        }
        Some(Fault { after, blow })
    }
}

#[test]
fn a_seed_gives_the_same_faults_again_and_all_kinds_of_them() {
    let faults = |seed| Faults::of(seed, 4).take(500).collect::<Vec<_>>();
    assert_eq!(faults(7), faults(7));
    assert_ne!(faults(7), faults(8));
    let mut kinds: Vec<&str> = faults(7).iter().map(Fault::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 7, "{kinds:?}");
    // No broker is killed so often that its supervisor gives it up.
    let (mut clock, mut killed) = (Duration::ZERO, BTreeMap::new());
    for fault in faults(9) {
        clock += fault.after;
        let ranks = match fault.blow {
            Blow::Kill(rank) => vec![rank],
            Blow::KillBoth(ranks, _) => ranks.to_vec(),
            Blow::Pause(_, time) | Blow::Cut(_, time) => {
                clock += time;
                continue;
            }
        };
        for rank in ranks {
            let before = killed.insert(rank, clock);
            assert!(
                before.is_none_or(|before| clock >= before + KILL_AGAIN),
                "{rank} at {clock:?}"
            );
        }
    }
}
