//! Verbs of the queue as tests ask them.

use crate::pods::Pods;
use crate::typing::{code, run, stderr, stdout, wait};
use serde_json::Value;

/// Submits a job; gives its number.
pub(crate) fn submit(pods: &Pods, rank: u32, words: &[&str]) -> u64 {
    submit_all(pods, rank, words)[0]
}

/// Submits a script; gives its number.
pub(crate) fn submit_batch(pods: &Pods, words: &[&str]) -> u64 {
    let output = run(pods, 0, &[&["batch"], words].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    stdout(&output).trim().parse().unwrap()
}

/// Submits jobs; gives their numbers.
pub(crate) fn submit_all(pods: &Pods, rank: u32, words: &[&str]) -> Vec<u64> {
    let output = run(pods, rank, &[&["submit"], words].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    stdout(&output).lines().map(|line| line.parse().unwrap()).collect()
}

/// All that is known of a job; `Null` while nobody answers.
pub(crate) fn job(pods: &Pods, id: u64) -> Value {
    let output = run(pods, 0, &["info", &id.to_string(), "-o", "json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// The states of all jobs, by number.
pub(crate) fn states(pods: &Pods) -> Vec<String> {
    let output = run(pods, 0, &["jobs", "-a", "-o", "json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    stdout(&output)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|job| match job["standing"].as_str() {
            Some(standing) => standing.to_owned(),
            None => job["state"].as_str().unwrap().to_owned(),
        })
        .collect()
}

/// Waits until a job is in a state, or has become something.
pub(crate) fn wait_for(pods: &Pods, id: u64, wanted: &str) -> Value {
    wait(&format!("job {id} to be {wanted}"), || {
        let job = job(pods, id);
        (job["state"] == wanted || job["standing"] == wanted).then_some(job)
    })
}

/// Waits until the tasks of a job run.
pub(crate) fn wait_started(pods: &Pods, id: u64) -> Value {
    wait(&format!("job {id} to start"), || {
        let job = job(pods, id);
        job["started"].is_u64().then_some(job)
    })
}

/// The code of waiting for a job.
pub(crate) fn ended(pods: &Pods, id: u64) -> i32 {
    code(&run(pods, 0, &["wait", &id.to_string()]))
}
