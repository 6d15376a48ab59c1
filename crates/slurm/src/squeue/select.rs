//! Which jobs squeue shows, and in which order.

use super::{Given, each_task, has_task, meets};
use crate::facts::{ArrayTasks, JobFacts, JobState, StepFacts, View};
use crate::value::{JobRef, job_ref};
use std::cmp::Ordering;

/// What was asked for; lists that are empty ask for all.
#[derive(Default)]
pub(super) struct Selection {
    jobs: Vec<JobRef>,
    users: Option<Vec<String>>,
    partitions: Vec<String>,
    names: Vec<String>,
    accounts: Vec<String>,
    qos: Vec<String>,
    nodes: Vec<String>,
    states: Vec<JobState>,
}

fn list(given: &Given, name: &str) -> Vec<String> {
    let text = given.text(name).unwrap_or("");
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

impl Selection {
    pub(super) fn read(given: &Given, view: &View<'_>) -> Result<Self, String> {
        let mut selection = Self {
            partitions: list(given, "partition"),
            names: list(given, "name"),
            accounts: list(given, "account"),
            qos: list(given, "qos"),
            states: states(&list(given, "states"), given.has("start"))?,
            ..Self::default()
        };
        let mut numbers = list(given, "jobs");
        if given.has("steps") {
            numbers.extend(list(given, "steps"));
        }
        for word in numbers {
            let whole = word.split('.').next().unwrap_or("");
            let Some(reference) = job_ref(whole) else {
                return Err(format!("squeue: error: Invalid job id: {word}"));
            };
            selection.jobs.push(reference);
        }
        // Slurm's own answer to one number that it does not know.
        if let [one] = selection.jobs.as_slice()
            && !view.cluster.jobs.iter().any(|job| is(job, *one))
        {
            return Err("slurm_load_jobs error: Invalid job id specified".to_owned());
        }
        if given.has("me") {
            selection.users = Some(vec![view.user.to_owned()]);
        } else if given.has("user") {
            selection.users = Some(list(given, "user"));
        }
        if let Some(text) = given.text("nodelist") {
            let hosts: Option<quorate_hostlist::HostList> = text.parse().ok();
            let known = |host: &str| view.cluster.nodes.iter().any(|node| node.name == host);
            for host in hosts.iter().flat_map(quorate_hostlist::HostList::iter) {
                if !known(host) {
                    return Err(format!("squeue: error: Invalid node name {host}"));
                }
                selection.nodes.push(host.to_owned());
            }
        }
        Ok(selection)
    }

    fn takes(&self, job: &JobFacts) -> bool {
        let among = |list: &[String], text: &str| list.is_empty() || list.iter().any(|x| x == text);
        let user = |users: &Vec<String>| {
            users.iter().any(|user| *user == job.user || *user == job.uid.to_string())
        };
        (self.jobs.is_empty() || self.jobs.iter().any(|reference| is(job, *reference)))
            && self.users.as_ref().is_none_or(user)
            && among(&self.partitions, &job.partition)
            && among(&self.names, &job.name)
            && among(&self.accounts, job.account.as_deref().unwrap_or(""))
            && among(&self.qos, job.qos.as_deref().unwrap_or(""))
            && (self.nodes.is_empty() || meets(&job.nodes, &self.nodes))
            && self.states.contains(&job.state)
    }

    /// The jobs, each task of an array alone on request.
    pub(super) fn jobs(&self, view: &View<'_>, each: bool) -> Vec<JobFacts> {
        let jobs = view.cluster.jobs.iter().filter(|job| self.takes(job));
        let tasks: Vec<JobFacts> = jobs
            .flat_map(|job| {
                // One task of a waiting array that was asked for is shown alone.
                let one = self.jobs.iter().any(|reference| reference.index.is_some());
                if each || one { each_task(job) } else { vec![job.clone()] }
            })
            .collect();
        tasks
            .into_iter()
            .filter(|job| {
                self.jobs.is_empty() || self.jobs.iter().any(|reference| is(job, *reference))
            })
            .collect()
    }

    /// Steps of jobs that run.
    pub(super) fn steps<'a>(&self, view: &View<'a>) -> Vec<(&'a JobFacts, &'a StepFacts)> {
        let of = |step: &'a StepFacts| {
            let job = view.cluster.jobs.iter().find(|job| job.id == step.job)?;
            (step.state == JobState::Running && self.takes(job)).then_some((job, step))
        };
        let mut steps: Vec<_> = view.cluster.steps.iter().filter_map(of).collect();
        // Partition, then job, then numbered steps before those with names.
        steps.sort_by(|(a, x), (b, y)| {
            let number = |step: &StepFacts| step.step.parse().unwrap_or(u32::MAX);
            (&a.partition, a.id, number(x)).cmp(&(&b.partition, b.id, number(y)))
        });
        steps
    }
}

