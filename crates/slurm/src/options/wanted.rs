//! From options to a job for the queue, and to what only the client does.

mod client;
mod size;

pub use client::{Client, Distribution, Immediate, Interrupt, MPI_LIST, Mpi, Step};

use super::error::OptionError;
use super::settings::{Setting, Settings};
use super::table::{Tool, Treatment};
use crate::calendar::Clock;
use crate::value::{self, Dependencies, EarlySignal, JobRef, Pattern, ValueError};
use quorate_hostlist::HostList;
use quorate_queue::{Condition, Constraint, Copies, JobId, Jobspec, Program, Streams, URGENCY};
use std::collections::BTreeMap;

/// The label that keeps the account.
pub const ACCOUNT: &str = "slurm.account";
/// The label that keeps the quality of service.
pub const QOS: &str = "slurm.qos";
/// The label that keeps the comment.
pub const COMMENT: &str = "slurm.comment";
/// The label that keeps the signal before the end, as [`EarlySignal`] prints it.
pub const SIGNAL: &str = "slurm.signal";
/// The label that keeps the path of the script, or the command.
pub const COMMAND: &str = "slurm.command";
/// The label that keeps the command line it was submitted with.
pub const SUBMIT_LINE: &str = "slurm.submitLine";
/// The label that keeps the niceness.
pub const NICE: &str = "slurm.nice";

/// What the command knows of where it runs.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The time, and the zone of `--begin`.
    pub clock: Clock,
    /// The command's environment.
    pub environment: &'a BTreeMap<String, String>,
    /// Its working directory, absolute.
    pub directory: &'a str,
    /// The host it runs on.
    pub host: &'a str,
    /// The name of its user.
    pub user: &'a str,
    /// The words of its command line, for those who ask later.
    pub submit_line: &'a str,
}

/// What is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// sbatch: a script.
    Script {
        /// Its path; `None` came from standard input.
        path: Option<String>,
        /// Its text.
        text: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// sbatch: a command for /bin/sh.
    Wrap(String),
    /// srun and salloc: a command; salloc may have none.
    Command(Vec<String>),
}

/// A job as options ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The job. Its dependencies are empty until [`Wanted::depend`] was called.
    pub jobspec: Jobspec,
    /// One job, or an array.
    pub copies: Copies,
    /// Jobs that it waits for, as people name them.
    pub dependencies: Vec<(Condition, JobRef)>,
    /// A signal before its end.
    pub signal: Option<EarlySignal>,
    /// What only the client does.
    pub client: Client,
    /// What salloc runs; nothing is a shell.
    pub command: Vec<String>,
    /// Whether tasks were asked for by their number.
    pub tasks_given: bool,
    /// What is said on standard error before anything is done, without the command's name.
    pub notes: Vec<String>,
}

impl Wanted {
    /// Puts the dependencies into the job. `resolve` answers the numbers that a reference stands for:
    /// of an array those of all its jobs; none if it does not know it.
    pub fn depend(&mut self, resolve: impl Fn(JobRef) -> Vec<JobId>) -> Result<(), JobRef> {
        for (on, reference) in &self.dependencies {
            let jobs = resolve(*reference);
            if jobs.is_empty() {
                return Err(*reference);
            }
            let each = jobs.into_iter().map(|job| quorate_queue::Dependency { on: *on, job });
            self.jobspec.dependencies.extend(each);
        }
        Ok(())
    }
}

/// The script of a command that is wrapped.
fn wrapped(command: &str) -> String {
    format!("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n")
}

