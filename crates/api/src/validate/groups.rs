//! The rules of sizes, groups and the name budget.

use super::pods::{Merged, MergedTemplates};
use super::spec::{number, number_at};
use super::{Findings, GroupName, ValidatedGroup, ValidatedTopology};
use crate::finding::{FieldPath, Finding};
use crate::minicluster::MiniClusterSpec;
use crate::names::{BUDGET, LAUNCHER, MAX_SIZE, WORKER, cost, is_dns_1035_label};

/// The sizes of a cluster and its groups, all within their ranges.
pub(super) struct Sizes {
    pub(super) size: u32,
    pub(super) min_size: u32,
    pub(super) max_size: u32,
    /// The launcher first; ranks are assigned in this order.
    pub(super) groups: Vec<GroupSize>,
}

/// One group of a cluster.
pub(super) struct GroupSize {
    pub(super) name: String,
    pub(super) first_rank: u32,
    pub(super) size: u32,
    pub(super) max_size: u32,
    pub(super) slots: Option<u32>,
}

/// Sizes, or `None` after a finding that leaves them undefined.
pub(super) fn sizes(spec: &MiniClusterSpec, findings: &mut Findings) -> Option<Sizes> {
    let before = findings.0.len();
    let all_slots = slots(findings, FieldPath::new("spec.slots"), spec.slots);
    let launcher_slots = slots(
        findings,
        FieldPath::new("spec.launcher.slots"),
        spec.launcher.as_ref().and_then(|launcher| launcher.slots),
    )
    .or(all_slots);
    let mut workers = workers(spec, all_slots, findings);

    let sum = 1 + workers.iter().map(|group| i64::from(group.size)).sum::<i64>();
    let size = match spec.size {
        Some(size) if size < 1 => {
            findings.push(
                Finding::error(
                    FieldPath::new("spec.size"),
                    format!("{size} is less than 1: the launcher is a pod too"),
                )
                .hint("set size to 1 or more"),
            );
            return None;
        }
        Some(size) if !spec.groups.is_empty() && i64::from(size) != sum => {
            findings.push(
                Finding::error(
                    FieldPath::new("spec.size"),
                    format!("{size} is not 1 launcher + {} pods of spec.groups = {sum}", sum - 1),
                )
                .hint(format!("leave size out, or set it to {sum}")),
            );
            return None;
        }
        Some(size) => number(findings, "spec.size", size, 1, MAX_SIZE),
        None if sum > i64::from(MAX_SIZE) => {
            findings.push(
                Finding::error(
                    FieldPath::new("spec.groups"),
                    format!("{sum} pods with the launcher are more than {MAX_SIZE}"),
                )
                .hint("make the groups smaller"),
            );
            return None;
        }
        None => u32::try_from(sum).expect("a sum of sizes within their range is positive"),
    };
    let size_name = if spec.size.is_some() { "spec.size" } else { "the size" };
    let min_size = match spec.min_size {
        None => size,
        Some(min) if min > 0 && u32::try_from(min).is_ok_and(|min| min > size) => {
            findings.push(
                Finding::error(
                    FieldPath::new("spec.minSize"),
                    format!("{min} is more than {size_name}: {size}"),
                )
                .hint(format!("set minSize to at most {size}, or raise size")),
            );
            size
        }
        Some(min) => number(findings, "spec.minSize", min, 1, MAX_SIZE),
    };
    let max_size = match spec.max_size {
        None => size,
        Some(max) if i64::from(max) < i64::from(size) => {
            findings.push(
                Finding::error(
                    FieldPath::new("spec.maxSize"),
                    format!("{max} is less than {size_name}: {size}"),
                )
                .hint(format!("set maxSize to at least {size}, or leave it out")),
            );
            size
        }
        Some(max) => number(findings, "spec.maxSize", max, 1, MAX_SIZE),
    };
    if max_size > size && size == 1 {
        findings.push(
            Finding::error(
                FieldPath::new("spec.maxSize"),
                format!("a cluster that may grow to {max_size} starts with at least one worker"),
            )
            .hint("set size to 2 or more: a Job without workers is complete at once and takes no more"),
        );
    }
    if findings.0.len() > before {
        return None;
    }

    if spec.groups.is_empty() && max_size > 1 {
        workers.push(GroupSize {
            name: WORKER.to_owned(),
            first_rank: 0,
            size: size - 1,
            max_size: 0,
            slots: all_slots,
        });
    }
    let mut groups = vec![GroupSize {
        name: LAUNCHER.to_owned(),
        first_rank: 0,
        size: 1,
        max_size: 1,
        slots: launcher_slots,
    }];
    let mut next = 1;
    let last = workers.len().saturating_sub(1);
    for (at, mut group) in workers.into_iter().enumerate() {
        group.first_rank = next;
        group.max_size = if at == last { group.size + (max_size - size) } else { group.size };
        next += group.max_size;
        groups.push(group);
    }
    Some(Sizes { size, min_size, max_size, groups })
}

