//! `quorate-agent jobs`, `info`, `events`, `queue` and `resource`.

use super::dump::DumpArgs;
use super::{Form, Ids, every, ids, misused, now, print, shown};
use crate::query::Where;
use crate::queue::client::{self, Own};
use crate::queue::protocol::{
    JobFacts, LaneChange, LaneFacts, NodeFacts, Question, Selection, Shown,
};
use crate::queue::table::{self, Paint};
use clap::{Args, Subcommand};
use quorate_contract::exit;
use quorate_queue::{Entry, JobId, Jobspec};
use serde::Serialize;
use std::io::IsTerminal;

/// List jobs: those that are not over, or all of them with -a.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  quorate-agent jobs
  quorate-agent jobs -a --filter failed,timeout
  quorate-agent jobs -a -o json | jq .code")]
pub struct JobsArgs {
    /// Numbers of jobs, such as 17 or 17-19
    #[arg(value_name = "ID", value_parser = ids)]
    ids: Vec<Ids>,
    /// Those that are over, too
    #[arg(short, long)]
    all: bool,
    /// Only jobs in these states: pending, running, completed, failed, timeout, cancelled and more
    #[arg(short, long, value_name = "STATE", value_delimiter = ',', value_parser = shown)]
    filter: Vec<Shown>,
    /// Only jobs of this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only jobs of this queue
    #[arg(short, long, value_name = "NAME")]
    queue: Option<String>,
    /// Only the last so many
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// How to print them
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
    #[command(flatten)]
    place: Where,
}

impl JobsArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let ids = match every(&self.ids) {
            Ok(ids) => ids,
            Err(why) => return Ok(misused(&why)),
        };
        let mut states = self.filter.clone();
        if states.is_empty() && ids.is_empty() && !self.all {
            states.push(Shown::Active);
        }
        let selection = Selection {
            ids,
            states,
            name: self.name.clone(),
            queue: self.queue.clone(),
            last: self.count,
            user: None,
        };
        let (jobs, code) =
            client::list::<JobFacts>(&self.place.path(), &Question::Jobs(selection))?;
        if code == exit::OK {
            match self.output {
                Form::Json => lines(&jobs)?,
                Form::Text => print(&table::jobs(&jobs, now(), paint()))?,
            }
        }
        Ok(code)
    }
}

/// Colours for a terminal that wants them (<https://no-color.org>).
fn paint() -> Paint {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted && std::io::stdout().is_terminal() { Paint::Colour } else { Paint::Plain }
}

/// Tell all that is known of a job.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// The job's number
    #[arg(value_name = "ID")]
    job: JobId,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
    #[command(flatten)]
    place: Where,
}

impl InfoArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let selection = Selection { ids: vec![self.job], ..Selection::default() };
        let (jobs, code) =
            client::list::<JobFacts>(&self.place.path(), &Question::Jobs(selection))?;
        for job in &jobs {
            match self.output {
                Form::Json => lines(std::slice::from_ref(job))?,
                Form::Text => print(&table::job(job, now()))?,
            }
        }
        Ok(code)
    }
}

/// Tell what happened to a job, in order.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// The job's number
    #[arg(value_name = "ID")]
    job: JobId,
    /// How to print them
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
    #[command(flatten)]
    place: Where,
}

impl EventsArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let hello = client::hello(&Question::Events(self.job), Own::default());
        let mut spec: Option<Jobspec> = None;
        client::ask(&self.place.path(), &hello, |answer| {
            if spec.is_none() {
                spec = Some(client::read(&answer)?);
                return Ok(());
            }
            let entry: Entry = client::read(&answer)?;
            match self.output {
                Form::Json => lines(&[entry]),
                Form::Text => {
                    let all = serde_json::to_value(&entry.event)?;
                    let name = entry.event.name();
                    let mut carried = all.get(name).cloned().unwrap_or_default();
                    if name == "submit"
                        && let Some(fields) = carried.as_object_mut()
                    {
                        // It is told by `info`, and may be long.
                        fields.remove("spec");
                    }
                    let carried = match &carried {
                        serde_json::Value::Object(fields) if fields.is_empty() => String::new(),
                        other => other.to_string(),
                    };
                    let line = format!("{}  {name:<9}  {carried}", table::stamp(entry.time));
                    print(&format!("{}\n", line.trim_end()))
                }
            }
        })
    }
}

