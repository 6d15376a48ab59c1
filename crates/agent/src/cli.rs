//! The command line: which verb does what. Verbs live beside what they drive; this module only
//! names them.

use crate::broker::Launching;
use crate::hosts::enter::EnterArgs;
use crate::hosts::verb::HostsArgs;
use crate::job::arguments::{ExecArgs, RunArgs};
use crate::launcher::Launcher;
use crate::queue::arguments::{
    AllocArgs, AttachArgs, BatchArgs, CancelArgs, EventsArgs, FetchArgs, HoldArgs, InfoArgs,
    JobsArgs, KillArgs, PurgeArgs, QueueVerb, ReleaseArgs, RequeueArgs, ResourceVerb, SubmitArgs,
    UpdateArgs, WaitArgs, WithFilesArgs,
};
use crate::queue::by_rank::ByRankArgs;
use crate::queue::top::TopArgs;
use crate::queue::work::{ScriptArgs, WorkArgs};
use crate::queue::{slurm, work};
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

/// The command line of a verb that is one of few.
#[derive(Debug, Parser)]
#[command(name = "quorate-agent", version, propagate_version = true, max_term_width = 100)]
struct Brief<V: Subcommand> {
    #[command(subcommand)]
    verb: V,
}

/// Verbs that are started over and over, or that stay. The command line of one of these is read
/// without that of all others: to put all of it together takes as many instructions as a third of a
/// broker's start, and memory that its heap keeps.
#[derive(Debug, Subcommand)]
enum Frequent {
    Broker(broker::life::Args),
    Ready(query::ready::Args),
    Run(RunArgs),
    Submit(Box<SubmitArgs>),
}

/// Verbs of which each nested instance is made, read alone too.
#[derive(Debug, Subcommand)]
enum Nested {
    Start(start::Args),
    /// Wait for the end of standard input
    #[command(name = instance::UNTIL_INPUT_ENDS, hide = true)]
    UntilInputEnds,
}

/// Verbs by which nested instances are asked for, read alone too.
#[derive(Debug, Subcommand)]
enum Nesting {
    Batch(Box<BatchArgs>),
    Alloc(Box<AllocArgs>),
}

