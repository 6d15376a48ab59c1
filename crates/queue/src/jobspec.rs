//! What a job is: what it runs, on how much, and what it waits for (docs/spec/jobspec.md).

use crate::constraint::{Constraint, ConstraintError};
use crate::id::JobId;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most bytes of a job's program and environment together, a script's text among them.
pub const MAX_TEXT: usize = 16 << 20;
/// The most bytes of one argument or variable (`NAME=value`) without its end: Linux's `MAX_ARG_STRLEN`
/// less one (execve(2)).
pub const MAX_STRING: usize = (128 << 10) - 1;
/// The most bytes of all arguments and variables: three quarters of Linux's `_STK_LIM` (execve(2)). A node
/// takes less if its limit of the stack says so.
pub const MAX_STRINGS: usize = 6 << 20;
/// Urgency unless said otherwise, in 0 (held) to 31 (first of all).
pub const URGENCY: u8 = 16;
const MAX_URGENCY: u8 = 31;

/// A job as it was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Jobspec {
    /// What people call it; need not be unique.
    pub name: String,
    /// What runs.
    pub program: Program,
    /// What it needs.
    #[serde(default)]
    pub request: Request,
    /// Seconds from its start to its forced end; `None` has no end of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<u64>,
    /// A signal some time before that end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<EarlySignal>,
    /// What is set on top of each pod's own environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// What is taken out of each pod's own environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// The tasks' working directory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// Where input and output go.
    #[serde(default, skip_serializing_if = "Streams::is_default")]
    pub streams: Streams,
    /// Which nodes it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraint: Option<Constraint>,
    /// 0 (held) to 31.
    #[serde(default = "urgency", skip_serializing_if = "is_usual")]
    pub urgency: u8,
    /// The queue it is in; `None` is the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Jobs that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    /// Waits until no other active job of its user has its name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub singleton: bool,
    /// Not before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Time>,
    /// Goes back into the queue when a broker under it is lost, instead of failing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requeue: bool,
    /// How its tasks are started, in words of the agent, such as `mpi` or `distribution`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// The user's own words about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// What a job runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Program {
    /// This command, once for each task.
    Command(Vec<String>),
    /// A batch script, once, on the first node of a nested instance over the job's nodes.
    Script {
        /// The text, with its interpreter line.
        text: String,
        /// Its arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        args: Vec<String>,
    },
    /// A nested instance without a program: it is there until it is cancelled.
    Instance,
}

/// What a job needs. Counts are exact; nodes may be a range.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Request {
    /// Tasks in all, at least 1.
    pub tasks: u32,
    /// How many nodes, fewest and most; `None` as few as the tasks fit on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<(u32, u32)>,
    /// The most tasks of one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks_per_node: Option<u32>,
    /// Cores of each task, at least 1.
    #[serde(skip_serializing_if = "is_one")]
    pub cores_per_task: u32,
    /// Accelerators of each task.
    #[serde(skip_serializing_if = "is_zero")]
    pub gpus_per_task: u32,
    /// Bytes of memory on each node, beside what its tasks ask for.
    #[serde(skip_serializing_if = "is_zero_bytes")]
    pub memory_per_node: u64,
    /// Bytes of memory of each task.
    #[serde(skip_serializing_if = "is_zero_bytes")]
    pub memory_per_task: u64,
    /// Whole nodes: nothing else runs beside it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            tasks: 1,
            nodes: None,
            tasks_per_node: None,
            cores_per_task: 1,
            gpus_per_task: 0,
            memory_per_node: 0,
            memory_per_task: 0,
            exclusive: false,
        }
    }
}

/// Where a job's input comes from and its output goes; templates as docs/spec/jobspec.md says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Streams {
    /// A file for standard input of rank 0; `-` is what an attached client sends, `None` nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// A file for standard output; `None` keeps it for those who attach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// A file for standard error; `None` goes where standard output goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Adds to files instead of replacing them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// Each line with its task's rank in front.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub label: bool,
}

impl Streams {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A signal that a job gets before its time limit is reached. It needs one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EarlySignal {
    /// Its number on Linux, 1 to 64.
    pub number: u8,
    /// How many seconds before.
    pub seconds: u32,
    /// A batch script gets it, and not what it has started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub script: bool,
}

/// Another job that must come to something first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dependency {
    /// What it must come to.
    pub on: Condition,
    /// The job.
    pub job: JobId,
}

