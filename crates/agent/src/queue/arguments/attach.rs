//! `quorate-agent attach` and `wait`.

use super::{Chosen, Form, Ids, every, ids, misused, print, table_of_ends};
use crate::job::client::{self as streams, Labels};
use crate::query::Where;
use crate::queue::client::{self, Own};
use crate::queue::protocol::{JobFacts, Question, Selection, Shown};
use clap::Args;
use quorate_contract::exit;
use quorate_queue::JobId;

/// Show the output of a job from its beginning to its end.
///
/// Exits with the job's code. Signals are passed on to its tasks; a second Ctrl-C within a second ends the
/// job. Several may be attached to a job at once, and one may be attached to several jobs: then each line
/// begins with the number of its job, nobody gets stdin, and the code is the highest.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The job's number; several such as 17 19-21
    #[arg(value_name = "ID", required = true, value_parser = ids)]
    jobs: Vec<Ids>,
    /// Start each line with the task's rank
    #[arg(short = 'l', long)]
    label_io: bool,
    /// Give the job no stdin (only jobs submitted with --input - or --pty take any)
    #[arg(long)]
    read_only: bool,
    /// Be the terminal of a job that was submitted with --pty
    #[arg(long, conflicts_with_all = ["label_io", "read_only"])]
    pty: bool,
    #[command(flatten)]
    place: Where,
}

impl AttachArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let labels = if self.label_io { Labels::Task } else { Labels::None };
        let jobs = match every(&self.jobs) {
            Ok(jobs) => jobs,
            Err(why) => return Ok(misused(&why)),
        };
        let [job] = jobs[..] else { return self.several(&jobs, labels) };
        let (stdin, terminal) = (!self.read_only, self.pty);
        let question = Question::Attach { job, stdin, terminal };
        let hello = client::hello(&question, Own::default());
        let options = streams::Options { labels, stdin, terminal, ..Default::default() };
        let end = streams::call(&self.place.path(), &hello, &options);
        Ok(streams::conclude(end, exit::UNAVAILABLE))
    }

    fn several(&self, jobs: &[JobId], labels: Labels) -> anyhow::Result<i32> {
        if self.pty {
            return Ok(misused("--pty is for one job: a terminal shows one"));
        }
        let call = |job: &JobId| {
            let question = Question::Attach { job: *job, stdin: false, terminal: false };
            streams::Call { hello: client::hello(&question, Own::default()), job: job.0 }
        };
        let ends = streams::call_all(&self.place.path(), jobs.iter().map(call).collect(), labels)?;
        Ok(ends.into_iter().map(|end| streams::conclude(end, exit::UNAVAILABLE)).max().unwrap_or(0))
    }
}

/// Wait for the end of jobs.
///
/// Without numbers, for all that are not over. Exits with the highest of their codes; 142 is a job that
/// reached its time limit, 143 one that was cancelled while it ran, 1 one that ended before it ran.
#[derive(Debug, Args)]
pub struct WaitArgs {
    #[command(flatten)]
    chosen: Chosen,
    /// Tell of each job as it ends
    #[arg(short, long)]
    verbose: bool,
    /// How to print the jobs
    #[arg(short = 'o', long = "output-form", value_enum, default_value_t)]
    form: Form,
    #[command(flatten)]
    place: Where,
}

impl WaitArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let selection = if self.chosen.ids.is_empty() && self.chosen.states.is_empty() {
            let states = vec![Shown::Active];
            Selection { states, name: self.chosen.name.clone(), ..Selection::default() }
        } else {
            match self.chosen.selection() {
                Ok(selection) => selection,
                Err(why) => return Ok(misused(&why)),
            }
        };
        let tell = self.verbose || self.form == Form::Json;
        let hello = client::hello(&Question::Wait { jobs: selection, tell }, Own::default());
        client::ask(&self.place.path(), &hello, |answer| {
            let ended: Vec<JobFacts> = client::read(&answer)?;
            match self.form {
                Form::Json => {
                    for job in &ended {
                        print(&format!("{}\n", serde_json::to_string(job)?))?;
                    }
                }
                Form::Text if self.verbose => table_of_ends(&ended, false),
                Form::Text => {}
            }
            Ok(())
        })
    }
}
