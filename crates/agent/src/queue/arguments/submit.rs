//! `quorate-agent submit`.

use super::dependency::dependencies;
use super::{duration, misused, now, print, table_of_ends};
use crate::job::client::{self as streams, Labels};
use crate::launch::text;
use crate::query::{Where, block_on};
use crate::queue::client::{self, KeptFiles, Own, Submissions};
use crate::queue::protocol::{Copies, JobFacts, Question, Submit, Submitted, Taken, Then};
use clap::Args;
use quorate_contract::exit;
use quorate_queue::{Constraint, EarlySignal, JobId, Jobspec, Program, Request, Streams};
use quorate_slurm::value::ArrayRange;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::BufRead;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Put a program into the job queue.
///
/// Prints the job's number. The job starts when its turn comes and there is room for it; its output is
/// kept for `attach`, or goes to the files of --output and --error.
///
/// In --output, --error, --input and --name, {{id}} is the job's number, {{name}} its name and {cc} the
/// number of a copy, which stands in the command, too.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  quorate-agent submit -N2 -n8 -t 30m ./solver mesh.h5
  quorate-agent submit --cc 1-100 ./one-case {cc}
  quorate-agent submit --dependency afterok:17 --output 'log-{{id}}' ./next-step
  quorate-agent submit --wait ./quick")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct SubmitArgs {
    /// Tasks in all (default 1, or one per node with -N)
    #[arg(short = 'n', long, value_name = "N")]
    ntasks: Option<u32>,
    /// Nodes, as N or FEWEST-MOST; each gets at least one task
    #[arg(short = 'N', long, value_name = "N", value_parser = nodes)]
    nodes: Option<(u32, u32)>,
    /// The most tasks of one node
    #[arg(long, value_name = "N", visible_alias = "ntasks-per-node")]
    tasks_per_node: Option<u32>,
    /// Cores of each task
    #[arg(short = 'c', long, value_name = "N", visible_alias = "cores-per-task")]
    cpus_per_task: Option<u32>,
    /// Accelerators of each task
    #[arg(short = 'g', long, value_name = "N")]
    gpus_per_task: Option<u32>,
    /// Memory on each node: 512M, 2G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    mem: Option<u64>,
    /// Have nodes to itself
    #[arg(short = 'x', long)]
    exclusive: bool,
    /// The time it may take: 90s, 15m, 1.5h, 2d; a bare number is minutes, and 1:30 is 90 seconds
    #[arg(short = 't', long, value_name = "TIME", value_parser = duration::seconds)]
    time_limit: Option<u64>,
    /// A signal before that, such as USR1@120 (seconds; 60 without); B: in front for the script alone
    #[arg(long, value_name = "SIGNAL", requires = "time_limit", value_parser = early_signal)]
    signal: Option<EarlySignal>,
    /// What people call it (default: the command's name)
    #[arg(long, value_name = "NAME", visible_alias = "job-name")]
    name: Option<String>,
    /// A word of your own about it; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    label: Vec<(String, String)>,
    /// Only on nodes with these properties: fast, -slow, 'a | b', host:worker-0-[0-3], rank:1-3
    #[arg(long, value_name = "WHICH", allow_hyphen_values = true, value_parser = constraint)]
    requires: Option<Constraint>,
    /// The queue
    #[arg(short = 'q', long, value_name = "NAME")]
    queue: Option<String>,
    /// 0 (held) to 31; higher starts first
    #[arg(long, value_name = "N", default_value_t = quorate_queue::URGENCY)]
    urgency: u8,
    /// Wait for other jobs: afterok:17, afterany, afternotok, after, singleton; joined by commas
    #[arg(short = 'd', long, value_name = "WHAT")]
    dependency: Option<String>,
    /// Do not start before: +1h, @SECONDS, 2030-01-31T12:00 (UTC)
    #[arg(long, value_name = "WHEN", visible_alias = "begin-time")]
    begin: Option<String>,
    /// Begin again when a broker under it is lost, instead of failing
    #[arg(long)]
    requeue: bool,
    /// The directory to start in (default: this one)
    #[arg(short = 'D', long, value_name = "DIR", visible_alias = "chdir")]
    cwd: Option<PathBuf>,
    /// A file or a folder that travels along, at most 64 MiB in all: each pod of the job has it in a
    /// directory of the job, where its tasks start unless --cwd names another; may be repeated
    #[arg(long, value_name = "PATH", visible_alias = "add-file", conflicts_with = "lines")]
    file: Vec<String>,
    /// Keep that directory for an hour after the job's end, for `fetch`
    #[arg(long)]
    keep_files: bool,
    /// Set NAME=VALUE, take NAME along, or leave -NAME out; may be repeated
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    pub(super) env: Vec<String>,
    /// A file for stdout, on the launcher
    #[arg(long, value_name = "FILE")]
    output: Option<String>,
    /// A file for stderr (default: where stdout goes)
    #[arg(long, value_name = "FILE")]
    error: Option<String>,
    /// A file for the stdin of rank 0, or - for that of who attaches
    #[arg(long, value_name = "FILE")]
    input: Option<String>,
    /// Add to the files of --output and --error
    #[arg(long)]
    append: bool,
    /// Start each line of output with the task's rank
    #[arg(short = 'l', long)]
    label_io: bool,
    /// Give the task of rank 0 a terminal: that of who attaches (with --watch, this one)
    #[arg(long, conflicts_with_all = ["output", "error", "input", "label_io"])]
    pty: bool,
    /// How tasks are started: mpi=none, cpu-bind=none, distribution=cyclic, stdin=all, unbuffered, no-kill
    #[arg(long, value_name = "KEY[=VALUE]", value_parser = option)]
    option: Vec<(String, String)>,
    /// One job for each number of a set such as 1-100, which stands for {cc} in the command
    #[arg(long, value_name = "SET", conflicts_with_all = ["bcc", "array"])]
    cc: Option<String>,
    /// An array, one job for each index: 0-9, 0-30:10, and 0-99%5 for at most 5 at once
    #[arg(long, value_name = "RANGE", value_parser = array, conflicts_with = "bcc")]
    array: Option<ArrayRange>,
    /// As many jobs as a set has numbers, all the same
    #[arg(long, value_name = "SET")]
    bcc: Option<String>,
    /// One job for each line of stdin, which stands for {} in the command; each is durable before the
    /// next is read
    #[arg(long, conflicts_with_all = ["cc", "bcc", "wait", "watch", "dry_run", "test_only"])]
    lines: bool,
    /// Wait for the end; exits with the highest code
    #[arg(long)]
    wait: bool,
    /// Show the output until the end; exits with the job's code
    #[arg(long, conflicts_with_all = ["wait", "cc", "bcc", "array"])]
    watch: bool,
    /// With --wait, show how many are done
    #[arg(long, requires = "wait")]
    progress: bool,
    /// Do not print numbers
    #[arg(short = 'Q', long)]
    quiet: bool,
    /// Print the jobspec, and submit nothing
    #[arg(long)]
    dry_run: bool,
    /// Say whether it would be taken, and submit nothing
    #[arg(long, conflicts_with = "dry_run")]
    test_only: bool,
    /// Of an alias that calls jobs otherwise: how.
    #[arg(skip)]
    called: Option<fn(JobId) -> String>,
    /// It is there for this process alone.
    #[arg(skip)]
    own: bool,
    #[command(flatten)]
    pub(super) place: Where,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

