//! Which cluster or pod a word means.

use super::registry;
use crate::control::{Answer, Channel, Description, Request};
use crate::refusal::Refusal;
use crate::registry::Entry;

/// A cluster that runs.
#[derive(Debug)]
pub(super) struct Running {
    /// What its keeper says of it.
    pub(super) about: Description,
    /// The connection to its keeper.
    pub(super) keeper: Channel,
    /// Its directory.
    pub(super) entry: Entry,
}

/// All clusters of the registry, and what those that run say of themselves.
pub(super) fn clusters() -> anyhow::Result<(Vec<Running>, Vec<Entry>)> {
    let mut running = Vec::new();
    let mut ended = Vec::new();
    for entry in registry()?.entries() {
        match entry.running.then(|| describe(&entry)).flatten() {
            Some((about, keeper)) => running.push(Running { about, keeper, entry }),
            // A keeper that does not answer is starting or ending right now.
            None if entry.running => {}
            None => ended.push(entry),
        }
    }
    Ok((running, ended))
}

fn describe(entry: &Entry) -> Option<(Description, Channel)> {
    let keeper = Channel::connect(&entry.path).ok()?;
    keeper.send(&Request::Describe, &[]).ok()?;
    match keeper.receive::<Answer>().ok()?? {
        (Answer::Cluster(about), _) => Some((about, keeper)),
        _ => None,
    }
}

/// Where clusters are looked for, in words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grounds<'a> {
    /// `on this machine`, `in namespace hpc`.
    pub(crate) place: &'a str,
    /// How to get a cluster there.
    pub(crate) start: &'a str,
}

/// The clusters of this machine.
pub(super) const HERE: Grounds<'_> =
    Grounds { place: "on this machine", start: "start one that stays: `quorate run --keep FILE`" };

/// What a word means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The cluster.
    pub(crate) cluster: String,
    /// The pod's short name; none means the launcher.
    pub(crate) pod: Option<String>,
}

/// The cluster or pod that a word means, among clusters by name with their pods' short names.
pub(crate) fn resolve(
    word: Option<&str>,
    clusters: &[(String, Vec<String>)],
    grounds: &Grounds<'_>,
) -> Result<Target, Refusal> {
    let target = |cluster: &str, pod: Option<&str>| Target {
        cluster: cluster.to_owned(),
        pod: pod.map(str::to_owned),
    };
    let Some(word) = word else {
        return match clusters {
            [(only, _)] => Ok(target(only, None)),
            [] => Err(none_runs(grounds)),
            many => Err(Refusal::usage(format!("{} clusters run: name one", many.len()))
                .hint(format!("they are {}", names(many)))),
        };
    };
    if clusters.iter().any(|(name, _)| name == word) {
        return Ok(target(word, None));
    }
    let (cluster, pod) = if let Some((cluster, pod)) = word.split_once('/') {
        let cluster = clusters.iter().find(|(name, _)| name == cluster);
        let cluster = cluster.ok_or_else(|| unknown(word, clusters, grounds))?;
        // The host name is as good as the short one.
        let own = format!("{}-", cluster.0);
        (cluster, pod.strip_prefix(&own).unwrap_or(pod))
    } else {
        let by_host = clusters.iter().find_map(|cluster| {
            let pod = word.strip_prefix(&cluster.0)?.strip_prefix('-')?;
            cluster.1.iter().any(|known| known == pod).then_some((cluster, pod))
        });
        match (by_host, clusters) {
            (Some(found), _) => found,
            (None, [only]) => (only, word),
            _ => return Err(unknown(word, clusters, grounds)),
        }
    };
    if cluster.1.iter().any(|known| known == pod) {
        return Ok(target(&cluster.0, Some(pod)));
    }
    Err(Refusal::usage(format!("{} has no running pod {pod}", cluster.0))
        .hint(format!("its pods are {}", some(&cluster.1))))
}

fn none_runs(grounds: &Grounds<'_>) -> Refusal {
    Refusal::usage(format!("no cluster runs {}", grounds.place)).hint(grounds.start)
}

fn unknown(word: &str, clusters: &[(String, Vec<String>)], grounds: &Grounds<'_>) -> Refusal {
    if clusters.is_empty() {
        return Refusal::usage(format!("there is no cluster or pod {word}: no cluster runs here"))
            .hint(grounds.start);
    }
    Refusal::usage(format!("there is no cluster or pod {word}")).hint(format!(
        "the clusters are {}; `quorate ls -o wide` lists their pods",
        names(clusters)
    ))
}

fn names(clusters: &[(String, Vec<String>)]) -> String {
    some(&clusters.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>())
}

/// A list for a sentence, not longer than a line.
pub(crate) fn some(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}

/// The running cluster and the pod that a word means.
pub(super) fn find(word: Option<&str>) -> anyhow::Result<(Running, Option<String>)> {
    let (mut running, _) = clusters()?;
    let known: Vec<_> = running.iter().map(with_pods).collect();
    let target = resolve(word, &known, &HERE)?;
    let at = running
        .iter()
        .position(|r| r.about.name == target.cluster)
        .expect("resolve picks one of the clusters that it was given");
    Ok((running.swap_remove(at), target.pod))
}

fn with_pods(running: &Running) -> (String, Vec<String>) {
    let pods = running.about.pods.iter().map(|pod| pod.name.clone()).collect();
    (running.about.name.clone(), pods)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clusters(names: &[&str]) -> Vec<(String, Vec<String>)> {
        names
            .iter()
            .map(|n| ((*n).to_owned(), vec!["launcher-0-0".to_owned(), "worker-0-0".to_owned()]))
            .collect()
    }

    fn meaning(word: Option<&str>, names: &[&str]) -> (String, Option<String>) {
        let target = resolve(word, &clusters(names), &HERE).unwrap();
        (target.cluster, target.pod)
    }

    #[test]
    fn words_mean_clusters_and_pods() {
        let launcher = |name: &str| (name.to_owned(), None);
        let worker = |name: &str| (name.to_owned(), Some("worker-0-0".to_owned()));
        assert_eq!(meaning(None, &["a"]), launcher("a"));
        assert_eq!(meaning(Some("a"), &["a", "b"]), launcher("a"));
        assert_eq!(meaning(Some("b/worker-0-0"), &["a", "b"]), worker("b"));
        assert_eq!(meaning(Some("b/b-worker-0-0"), &["a", "b"]), worker("b"));
        assert_eq!(meaning(Some("b-worker-0-0"), &["a", "b"]), worker("b"));
        assert_eq!(meaning(Some("worker-0-0"), &["a"]), worker("a"));
    }

    #[test]
    fn what_means_nothing_gets_a_hint() {
        let cases: [(Option<&str>, &[&str], &str, &str); 6] = [
            (None, &[], "no cluster runs on this machine", "--keep"),
            (None, &["a", "b"], "2 clusters run: name one", "they are a, b"),
            (Some("c"), &["a", "b"], "there is no cluster or pod c", "the clusters are a, b"),
            (Some("c/x"), &["a"], "there is no cluster or pod c/x", "the clusters are a"),
            (Some("a/x"), &["a"], "a has no running pod x", "launcher-0-0, worker-0-0"),
            (Some("x"), &["a"], "a has no running pod x", "launcher-0-0, worker-0-0"),
        ];
        for (word, names, message, hint) in cases {
            let error = anyhow::Error::new(resolve(word, &clusters(names), &HERE).unwrap_err());
            let (text, _) = crate::refusal::render(&error);
            assert!(text.contains(message) && text.contains(hint), "{word:?}: {text}");
        }
    }
}