/// Look after the queues.
#[derive(Debug, Subcommand)]
pub enum QueueVerb {
    /// List them with what they have
    List(ListArgs),
    /// Take jobs
    Enable(LaneArgs),
    /// Take no jobs; those that it has are started
    Disable(LaneArgs),
    /// Start jobs
    Start(LaneArgs),
    /// Start no jobs; those that run go on
    Stop(LaneArgs),
    /// Write all jobs and queues to one file
    Dump(DumpArgs),
    /// Put such a file into a queue that has no jobs; numbers go on from there
    Restore(DumpArgs),
}

/// How to list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
    #[command(flatten)]
    place: Where,
}

/// Which queue.
#[derive(Debug, Args)]
pub struct LaneArgs {
    /// The queue (default: the one of jobs that name none)
    #[arg(value_name = "QUEUE")]
    name: Option<String>,
    /// Why, for those who are refused or wait
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    place: Where,
}

impl QueueVerb {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let (args, enabled, started) = match self {
            Self::List(args) => {
                let (lanes, code) =
                    client::list::<LaneFacts>(&args.place.path(), &Question::Lanes)?;
                if code == exit::OK {
                    match args.output {
                        Form::Json => lines(&lanes)?,
                        Form::Text => print(&table::lanes(&lanes))?,
                    }
                }
                return Ok(code);
            }
            Self::Enable(args) => (args, Some(true), None),
            Self::Disable(args) => (args, Some(false), None),
            Self::Start(args) => (args, None, Some(true)),
            Self::Stop(args) => (args, None, Some(false)),
            Self::Dump(args) => return args.dump(),
            Self::Restore(args) => return args.restore(),
        };
        let (name, reason) = (args.name.clone(), args.reason.clone());
        let change = LaneChange { name, enabled, started, reason };
        let question = Question::SetLane(change);
        client::list::<LaneFacts>(&args.place.path(), &question).map(|(_, code)| code)
    }
}

/// Look after the brokers that jobs run on.
#[derive(Debug, Subcommand)]
pub enum ResourceVerb {
    /// List them with what is free
    List(ListArgs),
    /// Start nothing more on brokers; what runs there goes on
    Drain(DrainArgs),
    /// Start jobs there again
    Undrain(UndrainArgs),
}

/// Which brokers, and why.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Ranks, such as 3 or 1-4,7, or all
    #[arg(value_name = "RANKS")]
    ranks: String,
    /// Why
    #[arg(value_name = "REASON", trailing_var_arg = true)]
    reason: Vec<String>,
    #[command(flatten)]
    place: Where,
}

/// Which brokers.
#[derive(Debug, Args)]
pub struct UndrainArgs {
    /// Ranks, such as 3 or 1-4,7, or all
    #[arg(value_name = "RANKS")]
    ranks: String,
    #[command(flatten)]
    place: Where,
}

impl ResourceVerb {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let (question, place) = match self {
            Self::List(args) => {
                let (nodes, code) =
                    client::list::<NodeFacts>(&args.place.path(), &Question::Nodes)?;
                if code == exit::OK {
                    match args.output {
                        Form::Json => lines(&nodes)?,
                        Form::Text => print(&table::nodes(&nodes))?,
                    }
                }
                return Ok(code);
            }
            Self::Drain(args) => {
                let (ranks, reason) = (args.ranks.clone(), args.reason.join(" "));
                (Question::Drain { ranks, reason }, &args.place)
            }
            Self::Undrain(args) => (Question::Undrain { ranks: args.ranks.clone() }, &args.place),
        };
        client::ask(&place.path(), &client::hello(&question, Own::default()), |_| Ok(()))
    }
}

/// One JSON object a line.
fn lines<T: Serialize>(values: &[T]) -> anyhow::Result<()> {
    let mut text = String::new();
    for value in values {
        text.push_str(&serde_json::to_string(value)?);
        text.push('\n');
    }
    print(&text)
}
