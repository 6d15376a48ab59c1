//! sacct: jobs and their steps, over and not, from the queue's own memory.

use crate::facts::{Answer, ArrayTasks, JobFacts, JobState, StepFacts, View, megabytes};
use crate::flags::{self, Flag};
use crate::value::{self, JobRef, job_ref, limit_text};

const FLAGS: &[Flag] = &[
    Flag::with("accounts", "A"),
    Flag::plain("allclusters", "L"),
    Flag::plain("allocations", "X"),
    Flag::plain("allusers", "a"),
    Flag::plain("array", ""),
    Flag::plain("brief", "b"),
    Flag::with("clusters", "M"),
    Flag::plain("completion", "c"),
    Flag::with("delimiter", ""),
    Flag::plain("duplicates", "D"),
    Flag::with("endtime", "E"),
    Flag::plain("federation", ""),
    Flag::with("format", "o"),
    Flag::plain("help", "h"),
    Flag::plain("helpformat", "e"),
    Flag::with("jobs", "j"),
    Flag::plain("json", ""),
    Flag::plain("local", ""),
    Flag::plain("long", "l"),
    Flag::with("name", ""),
    Flag::plain("noconvert", ""),
    Flag::with("nodelist", "N"),
    Flag::plain("noheader", "n"),
    Flag::plain("parsable", "p"),
    Flag::plain("parsable2", "P"),
    Flag::with("partition", "r"),
    Flag::with("qos", "q"),
    Flag::with("starttime", "S"),
    Flag::with("state", "s"),
    Flag::plain("truncate", "T"),
    Flag::with("uid", ""),
    Flag::with("units", ""),
    Flag::plain("usage", ""),
    Flag::with("user", "u"),
    Flag::plain("verbose", "v"),
    Flag::plain("version", "V"),
];

/// Fields and their widths; negative ones are filled up on the right. `AllocGRES` of old versions is
/// taken as `AllocTRES`.
const FIELDS: &[(&str, i32)] = &[
    ("Account", 10),
    ("AdminComment", 19),
    ("AllocCPUS", 10),
    ("AllocNodes", 10),
    ("AllocTRES", 10),
    ("AllocGRES", 10),
    ("AveRSS", 10),
    ("Cluster", 10),
    ("Comment", 14),
    ("Constraints", 15),
    ("CPUTime", 10),
    ("CPUTimeRAW", 10),
    ("DerivedExitCode", 15),
    ("Elapsed", 10),
    ("ElapsedRaw", 10),
    ("Eligible", 19),
    ("End", 19),
    ("ExitCode", 8),
    ("GID", 6),
    ("Group", 9),
    ("JobID", -12),
    ("JobIDRaw", -12),
    ("JobName", 10),
    ("MaxRSS", 10),
    ("NCPUS", 10),
    ("NNodes", 8),
    ("NodeList", 15),
    ("NTasks", 8),
    ("Partition", 10),
    ("Priority", 10),
    ("QOS", 10),
    ("Reason", 22),
    ("ReqCPUS", 8),
    ("ReqMem", 10),
    ("ReqNodes", 8),
    ("ReqTRES", 10),
    ("Reserved", 10),
    ("Start", 19),
    ("State", 10),
    ("Submit", 19),
    ("SubmitLine", 20),
    ("Suspended", 10),
    ("SystemCPU", 10),
    ("Timelimit", 10),
    ("TimelimitRaw", 12),
    ("TotalCPU", 10),
    ("UID", 6),
    ("User", 9),
    ("UserCPU", 10),
    ("WCKey", 10),
    ("WorkDir", 20),
];

const DEFAULT: &str = "jobid,jobname,partition,account,alloccpus,state,exitcode";
const BRIEF: &str = "jobid,state,exitcode";

/// A column.
struct Column {
    name: &'static str,
    width: i32,
}

/// A line: a job, or one of its steps.
#[derive(Clone, Copy)]
struct Line<'a> {
    job: &'a JobFacts,
    step: Option<&'a StepFacts>,
}