/// What can be asked of the agent.
#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Frequent(Frequent),
    Install(install::Args),
    #[command(flatten)]
    Nested(Nested),
    #[command(subcommand)]
    Testbed(testbed::Verb),
    #[command(subcommand)]
    Overlay(query::overlay::Verb),
    Jobs(JobsArgs),
    Info(InfoArgs),
    Attach(AttachArgs),
    Wait(WaitArgs),
    Fetch(FetchArgs),
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
    #[command(flatten)]
    Nesting(Nesting),
    #[command(name = "by-rank", hide = true)]
    ByRank(ByRankArgs),
    #[command(name = work::VERB, hide = true)]
    Work(WorkArgs),
    #[command(hide = true)]
    SubmitScript(ScriptArgs),
    #[command(hide = true)]
    WithFiles(WithFilesArgs),
    Top(TopArgs),
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
    /// Reads all words of a command line, the name that it was called by first.
    pub fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        fn alone<V: Subcommand>(
            words: &[OsString],
            among: fn(V) -> Verb,
        ) -> Result<Cli, clap::Error> {
            Brief::try_parse_from(words).map(|Brief { verb }| Cli { verb: among(verb) })
        }
        match words.get(1).and_then(|word| word.to_str()) {
            Some(verb) if Frequent::has_subcommand(verb) => alone(words, Verb::Frequent),
            Some(verb) if Nested::has_subcommand(verb) => alone(words, Verb::Nested),
            Some(verb) if Nesting::has_subcommand(verb) => alone(words, Verb::Nesting),
            _ => Self::try_parse_from(words),
        }
    }

    /// Runs the verb; gives the code to exit with.
    pub fn run(self) -> anyhow::Result<i32> {
        match self.verb {
            Verb::Frequent(Frequent::Broker(args)) => broker::life::run(&args, &launching()),
            Verb::Frequent(Frequent::Ready(args)) => query::ready::run(&args),
            Verb::Frequent(Frequent::Run(args)) => Ok(args.run()),
            Verb::Frequent(Frequent::Submit(args)) => args.run(),
            Verb::Install(args) => install::run(&args),
            Verb::Nested(Nested::Start(args)) => start::run(&args, &launching()),
            Verb::Testbed(verb) => testbed::run(verb),
            Verb::Overlay(verb) => query::overlay::run(verb),
            Verb::Jobs(args) => args.run(),
            Verb::Info(args) => args.run(),
            Verb::Attach(args) => args.run(),
            Verb::Wait(args) => args.run(),
            Verb::Fetch(args) => args.run(),
            Verb::WithFiles(args) => args.run(),
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
            Verb::Nesting(Nesting::Batch(args)) => args.run(),
            Verb::Nesting(Nesting::Alloc(args)) => args.run(),
            Verb::Nested(Nested::UntilInputEnds) => instance::until_input_ends(),
            Verb::ByRank(args) => args.run(),
            Verb::Work(args) => args.run(),
            Verb::SubmitScript(args) => args.run(),
            Verb::Top(args) => args.run(),
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
    let words: Vec<OsString> = std::env::args_os().collect();
    let called = words.first().and_then(|name| Path::new(name).file_name());
    if called.is_some_and(|name| rsh::CALLED.iter().any(|known| name == *known)) {
        return rsh::client::run(words.into_iter().skip(1));
    }
    if let Some(name) = called.and_then(slurm::called) {
        return slurm::run(name, words.into_iter().skip(1));
    }
    let cli = match Cli::read(&words) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_command_line_is_sound() {
        Cli::command().debug_assert();
        Brief::<Frequent>::command().debug_assert();
        Brief::<Nested>::command().debug_assert();
        Brief::<Nesting>::command().debug_assert();
    }

    #[test]
    fn a_frequent_verb_read_alone_is_what_it_is_among_all() {
        for line in [
            "quorate-agent broker --rank 3 --attempt 1 --with-parent",
            "quorate-agent broker --no-such-flag",
            "quorate-agent broker --help",
            "quorate-agent broker --version",
            "quorate-agent ready --help",
            "quorate-agent run",
            "quorate-agent run --help",
            "quorate-agent run -N 2 -n 4 --label-io -- true --help",
            "quorate-agent run -n many true",
            "quorate-agent submit --help",
            "quorate-agent submit -n 2 sleep 1",
            "quorate-agent start --help",
            "quorate-agent start --test-size 0",
            "quorate-agent start -- ./script.sh --help",
            "quorate-agent until-input-ends",
            "quorate-agent batch --help",
            "quorate-agent batch -N2 --wrap true",
            "quorate-agent alloc -N2 --bg true",
            "quorate-agent alloc -N2 -n8 -- make check",
        ] {
            let words = words(line);
            let (alone, among) = (Cli::read(&words), Cli::try_parse_from(&words));
            match (alone, among) {
                (Ok(alone), Ok(among)) => assert_eq!(format!("{alone:?}"), format!("{among:?}")),
                (Err(alone), Err(among)) => assert_eq!(alone.to_string(), among.to_string()),
                (alone, among) => panic!("{line}: {alone:?}, but {among:?}"),
            }
        }
    }

    #[test]
    fn other_verbs_and_options_before_a_verb_are_read_among_all() {
        assert!(matches!(Cli::read(&words("quorate-agent jobs")).unwrap().verb, Verb::Jobs(_)));
        let help = Cli::read(&words("quorate-agent --help")).unwrap_err().to_string();
        for verb in ["broker", "ready", "run", "submit", "install", "jobs"] {
            assert!(help.contains(&format!("\n  {verb} ")), "{verb} is not in {help}");
        }
        let unknown = Cli::read(&words("quorate-agent brokr")).unwrap_err().to_string();
        assert!(unknown.contains("broker"), "{unknown}");
    }
}
