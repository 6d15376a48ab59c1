//! The verbs of a cluster's job queue from outside: the agent's own verb, run in the launcher. A script of
//! this machine travels on standard input.

use super::{enter, targets};
use crate::agent;
use crate::args::{ExecArgs, QueueVerb};
use crate::kubernetes;
use crate::refusal::Refusal;
use anyhow::Context as _;
use quorate_contract::paths;
use std::fs::File;
use std::io::Read as _;

/// Runs the verb; gives the code to exit with.
pub(super) fn run(verb: &QueueVerb, on_kubernetes: bool) -> anyhow::Result<i32> {
    let (name, args) = verb.parts();
    let (name, words) = match verb {
        QueueVerb::Submit(_) => with_script(name, args.rest())?,
        _ => (name, args.rest().to_vec()),
    };
    let target = args.cluster().to_owned();
    let agent = if on_kubernetes { paths::AGENT.to_owned() } else { agent_of(&target)? };
    let mut command = vec![agent, name.to_owned()];
    command.extend(words);
    let exec = ExecArgs { target, command, place: args.place.clone() };
    if on_kubernetes { kubernetes::exec(&exec) } else { enter::exec(&exec) }
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

/// What `submit` becomes when its last word is a script of this machine, which is then this process's
/// standard input.
fn with_script(
    name: &'static str,
    words: &[String],
) -> anyhow::Result<(&'static str, Vec<String>)> {
    let last = words.last().filter(|_| !words.iter().any(|word| word == "--"));
    let Some((last, script)) = last.and_then(|last| Some((last, script(last)?))) else {
        return Ok((name, words.to_vec()));
    };
    nix::unistd::dup2_stdin(script).with_context(|| format!("cannot send {last}"))?;
    let mut words = words[..words.len() - 1].to_vec();
    // A flag of the verb, in front of those of sbatch.
    if let Some(at) = words.iter().position(|word| word == "--watch") {
        let watch = words.remove(at);
        words.insert(0, watch);
    }
    let split = usize::from(words.first().is_some_and(|word| word == "--watch"));
    words.insert(split, "--".to_owned());
    Ok(("submit-script", words))
}

/// A file that begins as a script does, at its beginning.
fn script(path: &str) -> Option<File> {
    let mut head = [0; 2];
    File::open(path).ok()?.read_exact(&mut head).ok()?;
    (head == *b"#!").then(|| File::open(path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_left_as_it_is() {
        let words = ["--cc", "1-3", "--", "/bin/sh"].map(str::to_owned);
        let (name, same) = with_script("submit", &words).unwrap();
        assert_eq!((name, same.as_slice()), ("submit", words.as_slice()));
        // A program is none, whatever its name.
        let (name, _) = with_script("submit", &["/proc/self/exe".to_owned()]).unwrap();
        assert_eq!(name, "submit");
    }

    #[test]
    fn a_script_is_told_from_a_program_by_its_first_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("job.sh"), "#!/bin/sh\n").unwrap();
        std::fs::write(path("data"), "1 2 3\n").unwrap();
        assert!(script(&path("job.sh")).is_some());
        assert!(script(&path("data")).is_none());
        assert!(script(&path("absent")).is_none());
    }
}
