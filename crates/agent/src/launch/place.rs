//! Decides which broker runs which task of a parallel job.
//!
//! Owns: the choice of brokers, the tasks of each, the order of ranks over them (block or cyclic)
//! and the refusals with their way out. Pure: offers and request in, placement or error out. It
//! must not know who offers, or start anything.
//!
//! A *slot* is a place for one task of one CPU; a task of `c` CPUs takes `c` slots.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// What one connected broker has to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The broker's rank.
    pub broker: u32,
    /// Its slots; 0 keeps it free of tasks.
    pub slots: u32,
}

/// How many tasks a job has in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tasks {
    /// One for each slot of the chosen brokers.
    #[default]
    PerSlot,
    /// One for each chosen broker.
    PerNode,
    /// Just so many.
    Exactly(u32),
}

/// Which brokers share the tasks when the request names no number of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Spread {
    /// As few brokers as have the slots: what people expect of a job among others.
    #[default]
    Pack,
    /// All brokers with slots, as evenly as slots allow: a cluster's own program uses all pods.
    Even,
}

/// The order of ranks over brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Distribution {
    /// Neighbouring ranks share a broker.
    #[default]
    Block,
    /// Neighbouring ranks are on different brokers, as cards are dealt.
    Cyclic,
}

/// A request for places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// Tasks in all.
    pub tasks: Tasks,
    /// Brokers that must get at least one task each; `None` lets `spread` decide.
    #[serde(default)]
    pub nodes: Option<u32>,
    /// The most tasks of one broker.
    #[serde(default)]
    pub tasks_per_node: Option<u32>,
    /// Slots that each task takes; `None` means 1.
    #[serde(default)]
    pub cpus_per_task: Option<u32>,
    /// Allows more tasks than slots.
    #[serde(default)]
    pub oversubscribe: bool,
    /// Which brokers, when `nodes` does not say it.
    #[serde(default)]
    pub spread: Spread,
    /// The order of ranks.
    #[serde(default)]
    pub distribution: Distribution,
}

/// Where the tasks of a job go. Brokers without tasks are not in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Brokers in rank order with the number of their tasks; none is 0.
    pub brokers: Vec<(u32, u32)>,
    /// The order of ranks over them.
    pub distribution: Distribution,
}

/// Why a request cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// A number that must be at least 1.
    #[error("{field} is 0; ask for at least 1")]
    Zero {
        /// The flag or field.
        field: &'static str,
    },
    /// No connected broker offers a slot.
    #[error("no connected broker takes tasks; give a group at least one slot")]
    NoSlots,
    /// More brokers than tasks.
    #[error("{} for {}; ask for fewer nodes, or for more tasks", many(*nodes, "node"), many(*tasks, "task"))]
    MoreNodesThanTasks {
        /// Nodes asked for.
        nodes: u32,
        /// Tasks asked for.
        tasks: u32,
    },
    /// More brokers than take tasks.
    #[error("{} asked for, but the connected brokers that take tasks are {offered}", many(*asked, "node"))]
    TooFewBrokers {
        /// Nodes asked for, or needed.
        asked: u32,
        /// Brokers that offer at least one slot.
        offered: u32,
    },
    /// Tasks times CPUs are more than the slots.
    #[error(
        "{} of {} cannot be placed: {} with {} ({each}); ask for less, or allow more tasks than \
         slots with --oversubscribe",
        many(*tasks, "task"),
        many(*cpus, "CPU"),
        many(*brokers, "broker"),
        many(*places, "place")
    )]
    TooFewSlots {
        /// Tasks asked for.
        tasks: u32,
        /// Slots that each takes.
        cpus: u32,
        /// Brokers that were looked at.
        brokers: u32,
        /// Tasks that would fit.
        places: u32,
        /// Places by broker as runs, such as `4x2`.
        each: String,
    },
    /// More tasks than the per-node limit allows on the nodes asked for.
    #[error("{} do not fit on {} with at most {per_node} per node", many(*tasks, "task"), many(*nodes, "node"))]
    PerNodeLimit {
        /// Tasks asked for.
        tasks: u32,
        /// Nodes that may be used.
        nodes: u32,
        /// The limit.
        per_node: u32,
    },
}

