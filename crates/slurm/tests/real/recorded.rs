//! What the real Slurm printed once, in `fixtures/real`.

use crate::said::{cluster, commands};
use quorate_slurm::facts::Cluster;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What was recorded: output of commands by name, and what they say.
pub(crate) struct Recorded {
    output: BTreeMap<String, String>,
    /// When each command ran, in seconds since the epoch.
    pub(crate) now: BTreeMap<String, i64>,
    pub(crate) cluster: Cluster,
}

/// The lines that can be the same. Left out: `show step`, which we do not have, what only carries
/// facts, and of sacct a job that slurmdbd knows otherwise than slurmctld (it was refused on the way).
pub(crate) fn comparable(name: &str, output: &str) -> String {
    let refused = |line: &&str| {
        !(name.starts_with("sacct") && line.starts_with("22")
            || name == "jobs" && line.contains("TRES=cpu=5,"))
    };
    output.split_inclusive('\n').filter(refused).collect()
}

impl Recorded {
    /// Reads a folder of recordings.
    pub(crate) fn read(folder: &Path) -> Self {
        let mut output = BTreeMap::new();
        let mut now = BTreeMap::new();
        for (name, _) in commands() {
            let file = folder.join(format!("{name}.txt"));
            output.insert(name, fs::read_to_string(file).unwrap());
        }
        for line in fs::read_to_string(folder.join("now.txt")).unwrap().lines() {
            let mut words = line.split(' ');
            now.insert(words.next().unwrap().to_owned(), words.next().unwrap().parse().unwrap());
        }
        let cluster = cluster(&output, "login");
        Self { output, now, cluster }
    }

    /// What can be compared of a command.
    pub(crate) fn comparable(&self, name: &str) -> Option<String> {
        if matches!(name, "steps" | "accounted") {
            return None;
        }
        Some(comparable(name, &self.output[name]))
    }
}