impl SubmitArgs {
    /// Runs the verb; gives the code to exit with.
    pub fn run(&self) -> anyhow::Result<i32> {
        let program = Program::Command(self.command.iter().map(text::encode).collect());
        self.run_as(program, &called(&self.command))
    }

    /// Submits a program under a name, if no other was given.
    pub(super) fn run_as(&self, program: Program, name: &str) -> anyhow::Result<i32> {
        let mut submit = match self.submit(program, name) {
            Ok(submit) => submit,
            Err(why) => return Ok(misused(&why)),
        };
        let _kept = match self.send_files(&mut submit.spec) {
            Ok(kept) => kept,
            Err((code, why)) => {
                crate::sys::complain(&why);
                return Ok(code);
            }
        };
        if self.dry_run {
            print(&format!("{}\n", serde_json::to_string_pretty(&submit.spec)?))?;
            return Ok(exit::OK);
        }
        if self.lines {
            return self.submit_lines(&submit);
        }
        let own = Own { env: Some(streams::own_environment()), rules: self.env.clone() };
        let hello = client::hello(&Question::Submit(Box::new(submit)), own);
        let socket = self.place.path();
        if self.watch {
            let labels = if self.label_io { Labels::Task } else { Labels::None };
            let (stdin, terminal) = (self.takes_input(), self.pty);
            let options = streams::Options { labels, stdin, terminal, ..Default::default() };
            let end = streams::call(&socket, &hello, &options);
            return Ok(streams::conclude(end, exit::UNAVAILABLE));
        }
        let mut first = true;
        let mut progress = None;
        client::ask(&socket, &hello, |answer| {
            if std::mem::take(&mut first) {
                let submitted: Submitted = client::read(&answer)?;
                progress =
                    self.progress.then(|| Progress { all: submitted.count, ..Progress::default() });
                return self.say(submitted);
            }
            let ended: Vec<JobFacts> = client::read(&answer)?;
            if let Some(progress) = &mut progress {
                progress.more(&ended);
            }
            if !self.quiet && progress.is_none() {
                table_of_ends(&ended, submitted_alone(self));
            }
            Ok(())
        })
    }

