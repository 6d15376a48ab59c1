//! The environment of launched tasks.
//!
//! Owns: what of the user's environment travels to other pods (the *difference* to the pod that it
//! comes from, so that each pod's own values, such as those of the downward API, stay right), what
//! must never be inherited, and the variables that every task gets. Pure. Variables of process
//! management come from `process_management`; those of batch scripts from `hosts`.

use super::text;
use crate::hosts::environment::LIBFABRIC;
use crate::settings::Settings;
use quorate_contract::env as names;
use quorate_pmi::must_not_leak;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

#[cfg(test)]
mod tests;

/// Variables by name.
pub type Variables = BTreeMap<OsString, OsString>;

/// What differs between two environments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Set or changed, as [`text::encode`] writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<(String, String)>,
    /// Removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
}

/// Names that say where a process is, not what the user wants. They belong to one pod or one task
/// and never travel.
fn stays(name: &OsStr) -> bool {
    const OWN: [&str; 7] = ["HOSTNAME", "SHLVL", "_", "PWD", "OLDPWD", "STY", names::INDEX];
    let Some(name) = name.to_str() else { return false };
    OWN.contains(&name) || name.starts_with("QUORATE_") || must_not_leak(name)
}

impl Difference {
    /// What a user's environment changes against that of the pod it lives in.
    pub fn between(pod: &Variables, user: &Variables) -> Self {
        let set = user
            .iter()
            .filter(|(name, value)| !stays(name) && pod.get(*name) != Some(value))
            .map(|(name, value)| (text::encode(name), text::encode(value)))
            .collect();
        let unset = pod
            .keys()
            .filter(|name| !stays(name) && !user.contains_key(*name))
            .map(text::encode)
            .collect();
        Self { set, unset }
    }

    /// Just these variables on top.
    pub fn adding(variables: &[(String, String)]) -> Self {
        Self { set: variables.to_vec(), unset: Vec::new() }
    }

    /// Adds what an `--env` rule says: `NAME=VALUE` sets, `NAME` takes the value of `user`, `-NAME`
    /// removes.
    pub fn rule(&mut self, rule: &str, user: &Variables) {
        if let Some(name) = rule.strip_prefix('-') {
            self.set.retain(|(n, _)| n != name);
            self.unset.push(name.to_string());
        } else if let Some((name, value)) = rule.split_once('=') {
            self.put(name, value);
        } else if let Some(value) = user.get(OsStr::new(rule)) {
            self.put(rule, &text::encode(value));
        }
    }

    fn put(&mut self, name: &str, value: &str) {
        self.set.retain(|(n, _)| n != name);
        self.unset.retain(|n| n != name);
        self.set.push((name.to_string(), value.to_string()));
    }

    /// The pod's environment with this difference, and without what belongs to another launch.
    pub fn over(&self, pod: &Variables) -> Variables {
        let mut all: Variables = pod
            .iter()
            .filter(|(name, _)| !name.to_str().is_some_and(must_not_leak))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for name in &self.unset {
            all.remove(&text::decode(name));
        }
        for (name, value) in &self.set {
            all.insert(text::decode(name), text::decode(value));
        }
        all
    }
}

/// The variables of everything that the agent starts in a pod.
pub fn pod(settings: &Settings, all: &mut Variables) {
    let mut set = |name: &str, value: OsString| {
        all.insert(name.into(), value);
    };
    set(names::SOCKET, settings.socket().into_os_string());
    set(names::BROKER_RANK, settings.rank.to_string().into());
    set(names::CLUSTER, settings.config.cluster.name.clone().into());
    set(names::BROKER_NAME, settings.display_name().into());
    if let Some(host) = settings.config.full_name(settings.rank) {
        set(names::HOST, host.into());
    }
    if let Some(address) = settings.address() {
        set(names::ADDRESS, address.into());
    }
}

/// The value of the variable that marks what the agent has started, so that a sweep finds
/// processes that left their group and session. No two brokers of a machine share one.
pub fn mark(settings: &Settings, what: &str) -> String {
    format!("{}{}.{what}", cluster_mark(settings), settings.rank)
}

/// The value of [`names::MARK`] for what this broker starts: its own mark, behind those of the
/// clusters that this one is part of, whose sweeps must find it too. Marks stand apart by spaces.
pub fn marks(settings: &Settings, what: &str) -> String {
    let own = mark(settings, what);
    match &settings.outer_marks {
        Some(outer) => format!("{outer} {own}"),
        None => own,
    }
}

/// What the marks of all brokers of this cluster and attempt start with.
pub fn cluster_mark(settings: &Settings) -> String {
    format!("{}.{}.", settings.config.cluster.uid, settings.attempt)
}

/// Where a task stands in its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing<'a> {
    /// The job's id.
    pub job: &'a str,
    /// The task's rank.
    pub rank: u32,
    /// Tasks in all.
    pub size: u32,
    /// The task's number on its broker.
    pub local_rank: u32,
    /// The place of its broker in the job.
    pub node: u32,
    /// Ranks of all the job's tasks on its broker.
    pub beside: &'a [u32],
    /// CPUs per task, when asked for.
    pub cpus_per_task: Option<u32>,
    /// More tasks than CPUs share this machine: waiting ranks must give way.
    pub crowded: bool,
}

/// The variables of one task on top of the job's. What the user set for the MPI library wins.
pub fn task(standing: &Standing<'_>, all: &mut Variables) {
    let mut set = |name: &str, value: String| {
        all.insert(name.into(), value.into());
    };
    set(names::JOB_ID, standing.job.to_string());
    set(names::TASK_RANK, standing.rank.to_string());
    set(names::TASK_COUNT, standing.size.to_string());
    set(names::TASK_LOCAL_RANK, standing.local_rank.to_string());
    let slurm =
        all.contains_key(OsStr::new(names::SLURM)) && all.contains_key(OsStr::new("SLURM_STEP_ID"));
    if slurm {
        let beside: Vec<String> = standing.beside.iter().map(u32::to_string).collect();
        for (name, value) in [
            ("SLURM_PROCID", standing.rank.to_string()),
            ("SLURM_LOCALID", standing.local_rank.to_string()),
            ("SLURM_NODEID", standing.node.to_string()),
            ("SLURM_GTIDS", beside.join(",")),
        ] {
            all.insert(name.into(), value.into());
        }
    }
    if all.contains_key(OsStr::new(crate::queue::flux::VARIABLE)) {
        let id = standing.job.parse().map(quorate_queue::JobId);
        let id = id.map_or_else(|_| standing.job.to_owned(), crate::queue::flux::f58);
        for (name, value) in [
            ("FLUX_JOB_ID", id),
            ("FLUX_JOB_SIZE", standing.size.to_string()),
            ("FLUX_TASK_RANK", standing.rank.to_string()),
            ("FLUX_TASK_LOCAL_ID", standing.local_rank.to_string()),
        ] {
            all.insert(name.into(), value.into());
        }
    }
    let mut default = |name: &str, value: String| {
        all.entry(name.into()).or_insert_with(|| value.into());
    };
    default(LIBFABRIC.0, LIBFABRIC.1.to_string());
    if let Some(cpus) = standing.cpus_per_task {
        default("OMP_NUM_THREADS", cpus.to_string());
    }
    if standing.crowded {
        // Ranks spin while they wait; with fewer CPUs than ranks each must yield to the one that
        // has something to do. mpirun sets the same by itself.
        default("OMPI_MCA_mpi_yield_when_idle", "1".to_string());
    }
}
