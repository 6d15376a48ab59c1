//! A JobSet of the same pods without Quorate: what Kubernetes needs by itself.

use super::LINE;
use super::look::{IMAGE, LIMIT, Site, is_launcher, seconds_between};
use crate::bench::objects::collection;
use crate::bench::watch::{Depth, Watch};
use anyhow::{Context as _, Result};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// Seconds from the creation to first lines.
pub(super) struct Bare {
    /// That of the launcher.
    pub launcher: f64,
    /// The last of all pods' first lines.
    pub all: f64,
}

/// Runs one to its end.
pub(super) fn first_lines(site: &Site<'_>, name: &str, size: usize) -> Result<Bare> {
    let jobsets = collection("jobset.x-k8s.io/v1alpha2", "jobsets");
    let field = format!("{jobsets}?fieldSelector=metadata.name%3D{name}");
    let watch = Watch::start(site.folder(), &field, Depth::Status)?;
    let created = Timestamp::now();
    site.api.create(&jobsets, &jobset(name, size))?;
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

fn jobset(name: &str, size: usize) -> Value {
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
                    "containers": [{
                        "name": "main",
                        "image": IMAGE,
                        "command": ["sh", "-c", format!("echo {LINE}")],
                    }],
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
