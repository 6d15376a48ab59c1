//! How quickly controllers make JobSets of many objects at once, and what that costs: ours, the same
//! JobSets without a controller before them, and peers. Each on a control plane of its own with nodes
//! that kwok plays, so that all time is the controllers' and the API server's.

mod contestant;
mod costs;
mod quiet;

use crate::Lab;
use crate::audit;
use crate::bench::figure::{Figure, quantile, say, seconds};
use crate::bench::objects::PODS;
use crate::bench::operator::{self, Operator};
use crate::bench::process;
use crate::bench::watch::{Depth, Watch};
use anyhow::{Context as _, Result, anyhow};
use contestant::Contestant;
use costs::Costs;
use k8s_openapi::jiff::Timestamp;
use quorate_testbed::api::Api;
use quorate_testbed::{Cluster, Shape, cluster};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

pub use contestant::Peer;

/// Clients that create objects.
const CONNECTIONS: usize = 8;
/// Nodes for the pods.
const NODES: u32 = 100;

/// The garbage collector looks for new kinds every 30 s, and until it knows that of an owner it asks the API server for
/// the owner of each object that it sees (kube-controller-manager).
const LEARNS: Duration = Duration::from_secs(40);

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// MiniClusters, and plain JobSets.
    pub clusters: usize,
    /// Objects of each peer, and MiniClusters beside them.
    pub peer_clusters: usize,
    /// How often both are measured.
    pub rounds: usize,
    /// Which peers.
    pub peers: Vec<Peer>,
    /// How long the quiet is measured.
    pub idle: Duration,
    /// Where the logs of all clusters are kept, in a folder for each.
    pub logs: Option<PathBuf>,
}

/// What one controller did.
struct Round {
    /// Objects.
    count: usize,
    /// Just before the first request.
    begun: Timestamp,
    /// Seconds from each object to what its controller makes of it.
    latencies: Vec<f64>,
    /// From the first request to create one to the last thing that was made, and the last pod.
    last_child: f64,
    last_pod: f64,
    /// Processor time until the last thing was made, in seconds.
    processor: Option<f64>,
    /// What all parts of the control plane took until the last pod was there.
    costs: Costs,
}

/// Measures everything.
pub fn run(options: &Options) -> Result<()> {
    let logs = options.logs.as_deref();
    let (mut all_ours, mut all_plain) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let plain = || alone(&contestant::jobsets(), options.clusters, logs);
        // What only we are asked for is asked once.
        let idle = Some(options.idle).filter(|_| round == 0);
        let ours = || ours(options.clusters, idle, logs);
        // A machine that slows down must not slow down the same one each time.
        if round % 2 == 0 {
            all_ours.push(ours()?);
            all_plain.push(plain()?);
        } else {
            all_plain.push(plain()?);
            all_ours.push(ours()?);
        }
    }
    against_plain(options.clusters, &all_ours, &all_plain)?;
    if options.peers.is_empty() {
        return Ok(());
    }
    if options.peer_clusters != options.clusters {
        tell(&ours(options.peer_clusters, None, logs)?, None);
    }
    for peer in &options.peers {
        let contestant = contestant::of(*peer);
        let round = alone(&contestant, options.peer_clusters, logs)?;
        tell(&round, Some(contestant.name));
    }
    Ok(())
}

