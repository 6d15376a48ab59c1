//! `quorate-agent attach` and `wait`.

use super::{Chosen, Form, misused, print, table_of_ends};
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
/// job. Several may be attached to a job at once.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The job's number
    #[arg(value_name = "ID")]
    job: JobId,
    /// Start each line with the task's rank
    #[arg(short = 'l', long)]
    label_io: bool,
    /// Give the job no stdin (only jobs submitted with --input - take any)
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    place: Where,
}

impl AttachArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let stdin = !self.read_only;
        let question = Question::Attach { job: self.job, stdin };
        let hello = client::hello(&question, Own::default());
        let labels = if self.label_io { Labels::Task } else { Labels::None };
        let options = streams::Options { labels, stdin, waits_for_placement: false };
        let end = streams::call(&self.place.path(), &hello, &options);
        Ok(streams::conclude(end, exit::UNAVAILABLE))
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
