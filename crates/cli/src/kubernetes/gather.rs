//! Reads what is known of a cluster with the rights of the user, for `quorate_observe` to judge.
//!
//! Only the MiniCluster itself must be readable. What else the user may not read is left out, and
//! told, so that an answer that knows less is not taken for the whole truth.

use super::exec;
use super::refuse::Asked;
use super::session::Session;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use quorate_api::jobset::{JobSet, label};
use quorate_api::{MiniCluster, Target, validate};
use quorate_contract::ClusterStatus;
use quorate_observe::{
    ContainerState, EventFacts, JobFacts, JobSetFacts, Live, Observed, Obstacle, PodFacts, Shape,
    WorkloadFacts,
};
use quorate_plan::labels;
use std::sync::Arc;
use std::time::Duration;

/// The most events of one answer, and Jobs of others that are read.
const EVENTS: u32 = 1000;
/// The most answers of events: a namespace keeps an hour of them, and a cluster's own are anywhere among
/// those of all others.
const ANSWERS: usize = 20;
/// How long the launcher's broker may take to answer: it is asked for the finer points only.
const ANSWER: Duration = Duration::from_secs(3);

/// What was seen, and what could not be.
pub(super) struct Gathered {
    pub(super) observed: Observed,
    /// Resources that could not be read, each with the reason.
    pub(super) unseen: Vec<String>,
}

/// Everything about one cluster.
pub(super) async fn gather(session: &Session, name: &str) -> anyhow::Result<Gathered> {
    let cluster = session.cluster(name).await?;
    let mut gathered = Box::pin(around(session, cluster)).await;
    let joining = {
        let launcher = gathered.observed.launcher();
        let running = launcher.filter(|pod| {
            pod.main
                .as_ref()
                .is_some_and(|main| matches!(main.state, ContainerState::Running { .. }))
        });
        running.map(|pod| (pod.name.clone(), pod.uid.clone(), container(pod)))
    };
    if let Some((pod, uid, container)) = joining {
        match live(session, &pod, container).await {
            Ok(status) => {
                gathered.observed.live = Some(Live { pod_uid: uid, at: Timestamp::now(), status });
            }
            Err(why) => gathered.unseen.push(format!("the launcher's broker ({why})")),
        }
    }
    Ok(gathered)
}

/// The main container's name, once the kubelet has said it.
pub(super) fn container(pod: &PodFacts) -> Option<String> {
    pod.main.as_ref().map(|main| main.name.clone())
}

/// The warnings of a namespace: nothing else explains why something does not run, and most events are none.
async fn warnings(events: &Api<Event>) -> kube::Result<Vec<Event>> {
    let mut list = ListParams::default().fields("type=Warning").limit(EVENTS);
    let mut found = Vec::new();
    for _ in 0..ANSWERS {
        let some = events.list(&list).await?;
        found.extend(some.items);
        match some.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => list = list.continue_token(&token),
            None => break,
        }
    }
    Ok(found)
}

