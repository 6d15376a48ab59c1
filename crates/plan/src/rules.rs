//! What JobSet v0.12 and batch/v1 ask of a JobSet, restated: the API server would say it later and
//! elsewhere.

use quorate_api::jobset::JobSet;

/// A rule that a JobSet breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {rule}")]
pub struct Broken {
    /// The field.
    pub path: String,
    /// What is asked of it.
    pub rule: String,
}

/// Checks a JobSet; the rules that it breaks.
pub fn check_jobset(jobset: &JobSet) -> Vec<Broken> {
    let mut broken = Vec::new();
    if jobset.spec.replicated_jobs.is_empty() {
        broken.push(Broken {
            path: "spec.replicatedJobs".to_owned(),
            rule: "a JobSet of a cluster has at least the launcher".to_owned(),
        });
    }
    broken
}
