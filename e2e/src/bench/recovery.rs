//! How long four pods on three nodes take to work again after a loss: of a broker's process, of a worker's
//! pod, of a pod with a rank of the program, of a whole node.

use crate::bench::cluster::{self, LIMIT, LINE, Site, seconds_between};
use crate::bench::figure::{Figure, say};
use crate::bench::process;
use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use quorate_testbed::Node;
use serde_json::{Value, json};

/// Brokers of the clusters.
const SIZE: usize = 4;

/// Measures all of it.
pub(crate) fn run(site: &Site<'_>, rounds: usize) -> Result<()> {
    queue(site, rounds)?;
    program(site, rounds)
}

/// A cluster of four pods that go to different nodes as long as there are any.
fn spec(name: &str, more: Value) -> Value {
    let mut spec = json!({
        "size": SIZE,
        "slots": 1,
        "template": { "spec": {
            "containers": [{
                "name": "main",
                "image": cluster::IMAGE,
                // Rank 0 writes down who comes and goes.
                "env": [{ "name": "QUORATE_LOG", "value": "info" }],
            }],
            "topologySpreadConstraints": [{
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": { "matchLabels": { quorate_plan::labels::CLUSTER: name } },
            }],
        } },
    });
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    spec
}

/// Losses in a cluster without a program.
fn queue(site: &Site<'_>, rounds: usize) -> Result<()> {
    let name = "queue";
    let clusters = site.watch_cluster(name)?;
    site.create(name, &spec(name, json!({})))?;
    clusters.until(LIMIT, "all are online", |event| event.object.status["online"] == SIZE)?;
    let mut samples = Vec::new();
    for round in 0..rounds {
        say(format!("== a broker is killed, {}/{rounds}", round + 1));
        samples.push(kill_broker(site, name, 1 + round % (SIZE - 1))?);
    }
    Figure::new("broker killed to joined again", "s", &samples).target(1.0).tell();

    let mut samples = Vec::new();
    let rounds = rounds.div_ceil(2);
    site.online(name, SIZE)?;
    for round in 0..rounds {
        say(format!("== a worker's pod is deleted, {}/{rounds}", round + 1));
        let pods = site.pods(name)?;
        let pod = worker(&pods, round % (SIZE - 1))?;
        clusters.forget()?;
        let begun = Timestamp::now();
        site.delete_pod(pod)?;
        for online in [SIZE - 1, SIZE] {
            clusters.until(LIMIT, &format!("{online} are online"), |event| {
                event.object.status["online"] == online
            })?;
        }
        samples.push(seconds_between(begun, Timestamp::now()));
    }
    Figure::new("worker's pod deleted to all online", "s", &samples).target(12.0).tell();
    site.delete(name)
}

/// Kills the broker of a rank; seconds until rank 0 has it back.
fn kill_broker(site: &Site<'_>, name: &str, rank: usize) -> Result<f64> {
    let pods = site.pods(name)?;
    let launcher = pods.iter().find(|pod| cluster::is_launcher(pod)).context("no launcher")?;
    let container = cluster::main_container(worker(&pods, rank - 1)?);
    let inside = process::of_container(&container.context("the worker has no container")?);
    // The supervisor's parent is outside, the broker's is the supervisor.
    let supervised = |pid: &&u32| process::parent(**pid).is_some_and(|up| inside.contains(&up));
    let broker = *inside.iter().find(supervised).context("the worker has no broker")?;
    let begun = Timestamp::now();
    kill(Pid::from_raw(broker.cast_signed()), Signal::SIGKILL).context("kill the broker")?;
    let joined = site.wait_for_line(launcher, &format!("online rank={rank}"), begun)?;
    Ok(seconds_between(begun, joined))
}

/// Losses under a program that needs all ranks.
fn program(site: &Site<'_>, rounds: usize) -> Result<()> {
    let name = "ranks";
    let clusters = site.watch_cluster(name)?;
    let command = format!("echo {LINE}; sleep 3600");
    let program = json!({ "parallel": { "command": ["sh", "-c", command], "tasks": SIZE } });
    let policy = json!({ "maxRestarts": 100, "onWorkerLost": "Restart" });
    let more = json!({ "program": program, "failurePolicy": policy });
    site.create(name, &spec(name, more))?;
    let running = |attempt: usize| {
        clusters.until(LIMIT, &format!("attempt {attempt} runs"), |event| {
            let status = &event.object.status;
            status["attempt"] == attempt && status["state"] == "Running"
        })
    };
    running(0)?;
    let mut samples = Vec::new();
    let rounds = rounds.div_ceil(2);
    for round in 0..rounds {
        say(format!("== a rank's pod is deleted, {}/{rounds}", round + 1));
        let pods = site.pods(name)?;
        let begun = Timestamp::now();
        site.delete_pod(worker(&pods, round % (SIZE - 1))?)?;
        running(round + 1)?;
        samples.push(again(site, name, begun)?);
    }
    Figure::new("rank's pod lost to program running", "s", &samples).target(8.0).tell();

    say("== a node's link is cut");
    let pods = site.pods(name)?;
    let launcher = pods.iter().find(|pod| cluster::is_launcher(pod)).context("no launcher")?;
    let home = node(launcher);
    let far = pods.iter().map(node).find(|node| *node != home).context("all on one node")?;
    let lost = Node::parse(far).context("pods are on our nodes")?;
    let begun = Timestamp::now();
    site.lab.cluster.cut_node(lost)?;
    running(rounds + 1)?;
    let span = again(site, name, begun)?;
    let pods = site.pods(name)?;
    ensure!(pods.iter().all(|pod| node(pod) != far), "a pod is on {far}, which is cut off");
    Figure::new("node cut to program running elsewhere", "s", &[span]).target(30.0).tell();
    site.lab.cluster.heal_node(lost)?;
    site.delete(name)
}

/// Seconds until the program wrote its first line again.
fn again(site: &Site<'_>, name: &str, begun: Timestamp) -> Result<f64> {
    let pods = site.pods(name)?;
    let launcher = pods.iter().find(|pod| cluster::is_launcher(pod)).context("no launcher")?;
    Ok(seconds_between(begun, site.wait_for_line(launcher, LINE, begun)?))
}

/// The worker of this index.
fn worker(pods: &[Value], index: usize) -> Result<&Value> {
    let index = index.to_string();
    let is = |pod: &&Value| {
        let labels = &pod["metadata"]["labels"];
        !cluster::is_launcher(pod)
            && labels["batch.kubernetes.io/job-completion-index"] == index.as_str()
            && pod["metadata"]["deletionTimestamp"].is_null()
    };
    match pods.iter().find(is) {
        Some(pod) => Ok(pod),
        None => bail!("there is no worker {index}"),
    }
}

fn node(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}