    /// Sends the files that were named, which travel with the job; what comes back keeps them until a job
    /// has them.
    fn send_files(&self, spec: &mut Jobspec) -> Result<Option<KeptFiles>, (i32, String)> {
        if self.file.is_empty() {
            return Ok(None);
        }
        let parcel = quorate_parcel::pack(&self.file).map_err(|error| {
            let way_out = error.way_out().map(|way| format!("; {way}")).unwrap_or_default();
            (exit::USAGE, format!("{}{way_out}", crate::logs::chain(&error)))
        })?;
        if self.dry_run || self.test_only {
            return Ok(None);
        }
        let kept = KeptFiles::send(&self.place.path(), &parcel)?;
        crate::queue::has_files(spec, kept.name.clone(), self.cwd.is_some());
        Ok(Some(kept))
    }

    /// Submits a job for each line of stdin; gives the code to exit with.
    fn submit_lines(&self, pattern: &Submit) -> anyhow::Result<i32> {
        let own = Own { env: Some(streams::own_environment()), rules: self.env.clone() };
        let socket = self.place.path();
        block_on(async {
            let mut submissions = match Submissions::open(&socket, own).await {
                Ok(submissions) => submissions,
                Err(error) => {
                    crate::sys::complain(&format!("{:#}", anyhow::Error::from(error)));
                    return Ok(exit::UNAVAILABLE);
                }
            };
            let mut code = exit::OK;
            for (number, line) in std::io::stdin().lock().split(b'\n').enumerate() {
                let line = text::encode(OsString::from_vec(line?));
                let mut submit = pattern.clone();
                if let Program::Command(words) = &mut submit.spec.program {
                    for word in words {
                        *word = word.replace("{}", &line);
                    }
                }
                match submissions.submit(&submit).await? {
                    Taken::Submitted(submitted) => self.say(submitted)?,
                    Taken::Refused(why) => {
                        crate::sys::complain(&format!("line {}: {why}", number + 1));
                        code = exit::FAILED;
                    }
                }
            }
            Ok(code)
        })?
    }

    /// Sets an option of the start.
    pub(in crate::queue) fn option(&mut self, name: &str, value: &str) {
        self.option.push((name.to_owned(), value.to_owned()));
    }

    /// Sets a label.
    pub(in crate::queue) fn word(&mut self, name: &str, value: &str) {
        self.label.push((name.to_owned(), value.to_owned()));
    }

    /// Gives the task of rank 0 a terminal.
    pub(in crate::queue) fn terminal(&mut self) {
        self.pty = true;
    }

    /// Shows the job here to its end, which ends with this process.
    pub(in crate::queue) fn shown(&mut self) {
        (self.watch, self.own, self.quiet) = (true, true, true);
        if self.input.is_none() && !self.pty {
            self.input = Some("-".to_owned());
        }
    }

    /// Names jobs by `called`, and lets them find the variables and the name of Flux.
    pub(in crate::queue) fn of_flux(&mut self, called: fn(JobId) -> String) {
        self.called = Some(called);
        self.env.push(format!("{}=1", crate::queue::flux::VARIABLE));
        self.env.push(format!("{}=1", quorate_contract::env::SLURM));
    }

