//! Steps of scripts, as Slurm's names tell of them: jobs of the cluster within a job.
//!
//! Owns: what is said of a step between brokers, asking an instance's queue for it, and the facts that
//! become of that. What was a step of a job that is over is forgotten with that job's cluster.

use super::client::{self, Own};
use super::keeper::Keeping;
use super::protocol::{Done, JobFacts, Question, Selection};
use crate::instance::ask::{self, Ask};
use quorate_contract::AgentConfig;
use quorate_hostlist::HostList;
use quorate_queue::{JobId, Program, Queue, Standing, State};
use quorate_slurm::facts::{JobState, StepFacts};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// The most steps of a job that are told of: an answer is one message.
const MOST: u64 = 100;

/// How long a job's own cluster is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// A step, in few bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    number: u32,
    name: String,
    standing: Option<Standing>,
    code: u8,
    start: u64,
    end: Option<u64>,
    pods: Vec<String>,
    tasks: u32,
    cpus: u32,
}

/// Steps of one job.
pub(crate) type Steps = Vec<Step>;

impl Step {
    fn of(job: JobFacts) -> Option<Self> {
        Some(Self {
            number: u32::try_from(job.id.0.checked_sub(1)?).ok()?,
            name: job.name,
            standing: job.standing,
            code: job.code.unwrap_or(0),
            start: job.started?.0 / 1000,
            end: job.ended.map(|time| time.0 / 1000),
            pods: job.pods,
            tasks: job.tasks,
            cpus: job.tasks.saturating_mul(job.cores_per_task),
        })
    }

    /// What is said of a step of this job.
    pub(super) fn facts(&self, job: JobId, config: &AgentConfig) -> StepFacts {
        let host = |pod: &String| {
            let rank = (0..config.size).find(|rank| config.display_name(*rank) == *pod);
            rank.and_then(|rank| config.host_name(rank)).unwrap_or_else(|| pod.clone())
        };
        let seconds = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
        let (state, exit) = match self.standing {
            None => (JobState::Running, (0, 0)),
            Some(Standing::Completed) => (JobState::Completed, (0, 0)),
            Some(Standing::Cancelled) => (JobState::Cancelled, (0, 15)),
            Some(Standing::TimedOut) => (JobState::Timeout, (0, 15)),
            Some(Standing::Failed) if self.code > 128 => (JobState::Failed, (0, self.code - 128)),
            Some(Standing::Failed) => (JobState::Failed, (self.code, 0)),
        };
        StepFacts {
            job: job.0,
            step: self.number.to_string(),
            name: self.name.clone(),
            state,
            exit,
            start: seconds(self.start),
            end: self.end.map(seconds),
            nodes: self.pods.iter().map(host).collect::<HostList>().to_string(),
            node_count: u32::try_from(self.pods.len()).unwrap_or(u32::MAX),
            cpus: self.cpus,
            tasks: self.tasks,
        }
    }
}

/// In the pod of an instance's rank 0: asks its queue.
pub(crate) async fn ask_instance(socket: &Path, asked: Ask) -> anyhow::Result<Steps> {
    let one =
        |step: u32| Selection { ids: vec![JobId(u64::from(step) + 1)], ..Selection::default() };
    match asked {
        Ask::Steps => {
            let last = Selection { last: Some(MOST), ..Selection::default() };
            let jobs: Vec<Vec<JobFacts>> = answers(socket, &Question::Jobs(last)).await?;
            Ok(jobs.into_iter().flatten().filter_map(Step::of).collect())
        }
        Ask::Cancel { step, signal } => {
            let jobs = one(step);
            let question = match signal {
                None => Question::Cancel { jobs, note: "scancel".to_owned() },
                Some(signal) => Question::Signal { jobs, signal: signal.into() },
            };
            let done: Vec<Vec<Done>> = answers(socket, &question).await?;
            let refused = done.into_iter().flatten().find_map(|done| done.refused);
            refused.map_or(Ok(Vec::new()), |why| Err(anyhow::Error::msg(why)))
        }
    }
}

async fn answers<T: serde::de::DeserializeOwned>(
    socket: &Path,
    question: &Question,
) -> anyhow::Result<Vec<T>> {
    let (answers, end) = client::all(socket, &client::hello(question, Own::default())).await?;
    match end.error {
        Some(error) => Err(anyhow::Error::msg(error)),
        None => answers.iter().map(client::read).collect(),
    }
}

/// On rank 0: the steps of all jobs that run and are clusters. One that does not answer has none.
pub(super) async fn of_all(keeping: &Keeping) -> Vec<(JobId, Steps)> {
    let clusters = |queue: &Queue| -> Vec<JobId> {
        let has_steps = |job: &&quorate_queue::Job| {
            job.state == State::Run && !matches!(job.spec().program, Program::Command(_))
        };
        queue.running().filter(has_steps).map(|job| job.id).collect()
    };
    let Ok(jobs) = keeping.look(clusters).await else { return Vec::new() };
    let ask_one = |job: JobId| {
        let overlay = keeping.runner().overlay().clone();
        tokio::spawn(async move {
            let id = job.to_string();
            let steps = tokio::time::timeout(PATIENCE, ask::ask(&overlay, &id, Ask::Steps)).await;
            (job, steps.map_or_else(|_| Vec::new(), Result::unwrap_or_default))
        })
    };
    let asked: Vec<_> = jobs.into_iter().map(ask_one).collect();
    let mut all = Vec::with_capacity(asked.len());
    for one in asked {
        all.extend(one.await.ok());
    }
    all
}