/// Answers a call of sacct.
pub fn sacct(words: &[String], view: &View<'_>) -> Answer {
    let (given, others) = match flags::read(FLAGS, words, true) {
        Ok(read) => read,
        Err(error) => return Answer::failed(error.hint("sacct").join("\n")),
    };
    if let Some(word) = others.first() {
        return Answer::failed(format!("sacct: error: Unknown arguments:\n {word}"));
    }
    let has = |name: &str| given.iter().any(|(each, _)| *each == name);
    let text = |name: &str| {
        given.iter().rev().find(|(each, _)| *each == name).and_then(|(_, value)| value.as_deref())
    };
    if has("version") {
        return Answer::said(format!("{}\n", crate::VERSION));
    }
    if has("helpformat") {
        let names: Vec<String> = FIELDS.iter().map(|(name, _)| format!("{name:<20}")).collect();
        let lines = names.chunks(4).map(|four| four.join("").trim_end().to_owned() + "\n");
        return Answer::said(lines.collect());
    }
    let variable = view.environment.get("SACCT_FORMAT").map(String::as_str);
    let format = match text("format").or(variable) {
        Some(format) => format,
        None if has("brief") => BRIEF,
        None => DEFAULT,
    };
    let columns = match columns(format) {
        Ok(columns) => columns,
        Err(error) => return Answer::failed(error),
    };
    let jobs = match selected(&given, view) {
        Ok(jobs) => jobs,
        Err(error) => return Answer::failed(error),
    };
    if has("json") {
        return Answer::said(crate::json::sacct(&jobs, view));
    }
    let mut lines = Vec::new();
    for job in &jobs {
        lines.push(Line { job, step: None });
        if !has("allocations") {
            let of_job = view.cluster.steps.iter().filter(|step| step.job == job.id);
            let mut steps: Vec<&StepFacts> = of_job.collect();
            // The script comes first, numbered steps behind it.
            steps.sort_by_key(|step| step.step.parse::<u32>().map_or(0, |number| number + 1));
            lines.extend(steps.into_iter().map(|step| Line { job, step: Some(step) }));
        }
    }
    let wanted_steps = text("jobs").map(steps_of).unwrap_or_default();
    lines.retain(|line| {
        let only = wanted_steps.iter().filter(|(job, _)| is(line.job, *job));
        let only: Vec<_> = only.collect();
        only.is_empty()
            || only.iter().any(|(_, step)| match (step, line.step) {
                (None, _) => true,
                (Some(step), Some(there)) => *step == there.step,
                (Some(_), None) => false,
            })
    });
    let parsable = match (has("parsable"), has("parsable2")) {
        (_, true) => Some(false),
        (true, _) => Some(true),
        _ => None,
    };
    let delimiter = text("delimiter").unwrap_or("|");
    let mut output = String::new();
    let mut say = |cells: Vec<String>, plus: bool| {
        if let Some(end) = parsable {
            output.push_str(&cells.join(delimiter));
            output.push_str(if end { delimiter } else { "" });
        } else {
            for (cell, column) in cells.iter().zip(&columns) {
                output.push_str(&fit(cell, column.width, plus));
                output.push(' ');
            }
        }
        output.push('\n');
    };
    if !has("noheader") {
        say(columns.iter().map(|column| column.name.to_owned()).collect(), false);
        if parsable.is_none() {
            let dashes = |column: &Column| "-".repeat(column.width.unsigned_abs() as usize);
            say(columns.iter().map(dashes).collect(), false);
        }
    }
    for line in lines {
        say(columns.iter().map(|column| cell(column.name, line, view)).collect(), true);
    }
    Answer::said(output)
}

/// Cuts, with a `+` on request, or fills up.
fn fit(text: &str, width: i32, plus: bool) -> String {
    let most = width.unsigned_abs() as usize;
    let mut cut: String = text.chars().take(most).collect();
    if plus && text.chars().count() > most {
        cut = text.chars().take(most.saturating_sub(1)).collect();
        cut.push('+');
    }
    if width > 0 { format!("{cut:>most$}") } else { format!("{cut:<most$}") }
}

