//! The same questions put to Slurm: the packages of this machine, on loopback, with a configuration of
//! their own. The crate of its formats starts it, as it does for its tests.

use super::super::figure::Figure;
use super::super::rounds::{Contestant, Rounds};
use crate::tally::Clock;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Jobs of the array.
const MANY: u32 = 48;

/// What Slurm takes; nothing, with a word of it, where it is not installed.
pub(super) fn figures(clock: Clock) -> Result<Vec<Figure>> {
    let lab = match Lab::start()? {
        Ok(lab) => lab,
        Err(why) => {
            clock.say(format!("Slurm is left out: {why}"));
            return Ok(Vec::new());
        }
    };
    // A job that asks for no memory gets a node's.
    let quiet = ["--output", "/dev/null", "--mem", "10"];
    let array = format!("1-{MANY}");
    let many = [&["sbatch", "--wait", "--array", &array], &quiet[..], &["--wrap", "true"]].concat();
    let batch = [&["sbatch", "--wait"], &quiet[..], &["--wrap", "true"]].concat();
    let steps = lab.typed("salloc -N2 srun -n2 true", &["salloc", "-N2", "srun", "-n2", "true"]);
    let contestants = vec![
        lab.typed("srun -n1 true", &["srun", "-n1", "true"]),
        lab.typed("salloc -N2 true", &["salloc", "-N2", "true"]),
        steps,
    ];
    let mut samples = Rounds { warm_up: 1, count: 15, contestants }.run()?;
    // It looks every two seconds whether a job is over.
    let contestants = vec![lab.typed("sbatch --wait true", &batch)];
    samples.extend(Rounds { warm_up: 0, count: 3, contestants }.run()?);
    let label = format!("{MANY} x true, an array of sbatch --wait");
    let contestants = vec![lab.typed(&label, &many)];
    samples.extend(Rounds { warm_up: 0, count: 1, contestants }.run()?);
    let figure = |(what, list): (&String, &Vec<f64>)| {
        Figure::of("queue", what.as_str(), "ms", list).peer("Slurm")
    };
    Ok(samples.iter().map(figure).collect())
}

/// A Slurm that is there until it is dropped.
struct Lab {
    holder: Child,
    configuration: String,
}

impl Lab {
    /// Starts it; the inner error says why there is none to be had.
    fn start() -> Result<Result<Self, String>> {
        let mut build = workspace::cargo();
        build.args(["build", "--quiet", "--locked", "--package", "quorate-slurm"]);
        build.args(["--example", "lab"]);
        ensure!(build.status().context("start cargo")?.success(), "the example lab does not build");
        let mut command = Command::new(workspace::target_dir().join("debug/examples/lab"));
        let mut holder = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a Slurm")?;
        let mut line = String::new();
        let output = holder.stdout.take().context("the lab has an output")?;
        BufReader::new(output).read_line(&mut line).context("read where Slurm is")?;
        let mut lab = Self { holder, configuration: String::new() };
        match line.trim_end().split_once(' ') {
            Some(("there", path)) => {
                path.clone_into(&mut lab.configuration);
                Ok(Ok(lab))
            }
            Some(("none", why)) => Ok(Err(why.to_owned())),
            _ => anyhow::bail!("the lab did not start"),
        }
    }

    fn typed(&self, label: &str, words: &[&str]) -> Contestant {
        let path = self.configuration.clone();
        Contestant::new(label, words.iter().copied()).environment([("SLURM_CONF", path)])
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // It ends its daemons when its input does.
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}
