//! The agent under the name `flux`, for what workflow managers call: submit, run, batch, alloc, jobs, job,
//! cancel, queue, resource.
//!
//! Owns: Flux's spelling of options and what its commands print ([`format`]); jobs are the queue's, and
//! whatever an option means is what the verb of `quorate-agent` means by it. docs/queue.md says what
//! differs.

mod format;
mod verbs;

pub(crate) use format::f58;

use super::arguments::{AllocArgs, BatchArgs, SubmitArgs};
use clap::{Args, Parser, Subcommand};
use quorate_contract::exit;
use std::ffi::OsString;

/// The name.
pub const NAME: &str = "flux";

/// The variable of jobs that were submitted by this name: their tasks find Flux's variables.
pub const VARIABLE: &str = "QUORATE_FLUX";

#[derive(Debug, Parser)]
#[command(name = "flux", max_term_width = 100)]
struct Flux {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Submit a job, and print its id
    Submit(Box<Submit>),
    /// Run a job, and show its output
    Run(Box<Submit>),
    /// Submit a script, which gets an instance of its own
    Batch(Box<Batch>),
    /// Get an instance for as long as a command runs here
    Alloc(Box<AllocArgs>),
    /// List jobs
    Jobs(verbs::Jobs),
    /// Do something with a job
    #[command(subcommand)]
    Job(verbs::Job),
    /// End jobs
    Cancel(verbs::Cancel),
    /// Look after queues
    #[command(subcommand)]
    Queue(verbs::Queue),
    /// Look after resources
    #[command(subcommand)]
    Resource(verbs::Resource),
    /// Print the version
    Version,
}

/// Options of Flux beside those that the queue has by the same name.
#[derive(Clone, Debug, Args)]
struct Extra {
    /// An option of the shell: mpi=none, cpu-affinity=off, gpu-affinity, exit-timeout, verbose, pty
    #[arg(short = 'o', long = "setopt", value_name = "KEY[=VALUE]")]
    setopt: Vec<String>,
    /// A word about the job
    #[arg(long = "setattr", value_name = "KEY=VALUE")]
    setattr: Vec<String>,
    /// waitable, debug, novalidate: all jobs can be waited for
    #[arg(long, value_name = "FLAGS")]
    flags: Vec<String>,
    /// Pass output on as it comes
    #[arg(short = 'u', long)]
    unbuffered: bool,
}

#[derive(Debug, Args)]
struct Submit {
    #[command(flatten)]
    submit: SubmitArgs,
    #[command(flatten)]
    extra: Extra,
}

#[derive(Debug, Args)]
struct Batch {
    #[command(flatten)]
    batch: BatchArgs,
    #[command(flatten)]
    extra: Extra,
}

impl Extra {
    /// What its options mean as options of a start, and labels.
    fn apply(&self, submit: &mut SubmitArgs) -> Result<(), String> {
        for text in &self.setopt {
            let (key, value) = text.split_once('=').unwrap_or((text, ""));
            match (key, value) {
                ("mpi", "none") => submit.option("mpi", "none"),
                ("cpu-affinity", "off") => submit.option("cpu-bind", "none"),
                ("cpu-affinity", "per-task") => submit.option("cpu-bind", "task"),
                ("pty" | "pty.interactive", _) => submit.terminal(),
                // Affinity is on, and what a task's end means is the queue's business.
                ("cpu-affinity" | "gpu-affinity" | "verbose" | "mpi" | "exit-timeout", _) => {}
                _ => {
                    return Err(format!(
                        "-o {key} is not known here: mpi, cpu-affinity, gpu-affinity, pty, exit-timeout and \
                         verbose are"
                    ));
                }
            }
        }
        for text in &self.setattr {
            let (key, value) = text.split_once('=').unwrap_or((text, "1"));
            submit.word(key, value);
        }
        let known = ["waitable", "debug", "novalidate"];
        let flags = self.flags.iter().flat_map(|flags| flags.split(','));
        if let Some(flag) = flags.clone().find(|flag| !known.contains(flag)) {
            return Err(format!("--flags={flag} is not known: {} are", known.join(", ")));
        }
        if self.unbuffered {
            submit.option("unbuffered", "");
        }
        submit.of_flux(f58);
        Ok(())
    }
}

/// Runs the command; gives the code to exit with.
pub(super) fn run(words: impl Iterator<Item = OsString>) -> i32 {
    let all = std::iter::once(OsString::from(NAME)).chain(words);
    let flux = match Flux::try_parse_from(all) {
        Ok(flux) => flux,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { exit::FAILED } else { exit::OK };
        }
    };
    let done = match flux.verb {
        Verb::Submit(mut args) => args
            .extra
            .apply(&mut args.submit)
            .map_err(anyhow::Error::msg)
            .and_then(|()| args.submit.run()),
        Verb::Run(mut args) => {
            args.submit.shown();
            args.extra
                .apply(&mut args.submit)
                .map_err(anyhow::Error::msg)
                .and_then(|()| args.submit.run())
        }
        Verb::Batch(args) => batch(*args),
        Verb::Alloc(args) => args.run(),
        Verb::Jobs(args) => args.run(),
        Verb::Job(verb) => verb.run(),
        Verb::Cancel(args) => args.run(),
        Verb::Queue(verb) => verb.run(),
        Verb::Resource(verb) => verb.run(),
        Verb::Version => super::arguments::print(&format!(
            "commands:\t\tquorate {}\n",
            env!("CARGO_PKG_VERSION")
        ))
        .map(|()| exit::OK),
    };
    done.unwrap_or_else(|error| {
        crate::sys::complain(&format!("{error:#}"));
        exit::FAILED
    })
}

/// A script with its `# flux:` lines; what is typed comes before them.
fn batch(mut args: Batch) -> anyhow::Result<i32> {
    let (text, name) = match args.batch.script() {
        Ok(script) => script,
        Err(why) => anyhow::bail!(why),
    };
    let mut words: Vec<String> = vec!["batch".to_owned()];
    for (number, line) in text.lines().enumerate() {
        let Some(rest) = line.strip_prefix('#').map(str::trim_start) else { continue };
        let directive = rest.get(..5).filter(|tag| tag.eq_ignore_ascii_case("flux:"));
        if directive.is_some() {
            let more = quorate_slurm::script::words(&rest[5..]);
            words.extend(more.map_err(|quote| {
                anyhow::anyhow!("line {} of {name}: the quote {quote} has no end", number + 1)
            })?);
        }
    }
    if words.len() > 1 {
        let typed = std::env::args_os().skip_while(|word| word != "batch").skip(1);
        let all = words.into_iter().map(OsString::from).chain(typed);
        let command = Batch::augment_args(clap::Command::new("batch")).args_override_self(true);
        let read = command
            .try_get_matches_from(all)
            .and_then(|found| <Batch as clap::FromArgMatches>::from_arg_matches(&found));
        args = read.map_err(|error| anyhow::anyhow!("the lines of {name}: {error}"))?;
    }
    let submit = args.batch.submit_mut();
    args.extra.apply(submit).map_err(anyhow::Error::msg)?;
    submit.output_unless_said("flux-{{id}}.out");
    args.batch.run_text(text, &name)
}
