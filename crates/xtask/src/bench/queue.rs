//! The job queue: how fast it takes jobs, starts them and comes back, and what a waiting job costs.
//!
//! Clusters of brokers on this machine are up meanwhile; commands are typed from outside, through the
//! launcher's socket, as in its pod.

mod cluster;
mod slurm;

use super::figure::Figure;
use super::rounds::Rounds;
use crate::dist::Dist;
use crate::tally::Clock;
use anyhow::{Context, Result, bail, ensure};
use cluster::{Cluster, until};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The option that has Slurm measured beside it.
const PEERS: &str = "--peers";

/// Measures everything.
pub(super) fn run(dist: &Dist, options: &[String], clock: Clock) -> Result<Vec<Figure>> {
    if let Some(option) = options.iter().find(|option| *option != PEERS) {
        bail!("{option}: queue has no option but {PEERS}");
    }
    let mut figures = Vec::new();
    for size in [1, 4] {
        clock.say(format!("queue: programs, {size} brokers"));
        let cluster = Cluster::start(dist, size, 4)?;
        let many = cluster.submits("many", &["--bcc", "1-1000", "--wait", "-Q", "true"]);
        let one = cluster.submits("one", &["--wait", "-Q", "true"]);
        let samples = Rounds { warm_up: 1, count: 5, contestants: vec![many] }.run()?;
        let what = format!("{size} brokers: 1,000 x true");
        figures.push(Figure::of("queue", what, "ms", &samples["many"]).target(714.0));
        let samples = Rounds { warm_up: 3, count: 40, contestants: vec![one] }.run()?;
        let what = format!("{size} brokers: submit --wait true");
        figures.push(Figure::of("queue", what, "ms", &samples["one"]).target(6.0));
    }
    clock.say("queue: simulated jobs");
    let mut rates = Vec::new();
    for (count, target) in [(16_000_u32, 800.0), (100_000, 6000.0)] {
        let cluster = Cluster::start(dist, 1, 256)?;
        let set = format!("1-{count}");
        let words = ["--bcc", &set, "--option", "simulate=0", "--wait", "-Q", "x"];
        let rounds = Rounds {
            warm_up: 0,
            count: 3,
            contestants: vec![cluster.submits("simulated", &words)],
        };
        let what = format!("{count} simulated jobs");
        let figure = Figure::of("queue", what, "ms", &rounds.run()?["simulated"]).target(target);
        rates.push(f64::from(count) / figure.median);
        figures.push(figure);
    }
    let lost = (1.0 - rates[1] / rates[0]).max(0.0) * 100.0;
    let what = "rate lost from 16,000 to 100,000 of them";
    figures.push(Figure::of("queue", what, "%", &[lost]).target(20.0));
    clock.say("queue: clusters within a cluster");
    figures.extend(nested(dist)?);
    clock.say("queue: submissions");
    figures.extend(submissions(dist)?);
    clock.say("queue: 100,000 jobs that wait");
    figures.extend(restart(dist)?);
    clock.say("queue: a log is compacted");
    figures.push(compaction(dist)?);
    if options.iter().any(|option| option == PEERS) {
        clock.say("queue: Slurm");
        figures.extend(slurm::figures(clock)?);
    }
    Ok(figures)
}

/// Nested instances on two of four brokers, and many tiny jobs of one queue and of four queues within it.
fn nested(dist: &Dist) -> Result<Vec<Figure>> {
    /// Tiny jobs of all queues together.
    const TINY: u32 = 4096;
    let cluster = Cluster::start(dist, 4, 4)?;
    let alloc = cluster.verb("alloc", "alloc", &["-N2", "--", "true"]);
    let batch = cluster.verb("batch", "batch", &["-N2", "--wait", "-Q", "--wrap", "true"]);
    let samples = Rounds { warm_up: 3, count: 20, contestants: vec![alloc, batch] }.run()?;
    let mut figures = vec![
        Figure::of("queue", "4 brokers: alloc -N2 true", "ms", &samples["alloc"]).target(30.0),
        Figure::of("queue", "4 brokers: batch -N2, true + wait", "ms", &samples["batch"])
            .target(30.0),
    ];
    let flat = cluster.submits("flat", &["--bcc", &format!("1-{TINY}"), "--wait", "-Q", "true"]);
    let within = format!("{} submit --bcc 1-{} --wait -Q true", cluster.agent.display(), TINY / 4);
    let words = ["--bcc", "1-4", "-N1", "-n4", "--wait", "-Q", "--wrap", &within];
    let tree = cluster.verb("tree", "batch", &words);
    let samples = Rounds { warm_up: 0, count: 3, contestants: vec![flat, tree] }.run()?;
    figures.push(Figure::of("queue", format!("{TINY} x true, one queue"), "ms", &samples["flat"]));
    let what = format!("{TINY} x true, in 4 nested instances");
    figures.push(Figure::of("queue", what, "ms", &samples["tree"]));
    Ok(figures)
}

