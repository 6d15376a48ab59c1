//! Our output against that of the real Slurm, byte by byte, for the same facts.
//!
//! `fixtures/real` holds what Slurm 22.05 of Debian 12 printed for a scenario of jobs in many states;
//! `fixtures/commands.txt` says for which command lines. The facts are read from what scontrol and
//! sacct said of the same cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says by a panic what is wrong")]

mod recorded;
mod said;

use quorate_slurm::calendar::Clock;
use quorate_slurm::facts::{Answer, View};
use quorate_slurm::scontrol::Order;
use quorate_slurm::{sacct, scancel, scontrol, sinfo, squeue};
use recorded::Recorded;
use said::commands;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

fn ours(words: &[String], view: &View<'_>) -> Answer {
    let (command, rest) = words.split_first().unwrap();
    match command.as_str() {
        "squeue" => squeue(rest, view),
        "sinfo" => sinfo(rest, view),
        "sacct" => sacct(rest, view),
        _ => match scontrol(rest, view) {
            Order::Say(answer) => answer,
            order => panic!("{words:?} is an order: {order:?}"),
        },
    }
}

#[test]
fn our_bytes_are_those_of_the_real_slurm() {
    let recorded =
        Recorded::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/real"));
    let environment = BTreeMap::new();
    let mut different = Vec::new();
    let mut compared = 0;
    for (name, words) in commands() {
        let Some(theirs) = recorded.comparable(&name) else { continue };
        let clock = Clock { now: recorded.now[&name], offset: 0 };
        let view =
            View { cluster: &recorded.cluster, clock, environment: &environment, user: "root" };
        let answer = ours(&words, &view);
        let output = recorded::comparable(&name, &answer.output);
        compared += 1;
        if output != theirs {
            let line = output.lines().zip(theirs.lines()).find(|(a, b)| a != b);
            different.push(format!(
                "{name}: {words:?}\n ours   {:?}\n theirs {:?}\n{} {} lines{}",
                line.map(|(a, _)| a),
                line.map(|(_, b)| b),
                output.lines().count(),
                theirs.lines().count(),
                answer.errors
            ));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(compared > 40, "only {compared} were compared");
}

/// What scancel and scontrol ask of the queue, of the recorded jobs.
#[test]
fn orders_name_the_jobs_they_mean() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/real");
    let recorded = Recorded::read(&folder);
    let environment = BTreeMap::new();
    let clock = Clock { now: recorded.now["squeue"], offset: 0 };
    let view = View { cluster: &recorded.cluster, clock, environment: &environment, user: "root" };
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let cancelled = |text: &str| match scancel(&words(text), &view) {
        scancel::Order::Say(answer) => format!("{}{}", answer.errors, answer.code),
        scancel::Order::Cancel { jobs, signal, step, target, errors, .. } => {
            let jobs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
            format!("{} {signal:?} {step:?} {target:?} {errors}", jobs.join(","))
        }
    };
    for (text, expected) in [
        ("17 14_2", "17,14_2 None None Steps "),
        ("-s USR1 -b 17", "17 Some(10) None Script "),
        ("14_[4-5]", "14_4,14_5 None None Steps "),
        ("14_2.0", "14_2 None Some(0) Steps "),
        ("-t PENDING -p short", "14_4,14_5,14_6,14_7,25 None None Steps "),
        ("-n held,no", "0"),
        ("-n held", "19 None None Steps "),
        ("1", "0"),
        ("999", "scancel: error: Kill job error on job id 999: Invalid job id specified\n1"),
        ("abc", "scancel: error: Invalid job id abc\n1"),
        ("-s NOSUCH 17", "scancel: error: Unknown job signal: NOSUCH\n1"),
    ] {
        assert_eq!(cancelled(text), expected, "{text}");
    }
    let none = scancel(&[], &view);
    assert!(
        matches!(&none, scancel::Order::Say(answer)
            if answer.errors == "scancel: error: No job identification provided\n"),
        "{none:?}"
    );
    let ordered = |text: &str| match scontrol(&words(text), &view) {
        Order::Say(answer) => answer.errors,
        order => format!("{order:?}"),
    };
    assert!(ordered("hold 19").starts_with("Hold([JobRef { job: JobId(19)"));
    assert!(ordered("update JobId=17 TimeLimit=90").contains("TimeLimit(Some(5400))"));
    assert!(ordered("update NodeName=worker-0-1 State=DRAIN Reason=x").starts_with("Drain"));
    assert_eq!(ordered("frob"), "invalid keyword: frob\n");
    assert_eq!(ordered("show job 999"), "slurm_load_jobs error: Invalid job id specified\n");
    assert_eq!(ordered("show node nosuch"), "Node nosuch not found\n");
    assert!(ordered("suspend 17").contains("scancel --signal=STOP"));
}

/// Programs read `--json` by name: what we say has the names and types that Slurm's has.
#[test]
fn our_json_has_the_names_and_types_of_slurms() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/real");
    let recorded = Recorded::read(&folder);
    let environment = BTreeMap::new();
    for (command, now) in [("squeue", "squeue"), ("sacct", "sacct")] {
        let theirs = std::fs::read_to_string(folder.join(format!("{command}.json"))).unwrap();
        let theirs: Value = serde_json::from_str(&theirs).unwrap();
        let clock = Clock { now: recorded.now[now], offset: 0 };
        let view =
            View { cluster: &recorded.cluster, clock, environment: &environment, user: "root" };
        let words = [command.to_owned(), "--json".to_owned()];
        let ours: Value = serde_json::from_str(&ours(&words, &view).output).unwrap();
        alike(&ours["meta"], &theirs["meta"], command);
        let jobs = theirs["jobs"].as_array().unwrap();
        let mut compared = 0;
        for job in jobs {
            let ours = ours["jobs"].as_array().unwrap();
            let Some(same) = ours.iter().find(|each| each["job_id"] == job["job_id"]) else {
                continue;
            };
            alike(same, job, command);
            compared += 1;
            for name in ["name", "partition", "nodes", "working_directory"] {
                if !job[name].is_null() {
                    assert_eq!(same[name], job[name], "{command} {name}");
                }
            }
        }
        assert!(compared > 1, "{command}: {compared}");
    }
}

/// Each of our names is there and of the same type, as far as neither is null.
fn alike(ours: &Value, theirs: &Value, path: &str) {
    match (ours, theirs) {
        (Value::Null, _) | (_, Value::Null) => {}
        (Value::Object(ours), Value::Object(theirs)) => {
            for (name, value) in ours {
                let there = theirs.get(name);
                assert!(there.is_some(), "Slurm has no {path}.{name}");
                alike(value, there.unwrap(), &format!("{path}.{name}"));
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            if let (Some(ours), Some(theirs)) = (ours.first(), theirs.first()) {
                alike(ours, theirs, path);
            }
        }
        _ => assert_eq!(
            std::mem::discriminant(ours),
            std::mem::discriminant(theirs),
            "{path}: {ours} and {theirs}"
        ),
    }
}
