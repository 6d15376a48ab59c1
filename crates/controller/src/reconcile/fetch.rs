//! Gathers what is known of a cluster: caches, what its launcher says, and what is remembered. No
//! request is made here, so a look at a quiet cluster costs the API server nothing.

use std::sync::Arc;

use quorate_api::MiniCluster;
use quorate_observe::Observed;

use super::compare::Seen;
use super::memory::Memory;
use crate::context::Context;
use crate::watch::Key;

/// What is known of a cluster now.
pub fn fetch(
    context: &Context,
    key: &Key,
    cluster: &Arc<MiniCluster>,
    memory: &mut Memory,
) -> Seen {
    let caches = &context.caches;
    let mut cluster = Arc::clone(cluster);
    let seen = cluster.metadata.resource_version.as_deref();
    match &memory.written {
        // The watch has not seen our own last write yet.
        Some(written) if seen == Some(&written.upon) => {
            let cluster = Arc::make_mut(&mut cluster);
            cluster.status = Some(written.status.clone());
            cluster.metadata.resource_version = Some(written.version.clone());
        }
        _ => memory.written = None,
    }
    let uid = memory.uid.clone();
    let own = |owners: Vec<Arc<crate::watch::Owner>>| owners.iter().any(|owner| owner.0 == uid);
    let orphan_timeout = u32::try_from(cluster.spec.orphan_timeout_seconds()).unwrap_or(0);
    let jobset = caches.jobsets.get(key, &key.name);
    // One of a former JobSet may still be there, before or behind it by name.
    let mut workloads = caches.workloads.of(key);
    workloads.sort_by_key(|workload| {
        jobset.as_ref().is_some_and(|jobset| workload.owners.contains(&jobset.uid))
    });
    let workload = workloads.pop();
    let preemptor = workload.as_ref().and_then(|workload| {
        let uid = workload.preemptor()?;
        caches.workloads.find(&key.namespace, |other| other.uid == uid)
    });
    let observed = Observed {
        cluster,
        jobset,
        jobs: caches.jobs.of(key),
        pods: caches.pods.of(key),
        workload,
        preemptor,
        events: caches.events.of(key).iter().map(|event| (**event).clone()).collect(),
        jobset_acted: caches.jobset_acted(),
        live: context.launchers.as_ref().and_then(|launchers| launchers.heard(key)),
        ..Observed::default()
    };
    Seen { observed, network_policy: own(caches.network_policies.of(key)), orphan_timeout }
}
