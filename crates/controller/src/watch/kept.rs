//! Kinds whose facts are kept, whether a watch or the answer to a request brings them.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use quorate_api::jobset::JobSet;
use quorate_observe::{JobFacts, JobSetFacts, PodFacts};

use super::{Cache, Caches, Readable};

/// A kind whose facts are kept.
pub trait Kept: Readable {
    /// What is kept of an object.
    type Facts: PartialEq;

    /// Where it is kept.
    fn cache(caches: &Caches) -> &Cache<Self::Facts>;

    /// The facts of this object.
    fn facts(&self) -> Self::Facts;
}

impl Kept for JobSet {
    type Facts = JobSetFacts;

    fn cache(caches: &Caches) -> &Cache<JobSetFacts> {
        &caches.jobsets
    }

    fn facts(&self) -> JobSetFacts {
        JobSetFacts::from_jobset(self)
    }
}

impl Kept for Job {
    type Facts = JobFacts;

    fn cache(caches: &Caches) -> &Cache<JobFacts> {
        &caches.jobs
    }

    fn facts(&self) -> JobFacts {
        JobFacts::from_job(self)
    }
}

impl Kept for Pod {
    type Facts = PodFacts;

    fn cache(caches: &Caches) -> &Cache<PodFacts> {
        &caches.pods
    }

    fn facts(&self) -> PodFacts {
        PodFacts::from_pod(self)
    }
}
