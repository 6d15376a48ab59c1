//! Names that show something or change jobs: the words go to rank 0, where the queue is, and come back
//! as what is to be printed.

use super::{clock, environment, socket, user};
use crate::instance::signal::Delivery;
use crate::logs::chain;
use crate::queue::client::{self, Own};
use crate::queue::keeper::Keeping;
use crate::queue::protocol::{CommandLine, Question};
use quorate_contract::exit;
use quorate_queue::{Job, JobId, Queue, QueueError, State, Time};
use quorate_slurm::calendar::Clock;
use quorate_slurm::facts::{Answer, View, queue};
use quorate_slurm::scancel::{self, Target};
use quorate_slurm::scontrol::{self, Change};
use quorate_slurm::value::JobRef;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

/// What is to be printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::queue) struct Printed {
    output: String,
    errors: String,
    code: u8,
}

impl From<Answer> for Printed {
    fn from(answer: Answer) -> Self {
        let Answer { output, errors, code } = answer;
        Self { output, errors, code }
    }
}

/// Asks rank 0 and prints what it says.
pub(super) fn run(name: &str, words: &[String]) -> anyhow::Result<i32> {
    let environment = environment();
    let read = |name: &String| {
        ["SLURM_", "SQUEUE_", "SINFO_", "SACCT_", "SCANCEL_"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    let Clock { now, offset } = clock();
    let asked = CommandLine {
        name: name.to_owned(),
        words: words.to_vec(),
        user: user(&environment),
        uid: nix::unistd::geteuid().as_raw(),
        environment: environment.into_iter().filter(|(name, _)| read(name)).collect(),
        clock: (now, offset),
    };
    let mut printed = Printed::default();
    let hello = client::hello(&Question::Slurm(Box::new(asked)), Own::default());
    let code = client::ask(&socket(), &hello, |answer| {
        printed = client::read(&answer)?;
        Ok(())
    })?;
    if code != exit::OK {
        return Ok(code);
    }
    std::io::stderr().write_all(printed.errors.as_bytes())?;
    match std::io::stdout().lock().write_all(printed.output.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(printed.code.into()),
    }
}

/// On rank 0: what a command line comes to.
pub(in crate::queue) async fn answer(
    keeping: &Keeping,
    asked: CommandLine,
) -> Result<Printed, String> {
    let config = keeping.runner().overlay().config().clone();
    let runner = keeping.runner().clone();
    let all = move |queue: &mut Queue, now: Time| {
        let clock = Clock { now: asked.clock.0, offset: asked.clock.1 };
        let host = config.host_name(0).unwrap_or_default();
        let first_lane = queue.first_lane().to_owned();
        let known = queue::Known {
            cluster: &config.cluster.name,
            host: &host,
            first_lane: &first_lane,
            users: &[(asked.uid, asked.user.clone())].into(),
            groups: &BTreeMap::new(),
            clock,
        };
        let cluster = queue::cluster(queue, &known);
        let CommandLine { name, words, environment, user, .. } = &asked;
        let view = View { cluster: &cluster, clock, environment, user };
        match name.as_str() {
            "squeue" => quorate_slurm::squeue(words, &view).into(),
            "sinfo" => quorate_slurm::sinfo(words, &view).into(),
            "sacct" => quorate_slurm::sacct(words, &view).into(),
            "scancel" => cancel(queue, now, quorate_slurm::scancel(words, &view), &|job, to| {
                runner.signal(job, to);
            }),
            "scontrol" => control(queue, now, quorate_slurm::scontrol(words, &view)),
            name => failed(&format!("{name}: error: this agent has no such command")),
        }
    };
    keeping.change(all).await
}

fn failed(text: &str) -> Printed {
    Printed { errors: format!("{text}\n"), code: 1, output: String::new() }
}

/// The jobs that a reference means: one, one of an array, or all of an array that are not over.
fn meant(queue: &Queue, reference: JobRef) -> Vec<JobId> {
    let all = queue.jobs().filter(|job| reference.means(job.id, job.submission.element));
    all.map(|job| job.id).collect()
}

/// Does something to jobs; tells what was refused in Slurm's manner.
fn each(
    queue: &mut Queue,
    name: &str,
    jobs: &[JobRef],
    mut change: impl FnMut(&mut Queue, JobId) -> Result<(), QueueError>,
) -> Printed {
    let mut printed = Printed::default();
    for reference in jobs {
        for id in meant(queue, *reference) {
            if let Err(error) = change(queue, id) {
                let _ = writeln!(printed.errors, "{name}: error: job {id}: {}", chain(&error));
                printed.code = 1;
            }
        }
    }
    printed
}

fn cancel(
    queue: &mut Queue,
    now: Time,
    order: scancel::Order,
    send: &dyn Fn(&Job, Delivery),
) -> Printed {
    let (jobs, step, signal, target, ask, errors) = match order {
        scancel::Order::Say(answer) => return answer.into(),
        scancel::Order::Cancel { jobs, step, signal, target, ask, errors } => {
            (jobs, step, signal, target, ask, errors)
        }
    };
    if ask {
        return failed(
            "scancel: error: --interactive is not supported here: name the jobs to cancel",
        );
    }
    if step.is_some() {
        return failed(
            "scancel: error: steps are cancelled by the srun that started them, or with their job",
        );
    }
    let active =
        |queue: &Queue, id: JobId| queue.job(id).is_some_and(|job| job.state != State::Inactive);
    let mut printed = each(queue, "scancel", &jobs, |queue, id| match signal {
        Some(signal) => {
            let (script, steps) = (target != Target::Steps, target != Target::Script);
            if let (Some(job), Ok(signal)) = (queue.job(id), u8::try_from(signal)) {
                send(job, Delivery { signal, script, steps });
            }
            Ok(())
        }
        // Who was cancelled with another has ended already.
        None if !active(queue, id) => Ok(()),
        None => queue.cancel(now, id, "scancel"),
    });
    if !errors.is_empty() {
        printed.errors = errors + &printed.errors;
        printed.code = 1;
    }
    printed
}

fn control(queue: &mut Queue, now: Time, order: scontrol::Order) -> Printed {
    let ranks = |queue: &Queue, nodes: &quorate_hostlist::HostList| -> Vec<u32> {
        let named = |host: &str| nodes.iter().any(|name| name == host);
        queue
            .pool()
            .nodes()
            .filter(|(offer, _)| named(&offer.host))
            .map(|(offer, _)| offer.rank)
            .collect()
    };
    let all = |results: Vec<Result<(), QueueError>>| {
        let mut printed = Printed::default();
        for error in results.into_iter().filter_map(Result::err) {
            let _ = writeln!(printed.errors, "scontrol: error: {}", chain(&error));
            printed.code = 1;
        }
        printed
    };
    match order {
        scontrol::Order::Say(answer) => answer.into(),
        scontrol::Order::Hold(jobs) => {
            each(queue, "scontrol", &jobs, |queue, id| queue.hold(now, id))
        }
        scontrol::Order::Release(jobs) => {
            each(queue, "scontrol", &jobs, |queue, id| queue.release(now, id))
        }
        scontrol::Order::Requeue { jobs, hold } => each(queue, "scontrol", &jobs, |queue, id| {
            queue.requeue(now, id, "scontrol requeue")?;
            if hold { queue.hold(now, id) } else { Ok(()) }
        }),
        scontrol::Order::Update { jobs, changes } => {
            each(queue, "scontrol", &jobs, |queue, id| update(queue, now, id, &changes))
        }
        scontrol::Order::Drain { nodes, reason } => {
            let ranks = ranks(queue, &nodes);
            all(ranks.into_iter().map(|rank| queue.drain(now, rank, &reason)).collect())
        }
        scontrol::Order::Resume { nodes } => {
            let ranks = ranks(queue, &nodes);
            all(ranks.into_iter().map(|rank| queue.undrain(now, rank)).collect())
        }
        scontrol::Order::WriteScript { .. } => failed(
            "scontrol: error: write batch_script is not supported here: `quorate-agent events JOB` has it",
        ),
    }
}

fn update(queue: &mut Queue, now: Time, id: JobId, changes: &[Change]) -> Result<(), QueueError> {
    for change in changes {
        match change {
            Change::TimeLimit(seconds) => queue.set_time_limit(now, id, *seconds)?,
            Change::Nice(nice) => {
                queue.set_urgency(now, id, quorate_slurm::options::urgency_of(*nice))?;
            }
            // The limit of an array belongs to its submission here.
            Change::ArrayLimit(_) => {
                return Err(QueueError::State {
                    job: id,
                    state: queue.job(id).map_or(State::Inactive, |job| job.state),
                    what: "how many tasks of an array run at once is said when it is submitted",
                });
            }
        }
    }
    Ok(())
}
