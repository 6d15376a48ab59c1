//! `quorate ls`: the clusters on this machine.

use super::state;
use super::targets::{self, Running};
use crate::args::{Format, LsArgs};
use crate::refusal::Refusal;
use crate::registry::Entry;
use crate::table;
use crate::terminal::{age, print, write_stderr};
use quorate_contract::status::QueueCounts;
use serde_json::{Value, json};

pub(super) fn run(args: &LsArgs) -> anyhow::Result<i32> {
    let (mut running, mut ended) = targets::clusters()?;
    for name in &args.names {
        let known = running.iter().any(|r| r.about.name == *name)
            || ended.iter().any(|entry| entry.name == *name);
        if !known {
            let names: Vec<String> = running.iter().map(|r| r.about.name.clone()).collect();
            let hint = if names.is_empty() {
                "no cluster runs on this machine".to_owned()
            } else {
                format!("the clusters are {}", targets::some(&names))
            };
            return Err(Refusal::usage(format!("there is no cluster {name}")).hint(hint).into());
        }
    }
    if args.names.is_empty() {
        if !args.all {
            ended.clear();
        }
    } else {
        running.retain(|r| args.names.contains(&r.about.name));
        ended.retain(|entry| args.names.contains(&entry.name));
    }
    let text = match args.output {
        Format::Json => serde_json::to_string_pretty(&data(&running, &ended))? + "\n",
        Format::Yaml => serde_saphyr::to_string(&data(&running, &ended))?,
        Format::Name => {
            let names = running.iter().map(|r| &r.about.name).chain(ended.iter().map(|e| &e.name));
            names.map(|name| format!("{name}\n")).collect()
        }
        Format::Table | Format::Wide if running.is_empty() && ended.is_empty() => {
            write_stderr("no clusters on this machine\n");
            return Ok(0);
        }
        Format::Table => table::render(
            &["NAME", "SIZE", "RUNNING", "STATE", "JOBS", "AGE"],
            &rows(&running, &ended, false),
        ),
        Format::Wide => table::render(
            &["NAME", "SIZE", "RUNNING", "STATE", "JOBS", "AGE", "SANDBOX", "ATTEMPT", "PODS"],
            &rows(&running, &ended, true),
        ),
    };
    print(&text)?;
    Ok(0)
}

fn rows(running: &[Running], ended: &[Entry], wide: bool) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = running
        .iter()
        .zip(jobs(running))
        .map(|(Running { about, .. }, jobs)| {
            let mut row = vec![
                about.name.clone(),
                about.size.to_string(),
                about.running.to_string(),
                about.state.clone(),
                jobs,
                age(about.age_seconds),
            ];
            if wide {
                let pods: Vec<_> =
                    about.pods.iter().map(|pod| format!("{}={}", pod.name, pod.ip)).collect();
                row.extend([about.sandbox.clone(), about.attempt.to_string(), pods.join(",")]);
            }
            row
        })
        .collect();
    let blank = |n: usize| std::iter::repeat_n("-".to_owned(), n);
    rows.extend(ended.iter().map(|entry| {
        let mut row = vec![entry.name.clone()];
        row.extend(blank(2).chain(["Failed".to_owned()]).chain(blank(2)));
        if wide {
            row.extend(blank(3));
        }
        row
    }));
    rows
}

/// How many jobs run of all that are not over, in each cluster's queue; all are asked at once. Beside a
/// program a queue is told of once it had jobs.
fn jobs(running: &[Running]) -> Vec<String> {
    let ask = |about: &_| {
        let status = state::overlay(about).ok().flatten()?;
        let counts = status.queue?;
        let QueueCounts { pending, running, completed, failed } = counts;
        let used = pending + running + completed + failed > 0;
        (used || status.program.is_none()).then(|| format!("{running}/{}", running + pending))
    };
    std::thread::scope(|scope| {
        let asked: Vec<_> = running.iter().map(|one| scope.spawn(|| ask(&one.about))).collect();
        let known =
            |one: std::thread::ScopedJoinHandle<'_, Option<String>>| one.join().ok().flatten();
        asked.into_iter().map(|one| known(one).unwrap_or_else(|| "-".to_owned())).collect()
    })
}

fn data(running: &[Running], ended: &[Entry]) -> Value {
    let mut list: Vec<Value> = running.iter().map(|r| json!(r.about)).collect();
    list.extend(
        ended
            .iter()
            .map(|entry| json!({"name": entry.name, "state": "Failed", "logs": entry.path})),
    );
    Value::Array(list)
}
