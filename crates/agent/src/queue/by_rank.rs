//! One job whose ranks run different programs: each task is this program, which becomes that of its rank.
//!
//! Owns: the table that says which, as one word of a command line.

use crate::launch::text;
use anyhow::Context as _;
use clap::Args;
use quorate_contract::env as names;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The hidden verb.
pub(super) const VERB: &str = "by-rank";

/// The longest word of a command line that Linux takes (MAX_ARG_STRLEN), less its end.
const LONGEST: usize = 128 * 1024 - 1;

/// Become the program of this task's rank
#[derive(Debug, Args)]
pub struct ByRankArgs {
    /// JSON: the words of each rank
    table: String,
}

/// The table of these commands, one for each rank in order; says if it is too long to be passed on.
pub(super) fn table(commands: impl Iterator<Item = Vec<String>>) -> Result<String, String> {
    let commands: Vec<Vec<String>> = commands.collect();
    let table = serde_json::to_string(&commands).map_err(|error| error.to_string())?;
    if table.len() > LONGEST {
        return Err(format!(
            "the commands of all tasks are {} bytes long, and {LONGEST} are possible: use a script that \
             looks at SLURM_PROCID",
            table.len()
        ));
    }
    Ok(table)
}

impl ByRankArgs {
    /// Becomes the program; an error says why not.
    pub fn run(&self) -> anyhow::Result<i32> {
        let rank = std::env::var(names::TASK_RANK).context("this is no task of a job")?;
        let rank: usize = rank.parse().context("the rank is no number")?;
        let commands: Vec<Vec<String>> = serde_json::from_str(&self.table)?;
        let words = commands.get(rank).filter(|words| !words.is_empty());
        let words = words.with_context(|| format!("there is no program for rank {rank}"))?;
        let error = Command::new(text::decode(&words[0]))
            .args(words[1..].iter().map(|word| text::decode(word)))
            .exec();
        crate::sys::complain(&format!("rank {rank}: cannot run {}: {error}", words[0]));
        Ok(match error.kind() {
            std::io::ErrorKind::NotFound => quorate_contract::exit::NOT_FOUND,
            _ => quorate_contract::exit::NOT_EXECUTABLE,
        })
    }
}
