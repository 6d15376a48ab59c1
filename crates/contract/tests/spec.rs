//! The pages in `docs/spec` say what the code does: their examples are read by it, and their tables
//! hold its numbers and words.

#![allow(clippy::unwrap_used, reason = "a test says by a panic what is wrong")]

use std::collections::BTreeMap;

use quorate_contract::report::Reason;
use quorate_contract::{AgentConfig, Report, env, exit, paths};

fn page(name: &str) -> String {
    let path = format!("{}/../../docs/spec/{name}.md", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn examples(page: &str) -> Vec<&str> {
    let examples: Vec<_> =
        page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!examples.is_empty());
    examples
}

/// The cells of the table whose heading row begins with these words.
fn table<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let rows: Vec<_> = page
        .lines()
        .skip_while(|line| !line.starts_with(heading))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert!(!rows.is_empty(), "{heading}");
    rows
}

#[test]
fn examples_of_configurations_are_read() {
    let page = page("agent-config");
    for example in examples(&page) {
        let config = AgentConfig::parse(example.as_bytes()).unwrap();
        assert_eq!(AgentConfig::parse(config.render().as_bytes()).unwrap(), config);
    }
    for name in [env::GROUP, env::INDEX, env::JOB_INDEX, env::ATTEMPT, env::POD_UID, env::NODE_NAME]
    {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    assert!(page.contains(paths::CONFIG_DIR) && page.contains(paths::SEED_KEY));
}

#[test]
fn every_field_of_a_configuration_is_described() {
    let page = page("agent-config");
    let text = AgentConfig::parse(examples(&page)[0].as_bytes()).unwrap().render();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let described: Vec<&str> = table(&page, "| field").iter().map(|row| row[0]).collect();
    for field in value.as_object().unwrap().keys() {
        let name = format!("`{field}");
        assert!(described.iter().any(|cell| cell.contains(&name)), "{field}");
    }
}

#[test]
fn examples_of_reports_are_read() {
    for example in examples(&page("report")) {
        let report = Report::parse(example).unwrap();
        let given: serde_json::Value = serde_json::from_str(example).unwrap();
        assert_eq!(serde_json::to_value(report).unwrap(), given);
    }
}

#[test]
fn reasons_are_all_listed_with_their_codes() {
    let page = page("report");
    let listed: BTreeMap<_, _> =
        table(&page, "| word").into_iter().map(|row| (row[0].trim_matches('`'), row[1])).collect();
    let fixed = [
        (Reason::Completed, exit::OK),
        (Reason::NotFinalized, exit::FAILED),
        (Reason::Deserted, exit::FAILED),
        (Reason::CommandNotFound, exit::NOT_FOUND),
        (Reason::NotExecutable, exit::NOT_EXECUTABLE),
        (Reason::WrongPlacement, exit::WRONG_PLACEMENT),
        (Reason::Infeasible, exit::FAILED),
        (Reason::BootstrapTimeout, exit::BOOTSTRAP_TIMEOUT),
        (Reason::BrokerLost, exit::BROKER_LOST),
        (Reason::Refused, exit::REFUSED),
        (Reason::Orphaned, exit::ORPHANED),
        (Reason::Terminated, exit::TERMINATED),
        (Reason::TimeLimit, exit::TIME_LIMIT),
        (Reason::Internal, exit::INTERNAL),
    ];
    for (reason, code) in fixed {
        assert_eq!(listed.get(reason.as_str()), Some(&code.to_string().as_str()), "{reason:?}");
    }
    let told = [
        (Reason::ProgramFailed, "its own"),
        (Reason::Aborted, "its own"),
        (Reason::Signaled, "128 + n"),
        (Reason::Canceled, "128 + n"),
        (Reason::Environment, "1 or 70"),
        (Reason::OutOfMemory, "137"),
    ];
    for (reason, code) in told {
        assert_eq!(listed.get(reason.as_str()), Some(&code), "{reason:?}");
    }
    assert_eq!(listed.len(), fixed.len() + told.len());
}

#[test]
fn codes_are_all_listed() {
    let page = page("exit-codes");
    let listed: Vec<(i32, String)> = table(&page, "| code")
        .into_iter()
        .map(|row| (row[0].parse().unwrap(), row[1].trim_matches('`').to_owned()))
        .collect();
    let ours = [
        (exit::OK, "OK"),
        (exit::FAILED, "FAILED"),
        (exit::USAGE, "USAGE"),
        (exit::WRONG_PLACEMENT, "WRONG_PLACEMENT"),
        (exit::BOOTSTRAP_TIMEOUT, "BOOTSTRAP_TIMEOUT"),
        (exit::REFUSED, "REFUSED"),
        (exit::ORPHANED, "ORPHANED"),
        (exit::BROKER_LOST, "BROKER_LOST"),
        (exit::INTERNAL, "INTERNAL"),
        (exit::UNAVAILABLE, "UNAVAILABLE"),
        (exit::TIME_LIMIT, "TIME_LIMIT"),
        (exit::NOT_EXECUTABLE, "NOT_EXECUTABLE"),
        (exit::NOT_FOUND, "NOT_FOUND"),
        (exit::TERMINATED, "TERMINATED"),
    ];
    assert_eq!(listed, ours.map(|(code, name)| (code, name.to_owned())));
}