fn slots(findings: &mut Findings, path: FieldPath, value: Option<i32>) -> Option<u32> {
    value.map(|value| number_at(findings, path, value, 0, i32::MAX))
}

fn workers(
    spec: &MiniClusterSpec,
    all_slots: Option<u32>,
    findings: &mut Findings,
) -> Vec<GroupSize> {
    let mut workers: Vec<GroupSize> = Vec::new();
    for (at, group) in spec.groups.iter().enumerate() {
        let path = FieldPath::new("spec.groups").index(at);
        if group.name == LAUNCHER {
            findings.push(
                Finding::error(path.key("name"), "`launcher` is the name of rank 0's own group")
                    .hint("take another name; what is special about the launcher goes to spec.launcher"),
            );
        } else if !is_dns_1035_label(&group.name) {
            findings.push(
                Finding::error(
                    path.key("name"),
                    format!("`{}` is not a name that pods can carry", group.name),
                )
                .hint("use lower-case letters, digits and `-`, a letter first"),
            );
        } else if workers.iter().any(|other| other.name == group.name) {
            findings.push(
                Finding::error(path.clone(), format!("a second group named `{}`", group.name))
                    .hint("give each group its own name"),
            );
        }
        let size = number_at(findings, path.key("size"), group.size, 1, MAX_SIZE - 1);
        let slots = slots(findings, path.key("slots"), group.slots).or(all_slots);
        workers.push(GroupSize {
            name: group.name.clone(),
            first_rank: 0,
            size,
            max_size: 0,
            slots,
        });
    }
    workers
}

/// Pod names must fit at the largest size, or JobSet refuses the whole object.
pub(super) fn budget(
    name: Option<&str>,
    spec: &MiniClusterSpec,
    sizes: Option<&Sizes>,
    findings: &mut Findings,
) {
    let (Some(name), Some(sizes)) = (name, sizes) else { return };
    let Some(worst) = sizes
        .groups
        .iter()
        .max_by_key(|group| cost(name, &group.name, group.max_size))
        .filter(|group| cost(name, &group.name, group.max_size) > BUDGET)
    else {
        return;
    };
    let over = cost(name, &worst.name, worst.max_size) - BUDGET;
    let message = format!("too long by {over}: names of pods have 63 characters at most");
    let shorter = match name.len().checked_sub(over) {
        Some(left @ 1..) if spec.groups.is_empty() || worst.name == LAUNCHER => {
            format!("shorten the name to {left} characters")
        }
        _ => format!("shorten the name or the group `{}` by {over} characters", worst.name),
    };
    let last = worst.max_size - 1;
    let hint = format!("{shorter}: the last pod is `{name}-{}-0-{last}-xxxxx`", worst.name);
    findings.push(Finding::error(FieldPath::new("metadata.name"), message).hint(hint));
}

/// Puts sizes and templates together.
pub(super) fn validated(
    sizes: &Sizes,
    topology: Option<&ValidatedTopology>,
    merged: MergedTemplates,
) -> Vec<ValidatedGroup> {
    // Without groups of the user's there is one worker group, with the base template.
    let workers = if merged.groups.is_empty() { vec![merged.base] } else { merged.groups };
    sizes
        .groups
        .iter()
        .zip(std::iter::once(merged.launcher).chain(workers))
        .map(|(group, Merged { template, main })| ValidatedGroup {
            name: GroupName(group.name.clone()),
            first_rank: group.first_rank,
            size: group.size,
            max_size: group.max_size,
            jobs: topology.map_or(1, |topology| topology.jobs(&group.name, group.size)),
            slots: group.slots,
            template,
            main,
        })
        .collect()
}
