//! `salloc`: nodes for as long as a command runs here, told in Slurm's words.

use super::submit::{depend, job};
use super::{environment, socket};
use crate::local::End;
use crate::query::block_on;
use crate::queue::allocate::{self, Asked, Held, Moment};
use crate::queue::client::{self, Own};
use crate::queue::protocol::{Copies, Question, Submit, Submitted, Then};
use anyhow::Context as _;
use quorate_contract::{env as names, exit};
use quorate_queue::{JobId, Jobspec};
use quorate_slurm::message::Allocation;
use quorate_slurm::options::{Tool, Wanted};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

/// Runs the command; gives the code to exit with.
pub(super) fn run(words: &[String]) -> anyhow::Result<i32> {
    let mut job = match job(Tool::Salloc, words, &environment())? {
        Ok(job) => job,
        Err(code) => return Ok(code),
    };
    if !depend(Tool::Salloc, &mut job)? {
        return Ok(exit::FAILED);
    }
    let Wanted { mut jobspec, client, command, .. } = job;
    jobspec.environment.insert(names::SLURM.to_owned(), "1".to_owned());
    let quiet = client.quiet > 0;
    let say = |job: JobId, what: Allocation| {
        if !quiet {
            // A closed stderr is no reason to lose the nodes.
            let _ = std::io::stderr().write_all(what.lines(job).as_bytes());
        }
    };
    let socket = socket();
    if client.no_shell {
        return keep(&socket, jobspec, say);
    }
    let of_the_request: Vec<(String, String)> = jobspec
        .environment
        .iter()
        .filter(|(name, _)| name.starts_with("SLURM_"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let command: Vec<OsString> = command.into_iter().map(OsString::from).collect();
    let asked = Asked {
        socket: &socket,
        spec: jobspec,
        own: Own::default(),
        limit: client.immediate.map(|limit| Duration::from_secs(limit.seconds.into())),
        command: &command,
    };
    let tell = |job, moment| match moment {
        Moment::Pending => say(job, Allocation::Pending),
        Moment::Granted { after_waiting } => {
            if after_waiting {
                say(job, Allocation::Allocated);
            }
            say(job, Allocation::Granted);
        }
        Moment::Revoked => say(job, Allocation::Revoked),
    };
    let outer = socket.clone();
    let held = block_on(allocate::hold(asked, tell, async move |job, variables| {
        variables.extend(of_the_request.into_iter().map(|(n, v)| (n.into(), v.into())));
        let told = of_the_job(&outer, job).await?;
        variables.extend(told.into_iter().map(|(name, value)| (name.into(), value.into())));
        // Steps go to the nodes; all else is asked of the cluster around them.
        variables.insert(names::SLURM_SOCKET.into(), outer.into());
        variables.insert(names::SLURM.into(), "1".into());
        Ok(())
    }))?;
    Ok(match held? {
        Held::Unreachable(error) => {
            refused(&format!("{:#}", anyhow::Error::from(error)));
            exit::UNAVAILABLE
        }
        Held::Refused(End { error, .. }) => {
            refused(&error.unwrap_or_default());
            exit::FAILED
        }
        Held::TooLate => {
            let text = "salloc: error: Unable to allocate resources: Requested nodes are busy\n";
            let _ = std::io::stderr().write_all(text.as_bytes());
            exit::FAILED
        }
        Held::Ended(job, _) => {
            say(job, Allocation::Revoked);
            exit::FAILED
        }
        Held::Ran { job, status, kept } => {
            if kept {
                say(job, Allocation::Relinquishing);
            }
            code(status)
        }
    })
}

/// The allocation stays until somebody cancels it.
fn keep(socket: &Path, spec: Jobspec, say: impl Fn(JobId, Allocation)) -> anyhow::Result<i32> {
    let (copies, then) = (Copies::One, Then::Nothing);
    let submit = Submit { spec, copies, then, test: false };
    let hello = client::hello(&Question::Submit(Box::new(submit)), Own::default());
    let mut taken = None;
    let end = client::converse(socket, &hello, |answer| {
        let submitted: Submitted = client::read(&answer)?;
        taken = Some(submitted.first);
        Ok(())
    })?;
    let Some(job) = taken else {
        refused(&end.error.unwrap_or_default());
        return Ok(exit::FAILED);
    };
    block_on(crate::instance::proxy::await_instance(socket, &job.to_string()))??;
    say(job, Allocation::Granted);
    Ok(exit::OK)
}

fn refused(why: &str) {
    let text = format!("salloc: error: Job submit/allocate failed: {why}\n");
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The variables that a job that has its nodes is known by.
pub(super) async fn of_the_job(
    socket: &Path,
    job: JobId,
) -> anyhow::Result<BTreeMap<String, String>> {
    let hello = client::hello(&Question::SlurmVariables(job), Own::default());
    let (answers, end) = client::all(socket, &hello).await?;
    let answer = answers.first().with_context(|| end.error.unwrap_or_default())?;
    client::read(answer)
}

/// The code of a command: 0 where somebody at the terminal ended it, 1 for other signals (salloc(1)).
fn code(status: ExitStatus) -> i32 {
    match status.signal() {
        Some(libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGKILL) => exit::OK,
        Some(_) => exit::FAILED,
        None => status.code().unwrap_or(exit::FAILED),
    }
}
