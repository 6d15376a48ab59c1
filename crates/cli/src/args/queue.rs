//! Verbs that are those of the agent, said from outside.

use super::Place;
use clap::{Args, Subcommand};

/// A verb of a cluster's job queue.
#[derive(Debug, Subcommand)]
pub enum QueueVerb {
    /// Put a program, or a batch script of this machine, into a cluster's job queue
    #[command(after_help = "Examples:\n  quorate submit tools -n8 -- ./solver mesh.h5\n  \
        quorate submit tools --cc 1-100 -- ./one-case {cc}\n  \
        quorate submit tools --watch job.sh\n\n\
        A last word that is a script on this machine is sent along: its #SBATCH and #QUORATE lines say \
        what it\nneeds, and what stands before it are options of sbatch. Its output is kept for \
        `quorate attach`,\nunless it names a file.")]
    Submit(QueueArgs),
    /// Put a script that is in the cluster into its job queue
    Batch(QueueArgs),
    /// Run a command, or a shell, in a cluster that has some of a cluster's nodes to itself
    Alloc(QueueArgs),
    /// List the jobs of a cluster
    Jobs(QueueArgs),
    /// Tell all of a job
    Info(QueueArgs),
    /// Tell what happened to a job
    Events(QueueArgs),
    /// Show a job's output from its beginning; end with its code
    Attach(QueueArgs),
    /// End jobs
    Cancel(QueueArgs),
    /// Send the tasks of jobs a signal
    #[command(visible_alias = "signal")]
    Kill(QueueArgs),
    /// Keep jobs from starting
    Hold(QueueArgs),
    /// Let held jobs start
    Release(QueueArgs),
    /// Change the urgency or the time limit of jobs
    Update(QueueArgs),
    /// Let jobs begin again
    Requeue(QueueArgs),
    /// Look after the queues of a cluster
    Queue(QueueArgs),
    /// Look after the brokers of a cluster: list, drain, undrain
    Resource(QueueArgs),
    /// Forget jobs that are over
    Purge(QueueArgs),
    /// Show the clusters within a cluster
    Tree(QueueArgs),
    /// Run a command whose verbs go to a cluster within a cluster
    Proxy(QueueArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Flags that say where the cluster is stand before its name, what the verb takes behind it; \
    `quorate VERB CLUSTER --help` tells of that."
)]
pub struct QueueArgs {
    /// The cluster, and what the verb takes
    // One list: behind the cluster's name no word is a flag of this program.
    #[arg(trailing_var_arg = true, required = true, value_name = "CLUSTER [WORD]")]
    pub words: Vec<String>,
    #[command(flatten)]
    pub place: Place,
}

impl QueueArgs {
    /// The cluster.
    pub fn cluster(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// What the verb takes.
    pub fn rest(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }
}

impl QueueVerb {
    /// The agent's name of the verb, and what was said with it.
    pub fn parts(&self) -> (&'static str, &QueueArgs) {
        match self {
            Self::Submit(args) => ("submit", args),
            Self::Batch(args) => ("batch", args),
            Self::Alloc(args) => ("alloc", args),
            Self::Jobs(args) => ("jobs", args),
            Self::Info(args) => ("info", args),
            Self::Events(args) => ("events", args),
            Self::Attach(args) => ("attach", args),
            Self::Cancel(args) => ("cancel", args),
            Self::Kill(args) => ("kill", args),
            Self::Hold(args) => ("hold", args),
            Self::Release(args) => ("release", args),
            Self::Update(args) => ("update", args),
            Self::Requeue(args) => ("requeue", args),
            Self::Queue(args) => ("queue", args),
            Self::Resource(args) => ("resource", args),
            Self::Purge(args) => ("purge", args),
            Self::Tree(args) => ("tree", args),
            Self::Proxy(args) => ("proxy", args),
        }
    }
}