/// Reads `JobID,State%20,ExitCode`; names may be shortened and are of any case.
fn columns(format: &str) -> Result<Vec<Column>, String> {
    let mut columns: Vec<Column> = Vec::new();
    for word in format.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let (name, width) = match word.split_once('%') {
            Some((name, width)) => (name, width.parse::<i32>().ok().map(|w| w.clamp(-9999, 9999))),
            None => (word, None),
        };
        let lower = name.to_ascii_lowercase();
        let exact = FIELDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let field = exact.or_else(|| {
            FIELDS.iter().find(|(known, _)| known.to_ascii_lowercase().starts_with(&lower))
        });
        let Some((name, own)) = field else {
            return Err(format!(
                "sacct: error: Invalid field requested: \"{name}\"\nsacct: error: sacct --helpformat lists \
                 the fields"
            ));
        };
        columns.push(Column { name, width: width.filter(|width| *width != 0).unwrap_or(*own) });
    }
    Ok(columns)
}

/// `17`, `17_3`, `17.0`, `17_3.batch`: jobs with the steps that were asked for.
fn steps_of(text: &str) -> Vec<(JobRef, Option<String>)> {
    text.split(',')
        .filter_map(|word| {
            let (job, step) = match word.trim().split_once('.') {
                Some((job, step)) => (job, Some(step.to_owned())),
                None => (word.trim(), None),
            };
            Some((job_ref(job)?, step))
        })
        .collect()
}

fn is(job: &JobFacts, reference: JobRef) -> bool {
    let number = reference.job.0;
    match (reference.index, &job.array) {
        (None, Some(array)) => array.job == number || job.id == number,
        (None, None) => job.id == number,
        (Some(index), Some(array)) => array.job == number && array.tasks == ArrayTasks::One(index),
        (Some(_), None) => false,
    }
}

