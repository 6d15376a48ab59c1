//! `quorate delete`: ends clusters, and forgets the logs of ended ones.

use super::targets::{self, Running};
use crate::args::{DeleteArgs, Loudness};
use crate::control::{Answer, Request};
use crate::refusal::Refusal;
use crate::registry::Entry;
use crate::terminal::write_stderr;
use anyhow::Context as _;

pub(super) fn run(args: &DeleteArgs, loudness: Loudness) -> anyhow::Result<i32> {
    let (mut running, mut ended) = targets::clusters()?;
    if !args.all {
        for name in &args.names {
            let known = running.iter().any(|r| r.about.name == *name)
                || ended.iter().any(|e| e.name == *name);
            if !known && !args.ignore_not_found {
                let names: Vec<String> = running.iter().map(|r| r.about.name.clone()).collect();
                let hint = if names.is_empty() {
                    "no cluster runs on this machine".to_owned()
                } else {
                    format!("the clusters are {}", targets::some(&names))
                };
                return Err(Refusal::new(format!("there is no cluster {name}")).hint(hint).into());
            }
        }
        running.retain(|r| args.names.contains(&r.about.name));
        ended.retain(|e| args.names.contains(&e.name));
    }
    // All are asked before the first is waited for.
    for Running { about, keeper, .. } in &running {
        keeper
            .send(&Request::Delete, &[])
            .with_context(|| format!("cannot ask {} to end", about.name))?;
    }
    for Running { about, keeper, .. } in &running {
        while keeper.receive::<Answer>().is_ok_and(|answer| answer.is_some()) {}
        say(loudness, &about.name);
    }
    for Entry { name, path, .. } in &ended {
        std::fs::remove_dir_all(path)
            .with_context(|| format!("cannot remove {}", path.display()))?;
        say(loudness, name);
    }
    Ok(0)
}

fn say(loudness: Loudness, name: &str) {
    if !loudness.quiet {
        write_stderr(&format!("{name} deleted\n"));
    }
}
