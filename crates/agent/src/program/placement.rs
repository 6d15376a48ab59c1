//! Proof of placement for scripts with an unmodified `mpirun` (`docs/spec/placement.md`).
//!
//! A launcher that does not find its hosts starts all ranks on its own pod, and the program ends
//! with code 0: the worst bug of the field. What can be observed are ranks on the launcher's pod
//! (their environment names the size of their world) and remote commands that reached other pods.
//!
//! Owns: the rule, and looking for ranks. The rule is pure: a world of more ranks than the
//! launcher's pod has slots, while other pods offer some and no remote command reached any of
//! them during that world's life, is misplaced. A world that fits the pod is what a by-slot
//! mapping gives, and no error; a script without MPI is none either.

use crate::launch::place::{Ask, Offer, Tasks, place};
use crate::launch::{records, sweep};
use quorate_contract::env as names;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// Cast service on rank 0: a [`Landing`].
pub const LANDED: &str = "placement.landed";

/// Cast service on rank 0: a [`Sighting`].
pub const SEEN: &str = "placement.seen";

/// A remote command has started on a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landing {
    /// The broker.
    pub broker: u32,
}

/// Ranks have been seen on a broker's pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// The broker.
    pub broker: u32,
    /// Ranks of their world in all.
    pub size: u32,
    /// Their numbers.
    pub ranks: Vec<u32>,
}

/// Clock ticks that news of a landing may take.
const SLACK: u64 = 100;

/// Ranks of one launch, as seen on the launcher's pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct World {
    /// Ranks in all, as their environment says.
    pub size: u32,
    /// When their launcher started, in clock ticks since boot.
    pub since: u64,
    /// When one of them was last seen.
    pub until: u64,
}

/// What was observed during a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Worlds by the process number of their launcher.
    pub worlds: BTreeMap<i32, World>,
    /// Brokers that remote commands reached, with the time in clock ticks.
    pub landings: Vec<(u32, u64)>,
    /// Where ranks were seen last: their broker and the size of their world.
    pub seen: BTreeMap<u32, (u32, u32)>,
    /// The size of the world that was seen last.
    pub latest: u32,
}

/// A world on too few pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misplaced {
    /// Its ranks.
    pub ranks: u32,
    /// Pods that they should have been on.
    pub planned_pods: u32,
    /// Slots of the one pod that they were on.
    pub slots: u32,
}

impl Evidence {
    /// Takes note of ranks that were seen.
    pub fn note(&mut self, sighting: &Sighting) {
        for rank in &sighting.ranks {
            self.seen.insert(*rank, (sighting.broker, sighting.size));
        }
        self.latest = sighting.size;
    }

    /// Where the ranks of the last launch ran: tasks by broker, for `brokers` brokers. Nothing
    /// unless every rank of it was seen: a part would be taken for the whole.
    pub fn placed(&self, brokers: u32) -> Option<Vec<u32>> {
        let mut tasks = vec![0; brokers as usize];
        for rank in 0..self.latest {
            let (broker, size) = self.seen.get(&rank)?;
            if *size != self.latest {
                return None;
            }
            *tasks.get_mut(*broker as usize)? += 1;
        }
        (self.latest > 0).then_some(tasks)
    }

    /// The first misplaced world. `offers` are the brokers that were there; `launcher` is the
    /// broker of the program.
    pub fn misplaced(&self, launcher: u32, offers: &[Offer]) -> Option<Misplaced> {
        let slots = offers.iter().find(|o| o.broker == launcher).map_or(0, |o| o.slots);
        let others = offers.iter().any(|o| o.broker != launcher && o.slots > 0);
        if !others {
            return None;
        }
        let alone = |world: &World| {
            !self.landings.iter().any(|(broker, at)| {
                *broker != launcher
                    && *at + 1 >= world.since
                    && *at <= world.until.saturating_add(SLACK)
            })
        };
        let world = self.worlds.values().find(|world| world.size > slots && alone(world))?;
        let ask = Ask { tasks: Tasks::Exactly(world.size), oversubscribe: true, ..Ask::default() };
        let planned_pods = place(offers, &ask).map_or(1, |placement| placement.pods());
        Some(Misplaced { ranks: world.size, planned_pods, slots })
    }
}

impl Misplaced {
    /// The sentence for people.
    pub fn message(&self, pods: u32) -> String {
        format!(
            "a launcher put all {} ranks on its own pod, which has {} {}, and none on the other \
             {}: it does not use the cluster's host file and remote shell; start it without \
             --host and --hostfile of your own, or use program.parallel",
            self.ranks,
            self.slots,
            if self.slots == 1 { "slot" } else { "slots" },
            match pods.saturating_sub(1) {
                1 => "pod".to_owned(),
                others => format!("{others} pods"),
            }
        )
    }
}

