//! What a leader settles before it launches: who takes the tasks, and what members must know of
//! each other.
//!
//! Owns: the way from membership to placement, and from a configured program to a request. Apart
//! from the random name of a job it is pure.

use crate::broker::{Membership, Overlay};
use crate::job::protocol::{Command, Request, Share, Where};
use crate::launch::environment::Difference;
use crate::launch::place::{Ask, Distribution, Offer, Placement, Spread, Tasks, place};
use quorate_contract::config::Parallel;
use quorate_hostlist::IdSet;
use std::collections::{BTreeSet, HashMap};

/// The placement of a request among the connected brokers. What the queue has allotted is refused when a
/// broker of it is not there, if it must be `whole`.
pub(super) fn choose(
    membership: &Membership,
    request: &Request,
    whole: bool,
    overlay: &Overlay,
) -> Result<Placement, String> {
    let distribution = request.command.distribution;
    match &request.place {
        Where::Slots(ask) => {
            let offers: Vec<Offer> = membership
                .online
                .iter()
                .filter(|(_, member)| !member.torpid && !member.draining)
                .map(|(broker, member)| Offer { broker: *broker, slots: member.inventory.slots })
                .collect();
            place(&offers, ask).map_err(|error| error.to_string())
        }
        Where::Brokers(set) => {
            let brokers: Vec<u32> = if set == "all" {
                membership.online.keys().copied().collect()
            } else {
                let set: IdSet = set.parse().map_err(|error| format!("--ranks {set}: {error}"))?;
                set.iter().collect()
            };
            for broker in &brokers {
                if !membership.online.contains_key(broker) {
                    let pod = overlay.config().display_name(*broker);
                    return Err(format!("rank {broker} ({pod}) is not connected"));
                }
            }
            if brokers.is_empty() {
                return Err("no ranks given".to_string());
            }
            let brokers = brokers.into_iter().map(|broker| (broker, 1)).collect();
            Ok(Placement { brokers, distribution: Distribution::Block })
        }
        Where::Allotted(shares) => {
            for Share { broker, .. } in shares {
                if whole && !membership.online.contains_key(broker) {
                    let pod = overlay.config().display_name(*broker);
                    return Err(format!("rank {broker} ({pod}) is not connected any more"));
                }
            }
            let brokers = shares.iter().map(|share| (share.broker, share.tasks)).collect();
            Ok(Placement { brokers, distribution })
        }
    }
}

/// Whether some machine gets more tasks than it has CPUs. Pods that do not know their node are
/// taken to share one: a needless yield costs little, a missing one a factor of twenty.
pub(super) fn crowded(membership: &Membership, placement: &Placement) -> bool {
    let mut machines: HashMap<Option<&str>, (u32, BTreeSet<u32>, u32)> = HashMap::new();
    for (broker, count) in &placement.brokers {
        let Some(member) = membership.online.get(broker) else { continue };
        let inventory = &member.inventory;
        let machine = machines.entry(inventory.node.as_deref()).or_default();
        machine.0 += count;
        machine.1.extend(&inventory.cpus);
        let quota = inventory.quota_millicpus.map_or(u32::MAX, |millis| (millis / 1000).max(1));
        machine.2 += u32::from(*count > quota.min(inventory.cpus.len() as u32));
    }
    machines.values().any(|(tasks, cpus, pods)| *pods > 0 || *tasks as usize > cpus.len())
}

/// Whether two brokers of a job are on one host, which pods never are: each has its own name.
pub(super) fn one_host(membership: &Membership, placement: &Placement) -> bool {
    let mut hosts = BTreeSet::new();
    let known = placement.brokers.iter().filter_map(|(broker, _)| membership.online.get(broker));
    known.into_iter().any(|member| !hosts.insert(member.inventory.host.as_str()))
}

/// A name for the job's key-value space that nobody can guess.
pub(super) fn namespace() -> Result<String, getrandom::Error> {
    let mut random = [0; 12];
    getrandom::fill(&mut random)?;
    Ok(random.iter().fold(String::from("q-"), |name, byte| format!("{name}{byte:02x}")))
}

