//! Names that show something or change jobs: the words go to rank 0, where the queue is, and come back
//! as what is to be printed.

use super::{clock, environment, socket, user};
use crate::instance::ask::{self, Ask};
use crate::instance::signal::Delivery;
use crate::logs::chain;
use crate::queue::client::{self, Own};
use crate::queue::keeper::Keeping;
use crate::queue::protocol::{CommandLine, Question};
use crate::queue::steps;
use quorate_contract::exit;
use quorate_queue::{Job, JobId, Program, Queue, QueueError, State, Time};
use quorate_slurm::calendar::Clock;
use quorate_slurm::facts::{Answer, View, queue};
use quorate_slurm::scancel::{self, Target};
use quorate_slurm::scontrol::{self, Change};
use quorate_slurm::value::JobRef;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};

/// What is to be printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::queue) struct Printed {
    output: String,
    errors: String,
    code: u8,
    /// A file to write first: its path and text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<(String, String)>,
    /// What is to be asked on the terminal, each with the words of the command that a yes means.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ask: Vec<(String, Vec<String>)>,
    /// Steps that are to end, or to get a signal.
    #[serde(skip)]
    steps: Option<(JobId, Ask)>,
}

impl From<Answer> for Printed {
    fn from(answer: Answer) -> Self {
        let Answer { output, errors, code } = answer;
        Self { output, errors, code, ..Self::default() }
    }
}

/// Asks rank 0 and prints what it says; asks on the terminal, if that is wanted, and then again.
pub(super) fn run(name: &str, words: &[String]) -> anyhow::Result<i32> {
    let (mut printed, code) = asked(name, words)?;
    if code != exit::OK {
        return Ok(code);
    }
    let ask = std::mem::take(&mut printed.ask);
    let mut code = print(&printed)?;
    for (prompt, words) in ask {
        if agreed(&prompt)? {
            let (printed, failed) = asked(name, &words)?;
            code = code.max(failed).max(print(&printed)?);
        }
    }
    Ok(code)
}

/// Asks on the terminal until the answer is yes or no; the end of input is no.
fn agreed(prompt: &str) -> anyhow::Result<bool> {
    loop {
        let mut out = std::io::stdout().lock();
        out.write_all(prompt.as_bytes())?;
        out.flush()?;
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line)? == 0 {
            return Ok(false);
        }
        match line.trim().chars().next() {
            Some('y' | 'Y') => return Ok(true),
            Some('n' | 'N') => return Ok(false),
            _ => {}
        }
    }
}

/// Prints an answer; gives its code.
fn print(printed: &Printed) -> anyhow::Result<i32> {
    if let Some((path, text)) = &printed.file
        && let Err(error) = std::fs::write(path, text)
    {
        writeln!(std::io::stderr(), "scontrol: error: {path} cannot be written: {error}")?;
        return Ok(exit::FAILED);
    }
    std::io::stderr().write_all(printed.errors.as_bytes())?;
    match std::io::stdout().lock().write_all(printed.output.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(printed.code.into()),
    }
}

/// What rank 0 says to a command line.
fn asked(name: &str, words: &[String]) -> anyhow::Result<(Printed, i32)> {
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
    Ok((printed, code))
}

/// Whether the steps of jobs matter for an answer, which costs a question for each job that runs.
fn wants_steps(asked: &CommandLine) -> bool {
    let word = |word: &String, short: char, long: &str| {
        word.len() > 3 && long.starts_with(word.split('=').next().unwrap_or(word))
            || word.starts_with('-') && !word.starts_with("--") && word.contains(short)
    };
    let has = |short, long| asked.words.iter().any(|each| word(each, short, long));
    match asked.name.as_str() {
        "squeue" => has('s', "--steps"),
        "sacct" => !has('X', "--allocations"),
        _ => false,
    }
}

