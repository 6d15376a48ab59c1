//! A cluster with Quorate in it, as benchmarks see it: objects, pods, logs with their times.

use crate::bench::objects::{collection_in, minicluster_of};
use crate::bench::watch::{Depth, Kind, Watch};
use crate::{Lab, NAMESPACE};
use anyhow::{Context as _, Result, bail};
use k8s_openapi::jiff::Timestamp;
use quorate_plan::labels;
use quorate_testbed::api::Api;
use quorate_testbed::layout::Folder;
use serde_json::Value;
use std::thread;
use std::time::{Duration, Instant};

/// For whatever is waited for.
pub(crate) const LIMIT: Duration = Duration::from_mins(4);
/// Nothing new for so long is quiet.
const CALM: Duration = Duration::from_secs(3);
/// The image of the programs.
pub(crate) const IMAGE: &str = "localhost/mpi-debian:v1";

/// The cluster and a way to its API.
pub(crate) struct Site<'a> {
    /// The cluster.
    pub lab: &'a Lab,
    /// The API.
    pub api: Api,
    /// Where its MiniClusters are.
    namespace: &'static str,
}

impl<'a> Site<'a> {
    pub(super) fn new(lab: &'a Lab) -> Result<Self> {
        Self::within(lab, NAMESPACE)
    }

    /// The same cluster, with MiniClusters of another namespace.
    pub(super) fn within(lab: &'a Lab, namespace: &'static str) -> Result<Self> {
        Ok(Self { lab, api: Api::outside(lab.cluster.folder())?, namespace })
    }

    fn miniclusters(&self) -> String {
        collection_in(self.namespace, "quorate.dev/v1alpha1", "miniclusters")
    }

    fn all_pods(&self) -> String {
        collection_in(self.namespace, "v1", "pods")
    }

    pub(crate) fn folder(&self) -> &Folder {
        self.lab.cluster.folder()
    }

    /// Creates a MiniCluster.
    pub(crate) fn create(&self, name: &str, spec: &Value) -> Result<()> {
        Ok(self.api.create(&self.miniclusters(), &minicluster_of(name, spec))?)
    }

    /// Deletes a MiniCluster and waits until its pods are gone.
    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        let pods = self.watch_pods(name)?;
        let mut left = self.pods(name)?.len();
        self.api.delete(&format!("{}/{name}", self.miniclusters()))?;
        if left > 0 {
            pods.until(LIMIT, "the pods are gone", |event| {
                left -= usize::from(event.kind == Kind::Deleted);
                left == 0
            })?;
        }
        Ok(())
    }

    /// Waits until the status says that so many brokers are online, and has said so for a while: what
    /// brokers did before shows late.
    pub(crate) fn online(&self, name: &str, count: usize) -> Result<()> {
        let path = format!("{}/{name}", self.miniclusters());
        let watch = self.watch_cluster(name)?;
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            let calm = watch.next(Instant::now() + CALM)?.is_none();
            if calm && self.api.get(&path)?["status"]["online"] == count {
                return Ok(());
            }
        }
        bail!("{name} never had {count} brokers online")
    }

    /// Changes of one MiniCluster.
    pub(crate) fn watch_cluster(&self, name: &str) -> Result<Watch> {
        let path = format!("{}?fieldSelector=metadata.name%3D{name}", self.miniclusters());
        Watch::start(self.folder(), &path, Depth::Status)
    }

    /// Changes of its pods.
    pub(crate) fn watch_pods(&self, name: &str) -> Result<Watch> {
        let path = format!("{}?labelSelector={}", self.all_pods(), of_cluster(name));
        Watch::start(self.folder(), &path, Depth::Status)
    }

    /// The pods of a MiniCluster.
    pub(crate) fn pods(&self, name: &str) -> Result<Vec<Value>> {
        self.pods_by(&of_cluster(name))
    }

    pub(super) fn pods_by(&self, selector: &str) -> Result<Vec<Value>> {
        let list = self.api.get(&format!("{}?labelSelector={selector}", self.all_pods()))?;
        Ok(list["items"].as_array().context("a list has items")?.clone())
    }

    /// Waits until no pod has these labels.
    pub(super) fn gone(&self, selector: &str) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while !self.pods_by(selector)?.is_empty() {
            if Instant::now() > deadline {
                bail!("pods with {selector} stay");
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Deletes a pod as a user does.
    pub(crate) fn delete_pod(&self, pod: &Value) -> Result<()> {
        Ok(self.api.delete(&format!("{}/{}", self.all_pods(), name(pod)))?)
    }

    /// When a line with these words was written by a pod's main container, after `since`.
    pub(crate) fn line(
        &self,
        pod: &Value,
        words: &str,
        since: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let path = format!("{}/{}/log?container=main&timestamps=true", self.all_pods(), name(pod));
        let text = self.api.get(&path)?;
        let found = text.as_str().unwrap_or_default().lines().find_map(|line| {
            let (at, rest) = line.split_once(' ')?;
            let at: Timestamp = at.parse().ok()?;
            (at > since && rest.contains(words)).then_some(at)
        });
        Ok(found)
    }

    /// Waits for such a line.
    pub(crate) fn wait_for_line(
        &self,
        pod: &Value,
        words: &str,
        since: Timestamp,
    ) -> Result<Timestamp> {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.line(pod, words, since)? {
                return Ok(at);
            }
            if Instant::now() > deadline {
                bail!("{} never wrote {words:?} after {since}", name(pod));
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

fn of_cluster(name: &str) -> String {
    format!("{}%3D{name}", labels::CLUSTER.replace('/', "%2F"))
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Whether a pod is rank 0's.
pub(crate) fn is_launcher(pod: &Value) -> bool {
    pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] == "launcher"
}

/// Whether a condition holds.
pub(crate) fn condition(status: &Value, kind: &str) -> bool {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    all.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// The ID of the container that brought the agent.
pub(super) fn installer(pod: &Value) -> Option<String> {
    id(&pod["status"]["initContainerStatuses"][0])
}

/// The ID of the main container.
pub(crate) fn main_container(pod: &Value) -> Option<String> {
    let all = pod["status"]["containerStatuses"].as_array()?;
    id(all.iter().find(|one| one["name"] == "main")?)
}

fn id(status: &Value) -> Option<String> {
    status["containerID"].as_str()?.strip_prefix("containerd://").map(str::to_owned)
}

/// Seconds from one moment to another.
pub(crate) fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}
