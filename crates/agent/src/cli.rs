//! The command line: which verb does what. Verbs live beside what they drive; this module only
//! names them.

use crate::broker::Launching;
use crate::hosts::enter::EnterArgs;
use crate::hosts::verb::HostsArgs;
use crate::job::arguments::{ExecArgs, RunArgs};
use crate::launcher::Launcher;
use crate::queue::arguments::{
    AllocArgs, AttachArgs, BatchArgs, CancelArgs, EventsArgs, HoldArgs, InfoArgs, JobsArgs,
    KillArgs, PurgeArgs, QueueVerb, ReleaseArgs, RequeueArgs, ResourceVerb, SubmitArgs, UpdateArgs,
    WaitArgs,
};
use crate::queue::slurm;
use crate::{broker, install, instance, query, rsh, start, testbed, version};
use clap::{Parser, Subcommand};
use quorate_contract::exit;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

/// The broker of a Quorate cluster in this pod, and the verbs to talk to it
#[derive(Debug, Parser)]
#[command(name = "quorate-agent", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// What can be asked of the agent.
#[derive(Debug, Subcommand)]
enum Verb {
    Install(install::Args),
    Broker(broker::life::Args),
    Start(start::Args),
    #[command(subcommand)]
    Testbed(testbed::Verb),
    Ready(query::ready::Args),
    #[command(subcommand)]
    Overlay(query::overlay::Verb),
    Run(RunArgs),
    Submit(Box<SubmitArgs>),
    Jobs(JobsArgs),
    Info(InfoArgs),
    Attach(AttachArgs),
    Wait(WaitArgs),
    Cancel(CancelArgs),
    #[command(visible_alias = "signal")]
    Kill(KillArgs),
    Hold(HoldArgs),
    Release(ReleaseArgs),
    Requeue(RequeueArgs),
    Update(UpdateArgs),
    Purge(PurgeArgs),
    Events(EventsArgs),
    #[command(subcommand)]
    Queue(QueueVerb),
    #[command(subcommand)]
    Resource(ResourceVerb),
    Exec(ExecArgs),
    Batch(Box<BatchArgs>),
    Alloc(Box<AllocArgs>),
    /// Wait for the end of standard input
    #[command(name = instance::UNTIL_INPUT_ENDS, hide = true)]
    UntilInputEnds,
    Tree(instance::tree::Args),
    Proxy(instance::proxy::Args),
    Hosts(HostsArgs),
    Enter(EnterArgs),
    /// Run a command on another pod, as ssh does
    #[command(disable_help_flag = true)]
    Rsh {
        /// [options] [user@]host [command...]
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    Version(version::Args),
}

impl Cli {
    /// Runs the verb; gives the code to exit with.
    pub fn run(self) -> anyhow::Result<i32> {
        match self.verb {
            Verb::Install(args) => install::run(&args),
            Verb::Broker(args) => broker::life::run(&args, &launching()),
            Verb::Start(args) => start::run(&args, &launching()),
            Verb::Testbed(verb) => testbed::run(verb),
            Verb::Ready(args) => query::ready::run(&args),
            Verb::Overlay(verb) => query::overlay::run(verb),
            Verb::Run(args) => Ok(args.run()),
            Verb::Submit(args) => args.run(),
            Verb::Jobs(args) => args.run(),
            Verb::Info(args) => args.run(),
            Verb::Attach(args) => args.run(),
            Verb::Wait(args) => args.run(),
            Verb::Cancel(args) => args.run(),
            Verb::Kill(args) => args.run(),
            Verb::Hold(args) => args.run(),
            Verb::Release(args) => args.run(),
            Verb::Requeue(args) => args.run(),
            Verb::Update(args) => args.run(),
            Verb::Purge(args) => args.run(),
            Verb::Events(args) => args.run(),
            Verb::Queue(verb) => verb.run(),
            Verb::Resource(verb) => verb.run(),
            Verb::Exec(args) => Ok(args.run()),
            Verb::Batch(args) => args.run(),
            Verb::Alloc(args) => args.run(),
            Verb::UntilInputEnds => instance::until_input_ends(),
            Verb::Tree(args) => instance::tree::run(&args),
            Verb::Proxy(args) => instance::proxy::run(&args),
            Verb::Hosts(args) => Ok(args.run()),
            Verb::Enter(args) => Ok(args.run()),
            Verb::Rsh { words } => Ok(rsh::client::run(words)),
            Verb::Version(args) => version::run(&args),
        }
    }
}

/// The launching side of this binary's brokers.
fn launching() -> Arc<dyn Launching> {
    Arc::new(Launcher::new())
}

/// Parses the command line and runs it; errors are printed once, as a chain.
pub fn main() -> i32 {
    // Launchers call the remote shell by a name of its own, with ssh's arguments.
    let mut words = std::env::args_os();
    let called = words.next().and_then(|name| Path::new(&name).file_name().map(OsString::from));
    if called.as_ref().is_some_and(|name| rsh::CALLED.iter().any(|known| name == *known)) {
        return rsh::client::run(words);
    }
    if let Some(name) = called.as_deref().and_then(slurm::called) {
        return slurm::run(name, words);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { exit::USAGE } else { exit::OK };
        }
    };
    match cli.run() {
        Ok(code) => code,
        Err(error) => {
            crate::sys::complain(&format!("{error:#}"));
            exit::FAILED
        }
    }
}
