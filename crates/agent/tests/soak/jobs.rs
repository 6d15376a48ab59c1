//! The jobs of a soak: what was taken, what ran, and what the queue says of it in the end.

use crate::pods::Pods;
use crate::typing::{run, stdout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What jobs of a soak run.
pub(crate) struct Scripts {
    /// One task.
    pub(crate) task: String,
    /// A nested instance, with jobs of its own.
    pub(crate) nested: String,
}

impl Scripts {
    /// Tasks leave `ID.RANK` in one file, those of nested instances `OUTER.ID` in another.
    pub(crate) fn new(started: &Path, nested: &Path) -> Self {
        let task = format!(
            "echo $QUORATE_JOB_ID.$QUORATE_TASK_RANK >> {}; sleep 0.0$(($$ % 5))",
            started.display()
        );
        // Jobs of it may be lost with a node, which is no failure of the script.
        let inner = format!("echo \"$0.$QUORATE_JOB_ID\" >> {}; sleep 0.05", nested.display());
        let nested = format!(
            "echo $QUORATE_JOB_ID.0 >> {}\n\
             quorate-agent submit --quiet --wait --cc 1-6 sh -c '{inner}' $QUORATE_JOB_ID || true\n\
             exit 0\n",
            started.display()
        );
        Self { task, nested }
    }
}

/// What the queue says of a job.
#[derive(Clone, Debug)]
pub(crate) struct Fate {
    /// Where it is on its way.
    pub(crate) state: String,
    /// What became of it, once it is over.
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
            state: job["state"].as_str().unwrap_or_default().to_owned(),
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

/// How often each job of a nested instance was started: lines `OUTER.ID`.
pub(crate) fn nested_starts(file: &Path) -> BTreeMap<(u64, u64), u64> {
    let starts = starts(file).into_iter();
    starts.map(|((outer, job), times)| ((outer, job.into()), times)).collect()
}
