//! The jobs of a soak: what was taken, what ran, and what the queue says of it in the end.

use crate::pods::Pods;
use crate::typing::{run, stdout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What the queue says of a job that is over.
#[derive(Debug)]
pub(crate) struct Fate {
    pub(crate) standing: Option<String>,
    pub(crate) requeues: u64,
    pub(crate) name: String,
}

/// All jobs by number, once somebody answers.
pub(crate) fn fates(pods: &Pods) -> Option<BTreeMap<u64, Fate>> {
    let output = run(pods, 0, &["jobs", "-a", "-o", "json"]);
    if !output.status.success() {
        return None;
    }
    let text = stdout(&output);
    let mut fates = BTreeMap::new();
    for line in text.lines() {
        let job: Value = serde_json::from_str(line).unwrap();
        let fate = Fate {
            standing: job["standing"].as_str().map(str::to_owned),
            requeues: job["requeues"].as_u64().unwrap_or(0),
            name: job["name"].as_str().unwrap_or_default().to_owned(),
        };
        let id = job["id"].as_u64().unwrap();
        assert!(fates.insert(id, fate).is_none(), "job {id} is listed twice");
    }
    Some(fates)
}

/// How often each task was started: lines `ID.RANK` that the tasks have appended.
pub(crate) fn starts(file: &Path) -> BTreeMap<(u64, u32), u64> {
    let mut starts = BTreeMap::new();
    for line in fs::read_to_string(file).unwrap_or_default().lines() {
        let (id, rank) = line.split_once('.').unwrap();
        *starts.entry((id.parse().unwrap(), rank.parse().unwrap())).or_default() += 1;
    }
    starts
}
