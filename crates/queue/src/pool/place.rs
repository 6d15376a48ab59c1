//! On which of the free nodes a request fits best.

use super::{Allocation, Node, Part, Pool, count};
use crate::constraint::Compiled;
use crate::jobspec::Request;
use quorate_hostlist::IdSet;

/// A request with the nodes it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want<'a> {
    /// How much.
    pub(crate) request: &'a Request,
    /// The job's own condition.
    pub(crate) constraint: Option<&'a Compiled>,
    /// The condition of its queue.
    pub(crate) lane: Option<&'a Compiled>,
}

/// A node and how many tasks of the request it can take.
#[derive(Clone, Copy)]
struct Candidate {
    tasks: u32,
    rank: u32,
}

impl Pool {
    /// Nodes for a request among what is free, or `None` if it does not fit now.
    ///
    /// Without a number of nodes: the fullest node that holds all tasks, else as few nodes as hold
    /// them. With a number: as many as there may be, tasks evenly spread, on the nodes with the least
    /// room that have enough. Among equals those of the lowest ranks. Deterministic.
    pub(crate) fn place(&self, want: Want<'_>) -> Option<Allocation> {
        match want.request.nodes {
            None => self.on_one(want).or_else(|| self.on_few(want)),
            Some((fewest, most)) => self.on_many(want, fewest, most),
        }
    }

    fn on_one(&self, want: Want<'_>) -> Option<Allocation> {
        let tasks = want.request.tasks;
        let cores = tasks.checked_mul(want.request.cores_per_task)?;
        let rank = self
            .ready
            .range((cores, 0)..)
            .map(|&(_, rank)| rank)
            .find(|rank| self.nodes[rank].room(want) >= tasks)?;
        Some(self.give(want, &[Candidate { tasks, rank }]))
    }

    fn on_few(&self, want: Want<'_>) -> Option<Allocation> {
        let mut chosen = Vec::new();
        let mut left = want.request.tasks;
        for candidate in self.by_room(want) {
            if left == 0 {
                break;
            }
            let tasks = candidate.tasks.min(left);
            left -= tasks;
            chosen.push(Candidate { tasks, rank: candidate.rank });
        }
        (left == 0).then(|| self.give(want, &chosen))
    }

    fn on_many(&self, want: Want<'_>, fewest: u32, most: u32) -> Option<Allocation> {
        let tasks = want.request.tasks;
        let candidates = self.by_room(want);
        let nodes = most.min(tasks).min(u32::try_from(candidates.len()).unwrap_or(u32::MAX));
        if nodes < fewest {
            return None;
        }
        let share = tasks.div_ceil(nodes);
        // The roomiest come first: behind the last that takes a whole share there is none.
        let whole = candidates.partition_point(|candidate| candidate.tasks >= share);
        let mut chosen = candidates;
        if whole >= nodes as usize {
            chosen.truncate(whole);
            chosen.sort_unstable_by_key(|candidate| (candidate.tasks, candidate.rank));
            chosen.truncate(nodes as usize);
            chosen.reverse();
        } else {
            chosen.truncate(nodes as usize);
        }
        let room: u64 = chosen.iter().map(|candidate| u64::from(candidate.tasks)).sum();
        if room < u64::from(tasks) {
            return None;
        }
        Some(self.give(want, &spread(&chosen, tasks)))
    }

    /// Nodes that can take at least one task, the roomiest first.
    fn by_room(&self, want: Want<'_>) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = self
            .ready
            .range((want.request.cores_per_task, 0)..)
            .map(|&(_, rank)| Candidate { tasks: self.nodes[&rank].room(want), rank })
            .filter(|candidate| candidate.tasks > 0)
            .collect();
        candidates.sort_unstable_by_key(|candidate| (u32::MAX - candidate.tasks, candidate.rank));
        candidates
    }

    fn give(&self, want: Want<'_>, chosen: &[Candidate]) -> Allocation {
        let mut parts: Vec<Part> = chosen
            .iter()
            .map(|candidate| self.nodes[&candidate.rank].part(want.request, candidate.tasks))
            .collect();
        parts.sort_unstable_by_key(|part| part.rank);
        Allocation { parts }
    }
}

impl Node {
    /// How many tasks of a request it can take now.
    fn room(&self, want: Want<'_>) -> u32 {
        let request = want.request;
        let fits =
            |condition: Option<&Compiled>| condition.is_none_or(|it| it.holds(self.subject()));
        if (request.exclusive && self.jobs > 0) || !fits(want.constraint) || !fits(want.lane) {
            return 0;
        }
        let Some(memory) = self.memory.checked_sub(request.memory_per_node) else { return 0 };
        let by_cores = count(&self.cores) / request.cores_per_task.max(1);
        let by_gpus = count(&self.gpus).checked_div(request.gpus_per_task).unwrap_or(u32::MAX);
        let by_memory = memory.checked_div(request.memory_per_task).unwrap_or(u64::MAX);
        by_cores
            .min(by_gpus)
            .min(u32::try_from(by_memory).unwrap_or(u32::MAX))
            .min(request.tasks_per_node.unwrap_or(u32::MAX))
    }

    fn part(&self, request: &Request, tasks: u32) -> Part {
        let rank = self.offer.rank;
        if request.exclusive {
            let (cores, gpus) = (self.cores.clone(), self.gpus.clone());
            return Part { rank, tasks, cores, gpus, memory: self.memory };
        }
        Part {
            rank,
            tasks,
            cores: first(&self.cores, tasks * request.cores_per_task),
            gpus: first(&self.gpus, tasks * request.gpus_per_task),
            memory: request.memory_per_node + u64::from(tasks) * request.memory_per_task,
        }
    }
}

/// Spreads tasks over nodes as evenly as their room allows; each gets at least one.
fn spread(chosen: &[Candidate], tasks: u32) -> Vec<Candidate> {
    let mut left = tasks;
    let mut nodes = u32::try_from(chosen.len()).unwrap_or(u32::MAX);
    // From the node with the least room on: what it cannot take, the roomier ones can.
    let mut out: Vec<Candidate> = chosen
        .iter()
        .rev()
        .map(|candidate| {
            let share = (left / nodes).min(candidate.tasks);
            left -= share;
            nodes -= 1;
            Candidate { tasks: share, rank: candidate.rank }
        })
        .collect();
    out.reverse();
    out
}

/// The lowest ids of a set.
fn first(set: &IdSet, count: u32) -> IdSet {
    set.iter().take(count as usize).collect()
}