    /// Sends output to a file, if nothing was said of it.
    pub(in crate::queue) fn output_unless_said(&mut self, file: &str) {
        if self.output.is_none() && !self.watch {
            self.output = Some(file.to_owned());
        }
    }

    /// Whether who attaches gives it standard input.
    fn takes_input(&self) -> bool {
        self.pty || self.input.as_deref() == Some("-")
    }

    fn say(&self, submitted: Submitted) -> anyhow::Result<()> {
        if self.test_only {
            crate::sys::complain("it would be taken");
            return Ok(());
        }
        if self.quiet {
            return Ok(());
        }
        let ids = submitted.first.0..submitted.first.0 + submitted.count;
        let text = ids.fold(String::new(), |mut text, id| {
            let called = self.called.map_or_else(|| id.to_string(), |name| name(JobId(id)));
            text.push_str(&called);
            text.push('\n');
            text
        });
        print(&text)
    }

    fn submit(&self, program: Program, name: &str) -> Result<Submit, String> {
        let copies = match (&self.cc, &self.bcc) {
            (None, None) if let Some(ArrayRange { indices, limit }) = &self.array => {
                Copies::Array { indices: indices.to_string(), limit: *limit }
            }
            (Some(set), _) => Copies::Each(numbers(set)?.to_string()),
            (None, Some(set)) => {
                Copies::Many(u32::try_from(numbers(set)?.len()).unwrap_or(u32::MAX))
            }
            (None, None) => Copies::One,
        };
        let then = if self.watch {
            Then::Attach { stdin: self.takes_input(), own: self.own }
        } else if self.wait {
            Then::Wait { tell: self.progress || !self.quiet }
        } else {
            Then::Nothing
        };
        Ok(Submit { spec: self.spec(program, name)?, copies, then, test: self.test_only })
    }

    /// The job.
    pub(super) fn spec(&self, program: Program, name: &str) -> Result<Jobspec, String> {
        let tasks = self.ntasks.unwrap_or_else(|| {
            let nodes = self.nodes.map_or(1, |(fewest, _)| fewest);
            nodes.saturating_mul(self.tasks_per_node.filter(|_| self.nodes.is_some()).unwrap_or(1))
        });
        let depends = match &self.dependency {
            Some(text) => dependencies(text).map_err(|error| format!("--dependency: {error}"))?,
            None => super::dependency::Depends::default(),
        };
        let begin = self.begin.as_ref().map(|text| duration::moment(text, now())).transpose();
        let mut options: BTreeMap<String, String> = self.option.iter().cloned().collect();
        if self.cwd.is_some() {
            options.insert("cwd".into(), "required".into());
        }
        if self.pty {
            let size = crate::terminal::size().unwrap_or_default();
            options.insert(crate::queue::TERMINAL.into(), size.to_string());
        }
        if self.cpus_per_task.is_some() {
            options.entry("cpu-bind".into()).or_insert_with(|| "task".into());
        }
        let directory = match &self.cwd {
            Some(dir) => Some(std::path::absolute(dir).map_err(|error| format!("--cwd: {error}"))?),
            None => std::env::current_dir().ok(),
        };
        let mut spec = Jobspec {
            name: self.name.clone().unwrap_or_else(|| name.to_owned()),
            program,
            request: Request {
                tasks,
                nodes: self.nodes,
                tasks_per_node: self.tasks_per_node,
                cores_per_task: self.cpus_per_task.unwrap_or(1),
                gpus_per_task: self.gpus_per_task.unwrap_or(0),
                memory_per_node: self.mem.unwrap_or(0),
                memory_per_task: 0,
                exclusive: self.exclusive,
            },
            time_limit: self.time_limit.filter(|seconds| *seconds > 0),
            signal: self.signal,
            directory: directory.map(text::encode).unwrap_or_default(),
            streams: Streams {
                input: self.input.clone().or_else(|| self.pty.then(|| "-".to_owned())),
                output: self.output.clone(),
                error: self.error.clone(),
                append: self.append,
                label: self.label_io,
            },
            constraint: self.requires.clone(),
            urgency: self.urgency,
            queue: self.queue.clone(),
            dependencies: depends.on,
            singleton: depends.singleton,
            begin: begin.map_err(|error| format!("--begin: {error}"))?,
            requeue: self.requeue,
            options,
            labels: self.label.iter().cloned().collect(),
            ..Jobspec::command("", &[])
        };
        crate::queue::with_files(&mut spec, self.cwd.is_some());
        if self.keep_files {
            crate::queue::keeps_files(&mut spec);
        }
        spec.check().map_err(|error| refused(&error))?;
        Ok(spec)
    }
}