/// Whether a job is, or is in, what a reference names.
pub(crate) fn is(job: &JobFacts, reference: JobRef) -> bool {
    let number = reference.job.0;
    match reference.index {
        None => job.id == number || job.array.as_ref().is_some_and(|array| array.job == number),
        Some(index) => {
            job.array.as_ref().is_some_and(|array| array.job == number) && has_task(job, index)
        }
    }
}

fn states(words: &[String], start: bool) -> Result<Vec<JobState>, String> {
    if start {
        return Ok(vec![JobState::Pending]);
    }
    if words.is_empty() {
        return Ok(JobState::ALL.into_iter().filter(|state| state.is_active()).collect());
    }
    let mut states = Vec::new();
    for word in words {
        if word.eq_ignore_ascii_case("all") {
            return Ok(JobState::ALL.to_vec());
        }
        let known = |(code, name): &(&str, &str)| {
            word.eq_ignore_ascii_case(code) || word.eq_ignore_ascii_case(name)
        };
        match JobState::read(word) {
            Some(state) => states.push(state),
            None if crate::facts::NEVER.iter().any(known) => {}
            None => {
                return Err(format!(
                    "squeue: error: Invalid job state specified: {word}\nsqueue: error: Valid job \
                     states include: PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,\
                     NODE_FAIL,PREEMPTED,BOOT_FAIL,DEADLINE,OUT_OF_MEMORY,COMPLETING,CONFIGURING,\
                     RESIZING,RESV_DEL_HOLD,REQUEUED,REQUEUE_FED,REQUEUE_HOLD,REVOKED,SIGNALING,\
                     SPECIAL_EXIT,STAGE_OUT,STOPPED\n\n"
                ));
            }
        }
    }
    Ok(states)
}

/// Compares two jobs at a moment.
type Order = fn(&JobFacts, &JobFacts, i64) -> Ordering;

/// Orders jobs by letters, the first letter first; `-` turns one round.
pub(super) fn sort(jobs: &mut [JobFacts], keys: &str, view: &View<'_>) -> Result<(), String> {
    let mut orders: Vec<(bool, Order)> = Vec::new();
    for key in keys.split(',').map(str::trim).filter(|key| !key.is_empty()) {
        let (down, letter) = match key.strip_prefix('-') {
            Some(letter) => (true, letter),
            None => (false, key.strip_prefix('+').unwrap_or(key)),
        };
        orders.push((
            down,
            match letter {
                "i" | "A" | "F" => |a, b, _| number(a).cmp(&number(b)),
                "P" => |a, b, _| a.partition.cmp(&b.partition),
                "j" => |a, b, _| a.name.cmp(&b.name),
                "u" => |a, b, _| a.user.cmp(&b.user),
                "U" => |a, b, _| a.uid.cmp(&b.uid),
                "t" => |a, b, _| a.state.code().cmp(b.state.code()),
                "T" => |a, b, _| a.state.word().cmp(b.state.word()),
                "p" | "Q" => |a, b, _| a.priority.cmp(&b.priority),
                "M" => |a, b, now| a.elapsed(now).cmp(&b.elapsed(now)),
                "l" => |a, b, _| a.limit.unwrap_or(u64::MAX).cmp(&b.limit.unwrap_or(u64::MAX)),
                "D" => |a, b, _| a.node_count.cmp(&b.node_count),
                "C" => |a, b, _| a.cpus.cmp(&b.cpus),
                "S" => |a, b, _| late(a.start).cmp(&late(b.start)),
                "e" => |a, b, _| late(a.end).cmp(&late(b.end)),
                "V" => |a, b, _| a.submit.cmp(&b.submit),
                "N" | "R" => |a, b, _| a.nodes.cmp(&b.nodes),
                "a" => |a, b, _| a.account.cmp(&b.account),
                "r" => |a, b, _| a.reason.cmp(&b.reason),
                _ => return Err(format!("squeue: error: Invalid sort specification: {letter}")),
            },
        ));
    }
    let now = view.clock.now;
    jobs.sort_by(|a, b| {
        orders
            .iter()
            .map(|(down, order)| if *down { order(b, a, now) } else { order(a, b, now) })
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    Ok(())
}

/// Unknown moments are after all others.
fn late(moment: Option<i64>) -> i64 {
    moment.unwrap_or(i64::MAX)
}

/// The number of a job or its array, and its place there; tasks that wait are behind the others.
fn number(job: &JobFacts) -> (u64, u32) {
    match &job.array {
        None => (job.id, 0),
        Some(array) => match array.tasks {
            ArrayTasks::One(index) => (array.job, index),
            ArrayTasks::Waiting(_) => (array.job, u32::MAX),
        },
    }
}