/// Samples of one figure, one of each round.
fn each(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> Vec<f64> {
    rounds.iter().map(figure).collect()
}

/// Our figures, and those of plain JobSets of the same rounds.
fn against_plain(count: usize, ours: &[Round], plain: &[Round]) -> Result<()> {
    let made = |what: &str| format!("{count} MiniClusters: {what}");
    let half = each(ours, |round| quantile(&round.latencies, 0.5));
    Figure::new(made("create to JobSet, p50"), "s", &half).target(4.0).tell();
    let most = each(ours, |round| quantile(&round.latencies, 0.99));
    Figure::new(made("create to JobSet, p99"), "s", &most).target(8.0).tell();
    let processor = ours.iter().map(|round| round.processor).collect::<Option<Vec<_>>>();
    let processor = processor.context("our controller is a process")?;
    Figure::new(made("processor time to last JobSet"), "s", &processor).target(5.0).tell();
    let what = format!("{count} x {PODS} pods, first POST to last pod");
    Figure::new(&what, "s", &each(ours, |round| round.last_pod)).tell();
    Figure::new(&what, "s", &each(plain, |round| round.last_pod)).peer("JobSet").tell();
    let ratios = |figure: fn(&Round) -> f64| -> Vec<f64> {
        ours.iter().zip(plain).map(|(ours, plain)| figure(ours) / figure(plain)).collect()
    };
    Figure::new("the same, ratio to plain JobSets", "x", &ratios(|round| round.last_pod))
        .target(1.1)
        .tell();
    let paced = ratios(|round| round.last_pod / round.costs.pace());
    Figure::new("the same at equal pace, ratio to plain JobSets", "x", &paced).tell();
    let costs =
        |rounds: &[Round]| rounds.iter().map(|round| round.costs.clone()).collect::<Vec<_>>();
    let what = format!("{count} x {PODS} pods, processor time");
    Costs::tell(&costs(ours), &what, None);
    Costs::tell(&costs(plain), &what, Some("JobSet"));
    let ratio = ratios(|round| round.costs.all());
    Figure::new("the same of all, ratio to plain JobSets", "x", &ratio).tell();
    Ok(())
}

/// The figures that all controllers have.
fn tell(round: &Round, peer: Option<&str>) {
    let figure = |what: &str, unit, value: f64| {
        let figure = Figure::new(format!("{} {what}", round.count), unit, &[value]);
        match peer {
            Some(peer) => figure.peer(peer),
            None => figure,
        }
    };
    figure("created to made, p50", "s", quantile(&round.latencies, 0.5)).tell();
    figure("created to made, p99", "s", quantile(&round.latencies, 0.99)).tell();
    figure("first POST to last made", "s", round.last_child).tell();
    figure("first POST to last pod", "s", round.last_pod).tell();
    if let Some(processor) = round.processor {
        figure("processor time to last made", "s", processor).tell();
    }
}

/// Our controller, with the costs that only it is asked for where `idle` says how long to look.
fn ours(count: usize, idle: Option<Duration>, logs: Option<&Path>) -> Result<Round> {
    say(format!("== {count} MiniClusters"));
    let contestant = contestant::miniclusters();
    let lab = Lab::from(start(&contestant, count, logs)?);
    let operator = Operator::start(&lab)?;
    let folder = lab.cluster.folder();
    let round = measure(&lab.cluster, &contestant, count, Some(operator.pid))?;
    let Some(idle) = idle else {
        drop(operator);
        lab.cluster.down()?;
        return Ok(round);
    };
    quiet::settle(folder, &contestant.parents, count)?;
    let settled = Timestamp::now();
    let made = |what: &str| format!("{count} MiniClusters: {what}");
    let peak = process::peak_memory(operator.pid)?;
    Figure::new(made("peak memory"), "MiB", &[peak]).target(40.0).tell();
    let account = operator::account();
    let requests = audit::requests(folder, &account, round.begun, settled)?;
    quiet::tell_writes(&requests, count);
    // From here on: what has changed before is none of it.
    quiet::rest(&Watch::start(folder, &contestant.children, Depth::Metadata)?)?;
    quiet::measure(folder, operator.pid, idle)?;
    drop(operator);
    lab.cluster.down()?;
    Ok(round)
}

/// A peer, which the control plane starts itself, or none.
fn alone(contestant: &Contestant, count: usize, logs: Option<&Path>) -> Result<Round> {
    say(format!("== {count} of {}", contestant.name));
    let cluster = start(contestant, count, logs)?;
    let api = Api::outside(cluster.folder())?;
    for (path, object) in &contestant.first {
        api.create(path, object)?;
    }
    let pid = contestant.program.map(|program| {
        let beside = cluster::process_of(cluster.folder(), None)?;
        process::program_beside(beside, program).with_context(|| format!("{program} runs"))
    });
    let round = measure(&cluster, contestant, count, pid.transpose()?)?;
    cluster.down()?;
    Ok(round)
}

fn start(contestant: &Contestant, count: usize, logs: Option<&Path>) -> Result<Cluster> {
    let shape = Shape {
        name: "bench-controller".into(),
        nodes: 0,
        fake_nodes: NODES,
        addons: contestant.addon.into_iter().collect(),
        logs: logs.map(|folder| folder.join(format!("{} {count}", contestant.name))),
        ..Shape::default()
    };
    Ok(Cluster::up(shape)?)
}

/// Lets a control plane that was just started come to know its kinds.
fn learn() {
    say(format!("for {} s the control plane learns its kinds", LEARNS.as_secs()));
    thread::sleep(LEARNS);
}

/// Creates all objects at once and waits for their last pod.
fn measure(
    cluster: &Cluster,
    contestant: &Contestant,
    count: usize,
    pid: Option<u32>,
) -> Result<Round> {
    let folder = cluster.folder();
    let parents = Watch::start(folder, &contestant.parents, Depth::Metadata)?;
    let children = Watch::start(folder, &contestant.children, Depth::Metadata)?;
    let pods = Watch::start(folder, contestant::PODS_PATH, Depth::Metadata)?;
    let names: Vec<String> = (0..count).map(|number| format!("b{number:05}")).collect();
    let objects: Vec<_> =
        names.iter().map(|name| (contestant.object)(name)).collect::<Result<_>>()?;
    let apis: Vec<Api> =
        (0..CONNECTIONS).map(|_| Api::outside(folder)).collect::<Result<_, _>>()?;
    let path = contestant.parents.as_str();
    // The slowest peer takes two seconds for one.
    let limit = Duration::from_mins(2) + Duration::from_secs(3) * u32::try_from(count)?;
    learn();
    let begun = Timestamp::now();
    let before = pid.map(process::processor_time).transpose()?;
    let spent = Costs::so_far(cluster, pid)?;
    let first = Instant::now();
    let (made, processor) = thread::scope(|scope| -> Result<_> {
        let posts: Vec<_> = apis
            .iter()
            .enumerate()
            .map(|(at, api)| {
                let mine = objects.iter().skip(at).step_by(CONNECTIONS);
                scope.spawn(move || {
                    let mut mine = mine;
                    mine.try_for_each(|object| api.create(path, object))
                })
            })
            .collect();
        let made = children.added(count, limit)?;
        let after = pid.map(process::processor_time).transpose()?;
        for post in posts {
            post.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        let taken = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        Ok((made, taken.map(|taken| taken.as_secs_f64())))
    })?;
    let pods = pods.added(count * PODS, limit)?;
    let costs = Costs::so_far(cluster, pid)?.since(&spent);
    let created = parents.added(count, limit)?;
    let since = |moments: &BTreeMap<String, Instant>| {
        let last = moments.values().max().copied().unwrap_or(first);
        last.duration_since(first).as_secs_f64()
    };
    let latencies = created.iter().map(|(name, then)| {
        let child = format!("{name}{}", contestant.suffix);
        let made = made.get(&child).with_context(|| format!("nothing was made of {name}"))?;
        // The two watches are read by two threads: an object may seem to be later than its child.
        Ok(made.saturating_duration_since(*then))
    });
    Ok(Round {
        count,
        begun,
        latencies: seconds(latencies.collect::<Result<Vec<_>>>()?),
        last_child: since(&made),
        last_pod: since(&pods),
        processor,
        costs,
    })
}