/// The request of a cluster's own parallel program: all pods share its tasks.
pub fn program(parallel: &Parallel) -> Request {
    let ask = Ask {
        tasks: match (parallel.tasks, parallel.tasks_per_node) {
            (Some(tasks), _) => Tasks::Exactly(tasks),
            (None, Some(_)) => Tasks::PerNode,
            (None, None) => Tasks::PerSlot,
        },
        nodes: None,
        tasks_per_node: parallel.tasks_per_node,
        cpus_per_task: parallel.cpus_per_task,
        oversubscribe: parallel.oversubscribe,
        spread: Spread::Even,
        distribution: Distribution::Block,
    };
    Request {
        command: Command {
            argv: parallel.argv.clone(),
            env: Difference::adding(&parallel.env),
            cwd: parallel.working_dir.clone(),
            cwd_required: parallel.working_dir.is_some(),
            mpi: parallel.mpi.as_str().to_string(),
            cpus_per_task: parallel.cpus_per_task,
            ..Command::default()
        },
        place: Where::Slots(ask),
        no_kill: false,
        instance: false,
        queued: None,
        keeps: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{Inventory, Member};
    use quorate_contract::status::BrokerState;
    use std::sync::Arc;

    /// Host, node, CPUs and quota of a pod.
    type Pod<'a> = (&'a str, Option<&'a str>, &'a [u32], Option<u32>);

    fn membership(pods: &[Pod<'_>]) -> Membership {
        let online = (0..).zip(pods).map(|(rank, (host, node, cpus, quota))| {
            let inventory = Inventory {
                slots: cpus.len() as u32,
                cpus: cpus.to_vec(),
                quota_millicpus: *quota,
                host: (*host).to_string(),
                node: node.map(str::to_owned),
                ..Inventory::default()
            };
            (rank, Member { inventory: Arc::new(inventory), torpid: false, draining: false })
        });
        let size = pods.len() as u32;
        Membership {
            state: BrokerState::Run,
            size,
            wanted: size,
            free_from: None,
            online: online.collect(),
        }
    }

    fn each(tasks: u32, brokers: u32) -> Placement {
        let brokers = (0..brokers).map(|broker| (broker, tasks)).collect();
        Placement { brokers, distribution: Distribution::Block }
    }

    #[test]
    fn pods_that_share_a_machine_are_crowded_together() {
        let two = membership(&[("a", Some("n1"), &[0, 1], None), ("b", Some("n1"), &[0, 1], None)]);
        assert!(!crowded(&two, &each(1, 2)));
        assert!(crowded(&two, &each(2, 2)));
        let apart =
            membership(&[("a", Some("n1"), &[0, 1], None), ("b", Some("n2"), &[0, 1], None)]);
        assert!(!crowded(&apart, &each(2, 2)));
        // A quota crowds a pod even when its machine is empty.
        let quota = membership(&[("a", Some("n1"), &[0, 1, 2, 3], Some(1500))]);
        assert!(!crowded(&quota, &each(1, 1)));
        assert!(crowded(&quota, &each(2, 1)));
    }

    #[test]
    fn brokers_of_one_host_are_known_by_its_name() {
        let pods = membership(&[("a", None, &[0], None), ("b", None, &[0], None)]);
        assert!(!one_host(&pods, &each(1, 2)));
        let test = membership(&[("vm", None, &[0], None), ("vm", None, &[0], None)]);
        assert!(one_host(&test, &each(1, 2)));
        assert!(!one_host(&test, &each(1, 1)));
    }

    #[test]
    fn a_cluster_s_own_program_uses_all_pods() {
        let parallel = Parallel { argv: vec!["x".into()], tasks: Some(3), ..Parallel::default() };
        let Where::Slots(ask) = program(&parallel).place else { panic!("by slots") };
        assert_eq!((ask.tasks, ask.spread, ask.nodes), (Tasks::Exactly(3), Spread::Even, None));
        let per_node = Parallel { tasks: None, tasks_per_node: Some(2), ..parallel.clone() };
        let Where::Slots(ask) = program(&per_node).place else { panic!("by slots") };
        assert_eq!((ask.tasks, ask.tasks_per_node), (Tasks::PerNode, Some(2)));
        let all = Parallel { tasks: None, ..parallel };
        let Where::Slots(ask) = program(&all).place else { panic!("by slots") };
        assert_eq!(ask.tasks, Tasks::PerSlot);
    }

    #[test]
    fn namespaces_cannot_be_guessed_and_fit_the_wires() {
        let (one, two) = (namespace().unwrap(), namespace().unwrap());
        assert_ne!(one, two);
        assert_eq!(one.len(), 26);
    }
}
