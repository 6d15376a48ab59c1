//! `quorate status`, `why` and `wait` for clusters on this machine.

use super::targets::{self, Running};
use crate::agent;
use crate::args::{StatusArgs, TextFormat, WaitArgs, WaitFor};
use crate::control::{Answer, Description};
use crate::progress::waiting;
use crate::refusal::Refusal;
use crate::table;
use crate::terminal::{age, print};
use anyhow::Context as _;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quorate_api::conditions::reason;
use quorate_contract::status::{BrokerState, ClusterStatus};
use quorate_contract::{exit, paths};
use serde_json::{Value, json};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often a cluster that is not quorate yet is asked again.
const LOOK: Duration = Duration::from_millis(100);

/// A cluster and what its brokers say of it, if they answer.
struct Seen {
    about: Description,
    status: Option<ClusterStatus>,
}

pub(super) fn status(args: &StatusArgs) -> anyhow::Result<i32> {
    let seen = see(args)?;
    let text = || {
        let mut text = sentence(&seen) + "\n";
        let rows: Vec<Vec<String>> = seen
            .about
            .pods
            .iter()
            .map(|pod| {
                vec![pod.rank.to_string(), pod.name.clone(), pod.state.clone(), pod.ip.clone()]
            })
            .collect();
        text += &format!("  age       {}\n", age(seen.about.age_seconds));
        if let Some(queue) = seen.status.as_ref().and_then(|status| status.queue) {
            text += &format!(
                "  jobs      {} running, {} waiting, {} completed, {} failed\n",
                queue.running, queue.pending, queue.completed, queue.failed
            );
        }
        if seen.about.attempt > 0 {
            text += &format!("  restarts  {}\n", seen.about.attempt);
        }
        text += &format!("\n{}", table::render(&["RANK", "BROKER", "STATE", "ADDRESS"], &rows));
        text
    };
    show(args.output, text, || json!({"cluster": seen.about, "overlay": seen.status}))
}

pub(super) fn why(args: &StatusArgs) -> anyhow::Result<i32> {
    let seen = see(args)?;
    show(args.output, || sentence(&seen) + "\n", || why_data(&seen))
}

/// Why as data, with the names that clusters on Kubernetes have too.
fn why_data(seen: &Seen) -> Value {
    let status = seen.status.as_ref();
    let sentence = sentence(seen);
    // `NAME is STATE: MESSAGE.`, and lines below it.
    let first = sentence.lines().next().unwrap_or_default();
    let message = first.split_once(": ").map_or(first, |(_, message)| message);
    let cause = match status {
        None => reason::PODS_STARTING,
        Some(status) if is_early(status) => reason::WAITING_FOR_BROKERS,
        Some(status) if status.program.is_some() => reason::PROGRAM_STARTED,
        Some(_) => reason::READY,
    };
    json!({
        "cause": cause,
        "message": message.trim_end_matches('.'),
        "online": status.map(|status| status.online),
        "size": seen.about.size,
        "quorum": status.map(|status| status.min_size),
        "missing": status.map(|status| &status.missing),
    })
}

fn is_early(status: &ClusterStatus) -> bool {
    matches!(status.state, BrokerState::Join | BrokerState::Init | BrokerState::Quorum)
}

fn see(args: &StatusArgs) -> anyhow::Result<Seen> {
    let (running, _) = targets::find(args.cluster.as_deref())?;
    let status = overlay(&running.about)?;
    Ok(Seen { about: running.about, status })
}

/// What the launcher's broker says; nothing when it does not answer.
pub(super) fn overlay(about: &Description) -> anyhow::Result<Option<ClusterStatus>> {
    let this = std::env::current_exe().context("cannot find this program")?;
    let agent = match about.sandbox.as_str() {
        "none" => agent::find(super::variable, Some(&this))?,
        _ => paths::AGENT.into(),
    };
    let output = Command::new(this)
        .args(["exec", "--context=", &about.name, "--"])
        .arg(agent)
        .args(["overlay", "status", "-o", "json"])
        .stdin(Stdio::null())
        .output()
        .context("cannot start this program again")?;
    Ok(output.status.success().then(|| serde_json::from_slice(&output.stdout).ok()).flatten())
}

/// The state in one sentence, and what is waited for.
fn sentence(seen: &Seen) -> String {
    let Seen { about, status } = seen;
    let name = &about.name;
    let Some(status) = status else {
        return format!(
            "{name} is {}: {} of {} pods run, and the launcher's broker does not answer.",
            about.state.to_lowercase(),
            about.running,
            about.size
        );
    };
    let brokers = format!(
        "\n  brokers   {}/{}, the quorum is {}",
        status.online, status.size, status.min_size
    );
    if is_early(status) {
        return format!("{name} is not running: {}.{brokers}", waiting(status, "·"));
    }
    let program = match &status.program {
        Some(program) => format!("the program runs on {} pods", program.pods),
        None => "it is up for people".to_owned(),
    };
    format!("{name} is {}: {program}.{brokers}", about.state.to_lowercase())
}