/// Looks for ranks among new processes.
#[derive(Debug)]
pub struct Watcher {
    /// The start of marks that belong to this broker.
    prefix: String,
    seen: HashSet<i32>,
    /// Living ranks with their launcher.
    ranks: Vec<(i32, i32)>,
    /// This broker.
    broker: u32,
}

impl Watcher {
    /// Watches processes whose mark starts with `prefix`, without those of direct launches.
    pub fn new(prefix: String, broker: u32) -> Self {
        Self { prefix, seen: HashSet::new(), ranks: Vec::new(), broker }
    }

    /// Whether ranks were alive at the last look.
    pub fn sees_ranks(&self) -> bool {
        !self.ranks.is_empty()
    }

    /// One look at the process table; only processes that are new cost more than their number.
    /// Gives the ranks that are new, by the size of their world.
    pub fn look(&mut self, evidence: &mut Evidence) -> Vec<Sighting> {
        let mut news: BTreeMap<u32, Sighting> = BTreeMap::new();
        let now = ticks();
        let mut living = HashSet::new();
        for pid in sweep::processes() {
            living.insert(pid);
            if self.seen.contains(&pid) {
                continue;
            }
            // A process that has not called exec yet still shows its parent's environment: only
            // those that are ranks, or nothing of ours, are settled.
            match self.examine(pid) {
                Seen::Rank { rank, size } => {
                    self.seen.insert(pid);
                    let sighting = news.entry(size).or_default();
                    (sighting.broker, sighting.size) = (self.broker, size);
                    sighting.ranks.push(rank);
                    let (launcher, since) = launcher_of(pid).unwrap_or((pid, 0));
                    self.ranks.push((pid, launcher));
                    evidence
                        .worlds
                        .entry(launcher)
                        .or_insert(World { size, since, until: now })
                        .size = size;
                }
                Seen::Ours => {}
                Seen::Foreign => {
                    self.seen.insert(pid);
                }
            }
        }
        self.seen.retain(|pid| living.contains(pid));
        self.ranks.retain(|(pid, _)| living.contains(pid));
        for (_, launcher) in &self.ranks {
            if let Some(world) = evidence.worlds.get_mut(launcher) {
                world.until = now;
            }
        }
        let news: Vec<Sighting> = news.into_values().collect();
        for sighting in &news {
            evidence.note(sighting);
        }
        news
    }

