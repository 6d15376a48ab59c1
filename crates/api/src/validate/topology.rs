//! The rules of `spec.topology`.

use super::Findings;
use super::groups::Sizes;
use super::spec::number;
use crate::finding::{FieldPath, Finding};
use crate::minicluster::{MiniClusterSpec, TopologyMode};
use crate::names::{LAUNCHER, MAX_SIZE, is_label_key};

/// Where workers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedTopology {
    /// The label of nodes whose values are the domains.
    pub key: String,
    /// Pods of a group, which divides the size of each worker group; `None` makes each worker group
    /// one.
    pub group_size: Option<u32>,
    /// Whether a group has its domain alone.
    pub exclusive: bool,
    /// Whether pods wait until it can be so.
    pub required: bool,
}

impl ValidatedTopology {
    /// The Jobs of a replicated job: one for each topology group of several pods. Pods that are each
    /// a group of their own need none, since they only keep apart.
    pub(super) fn jobs(&self, group: &str, size: u32) -> u32 {
        match self.group_size {
            Some(pods @ 2..) if group != LAUNCHER => size / pods,
            _ => 1,
        }
    }
}

pub(super) fn check(
    spec: &MiniClusterSpec,
    sizes: Option<&Sizes>,
    findings: &mut Findings,
) -> Option<ValidatedTopology> {
    let topology = spec.topology.as_ref()?;
    let path = FieldPath::new("spec.topology");
    if !is_label_key(&topology.key) {
        findings.push(
            Finding::error(
                path.key("key"),
                format!("`{}` is not the key of a label", topology.key),
            )
            .hint("name a label of nodes, for example kubernetes.io/hostname; `kubectl get nodes --show-labels` has them"),
        );
    }
    let group_size = topology
        .group_size
        .map(|pods| number(findings, "spec.topology.groupSize", pods, 1, MAX_SIZE - 1));
    if group_size == Some(1) && !topology.exclusive {
        findings.push(
            Finding::error(
                path.key("groupSize"),
                "groups of one pod that may share a domain ask for nothing",
            )
            .hint("set exclusive to true, or another groupSize"),
        );
    }
    if let Some(sizes) = sizes {
        fits(&path, group_size, sizes, findings);
    }
    Some(ValidatedTopology {
        key: topology.key.clone(),
        group_size,
        exclusive: topology.exclusive,
        required: topology.mode == TopologyMode::Required,
    })
}

/// Whether all workers are in full groups that stay as they are.
fn fits(path: &FieldPath, group_size: Option<u32>, sizes: &Sizes, findings: &mut Findings) {
    if sizes.size == 1 {
        findings.push(
            Finding::error(path.clone(), "a topology places workers, and there are none")
                .hint("set size to 2 or more, or leave topology out"),
        );
    }
    let Some(pods @ 1..) = group_size else { return };
    let workers = sizes.groups.iter().filter(|group| group.name != LAUNCHER);
    if let Some(odd) = workers.into_iter().find(|group| group.size % pods != 0) {
        let (size, rest) = (odd.size, odd.size % pods);
        let hint = if size > rest {
            format!(
                "`{}` has {size} pods: make it {} or {}",
                odd.name,
                size - rest,
                size - rest + pods
            )
        } else {
            format!("`{}` has {size} pods: make it {pods}, or groupSize smaller", odd.name)
        };
        findings.push(Finding::error(path.key("groupSize"), "workers are left over").hint(hint));
    }
    if pods > 1 && sizes.max_size > sizes.size {
        findings.push(
            Finding::error(
                FieldPath::new("spec.maxSize"),
                "a cluster with topology groups cannot grow, since their Jobs are planned once",
            )
            .hint("leave maxSize out, or topology.groupSize"),
        );
    }
}