/// On rank 0: what a command line comes to.
pub(in crate::queue) async fn answer(
    keeping: &Keeping,
    asked: CommandLine,
) -> Result<Printed, String> {
    let config = keeping.runner().overlay().config().clone();
    let runner = keeping.runner().clone();
    let inner = if wants_steps(&asked) { steps::of_all(keeping).await } else { Vec::new() };
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
        let mut cluster = queue::cluster(queue, &known);
        for (job, steps) in &inner {
            cluster.steps.extend(steps.iter().map(|step| step.facts(*job, &config)));
        }
        if asked.name == "sacct" {
            for job in queue.jobs() {
                let kept = steps::of_ended(job);
                cluster.steps.extend(kept.iter().map(|step| step.facts(job.id, &config)));
            }
        }
        let CommandLine { name, words, environment, user, .. } = &asked;
        let view = View { cluster: &cluster, clock, environment, user };
        match name.as_str() {
            "squeue" => quorate_slurm::squeue(words, &view).into(),
            "sinfo" => quorate_slurm::sinfo(words, &view).into(),
            "sacct" => quorate_slurm::sacct(words, &view).into(),
            "scancel" => {
                let order = quorate_slurm::scancel(words, &view);
                cancel(queue, now, &view, order, &|job, to| {
                    runner.signal(job, to);
                })
            }
            "scontrol" => control(queue, now, quorate_slurm::scontrol(words, &view)),
            name => failed(&format!("{name}: error: this agent has no such command")),
        }
    };
    let mut printed: Printed = keeping.change(all).await?;
    if let Some((job, asked)) = printed.steps.take() {
        let overlay = keeping.runner().overlay();
        if let Err(why) = ask::ask(overlay, &job.to_string(), asked).await {
            let Ask::Cancel { step, .. } = asked else { return Ok(printed) };
            printed = failed(&format!(
                "scancel: error: Kill job error on job step id {job}.{step}: {why}"
            ));
        }
    }
    Ok(printed)
}

fn failed(text: &str) -> Printed {
    Printed { errors: format!("{text}\n"), code: 1, ..Printed::default() }
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
    view: &View<'_>,
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
        let one = |reference: &JobRef| {
            let mut words: Vec<String> = match target {
                Target::Steps => Vec::new(),
                Target::Script => vec!["--batch".to_owned()],
                Target::All => vec!["--full".to_owned()],
            };
            words.extend(signal.map(|signal| format!("--signal={signal}")));
            words.push(
                step.map_or_else(|| reference.to_string(), |step| format!("{reference}.{step}")),
            );
            (scancel::prompt(*reference, step, view), words)
        };
        let code = u8::from(!errors.is_empty());
        let ask = jobs.iter().map(one).collect();
        return Printed { errors, code, ask, ..Printed::default() };
    }
    if let (Some(step), [reference]) = (step, &jobs[..]) {
        let ids = meant(queue, *reference);
        let found = ids.first().and_then(|id| queue.job(*id)).filter(|_| ids.len() == 1);
        let Some(job) = found.filter(|job| job.state == State::Run) else {
            return failed(&format!(
                "scancel: error: Kill job error on job step id {reference}.{step}: Invalid job id specified"
            ));
        };
        let signal = signal.and_then(|signal| u8::try_from(signal).ok());
        if !matches!(job.spec().program, Program::Command(_)) {
            let asked = Ask::Cancel { step, signal };
            return Printed { steps: Some((job.id, asked)), ..Printed::default() };
        }
        // The one step of srun outside of a script is all of its job.
        if step != 0 {
            return failed(&format!(
                "scancel: error: Kill job error on job step id {reference}.{step}: Invalid job id specified"
            ));
        }
    } else if step.is_some() {
        return failed("scancel: error: a step is cancelled alone: name one");
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
        scontrol::Order::WriteScript { job, file } => write_script(queue, job, file),
    }
}

/// The script of a batch job, on standard output or for the client to write.
fn write_script(queue: &Queue, reference: JobRef, file: String) -> Printed {
    let job = meant(queue, reference).first().and_then(|id| queue.job(*id));
    let Some(job) = job else {
        return failed("job script retrieval failed: Invalid job id specified");
    };
    let Program::Script { text, .. } = &job.spec().program else {
        return failed("job script retrieval failed: Invalid job id specified");
    };
    if file == "-" {
        return Printed { output: text.clone(), ..Printed::default() };
    }
    let output = format!("batch script for job {} written to {file}\n", job.id);
    Printed { output, file: Some((file, text.clone())), ..Printed::default() }
}

fn update(queue: &mut Queue, now: Time, id: JobId, changes: &[Change]) -> Result<(), QueueError> {
    for change in changes {
        match change {
            Change::TimeLimit(seconds) => queue.set_time_limit(now, id, *seconds)?,
            Change::Nice(nice) => {
                queue.set_urgency(now, id, quorate_slurm::options::urgency_of(*nice))?;
            }
            // Said of an array, that is of what is left of it.
            Change::ArrayLimit(_)
                if queue.job(id).is_none_or(|job| job.state == State::Inactive) => {}
            Change::ArrayLimit(limit) => queue.set_array_limit(now, id, *limit)?,
        }
    }
    Ok(())
}
