//! What clients, fronts and rank 0 say to each other about the queue.
//!
//! Owns: the questions, the answers as plain data ([`JobFacts`], [`NodeFacts`], [`LaneFacts`]) and the
//! kinds of messages. A call is one [`Question`], answers to it, and an end. Answers are whatever the
//! queue knows, without any form: tables are made by the client.

use super::steps::Step;
use quorate_queue::{
    ArrayElement, Dependency, JobId, Jobspec, Lane, Outcome, Standing, State, Streams, Time,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The verb on the local socket, and the channel service on rank 0.
pub const QUEUE: &str = "queue";

/// Message kinds, beside those of [`crate::job::protocol::kind`] for the streams of a job.
pub mod kind {
    /// Down: JSON of the next [`super::Submit`] of a session.
    pub const ASK: u8 = 40;
    /// Up: JSON of one answer, or of a list of them.
    pub const ANSWER: u8 = 41;
    /// Either way: the beginning or middle of a message that is too long for one.
    pub const PART: u8 = 42;
    /// Up, last on a channel: JSON of [`crate::local::End`].
    pub const OVER: u8 = 43;
}

/// What a front tells before the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Opening {
    /// The user who asks, as the kernel told the front.
    pub user: u32,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Question {
    /// Takes jobs. One [`Submitted`]; then, as `then` says, what becomes of them.
    Submit(Box<Submit>),
    /// One list of [`JobFacts`] after another, by number.
    Jobs(Selection),
    /// The [`Jobspec`] of a job, then its entries in the log.
    Events(JobId),
    /// Ends jobs. One [`Done`] for each, as with all that change jobs.
    Cancel {
        /// Which.
        jobs: Selection,
        /// Why, for those who look at them later.
        note: String,
    },
    /// Sends a signal to the tasks of jobs.
    Signal {
        /// Which.
        jobs: Selection,
        /// The signal.
        signal: i32,
    },
    /// Keeps waiting jobs from being started.
    Hold(Selection),
    /// Lets held jobs be started.
    Release(Selection),
    /// Lets jobs begin again.
    Requeue(Selection),
    /// Changes jobs.
    Update {
        /// Which.
        jobs: Selection,
        /// The urgency, 0 (held) to 31.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        urgency: Option<u8>,
        /// The time limit: seconds, 0 for none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time_limit: Option<u64>,
    },
    /// Waits for the end of jobs.
    Wait {
        /// Which.
        jobs: Selection,
        /// Tells of each as it ends: [`JobFacts`] in the order of their ends. Without it nothing is
        /// told but the highest code, which many jobs notice.
        #[serde(default)]
        tell: bool,
    },
    /// Follows the streams of a job from their beginning to its end.
    Attach {
        /// Which.
        job: JobId,
        /// Gives its tasks what this client sends as standard input.
        stdin: bool,
        /// Has a terminal for the task of rank 0; a job without one is refused then.
        #[serde(default)]
        terminal: bool,
    },
    /// One list of [`LaneFacts`].
    Lanes,
    /// Makes a queue as said; its counts are [`LaneFacts`] afterwards.
    SetLane(LaneChange),
    /// One list of [`NodeFacts`], by rank.
    Nodes,
    /// Starts nothing more on brokers: an id set of ranks.
    Drain {
        /// Which.
        ranks: String,
        /// Why.
        reason: String,
    },
    /// Starts jobs there again.
    Undrain {
        /// Which.
        ranks: String,
    },
    /// Forgets jobs that are over.
    Purge {
        /// Those that ended at least so many seconds ago.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        older_than: Option<u64>,
        /// The oldest beyond so many.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<u64>,
    },
    /// All of the queue: pieces of a dump (docs/spec/eventlog.md), one after another.
    Dump,
    /// Puts a dump into an empty queue: pieces of it as messages of kind [`kind::ASK`], then an empty one.
    /// One [`Put`].
    Restore,
    /// A command of Slurm's that shows or changes something; what is to be printed.
    Slurm(Box<CommandLine>),
    /// The variables by which Slurm's names know a job that has its nodes: a map.
    SlurmVariables(JobId),
    /// Files of a job: pieces of a stream of them (`contract::parcel::stream`).
    Files(FilesWanted),
    /// Keeps files for jobs that the client will submit: a parcel (`contract::parcel`) in pieces as messages
    /// of kind [`kind::ASK`], then an empty one. Its name, which is a text; when the client goes, it is given
    /// up unless a job has it.
    Keep,
    /// Takes submissions on the same connection, each as a message of kind [`kind::ASK`] with JSON of a
    /// [`Submit`], and answers them in order, each once it is durable.
    Session(Session),
}

/// What came of a dump.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Put {
    /// Jobs that are known now.
    pub jobs: u64,
    /// Those that had nodes, and have failed.
    pub failed: Vec<JobId>,
    /// Those that had nodes, and begin again.
    pub begun_again: Vec<JobId>,
    /// The number of the next job.
    pub next: JobId,
}

/// Which files of a job are wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FilesWanted {
    /// The job.
    pub job: JobId,
    /// The task in whose pod they are looked for.
    #[serde(default)]
    pub rank: u32,
    /// Patterns, relative to the job's directory there; none is the files of its output, on the launcher.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// What was kept of the job there for this is not needed any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub release: bool,
}

/// What the submissions of a session share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Session {
    /// What is set on top of each pod's own environment, for jobs that say nothing of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// What is taken out of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
}

/// The answer to a submission of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Taken {
    /// It was taken.
    Submitted(Submitted),
    /// It was not, for this reason.
    Refused(String),
}

