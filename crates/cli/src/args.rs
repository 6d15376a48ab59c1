//! The command line. Only what was typed: verbs turn it into work.

#![allow(missing_docs, reason = "the help texts are the documentation; more would show up there")]

mod place;
mod queue;

pub use place::{Place, Reach, called_as_plugin};
pub use queue::{FetchArgs, QueueArgs, QueueVerb};

use crate::refusal::Refusal;
use crate::verbs::wanted::is_file_name;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Turn a MiniCluster into a working HPC cluster
///
/// On this machine, without Kubernetes: each pod of the cluster is a set of namespaces with an own
/// host name, address and /dev/shm, and the programs are those of this machine. With --context,
/// --kubeconfig or --namespace, or called as kubectl-quorate, the same verbs work on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "quorate", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Data goes to standard output, status to standard error.\n\
    `quorate VERB --help` says more about a verb.")]
pub struct Cli {
    #[command(flatten)]
    pub loudness: Loudness,
    #[command(subcommand)]
    pub verb: Verb,
}

/// How much is said.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Loudness {
    /// Say nothing but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more; twice for the brokers' own log
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    Run(Box<RunArgs>),
    /// List clusters
    #[command(visible_alias = "list")]
    Ls(LsArgs),
    /// Open a shell in a pod
    Shell(ShellArgs),
    /// Run a command in a pod
    Exec(ExecArgs),
    /// Print what a pod has written
    Logs(LogsArgs),
    /// Show a cluster: its brokers, its start, its restarts and its last failure
    Status(StatusArgs),
    /// Say in one sentence why a cluster is not running
    Why(StatusArgs),
    /// Wait for the end of a cluster, or of jobs of its queue, and end with its program's or their code
    Wait(WaitArgs),
    /// End clusters and forget their logs
    Delete(DeleteArgs),
    #[command(flatten)]
    Queue(QueueVerb),
    /// Check MiniCluster files without running anything
    Validate(ValidateArgs),
    /// Print the objects that a MiniCluster becomes
    Plan(PlanArgs),
    /// Say what this machine offers, and how to get the rest
    Doctor(DoctorArgs),
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        dir: PathBuf,
    },
}

/// Run a MiniCluster and end with its program's code
///
/// Either a file, or the cluster in flags and a command: `quorate run -N 4 -n 8 -- ./hello`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  quorate run hello.yaml\n  quorate run -N 4 -- hostname\n  \
    quorate run -N 4 -n 8 -l -- ./ring 1000\n  quorate run -N 4 --script -- mpirun -np 8 ./ring\n\n\
    The first Ctrl-C is passed on to the program, the second ends everything.\n\n\
    On Kubernetes:\n  quorate run --context lab -n hpc lammps.yaml\n  \
    quorate run --context lab --image example/app -N 4 -n 8 -- ./hello\n\n\
    There the first Ctrl-C asks whether to delete the cluster or to leave it running, the second leaves\n\
    it. A cluster made of flags is deleted when its program has succeeded; any other is kept.\n\
    -n takes a number for ranks and a name for the namespace: inside a cluster the word of HPC wins.")]
pub struct RunArgs {
    /// Pods [default: 1]
    #[arg(short = 'N', long, value_name = "PODS", value_parser = clap::value_parser!(i32).range(1..))]
    pub nodes: Option<i32>,
    /// A number: as --ntasks. A name: as --namespace
    #[arg(short = 'n', value_name = "RANKS | NAMESPACE")]
    pub n: Vec<String>,
    /// Ranks [default: one a pod]
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(i32).range(1..))]
    pub ntasks: Option<i32>,
    /// CPUs that each rank is bound to
    #[arg(short = 'c', long, value_name = "CPUS", value_parser = clap::value_parser!(i32).range(1..))]
    pub cpus_per_task: Option<i32>,
    /// Prefix each line of output with the rank that wrote it
    #[arg(short = 'l', long)]
    pub label_io: bool,
    /// The way in which MPI programs are offered a start [default: auto, all at once]
    #[arg(long, value_enum, value_name = "WAY", conflicts_with = "script")]
    pub mpi: Option<MpiArg>,
    /// Start the command once, on the launcher, as a script that calls mpirun
    #[arg(long, conflicts_with_all = ["ntasks", "cpus_per_task", "label_io"])]
    pub script: bool,
    /// A variable of the ranks; may be repeated
    #[arg(short = 'e', long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// The image that has the program; on Kubernetes only, and needed there
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// The cluster's name [default: the command's and four letters]
    #[arg(long)]
    pub name: Option<String>,
    /// Leave the cluster up; `quorate shell` enters it, `quorate delete` ends it
    #[arg(long)]
    pub keep: bool,
    /// Print the closing summary as data too, after the program's output
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub output: Option<SummaryFormat>,
    /// How pods are kept apart
    #[arg(long, value_enum, default_value_t = SandboxArg::Namespaces)]
    pub sandbox: SandboxArg,
    #[command(flatten)]
    pub reach: Reach,
    /// The namespace [default: the file's, else the context's]
    #[arg(long, value_name = "NAMESPACE", help_heading = place::HEADING)]
    pub namespace: Option<String>,
    /// A MiniCluster file (`-` reads standard input), or a command with its arguments
    #[arg(trailing_var_arg = true, value_name = "FILE | CMD")]
    pub words: Vec<String>,
}