type Given = [(&'static str, Option<String>)];

fn selected(given: &Given, view: &View<'_>) -> Result<Vec<JobFacts>, String> {
    let has = |name: &str| given.iter().any(|(each, _)| *each == name);
    let list = |name: &str| -> Vec<String> {
        let all = given.iter().filter(|(each, _)| *each == name);
        all.filter_map(|(_, value)| value.as_deref())
            .flat_map(|value| value.split(','))
            .map(|word| word.trim().to_owned())
            .filter(|word| !word.is_empty())
            .collect()
    };
    let clusters = list("clusters");
    if clusters.iter().any(|name| name != "all" && *name != view.cluster.name) {
        return Err(format!(
            "sacct: error: there is one cluster, `{}`; leave --clusters out",
            view.cluster.name
        ));
    }
    let mut numbers = Vec::new();
    for word in list("jobs") {
        let job = word.split('.').next().unwrap_or("");
        let reference = job_ref(job);
        numbers.push(
            reference.ok_or_else(|| format!("sacct: fatal: Bad job/step specified: {word}"))?,
        );
    }
    let mut states = Vec::new();
    for word in list("state") {
        let never = crate::facts::NEVER
            .iter()
            .any(|(code, name)| word.eq_ignore_ascii_case(code) || word.eq_ignore_ascii_case(name));
        match JobState::read(&word) {
            Some(state) => states.push(state),
            None if never => {}
            None => return Err(format!("sacct: fatal: unrecognized job state value '{word}'")),
        }
    }
    let by_state = has("state");
    let now = view.clock.now;
    let today = view.clock.local(now);
    let midnight =
        view.clock.seconds(&crate::calendar::Moment { hour: 0, minute: 0, second: 0, ..today });
    let moment = |name: &str, otherwise: i64| {
        let Some(text) = list(name).pop() else { return Ok(otherwise) };
        moment(&text, view)
            .ok_or_else(|| format!("sacct: fatal: Invalid time specification: {text}"))
    };
    let from = match (numbers.is_empty(), by_state) {
        (false, _) => 0,
        (true, true) => now,
        (true, false) => midnight,
    };
    let (from, until) = (moment("starttime", from)?, moment("endtime", now)?);
    let mut users = list("user");
    users.extend(list("uid"));
    if users.is_empty() && !has("allusers") && view.user != "root" {
        users.push(view.user.to_owned());
    }
    let (names, partitions, accounts) = (list("name"), list("partition"), list("accounts"));
    let (qos, nodes) = (list("qos"), list("nodelist"));
    let among =
        |list: &[String], text: &str| list.is_empty() || list.iter().any(|each| each == text);
    let mut jobs: Vec<JobFacts> = view
        .cluster
        .jobs
        .iter()
        .filter(|job| numbers.is_empty() || numbers.iter().any(|reference| is(job, *reference)))
        .filter(|job| {
            users.is_empty() || users.contains(&job.user) || users.contains(&job.uid.to_string())
        })
        .filter(|job| among(&names, &job.name) && among(&partitions, &job.partition))
        .filter(|job| among(&accounts, job.account.as_deref().unwrap_or("")))
        .filter(|job| among(&qos, job.qos.as_deref().unwrap_or("")))
        .filter(|job| nodes.is_empty() || crate::squeue::meets(&job.nodes, &hosts(&nodes)))
        .filter(|job| {
            let over = !job.state.is_active();
            let ended_before = over && job.end.is_some_and(|end| end < from);
            let eligible = job.eligible.is_some_and(|eligible| eligible <= until);
            if by_state {
                states.contains(&job.state) && !ended_before && (over || eligible)
            } else {
                !ended_before && eligible
            }
        })
        .cloned()
        .collect();
    jobs.sort_by_key(|job| match &job.array {
        Some(array) => match &array.tasks {
            ArrayTasks::One(index) => (array.job, *index),
            ArrayTasks::Waiting(_) => (array.job, u32::MAX),
        },
        None => (job.id, 0),
    });
    Ok(jobs)
}

fn hosts(words: &[String]) -> Vec<String> {
    let list: quorate_hostlist::HostList = words.join(",").parse().unwrap_or_default();
    list.iter().map(str::to_owned).collect()
}

/// A moment in the past: a time of day that is still to come is yesterday's.
fn moment(text: &str, view: &View<'_>) -> Option<i64> {
    let read = value::begin(text, view.clock).ok()?;
    let seconds = i64::try_from(read.0 / 1000).ok()?;
    let of_day = text.contains(':') && !text.contains(['-', '/', '.', '+', 'T']);
    Some(if of_day && seconds > view.clock.now { seconds - 86_400 } else { seconds })
}

/// What a field shows of a line.
fn cell(name: &str, line: Line<'_>, view: &View<'_>) -> String {
    let job = line.job;
    let waits = job.state == JobState::Pending;
    let date = |moment: Option<i64>| match moment {
        Some(moment) => view.clock.local(moment).to_string(),
        None => "Unknown".to_owned(),
    };
    if let Some(step) = line.step
        && let Some(text) = step_cell(name, job, step, view)
    {
        return text;
    }
    let over = !job.state.is_active();
    let elapsed = job.elapsed(view.clock.now);
    let sorted_tres = || {
        let mut parts: Vec<String> = job.tres().split(',').map(str::to_owned).collect();
        parts.sort();
        parts.join(",")
    };
    match name {
        "Account" => job.account.clone().unwrap_or_default(),
        "AllocCPUS" | "NCPUS" | "ReqCPUS" => job.cpus.to_string(),
        "AllocNodes" if waits => "0".to_owned(),
        "AllocNodes" | "NNodes" | "ReqNodes" => job.node_count.0.to_string(),
        "AllocTRES" | "AllocGRES" if waits => String::new(),
        "AllocTRES" | "AllocGRES" | "ReqTRES" => sorted_tres(),
        "Cluster" => view.cluster.name.clone(),
        "Comment" => job.comment.clone().unwrap_or_default(),
        "Constraints" => job.features.clone().unwrap_or_default(),
        "CPUTime" => limit_text(elapsed * u64::from(job.cpus)),
        "CPUTimeRAW" => (elapsed * u64::from(job.cpus)).to_string(),
        "DerivedExitCode" => "0:0".to_owned(),
        "Elapsed" => limit_text(elapsed),
        "ElapsedRaw" => elapsed.to_string(),
        "Eligible" => date(job.eligible),
        "End" => date(job.end.filter(|_| over)),
        // The signal that ended it is its script's, in the line of the step.
        "ExitCode" if matches!(job.state, JobState::Timeout | JobState::Cancelled) => {
            "0:0".to_owned()
        }
        "ExitCode" => format!("{}:{}", job.exit.0, job.exit.1),
        "GID" => job.gid.to_string(),
        "Group" => job.group.clone(),
        "JobID" => job.shown_id(),
        "JobIDRaw" => job.id.to_string(),
        "JobName" => job.name.clone(),
        "NodeList" if job.nodes.is_empty() => "None assigned".to_owned(),
        "NodeList" => job.nodes.clone(),
        "Partition" => job.partition.clone(),
        "Priority" => job.priority.to_string(),
        "QOS" => job.qos.clone().unwrap_or_default(),
        "Reason" => "None".to_owned(),
        "ReqMem" => megabytes(job.total_memory()),
        "Reserved" => {
            let from = job.eligible.unwrap_or(job.submit);
            let until = if waits { view.clock.now } else { job.start.unwrap_or(from) };
            limit_text(u64::try_from(until.saturating_sub(from)).unwrap_or(0))
        }
        "Start" => date(job.start.filter(|_| !waits)),
        "State" => match (job.state, job.cancelled_by) {
            (JobState::Cancelled, Some(user)) => format!("CANCELLED by {user}"),
            (state, _) => state.word().to_owned(),
        },
        "Submit" => date(Some(job.submit)),
        "SubmitLine" => job.submit_line.clone(),
        "Suspended" | "SystemCPU" | "TotalCPU" | "UserCPU" => "00:00:00".to_owned(),
        // Of a job that has not started a limit of its partition may still come.
        "Timelimit" | "TimelimitRaw" if waits && job.limit.is_none() => {
            "Partition_Limit".to_owned()
        }
        "Timelimit" => job.limit.map_or_else(|| "UNLIMITED".to_owned(), limit_text),
        "TimelimitRaw" => {
            job.limit.map_or_else(|| "UNLIMITED".to_owned(), |limit| (limit / 60).to_string())
        }
        "UID" => job.uid.to_string(),
        "User" => job.user.clone(),
        "WorkDir" => job.directory.clone(),
        _ => String::new(),
    }
}

/// What differs for a step.
fn step_cell(name: &str, job: &JobFacts, step: &StepFacts, view: &View<'_>) -> Option<String> {
    let ran = step.end.unwrap_or(view.clock.now).saturating_sub(step.start);
    let ran = u64::try_from(ran).unwrap_or(0);
    Some(match name {
        "JobID" => format!("{}.{}", job.shown_id(), step.step),
        "JobIDRaw" => format!("{}.{}", job.id, step.step),
        "JobName" => step.name.clone(),
        "State" => step.state.word().to_owned(),
        "ExitCode" => format!("{}:{}", step.exit.0, step.exit.1),
        "AllocCPUS" | "NCPUS" | "ReqCPUS" => step.cpus.to_string(),
        "AllocNodes" | "NNodes" | "ReqNodes" => step.node_count.to_string(),
        "NTasks" => step.tasks.to_string(),
        "NodeList" => step.nodes.clone(),
        "Start" | "Submit" | "Eligible" => view.clock.local(step.start).to_string(),
        "End" => {
            step.end.map_or_else(|| "Unknown".to_owned(), |end| view.clock.local(end).to_string())
        }
        "Elapsed" => limit_text(ran),
        "ElapsedRaw" => ran.to_string(),
        "CPUTime" => limit_text(ran * u64::from(step.cpus)),
        "CPUTimeRAW" => (ran * u64::from(step.cpus)).to_string(),
        "AllocTRES" | "AllocGRES" => format!("cpu={},node={}", step.cpus, step.node_count),
        "Partition" | "User" | "UID" | "GID" | "Group" | "Priority" | "QOS" | "Timelimit"
        | "TimelimitRaw" | "ReqTRES" | "WorkDir" | "ReqMem" | "Reason" | "Comment"
        | "SubmitLine" => String::new(),
        _ => return None,
    })
}