/// Makes a job of options.
pub fn wanted(
    settings: &Settings,
    input: Input,
    context: &Context<'_>,
) -> Result<Wanted, OptionError> {
    settings.refused()?;
    let mut notes = Vec::new();
    let reader = Reader { settings };
    let size = size::size(&reader, &mut notes)?;
    let tool = settings.tool();
    let own = match &input {
        Input::Command(words) if tool == Tool::Salloc => words.clone(),
        _ => Vec::new(),
    };
    let (name, command, program) = program(tool, input)?;
    let mut jobspec = Jobspec::command("", &["true"]);
    jobspec.program = program;
    name_and_words(&mut jobspec, settings, name, command, context);
    jobspec.request = size.request.clone();
    jobspec.time_limit = reader.value("time", value::time_limit)?.flatten();
    jobspec.directory = match settings.text("chdir") {
        Some(path) if path.starts_with('/') => path.to_owned(),
        Some(path) => format!("{}/{path}", context.directory),
        None => context.directory.to_owned(),
    };
    jobspec.constraint = constraint(&reader, size.model.as_deref())?;
    jobspec.queue = partition(&reader)?;
    jobspec.begin = reader.value("begin", |text| value::begin(text, context.clock))?;
    jobspec.urgency = urgency(&reader)?;
    // Slurm's default (JobRequeue=1); nothing waits at a terminal for a batch job.
    jobspec.requeue = tool == Tool::Sbatch && !settings.has("no-requeue");
    let no_kill = settings.get("no-kill").filter(|setting| setting.value.as_deref() != Some("off"));
    if no_kill.is_some() {
        jobspec.options.insert("no-kill".to_owned(), String::new());
    }
    let depend = reader.value("dependency", value::dependencies)?.unwrap_or_default();
    let Dependencies { on: dependencies, singleton } = depend;
    jobspec.singleton = singleton;
    let signal = reader.value("signal", value::early_signal)?;
    if let Some(signal) = signal {
        let number = u8::try_from(signal.number).expect("the number of a signal is at most 64");
        let EarlySignal { seconds, script, .. } = signal;
        jobspec.signal = Some(quorate_queue::EarlySignal { number, seconds, script });
        jobspec.labels.insert(SIGNAL.to_owned(), signal.to_string());
    }
    let copies = match reader.value("array", value::array)? {
        Some(array) => Copies::Array { indices: array.indices, limit: array.limit },
        None => Copies::One,
    };
    jobspec.streams = streams(&reader, &copies, context.user, &mut notes)?;
    let client = client::client(&reader)?;
    jobspec.environment = environment(&reader, &jobspec, &size, &client, context)?;
    for setting in settings.iter() {
        if let Treatment::NoEffect(reason) = setting.option.treatment {
            // A variable is somebody else's standing wish: it is not worth a line at every job.
            if !matches!(setting.source, super::settings::Source::Variable(_)) {
                notes.push(format!("--{} has no effect: {reason}", setting.option.name));
            }
        }
    }
    if let Some(level) = settings.get("quiet").map(|setting| setting.times)
        && level > 0
    {
        notes.clear();
    }
    jobspec.check().map_err(OptionError::Jobspec)?;
    let tasks_given = size.tasks_given;
    let command = own;
    Ok(Wanted { jobspec, copies, dependencies, signal, client, command, tasks_given, notes })
}

/// The job's name without `--job-name`, the command as it is shown, and the program.
fn program(tool: Tool, input: Input) -> Result<(String, String, Program), OptionError> {
    let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    match input {
        Input::Script { path, text, args } => {
            crate::script::check(&text)?;
            let name = path.as_deref().map_or_else(|| "sbatch".to_owned(), base);
            Ok((name, path.unwrap_or_default(), Program::Script { text, args }))
        }
        Input::Wrap(command) => {
            let text = wrapped(&command);
            Ok(("wrap".to_owned(), String::new(), Program::Script { text, args: Vec::new() }))
        }
        Input::Command(command) if tool == Tool::Salloc => {
            let name = command.first().map_or_else(|| "interactive".to_owned(), |word| base(word));
            Ok((name, command.first().cloned().unwrap_or_default(), Program::Instance))
        }
        Input::Command(command) => {
            let first = command.first().filter(|word| !word.is_empty());
            let first = first.ok_or(OptionError::NoCommand)?.clone();
            Ok((base(&first), first, Program::Command(command)))
        }
    }
}

fn name_and_words(
    jobspec: &mut Jobspec,
    settings: &Settings,
    name: String,
    command: String,
    context: &Context<'_>,
) {
    jobspec.name = settings.text("job-name").map_or(name, str::to_owned);
    let command = match command {
        path if path.is_empty() || path.starts_with('/') => path,
        path if settings.tool() == Tool::Sbatch => format!("{}/{path}", context.directory),
        path => path,
    };
    let words = [
        (ACCOUNT, settings.text("account").unwrap_or("")),
        (QOS, settings.text("qos").unwrap_or("")),
        (COMMENT, settings.text("comment").unwrap_or("")),
        (NICE, settings.get("nice").map_or("", |nice| nice.value.as_deref().unwrap_or("100"))),
        (COMMAND, &command),
        (SUBMIT_LINE, context.submit_line),
    ];
    for (label, text) in words.into_iter().filter(|(_, text)| !text.is_empty()) {
        jobspec.labels.insert(label.to_owned(), text.to_owned());
    }
}