impl RunArgs {
    /// Reads `-n`, which is ranks or a namespace, and says where the cluster shall be.
    pub fn settle(mut self) -> Result<(Self, Place), Refusal> {
        for word in std::mem::take(&mut self.n) {
            let twice = |flag: &str| {
                Refusal::usage(format!("-n {word} says again what {flag} says"))
                    .hint("leave one of them out")
            };
            if word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+')) {
                let ranks =
                    word.parse().ok().filter(|ranks: &i32| *ranks > 0).ok_or_else(|| {
                        Refusal::usage(format!("-n {word} is no number of ranks"))
                            .hint("give a number from 1 on, or a namespace with --namespace")
                    })?;
                if self.ntasks.replace(ranks).is_some() {
                    return Err(twice("--ntasks"));
                }
            } else if self.namespace.replace(word.clone()).is_some() {
                return Err(twice("--namespace"));
            }
        }
        if self.script && self.ntasks.is_some() {
            return Err(Refusal::usage("-n does not go with --script")
                .hint("a script says itself how many ranks its mpirun starts"));
        }
        let place = Place { reach: self.reach.clone(), namespace: self.namespace.clone() };
        Ok((self, place))
    }

    /// Whether the words are a command rather than a file.
    pub fn names_a_command(&self) -> bool {
        !(self.words.len() == 1 && self.words.first().is_some_and(|word| is_file_name(word)))
    }

    /// Whether flags say what a file would.
    pub fn describes_a_cluster(&self) -> bool {
        self.nodes.is_some()
            || self.ntasks.is_some()
            || self.cpus_per_task.is_some()
            || self.label_io
            || self.mpi.is_some()
            || self.script
            || self.image.is_some()
            || !self.env.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MpiArg {
    /// All ways at once; each rank takes the one that its MPI knows
    Auto,
    /// PMI-1: MPICH and its relatives, Intel MPI
    Pmi1,
    /// PMI-2: MPICH and its relatives built for it
    Pmi2,
    /// PMIx: Open MPI
    Pmix,
    /// None: ranks are plain processes
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SandboxArg {
    /// Own host name, address, processes and shared memory for each pod
    Namespaces,
    /// None of it: pods share this machine's network and processes
    None,
}

/// The format of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SummaryFormat {
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// The format of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns
    #[default]
    Table,
    /// More columns
    Wide,
    /// Names only
    Name,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// The format of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ObjectFormat {
    /// YAML documents
    #[default]
    Yaml,
    /// A JSON list
    Json,
    /// Kinds and names only
    Name,
}

#[derive(Debug, Args)]
pub struct LsArgs {
    /// Clusters to list [default: all]
    pub names: Vec<String>,
    /// The format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
    /// List ended clusters of this machine whose logs are kept, too
    #[arg(short, long)]
    pub all: bool,
    #[command(flatten)]
    pub place: Place,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace", help_heading = place::HEADING)]
    pub all_namespaces: bool,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The cluster [default: the only one]
    pub cluster: Option<String>,
    /// The format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: TextFormat,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Debug, Args)]
pub struct WaitArgs {
    /// The cluster [default: the only one]
    pub cluster: Option<String>,
    /// Jobs of its queue, such as 17 or 17-19; the code is the highest of theirs
    #[arg(value_name = "JOB", conflicts_with_all = ["wait_for", "timeout"])]
    pub jobs: Vec<String>,
    /// What to wait for
    #[arg(long = "for", value_enum, default_value_t = WaitFor::End, value_name = "WHAT")]
    pub wait_for: WaitFor,
    /// Seconds to wait at most; then the code is 124
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    #[command(flatten)]
    pub place: Place,
}

/// What `wait` waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WaitFor {
    /// The end; the code is the program's
    End,
    /// Enough brokers are connected: the program starts, or people can use the cluster
    Quorate,
}

const TARGET: &str = "A cluster (its launcher; for logs: all of its pods), CLUSTER/POD, or a pod's host name; where only one \
    cluster runs, its pods by their short names, such as worker-0-1 [default: the only cluster]";

#[derive(Debug, Args)]
pub struct ShellArgs {
    #[arg(help = TARGET)]
    pub target: Option<String>,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Debug, Args)]