    fn examine(&self, pid: i32) -> Seen {
        let Ok(environ) = std::fs::read(format!("/proc/{pid}/environ")) else {
            return Seen::Foreign;
        };
        rank_in(&environ, &self.prefix)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Rank { rank: u32, size: u32 },
    Ours,
    Foreign,
}

/// What an environment block says of its process.
fn rank_in(environ: &[u8], prefix: &str) -> Seen {
    let value = |name: &str| {
        environ.split(|b| *b == 0).find_map(|entry| {
            let entry = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            std::str::from_utf8(entry).ok()
        })
    };
    // The last mark is that of the cluster which started it.
    let ours = value(names::MARK)
        .and_then(|marks| marks.rsplit(' ').next())
        .and_then(|mark| mark.strip_prefix(prefix))
        // A prefix of the whole cluster leaves the broker's rank before what it started.
        .map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.'))
        .is_some_and(|what| !what.starts_with("job-"));
    if !ours {
        return Seen::Foreign;
    }
    // Both launchers' ranks have their number and the size of their world.
    let number = |name: &str| value(name).and_then(|text| text.parse().ok());
    let found = [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")]
        .into_iter()
        .find_map(|(rank, size)| Some((number(rank)?, number(size)?)));
    match found {
        Some((rank, size)) => Seen::Rank { rank, size },
        None => Seen::Ours,
    }
}

/// The outermost launcher above a rank, with its start.
fn launcher_of(pid: i32) -> Option<(i32, u64)> {
    const NAMES: [&str; 8] =
        ["mpirun", "mpiexec", "orterun", "prterun", "prte", "orted", "prted", "hydra"];
    /// Launchers are few steps above their ranks.
    const STEPS: usize = 16;
    let mut found = None;
    let mut at = pid;
    for _ in 0..STEPS {
        let stat = std::fs::read_to_string(format!("/proc/{at}/stat")).ok()?;
        let name = stat.split_once('(')?.1.rsplit_once(')')?.0;
        if at != pid && NAMES.iter().any(|known| name.starts_with(known)) {
            found = Some((at, records::start_time(at)?));
        }
        at = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        if at <= 1 {
            break;
        }
    }
    found
}

/// Clock ticks since boot, of which a second has 100.
pub fn ticks() -> u64 {
    std::fs::read_to_string("/proc/uptime")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok())
        .map_or(0, |seconds| (seconds * 100.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(slots: &[u32]) -> Vec<Offer> {
        (0..).zip(slots).map(|(broker, slots)| Offer { broker, slots: *slots }).collect()
    }

    fn evidence(size: u32, landings: &[(u32, u64)]) -> Evidence {
        Evidence {
            worlds: [(7, World { size, since: 1000, until: 1200 })].into(),
            landings: landings.to_vec(),
            ..Evidence::default()
        }
    }

    #[test]
    fn the_last_launch_is_told_when_all_of_it_was_seen() {
        let mut evidence = Evidence::default();
        let mut note = |broker, size, ranks: &[u32]| {
            evidence.note(&Sighting { broker, size, ranks: ranks.to_vec() });
            evidence.placed(3)
        };
        assert_eq!(note(0, 4, &[0, 1]), None);
        assert_eq!(note(2, 4, &[2, 3]), Some(vec![2, 0, 2]));
        // The next launch has another layout; half of it is not taken for the whole.
        assert_eq!(note(1, 3, &[0]), None);
        assert_eq!(note(2, 3, &[2, 1]), Some(vec![0, 1, 2]));
        // A broker that nobody knows is no place.
        assert_eq!(note(7, 1, &[0]), None);
        assert_eq!(Evidence::default().placed(3), None);
    }

    #[test]
    fn all_ranks_on_the_launcher_is_misplaced() {
        let misplaced = evidence(8, &[]).misplaced(0, &offers(&[2, 2, 2, 2])).unwrap();
        assert_eq!(misplaced, Misplaced { ranks: 8, planned_pods: 4, slots: 2 });
        assert!(misplaced.message(4).contains("all 8 ranks"));
        // A launcher that takes no tasks must not have any.
        assert!(evidence(1, &[]).misplaced(0, &offers(&[0, 2])).is_some());
    }

    #[test]
    fn what_fits_the_launcher_or_reached_others_is_in_order() {
        assert_eq!(evidence(2, &[]).misplaced(0, &offers(&[2, 2])), None);
        assert_eq!(evidence(8, &[(1, 1100)]).misplaced(0, &offers(&[2, 2, 2, 2])), None);
        assert_eq!(evidence(8, &[]).misplaced(0, &offers(&[2])), None);
        assert_eq!(Evidence::default().misplaced(0, &offers(&[2, 2])), None);
    }

    #[test]
    fn another_launch_does_not_prove_this_one() {
        for at in [500, 1500] {
            assert!(evidence(8, &[(1, at)]).misplaced(0, &offers(&[2, 2, 2, 2])).is_some());
        }
        // A remote command to its own pod proves nothing.
        assert!(evidence(8, &[(0, 1100)]).misplaced(0, &offers(&[2, 2, 2, 2])).is_some());
    }

    #[test]
    fn ranks_are_known_by_their_environment() {
        let rank = |text: &str| rank_in(text.replace(' ', "\0").as_bytes(), "u.0.0.");
        assert_eq!(
            rank("QUORATE_MARK=u.0.0.program OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4"),
            Seen::Rank { rank: 1, size: 4 }
        );
        assert_eq!(
            rank("PMI_RANK=0 PMI_SIZE=2 QUORATE_MARK=u.0.0.rsh-1"),
            Seen::Rank { rank: 0, size: 2 }
        );
        assert_eq!(rank("QUORATE_MARK=u.0.0.program A=1"), Seen::Ours);
        assert_eq!(rank("QUORATE_MARK=u.0.0.job-1 PMI_RANK=0 PMI_SIZE=2"), Seen::Foreign);
        assert_eq!(rank("QUORATE_MARK=u.0.1.rsh-1 PMI_RANK=0 PMI_SIZE=2"), Seen::Foreign);
        // Hydra gives the ranks of all pods the variables of its own.
        let any = |text: &str| rank_in(text.replace(' ', "\0").as_bytes(), "u.0.");
        assert_eq!(
            any("QUORATE_MARK=u.0.0.program PMI_RANK=3 PMI_SIZE=4"),
            Seen::Rank { rank: 3, size: 4 }
        );
        assert_eq!(any("QUORATE_MARK=u.0.0.job-1 PMI_RANK=0 PMI_SIZE=2"), Seen::Foreign);
        assert_eq!(any("QUORATE_MARK=u.1.0.program PMI_RANK=0 PMI_SIZE=2"), Seen::Foreign);
    }
}
