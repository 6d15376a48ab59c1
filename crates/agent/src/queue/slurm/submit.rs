//! `sbatch`: options to a job, and what the client does around it; and what srun and salloc share with it.

use super::{clock, environment, socket};
use crate::queue::client::{self, Own};
use crate::queue::protocol::{
    Copies as AskedCopies, JobFacts, Question, Selection, Submit, Submitted, Then,
};
use anyhow::Context as _;
use quorate_contract::{env as names, exit};
use quorate_queue::{Copies, JobId, Jobspec};
use quorate_slurm::options::{Context, Input, OptionError, Settings, Tool, Wanted, parse, wanted};
use quorate_slurm::value::JobRef;
use quorate_slurm::{message, script};
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// Runs the command; gives the code to exit with.
pub(super) fn run(words: &[String]) -> anyhow::Result<i32> {
    let mut job = match job(Tool::Sbatch, words, &environment())? {
        Ok(job) => job,
        Err(code) => return Ok(code),
    };
    if !depend(Tool::Sbatch, &mut job)? {
        return Ok(exit::FAILED);
    }
    sbatch(job)
}

/// The job that a command line asks for, with what is to be noted said; a code where there is nothing
/// more to do, or where it cannot be read, which was said.
pub(super) fn job(
    tool: Tool,
    words: &[String],
    environment: &BTreeMap<String, String>,
) -> anyhow::Result<Result<Wanted, i32>> {
    match read(tool, words, environment) {
        Ok(Ok(job)) => {
            for note in &job.notes {
                writeln!(std::io::stderr(), "{}: {note}", tool.name())?;
            }
            Ok(Ok(job))
        }
        Ok(Err(code)) => Ok(Err(code)),
        Err(error) => {
            for line in error.lines(tool) {
                writeln!(std::io::stderr(), "{line}")?;
            }
            Ok(Err(error.exit_code().into()))
        }
    }
}

/// Finds the jobs that it waits for; one that is not known is said.
pub(super) fn depend(tool: Tool, job: &mut Wanted) -> anyhow::Result<bool> {
    let unknown = known(job)?;
    if let Some(reference) = unknown {
        writeln!(
            std::io::stderr(),
            "{0}: error: Batch job submission failed: Job dependency problem: there is no job {1}",
            tool.name(),
            reference.job
        )?;
    }
    Ok(unknown.is_none())
}

/// The job that a command line asks for; a code where there is nothing more to do.
fn read(
    tool: Tool,
    words: &[String],
    environment: &BTreeMap<String, String>,
) -> Result<Result<Wanted, i32>, OptionError> {
    let line = parse(tool, words)?;
    if line.options.iter().any(|(option, _)| option.name == "version") {
        // A reader that has gone wants nothing more.
        let _ = writeln!(std::io::stdout(), "{}", quorate_slurm::VERSION);
        return Ok(Err(exit::OK));
    }
    let said = |name: &str| {
        let found = line.options.iter().rev().find(|(option, _)| option.name == name);
        found.and_then(|(_, value)| value.clone())
    };
    let (input, directives) = match (tool, said("wrap")) {
        (Tool::Sbatch, Some(command)) => (Input::Wrap(command), Vec::new()),
        (Tool::Sbatch, None) => {
            let (path, text) = match script_of(&line.operands) {
                Ok(read) => read,
                Err(code) => return Ok(Err(code)),
            };
            let shown = path.clone().unwrap_or_default();
            let directives = script::options(&shown, &text)?;
            let args = line.operands.iter().skip(1).cloned().collect();
            (Input::Script { path, text, args }, directives)
        }
        _ => (Input::Command(line.operands.clone()), Vec::new()),
    };
    let settings = Settings::merge(tool, &directives, environment, &line)?;
    let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let submit_line =
        std::iter::once(tool.name()).chain(words.iter().map(String::as_str)).collect::<Vec<_>>();
    let context = Context {
        clock: clock(),
        environment,
        directory: &directory.to_string_lossy(),
        host: &crate::sys::host_name(),
        submit_line: &submit_line.join(" "),
        user: &super::user(environment),
    };
    wanted(&settings, input, &context).map(Ok)
}

