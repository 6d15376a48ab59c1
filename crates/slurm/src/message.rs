//! What sbatch, srun and salloc say when all goes well.

use crate::calendar::Clock;
use crate::options::Client;
use quorate_queue::{JobId, Time};

/// The line of sbatch for a job that was taken; nothing with `--quiet`.
pub fn submitted(client: &Client, job: JobId) -> Option<String> {
    match (client.parsable, client.quiet) {
        (true, _) => Some(format!("{job}\n")),
        (false, 0) => Some(format!("Submitted batch job {job}\n")),
        _ => None,
    }
}

/// What `--test-only` says on standard error of a job that would be taken.
pub fn would_start(
    command: &str,
    job: JobId,
    start: Time,
    cpus: u32,
    nodes: &str,
    partition: &str,
    clock: Clock,
) -> String {
    let start = clock.stamp(start);
    format!(
        "{command}: Job {job} to start at {start} using {cpus} processors on nodes {nodes} in partition \
         {partition}\n"
    )
}

/// What srun says on standard error when nodes do not come at once, and when they came.
pub fn queued(job: JobId) -> [String; 2] {
    [
        format!("srun: job {job} queued and waiting for resources\n"),
        format!("srun: job {job} has been allocated resources\n"),
    ]
}

/// What salloc says on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Its nodes do not come at once.
    Pending,
    /// They have come after all.
    Allocated,
    /// It has its nodes.
    Granted,
    /// It gives them back.
    Relinquishing,
    /// They were taken from it.
    Revoked,
}

impl Allocation {
    /// The lines, each with its end.
    pub fn lines(self, job: JobId) -> String {
        match self {
            Self::Pending => format!(
                "salloc: Pending job allocation {job}\nsalloc: job {job} queued and waiting for resources\n"
            ),
            Self::Allocated => format!("salloc: job {job} has been allocated resources\n"),
            Self::Granted => format!("salloc: Granted job allocation {job}\n"),
            Self::Relinquishing => format!("salloc: Relinquishing job allocation {job}\n"),
            Self::Revoked => format!("salloc: Job allocation {job} has been revoked.\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_slurms() {
        let said = |parsable, quiet| {
            let client = Client { parsable, quiet, ..Client::default() };
            submitted(&client, JobId(17))
        };
        assert_eq!(said(false, 0).as_deref(), Some("Submitted batch job 17\n"));
        assert_eq!(said(true, 1).as_deref(), Some("17\n"));
        assert_eq!(said(false, 1), None);
        // As recorded of Slurm 22.05.
        assert_eq!(
            would_start(
                "sbatch",
                JobId(34),
                Time(1_795_885_712_000),
                2,
                "worker-0-[0-1]",
                "batch",
                Clock::default()
            ),
            "sbatch: Job 34 to start at 2026-11-28T17:08:32 using 2 processors on nodes worker-0-[0-1] in \
             partition batch\n"
        );
        assert_eq!(Allocation::Granted.lines(JobId(23)), "salloc: Granted job allocation 23\n");
        assert_eq!(queued(JobId(10))[0], "srun: job 10 queued and waiting for resources\n");
    }
}
