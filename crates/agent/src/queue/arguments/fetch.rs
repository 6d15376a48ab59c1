//! `quorate-agent fetch`, and the way of files that were packed elsewhere.

use super::{misused, print};
use crate::logs::chain;
use crate::query::Where;
use crate::queue::client::{self, KeptFiles, Own};
use crate::queue::protocol::{FilesWanted, Question};
use anyhow::Context as _;
use clap::Args;
use quorate_contract::{exit, outside};
use quorate_parcel::{Pattern, Receiver};
use quorate_queue::JobId;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Get files of a job.
///
/// They are read in the directory where the job's task of rank 0 started (--rank for another's). Without
/// names it is the files of --output and --error, which are on the launcher. Names may have * and ?, and a
/// folder comes with all that is in it. What a job has in the directory of its own, that of `submit --file`,
/// is there while it runs, and for an hour longer with `submit --keep-files`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  quorate-agent fetch 17
  quorate-agent fetch 17 'results/*.h5' summary.txt -o /data/run-17
  quorate-agent fetch --rank 3 17 trace")]
pub struct FetchArgs {
    /// The job
    #[arg(value_name = "ID")]
    job: JobId,
    /// Files and folders, relative to the job's directory
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// The task in whose pod they are
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    rank: u32,
    /// Where to put them
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Overwrite what is there
    #[arg(short, long)]
    force: bool,
    /// What is kept of the job is not needed any more
    #[arg(long, hide = true)]
    release: bool,
    /// Write the stream of files to standard output
    #[arg(long, hide = true, conflicts_with_all = ["output", "force"])]
    stream: bool,
    #[command(flatten)]
    place: Where,
}

impl FetchArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let patterns: Result<Vec<Pattern>, _> =
            self.files.iter().map(|word| Pattern::read(word)).collect();
        let patterns = match patterns {
            Ok(patterns) => patterns,
            Err(error) => return Ok(misused(&chain(&error))),
        };
        let question = Question::Files(FilesWanted {
            job: self.job,
            rank: self.rank,
            files: self.files.clone(),
            release: self.release,
        });
        let hello = client::hello(&question, Own::default());
        let socket = self.place.path();
        if self.stream {
            let mut out = std::io::stdout().lock();
            return client::ask(&socket, &hello, |piece| Ok(out.write_all(&piece)?));
        }
        let mut receiver = Receiver::new(self.output.clone(), patterns, self.force);
        let code = client::ask(&socket, &hello, |piece| {
            for file in receiver.take(&piece)? {
                print(&format!("{}\n", self.output.join(file.name).display()))?;
            }
            Ok(())
        })?;
        if code == exit::OK {
            receiver.finish()?;
        }
        Ok(code)
    }
}

/// Run a verb with a parcel of files that travel with the jobs it submits
#[derive(Debug, Args)]
pub struct WithFilesArgs {
    /// The parcel
    parcel: PathBuf,
    #[command(flatten)]
    place: Where,
    /// The verb and its arguments
    #[arg(last = true, required = true, value_name = "VERB")]
    words: Vec<OsString>,
}

impl WithFilesArgs {
    /// Becomes the verb; gives a code when that cannot be.
    pub fn run(&self) -> anyhow::Result<i32> {
        let shown = self.parcel.display();
        let parcel = std::fs::read(&self.parcel).with_context(|| format!("cannot read {shown}"))?;
        let kept = match KeptFiles::send(&self.place.path(), &parcel) {
            Ok(kept) => kept,
            Err((code, why)) => {
                crate::sys::complain(&why);
                return Ok(code);
            }
        };
        let name = kept.outlive_exec()?;
        let this = std::env::current_exe().context("cannot find this program")?;
        let mut verb = Command::new(this);
        verb.args(&self.words).env(outside::PARCEL_VARIABLE, name);
        Err(verb.exec()).context("cannot start the verb")
    }
}