/// A command line under one of Slurm's names, with what only its process knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandLine {
    /// The name it was called by.
    pub name: String,
    /// Its words.
    pub words: Vec<String>,
    /// Variables that such commands read.
    pub environment: BTreeMap<String, String>,
    /// Its user's name.
    pub user: String,
    /// Its user's number.
    pub uid: u32,
    /// Its time, in seconds since the Unix epoch, and seconds that its zone is ahead of UTC.
    pub clock: (i64, i32),
}

/// Jobs to take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Submit {
    /// What they are.
    pub spec: Jobspec,
    /// How many.
    #[serde(default)]
    pub copies: Copies,
    /// What the client wants to see of them.
    #[serde(default)]
    pub then: Then,
    /// Whether it would be taken, and no more.
    #[serde(default)]
    pub test: bool,
}

/// How many jobs one specification makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Copies {
    /// One.
    #[default]
    One,
    /// So many that are all the same.
    Many(u32),
    /// One for each number of an id set, which stands for `{cc}` in it.
    Each(String),
    /// An array: an id set of indices, and how many may run at once.
    Array {
        /// The indices.
        indices: String,
        /// How many may run at once; `None` as many as fit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    },
}

/// What follows a submission on the same connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Then {
    /// Nothing.
    #[default]
    Nothing,
    /// As [`Question::Wait`].
    Wait {
        /// Tells of each job as it ends.
        tell: bool,
    },
    /// As [`Question::Attach`] of the first.
    Attach {
        /// Gives its tasks what this client sends as standard input.
        stdin: bool,
        /// The job is there for this client alone: it ends when the client goes, and its output is not
        /// kept.
        #[serde(default)]
        own: bool,
    },
}

/// Jobs that were taken: `count` numbers from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Submitted {
    /// The first.
    pub first: JobId,
    /// How many.
    pub count: u64,
}

/// Which jobs are meant. All that is said must hold; nothing said means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selection {
    /// These; one that does not exist is an error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<JobId>,
    /// In one of these states; empty is any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<Shown>,
    /// Of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of this user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// In this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The last so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
}

/// A state by which jobs are chosen: one of the job's states, a group of them, or what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Shown {
    /// In this state.
    In(State),
    /// Not over.
    Active,
    /// Has no nodes yet.
    Pending,
    /// Has nodes.
    Running,
    /// Over, and this became of it.
    As(Standing),
}

/// What was done to a job, or why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// The job.
    pub job: JobId,
    /// Why nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What is known of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobFacts {
    /// Its number.
    pub id: JobId,
    /// What people call it.
    pub name: String,
    /// The numeric id of the user who submitted it.
    pub user: u32,
    /// Where it is on its way.
    pub state: State,
    /// What became of it, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// The exit code that waiting for it gives, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u8>,
    /// How its tasks ended, once they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Why it waits or why it ended; empty when there is nothing to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// 0 (held) to 31.
    pub urgency: u8,
    /// Must not be started until released.
    pub held: bool,
    /// Its place in the order, once it has one.
    pub priority: u32,
    /// The queue it is in.
    pub queue: String,
    /// Its tasks.
    pub tasks: u32,
    /// Its nodes; before it has some, those that it asks for at least.
    pub nodes: u32,
    /// Cores of each task.
    pub cores_per_task: u32,
    /// Accelerators of each task.
    pub gpus_per_task: u32,
    /// Bytes of memory that it asks for on each node.
    pub memory_per_node: u64,
    /// Whether it has its nodes to itself.
    pub exclusive: bool,
    /// Seconds; `None` has no end of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<u64>,
    /// When it was submitted.
    pub submitted: Time,
    /// When it may begin at the earliest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Time>,
    /// When it starts at the latest, as of the last pass of the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Time>,
    /// When it got its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Time>,
    /// When its tasks ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// The ranks of its nodes: an id set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ranks: String,
    /// The pods of its nodes as people call them, in the order of the ranks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// Its place in an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayElement>,
    /// How often it went back to the beginning.
    pub requeues: u32,
    /// Jobs that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    /// The command, or what stands for it.
    pub command: Vec<String>,
    /// Its directory.
    pub directory: String,
    /// Where its streams go, with all that is known filled in.
    #[serde(default)]
    pub streams: Streams,
    /// The user's own words about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The last of the steps that it had as a cluster, once it is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// What is known of a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    /// Its rank.
    pub rank: u32,
    /// The pod as people call it.
    pub pod: String,
    /// Its host name.
    pub host: String,
    /// Whether it is connected and answers.
    pub up: bool,
    /// Why nothing new is started there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<String>,
    /// Cores that it offers.
    pub cores: u32,
    /// Those of them that are free.
    pub free_cores: u32,
    /// Accelerators that it offers.
    pub gpus: u32,
    /// Those of them that are free.
    pub free_gpus: u32,
    /// Bytes of memory that it offers.
    pub memory: u64,
    /// Those of them that are free.
    pub free_memory: u64,
    /// Words that constraints may ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<String>,
    /// Jobs that have a part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobId>,
}

/// What is known of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneFacts {
    /// The queue.
    pub lane: Lane,
    /// Whether jobs that name none are in it.
    pub default: bool,
    /// Jobs without nodes.
    pub pending: u64,
    /// Jobs with nodes.
    pub running: u64,
    /// Jobs that are over and still known: completed, and all others.
    pub completed: u64,
    /// The others.
    pub failed: u64,
}

/// How a queue is changed; `None` leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LaneChange {
    /// Its name; `None` is the default one.
    pub name: Option<String>,
    /// Whether it takes jobs.
    pub enabled: Option<bool>,
    /// Whether its jobs are started.
    pub started: Option<bool>,
    /// Why.
    pub reason: String,
}
