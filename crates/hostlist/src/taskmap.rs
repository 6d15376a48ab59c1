//! How the tasks of a program spread over nodes (the idea of Flux RFC 34 and of MPICH's
//! `PMI_process_mapping`): runs of neighbouring nodes with the same number of tasks, filled in
//! blocks or dealt in rounds.

use crate::MAX_IDS;
use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

/// `nodes` nodes from `first_node` on, each taking `tasks` neighbouring task ids; then the next
/// node. A map is a list of runs in the order of task ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRun {
    /// The first node of the run.
    pub first_node: u32,
    /// Nodes of the run.
    pub nodes: u32,
    /// Tasks that each of them takes.
    pub tasks: u32,
}

/// Which task runs on which node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskMap {
    /// Nodes in all, those without tasks included.
    nodes: u32,
    /// Never a run with 0 nodes or 0 tasks; neighbours that can be one run are one.
    runs: Vec<TaskRun>,
}

/// Why a task map cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskMapError {
    /// A part is not of the form `NxT`.
    #[error("`{part}` is not a run of nodes and tasks such as 3x2")]
    Part {
        /// The part between two commas.
        part: String,
    },
    /// More nodes or tasks than a map may hold.
    #[error("the task map has more than {MAX_IDS} nodes or tasks")]
    TooMany,
    /// There are tasks, and no node takes one.
    #[error("no node takes tasks, {tasks} are asked for")]
    NoRoom {
        /// The tasks.
        tasks: u32,
    },
}

impl TaskMap {
    /// Fills each node before the next: node n takes `counts[n]` tasks.
    pub fn block(counts: &[u32]) -> Result<Self, TaskMapError> {
        let nodes = u32::try_from(counts.len()).map_err(|_| TaskMapError::TooMany)?;
        let mut map = Self { nodes, runs: Vec::new() };
        for (node, &tasks) in (0..).zip(counts) {
            map.add(node, tasks);
        }
        map.checked()
    }

    /// Deals tasks in rounds: each round gives one task to every node that has not got its
    /// `counts[n]` yet.
    pub fn cyclic(counts: &[u32]) -> Result<Self, TaskMapError> {
        let nodes = u32::try_from(counts.len()).map_err(|_| TaskMapError::TooMany)?;
        if counts.iter().map(|&c| u64::from(c)).sum::<u64>() > u64::from(MAX_IDS) {
            return Err(TaskMapError::TooMany);
        }
        let mut map = Self { nodes, runs: Vec::new() };
        let rounds = counts.iter().copied().max().unwrap_or(0);
        for round in 0..rounds {
            for (node, &tasks) in (0..).zip(counts) {
                if tasks > round {
                    map.add(node, 1);
                }
            }
        }
        map.checked()
    }

    /// Spreads `tasks` in blocks over nodes that take up to `slots[n]` each, in node order. What
    /// does not fit goes on over the nodes in proportion, one more per node and round, when
    /// `oversubscribe` allows it; otherwise the rest is returned as the second value.
    pub fn fill(
        tasks: u32,
        slots: &[u32],
        oversubscribe: bool,
    ) -> Result<(Self, u32), TaskMapError> {
        let mut left = tasks;
        let mut counts: Vec<u32> = slots
            .iter()
            .map(|&slots| {
                let take = slots.min(left);
                left -= take;
                take
            })
            .collect();
        if left > 0 && oversubscribe {
            let takers: Vec<usize> = (0..slots.len()).filter(|&n| slots[n] > 0).collect();
            if takers.is_empty() {
                return Err(TaskMapError::NoRoom { tasks });
            }
            let share = left / takers.len() as u32;
            let extra = left % takers.len() as u32;
            for (at, &node) in takers.iter().enumerate() {
                counts[node] += share + u32::from((at as u32) < extra);
            }
            left = 0;
        }
        Ok((Self::block(&counts)?, left))
    }

    fn add(&mut self, node: u32, tasks: u32) {
        if tasks == 0 {
            return;
        }
        match self.runs.last_mut() {
            Some(run) if run.tasks == tasks && run.first_node + run.nodes == node => run.nodes += 1,
            _ => self.runs.push(TaskRun { first_node: node, nodes: 1, tasks }),
        }
    }

    fn checked(self) -> Result<Self, TaskMapError> {
        let tasks: u64 = self.runs.iter().map(|r| u64::from(r.nodes) * u64::from(r.tasks)).sum();
        if self.nodes > MAX_IDS || tasks > u64::from(MAX_IDS) {
            return Err(TaskMapError::TooMany);
        }
        Ok(self)
    }

    /// Nodes in all, those without tasks included.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Tasks in all.
    pub fn tasks(&self) -> u32 {
        self.runs.iter().map(|r| r.nodes * r.tasks).sum()
    }