pub struct ExecArgs {
    #[arg(help = TARGET)]
    pub target: String,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Debug, Args)]
pub struct LogsArgs {
    #[arg(help = TARGET)]
    pub target: Option<String>,
    /// Go on as more is written, until the cluster ends
    #[arg(short, long)]
    pub follow: bool,
    /// The last lines only
    #[arg(long, value_name = "LINES")]
    pub tail: Option<usize>,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// The clusters
    #[arg(required_unless_present = "all")]
    pub names: Vec<String>,
    /// All clusters of this user, or of the namespace
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// No error where there is no such cluster
    #[arg(long)]
    pub ignore_not_found: bool,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// The files; `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where the clusters shall run
    #[arg(long, value_enum, default_value_t = TargetArg::Any)]
    pub target: TargetArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TargetArg {
    /// Pods on Kubernetes
    Kubernetes,
    /// Pods on this machine
    Local,
    /// Either: what only Kubernetes needs is a warning
    Any,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DeliveryArg {
    /// An init container copies it
    #[default]
    Copy,
    /// Its image is a volume
    Image,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The file; `-` reads standard input
    pub file: PathBuf,
    /// The format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ObjectFormat,
    /// The image that brings the agent
    #[arg(long, value_name = "IMAGE", default_value = concat!("quorate-agent:v", env!("CARGO_PKG_VERSION")))]
    pub agent_image: String,
    /// How it comes into the pods, as the controller's flag of the same name
    #[arg(long, value_enum, default_value_t)]
    pub agent_delivery: DeliveryArg,
    /// Print the seed of the brokers' keys, too, which is made anew with each call
    #[arg(long)]
    pub show_secret: bool,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: TextFormat,
}

/// The format of what is said of one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TextFormat {
    /// For people
    #[default]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it must be NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_follows_the_command_is_its_own() {
        let cli =
            Cli::try_parse_from(["quorate", "run", "-N", "4", "--", "app", "-n", "3", "--help"]);
        let Verb::Run(run) = cli.unwrap().verb else { panic!("not run") };
        assert_eq!((run.nodes, run.n.len()), (Some(4), 0));
        assert_eq!(run.words, ["app", "-n", "3", "--help"]);
        let cli = Cli::try_parse_from(["quorate", "run", "-N4", "app", "-n", "3"]).unwrap();
        let Verb::Run(run) = cli.verb else { panic!("not run") };
        assert_eq!((run.n.len(), run.words.len()), (0, 3));
    }

    fn settled(words: &[&str]) -> Result<(RunArgs, Place), Refusal> {
        let words = ["quorate", "run"].iter().chain(words);
        let Verb::Run(run) = Cli::try_parse_from(words).unwrap().verb else { panic!("not run") };
        run.settle()
    }

    #[test]
    fn n_is_ranks_or_a_namespace() {
        let (run, place) = settled(&["-n", "8", "-n", "hpc", "./a"]).unwrap();
        assert_eq!((run.ntasks, place.namespace.as_deref()), (Some(8), Some("hpc")));
        let (run, place) = settled(&["-nhpc", "a.yaml"]).unwrap();
        assert_eq!((run.ntasks, place.namespace.as_deref()), (None, Some("hpc")));
        assert!(!run.names_a_command() && !run.describes_a_cluster());
    }

    #[test]
    fn n_that_makes_no_sense_is_refused_with_a_way_out() {
        for (words, expected) in [
            (&["-n", "0", "a"][..], "-n 0 is no number of ranks"),
            (&["-n", "4x", "a"], "-n 4x is no number of ranks"),
            (&["-n", "4", "--ntasks", "4", "a"], "-n 4 says again what --ntasks says"),
            (&["-n", "a", "-n", "b", "a"], "-n b says again what --namespace says"),
            (&["--script", "-n", "4", "a"], "-n does not go with --script"),
        ] {
            assert_eq!(settled(words).unwrap_err().to_string(), expected, "{words:?}");
        }
    }
}
