//! What the brokers offer and what of it jobs have.
//!
//! Owns the account of cores, accelerators and memory of each node: nothing is given twice, and what
//! is given back is what was given. Which job gets something is the scheduler's decision; on which
//! nodes a request fits best is [`place`]'s.

mod place;

use crate::constraint::Subject;
use crate::id::JobId;
use quorate_hostlist::IdSet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use place::Want;

/// What a broker offers, as it said when it joined. Uneven nodes are normal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Its rank.
    pub rank: u32,
    /// The host name of its pod.
    pub host: String,
    /// Cores that tasks may be bound to.
    pub cores: IdSet,
    /// Places of its accelerators in its inventory.
    pub gpus: IdSet,
    /// Bytes of memory for tasks.
    pub memory: u64,
    /// Words that constraints may ask for, such as the name of its group.
    pub properties: Vec<String>,
}

/// What a job has, in the order of its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Allocation {
    /// One part for each node, ascending by rank.
    pub parts: Vec<Part>,
}

/// What a job has of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Part {
    /// The node's broker.
    pub rank: u32,
    /// How many tasks run there.
    pub tasks: u32,
    /// Its cores.
    #[serde(with = "crate::text")]
    pub cores: IdSet,
    /// Its accelerators.
    #[serde(default, with = "crate::text", skip_serializing_if = "IdSet::is_empty")]
    pub gpus: IdSet,
    /// Bytes of its memory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memory: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

impl Allocation {
    /// The ranks of its nodes.
    pub fn ranks(&self) -> IdSet {
        self.parts.iter().map(|part| part.rank).collect()
    }

    /// The same without a node.
    #[must_use]
    pub fn without(&self, rank: u32) -> Self {
        Self { parts: self.parts.iter().filter(|part| part.rank != rank).cloned().collect() }
    }

    /// Tasks on all nodes.
    pub fn tasks(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.tasks)).sum()
    }
}

/// Whether a node takes jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It does.
    Up,
    /// It has no broker at the moment.
    Down,
    /// Nothing new is started there, for this reason.
    Drained(Box<str>),
}

/// Why the account cannot be changed so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Something is not free.
    #[error("{what} of broker {rank} is not free")]
    NotFree {
        /// The rank.
        rank: u32,
        /// Which cores, accelerators or memory.
        what: String,
    },
    /// The job has nothing, or has something already.
    #[error("job {job} {what}")]
    Job {
        /// The job.
        job: JobId,
        /// What it has.
        what: &'static str,
    },
}

#[derive(Clone, Debug)]
struct Node {
    offer: Offer,
    up: bool,
    drained: Option<Box<str>>,
    cores: IdSet,
    gpus: IdSet,
    memory: u64,
    /// Jobs that have a part of it.
    jobs: u32,
}

impl Node {
    fn subject(&self) -> Subject<'_> {
        Subject {
            rank: self.offer.rank,
            host: &self.offer.host,
            properties: &self.offer.properties,
        }
    }
}

/// The nodes and what is free of them.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    nodes: BTreeMap<u32, Node>,
    /// Nodes that take jobs and have a free core: (free cores, rank).
    ready: BTreeSet<(u32, u32)>,
    /// What jobs have, with the nodes here or away.
    held: BTreeMap<JobId, Arc<Allocation>>,
    /// Drains of brokers that have not come yet, as a log remembers them.
    drains: BTreeMap<u32, Box<str>>,
}

impl Pool {
    /// A broker came, or came again with another offer. What jobs have of it stays with them.
    pub fn arrive(&mut self, offer: Offer) {
        let rank = offer.rank;
        self.unlist(rank);
        let drained = match self.nodes.remove(&rank) {
            Some(node) => node.drained,
            None => self.drains.remove(&rank),
        };
        let mut node = Node {
            up: true,
            drained,
            cores: offer.cores.clone(),
            gpus: offer.gpus.clone(),
            memory: offer.memory,
            jobs: 0,
            offer,
        };
        for part in self.held.values().flat_map(|held| &held.parts) {
            if part.rank == rank {
                node.cores = node.cores.difference(&part.cores);
                node.gpus = node.gpus.difference(&part.gpus);
                node.memory = node.memory.saturating_sub(part.memory);
                node.jobs += 1;
            }
        }
        self.nodes.insert(rank, node);
        self.list(rank);
    }

    /// A broker is away. What jobs have of it stays with them until it is given back.
    pub fn leave(&mut self, rank: u32) {
        self.unlist(rank);
        if let Some(node) = self.nodes.get_mut(&rank) {
            node.up = false;
        }
    }

    /// Nothing new is started there. A broker that has not come yet may be drained, too: a log is
    /// read before brokers come.
    pub fn drain(&mut self, rank: u32, reason: Box<str>) {
        self.unlist(rank);
        match self.nodes.get_mut(&rank) {
            Some(node) => node.drained = Some(reason),
            None => {
                self.drains.insert(rank, reason);
            }
        }
    }

    /// Jobs may be started there again.
    pub fn undrain(&mut self, rank: u32) {
        self.drains.remove(&rank);
        if let Some(node) = self.nodes.get_mut(&rank) {
            node.drained = None;
            self.list(rank);
        }
    }

    /// All drains that are in force.
    pub fn drains(&self) -> impl Iterator<Item = (u32, &str)> {
        let here =
            self.nodes.iter().filter_map(|(rank, node)| Some((*rank, node.drained.as_deref()?)));
        here.chain(self.drains.iter().map(|(rank, reason)| (*rank, &**reason)))
    }