/// Chooses brokers and tasks. Equal input gives an equal placement; brokers are taken in the order
/// of their ranks.
pub fn place(offers: &[Offer], ask: &Ask) -> Result<Placement, PlaceError> {
    let cpus = at_least_one("--cpus-per-task", ask.cpus_per_task)?.unwrap_or(1);
    let per_node = at_least_one("--tasks-per-node", ask.tasks_per_node)?;
    let nodes = at_least_one("--nodes", ask.nodes)?;
    if ask.tasks == Tasks::Exactly(0) {
        return Err(PlaceError::Zero { field: "--ntasks" });
    }
    // Places: whole tasks that fit a broker's slots, under the limit per node.
    let mut places: Vec<(u32, u32)> =
        offers.iter().filter(|o| o.slots > 0).map(|o| (o.broker, o.slots / cpus)).collect();
    places.sort_unstable();
    if places.is_empty() {
        return Err(PlaceError::NoSlots);
    }
    let offered = places.len() as u32;
    let limit = |capacity: u32| per_node.map_or(capacity, |limit| capacity.min(limit));

    let wanted = match (ask.tasks, nodes, per_node) {
        (Tasks::Exactly(tasks), _, _) => Some(tasks),
        (Tasks::PerNode, Some(n), limit) => Some(n.saturating_mul(limit.unwrap_or(1))),
        (Tasks::PerNode, None, limit) => Some(offered.saturating_mul(limit.unwrap_or(1))),
        (Tasks::PerSlot, Some(n), Some(limit)) => Some(n.saturating_mul(limit)),
        (Tasks::PerSlot, None, Some(limit)) => Some(offered.saturating_mul(limit)),
        (Tasks::PerSlot, _, None) => None,
    };
    if let Some(asked) = nodes.filter(|n| *n > offered) {
        return Err(PlaceError::TooFewBrokers { asked, offered });
    }
    if let (Some(nodes), Some(tasks)) = (nodes, wanted)
        && nodes > tasks
    {
        return Err(PlaceError::MoreNodesThanTasks { nodes, tasks });
    }
    // The brokers that share the tasks.
    match nodes {
        Some(n) => {
            // With a count of nodes, those that can take a whole task come first.
            if !ask.oversubscribe {
                places.sort_by_key(|(broker, capacity)| (*capacity == 0, *broker));
            }
            places.truncate(n as usize);
            places.sort_unstable();
        }
        None if ask.spread == Spread::Even => {
            if !ask.oversubscribe {
                places.retain(|(_, capacity)| *capacity > 0);
            }
            if let Some(tasks) = wanted {
                places.truncate(tasks as usize);
            }
        }
        None => {}
    }
    let even = nodes.is_some() || ask.spread == Spread::Even;
    if even && ask.oversubscribe {
        // A broker that was chosen takes at least one task, even where a whole one does not fit.
        for (_, capacity) in &mut places {
            *capacity = (*capacity).max(1);
        }
    }
    let considered = places.len() as u32;
    let tasks = wanted.unwrap_or_else(|| places.iter().map(|(_, c)| limit(*c)).sum());
    if let Some(limit) = per_node
        && u64::from(limit) * u64::from(considered) < u64::from(tasks)
    {
        return Err(PlaceError::PerNodeLimit { tasks, nodes: considered, per_node: limit });
    }
    let total: u32 = places.iter().map(|(_, c)| limit(*c)).sum();
    let short = tasks > total
        || tasks == 0
        || (nodes.is_some() && places.iter().any(|(_, capacity)| *capacity == 0));
    if short && !ask.oversubscribe {
        return Err(PlaceError::TooFewSlots {
            tasks: wanted.unwrap_or(1),
            cpus,
            brokers: considered,
            places: total,
            each: runs(places.iter().map(|(_, c)| limit(*c))),
        });
    }
    let mut counts = if even {
        fill_evenly(&places.iter().map(|(_, c)| limit(*c)).collect::<Vec<_>>(), tasks.min(total))
    } else {
        fill_in_order(&places.iter().map(|(_, c)| limit(*c)).collect::<Vec<_>>(), tasks.min(total))
    };
    // What goes beyond the slots is dealt out, one each in turn, below the limit per node.
    let mut rest = tasks - tasks.min(total);
    while rest > 0 {
        let least = counts.iter().copied().min().unwrap_or(0);
        for count in &mut counts {
            if rest > 0 && (!even || *count == least) && per_node.is_none_or(|limit| *count < limit)
            {
                *count += 1;
                rest -= 1;
            }
        }
    }
    let brokers = places
        .iter()
        .zip(counts)
        .filter(|(_, count)| *count > 0)
        .map(|((broker, _), count)| (*broker, count))
        .collect();
    Ok(Placement { brokers, distribution: ask.distribution })
}

