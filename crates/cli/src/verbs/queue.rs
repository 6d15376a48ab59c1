//! The verbs of a cluster's job queue from outside: the agent's own verb, run in the launcher. A script of
//! this machine travels on standard input, files of it beside.

mod dump;
mod fetch;
mod submission;

use super::{enter, targets};
use crate::agent;
use crate::args::{ExecArgs, Loudness, QueueVerb, WaitArgs};
use crate::kubernetes::{self, Errand, Sink};
use crate::refusal::Refusal;
use anyhow::Context as _;
use quorate_contract::paths;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use submission::Submission;

/// Runs the verb; gives the code to exit with.
pub(super) fn run(
    verb: &QueueVerb,
    on_kubernetes: bool,
    loudness: Loudness,
) -> anyhow::Result<i32> {
    let way = Way { on_kubernetes, loudness };
    let (name, args) = match verb.parts() {
        Ok(parts) => parts,
        Err(args) => return fetch::run(args, way),
    };
    let (cluster, place) = (args.cluster(), &args.place);
    let whole = |rest: &[String]| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(rest.iter().cloned()).collect()
    };
    let QueueVerb::Submit(_) = verb else {
        let (words, input) = (whole(args.rest()), reads_input(name, args.rest()));
        let errand = Errand { cluster, words, input, parcel: Vec::new(), place };
        return match (name, args.rest()) {
            ("queue", [what, file]) if what == "dump" => dump::dump(errand, file, way),
            ("queue", [what, file]) if what == "restore" => dump::restore(errand, file, way),
            _ => way.send(&errand, None),
        };
    };
    let mut submission = submission::read(args.rest())?;
    submission.prepare_fetch()?;
    let Submission { words, files, script, fetch, force, attach } = submission;
    let parcel = quorate_parcel::pack(&files).map_err(|error| {
        let way_out = error.way_out();
        let refusal = Refusal::usage(chain(&error));
        way_out.into_iter().fold(refusal, Refusal::hint)
    })?;
    let (words, input) = match &script {
        Some(script) => {
            script.open()?;
            (script.verb(&words), true)
        }
        None => (whole(&words), reads_input(name, &words)),
    };
    let errand = Errand { cluster, words, input, parcel, place };
    if fetch.is_empty() {
        return way.send(&errand, None);
    }
    fetch::submit(&errand, &fetch, (force, attach), way)
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// Waits for the end of jobs; gives the highest of their codes.
pub(super) fn wait(
    args: &WaitArgs,
    on_kubernetes: bool,
    loudness: Loudness,
) -> anyhow::Result<i32> {
    let words = ["wait"].map(str::to_owned).into_iter().chain(args.jobs.iter().cloned()).collect();
    let cluster = args.cluster.as_deref().unwrap_or_default();
    let errand = Errand { cluster, words, input: false, parcel: Vec::new(), place: &args.place };
    Way { on_kubernetes, loudness }.send(&errand, None)
}

/// How a verb gets to a cluster.
#[derive(Clone, Copy, Debug)]
struct Way {
    on_kubernetes: bool,
    loudness: Loudness,
}

impl Way {
    /// Has a verb of the agent run in the launcher of a cluster; gives its code. What it writes goes into
    /// the sink, if there is one.
    fn send(self, errand: &Errand<'_>, sink: Option<Sink<'_>>) -> anyhow::Result<i32> {
        if self.on_kubernetes {
            return kubernetes::queue(errand, sink, self.loudness);
        }
        let target = errand.cluster.to_owned();
        let agent = agent_of(&target)?;
        let mut command = vec![agent];
        // Closed with this process, and no name that could be left behind.
        let parcel =
            (!errand.parcel.is_empty()).then(|| handed_over(&errand.parcel)).transpose()?;
        if let Some(parcel) = &parcel {
            let path = format!("/proc/self/fd/{}", parcel.as_raw_fd());
            command.extend(["with-files".to_owned(), path, "--".to_owned()]);
        }
        command.extend(errand.words.iter().cloned());
        match sink {
            None => enter::exec(&ExecArgs { target, command, place: errand.place.clone() }),
            Some(sink) => enter::read_in_launcher(&target, &command, errand.input, sink),
        }
    }
}

/// A file without a name that the programs have which are started from here.
fn handed_over(parcel: &[u8]) -> anyhow::Result<File> {
    let failed = "cannot hand the files over";
    let mut file = tempfile::tempfile().context(failed)?;
    file.write_all(parcel).context(failed)?;
    nix::fcntl::fcntl(&file, nix::fcntl::F_SETFD(nix::fcntl::FdFlag::empty())).context(failed)?;
    Ok(file)
}

/// Whether a verb may read standard input. One that does not must leave it alone: a loop in a shell may
/// have more in it for others.
fn reads_input(name: &str, words: &[String]) -> bool {
    let own = words.iter().take_while(|word| *word != "--");
    match name {
        "run" | "attach" | "alloc" | "proxy" | "top" | "submit-script" => true,
        "batch" => own.clone().any(|word| word == "-"),
        "submit" => own
            .clone()
            .any(|word| word == "--lines" || word == "-i-" || word.starts_with("--input")),
        _ => false,
    }
}

/// The agent's path in the launcher of a cluster of this machine.
fn agent_of(cluster: &str) -> anyhow::Result<String> {
    let (running, pod) = targets::find(Some(cluster))?;
    if pod.is_some() {
        return Err(Refusal::usage(format!(
            "{cluster} is a pod, and a queue is that of a cluster"
        ))
        .hint("name the cluster alone")
        .into());
    }
    if running.about.sandbox != "none" {
        return Ok(paths::AGENT.to_owned());
    }
    let agent = agent::find(super::variable, std::env::current_exe().ok().as_deref())?;
    Ok(agent.display().to_string())
}
