//! `quorate shell` and `quorate exec`: commands in a pod, with the caller's own terminal.

use super::targets;
use crate::agent;
use crate::args::{ExecArgs, ShellArgs};
use crate::control::{Answer, Request};
use crate::kubernetes::Sink;
use crate::refusal::Refusal;
use crate::sandbox::{Identity, enter_pod};
use anyhow::Context as _;
use quorate_contract::{exit, paths};
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

/// Bytes that are read at once.
const CHUNK: usize = 32 << 10;

const AGAIN: &str = "cannot start this program again";

pub(super) fn shell(args: &ShellArgs) -> anyhow::Result<i32> {
    // People at a shell of a local cluster have all names at hand.
    enter(args.target.as_deref(), &[], true)
}

pub(super) fn exec(args: &ExecArgs) -> anyhow::Result<i32> {
    enter(Some(&args.target), &args.command, false)
}

/// Runs a command in the launcher of a cluster, in a process of its own: entering a pod takes a
/// process without threads.
pub(super) fn run_in_launcher(cluster: &str, argv: &[String]) -> anyhow::Result<i32> {
    let status = in_launcher(cluster, argv)?.status().context(AGAIN)?;
    Ok(code_of(status))
}

/// The same, and what it writes goes into a sink. A sink that takes no more ends the command.
pub(super) fn read_in_launcher(
    cluster: &str,
    argv: &[String],
    input: bool,
    sink: Sink<'_>,
) -> anyhow::Result<i32> {
    let mut command = in_launcher(cluster, argv)?;
    command.stdout(Stdio::piped());
    if !input {
        command.stdin(Stdio::null());
    }
    let mut child = command.spawn().context(AGAIN)?;
    let mut out = child.stdout.take().expect("a pipe was asked for");
    let mut read = || -> anyhow::Result<()> {
        let mut bytes = vec![0; CHUNK];
        loop {
            match out.read(&mut bytes).context("cannot read what the command writes")? {
                0 => return Ok(()),
                count => sink(&bytes[..count])?,
            }
        }
    };
    let done = read();
    // Without a reader it has an error at its next write, if it is not over.
    drop(out);
    let status = child.wait().context(AGAIN)?;
    done.map(|()| code_of(status))
}

fn in_launcher(cluster: &str, argv: &[String]) -> anyhow::Result<Command> {
    let this = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(this);
    command.args(["exec", "--context=", cluster]).arg("--").args(argv);
    Ok(command)
}

/// `names`: Slurm's names are on PATH.
fn enter(word: Option<&str>, argv: &[String], names: bool) -> anyhow::Result<i32> {
    let (running, pod) = targets::find(word)?;
    running.keeper.send(&Request::Enter { pod }, &[]).context("cannot ask the cluster")?;
    let answer = running.keeper.receive::<Answer>().context("cannot ask the cluster")?;
    let (env, working_dir, sandboxed, files) = match answer {
        Some((Answer::Way { env, working_dir, sandboxed }, files)) => {
            (env, working_dir, sandboxed, files)
        }
        Some((Answer::Refused { message, known }, _)) => {
            let hint = format!("its pods are {}", targets::some(&known));
            return Err(Refusal::usage(message).hint(hint).into());
        }
        _ => return Err(Refusal::new("the cluster has just ended").into()),
    };
    if sandboxed {
        let mut files = files.into_iter();
        let (Some(keeper), Some(pod)) = (files.next(), files.next()) else {
            return Err(Refusal::new("the cluster's answer is not complete").into());
        };
        enter_pod(Identity::of_caller(), &keeper, &pod).context("cannot enter the pod")?;
    }
    // The agent there knows what a program of the cluster gets, whether it was started by it or not.
    let agent = if sandboxed {
        paths::AGENT.into()
    } else {
        agent::find(super::variable, std::env::current_exe().ok().as_deref())?
    };
    let mut command = Command::new(&agent);
    command.arg("enter").env_clear().envs(env).current_dir(&working_dir);
    if names {
        command.arg("--slurm");
    }
    if !argv.is_empty() {
        command.arg("--").args(argv);
    }
    // The caller's terminal may be another one than that of the run.
    if let Some(term) = super::variable("TERM") {
        command.env("TERM", term);
    }
    let status = match command.status() {
        Ok(status) => status,
        Err(error) => {
            let code = match error.kind() {
                std::io::ErrorKind::NotFound => exit::NOT_FOUND,
                _ => exit::NOT_EXECUTABLE,
            };
            crate::terminal::write_stderr(&format!(
                "error: cannot start {}: {error}\n",
                agent.display()
            ));
            return Ok(code);
        }
    };
    Ok(code_of(status))
}

fn code_of(status: std::process::ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(exit::signaled)).unwrap_or(exit::FAILED)
}
