//! What all parts of a control plane take of the processor. On a machine that is busy with nothing else,
//! that is what decides when the last pod is there, and unlike that time it hardly depends on what else the
//! machine does.

use crate::bench::figure::Figure;
use crate::bench::process;
use anyhow::{Context as _, Result};
use quorate_testbed::{Cluster, cluster};
use std::collections::BTreeMap;
use std::time::Duration;

/// Programs of the control plane, played nodes included.
const PROGRAMS: [&str; 7] = [
    "kube-apiserver",
    "etcd",
    "kube-controller-manager",
    "kube-scheduler",
    "jobset",
    "kwok",
    "coredns",
];
/// Those whose work is the same for the same pods, whoever made them: what it takes them tells the machine's pace.
const PACE: [&str; 2] = ["kube-scheduler", "kwok"];
/// Whose objects are measured.
const OWN: &str = "the controller itself";

/// Processor time of each part, since some moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs(BTreeMap<&'static str, Duration>);

impl Costs {
    /// What each part has taken since its start; `pid` is the contestant's.
    pub(super) fn so_far(cluster: &Cluster, pid: Option<u32>) -> Result<Self> {
        let beside = cluster::process_of(cluster.folder(), None)?;
        let mut costs = BTreeMap::new();
        for program in PROGRAMS {
            let found = process::program_beside(beside, program);
            let found = found.with_context(|| format!("{program} runs"))?;
            costs.insert(program, process::processor_time(found)?);
        }
        if let Some(pid) = pid {
            costs.insert(OWN, process::processor_time(pid)?);
        }
        Ok(Self(costs))
    }

    /// What was taken since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let spent = |(part, now): (&&'static str, &Duration)| {
            (*part, now.saturating_sub(before.0.get(part).copied().unwrap_or_default()))
        };
        Self(self.0.iter().map(spent).collect())
    }

    /// All parts together, in seconds.
    pub(super) fn all(&self) -> f64 {
        self.0.values().sum::<Duration>().as_secs_f64()
    }

    /// What those parts took, in seconds, whose work is the same for the same pods.
    pub(super) fn pace(&self) -> f64 {
        PACE.iter().filter_map(|part| self.0.get(part)).sum::<Duration>().as_secs_f64()
    }

    /// Says the processor time of each part for `what`, one sample of each of `rounds`, which have the same
    /// parts.
    pub(super) fn tell(rounds: &[Self], what: &str, peer: Option<&str>) {
        let parts = rounds.first().into_iter().flat_map(|round| round.0.keys());
        for part in parts {
            let samples: Vec<f64> =
                rounds.iter().filter_map(|round| Some(round.0.get(part)?.as_secs_f64())).collect();
            let figure = Figure::new(format!("{what}: {part}"), "s", &samples);
            match peer {
                Some(peer) => figure.peer(peer).tell(),
                None => figure.tell(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_is_the_difference_of_each_part() {
        let costs = |parts: &[(&'static str, u64)]| {
            Costs(parts.iter().map(|(part, time)| (*part, Duration::from_secs(*time))).collect())
        };
        let before = costs(&[("etcd", 2), ("kwok", 1)]);
        let spent = costs(&[("etcd", 5), ("kwok", 1), (OWN, 4)]).since(&before);
        assert_eq!(spent.0, costs(&[("etcd", 3), ("kwok", 0), (OWN, 4)]).0);
        assert!((spent.all() - 7.0).abs() < 1e-9);
        assert!(
            (costs(&[("kube-scheduler", 2), ("kwok", 1), ("etcd", 5)]).pace() - 3.0).abs() < 1e-9
        );
    }
}