/// The words of a refusal, with flags in place of fields.
pub(super) fn refused(error: &dyn std::error::Error) -> String {
    let text = crate::logs::chain(error);
    let flags = [
        ("request.tasksPerNode", "--tasks-per-node"),
        ("request.coresPerTask", "--cpus-per-task"),
        ("request.tasks", "--ntasks"),
        ("request.nodes", "--nodes"),
        ("timeLimit", "--time-limit"),
    ];
    flags.iter().fold(text, |text, (field, flag)| text.replace(field, flag))
}

fn submitted_alone(args: &SubmitArgs) -> bool {
    args.cc.is_none() && args.bcc.is_none() && args.array.is_none()
}

fn array(text: &str) -> Result<ArrayRange, String> {
    quorate_slurm::value::array(text).map_err(|error| crate::logs::chain(&error))
}

fn early_signal(text: &str) -> Result<EarlySignal, String> {
    let read = quorate_slurm::value::early_signal(text);
    let read = read.map_err(|error| crate::logs::chain(&error))?;
    let number = u8::try_from(read.number).map_err(|error| error.to_string())?;
    Ok(EarlySignal { number, seconds: read.seconds, script: read.script })
}

/// A command's own name.
pub fn called(command: &[OsString]) -> String {
    let first = command.first().map(Path::new);
    let name = first.and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// How many of many jobs are over.
#[derive(Debug, Default)]
struct Progress {
    all: u64,
    done: u64,
    failed: u64,
    shown: u64,
}

impl Progress {
    fn more(&mut self, ended: &[JobFacts]) {
        self.done += ended.len() as u64;
        self.failed += ended.iter().filter(|job| job.code != Some(0)).count() as u64;
        let percent = self.done * 100 / self.all.max(1);
        if percent > self.shown || self.done == self.all {
            self.shown = percent;
            crate::sys::complain(&format!(
                "{} of {} jobs are over, {} of them failed",
                self.done, self.all, self.failed
            ));
        }
    }
}

fn numbers(set: &str) -> Result<quorate_hostlist::IdSet, String> {
    set.parse().map_err(|error| format!("`{set}` is not a set of numbers such as 1-100: {error}"))
}

fn nodes(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| {
        text.parse::<u32>()
            .map_err(|_| format!("`{text}` is not a number of nodes: write 4 or 2-8"))
    };
    match text.split_once('-') {
        Some((fewest, most)) => Ok((number(fewest)?, number(most)?)),
        None => number(text).map(|count| (count, count)),
    }
}

/// Bytes, as `512M` or `2G`; a bare number is mebibytes, as in Slurm.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not an amount of memory: write 512M or 2G");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "k" => 10,
        "" | "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

fn constraint(text: &str) -> Result<Constraint, String> {
    text.parse().map_err(|error: quorate_queue::ConstraintError| error.to_string())
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it must be KEY=VALUE".to_owned()),
    }
}

/// An option of the start, with the values that it takes.
fn option(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let takes: &[&str] = match name {
        "mpi" => &["auto", "pmi1", "pmi2", "pmix", "none"],
        "cpu-bind" => &["auto", "none", "task"],
        "distribution" => &["block", "cyclic"],
        "stdin" => &["first", "all"],
        "unbuffered" | "no-kill" | "pmi-port" => &[""],
        "simulate" => &[],
        _ => {
            return Err(
                "the options are mpi, cpu-bind, distribution, stdin, unbuffered, no-kill, \
                 pmi-port and simulate"
                    .to_owned(),
            );
        }
    };
    if name == "simulate" {
        return match value.parse::<u32>() {
            Ok(_) => Ok((name.to_owned(), value.to_owned())),
            Err(_) => Err("simulate is a number of milliseconds".to_owned()),
        };
    }
    if !takes.contains(&value) {
        return Err(match takes {
            [""] => format!("{name} takes no value"),
            takes => format!("{name} is one of {}", takes.join(", ")),
        });
    }
    Ok((name.to_owned(), value.to_owned()))
}
