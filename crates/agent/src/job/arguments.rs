//! The command lines of `run` and `exec`.
//!
//! Owns: flags, their meaning in a request, and the refusals that need no broker.

use super::client::{self, Labels, Options};
use super::front::{ClientRequest, RUN_VERB};
use super::protocol::{Command, Stdin, Where};
use crate::launch::affinity::Binding;
use crate::launch::place::{Ask, Distribution, Spread, Tasks};
use crate::launch::text;
use crate::local::Hello;
use crate::queue::TERMINAL;
use crate::queue::arguments::{called, run_now};
use crate::terminal;
use clap::{Args, ValueEnum};
use quorate_contract::exit;
use quorate_queue::{Jobspec, Program, Streams};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Run a program as a parallel job over the cluster's brokers, and wait for it.
///
/// It is a job of the queue: it waits until there is room for it, and `jobs` shows it. It ends with this
/// command. Prints the tasks' output and exits with the highest of their codes, 128+n for a signal, or the
/// code of MPI_Abort. Ctrl-C is passed on to the tasks; a second one within a second kills them.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct RunArgs {
    /// Tasks in all (default 1, or one per node with -N)
    #[arg(short = 'n', long, value_name = "N")]
    ntasks: Option<u32>,
    /// Brokers that get at least one task each
    #[arg(short = 'N', long, value_name = "N")]
    nodes: Option<u32>,
    /// The most tasks of one broker
    #[arg(long, value_name = "N", visible_alias = "ntasks-per-node")]
    tasks_per_node: Option<u32>,
    /// CPUs of each task; it is bound to them
    #[arg(short = 'c', long, value_name = "N")]
    cpus_per_task: Option<u32>,
    /// Allow more tasks than slots; such a job is never one of the queue
    #[arg(short = 'O', long)]
    oversubscribe: bool,
    /// Start it now, beside whatever runs, and not as a job of the queue
    #[arg(long)]
    direct: bool,
    /// The order of ranks over brokers
    #[arg(short = 'm', long, value_enum, default_value_t = Order::Block)]
    distribution: Order,
    /// Start each output line with the task's rank
    #[arg(short = 'l', long, visible_alias = "label")]
    label_io: bool,
    /// Pass output on as it comes, not line by line
    #[arg(short = 'u', long)]
    unbuffered: bool,
    /// Give the task of rank 0 a terminal, which is this one; the others read and write nothing
    #[arg(long, conflicts_with_all = ["label_io", "stdin"])]
    pty: bool,
    /// The way in which MPI programs are offered a start
    #[arg(long, value_enum, default_value_t = Mpi::Auto)]
    mpi: Mpi,
    /// Offer PMI by TCP too, for wrappers that close inherited descriptors
    #[arg(long)]
    pmi_port: bool,
    /// Whether tasks are bound to CPUs
    #[arg(long, value_enum, default_value_t = Bind::Auto)]
    cpu_bind: Bind,
    /// Which tasks get stdin
    #[arg(short = 'i', long, value_enum, default_value_t = Input::First)]
    stdin: Input,
    /// Set NAME=VALUE, take NAME along, or leave -NAME out; may be repeated
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    env: Vec<String>,
    /// The directory to start in (default: this one, where it exists)
    #[arg(short = 'D', long, value_name = "DIR", visible_alias = "chdir")]
    cwd: Option<PathBuf>,
    /// A failing task leaves the others alone (not for MPI programs)
    #[arg(long)]
    no_kill: bool,
    /// The broker's socket
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Run a command once on each of some brokers, whatever their slots.
///
/// Prints the output with the broker's rank before each line when there are several, and exits
/// with the highest code.
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Ranks of brokers: 0-3,7 or all
    #[arg(short = 'r', long, value_name = "RANKS", default_value = "all")]
    ranks: String,
    /// Do not label lines
    #[arg(long)]
    no_label: bool,
    /// Pass stdin to every command
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Set NAME=VALUE, take NAME along, or leave -NAME out; may be repeated
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    env: Vec<String>,
    /// The directory to start in (default: each container's)
    #[arg(short = 'D', long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The broker's socket
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    Block,
    Cyclic,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mpi {
    Auto,
    Pmi1,
    Pmi2,
    Pmix,
    None,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Bind {
    Auto,
    None,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Input {
    /// The task of rank 0
    #[value(alias = "0")]
    First,
    All,
    None,
}

impl RunArgs {
    /// The request that the flags mean.
    fn request(&self) -> ClientRequest {
        let tasks = match (self.ntasks, self.nodes.is_some() || self.tasks_per_node.is_some()) {
            (Some(tasks), _) => Tasks::Exactly(tasks),
            (None, true) => Tasks::PerNode,
            (None, false) => Tasks::Exactly(1),
        };
        ClientRequest {
            command: Command {
                argv: self.command.iter().map(text::encode).collect(),
                cwd: directory(self.cwd.as_ref()),
                cwd_required: self.cwd.is_some(),
                mpi: word(self.mpi),
                pmi_port: self.pmi_port,
                stdin: match self.stdin {
                    Input::First => Stdin::First,
                    Input::All => Stdin::All,
                    Input::None => Stdin::None,
                },
                cpus_per_task: self.cpus_per_task,
                binding: match self.cpu_bind {
                    Bind::Auto => Binding::Auto,
                    Bind::None => Binding::None,
                },
                unbuffered: self.unbuffered,
                terminal: self.pty.then(|| terminal::size().unwrap_or_default()),
                ..Command::default()
            },
            place: Where::Slots(Ask {
                tasks,
                nodes: self.nodes,
                tasks_per_node: self.tasks_per_node,
                cpus_per_task: self.cpus_per_task,
                oversubscribe: self.oversubscribe,
                spread: Spread::Pack,
                distribution: match self.distribution {
                    Order::Block => Distribution::Block,
                    Order::Cyclic => Distribution::Cyclic,
                },
            }),
            no_kill: self.no_kill,
            env: Some(client::own_environment()),
            env_rules: self.env.clone(),
        }
    }

    /// The job of the queue that the flags mean; `None` if they mean none of it.
    fn jobspec(&self) -> Option<Jobspec> {
        let tasks = match (self.ntasks, self.nodes, self.tasks_per_node) {
            (Some(tasks), ..) => tasks,
            (None, Some(nodes), per_node) => nodes.saturating_mul(per_node.unwrap_or(1)),
            (None, None, None) => 1,
            // As many as there are brokers at the moment.
            (None, None, Some(_)) => return None,
        };
        if self.direct || self.oversubscribe {
            return None;
        }
        let mut options: BTreeMap<String, String> = [("mpi".to_owned(), word(self.mpi))].into();
        let mut option = |given: bool, name: &str, value: &str| {
            if given {
                options.insert(name.to_owned(), value.to_owned());
            }
        };
        option(self.cwd.is_some(), "cwd", "required");
        option(self.pmi_port, "pmi-port", "");
        option(self.unbuffered, "unbuffered", "");
        option(self.pty, TERMINAL, &terminal::size().unwrap_or_default().to_string());
        option(self.no_kill, "no-kill", "");
        option(matches!(self.stdin, Input::All), "stdin", "all");
        option(matches!(self.distribution, Order::Cyclic), "distribution", "cyclic");
        option(self.cpus_per_task.is_some(), "cpu-bind", "task");
        option(matches!(self.cpu_bind, Bind::None), "cpu-bind", "none");
        Some(Jobspec {
            name: called(&self.command),
            program: Program::Command(self.command.iter().map(text::encode).collect()),
            request: quorate_queue::Request {
                tasks,
                nodes: self.nodes.map(|nodes| (nodes, nodes)),
                tasks_per_node: self.tasks_per_node,
                cores_per_task: self.cpus_per_task.unwrap_or(1),
                ..quorate_queue::Request::default()
            },
            directory: directory(self.cwd.as_ref()).unwrap_or_default(),
            streams: Streams {
                input: (!matches!(self.stdin, Input::None)).then(|| "-".to_owned()),
                ..Streams::default()
            },
            options,
            ..Jobspec::command("", &[])
        })
    }

    /// Runs the job; gives the code to exit with.
    pub fn run(self) -> i32 {
        let labels = if self.label_io { Labels::Task } else { Labels::None };
        let stdin = !matches!(self.stdin, Input::None);
        let spec = self.jobspec();
        let waits_for_placement = spec.is_none();
        let options =
            Options { labels, stdin, waits_for_placement, terminal: self.pty, patience: None };
        match spec {
            Some(spec) => run_now(&client::socket(self.socket), spec, self.env, &options),
            None => call(self.socket.clone(), &self.request(), &options),
        }
    }
}

impl ExecArgs {
    /// Runs the command; gives the code to exit with.
    pub fn run(self) -> i32 {
        let request = ClientRequest {
            command: Command {
                argv: self.command.iter().map(text::encode).collect(),
                cwd: self.cwd.as_ref().map(text::encode),
                cwd_required: self.cwd.is_some(),
                mpi: word(Mpi::None),
                stdin: if self.stdin { Stdin::All } else { Stdin::None },
                ..Command::default()
            },
            place: Where::Brokers(self.ranks),
            no_kill: true,
            env: None,
            env_rules: self.env,
        };
        let labels = if self.no_label { Labels::None } else { Labels::Broker };
        call(
            self.socket,
            &request,
            &Options { labels, stdin: self.stdin, waits_for_placement: true, ..Options::default() },
        )
    }
}

fn word(mpi: Mpi) -> String {
    mpi.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
}

fn directory(flag: Option<&PathBuf>) -> Option<String> {
    let own = flag.is_none().then(|| std::env::current_dir().ok()).flatten();
    flag.or(own.as_ref()).map(text::encode)
}

fn call(socket: Option<PathBuf>, request: &ClientRequest, options: &Options) -> i32 {
    let args = serde_json::to_value(request).expect("plain data always serializes");
    let hello = Hello { verb: RUN_VERB.to_string(), args };
    let end = client::call(&client::socket(socket), &hello, options);
    let failed = match end {
        Err(crate::local::LocalError::Connect { .. }) => exit::UNAVAILABLE,
        _ => exit::BROKER_LOST,
    };
    client::conclude(end, failed)
}