    /// The runs in the order of task ids.
    pub fn runs(&self) -> &[TaskRun] {
        &self.runs
    }

    /// The tasks of each node.
    pub fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.nodes as usize];
        for run in &self.runs {
            for node in run.first_node..run.first_node + run.nodes {
                counts[node as usize] += run.tasks;
            }
        }
        counts
    }

    /// The node of a task.
    pub fn node_of(&self, task: u32) -> Option<u32> {
        let mut before = 0;
        for run in &self.runs {
            let all = run.nodes * run.tasks;
            if task < before + all {
                return Some(run.first_node + (task - before) / run.tasks);
            }
            before += all;
        }
        None
    }

    /// The tasks of a node, ascending.
    pub fn tasks_of(&self, node: u32) -> Vec<u32> {
        let mut before = 0;
        let mut tasks = Vec::new();
        for run in &self.runs {
            if (run.first_node..run.first_node + run.nodes).contains(&node) {
                let start = before + (node - run.first_node) * run.tasks;
                tasks.extend(start..start + run.tasks);
            }
            before += run.nodes * run.tasks;
        }
        tasks
    }

    /// The map as MPICH's `PMI_process_mapping`: `(vector,(first_node,nodes,tasks),...)`. Rounds
    /// that repeat are written once, since readers start over when the list runs out.
    pub fn process_mapping(&self) -> String {
        let mut text = String::from("(vector");
        for run in &self.runs[..self.period()] {
            // Writing to a string cannot fail.
            let _ = write!(text, ",({},{},{})", run.first_node, run.nodes, run.tasks);
        }
        text.push(')');
        text
    }

    /// The shortest head of the runs that, repeated, gives them all.
    fn period(&self) -> usize {
        let len = self.runs.len();
        (1..=len)
            .find(|&p| {
                len.is_multiple_of(p) && (p..len).all(|at| self.runs[at] == self.runs[at - p])
            })
            .unwrap_or(len)
    }
}

impl fmt::Display for TaskMap {
    /// Tasks by node in node order, as runs of `nodes x tasks`: `4x2`, `1x0,3x2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts();
        for (at, run) in counts.chunk_by(|a, b| a == b).enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{}x{}", run.len(), run[0])?;
        }
        Ok(())
    }
}

impl FromStr for TaskMap {
    type Err = TaskMapError;

    /// Reads `1x0,3x2` as a block map.
    fn from_str(text: &str) -> Result<Self, TaskMapError> {
        let mut counts = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let wrong = || TaskMapError::Part { part: part.to_owned() };
            let (nodes, tasks) = part.split_once('x').ok_or_else(wrong)?;
            let nodes: u32 = nodes.parse().map_err(|_| wrong())?;
            let tasks: u32 = tasks.parse().map_err(|_| wrong())?;
            if counts.len() + nodes as usize > MAX_IDS as usize {
                return Err(TaskMapError::TooMany);
            }
            counts.extend(std::iter::repeat_n(tasks, nodes as usize));
        }
        Self::block(&counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_maps() {
        for (map, printed, mapping) in [
            (TaskMap::block(&[2, 2, 2, 2]), "4x2", "(vector,(0,4,2))"),
            (TaskMap::block(&[0, 2, 2, 2]), "1x0,3x2", "(vector,(1,3,2))"),
            (TaskMap::block(&[3, 3, 1]), "2x3,1x1", "(vector,(0,2,3),(2,1,1))"),
            (TaskMap::cyclic(&[2, 2]), "2x2", "(vector,(0,2,1))"),
            (TaskMap::cyclic(&[3, 1]), "1x3,1x1", "(vector,(0,2,1),(0,1,1),(0,1,1))"),
            (TaskMap::block(&[]), "", "(vector)"),
        ] {
            let map = map.unwrap();
            assert_eq!(map.to_string(), printed);
            assert_eq!(map.process_mapping(), mapping);
        }
    }

    #[test]
    fn fills_slots_then_shares_the_rest() {
        let (map, left) = TaskMap::fill(5, &[0, 2, 2], false).unwrap();
        assert_eq!((map.to_string().as_str(), left), ("1x0,2x2", 1));
        let (map, left) = TaskMap::fill(7, &[0, 2, 2], true).unwrap();
        assert_eq!((map.to_string().as_str(), left), ("1x0,1x4,1x3", 0));
        assert_eq!(TaskMap::fill(1, &[0], true), Err(TaskMapError::NoRoom { tasks: 1 }));
    }

    #[test]
    fn wrong_text_is_refused() {
        for text in ["x", "1", "1x", "x1", "1x1,", "2000000x1", "1x2000000"] {
            assert!(text.parse::<TaskMap>().is_err(), "{text}");
        }
    }
}