fn at_least_one(field: &'static str, value: Option<u32>) -> Result<Option<u32>, PlaceError> {
    if value == Some(0) { Err(PlaceError::Zero { field }) } else { Ok(value) }
}

/// Takes each broker's places before the next broker's.
fn fill_in_order(capacities: &[u32], mut tasks: u32) -> Vec<u32> {
    capacities
        .iter()
        .map(|capacity| {
            let count = tasks.min(*capacity);
            tasks -= count;
            count
        })
        .collect()
}

/// Raises all counts together until the tasks are out; a full broker stays behind. The first
/// brokers get what does not divide.
fn fill_evenly(capacities: &[u32], mut tasks: u32) -> Vec<u32> {
    let mut counts = vec![0; capacities.len()];
    while tasks > 0 {
        let open = counts.iter().zip(capacities).filter(|(n, c)| n < c).count() as u32;
        if open == 0 {
            break;
        }
        let share = (tasks / open).max(1);
        for (count, capacity) in counts.iter_mut().zip(capacities) {
            let more = share.min(capacity - *count).min(tasks);
            *count += more;
            tasks -= more;
        }
    }
    counts
}

impl Placement {
    /// Tasks in all.
    pub fn tasks(&self) -> u32 {
        self.brokers.iter().map(|(_, count)| count).sum()
    }

    /// Brokers that have tasks, which is the number of planned pods.
    pub fn pods(&self) -> u32 {
        self.brokers.len() as u32
    }

    /// The tasks of each broker in the order of local ranks: `(broker, ranks)`.
    pub fn ranks(&self) -> Vec<(u32, Vec<u32>)> {
        let mut all: Vec<(u32, Vec<u32>)> = self
            .brokers
            .iter()
            .map(|(broker, count)| (*broker, Vec::with_capacity(*count as usize)))
            .collect();
        let mut next = 0;
        match self.distribution {
            Distribution::Block => {
                for ((_, ranks), (_, count)) in all.iter_mut().zip(&self.brokers) {
                    ranks.extend(next..next + count);
                    next += count;
                }
            }
            Distribution::Cyclic => {
                let tasks = self.tasks();
                while next < tasks {
                    for ((_, ranks), (_, count)) in all.iter_mut().zip(&self.brokers) {
                        if (ranks.len() as u32) < *count {
                            ranks.push(next);
                            next += 1;
                        }
                    }
                }
            }
        }
        all
    }

    /// For each rank the index into [`Self::brokers`] of its broker.
    pub fn node_of_rank(&self) -> Vec<u32> {
        let mut nodes = vec![0; self.tasks() as usize];
        for (index, (_, ranks)) in self.ranks().into_iter().enumerate() {
            for rank in ranks {
                nodes[rank as usize] = index as u32;
            }
        }
        nodes
    }

    /// The broker of a task's rank.
    pub fn broker_of(&self, rank: u32) -> Option<u32> {
        self.ranks()
            .into_iter()
            .find(|(_, ranks)| ranks.binary_search(&rank).is_ok())
            .map(|(broker, _)| broker)
    }

    /// Tasks by pod over all brokers of a cluster, in the form of the report: runs of `pods x tasks`
    /// in rank order, such as `4x2` or `1x0,3x2`.
    pub fn tasks_by_pod(&self, size: u32) -> String {
        let counts: BTreeMap<u32, u32> = self.brokers.iter().copied().collect();
        let last = self.brokers.last().map_or(0, |(broker, _)| broker + 1);
        runs((0..size.max(last)).map(|broker| counts.get(&broker).copied().unwrap_or(0)))
    }
}

/// Counts as runs: `2,2,2,0` is `3x2,1x0`.
pub fn runs(counts: impl IntoIterator<Item = u32>) -> String {
    let mut text: Vec<(u32, u32)> = Vec::new();
    for count in counts {
        match text.last_mut() {
            Some((pods, last)) if *last == count => *pods += 1,
            _ => text.push((1, count)),
        }
    }
    text.iter().map(|(pods, count)| format!("{pods}x{count}")).collect::<Vec<_>>().join(",")
}

/// A number with its noun.
fn many(number: u32, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