/// What surrounds a MiniCluster that has been read.
pub(super) async fn around(session: &Session, cluster: MiniCluster) -> Gathered {
    let name = cluster.metadata.name.clone().unwrap_or_default();
    let (client, namespace) = (&session.client, session.namespace.as_str());
    let jobsets: Api<JobSet> = Api::namespaced(client.clone(), namespace);
    let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let of_jobset = ListParams::default().labels(&format!("{}={name}", label::JOBSET_NAME));
    let of_cluster = ListParams::default().labels(&format!("{}={name}", labels::CLUSTER));
    let pods = session.pods();
    let (jobset, jobs, pods, events, workloads) = tokio::join!(
        jobsets.get_opt(&name),
        jobs.list(&of_jobset),
        pods.list(&of_cluster),
        warnings(&events),
        workloads(session),
    );
    let mut unseen = Vec::new();
    let jobset = seen("JobSets", jobset, &mut unseen).flatten();
    let jobs = seen("Jobs", jobs, &mut unseen).map(|list| list.items).unwrap_or_default();
    let pods = seen("pods", pods, &mut unseen).map(|list| list.items).unwrap_or_default();
    let events = seen("events", events, &mut unseen).unwrap_or_default();
    let (shape, findings) = match validate(&cluster, Target::Kubernetes) {
        Ok(valid) => (Some(Arc::new(Shape::of(&valid))), valid.warnings),
        Err(findings) => (None, findings),
    };
    let obstacles = Obstacle::told(&cluster).into_iter().collect();
    let own = |event: &Event| {
        let about = event.regarding.as_ref().and_then(|object| object.name.as_deref());
        about.is_some_and(|about| {
            about.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
    };
    let uid = jobset.as_ref().and_then(|jobset| jobset.metadata.uid.clone()).unwrap_or_default();
    let jobset_acted =
        if jobs.is_empty() && jobset.is_some() { acted(session).await } else { None };
    let workload = workloads.iter().find(|workload| workload.owners.contains(&uid)).cloned();
    let preemptor = workload.as_ref().and_then(|workload| workload.preemptor());
    let preemptor =
        preemptor.and_then(|uid| workloads.iter().find(|workload| workload.uid == uid)).cloned();
    let observed = Observed {
        cluster: Arc::new(cluster),
        shape,
        findings,
        obstacles,
        jobset: jobset.map(|jobset| Arc::new(JobSetFacts::from_jobset(&jobset))),
        jobs: jobs.iter().map(|job| Arc::new(JobFacts::from_job(job))).collect(),
        pods: pods.iter().map(|pod| Arc::new(PodFacts::from_pod(pod))).collect(),
        live: None,
        workload: workload.map(Arc::new),
        preemptor: preemptor.map(Arc::new),
        events: events.iter().filter(|event| own(event)).map(EventFacts::from_event).collect(),
        jobset_acted,
    };
    Gathered { observed, unseen }
}

/// When JobSet last made a Job for a cluster of this namespace: who has much to do is not silent.
async fn acted(session: &Session) -> Option<Timestamp> {
    let jobs: Api<Job> = Api::namespaced(session.client.clone(), &session.namespace);
    let some = ListParams::default().labels(labels::CLUSTER).limit(EVENTS);
    let list = jobs.list_metadata(&some).await.ok()?;
    list.items.into_iter().filter_map(|job| Some(job.metadata.creation_timestamp?.0)).max()
}

/// Pods of one cluster.
pub(super) async fn pods(session: &Session, name: &str) -> anyhow::Result<Vec<PodFacts>> {
    let of_cluster = ListParams::default().labels(&format!("{}={name}", labels::CLUSTER));
    let list = session.pods().list(&of_cluster).await;
    let list = list.map_err(|error| session.refuse(&error, &Asked::pods("list", "pods")))?;
    Ok(list.items.iter().map(PodFacts::from_pod).collect())
}

/// Pods of all clusters of the namespace, with their clusters' names.
pub(super) async fn all_pods(session: &Session) -> anyhow::Result<Vec<(String, PodFacts)>> {
    let list = session.pods().list(&ListParams::default().labels(labels::CLUSTER)).await;
    let list = list.map_err(|error| session.refuse(&error, &Asked::pods("list", "pods")))?;
    let of = |pod: &Pod| pod.metadata.labels.as_ref()?.get(labels::CLUSTER).cloned();
    Ok(list.items.iter().filter_map(|pod| Some((of(pod)?, PodFacts::from_pod(pod)))).collect())
}

fn seen<T>(what: &str, result: kube::Result<T>, unseen: &mut Vec<String>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let why = match &error {
                kube::Error::Api(status) if status.code == 403 => {
                    "you may not read them".to_owned()
                }
                kube::Error::Api(status) if status.code == 404 => "not installed".to_owned(),
                other => other.to_string(),
            };
            unseen.push(format!("{what} ({why})"));
            None
        }
    }
}

/// Kueue's Workloads of the namespace. Where Kueue is not installed, or not for this user, there are
/// none to speak of.
async fn workloads(session: &Session) -> Vec<WorkloadFacts> {
    for version in ["v1beta2", "v1beta1"] {
        let kind = GroupVersionKind::gvk("kueue.x-k8s.io", version, "Workload");
        let resource = ApiResource::from_gvk_with_plural(&kind, "workloads");
        let api: Api<DynamicObject> =
            Api::namespaced_with(session.client.clone(), &session.namespace, &resource);
        let Ok(list) = api.list(&ListParams::default()).await else { continue };
        let values = list.items.iter().filter_map(|object| serde_json::to_value(object).ok());
        return values.map(|value| WorkloadFacts::from_json(&value)).collect();
    }
    Vec::new()
}

/// What the launcher's broker says of the cluster.
async fn live(
    session: &Session,
    pod: &str,
    container: Option<String>,
) -> Result<ClusterStatus, String> {
    let argv = [quorate_contract::paths::AGENT, "overlay", "status", "-o", "json"];
    let asked = exec::output(session, pod, container, &argv);
    let text = tokio::time::timeout(ANSWER, asked)
        .await
        .map_err(|_| format!("no answer within {} s", ANSWER.as_secs()))?
        .map_err(|error| error.to_string())?;
    serde_json::from_str(text.trim()).map_err(|_| "its answer is not readable".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    #[tokio::test]
    async fn a_warning_behind_a_thousand_other_events_is_seen() {
        // The server gives what it has in the order of names, and tells where to go on.
        let server = tower::service_fn(|request: Request<Body>| async move {
            let query = request.uri().query().unwrap_or_default().to_owned();
            assert!(query.contains("fieldSelector=type%3DWarning"), "{query}");
            let (name, next) =
                if query.contains("continue=more") { ("why", "") } else { ("arguments", "more") };
            let event = json!({"metadata": {"name": name}, "eventTime": null, "type": "Warning"});
            let list = json!({"metadata": {"continue": next}, "items": [event]});
            Ok::<_, tower::BoxError>(Response::new(Body::from(list.to_string().into_bytes())))
        });
        let client = kube::Client::new(server, "hpc");
        let found = warnings(&Api::namespaced(client, "hpc")).await.unwrap();
        let names: Vec<_> = found.iter().filter_map(|e| e.metadata.name.as_deref()).collect();
        assert_eq!(names, ["arguments", "why"]);
    }
}
