//! The program of a cluster that is work for its own queue: a batch script, or jobs.
//!
//! Owns: from the configuration to submissions, their output in the order in which they are listed, and
//! the code and words of the first that failed. It is a client like any other, a process that the broker
//! starts as the cluster's command ([`crate::program`]); the queue knows nothing of it.

use super::client::{self, Own};
use super::protocol::{Copies, JobFacts, Question, Selection, Submit, Submitted, Then};
use super::slurm;
use crate::job::client::{self as streams, Labels};
use crate::sys;
use anyhow::Context as _;
use clap::Args;
use quorate_contract::config::{self, Program};
use quorate_contract::{AgentConfig, exit};
use quorate_queue::{
    Condition, Dependency, JobId, Jobspec, Program as Runs, Request, Standing, Streams,
};
use std::path::{Path, PathBuf};

/// The verb by which the broker starts it.
pub const VERB: &str = "work";

/// Put the cluster's program into its queue, and wait for its end
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// The configuration of the cluster; `-` reads a program alone from standard input
    config: PathBuf,
    /// Where the words of the first failure go; otherwise they are said
    failure: Option<PathBuf>,
}

impl WorkArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let shown = self.config.display();
        let program = if self.config.as_os_str() == "-" {
            let text = std::io::read_to_string(std::io::stdin().lock());
            let text = text.context("cannot read the program")?;
            serde_json::from_str(&text).context("the program is not understood")?
        } else {
            let text = std::fs::read(&self.config);
            AgentConfig::parse(&text.with_context(|| format!("cannot read {shown}"))?)?.program
        };
        let submitted = match &program {
            Program::Script { text } => script(text),
            Program::Jobs { jobs } => self::jobs(jobs),
            Program::None | Program::Command { .. } | Program::Parallel(_) => {
                anyhow::bail!("the program of {shown} is no work for the queue")
            }
        };
        let ids = match submitted {
            Ok(ids) => ids,
            Err(refused) => {
                if self.failure.is_some() {
                    sys::complain(&refused);
                }
                self.tell(&refused)?;
                return Ok(exit::FAILED);
            }
        };
        match follow(&ids)? {
            None => Ok(exit::OK),
            Some((code, words)) => {
                self.tell(&words)?;
                Ok(code)
            }
        }
    }

    fn tell(&self, words: &str) -> anyhow::Result<()> {
        let Some(failure) = &self.failure else {
            sys::complain(words);
            return Ok(());
        };
        let shown = || format!("cannot write {}", failure.display());
        std::fs::write(failure, words).with_context(shown)
    }
}

/// Put a batch script from standard input into the queue
#[derive(Debug, Args)]
pub struct ScriptArgs {
    /// Show its output until its end; exits with the job's code
    #[arg(long)]
    watch: bool,
    /// Wait for its end; exits with the job's code
    #[arg(long)]
    wait: bool,
    /// Keep the directory with the files that travel along for an hour after its end
    #[arg(long)]
    keep_files: bool,
    /// What the script is called
    #[arg(long, value_name = "NAME")]
    called: Option<String>,
    /// An argument of the script; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    argument: Vec<String>,
    /// Options of sbatch
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    words: Vec<String>,
}

impl ScriptArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let text =
            std::io::read_to_string(std::io::stdin().lock()).context("cannot read the script")?;
        let read = slurm::script(&text, self.called.as_deref(), &self.words, &self.argument);
        let ids = match read.and_then(|(mut spec, copies)| {
            if self.keep_files {
                super::keeps_files(&mut spec);
            }
            submit(spec, copies)
        }) {
            Ok(ids) => ids,
            Err(refused) => {
                sys::complain(&refused);
                return Ok(exit::FAILED);
            }
        };
        for id in &ids {
            super::arguments::print(&format!("{id}\n"))?;
        }
        if self.wait && !self.watch {
            let jobs = Selection { ids, ..Selection::default() };
            let question = Question::Wait { jobs, tell: false };
            return client::ask(&socket(), &client::hello(&question, Own::default()), |_| Ok(()));
        }
        if !self.watch {
            return Ok(exit::OK);
        }
        Ok(follow(&ids)?.map_or(exit::OK, |(code, words)| {
            sys::complain(&words);
            code
        }))
    }
}

/// Shows the output of jobs, one after the other, until all have ended; gives the code and the words of
/// the first that failed.
fn follow(ids: &[JobId]) -> anyhow::Result<Option<(i32, String)>> {
    for id in ids {
        let hello = client::hello(
            &Question::Attach { job: *id, stdin: false, terminal: false },
            Own::default(),
        );
        let options = streams::Options {
            labels: Labels::None,
            stdin: false,
            waits_for_placement: false,
            ..Default::default()
        };
        let end = streams::call(&socket(), &hello, &options);
        streams::conclude(end, exit::UNAVAILABLE);
    }
    let chosen = Selection { ids: ids.to_vec(), ..Selection::default() };
    let (facts, _): (Vec<JobFacts>, i32) = client::list(&socket(), &Question::Jobs(chosen))?;
    Ok(first_failure(&facts))
}