/// Prints an answer in the asked format; both kinds of clusters answer through it.
pub(crate) fn show(
    format: TextFormat,
    text: impl Fn() -> String,
    data: impl Fn() -> Value,
) -> anyhow::Result<i32> {
    let text = match format {
        TextFormat::Text => text(),
        TextFormat::Json => serde_json::to_string_pretty(&data())? + "\n",
        TextFormat::Yaml => serde_saphyr::to_string(&data())?,
    };
    print(&text)?;
    Ok(0)
}

pub(super) fn wait(args: &WaitArgs) -> anyhow::Result<i32> {
    let started = Instant::now();
    let limit = args.timeout.map(Duration::from_secs);
    let (running, _) = targets::find(args.cluster.as_deref())?;
    let name = running.about.name.clone();
    let left = || limit.map(|limit| limit.saturating_sub(started.elapsed()));
    match args.wait_for {
        WaitFor::End => {
            if ended(&running, left())? {
                return Ok(code(&running.entry.path));
            }
        }
        WaitFor::Quorate => loop {
            if overlay(&running.about)?.is_some_and(|status| status.state >= BrokerState::Run) {
                return Ok(exit::OK);
            }
            let pause = left().map_or(LOOK, |left| left.min(LOOK));
            if ended(&running, Some(pause))? {
                return Ok(code(&running.entry.path));
            }
            if left().is_some_and(|left| left.is_zero()) {
                break;
            }
        },
    }
    let what = match args.wait_for {
        WaitFor::End => "ended",
        WaitFor::Quorate => "become quorate",
    };
    let seconds = args.timeout.unwrap_or(0);
    Err(Refusal::new(format!("{name} has not {what} within {seconds} s"))
        .hint(format!("`quorate why {name}` says what is missing"))
        .code(exit::TIME_LIMIT)
        .into())
}

/// Waits for the end of a cluster, which is that of its keeper; false when that takes too long.
fn ended(running: &Running, limit: Option<Duration>) -> anyhow::Result<bool> {
    let timeout = match limit {
        None => PollTimeout::NONE,
        Some(limit) => PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX),
    };
    let mut fds = [PollFd::new(running.keeper.as_fd(), PollFlags::POLLIN)];
    if poll(&mut fds, timeout).context("cannot wait for the cluster")? == 0 {
        return Ok(false);
    }
    // Nothing was asked, so what comes is the end.
    Ok(running.keeper.receive::<Answer>().map_or(true, |answer| answer.is_none()))
}

/// The code that a cluster left behind; without a record it ended as it should.
fn code(dir: &Path) -> i32 {
    let record = std::fs::read(dir.join(crate::registry::ENDED)).ok();
    let record: Option<Value> = record.and_then(|record| serde_json::from_slice(&record).ok());
    let code = record.and_then(|record| i32::try_from(record["code"].as_i64()?).ok());
    code.unwrap_or(exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_contract::status::Missing;

    fn seen(state: BrokerState, missing: Vec<Missing>) -> Seen {
        Seen {
            about: Description {
                name: "tools".into(),
                size: 4,
                running: 4,
                state: "Ready".into(),
                attempt: 0,
                age_seconds: 1,
                sandbox: "namespaces".into(),
                pods: Vec::new(),
            },
            status: Some(ClusterStatus {
                cluster: "tools".into(),
                state,
                size: 4,
                min_size: 4,
                online: 4 - missing.len() as u32,
                missing,
                ..ClusterStatus::default()
            }),
        }
    }

    #[test]
    fn the_sentence_says_who_is_missing() {
        let missing = Missing {
            rank: 3,
            pod: "worker-0-2".into(),
            silent_seconds: Some(8),
            why: "no contact".into(),
        };
        assert_eq!(
            sentence(&seen(BrokerState::Quorum, vec![missing])),
            "tools is not running: waiting for worker-0-2 (no contact for 8 s).\n  brokers   3/4, \
             the quorum is 4"
        );
        let data = why_data(&seen(BrokerState::Quorum, Vec::new()));
        assert_eq!((&data["cause"], &data["quorum"]), (&"WaitingForBrokers".into(), &4.into()));
        let data = why_data(&seen(BrokerState::Run, Vec::new()));
        assert_eq!(
            (&data["cause"], &data["message"]),
            (&"Ready".into(), &"it is up for people".into())
        );
        assert_eq!(
            sentence(&seen(BrokerState::Run, Vec::new())),
            "tools is ready: it is up for people.\n  brokers   4/4, the quorum is 4"
        );
    }

    #[test]
    fn a_cluster_without_a_record_ended_well() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(code(dir.path()), 0);
        std::fs::write(dir.path().join(crate::registry::ENDED), r#"{"code": 7}"#).unwrap();
        assert_eq!(code(dir.path()), 7);
    }
}
