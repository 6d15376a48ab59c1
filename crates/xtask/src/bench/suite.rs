//! What each benchmark measures, and against what.

use super::figure::Figure;
use super::memory;
use super::rounds::{Contestant, Rounds, Samples};
use crate::dist::Dist;
use crate::mpi::{self, Mpi, fetch, programs};
use crate::tally::Clock;
use crate::{exec, workspace};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// For a whole set of rounds.
const LIMIT: Duration = Duration::from_mins(5);

/// Runs the benchmark of that name.
pub(super) fn run(name: &str, dist: &Dist, clock: Clock) -> Result<Vec<Figure>> {
    match name {
        "bringup" => bringup(dist),
        "launch" => launch(dist, clock),
        "mpi" => hello(dist, clock),
        "rsh" => remote_shell(dist, clock),
        "fence" => fence(),
        "local" => local(dist),
        other => bail!("no benchmark is named {other}"),
    }
}

/// Brokers of one machine as separate processes with TLS, from start to the end of `true`.
fn bringup(dist: &Dist) -> Result<Vec<Figure>> {
    let start = |size: u32| {
        Contestant::new(
            &size.to_string(),
            [&word(&dist.agent), "start", "--test-size", &size.to_string(), "--", "true"],
        )
    };
    let targets = [(1, 10.0), (4, 20.0), (16, 50.0), (64, 200.0), (128, 400.0)];
    let rounds = Rounds {
        warm_up: 1,
        count: 15,
        contestants: targets.iter().map(|(size, _)| start(*size)).collect(),
    };
    let samples = rounds.run()?;
    let mut figures = Vec::new();
    for (size, target) in targets {
        let what = format!("start --test-size {size} true");
        figures.push(take(&samples, &size.to_string(), "bringup", what)?.target(target));
    }
    figures.extend(memory::figures(dist)?);
    Ok(figures)
}

/// Small programs in clusters that are up.
fn launch(dist: &Dist, clock: Clock) -> Result<Vec<Figure>> {
    let run = |label: &str, words: &[&str]| {
        let agent = word(&dist.agent);
        let words = [&[agent.as_str(), "run"], words, &["--", "true"]].concat();
        Contestant::new(label, words)
    };
    let mut contestants =
        vec![run("one", &["-n", "1"]), run("eight", &["-N", "4", "-n", "8", "--oversubscribe"])];
    let peer = peer(mpi::QUICKSTART, clock)?;
    contestants.push(by_launcher(peer, "peer", &["-n", "4", "true"]));
    let small = Rounds { warm_up: 3, count: 40, contestants };
    let folder = scratch("launch")?;
    let samples = small.run_in(&folder, |words| in_brokers(dist, 4, words))?;
    let wide = Rounds { warm_up: 2, count: 20, contestants: vec![run("wide", &["-N", "64"])] };
    let wide = wide.run_in(&folder, |words| in_brokers(dist, 64, words))?;
    Ok(vec![
        take(&samples, "one", "launch", "4 brokers: run -n1 true")?.target(5.0),
        take(&samples, "eight", "launch", "4 brokers: run -N4 -n8 true")?.target(10.0),
        take(&samples, "peer", "launch", "mpiexec -n 4 true, one host")?.peer(peer.name),
        take(&wide, "wide", "launch", "64 brokers: run -N64 true")?.target(60.0),
    ])
}

/// A real MPI program in one pod, against its own launcher.
fn hello(dist: &Dist, clock: Clock) -> Result<Vec<Figure>> {
    let mpi = peer(mpi::QUICKSTART, clock)?;
    let program = word(&programs::build(mpi)?.join("hello"));
    let path = env::var("PATH").unwrap_or_default();
    let mut contestants = Vec::new();
    for ranks in ["4", "8"] {
        let agent = word(&dist.agent);
        let words = [&agent, "run", "-n", ranks, "--oversubscribe", "--", &program];
        let ours = Contestant::new(&format!("ours {ranks}"), words);
        contestants.push(ours.environment(mpi.environment(&path)));
        contestants.push(by_launcher(mpi, &format!("peer {ranks}"), &["-n", ranks, &program]));
    }
    let rounds = Rounds { warm_up: 2, count: 15, contestants };
    let samples = rounds.run_in(&scratch("mpi")?, |words| in_brokers(dist, 1, words))?;
    let mut figures = Vec::new();
    for ranks in ["4", "8"] {
        let what = format!("hello -n {ranks}, one pod");
        let theirs = take(&samples, &format!("peer {ranks}"), "mpi", what.clone())?.peer(mpi.name);
        let ours = take(&samples, &format!("ours {ranks}"), "mpi", what)?;
        figures.push(ours.target(theirs.median));
        figures.push(theirs);
    }
    Ok(figures)
}

