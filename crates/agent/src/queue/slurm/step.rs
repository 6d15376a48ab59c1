//! `srun`: a step of the job that it is called in, or a job of its own.

use super::submit::{depend, job, nothing_more, question};
use super::{environment, salloc, socket};
use crate::instance::proxy::{self, OpenWay};
use crate::job::client::{self as streams, Labels};
use crate::launch::text;
use crate::local::LocalError;
use crate::query::block_on;
use crate::queue::TERMINAL;
use crate::queue::by_rank;
use crate::queue::client;
use crate::queue::protocol::{JobFacts, Question, Selection, Then};
use quorate_contract::{env as names, exit};
use quorate_queue::{Constraint, JobId, Jobspec, Program, State};
use quorate_slurm::environment::of_the_whole_job;
use quorate_slurm::multi_prog::{self, MultiProgError};
use quorate_slurm::options::{Distribution, MPI_LIST, Mpi, Tool, Wanted};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Runs the command; gives the code to exit with.
pub(super) fn run(words: &[String]) -> anyhow::Result<i32> {
    let mut own = environment();
    if std::env::var_os(names::SLURM_SOCKET).is_some() {
        // A step is not called as its job is (srun(1), SLURM_JOB_NAME).
        own.remove("SLURM_JOB_NAME");
    }
    let mut job = match job(Tool::Srun, words, &own)? {
        Ok(job) => job,
        Err(code) => return Ok(code),
    };
    if job.client.step.mpi == Some(Mpi::List) {
        std::io::stdout().write_all(MPI_LIST.as_bytes())?;
        return Ok(exit::OK);
    }
    if !depend(Tool::Srun, &mut job)? {
        return Ok(exit::FAILED);
    }
    if job.client.step.multi_prog
        && let Err(why) = many_programs(&mut job)
    {
        writeln!(std::io::stderr(), "srun: error: {why}")?;
        return Ok(exit::FAILED);
    }
    let within = match job.client.step.job {
        Some(id) => match allocation(id, &mut job)? {
            Ok(way) => Some(way),
            Err(lines) => {
                std::io::stderr().write_all(lines.as_bytes())?;
                return Ok(exit::FAILED);
            }
        },
        None => None,
    };
    let client = job.client.clone();
    if let Some(Distribution::Plane(_) | Distribution::Arbitrary) = client.distribution {
        let text = "srun: error: --distribution takes block and cyclic here: use one of them\n";
        std::io::stderr().write_all(text.as_bytes())?;
        return Ok(exit::FAILED);
    }
    let step = &client.step;
    let spec = &mut job.jobspec;
    options(spec, &client);
    if step.relative > 0 {
        let before =
            Constraint::Not(vec![Constraint::Ranks(vec![format!("0-{}", step.relative - 1)])]);
        spec.constraint = Some(match spec.constraint.take() {
            Some(other) => Constraint::And(vec![other, before]),
            None => before,
        });
    }
    if step.pty {
        let size = crate::terminal::size().unwrap_or_default().to_string();
        spec.options.insert(TERMINAL.to_owned(), size);
        spec.streams.label = false;
    }
    spec.environment.insert(names::SLURM.to_owned(), "1".to_owned());
    // In a script this is a step of the script's job.
    if std::env::var_os(names::SLURM_SOCKET).is_some() && within.is_none() {
        let of_the_job = environment().into_iter().filter(|(name, _)| of_the_whole_job(name));
        spec.environment.extend(of_the_job);
    }
    let from_here = spec.streams.input.is_none();
    if from_here {
        spec.streams.input = Some("-".to_owned());
    }
    // As wide as the highest rank (srun(1), --label).
    let width = spec.request.tasks.saturating_sub(1).to_string().len();
    let labels = if spec.streams.label { Labels::Padded(width) } else { Labels::None };
    let hello = client::hello(
        &question(&job, Then::Attach { stdin: from_here, own: true }, false),
        nothing_more(),
    );
    let options = streams::Options {
        labels,
        stdin: from_here,
        waits_for_placement: false,
        terminal: step.pty,
        patience: client.immediate.map(|limit| Duration::from_secs(limit.seconds.into())),
    };
    // A step is a job of the cluster that this is typed in, which in a script is the script's own.
    let place = within.as_ref().map_or_else(|| streams::socket(None), |way| way.socket.clone());
    let end = streams::call(&place, &hello, &options);
    if let Err(LocalError::TooLate) = end {
        let text = "srun: error: Unable to allocate resources: Requested nodes are busy\n";
        std::io::stderr().write_all(text.as_bytes())?;
        return Ok(exit::FAILED);
    }
    Ok(streams::conclude(end, exit::UNAVAILABLE))
}