fn constraint(reader: &Reader<'_>, model: Option<&str>) -> Result<Option<Constraint>, OptionError> {
    let mut all = Vec::new();
    if let Some(features) = reader.value("constraint", value::features)? {
        all.push(features);
    }
    if let Some(model) = model {
        all.push(Constraint::Properties(vec![model.to_owned()]));
    }
    if let Some(hosts) = reader.value("nodelist", hosts)? {
        all.push(Constraint::Hostlist(vec![hosts.to_string()]));
    }
    if let Some(hosts) = reader.value("exclude", hosts)? {
        all.push(Constraint::Not(vec![Constraint::Hostlist(vec![hosts.to_string()])]));
    }
    Ok(if all.len() > 1 { Some(Constraint::And(all)) } else { all.pop() })
}

/// Names of nodes.
fn hosts(text: &str) -> Result<HostList, ValueError> {
    if text.contains('/') {
        return Err(ValueError::Unsupported {
            text: text.to_owned(),
            why: "a file of names is not read",
            instead: "give the names themselves",
        });
    }
    let list: Option<HostList> = text.parse().ok();
    list.filter(|list| !list.is_empty()).ok_or_else(|| ValueError::Form {
        text: text.to_owned(),
        expected: "a list of nodes such as worker-0-[0-3]",
    })
}

fn partition(reader: &Reader<'_>) -> Result<Option<String>, OptionError> {
    reader.value("partition", |text| {
        if text.is_empty() || text.contains(',') {
            return Err(ValueError::Unsupported {
                text: text.to_owned(),
                why: "a job is in one queue",
                instead: "name one of them",
            });
        }
        Ok(text.to_owned())
    })
}

/// Held jobs have urgency 0. A niceness of 100 is one step down, one of -100 a step up.
fn urgency(reader: &Reader<'_>) -> Result<u8, OptionError> {
    let Some(nice) = reader.settings.get("nice") else {
        return Ok(if reader.settings.has("hold") { 0 } else { URGENCY });
    };
    let text = nice.value.as_deref().unwrap_or("100");
    let nice: i64 = text.parse().map_err(|_| {
        let option = "nice";
        let source = ValueError::Form {
            text: text.to_owned(),
            expected: "a whole number; 100 are one step of urgency",
        };
        reader.settings.blame(option, OptionError::Value { option, source })
    })?;
    if reader.settings.has("hold") {
        return Ok(0);
    }
    Ok(urgency_of(nice))
}

/// The urgency of a job of this niceness, 1 to 31: begun steps of 100 down from the usual one, whole ones
/// up.
pub fn urgency_of(nice: i64) -> u8 {
    let steps = if nice > 0 { nice.saturating_add(99) / 100 } else { nice / 100 };
    let urgency = i64::from(URGENCY).saturating_sub(steps).clamp(1, 31);
    u8::try_from(urgency).expect("it is clamped to 1 to 31")
}

