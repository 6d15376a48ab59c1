//! Timing commands in rounds: each round runs every contestant once, in order.
//!
//! Rounds run in this process, or inside a cluster: then this binary is the cluster's program,
//! reads what to time from a file and leaves the samples in another.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A command and its name in the samples.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Contestant {
    pub label: String,
    pub command: Vec<String>,
    /// Variables on top of the caller's.
    pub environment: BTreeMap<String, String>,
}

impl Contestant {
    pub(super) fn new<S: Into<String>>(label: &str, command: impl IntoIterator<Item = S>) -> Self {
        Self {
            label: label.into(),
            command: command.into_iter().map(Into::into).collect(),
            environment: BTreeMap::new(),
        }
    }

    pub(super) fn environment<K: Into<String>>(
        mut self,
        list: impl IntoIterator<Item = (K, String)>,
    ) -> Self {
        self.environment.extend(list.into_iter().map(|(key, value)| (key.into(), value)));
        self
    }
}

/// What to time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Rounds {
    /// Rounds that are not counted.
    pub warm_up: usize,
    /// Rounds that are.
    pub count: usize,
    pub contestants: Vec<Contestant>,
}

/// Milliseconds of each round by label.
pub(super) type Samples = BTreeMap<String, Vec<f64>>;

impl Rounds {
    /// Times them all from this process. A command that fails spoils the benchmark.
    pub(super) fn run(&self) -> Result<Samples> {
        let mut samples = Samples::new();
        for round in 0..self.warm_up + self.count {
            for contestant in &self.contestants {
                let milliseconds = time(contestant)?;
                if round >= self.warm_up {
                    samples.entry(contestant.label.clone()).or_default().push(milliseconds);
                }
            }
        }
        Ok(samples)
    }

    /// Times them inside a cluster: `bring_up` gets the words of the program that the cluster must
    /// run once on its first broker, and runs the cluster to its end.
    pub(super) fn run_in(
        &self,
        folder: &Path,
        bring_up: impl FnOnce(&[String]) -> Result<()>,
    ) -> Result<Samples> {
        let spec = folder.join("rounds.json");
        let results = folder.join("samples.json");
        let text = serde_json::to_vec(self).context("render the rounds")?;
        fs::write(&spec, text).with_context(|| format!("write {}", spec.display()))?;
        // A result of an earlier run must not pass for this one's.
        if results.exists() {
            fs::remove_file(&results).context("remove old samples")?;
        }
        let own = std::env::current_exe().context("find this program")?;
        let words: Vec<String> =
            [own, PathBuf::from("time-rounds"), spec, results.clone()].map(path_word).into();
        bring_up(&words)?;
        let text = fs::read(&results).with_context(|| format!("read {}", results.display()))?;
        serde_json::from_slice(&text).context("read the samples")
    }
}

fn path_word(path: PathBuf) -> String {
    path.into_os_string().to_string_lossy().into_owned()
}

/// What this binary does inside a cluster.
pub(crate) fn run_inside(spec: &Path, results: &Path) -> Result<bool> {
    let text = fs::read(spec).with_context(|| format!("read {}", spec.display()))?;
    let rounds: Rounds = serde_json::from_slice(&text).context("read the rounds")?;
    let samples = serde_json::to_vec(&rounds.run()?).context("render the samples")?;
    fs::write(results, samples).with_context(|| format!("write {}", results.display()))?;
    Ok(true)
}

/// Milliseconds from before the start of a command until it was reaped.
fn time(contestant: &Contestant) -> Result<f64> {
    let (program, arguments) =
        contestant.command.split_first().context("a contestant has a command")?;
    let mut command = Command::new(program);
    command.args(arguments).envs(&contestant.environment);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let started = Instant::now();
    let output = command.output().with_context(|| format!("start {program}"))?;
    let took = started.elapsed();
    ensure!(
        output.status.success(),
        "{}: {} ended with {}: {}",
        contestant.label,
        contestant.command.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(took.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_is_not_counted_and_labels_are_kept_apart() {
        let rounds = Rounds {
            warm_up: 1,
            count: 3,
            contestants: vec![
                Contestant::new("quick", ["true"]),
                Contestant::new("slow", ["sleep", "0.02"]),
            ],
        };
        let samples = rounds.run().unwrap();
        assert_eq!(samples["quick"].len(), 3);
        assert!(samples["slow"].iter().all(|ms| *ms >= 20.0));
    }

    #[test]
    fn a_failing_command_spoils_the_rounds() {
        let rounds =
            Rounds { warm_up: 0, count: 1, contestants: vec![Contestant::new("bad", ["false"])] };
        assert!(rounds.run().unwrap_err().to_string().contains("bad"));
    }
}