/// What a job that is depended on must come to (Flux RFC 26, and Slurm's names).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// It has started (or can no longer start).
    AfterStart,
    /// It has ended in any way.
    AfterAny,
    /// It has succeeded.
    AfterOk,
    /// It has started and failed, was cancelled or ran out of time.
    AfterNotOk,
}

/// Why a job cannot be taken. The field is named as in the specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobspecError {
    /// A number is not in its range.
    #[error("{field} is {value}; it must be {range}")]
    Range {
        /// The field.
        field: &'static str,
        /// What it is.
        value: u64,
        /// What it may be.
        range: &'static str,
    },
    /// There is nothing to run.
    #[error("program has no command: give the command after the options")]
    NoCommand,
    /// A text has a zero byte, which no program can be given.
    #[error("{field} has a zero byte in it, which no program can be given")]
    ZeroByte {
        /// The field.
        field: String,
    },
    /// A name of a variable or label is empty or has `=` in it.
    #[error("`{name}` is not a name for {what}: it is empty or has `=` in it")]
    Name {
        /// Of what.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A batch script without an interpreter.
    #[error(
        "the script does not start with an interpreter line such as #!/bin/sh; wrap a command with --wrap"
    )]
    NoInterpreter,
    /// Linux hands no program such a string.
    #[error(
        "{field} is {bytes} bytes, and a program can be given at most {MAX_STRING} in one string (execve(2), MAX_ARG_STRLEN): put it into a file"
    )]
    StringTooLong {
        /// The field.
        field: String,
        /// Its length.
        bytes: usize,
    },
    /// Linux hands no program so many of them.
    #[error(
        "arguments and environment are {bytes} bytes, and a program can be given at most {MAX_STRINGS} (execve(2)): leave variables out (--env) or put data into files"
    )]
    StringsTooLong {
        /// How much there is.
        bytes: usize,
    },
    /// More than the log should carry for one job.
    #[error(
        "program and environment are {bytes} bytes; at most {MAX_TEXT} are taken: put large data into files"
    )]
    TooLarge {
        /// How much there is.
        bytes: usize,
    },
    /// More nodes than tasks: some would idle.
    #[error(
        "request.nodes asks for {nodes} nodes for {tasks} tasks: every node needs a task (or ask for exclusive nodes with one task each)"
    )]
    IdleNodes {
        /// Nodes asked for.
        nodes: u32,
        /// Tasks asked for.
        tasks: u32,
    },
    /// The nodes cannot hold the tasks.
    #[error(
        "{tasks} tasks do not fit on {nodes} nodes of at most {per_node} tasks each (request.tasksPerNode)"
    )]
    TooFewNodes {
        /// Tasks asked for.
        tasks: u32,
        /// The most nodes.
        nodes: u32,
        /// Tasks of a node.
        per_node: u32,
    },
    /// A singleton has no name to be single by.
    #[error("singleton needs a name: jobs of one name wait for each other")]
    SingletonWithoutName,
    /// The constraint is malformed.
    #[error("constraint is malformed")]
    Constraint(#[source] ConstraintError),
}