/// Files of a job, their patterns as templates of the queue.
fn streams(
    reader: &Reader<'_>,
    copies: &Copies,
    user: &str,
    notes: &mut Vec<String>,
) -> Result<Streams, OptionError> {
    let settings = reader.settings;
    let file = |name: &str| settings.text(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let mut streams = Streams {
        input: file("input"),
        output: file("output"),
        error: file("error"),
        append: false,
        label: settings.has("label"),
    };
    streams.append = reader
        .value("open-mode", |text| match text {
            "a" | "append" => Ok(true),
            "t" | "truncate" => Ok(false),
            _ => Err(ValueError::Form { text: text.to_owned(), expected: "append or truncate" }),
        })?
        .unwrap_or(false);
    if settings.tool() == Tool::Sbatch && streams.output.is_none() {
        let array = matches!(copies, Copies::Array { .. });
        let name = if array { "slurm-%A_%a.out" } else { "slurm-%j.out" };
        streams.output = Some(name.to_owned());
    }
    for stream in [&mut streams.input, &mut streams.output, &mut streams.error] {
        match stream.as_deref() {
            // srun's words for its own terminal; a number is a rank that alone has it.
            Some("all") => *stream = None,
            Some("none") => *stream = Some("/dev/null".to_owned()),
            Some(pattern) => {
                let array = matches!(copies, Copies::Array { .. });
                let batch = settings.tool() == Tool::Sbatch;
                let (name, left) = Pattern::parse(pattern).template(array, user, batch);
                for place in left {
                    notes.push(format!("{place} in `{pattern}` is not filled in"));
                }
                *stream = Some(name);
            }
            None => {}
        }
    }
    Ok(streams)
}

/// The variables of the submitter that pass, and those that say what was asked for.
fn environment(
    reader: &Reader<'_>,
    jobspec: &Jobspec,
    size: &size::Size,
    client: &Client,
    context: &Context<'_>,
) -> Result<BTreeMap<String, String>, OptionError> {
    let export = reader.value("export", value::export)?.unwrap_or_default();
    // What another job is told of itself is not true of this one.
    let own = |name: &str| {
        name.starts_with("SLURM_") && reader.settings.tool() != Tool::Srun
            || crate::environment::of_a_job(name)
    };
    let mut given = export.of(context.environment);
    given.retain(|name, _| !own(name));
    let mut say = |name: &str, value: String| {
        given.insert(name.to_owned(), value);
    };
    say("SLURM_SUBMIT_DIR", context.directory.to_owned());
    say("SLURM_SUBMIT_HOST", context.host.to_owned());
    say("SLURM_JOB_NAME", jobspec.name.clone());
    if size.tasks_given {
        say("SLURM_NTASKS", size.request.tasks.to_string());
        say("SLURM_NPROCS", size.request.tasks.to_string());
    }
    for (option, variable) in [
        ("ntasks-per-node", "SLURM_NTASKS_PER_NODE"),
        ("tasks-per-node", "SLURM_NTASKS_PER_NODE"),
        ("cpus-per-task", "SLURM_CPUS_PER_TASK"),
        ("cpus-per-gpu", "SLURM_CPUS_PER_GPU"),
        ("gpus", "SLURM_GPUS"),
        ("gpus-per-node", "SLURM_GPUS_PER_NODE"),
        ("gpus-per-task", "SLURM_GPUS_PER_TASK"),
        ("export", "SLURM_EXPORT_ENV"),
    ] {
        if let Some(text) = reader.settings.text(option) {
            say(variable, text.to_owned());
        }
    }
    for (option, variable) in [
        ("mem", "SLURM_MEM_PER_NODE"),
        ("mem-per-cpu", "SLURM_MEM_PER_CPU"),
        ("mem-per-gpu", "SLURM_MEM_PER_GPU"),
    ] {
        if let Some(bytes) = reader.value(option, value::memory)? {
            say(variable, (bytes >> 20).to_string());
        }
    }
    if let Some(distribution) = client.distribution {
        say("SLURM_DISTRIBUTION", distribution.to_string());
    }
    Ok(given)
}

/// Arguments of options, read; errors name the option and where it is from.
struct Reader<'a> {
    settings: &'a Settings,
}

impl Reader<'_> {
    fn value<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, ValueError>,
    ) -> Result<Option<T>, OptionError> {
        let Some(Setting { option, value: Some(text), .. }) = self.settings.get(name) else {
            return Ok(None);
        };
        read(text).map(Some).map_err(|source| {
            self.settings.blame(name, OptionError::Value { option: option.name, source })
        })
    }

    /// A count of at least 1.
    fn count(&self, name: &str) -> Result<Option<u32>, OptionError> {
        let Some(Setting { option, value: Some(text), .. }) = self.settings.get(name) else {
            return Ok(None);
        };
        value::count(text).map(Some).map_err(|_| {
            let error = OptionError::Number { option: option.name, value: text.clone() };
            self.settings.blame(name, error)
        })
    }

    fn conflict(&self, name: &str, what: String) -> OptionError {
        self.settings.blame(name, OptionError::Conflict { what })
    }
}

#[cfg(test)]
mod tests;