    /// Whether a node takes jobs; `None` if no broker of that rank was ever here.
    pub fn state(&self, rank: u32) -> Option<NodeState> {
        let node = self.nodes.get(&rank)?;
        Some(match &node.drained {
            _ if !node.up => NodeState::Down,
            Some(reason) => NodeState::Drained(reason.clone()),
            None => NodeState::Up,
        })
    }

    /// What each node offers and what of it is free, by rank.
    pub fn nodes(&self) -> impl Iterator<Item = (&Offer, Part)> {
        self.nodes.values().map(|node| {
            let free = Part {
                rank: node.offer.rank,
                tasks: 0,
                cores: node.cores.clone(),
                gpus: node.gpus.clone(),
                memory: node.memory,
            };
            (&node.offer, free)
        })
    }

    /// What a job has.
    pub fn of(&self, job: JobId) -> Option<&Arc<Allocation>> {
        self.held.get(&job)
    }

    /// Gives a job what it was promised. Nodes that are away are accounted for when they come.
    pub fn take(&mut self, job: JobId, allocation: Arc<Allocation>) -> Result<(), PoolError> {
        if self.held.contains_key(&job) {
            return Err(PoolError::Job { job, what: "has nodes already" });
        }
        // All is looked at before anything is changed.
        for part in &allocation.parts {
            let Some(node) = self.nodes.get(&part.rank) else { continue };
            let missing = |what: String| PoolError::NotFree { rank: part.rank, what };
            if !part.cores.is_subset(&node.cores) {
                return Err(missing(format!("cores {}", part.cores.difference(&node.cores))));
            }
            if !part.gpus.is_subset(&node.gpus) {
                return Err(missing(format!("accelerators {}", part.gpus.difference(&node.gpus))));
            }
            if part.memory > node.memory {
                return Err(missing(format!("memory, {} bytes", part.memory)));
            }
        }
        for part in &allocation.parts {
            self.unlist(part.rank);
            if let Some(node) = self.nodes.get_mut(&part.rank) {
                node.cores = node.cores.difference(&part.cores);
                node.gpus = node.gpus.difference(&part.gpus);
                node.memory -= part.memory;
                node.jobs += 1;
            }
            self.list(part.rank);
        }
        self.held.insert(job, allocation);
        Ok(())
    }

    /// Takes back what a job has.
    pub fn give_back(&mut self, job: JobId) -> Result<Arc<Allocation>, PoolError> {
        let Some(allocation) = self.held.remove(&job) else {
            return Err(PoolError::Job { job, what: "has no nodes" });
        };
        for part in &allocation.parts {
            self.put_back(part);
        }
        Ok(allocation)
    }

    fn put_back(&mut self, part: &Part) {
        self.unlist(part.rank);
        if let Some(node) = self.nodes.get_mut(&part.rank) {
            // An offer may have become smaller meanwhile.
            node.cores = node.cores.union(&part.cores).intersection(&node.offer.cores);
            node.gpus = node.gpus.union(&part.gpus).intersection(&node.offer.gpus);
            node.memory = (node.memory + part.memory).min(node.offer.memory);
            node.jobs = node.jobs.saturating_sub(1);
        }
        self.list(part.rank);
    }

    /// Takes back what a job has of one node.
    pub fn shrink(&mut self, job: JobId, rank: u32) -> Result<(), PoolError> {
        let Some(held) = self.held.get_mut(&job) else {
            return Err(PoolError::Job { job, what: "has no nodes" });
        };
        let had = std::mem::take(held);
        *held = Arc::new(had.without(rank));
        for part in had.parts.iter().filter(|part| part.rank == rank) {
            self.put_back(part);
        }
        Ok(())
    }

    /// A broker is gone for good: nothing can be hoped for there.
    pub fn forget(&mut self, rank: u32) {
        self.unlist(rank);
        self.nodes.remove(&rank);
    }

    /// Whether there is a free core at all.
    pub(crate) fn has_room(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The same nodes with nothing on them, away and drained ones too: what a request may hope for.
    pub(crate) fn at_its_best(&self) -> Self {
        let mut best = Self::default();
        for node in self.nodes.values() {
            best.arrive(node.offer.clone());
        }
        best
    }

    /// What is free here and there as well.
    pub(crate) fn shared_with(&self, other: &Self) -> Self {
        let mut shared = Self::default();
        for (rank, node) in &self.nodes {
            let Some(there) = other.nodes.get(rank) else { continue };
            let node = Node {
                cores: node.cores.intersection(&there.cores),
                gpus: node.gpus.intersection(&there.gpus),
                memory: node.memory.min(there.memory),
                // A node that is not idle in one of them is not idle in both.
                jobs: node.jobs.max(there.jobs),
                ..node.clone()
            };
            shared.nodes.insert(*rank, node);
            shared.list(*rank);
        }
        shared
    }

    /// Takes out what of an allocation is still in.
    pub(crate) fn withhold(&mut self, allocation: &Allocation) {
        for part in &allocation.parts {
            self.unlist(part.rank);
            if let Some(node) = self.nodes.get_mut(&part.rank) {
                node.cores = node.cores.difference(&part.cores);
                node.gpus = node.gpus.difference(&part.gpus);
                node.memory = node.memory.saturating_sub(part.memory);
                node.jobs += 1;
            }
            self.list(part.rank);
        }
    }

    fn unlist(&mut self, rank: u32) {
        if let Some(node) = self.nodes.get(&rank) {
            self.ready.remove(&(count(&node.cores), rank));
        }
    }

    fn list(&mut self, rank: u32) {
        let Some(node) = self.nodes.get(&rank) else { return };
        if node.up && node.drained.is_none() && !node.cores.is_empty() {
            self.ready.insert((count(&node.cores), rank));
        }
    }
}

fn count(set: &IdSet) -> u32 {
    u32::try_from(set.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
