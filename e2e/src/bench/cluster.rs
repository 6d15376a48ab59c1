//! How quickly MiniClusters work on real nodes, and how quickly they do again when something is lost.
//!
//! Times of programs are those that containerd wrote beside their first lines: no poll is in them.

mod bare;
mod look;

use crate::Lab;
use crate::bench::agent::{self, Containers};
use crate::bench::figure::{Figure, say};
use crate::bench::{plan, recovery};
use anyhow::{Context as _, Result};
use k8s_openapi::jiff::Timestamp;
use quorate_testbed::Shape;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

pub(crate) use look::{IMAGE, LIMIT, Site, is_launcher, main_container, seconds_between};

/// The line that programs print first.
pub(crate) const LINE: &str = "first line";
const NODES: u8 = 3;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Clusters of each kind; half as many losses of each kind.
    pub rounds: usize,
    /// Where the cluster's logs are kept.
    pub logs: Option<PathBuf>,
}

/// Measures everything.
pub fn run(options: &Options) -> Result<()> {
    plan::run()?;
    agent::size()?;
    let shape = Shape {
        name: "bench-cluster".into(),
        nodes: NODES,
        // Kubernetes must not send new pods to a node for 40 s after it was lost.
        fast_eviction: true,
        logs: options.logs.clone(),
        ..Shape::default()
    };
    let nodes: Vec<_> = shape.nodes().collect();
    let lab = Lab::up(shape);
    let containers = Containers::listen(&lab.cluster, nodes)?;
    let site = Site::new(&lab)?;
    let installed = first_lines(&site, &containers, options.rounds)?;
    containers.tell(&installed)?;
    quorum(&site, options.rounds.div_ceil(2))?;
    recovery::run(&site, options.rounds)?;
    drop(containers);
    lab.cluster.down()?;
    Ok(())
}

/// From the last pod that runs to a cluster that is quorate.
fn quorum(site: &Site<'_>, rounds: usize) -> Result<()> {
    const SIZE: usize = 16;
    let mut samples = Vec::new();
    for round in 0..rounds {
        let name = format!("quorum-{round}");
        say(format!("== {SIZE} pods until quorate, {}/{rounds}", round + 1));
        let (clusters, pods) = (site.watch_cluster(&name)?, site.watch_pods(&name)?);
        site.create(&name, &json!({ "size": SIZE, "image": IMAGE }))?;
        let mut running = BTreeSet::new();
        let last = pods.until(LIMIT, "all pods run", |event| {
            if event.object.status["phase"] == "Running" {
                running.insert(event.object.metadata.name.clone());
            }
            running.len() == SIZE
        })?;
        let quorate = clusters.until(LIMIT, "it is quorate", |event| {
            look::condition(&event.object.status, "Quorate")
        })?;
        samples.push(quorate.at.saturating_duration_since(last.at).as_secs_f64());
        site.delete(&name)?;
    }
    Figure::new(format!("{SIZE} pods: last Running to Quorate"), "s", &samples).target(2.0).tell();
    Ok(())
}

/// From the creation of a cluster to its program's first line, in turn with a bare JobSet of the same
/// pods. Answers the IDs of the containers that brought the agent.
fn first_lines(
    site: &Site<'_>,
    containers: &Containers,
    rounds: usize,
) -> Result<BTreeSet<String>> {
    const SIZE: usize = 4;
    let (mut ours, mut launcher, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let mut installed = BTreeSet::new();
    // The first round is not counted: caches of nodes are cold.
    for round in 0..=rounds {
        say(format!("== {SIZE} pods until the first line, {round}/{rounds}"));
        let name = format!("line-{round}");
        let clusters = site.watch_cluster(&name)?;
        let program = json!({ "command": ["sh", "-c", format!("echo {LINE}")] });
        let created = Timestamp::now();
        site.create(&name, &json!({ "size": SIZE, "image": IMAGE, "program": program }))?;
        clusters.until(LIMIT, "it has succeeded", |event| {
            look::condition(&event.object.status, "Succeeded")
        })?;
        let pods = site.pods(&name)?;
        let first = pods.iter().find(|pod| is_launcher(pod)).context("no launcher")?;
        let line = site.line(first, LINE, created)?.context("the program said nothing")?;
        for pod in &pods {
            say(course(pod, containers, created));
        }
        let bare = bare::first_lines(site, &format!("bare-{round}"), SIZE)?;
        if round > 0 {
            ours.push(seconds_between(created, line));
            launcher.push(bare.launcher);
            all.push(bare.all);
            installed.extend(pods.iter().filter_map(look::installer));
        }
        site.delete(&name)?;
    }
    let ratios: Vec<f64> = ours.iter().zip(&launcher).map(|(ours, bare)| ours / bare).collect();
    let what = format!("{SIZE} pods: create to first line");
    Figure::new(&what, "s", &ours).tell();
    Figure::new(&what, "s", &launcher).peer("JobSet's launcher").tell();
    Figure::new("all pods' first lines", "s", &all).peer("JobSet").tell();
    Figure::new("first line, ratio to the bare launcher", "x", &ratios).target(1.5).tell();
    Ok(installed)
}

/// What happened when in a pod, in seconds since the cluster was created.
fn course(pod: &Value, containers: &Containers, created: Timestamp) -> String {
    let since = |container: Option<String>, started| {
        let at = container.and_then(|id| containers.moment(&id, started));
        at.map_or("?".to_owned(), |at| format!("{:.2}", seconds_between(created, at)))
    };
    let (init, main) = (look::installer(pod), main_container(pod));
    format!(
        "  {}: agent brought {} to {}, main container {} s",
        look::name(pod),
        since(init.clone(), true),
        since(init, false),
        since(main, true)
    )
}