/// Unmodified launchers over four pods, their daemons started by the remote-shell stand-in.
fn remote_shell(dist: &Dist, clock: Clock) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (name, target) in [(mpi::QUICKSTART, 60.0), ("openmpi-debian", 350.0)] {
        let mpi = peer(name, clock)?;
        let rounds = Rounds {
            warm_up: 2,
            count: 15,
            contestants: vec![by_launcher(mpi, "ours", &["-n", "4", "true"])],
        };
        let folder = scratch("rsh")?;
        let samples = rounds
            .run_in(&folder, |words| in_pods(dist, 4, &folder.join("minicluster.yaml"), words))?;
        let what = format!("{name}: mpiexec -n 4 true, 4 pods");
        figures.push(take(&samples, "ours", "rsh", what)?.target(target));
        let alone = Rounds {
            warm_up: 2,
            count: 15,
            contestants: vec![by_launcher(mpi, "alone", &["-n", "4", "true"])],
        };
        let what = "mpiexec -n 4 true, one host";
        figures.push(take(&alone.run()?, "alone", "rsh", what)?.peer(name));
    }
    Ok(figures)
}

/// One whole exchange of a large job, in one process.
fn fence() -> Result<Vec<Figure>> {
    let mut build = workspace::cargo();
    build.args(["build", "--quiet", "--release", "--locked", "--package", "quorate-agent"]);
    build.args(["--example", "exchange"]);
    ensure!(
        build.status().context("start cargo")?.success(),
        "the example exchange does not build"
    );
    let mut command = Command::new(workspace::target_dir().join("release/examples/exchange"));
    let done = exec::capture(&mut command, "bench-fence", LIMIT)?;
    ensure!(done.success(), "fence: {}\n{}", done.how(), done.output.trim_end());
    // Its figures are the last line; before it, it says how far it is.
    let line = done.output.lines().last().unwrap_or_default();
    let samples: Value = serde_json::from_str(line).context("read the figures of fence")?;
    let mut figures = Vec::new();
    for wire in ["PMI-1", "PMIx"] {
        let seconds: Vec<f64> = serde_json::from_value(samples[wire].clone())
            .with_context(|| format!("fence gives no figures of {wire}"))?;
        let what = format!("256 brokers x 96 clients, {wire}");
        figures.push(Figure::of("fence", what, "s", &seconds).target(2.0));
    }
    Ok(figures)
}

/// From nothing to four namespaced pods, a program, and back.
fn local(dist: &Dist) -> Result<Vec<Figure>> {
    let quorate = word(&dist.quorate);
    let contestant = Contestant::new("run", [&quorate, "run", "-N", "4", "--", "true"])
        .environment([("QUORATE_AGENT", word(&dist.agent))]);
    let rounds = Rounds { warm_up: 2, count: 20, contestants: vec![contestant] };
    let samples = rounds.run()?;
    Ok(vec![take(&samples, "run", "local", "quorate run -N 4 -- true")?.target(150.0)])
}

/// An MPI's launcher with what it needs in its environment.
fn by_launcher(mpi: &Mpi, label: &str, words: &[&str]) -> Contestant {
    let launcher = word(&mpi.launcher());
    let words = std::iter::once(launcher.as_str()).chain(words.iter().copied());
    let path = env::var("PATH").unwrap_or_default();
    let root = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
    Contestant::new(label, words)
        .environment(mpi.environment(&path))
        .environment(root.map(|name| (name, "1".to_owned())))
        // More ranks than cores, on purpose.
        .environment([("OMPI_MCA_rmaps_base_oversubscribe", "1".to_owned())])
}

/// A peer that must be there.
fn peer(name: &str, clock: Clock) -> Result<&'static Mpi> {
    let mpi = mpi::named(name).context("the peer is an MPI of the matrix")?;
    fetch::ensure_there(mpi, clock)?;
    Ok(mpi)
}

/// Runs a program once beside brokers of one host.
fn in_brokers(dist: &Dist, size: u32, words: &[String]) -> Result<()> {
    let mut command = Command::new(&dist.agent);
    command.args(["start", "--test-size", &size.to_string(), "--"]).args(words);
    let done = exec::capture(&mut command, "bench-brokers", LIMIT)?;
    ensure!(done.success(), "brokers: {}\n{}", done.how(), done.output.trim_end());
    Ok(())
}

/// Runs a program once on the launcher of a local cluster.
fn in_pods(dist: &Dist, size: u32, file: &PathBuf, words: &[String]) -> Result<()> {
    let object = json!({
        "apiVersion": "quorate.dev/v1alpha1",
        "kind": "MiniCluster",
        "metadata": {"name": "bench"},
        "spec": {"size": size, "slots": 1, "program": {"command": words}},
    });
    fs::write(file, object.to_string()).with_context(|| format!("write {}", file.display()))?;
    let mut command = dist.quorate();
    command.arg("run").arg(file);
    let done = exec::capture(&mut command, "bench-pods", LIMIT)?;
    ensure!(done.success(), "pods: {}\n{}", done.how(), done.output.trim_end());
    Ok(())
}

/// A folder for the files of one benchmark.
fn scratch(name: &str) -> Result<PathBuf> {
    let folder = workspace::target_dir().join("xtask").join(format!("bench-{name}"));
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    Ok(folder)
}

/// The samples of one label as a figure in milliseconds.
fn take(
    samples: &Samples,
    label: &str,
    bench: &'static str,
    what: impl Into<String>,
) -> Result<Figure> {
    let list = samples.get(label).with_context(|| format!("no samples of {label}"))?;
    Ok(Figure::of(bench, what, "ms", list))
}

fn word(path: &std::path::Path) -> String {
    path.display().to_string()
}
