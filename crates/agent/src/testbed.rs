//! `quorate-agent testbed`: what people and tests do to the brokers of a cluster that
//! `start --test-size` runs on this host. The cluster's own process answers (`start::control`).
//!
//! Owns the verbs and the shapes of what is said on the control socket
//! (`docs/spec/local-socket.md`).

use crate::query::{ask, block_on};
use crate::version::Output;
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

/// Set for all brokers of a test cluster and what they start: the path of the control socket.
pub const SOCKET: &str = "QUORATE_TESTBED";

/// Names of the calls.
pub(crate) mod calls {
    pub(crate) const STATUS: &str = "testbed.status";
    pub(crate) const KILL: &str = "testbed.kill";
    pub(crate) const PAUSE: &str = "testbed.pause";
    pub(crate) const RESUME: &str = "testbed.resume";
    pub(crate) const REJOIN: &str = "testbed.rejoin";
}

/// Do something to a broker of a cluster that start --test-size runs
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "the arguments' own documentation is the help text")]
pub enum Verb {
    Status(Status),
    Kill(Kill),
    Pause(One),
    Resume(One),
    Rejoin(One),
}

/// Where the cluster is.
#[derive(Debug, Args)]
pub struct Control {
    /// The control socket, as given to start --control; programs of the cluster know it
    #[arg(long, value_name = "SOCKET", env = SOCKET)]
    control: PathBuf,
}

/// Show the brokers with their processes
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    place: Control,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Kill a broker with -9; its supervisor starts another one, which joins again
#[derive(Debug, Args)]
pub struct Kill {
    /// The broker's rank
    rank: u32,
    /// Kill the whole pod, as a lost node does: supervisor, broker and tasks
    #[arg(long)]
    pod: bool,
    #[command(flatten)]
    place: Control,
}

/// Which broker.
#[derive(Debug, Args)]
pub struct One {
    /// The broker's rank
    rank: u32,
    #[command(flatten)]
    place: Control,
}

/// What a call is about.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Target {
    pub(crate) rank: u32,
    #[serde(default)]
    pub(crate) pod: bool,
}

/// A test cluster as its process sees it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Testbed {
    /// Where its files are.
    pub dir: PathBuf,
    /// All brokers, by rank.
    pub brokers: Vec<Broker>,
}

/// One broker of a [`Testbed`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Broker {
    /// Its rank.
    pub rank: u32,
    /// What people call its pod.
    pub name: String,
    /// How it is.
    pub state: State,
    /// The process of the pod's supervisor, while there is one.
    pub supervisor: Option<i32>,
    /// The broker's own process, while there is one.
    pub pid: Option<i32>,
    /// The address that it listens on.
    pub address: String,
    /// Its run directory; the local socket `agent.sock` is in it.
    pub run_dir: PathBuf,
}

/// How a broker is, as far as its processes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It runs.
    Running,
    /// It was paused.
    Paused,
    /// It is being started by its supervisor.
    Starting,
    /// Its pod is gone.
    Gone,
}

/// Runs a verb.
pub fn run(verb: Verb) -> anyhow::Result<i32> {
    let (name, target, place) = match verb {
        Verb::Status(args) => return status(&args),
        Verb::Kill(Kill { rank, pod, place }) => (calls::KILL, Target { rank, pod }, place),
        Verb::Pause(One { rank, place }) => (calls::PAUSE, Target { rank, pod: false }, place),
        Verb::Resume(One { rank, place }) => (calls::RESUME, Target { rank, pod: false }, place),
        Verb::Rejoin(One { rank, place }) => (calls::REJOIN, Target { rank, pod: false }, place),
    };
    let (_, code) = block_on(ask(&place.control, name, serde_json::to_value(target)?))??;
    Ok(code)
}

fn status(args: &Status) -> anyhow::Result<i32> {
    let none = serde_json::Value::Null;
    let (values, code) = block_on(ask(&args.place.control, calls::STATUS, none))??;
    for value in values {
        let text = match args.output {
            Output::Json => [&value[..], b"\n"].concat(),
            Output::Text => table(&serde_json::from_slice(&value)?).into_bytes(),
        };
        match std::io::stdout().lock().write_all(&text) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error)?,
            _ => {}
        }
    }
    Ok(code)
}

fn table(testbed: &Testbed) -> String {
    let pid = |pid: Option<i32>| pid.map_or_else(|| "-".to_string(), |pid| pid.to_string());
    let width = testbed.brokers.iter().map(|broker| broker.name.len()).max().unwrap_or(0).max(4);
    let mut text = format!(" RANK  {:width$}  STATE     SUPERVISOR   BROKER  ADDRESS\n", "NAME");
    for broker in &testbed.brokers {
        let state = match broker.state {
            State::Running => "running",
            State::Paused => "paused",
            State::Starting => "starting",
            State::Gone => "gone",
        };
        let (supervisor, own) = (pid(broker.supervisor), pid(broker.pid));
        let Broker { rank, name, address, .. } = broker;
        let _ = writeln!(
            text,
            "{rank:>5}  {name:width$}  {state:8}  {supervisor:>10}  {own:>7}  {address}"
        );
    }
    text
}
