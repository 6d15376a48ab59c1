//! The JobSet: one replicated job for the launcher and one for each worker group.
//!
//! Everything that JobSet's webhook would fill in is set here, so that nothing hangs on it. How
//! failures are dealt with is in `docs/adr/0001-recovery.md`.

use k8s_openapi::api::batch::v1::{
    JobSpec, JobTemplateSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::ValidatedMiniCluster;
use quorate_api::jobset::{
    FailurePolicy, FailurePolicyAction, FailurePolicyRule, JobSet, JobSetSpec, Network, Operator,
    ReplicatedJob, RestartStrategy, StartupOrder, StartupPolicy, SuccessPolicy, job_failure,
};
use quorate_api::minicluster::OnWorkerLost;
use quorate_api::names::LAUNCHER;
use quorate_api::validate::{ValidatedGroup, ValidatedProgram};
use quorate_contract::exit;

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
    metadata.labels.get_or_insert_default().extend(cluster.queueing.labels.clone());
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(labels::SPEC_HASH.to_owned(), identity(cluster));
    // What is said of sets of pods belongs to their templates.
    let whole = cluster.queueing.annotations.iter().filter(|(key, _)| !labels::of_pod_set(key));
    annotations.extend(whole.map(|(key, value)| (key.clone(), value.clone())));
    JobSet { metadata, spec, status: None }
}

fn replicated_job(
    cluster: &ValidatedMiniCluster,
    group: &ValidatedGroup,
    context: &Context,
) -> ReplicatedJob {
    let pods = group.pods_per_job().cast_signed();
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
        self::launcher(cluster, &mut job);
    } else {
        workers(cluster, &mut job);
    }
    ReplicatedJob {
        name: group.name.to_string(),
        group_name: "default".to_owned(),
        replicas: group.jobs.cast_signed(),
        template: JobTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(labels::of_pod(cluster, group.name.as_str())),
                ..ObjectMeta::default()
            }),
            spec: Some(job),
        },
    }
}

/// Whether the launcher judges a program; without one it keeps a queue.
fn has_program(cluster: &ValidatedMiniCluster) -> bool {
    !matches!(cluster.program, ValidatedProgram::None)
}

/// What the end of the launcher's pod means to its Job. With a program it is the program's end. A
/// queue goes on in the next pod, beside the workers that are there.
fn launcher(cluster: &ValidatedMiniCluster, job: &mut JobSpec) {
    job.active_deadline_seconds = cluster.active_deadline_seconds.map(i64::from);
    let mut rules = Vec::new();
    if cluster.on_worker_lost == OnWorkerLost::Fail {
        rules.push(on_code(exit::BROKER_LOST));
    }
    if has_program(cluster) {
        job.backoff_limit = Some(0);
        rules.push(on_disruption("FailJob"));
    } else {
        job.backoff_limit = Some(LOSSES_PER_INDEX);
        // It has waited for as long as the user wants.
        rules.push(on_code(exit::BOOTSTRAP_TIMEOUT));
        rules.push(on_disruption("Ignore"));
    }
    job.pod_failure_policy = Some(PodFailurePolicy { rules });
}

/// What the loss of a pod means to a worker Job.
fn workers(cluster: &ValidatedMiniCluster, job: &mut JobSpec) {
    let program = has_program(cluster);
    let replaced = match cluster.on_worker_lost {
        OnWorkerLost::Replace => true,
        // The launcher finds out whether its program can go on.
        OnWorkerLost::Restart => program,
        OnWorkerLost::Fail => false,
    };
    if replaced {
        job.backoff_limit = Some(i32::MAX);
        job.backoff_limit_per_index = Some(LOSSES_PER_INDEX);
        job.max_failed_indexes = Some(0);
    } else {
        job.backoff_limit = Some(0);
    }
    let action = match cluster.on_worker_lost {
        OnWorkerLost::Replace => "Ignore",
        OnWorkerLost::Restart | OnWorkerLost::Fail => "FailJob",
    };
    job.pod_failure_policy = Some(PodFailurePolicy { rules: vec![on_disruption(action)] });
}

/// Pods that Kubernetes itself took away: drain, preemption, eviction, a lost node.
fn on_disruption(action: &str) -> PodFailurePolicyRule {
    PodFailurePolicyRule {
        action: action.to_owned(),
        on_exit_codes: None,
        on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
            type_: "DisruptionTarget".to_owned(),
            status: Some("True".to_owned()),
        }]),
    }
}

/// A launcher that ends with a code of the agent's own.
fn on_code(code: i32) -> PodFailurePolicyRule {
    PodFailurePolicyRule {
        action: "FailJob".to_owned(),
        on_exit_codes: Some(PodFailurePolicyOnExitCodesRequirement {
            container_name: None,
            operator: "In".to_owned(),
            values: vec![code],
        }),
        on_pod_conditions: None,
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
    let workers = cluster.groups.iter().map(|group| group.name.to_string());
    let workers: Vec<String> = workers.filter(|name| name != LAUNCHER).collect();
    if cluster.on_worker_lost == OnWorkerLost::Fail {
        // The Jobs of workers and the launcher fail together; whichever JobSet sees first decides.
        if !workers.is_empty() {
            rules.push(FailurePolicyRule {
                name: "workerLost".to_owned(),
                action: FailurePolicyAction::FailJobSet,
                on_job_failure_reasons: Vec::new(),
                on_job_failure_message_patterns: Vec::new(),
                target_replicated_jobs: workers.clone(),
            });
        }
        rules.push(FailurePolicyRule {
            name: "brokerLost".to_owned(),
            action: FailurePolicyAction::FailJobSet,
            on_job_failure_reasons: vec![job_failure::POD_FAILURE_POLICY.to_owned()],
            // Tells it from a disruption, which has the same reason.
            on_job_failure_message_patterns: vec![format!("exit code {} ", exit::BROKER_LOST)],
            target_replicated_jobs: vec![LAUNCHER.to_owned()],
        });
    }
    // From here on, a pod failure policy that fails a Job is the one on disruptions. No targets are all
    // Jobs; without a program a disruption of the launcher fails nothing.
    let disrupted = match cluster.on_worker_lost {
        _ if has_program(cluster) => Some(Vec::new()),
        OnWorkerLost::Replace => None,
        OnWorkerLost::Restart | OnWorkerLost::Fail => Some(workers).filter(|all| !all.is_empty()),
    };
    rules.extend(disrupted.map(|target_replicated_jobs| FailurePolicyRule {
        name: "disruption".to_owned(),
        action: FailurePolicyAction::RestartJobSetAndIgnoreMaxRestarts,
        on_job_failure_reasons: vec![job_failure::POD_FAILURE_POLICY.to_owned()],
        on_job_failure_message_patterns: Vec::new(),
        target_replicated_jobs,
    }));
    FailurePolicy {
        max_restarts: cluster.max_restarts.cast_signed(),
        restart_strategy: Some(RestartStrategy::BlockingRecreate),
        rules,
    }
}
