//! JobSets without Quorate: what Kubernetes needs by itself, for pods as Quorate plans them and for pods
//! with nothing in them.

use super::look::{IMAGE, LIMIT, Site, is_launcher, seconds_between};
use super::{LINE, echo};
use crate::bench::objects::{collection, minicluster_of, planned};
use crate::bench::watch::{Depth, Watch};
use anyhow::{Context as _, Result};
use k8s_openapi::jiff::Timestamp;
use quorate_plan::{Delivery, labels};
use serde_json::{Value, json};

/// Seconds from the creation to first lines.
pub(super) struct Bare {
    /// That of the launcher, which waits for nobody.
    pub launcher: f64,
    /// The last of all pods' first lines.
    pub all: f64,
}

/// Runs a JobSet of the pods that a MiniCluster of this spec becomes, with the agent's image as a volume, and
/// `echo` in the place of the agent. Its launcher and workers are all there is: nobody looks after them.
pub(super) fn same_pods(site: &Site<'_>, name: &str, spec: &Value) -> Result<Bare> {
    let plan = planned(&minicluster_of(name, spec), Delivery::Image)?;
    let secret = serde_json::to_value(&plan.secret).context("render the Secret")?;
    let jobset = serde_json::to_value(&plan.jobset).context("render the JobSet")?;
    let secrets = collection("v1", "secrets");
    site.api.create(&secrets, &ownerless(secret))?;
    let bare = first_lines(site, name, &without_quorate(ownerless(jobset))?)?;
    let secret = plan.secret.metadata.name.unwrap_or_default();
    site.api.delete(&format!("{secrets}/{secret}"))?;
    Ok(bare)
}

/// Runs a JobSet of as many pods with nothing in them but `echo`.
pub(super) fn plain_pods(site: &Site<'_>, name: &str, size: usize) -> Result<Bare> {
    first_lines(site, name, &plain(name, size))
}

/// Runs one to its end.
fn first_lines(site: &Site<'_>, name: &str, jobset: &Value) -> Result<Bare> {
    let jobsets = collection("jobset.x-k8s.io/v1alpha2", "jobsets");
    let field = format!("{jobsets}?fieldSelector=metadata.name%3D{name}");
    let watch = Watch::start(site.folder(), &field, Depth::Status)?;
    let created = Timestamp::now();
    site.api.create(&jobsets, jobset)?;
    watch.until(LIMIT, "the bare JobSet has completed", |event| {
        event.object.status["terminalState"] == "Completed"
    })?;
    let selector = format!("jobset.sigs.k8s.io/jobset-name%3D{name}");
    let pods = site.pods_by(&selector)?;
    let mut bare = Bare { launcher: 0.0, all: 0.0 };
    for pod in &pods {
        let line = site.line(pod, LINE, created)?.context("a bare pod said nothing")?;
        let span = seconds_between(created, line);
        bare.all = bare.all.max(span);
        if is_launcher(pod) {
            bare.launcher = span;
        }
    }
    site.api.delete(&format!("{jobsets}/{name}"))?;
    // Their end must not lie in the next measurement.
    site.gone(&selector)?;
    Ok(bare)
}

/// There is no MiniCluster to belong to, nor is this a controller's to look at.
fn ownerless(mut object: Value) -> Value {
    object["metadata"]["ownerReferences"] = Value::Null;
    object["metadata"]["namespace"] = Value::Null;
    if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
        labels.remove(labels::CLUSTER);
    }
    object
}

/// The same pods with `echo` for the agent: what remains is what a pod is made of, and who may run it.
fn without_quorate(mut jobset: Value) -> Result<Value> {
    // All of them have to say their line.
    jobset["spec"]["successPolicy"] = Value::Null;
    let groups = jobset["spec"]["replicatedJobs"].as_array_mut();
    for group in groups.context("a JobSet has replicated jobs")? {
        for place in ["/template", "/template/spec/template"] {
            let object = group.pointer_mut(place).context("a template has a template")?;
            *object = ownerless(object.take());
        }
        let main = group.pointer_mut("/template/spec/template/spec/containers/0");
        let main = main.context("a pod has a container")?;
        main["command"] = echo();
        // It asks the agent.
        main["readinessProbe"] = Value::Null;
    }
    Ok(jobset)
}

fn plain(name: &str, size: usize) -> Value {
    let job = |role: &str, pods: usize| {
        json!({
            "name": role,
            "template": { "spec": {
                "parallelism": pods,
                "completions": pods,
                "completionMode": "Indexed",
                "backoffLimit": 0,
                "template": { "spec": {
                    "restartPolicy": "Never",
                    "containers": [{ "name": "main", "image": IMAGE, "command": echo() }],
                } },
            } },
        })
    };
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": { "name": name },
        "spec": { "replicatedJobs": [job("launcher", 1), job("worker", size - 1)] },
    })
}