/// The job of a batch script that is no file, and how many of it. Its output is kept for who attaches,
/// unless a directive names a file.
pub(in crate::queue) fn script(
    text: &str,
    called: Option<&str>,
    words: &[String],
    args: &[String],
) -> Result<(Jobspec, AskedCopies), String> {
    const NAME: &str = "script";
    let shown = called.unwrap_or(NAME);
    let environment = environment();
    let read = || -> Result<(Wanted, bool, String), OptionError> {
        let directives = script::options(shown, text)?;
        let mut given = directives.iter().flat_map(|(_, parsed)| &parsed.options);
        let file = given.any(|(option, _)| option.name == "output");
        let line = parse(Tool::Sbatch, words)?;
        let file = file || line.options.iter().any(|(option, _)| option.name == "output");
        let settings = Settings::merge(Tool::Sbatch, &directives, &environment, &line)?;
        let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let context = Context {
            clock: clock(),
            environment: &environment,
            directory: &directory.to_string_lossy(),
            host: &crate::sys::host_name(),
            submit_line: NAME,
            user: &super::user(&environment),
        };
        let path = called.map(str::to_owned);
        let input = Input::Script { path, text: text.to_owned(), args: args.to_vec() };
        Ok((wanted(&settings, input, &context)?, file, context.directory.to_owned()))
    };
    let (mut job, file, here) = read().map_err(|error| error.lines(Tool::Sbatch).join("; "))?;
    if let Some(reference) = known(&mut job).map_err(|error| format!("{error:#}"))? {
        return Err(format!("it waits for job {}, which is not there", reference.job));
    }
    let copies = copies(&job);
    let mut spec = job.jobspec;
    spec.environment.insert(names::SLURM.to_owned(), "1".to_owned());
    if !file {
        spec.streams.output = None;
    }
    let named = spec.directory != here;
    crate::queue::with_files(&mut spec, named);
    Ok((spec, copies))
}

/// The script's path and text; a code where it cannot be read, which was said.
fn script_of(operands: &[String]) -> Result<(Option<String>, String), i32> {
    let mut text = String::new();
    let (path, read) = match operands.first() {
        Some(path) => (Some(path.clone()), std::fs::read_to_string(path).map(|read| text = read)),
        None => (None, std::io::stdin().lock().read_to_string(&mut text).map(drop)),
    };
    if let Err(error) = read {
        let shown = path.as_deref().unwrap_or("standard input");
        let _ = writeln!(std::io::stderr(), "sbatch: error: Unable to open file {shown}: {error}");
        return Err(exit::FAILED);
    }
    Ok((path, text))
}

/// Finds the jobs that it waits for; gives the first that is not known.
fn known(job: &mut Wanted) -> anyhow::Result<Option<JobRef>> {
    if job.dependencies.is_empty() {
        return Ok(None);
    }
    let question = Question::Jobs(Selection::default());
    let (all, _): (Vec<JobFacts>, i32) = client::list(&socket(), &question)?;
    let meant = |reference: JobRef| -> Vec<JobId> {
        let is_it = |job: &&JobFacts| reference.means(job.id, job.array);
        all.iter().filter(is_it).map(|job| job.id).collect()
    };
    Ok(job.depend(meant).err())
}

fn copies(job: &Wanted) -> AskedCopies {
    match &job.copies {
        Copies::Array { indices, limit } => {
            AskedCopies::Array { indices: indices.to_string(), limit: *limit }
        }
        _ => AskedCopies::One,
    }
}

pub(super) fn question(job: &Wanted, then: Then, test: bool) -> Question {
    let copies = copies(job);
    Question::Submit(Box::new(Submit { spec: job.jobspec.clone(), copies, then, test }))
}

/// Nothing but what `--export` says travels: the environment of the job was made of that.
pub(super) fn nothing_more() -> Own {
    Own::default()
}

fn sbatch(mut job: Wanted) -> anyhow::Result<i32> {
    job.jobspec.environment.insert(names::SLURM.to_owned(), "1".to_owned());
    let client = job.client.clone();
    let then = if client.wait { Then::Wait { tell: false } } else { Then::Nothing };
    let hello = client::hello(&question(&job, then, client.test_only), nothing_more());
    let mut first = true;
    client::ask(&socket(), &hello, |answer| {
        if !std::mem::take(&mut first) {
            return Ok(());
        }
        let submitted: Submitted = client::read(&answer)?;
        if client.test_only {
            crate::sys::complain("the job would be taken");
            return Ok(());
        }
        let text = message::submitted(&client, submitted.first).unwrap_or_default();
        std::io::stdout().write_all(text.as_bytes()).context("cannot write the answer")
    })
}
