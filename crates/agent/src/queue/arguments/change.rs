//! `quorate-agent cancel`, `kill`, `hold`, `release`, `requeue` and `update`.

use super::{Chosen, duration, misused, say_refused};
use crate::query::Where;
use crate::queue::client;
use crate::queue::protocol::{Done, Question, Selection};
use clap::Args;
use std::path::Path;

/// End jobs, whether they wait or run.
///
/// Tasks get SIGTERM, and SIGKILL after a few seconds; cancelled again, at once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  quorate-agent cancel 17
  quorate-agent cancel 17-19 --note 'wrong mesh'
  quorate-agent cancel --all --states pending")]
pub struct CancelArgs {
    #[command(flatten)]
    chosen: Chosen,
    /// Why, for those who look at the jobs later
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    #[command(flatten)]
    place: Where,
}

/// Send a signal to the tasks of jobs.
#[derive(Debug, Args)]
pub struct KillArgs {
    /// The signal, by name or number
    #[arg(short = 's', long, value_name = "SIGNAL", default_value = "TERM", value_parser = signal)]
    signal: i32,
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    place: Where,
}

/// Keep waiting jobs from being started.
#[derive(Debug, Args)]
pub struct HoldArgs {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    place: Where,
}

/// Let held jobs be started.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    place: Where,
}

/// Let running jobs begin again.
#[derive(Debug, Args)]
pub struct RequeueArgs {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    place: Where,
}

/// Change the urgency or the time limit of jobs.
#[derive(Debug, Args)]
pub struct UpdateArgs {
    #[command(flatten)]
    chosen: Chosen,
    /// 0 (held) to 31; only of jobs that wait
    #[arg(long, value_name = "N")]
    urgency: Option<u8>,
    /// The time they may take, counted from their start; 0 is no limit
    #[arg(short = 't', long, value_name = "TIME", value_parser = duration::seconds)]
    time_limit: Option<u64>,
    #[command(flatten)]
    place: Where,
}

/// Forget jobs that are over, with their output.
///
/// Without an option all of them. Their numbers are never given again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  quorate-agent purge --older-than 7d
  quorate-agent purge --keep 1000")]
pub struct PurgeArgs {
    /// Only those that ended so long ago: 90s, 15m, 2d; a bare number is minutes
    #[arg(long, value_name = "TIME", value_parser = duration::seconds)]
    older_than: Option<u64>,
    /// Keep the last so many
    #[arg(long, value_name = "N")]
    keep: Option<u64>,
    #[command(flatten)]
    place: Where,
}

impl PurgeArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let (older_than, keep) = match (self.older_than, self.keep) {
            (None, None) => (None, Some(0)),
            given => given,
        };
        let hello = client::hello(&Question::Purge { older_than, keep }, client::Own::default());
        client::ask(&self.place.path(), &hello, |answer| {
            let count: u64 = client::read(&answer)?;
            crate::sys::complain(&format!("{count} jobs are forgotten"));
            Ok(())
        })
    }
}

impl CancelArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let note = self.note.clone();
        change(&self.place.path(), &self.chosen, |jobs| Question::Cancel { jobs, note })
    }
}

impl KillArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let signal = self.signal;
        change(&self.place.path(), &self.chosen, |jobs| Question::Signal { jobs, signal })
    }
}

impl HoldArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        change(&self.place.path(), &self.chosen, Question::Hold)
    }
}

impl ReleaseArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        change(&self.place.path(), &self.chosen, Question::Release)
    }
}

impl RequeueArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        change(&self.place.path(), &self.chosen, Question::Requeue)
    }
}

impl UpdateArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let (urgency, time_limit) = (self.urgency, self.time_limit);
        if urgency.is_none() && time_limit.is_none() {
            return Ok(misused("say what to change: --urgency or --time-limit"));
        }
        change(&self.place.path(), &self.chosen, |jobs| Question::Update {
            jobs,
            urgency,
            time_limit,
        })
    }
}

fn change(
    socket: &Path,
    chosen: &Chosen,
    question: impl FnOnce(Selection) -> Question,
) -> anyhow::Result<i32> {
    let selection = match chosen.selection() {
        Ok(selection) => selection,
        Err(why) => return Ok(misused(&why)),
    };
    let (done, code) = client::list::<Done>(socket, &question(selection))?;
    say_refused(&done);
    Ok(code)
}

/// A signal's number.
fn signal(text: &str) -> Result<i32, String> {
    use nix::sys::signal::Signal;
    let wrong = || format!("`{text}` is no signal: write TERM, USR1 or a number such as 15");
    if let Ok(number) = text.parse::<i32>() {
        return Signal::try_from(number).map(|signal| signal as i32).map_err(|_| wrong());
    }
    let name = text.to_ascii_uppercase();
    let name = if name.starts_with("SIG") { name } else { format!("SIG{name}") };
    name.parse::<Signal>().map(|signal| signal as i32).map_err(|_| wrong())
}
