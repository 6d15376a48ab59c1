//! The JobSet: one replicated job for the launcher and one for each worker group.
//!
//! Everything that JobSet's webhook would fill in is set here, so that nothing hangs on it. How
//! failures are dealt with is in `docs/adr/0001-recovery.md`.

use k8s_openapi::api::batch::v1::{
    JobSpec, JobTemplateSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::ValidatedMiniCluster;
use quorate_api::jobset::{
    FailurePolicy, FailurePolicyAction, FailurePolicyRule, JobSet, JobSetSpec, Network, Operator,
    ReplicatedJob, RestartStrategy, StartupOrder, StartupPolicy, SuccessPolicy, job_failure,
};
use quorate_api::names::LAUNCHER;
use quorate_api::validate::{ValidatedGroup, ValidatedProgram};

use crate::identity::identity;
use crate::{Context, labels, meta, names, pod};

/// How often one index of a worker Job may fail before the Job does. The delays between, doubling
/// from 10 s up to 10 min, make that 50 minutes.
const LOSSES_PER_INDEX: i32 = 10;

pub(crate) fn jobset(cluster: &ValidatedMiniCluster, context: &Context) -> JobSet {
    let spec = JobSetSpec {
        replicated_jobs: cluster
            .groups
            .iter()
            .map(|group| replicated_job(cluster, group, context))
            .collect(),
        network: Some(Network {
            enable_dns_hostnames: Some(true),
            subdomain: Some(cluster.subdomain.clone()),
            publish_not_ready_addresses: Some(true),
        }),
        success_policy: Some(SuccessPolicy {
            operator: Operator::All,
            target_replicated_jobs: vec![LAUNCHER.to_owned()],
        }),
        failure_policy: Some(failure_policy(cluster)),
        startup_policy: Some(StartupPolicy { startup_policy_order: StartupOrder::AnyOrder }),
        suspend: cluster.suspend,
        // The MiniCluster is what is deleted, once its status tells the end: a time to live of the
        // JobSet could take the pods' last words before anyone has read them.
        ttl_seconds_after_finished: None,
        managed_by: None,
    };
    let mut metadata = meta::object(cluster, names::jobset(cluster));
    metadata.annotations = Some([(labels::SPEC_HASH.to_owned(), identity(cluster))].into());
    JobSet { metadata, spec, status: None }
}

fn replicated_job(
    cluster: &ValidatedMiniCluster,
    group: &ValidatedGroup,
    context: &Context,
) -> ReplicatedJob {
    let pods = group.size.cast_signed();
    let launcher = group.name.as_str() == LAUNCHER;
    let mut job = JobSpec {
        parallelism: Some(pods),
        completions: Some(pods),
        completion_mode: Some("Indexed".to_owned()),
        // Two pods of one rank would fight over it.
        pod_replacement_policy: Some("Failed".to_owned()),
        template: pod::template(cluster, group, context),
        ..JobSpec::default()
    };
    if launcher {
        job.backoff_limit = Some(0);
        job.active_deadline_seconds = cluster.active_deadline_seconds.map(i64::from);
        job.pod_failure_policy = Some(on_disruption("FailJob"));
    } else {
        job.backoff_limit = Some(i32::MAX);
        job.backoff_limit_per_index = Some(LOSSES_PER_INDEX);
        job.max_failed_indexes = Some(0);
        job.pod_failure_policy = Some(on_disruption(match cluster.program {
            ValidatedProgram::None => "Ignore",
            ValidatedProgram::Command { .. } | ValidatedProgram::Parallel(_) => "FailJob",
        }));
    }
    ReplicatedJob {
        name: group.name.to_string(),
        group_name: "default".to_owned(),
        replicas: 1,
        template: JobTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(labels::of_pod(cluster, group.name.as_str())),
                ..ObjectMeta::default()
            }),
            spec: Some(job),
        },
    }
}

/// Pods that Kubernetes itself took away: drain, preemption, eviction, a lost node.
fn on_disruption(action: &str) -> PodFailurePolicy {
    PodFailurePolicy {
        rules: vec![PodFailurePolicyRule {
            action: action.to_owned(),
            on_exit_codes: None,
            on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
                type_: "DisruptionTarget".to_owned(),
                status: Some("True".to_owned()),
            }]),
        }],
    }
}

fn failure_policy(cluster: &ValidatedMiniCluster) -> FailurePolicy {
    let mut rules = Vec::new();
    if cluster.active_deadline_seconds.is_some() {
        rules.push(FailurePolicyRule {
            name: "deadline".to_owned(),
            action: FailurePolicyAction::FailJobSet,
            on_job_failure_reasons: vec![job_failure::DEADLINE_EXCEEDED.to_owned()],
            on_job_failure_message_patterns: Vec::new(),
            target_replicated_jobs: vec![LAUNCHER.to_owned()],
        });
    }
    // The only pod failure policy that fails a Job is the one on disruptions.
    rules.push(FailurePolicyRule {
        name: "disruption".to_owned(),
        action: FailurePolicyAction::RestartJobSetAndIgnoreMaxRestarts,
        on_job_failure_reasons: vec![job_failure::POD_FAILURE_POLICY.to_owned()],
        on_job_failure_message_patterns: Vec::new(),
        target_replicated_jobs: Vec::new(),
    });
    FailurePolicy {
        max_restarts: cluster.max_restarts.cast_signed(),
        restart_strategy: Some(RestartStrategy::BlockingRecreate),
        rules,
    }
}