/// How its tasks are started.
fn options(spec: &mut Jobspec, client: &quorate_slurm::options::Client) {
    let mut option = |name: &str, value: &str| {
        spec.options.insert(name.to_owned(), value.to_owned());
    };
    match client.step.mpi {
        Some(Mpi::None) => option("mpi", "none"),
        Some(Mpi::Pmi2) => option("mpi", "pmi2"),
        Some(Mpi::Pmix) => option("mpi", "pmix"),
        Some(Mpi::List) | None => {}
    }
    if client.distribution == Some(Distribution::Cyclic) {
        option("distribution", "cyclic");
    }
    if client.step.kill_on_bad_exit != Some(true) {
        option("no-kill", "");
    }
}

/// Makes the file that it names the command: what each rank runs is read from it by the rank.
fn many_programs(job: &mut Wanted) -> Result<(), String> {
    let Program::Command(words) = &job.jobspec.program else { return Ok(()) };
    let Some(file) = words.first() else { return Ok(()) };
    let shown = file.clone();
    let text = std::fs::read_to_string(PathBuf::from(file))
        .map_err(|_| format!("Could not open multi_prog config file {shown}"))?;
    let said = |error: MultiProgError| error.to_string();
    let lines = multi_prog::read(&shown, &text).map_err(said)?;
    let request = &mut job.jobspec.request;
    if !job.tasks_given {
        request.tasks = multi_prog::tasks(&lines).max(request.tasks);
    }
    multi_prog::check(&shown, &lines, request.tasks).map_err(said)?;
    let commands = (0..request.tasks).filter_map(|rank| multi_prog::command(&lines, rank));
    let table = by_rank::table(commands)?;
    let agent = std::env::current_exe().map_err(|error| error.to_string())?;
    job.jobspec.program =
        Program::Command(vec![text::encode(agent), by_rank::VERB.to_owned(), table]);
    Ok(())
}

/// The way to an allocation, with what its steps find of it in the job; else what is to be said.
fn allocation(id: JobId, job: &mut Wanted) -> anyhow::Result<Result<OpenWay, String>> {
    let outer = socket();
    let chosen = Selection { ids: vec![id], ..Selection::default() };
    let hello = client::hello(&Question::Jobs(chosen), nothing_more());
    let (answers, _) = block_on(client::all(&outer, &hello))??;
    let facts: Vec<JobFacts> = match answers.first() {
        Some(answer) => client::read(answer)?,
        None => Vec::new(),
    };
    let why = match facts.first() {
        None => "Invalid job id specified",
        Some(facts) if facts.state == State::Run => "",
        Some(facts) if facts.state < State::Run => "Job is pending execution",
        Some(_) => "Job/step already completing or completed",
    };
    if !why.is_empty() {
        let check = if why.starts_with("Invalid") {
            format!("srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {id}\n")
        } else {
            String::new()
        };
        return Ok(Err(format!(
            "srun: error: Unable to confirm allocation for job {id}: {why}\n{check}"
        )));
    }
    block_on(proxy::await_instance(&outer, &id.to_string()))??;
    let told = block_on(salloc::of_the_job(&outer, id))??;
    let nodes = told.get("SLURM_JOB_NUM_NODES").and_then(|text| text.parse().ok()).unwrap_or(1);
    let spec = &mut job.jobspec;
    if !job.tasks_given && spec.request.nodes.is_none() {
        // One on each node, as there is nothing else to go by.
        spec.request.tasks = nodes;
        spec.request.nodes = Some((nodes, nodes));
    }
    spec.environment.extend(told.into_iter().filter(|(name, _)| of_the_whole_job(name)));
    OpenWay::find(outer, id.to_string()).map(Ok)
}
