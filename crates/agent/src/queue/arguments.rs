//! The command lines of the queue's verbs, and what they print.
//!
//! Owns: flags, their meaning as a question, and the refusals that need no broker. Data goes to stdout,
//! all else to stderr.

mod alloc;
mod attach;
mod batch;
mod change;
mod dependency;
mod dump;
mod duration;
mod fetch;
mod look;
mod run;
mod submit;

pub use alloc::AllocArgs;
pub use attach::{AttachArgs, WaitArgs};
pub use batch::BatchArgs;
pub use change::{CancelArgs, HoldArgs, KillArgs, PurgeArgs, ReleaseArgs, RequeueArgs, UpdateArgs};
pub use fetch::{FetchArgs, WithFilesArgs};
pub use look::{EventsArgs, InfoArgs, JobsArgs, QueueVerb, ResourceVerb};
pub use run::run_now;
pub use submit::{SubmitArgs, called};

use super::protocol::{Done, JobFacts, Selection, Shown};
use super::table;
use quorate_queue::{JobId, Standing, State, Time};
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Forms of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// For people
    #[default]
    Text,
    /// For programs: one object a line
    Json,
}

/// Which jobs a verb is about.
#[derive(Clone, Debug, clap::Args)]
pub struct Chosen {
    /// Numbers of jobs, such as 17 or 17-19
    #[arg(value_name = "ID", value_parser = ids)]
    ids: Vec<Ids>,
    /// All jobs that are not over
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Only jobs of this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only jobs in these states: depend, held, sched, run, pending, running, active
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = shown)]
    states: Vec<Shown>,
}

/// A run of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Ids(u64, u64);

impl Chosen {
    /// The selection, or what is missing in it.
    fn selection(&self) -> Result<Selection, String> {
        let ids = every(&self.ids)?;
        if ids.is_empty() && !self.all && self.name.is_none() && self.states.is_empty() {
            return Err("name the jobs by their numbers, or say --all, --name or --states".into());
        }
        let mut states = self.states.clone();
        if ids.is_empty() && states.is_empty() {
            states.push(Shown::Active);
        }
        Ok(Selection { ids, states, name: self.name.clone(), ..Selection::default() })
    }
}

/// The numbers of runs.
fn every(runs: &[Ids]) -> Result<Vec<JobId>, String> {
    /// More are meant by --all.
    const MOST: u64 = 100_000;
    let count: u64 = runs.iter().map(|Ids(first, last)| last - first + 1).sum();
    if count > MOST {
        return Err(format!("{count} jobs are named; name at most {MOST}, or choose by --states"));
    }
    Ok(runs.iter().flat_map(|Ids(first, last)| (*first..=*last).map(JobId)).collect())
}

fn ids(text: &str) -> Result<Ids, String> {
    let one = |text: &str| text.parse::<JobId>().map(|id| id.0).map_err(|error| error.to_string());
    match text.split_once('-').filter(|(first, _)| !first.is_empty()) {
        Some((first, last)) => {
            let (first, last) = (one(first)?, one(last)?);
            if first > last {
                return Err(format!("{text} runs backwards: the smaller number comes first"));
            }
            Ok(Ids(first, last))
        }
        None => one(text).map(|id| Ids(id, id)),
    }
}

fn shown(text: &str) -> Result<Shown, String> {
    Ok(match text.to_ascii_lowercase().as_str() {
        "depend" => Shown::In(State::Depend),
        "priority" | "held" => Shown::In(State::Priority),
        "sched" => Shown::In(State::Sched),
        "run" => Shown::In(State::Run),
        "cleanup" => Shown::In(State::Cleanup),
        "inactive" => Shown::In(State::Inactive),
        "active" => Shown::Active,
        "pending" => Shown::Pending,
        "running" => Shown::Running,
        "completed" => Shown::As(Standing::Completed),
        "failed" => Shown::As(Standing::Failed),
        "cancelled" | "canceled" => Shown::As(Standing::Cancelled),
        "timeout" => Shown::As(Standing::TimedOut),
        _ => {
            return Err("the states are depend, held, sched, run, cleanup, inactive, pending, \
                        running, active, completed, failed, cancelled, timeout"
                .to_owned());
        }
    })
}

/// The moment, for tables.
pub(super) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Says what is wrong with the command line.
fn misused(why: &str) -> i32 {
    crate::sys::complain(why);
    quorate_contract::exit::USAGE
}

/// Says of which jobs nothing was done, and why.
fn say_refused(done: &[Done]) {
    for Done { job, refused } in done {
        if let Some(why) = refused {
            crate::sys::complain(&format!("job {job}: {why}"));
        }
    }
}

/// Writes data; a reader that has seen enough is no error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Says how jobs ended; with `failed` only of those that did not succeed.
fn table_of_ends(ended: &[JobFacts], failed: bool) {
    for job in ended.iter().filter(|job| !failed || job.code != Some(0)) {
        let why = if job.why.is_empty() { String::new() } else { format!(": {}", job.why) };
        let (called, state) = (table::called(job), table::state(job));
        crate::sys::complain(&format!("job {called} {}{why}", state.to_ascii_lowercase()));
    }
}
