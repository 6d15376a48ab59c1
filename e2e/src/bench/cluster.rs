//! How quickly MiniClusters work on real nodes, and how quickly they do again when something is lost.
//!
//! Times of programs are those that containerd wrote beside their first lines: no poll is in them.

mod bare;
mod look;

use crate::bench::agent::{self, Containers};
use crate::bench::figure::{Figure, say};
use crate::bench::{plan, recovery};
use crate::{Lab, SYSTEM};
use anyhow::{Context as _, Result, anyhow};
use bare::Bare;
use k8s_openapi::jiff::Timestamp;
use quorate_testbed::{Runtime, Shape, build};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

pub(crate) use look::{IMAGE, LIMIT, Site, is_launcher, main_container, seconds_between};

/// The line that programs print first.
pub(crate) const LINE: &str = "first line";
const NODES: u8 = 3;
/// The namespace, and the release, whose MiniClusters get their agent as a volume.
const VOLUMES: &str = "volumes";

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Clusters of each kind; half as many losses of each kind.
    pub rounds: usize,
    /// First lines alone.
    pub first_lines: bool,
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
        // One that can mount the agent's image.
        runtime: Runtime::Containerd2,
        // Kubernetes must not send new pods to a node for 40 s after it was lost.
        fast_eviction: true,
        logs: options.logs.clone(),
        ..Shape::default()
    };
    let nodes: Vec<_> = shape.nodes().collect();
    let lab = Lab::up_with(shape, &["--set", "agent.delivery=copy,watch.namespaces={default}"]);
    install_for_volumes(&lab)?;
    let containers = Containers::listen(&lab.cluster, nodes)?;
    let site = Site::new(&lab)?;
    let volumes = Site::within(&lab, VOLUMES)?;
    let installed = first_lines(&site, &volumes, &containers, options.rounds)?;
    containers.tell(&installed)?;
    if !options.first_lines {
        quorum(&site, options.rounds.div_ceil(2))?;
        recovery::run(&site, options.rounds)?;
    }
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

/// A second controller, for clusters whose agent's image is a volume.
fn install_for_volumes(lab: &Lab) -> Result<()> {
    let said = |error: String| anyhow!("install the chart for {VOLUMES}: {error}");
    lab.kubectl(&["create", "namespace", VOLUMES]).map_err(said)?;
    let chart = build::workspace_root().join("charts/quorate").display().to_string();
    let values = "agent.delivery=image,crds.install=false,watch.namespaces={volumes}";
    lab.helm(&["install", VOLUMES, &chart, "--set", values]).map_err(said)?;
    let deployment = format!("deployment/{VOLUMES}");
    let wait = ["-n", SYSTEM, "rollout", "status", &deployment, "--timeout=120s"];
    lab.kubectl(&wait).map_err(said).map(drop)
}

/// From the creation of a cluster to its program's first line, with the agent copied and with its image
/// as a volume, in turn with bare JobSets: of the pods that the second of them has, and of pods with
/// nothing in them. Answers the IDs of the containers that brought the agent.
fn first_lines(
    copying: &Site<'_>,
    mounting: &Site<'_>,
    containers: &Containers,
    rounds: usize,
) -> Result<BTreeSet<String>> {
    const SIZE: usize = 4;
    let spec = json!({ "size": SIZE, "image": IMAGE, "program": { "command": echo() } });
    let (mut copied, mut mounted) = (Vec::new(), Vec::new());
    let (mut same, mut plain) = (Vec::new(), Vec::new());
    let mut installed = BTreeSet::new();
    // The first round is not counted: caches of nodes are cold.
    for round in 0..=rounds {
        say(format!("== {SIZE} pods until the first line, {round}/{rounds}"));
        let name = format!("line-{round}");
        let copy = first_line(copying, containers, &name, &spec)?;
        let mount = first_line(mounting, containers, &name, &spec)?;
        let bare = bare::same_pods(copying, &format!("same-{round}"), &spec)?;
        let bare_plain = bare::plain_pods(copying, &format!("plain-{round}"), SIZE)?;
        if round > 0 {
            copied.push(copy.seconds);
            mounted.push(mount.seconds);
            same.push(bare);
            plain.push(bare_plain);
            installed.extend(copy.installers);
        }
    }
    let what = format!("{SIZE} pods: create to first line");
    Figure::new(format!("{what}, agent copied"), "s", &copied).tell();
    Figure::new(format!("{what}, agent as a volume"), "s", &mounted).tell();
    let launcher = |bare: &Bare| bare.launcher;
    let all = |bare: &Bare| bare.all;
    for (name, bare) in [("JobSet of the same pods", &same), ("JobSet of plain pods", &plain)] {
        let seconds = |of: fn(&Bare) -> f64| bare.iter().map(of).collect::<Vec<_>>();
        Figure::new("the launcher's first line", "s", &seconds(launcher)).peer(name).tell();
        Figure::new("all pods' first lines", "s", &seconds(all)).peer(name).tell();
    }
    // A volume is what clusters get by themselves wherever nodes can mount one.
    let ratio = |ours: &[f64], bare: &[Bare], of: fn(&Bare) -> f64, to: &str| {
        let ratios: Vec<f64> = ours.iter().zip(bare).map(|(ours, bare)| ours / of(bare)).collect();
        Figure::new(format!("first line, ratio to {to}"), "x", &ratios)
    };
    ratio(&mounted, &same, launcher, "the launcher of the same pods").target(1.5).tell();
    // What the program waits for, and a bare launcher does not.
    ratio(&mounted, &same, all, "all of the same pods").tell();
    ratio(&mounted, &plain, launcher, "the launcher of plain pods").tell();
    ratio(&mounted, &plain, all, "all of plain pods").tell();
    ratio(&copied, &plain, launcher, "the launcher of plain pods, agent copied").tell();
    Ok(installed)
}

/// A program that says its line and ends.
fn echo() -> Value {
    json!(["sh", "-c", format!("echo {LINE}")])
}

/// A cluster's first line.
struct First {
    /// Seconds from its creation.
    seconds: f64,
    /// The containers that brought the agent.
    installers: Vec<String>,
}

/// Runs one to its end.
fn first_line(site: &Site<'_>, containers: &Containers, name: &str, spec: &Value) -> Result<First> {
    let clusters = site.watch_cluster(name)?;
    let created = Timestamp::now();
    site.create(name, spec)?;
    clusters.until(LIMIT, "it has succeeded", |event| {
        look::condition(&event.object.status, "Succeeded")
    })?;
    let pods = site.pods(name)?;
    let first = pods.iter().find(|pod| is_launcher(pod)).context("no launcher")?;
    let line = site.line(first, LINE, created)?.context("the program said nothing")?;
    for pod in &pods {
        say(course(pod, containers, created));
    }
    let seconds = seconds_between(created, line);
    say(format!("  the first line: {seconds:.2} s"));
    site.delete(name)?;
    Ok(First { seconds, installers: pods.iter().filter_map(look::installer).collect() })
}

/// What happened when in a pod, in seconds since the cluster was created.
fn course(pod: &Value, containers: &Containers, created: Timestamp) -> String {
    let since = |container: Option<String>, started| {
        let at = container.and_then(|id| containers.moment(&id, started));
        at.map_or("?".to_owned(), |at| format!("{:.2}", seconds_between(created, at)))
    };
    let name = look::name(pod);
    let main = since(main_container(pod), true);
    match look::installer(pod) {
        None => format!("  {name}: main container {main} s"),
        init => format!(
            "  {name}: agent brought {} to {}, main container {main} s",
            since(init.clone(), true),
            since(init, false)
        ),
    }
}