/// The code and the words of the first job, by number, that did not end well.
fn first_failure(facts: &[JobFacts]) -> Option<(i32, String)> {
    let failed = |facts: &&JobFacts| facts.standing != Some(Standing::Completed);
    let first = facts.iter().filter(failed).min_by_key(|facts| facts.id)?;
    let code = i32::from(first.code.unwrap_or(1));
    let why = if first.why.is_empty() { String::new() } else { format!(": {}", first.why) };
    Some((code, format!("job {} ({}) ended with code {code}{why}", first.id, first.name)))
}

fn socket() -> PathBuf {
    streams::socket(None)
}

/// Submits a batch script as sbatch does; its output is this process's unless a directive names a file.
fn script(text: &str) -> Result<Vec<JobId>, String> {
    let (spec, copies) = slurm::script(text, None, &[], &[])?;
    submit(spec, copies)
}

/// Submits jobs; each waits for the success of those that it names.
fn jobs(entries: &[config::Job]) -> Result<Vec<JobId>, String> {
    let mut ids: Vec<JobId> = Vec::with_capacity(entries.len());
    for entry in entries {
        let after = |name: &String| {
            let at = entries[..ids.len()].iter().position(|before| before.name == *name);
            at.map(|at| ids[at]).ok_or_else(|| format!("there is no job {name} before it"))
        };
        let after: Result<Vec<JobId>, String> = entry.after.iter().map(after).collect();
        let taken = after.and_then(|after| submit(jobspec(entry, &after), Copies::One));
        ids.extend(taken.map_err(|why| format!("job {}: {why}", entry.name))?);
    }
    Ok(ids)
}

/// A job of the list as one of the queue.
fn jobspec(entry: &config::Job, after: &[JobId]) -> Jobspec {
    let nodes = entry.nodes.map(|nodes| (nodes, nodes));
    let each = entry.tasks_per_node.filter(|_| entry.nodes.is_some()).unwrap_or(1);
    let tasks = entry.tasks.unwrap_or_else(|| entry.nodes.unwrap_or(1).saturating_mul(each));
    let directory = std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned());
    let directory =
        entry.working_dir.clone().unwrap_or_else(|| crate::launch::text::encode(directory));
    Jobspec {
        name: entry.name.clone(),
        program: Runs::Command(entry.argv.clone()),
        request: Request {
            tasks,
            nodes,
            tasks_per_node: entry.tasks_per_node,
            cores_per_task: entry.cpus_per_task.unwrap_or(1),
            gpus_per_task: entry.gpus_per_task.unwrap_or(0),
            ..Request::default()
        },
        time_limit: entry.time_limit_seconds.map(u64::from),
        environment: entry.env.iter().cloned().collect(),
        directory,
        streams: Streams::default(),
        dependencies: after
            .iter()
            .map(|job| Dependency { on: Condition::AfterOk, job: *job })
            .collect(),
        ..Jobspec::command("", &[])
    }
}

/// Submits jobs; gives their numbers, or why they were refused.
fn submit(spec: Jobspec, copies: Copies) -> Result<Vec<JobId>, String> {
    let submit = Submit { spec, copies, then: Then::Nothing, test: false };
    let hello = client::hello(&Question::Submit(Box::new(submit)), Own::default());
    let mut taken = Vec::new();
    let asked = client::converse(&socket(), &hello, |answer| {
        let Submitted { first, count } = client::read(&answer)?;
        taken.extend((first.0..first.0 + count).map(JobId));
        Ok(())
    });
    match asked {
        Err(error) => Err(format!("{error:#}")),
        Ok(_) if !taken.is_empty() => Ok(taken),
        Ok(end) => Err(end.error.unwrap_or_else(|| "the queue did not take it".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> config::Job {
        config::Job { name: name.into(), argv: vec!["./a".into()], ..config::Job::default() }
    }

    #[test]
    fn a_job_asks_for_what_its_entry_says() {
        let spec = jobspec(&entry("a"), &[]);
        assert_eq!((spec.request.tasks, spec.request.nodes), (1, None));
        let wide = config::Job { nodes: Some(2), tasks_per_node: Some(3), ..entry("b") };
        let spec = jobspec(&wide, &[JobId(7)]);
        assert_eq!((spec.request.tasks, spec.request.nodes), (6, Some((2, 2))));
        assert_eq!(spec.dependencies, [Dependency { on: Condition::AfterOk, job: JobId(7) }]);
        assert!(spec.check().is_ok());
    }
}
