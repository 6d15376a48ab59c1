//! Steps of scripts, as Slurm's names tell of them: jobs of the cluster within a job.
//!
//! Owns: what is said of a step between brokers, asking an instance's queue for it, the facts that
//! become of that, and what is kept of steps once their job is over: a note of bounded length with the job,
//! written when its cluster ends ([`crate::instance::steps`]).

use super::client::{self, Own};
use super::keeper::Keeping;
use super::protocol::{Done, JobFacts, Question, Selection};
use crate::instance::ask::{self, Ask};
use crate::instance::steps::Told;
use quorate_contract::AgentConfig;
use quorate_hostlist::HostList;
use quorate_queue::{Job, JobId, Program, Queue, Standing, State};
use quorate_slurm::facts::{JobState, StepFacts};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// The key of what is kept of its steps with a job.
const KEY: &str = "steps";

/// The most bytes that are kept: a hundred thousand jobs that are over may have some.
const KEPT: usize = 4096;

/// The most steps of a job that are told of: an answer is one message.
const MOST: u64 = 100;

/// How long a job's own cluster is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// A step, in few bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
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

    /// One line for people: `0  relax  completed  1s  8 tasks on worker-0-0`.
    pub(super) fn words(&self) -> String {
        let became = match self.standing {
            None => "running".to_owned(),
            Some(Standing::Completed) => "completed".to_owned(),
            Some(Standing::Failed) => format!("failed with {}", self.code),
            Some(Standing::Cancelled) => "cancelled".to_owned(),
            Some(Standing::TimedOut) => "timeout".to_owned(),
        };
        let took = self.end.map(|end| end.saturating_sub(self.start));
        let took = took.map_or("-".to_owned(), |seconds| format!("{seconds}s"));
        let pods = self.pods.iter().collect::<HostList>().to_string();
        let (number, name, tasks) = (self.number, &self.name, self.tasks);
        let plural = if tasks == 1 { "" } else { "s" };
        format!("{number}  {name}  {became}  {took}  {tasks} task{plural} on {pods}")
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

/// A step as it is kept: number, name, what became of it, code, start, end, pods as a host list, tasks
/// and CPUs.
type Kept = (u32, String, Option<Standing>, u8, u64, Option<u64>, String, u32, u32);

/// What is kept of steps: the last of them, as many as there is room for.
fn to_keep(steps: &[Step]) -> String {
    let mut room = KEPT - "[]".len();
    let texts = steps.iter().rev().map_while(|step| {
        let Step { number, name, standing, code, start, end, pods, tasks, cpus } = step.clone();
        let pods = pods.into_iter().collect::<HostList>().to_string();
        let kept: Kept = (number, name, standing, code, start, end, pods, tasks, cpus);
        let text = serde_json::to_string(&kept).expect("plain data always serializes");
        room = room.checked_sub(text.len() + 1)?;
        Some(text)
    });
    let mut texts: Vec<String> = texts.collect();
    texts.reverse();
    format!("[{}]", texts.join(","))
}

/// The steps that a job had which is over.
pub(super) fn of_ended(job: &Job) -> Steps {
    if job.state != State::Inactive {
        return Vec::new();
    }
    let kept = job.memo(KEY).and_then(|text| serde_json::from_str::<Vec<Kept>>(text).ok());
    let step = |(number, name, standing, code, start, end, pods, tasks, cpus): Kept| Step {
        number,
        name,
        // What still ran then has ended with its job.
        standing: standing.or_else(|| match job.standing() {
            Some(ended @ (Standing::TimedOut | Standing::Failed)) => Some(ended),
            _ => Some(Standing::Cancelled),
        }),
        code,
        start,
        end: end.or(job.ended.map(|time| time.0 / 1000)),
        pods: pods
            .parse::<HostList>()
            .map(|all| all.iter().map(str::to_owned).collect())
            .unwrap_or_default(),
        tasks,
        cpus,
    };
    kept.into_iter().flatten().map(step).collect()
}

/// On rank 0: keeps the steps of a job whose cluster ends.
pub(super) async fn keep(keeping: &Keeping, told: Told) -> Result<(), String> {
    let Ok(id) = told.job.parse::<JobId>() else { return Ok(()) };
    let text = to_keep(&told.steps);
    let note = move |queue: &mut Queue, now| {
        let Some(job) = queue.job(id) else { return };
        let is_cluster = !matches!(job.spec().program, Program::Command(_));
        if is_cluster && job.memo(KEY) != Some(&text) {
            queue.memo(now, id, KEY, &text).expect("a job that is known can be noted of");
        }
    };
    keeping.change(note).await
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
        let has_steps = |job: &&Job| {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: u32) -> Step {
        Step {
            number,
            name: format!("relax {number}"),
            standing: Some(Standing::Completed),
            code: 0,
            start: 1_790_000_000,
            end: Some(1_790_000_001),
            pods: vec!["launcher-0-0".into(), "worker-0-0".into(), "worker-0-1".into()],
            tasks: 8,
            cpus: 8,
        }
    }

    #[test]
    fn what_is_kept_of_steps_is_bounded_and_the_last_are_kept() {
        let all: Steps = (0..1000).map(step).collect();
        let text = to_keep(&all);
        assert!(text.len() <= KEPT && text.len() > KEPT - 200, "{}", text.len());
        let kept: Vec<Kept> = serde_json::from_str(&text).unwrap();
        assert!(kept.len() > 20, "{}", kept.len());
        assert_eq!(kept.last().unwrap().0, 999);
        assert_eq!(to_keep(&[]), "[]");
    }
}
