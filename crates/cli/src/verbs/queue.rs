//! The verbs of a cluster's job queue from outside: the agent's own verb, run in the launcher. A script of
//! this machine travels on standard input, files of it beside.

mod files;
mod submission;

use super::{enter, targets};
use crate::agent;
use crate::args::{ExecArgs, Loudness, QueueVerb, WaitArgs};
use crate::kubernetes::{self, Errand};
use crate::refusal::Refusal;
use quorate_contract::paths;
use submission::Submission;

/// Runs the verb; gives the code to exit with.
pub(super) fn run(
    verb: &QueueVerb,
    on_kubernetes: bool,
    loudness: Loudness,
) -> anyhow::Result<i32> {
    let (name, args) = verb.parts();
    let (cluster, place) = (args.cluster(), &args.place);
    let whole = |rest: &[String]| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(rest.iter().cloned()).collect()
    };
    let QueueVerb::Submit(_) = verb else {
        let (words, input) = (whole(args.rest()), reads_input(name, args.rest()));
        let errand = Errand { cluster, words, input, parcel: Vec::new(), place };
        return send(errand, on_kubernetes, loudness);
    };
    let Submission { words, files, script } = submission::read(args.rest())?;
    if !files.is_empty() && !on_kubernetes {
        return Err(Refusal::usage("--file is for clusters on Kubernetes")
            .hint("a cluster of this machine sees its files; start the job in their directory with --cwd")
            .into());
    }
    let parcel = files::pack(&files)?;
    let (words, input) = match &script {
        Some(script) => {
            script.open()?;
            (script.verb(&words), true)
        }
        None => (whole(&words), reads_input(name, &words)),
    };
    send(Errand { cluster, words, input, parcel, place }, on_kubernetes, loudness)
}

/// Waits for the end of jobs; gives the highest of their codes.
pub(super) fn wait(
    args: &WaitArgs,
    on_kubernetes: bool,
    loudness: Loudness,
) -> anyhow::Result<i32> {
    let words = ["wait"].map(str::to_owned).into_iter().chain(args.jobs.iter().cloned()).collect();
    let cluster = args.cluster.as_deref().unwrap_or_default();
    send(
        Errand { cluster, words, input: false, parcel: Vec::new(), place: &args.place },
        on_kubernetes,
        loudness,
    )
}

/// Has a verb of the agent run in the launcher of a cluster.
fn send(errand: Errand<'_>, on_kubernetes: bool, loudness: Loudness) -> anyhow::Result<i32> {
    if on_kubernetes {
        return kubernetes::queue(&errand, loudness);
    }
    let Errand { cluster, words, place, .. } = errand;
    let target = cluster.to_owned();
    let command = [agent_of(&target)?].into_iter().chain(words).collect();
    enter::exec(&ExecArgs { target, command, place: place.clone() })
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
