//! Which pod a word means, on Kubernetes.

use super::gather;
use super::session::Session;
use crate::verbs::targets::{self, Grounds};
use quorate_observe::PodFacts;

/// A cluster and its pods that a word means.
#[derive(Debug)]
pub(super) struct Found {
    /// The cluster's name.
    pub(super) cluster: String,
    /// The pod, if the word names one.
    pub(super) pod: Option<PodFacts>,
    /// The youngest pod of each rank's name, the launcher first.
    pub(super) pods: Vec<PodFacts>,
}

impl Found {
    /// The pod that was named, else the launcher.
    pub(super) fn pod_or_launcher(&self) -> Option<&PodFacts> {
        self.pod.as_ref().or_else(|| self.pods.first())
    }
}

/// Looks a word up among the clusters of the namespace.
pub(super) async fn find(session: &Session, word: Option<&str>) -> anyhow::Result<Found> {
    let names = session.names().await?;
    let pods = gather::all_pods(session).await?;
    let place = format!("in namespace {}", session.namespace);
    let start = format!("start one: `quorate run{} FILE`", session.flags);
    resolve(word, &names, &pods, &Grounds { place: &place, start: &start }).map_err(Into::into)
}

/// The cluster and pod that a word means. Pods whose MiniCluster is gone are on their way out.
fn resolve(
    word: Option<&str>,
    names: &[String],
    pods: &[(String, PodFacts)],
    grounds: &Grounds<'_>,
) -> Result<Found, crate::refusal::Refusal> {
    // The full name of a pod, with its random end, as kubectl prints it.
    let by_name = word.and_then(|word| pods.iter().find(|(_, pod)| pod.name == word));
    let word = match by_name {
        Some((cluster, pod)) => Some(format!("{cluster}/{}", pod.short_name())),
        None => word.map(str::to_owned),
    };
    let mut clusters: Vec<(String, Vec<PodFacts>)> = names
        .iter()
        .map(|name| {
            let own = pods.iter().filter(|(cluster, _)| cluster == name);
            (name.clone(), youngest(own.map(|(_, pod)| pod.clone()).collect()))
        })
        .collect();
    let known: Vec<(String, Vec<String>)> = clusters
        .iter()
        .map(|(name, pods)| (name.clone(), pods.iter().map(PodFacts::short_name).collect()))
        .collect();
    let target = targets::resolve(word.as_deref(), &known, grounds)?;
    let at = clusters
        .iter()
        .position(|(name, _)| *name == target.cluster)
        .expect("resolve picks one of the clusters that it was given");
    let (cluster, pods) = clusters.swap_remove(at);
    let pod =
        target.pod.and_then(|wanted| pods.iter().find(|pod| pod.short_name() == wanted).cloned());
    Ok(Found { cluster, pod, pods })
}

/// The youngest pod of each name, the launcher first, then by group, Job and index.
pub(super) fn youngest(mut pods: Vec<PodFacts>) -> Vec<PodFacts> {
    let launcher = quorate_api::names::LAUNCHER;
    pods.sort_by(|a, b| {
        let key =
            |pod: &PodFacts| (pod.group != launcher, pod.group.clone(), pod.job_index, pod.index);
        key(a).cmp(&key(b)).then_with(|| {
            (b.attempt, b.deleting.is_none(), b.created).cmp(&(
                a.attempt,
                a.deleting.is_none(),
                a.created,
            ))
        })
    });
    pods.dedup_by_key(|pod| pod.short_name());
    pods
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(cluster: &str, group: &str, index: u32, attempt: u32) -> (String, PodFacts) {
        let facts = PodFacts {
            name: format!("{cluster}-{group}-0-{index}-abc{attempt}"),
            group: group.into(),
            index,
            attempt,
            ..PodFacts::default()
        };
        (cluster.to_owned(), facts)
    }

    fn found(word: Option<&str>) -> Found {
        let names = ["hello".to_owned(), "tools".to_owned()];
        let pods = vec![
            pod("hello", "worker", 0, 0),
            pod("hello", "worker", 0, 1),
            pod("hello", "launcher", 0, 1),
            pod("tools", "launcher", 0, 0),
            pod("gone", "launcher", 0, 0),
        ];
        let grounds = Grounds { place: "in namespace hpc", start: "start one" };
        resolve(word, &names, &pods, &grounds).unwrap()
    }

    #[test]
    fn a_cluster_is_its_launcher_and_the_youngest_pods_count() {
        let hello = found(Some("hello"));
        assert_eq!(hello.pod_or_launcher().unwrap().name, "hello-launcher-0-0-abc1");
        let names: Vec<&str> = hello.pods.iter().map(|pod| pod.name.as_str()).collect();
        assert_eq!(names, ["hello-launcher-0-0-abc1", "hello-worker-0-0-abc1"]);
    }

    #[test]
    fn pods_have_their_short_their_host_and_their_full_name() {
        for word in ["hello/worker-0-0", "hello-worker-0-0", "hello-worker-0-0-abc1"] {
            let found = found(Some(word));
            assert_eq!(found.pod.unwrap().name, "hello-worker-0-0-abc1", "{word}");
        }
    }

    #[test]
    fn what_there_is_not_is_refused_with_the_namespace() {
        let grounds = Grounds { place: "in namespace hpc", start: "start one" };
        let error = resolve(None, &[], &[], &grounds).unwrap_err();
        assert_eq!(error.to_string(), "no cluster runs in namespace hpc");
    }
}