/// Durable submissions, at once and one after another.
fn submissions(dist: &Dist) -> Result<Vec<Figure>> {
    let cluster = Cluster::start(dist, 1, 4)?;
    let held = ["--urgency", "0", "-Q"];
    let bulk = cluster.submits("bulk", &[&["--bcc", "1-20000"], &held[..], &["x"]].concat());
    let agent = cluster.agent.display();
    let script = format!("seq 2000 | {agent} submit --lines --urgency 0 -Q x {{}}");
    let single = cluster.typed("single", &["sh", "-c", &script]);
    let samples = Rounds { warm_up: 1, count: 5, contestants: vec![bulk, single] }.run()?;
    Ok(vec![
        Figure::of("queue", "20,000 submissions at once", "ms", &samples["bulk"]).target(1000.0),
        Figure::of("queue", "2,000 one after another", "ms", &samples["single"]).target(1000.0),
    ])
}

/// What a waiting job costs, and how soon a killed broker answers again.
fn restart(dist: &Dist) -> Result<Vec<Figure>> {
    /// Jobs of a submission, and how many such: they share no specification.
    const EACH: u32 = 1000;
    const TIMES: u32 = 100;
    let cluster = Cluster::start(dist, 1, 4)?;
    let before = cluster.resident()?;
    for number in 0..TIMES {
        let set = format!("1-{EACH}");
        let name = format!("waits-{number}");
        let words = ["submit", "--urgency", "0", "-Q", "--bcc", &set, "--name", &name, "x"];
        ensure!(cluster.command(&words).status()?.success(), "a submission failed");
    }
    let jobs = f64::from(EACH * TIMES);
    let memory = (cluster.resident()? - before) / jobs;
    let mut times = Vec::new();
    for _ in 0..3 {
        let old = cluster.broker()?;
        let began = Instant::now();
        let mut kill = Command::new(&cluster.agent);
        kill.args(["testbed", "kill", "0", "--control"]).arg(&cluster.control);
        ensure!(kill.status().context("start the agent")?.success(), "the broker was not killed");
        until("the broker to be back", || Ok(cluster.broker().is_ok_and(|now| now != old)))?;
        until("the queue to be back", || {
            let mut look = cluster.command(&["jobs", "-c", "1", "-o", "json"]);
            let output = look.stderr(Stdio::null()).output()?;
            Ok(output.status.success() && !output.stdout.is_empty())
        })?;
        times.push(began.elapsed().as_secs_f64());
    }
    Ok(vec![
        Figure::of("queue", "memory of a waiting job", "KiB", &[memory]).target(2.0),
        Figure::of("queue", "restart with 100,000 jobs", "s", &times).target(1.0),
    ])
}

/// How long a question takes at most while a log that keeps 100,000 jobs is written anew.
fn compaction(dist: &Dist) -> Result<Figure> {
    /// Some of as many as are kept, so that the next few make the log twice as long as it need be.
    const NEARLY: u32 = 99_000;
    let cluster = Cluster::start(dist, 1, 256)?;
    let submit = |count: u32| -> Result<()> {
        let set = format!("1-{count}");
        let words = ["submit", "--bcc", &set, "--option", "simulate=0", "--wait", "-Q", "x"];
        ensure!(cluster.command(&words).status()?.success(), "a submission failed");
        Ok(())
    };
    submit(100_000)?;
    submit(NEARLY)?;
    let long = cluster.log_length()?;
    let done = AtomicBool::new(false);
    let slowest = thread::scope(|scope| {
        let asking = scope.spawn(|| -> Result<Duration> {
            let mut slowest = Duration::ZERO;
            while !done.load(Ordering::Relaxed) {
                let began = Instant::now();
                let mut ask = cluster.command(&["queue", "list"]);
                ensure!(ask.stdout(Stdio::null()).status()?.success(), "nobody answers");
                slowest = slowest.max(began.elapsed());
            }
            Ok(slowest)
        });
        let shorter = until("the log to be short again", || {
            submit(50)?;
            Ok(cluster.log_length()? < long / 5 * 4)
        });
        done.store(true, Ordering::Relaxed);
        shorter?;
        asking.join().map_err(|_| anyhow::anyhow!("asking broke off"))?
    })?;
    let what = "slowest answer while a log of 100,000 jobs is compacted";
    Ok(Figure::of("queue", what, "ms", &[slowest.as_secs_f64() * 1e3]))
}
