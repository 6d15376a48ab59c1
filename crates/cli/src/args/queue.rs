//! Verbs that are those of the agent, said from outside.

use super::Place;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// A verb of a cluster's job queue.
#[derive(Debug, Subcommand)]
pub enum QueueVerb {
    /// Put a program, or a batch script of this machine, into a cluster's job queue
    #[command(after_help = "Examples:\n  quorate submit tools -n8 -- ./solver mesh.h5\n  \
        quorate submit tools --cc 1-100 -- ./one-case {cc}\n  \
        quorate submit tools --watch job.sh\n  \
        quorate submit tools --file mesh.h5 --fetch 'out/*.csv=results' job.sh\n\n\
        A last word that is a script on this machine is sent along: its #SBATCH and #QUORATE lines say \
        what it\nneeds, and what stands before it are options of sbatch. Its output is kept for \
        `quorate attach`,\nunless it names a file. Files of --file travel along; those of --fetch \
        PATTERN[=DIR] come back when the job has\nended, into DIR or here, and overwrite nothing without \
        --force.")]
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
    /// Get files of a job
    Fetch(FetchArgs),
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
    /// Look after the queues of a cluster; dump and restore all of it
    #[command(after_help = "Examples:\n  quorate queue tools list\n  \
        quorate queue tools dump tools.dump\n  quorate queue others restore tools.dump\n\n\
        The file of dump and restore is on this machine; - is standard output and input. It holds the\n\
        environments of all jobs. `quorate queue CLUSTER --help` tells of all there is.")]
    Queue(QueueArgs),
    /// Look after the brokers of a cluster: list, drain, undrain
    Resource(QueueArgs),
    /// Show jobs, brokers and queues on a full screen, again and again
    Top(QueueArgs),
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

/// Get files of a job
///
/// They are read in the directory where the job's task of rank 0 started (--rank for another's), and come
/// as they are. Without names it is the files of --output and --error; what a job has written without them
/// is shown by `quorate attach`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  quorate fetch tools 17\n  \
    quorate fetch -n hpc tools 17 'results/*.h5' summary.txt -o run-17\n\n\
    A folder comes with all that is in it. What a job has in the directory of its own, that of \
    `submit --file`, is there\nwhile it runs, and an hour longer with `submit --keep-files` or --fetch.")]
pub struct FetchArgs {
    /// The cluster
    pub cluster: String,
    /// The job
    #[arg(value_name = "JOB")]
    pub job: u64,
    /// Files and folders, relative to the job's directory; * and ? are any letters of a name
    #[arg(value_name = "FILE")]
    pub files: Vec<String>,
    /// Where to put them
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub output: PathBuf,
    /// The task in whose pod they are
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    pub rank: u32,
    /// Overwrite what is there
    #[arg(short, long)]
    pub force: bool,
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
    /// Where the cluster is.
    pub fn place(&self) -> &Place {
        match self.parts() {
            Ok((_, args)) => &args.place,
            Err(args) => &args.place,
        }
    }

    /// The agent's name of the verb and what was said with it; what is no verb of the agent's in just this
    /// way is the error.
    pub fn parts(&self) -> Result<(&'static str, &QueueArgs), &FetchArgs> {
        Ok(match self {
            Self::Fetch(args) => return Err(args),
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
            Self::Top(args) => ("top", args),
            Self::Purge(args) => ("purge", args),
            Self::Tree(args) => ("tree", args),
            Self::Proxy(args) => ("proxy", args),
        })
    }
}