impl Jobspec {
    /// A job of one command and nothing else.
    pub fn command(name: &str, command: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            program: Program::Command(command.iter().map(|&part| part.to_owned()).collect()),
            request: Request::default(),
            time_limit: None,
            signal: None,
            environment: BTreeMap::new(),
            unset: Vec::new(),
            directory: String::new(),
            streams: Streams::default(),
            constraint: None,
            urgency: URGENCY,
            queue: None,
            dependencies: Vec::new(),
            singleton: false,
            begin: None,
            requeue: false,
            options: BTreeMap::new(),
            labels: BTreeMap::new(),
        }
    }

    /// Whether the job can be taken by any cluster at all.
    pub fn check(&self) -> Result<(), JobspecError> {
        self.program()?;
        self.names()?;
        self.request.check()?;
        range("urgency", u64::from(self.urgency), self.urgency <= MAX_URGENCY, "0 to 31")?;
        if let Some(seconds) = self.time_limit {
            range("timeLimit", seconds, seconds > 0, "at least one second")?;
        }
        if let Some(EarlySignal { number, .. }) = self.signal {
            range("signal.number", number.into(), (1..=64).contains(&number), "1 to 64")?;
        }
        if self.singleton && self.name.is_empty() {
            return Err(JobspecError::SingletonWithoutName);
        }
        match &self.constraint {
            Some(constraint) => constraint.compile().map(drop).map_err(JobspecError::Constraint),
            None => Ok(()),
        }
    }

    fn program(&self) -> Result<(), JobspecError> {
        let words: &[String] = match &self.program {
            Program::Command(command) if command.first().is_none_or(String::is_empty) => {
                return Err(JobspecError::NoCommand);
            }
            Program::Command(command) => command,
            Program::Script { text, .. } if !text.starts_with("#!") => {
                return Err(JobspecError::NoInterpreter);
            }
            Program::Script { args, .. } => args,
            Program::Instance => &[],
        };
        let zero = |text: &str| text.contains('\0');
        if let Some(at) = words.iter().position(|word| zero(word)) {
            return Err(JobspecError::ZeroByte { field: format!("argument {at} of program") });
        }
        if zero(&self.directory) {
            return Err(JobspecError::ZeroByte { field: "directory".into() });
        }
        let script = match &self.program {
            Program::Script { text, .. } => text.len(),
            _ => 0,
        };
        let arguments = words.iter().enumerate().map(|(at, word)| (word.len(), at));
        if let Some((bytes, at)) = arguments.max().filter(|(bytes, _)| *bytes > MAX_STRING) {
            return Err(JobspecError::StringTooLong { field: format!("argument {at}"), bytes });
        }
        let variables = self.environment.iter();
        let variables = variables.map(|(name, value)| (name.len() + value.len() + 1, name));
        if let Some((bytes, name)) =
            variables.clone().max().filter(|(bytes, _)| *bytes > MAX_STRING)
        {
            return Err(JobspecError::StringTooLong { field: format!("variable {name}"), bytes });
        }
        let strings = words.iter().map(|word| word.len() + 1).sum::<usize>()
            + variables.map(|(bytes, _)| bytes + 1).sum::<usize>();
        if strings > MAX_STRINGS {
            return Err(JobspecError::StringsTooLong { bytes: strings });
        }
        if script + strings > MAX_TEXT {
            return Err(JobspecError::TooLarge { bytes: script + strings });
        }
        Ok(())
    }

    fn names(&self) -> Result<(), JobspecError> {
        for (what, map) in [("a variable", &self.environment), ("a label", &self.labels)] {
            for (name, value) in map {
                if name.is_empty() || name.contains(['=', '\0']) {
                    return Err(JobspecError::Name { what, name: name.clone() });
                }
                if value.contains('\0') {
                    return Err(JobspecError::ZeroByte { field: format!("{what} `{name}`") });
                }
            }
        }
        Ok(())
    }
}

impl Request {
    fn check(&self) -> Result<(), JobspecError> {
        range("request.tasks", self.tasks.into(), self.tasks > 0, "at least 1")?;
        let cores = self.cores_per_task;
        range("request.coresPerTask", cores.into(), cores > 0, "at least 1")?;
        if let Some(limit) = self.tasks_per_node {
            range("request.tasksPerNode", limit.into(), limit > 0, "at least 1")?;
        }
        let Some((fewest, most)) = self.nodes else { return Ok(()) };
        range(
            "request.nodes",
            fewest.into(),
            fewest > 0 && fewest <= most,
            "1 or more, the fewest before the most",
        )?;
        if fewest > self.tasks {
            return Err(JobspecError::IdleNodes { nodes: fewest, tasks: self.tasks });
        }
        match self.tasks_per_node {
            Some(per_node) if u64::from(per_node) * u64::from(most) < u64::from(self.tasks) => {
                Err(JobspecError::TooFewNodes { tasks: self.tasks, nodes: most, per_node })
            }
            _ => Ok(()),
        }
    }
}

fn range(
    field: &'static str,
    value: u64,
    holds: bool,
    range: &'static str,
) -> Result<(), JobspecError> {
    if holds { Ok(()) } else { Err(JobspecError::Range { field, value, range }) }
}

const fn urgency() -> u8 {
    URGENCY
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_usual(urgency: &u8) -> bool {
    *urgency == URGENCY
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_one(count: &u32) -> bool {
    *count == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero_bytes(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests;
