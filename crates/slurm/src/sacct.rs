//! sacct: jobs and their steps, over and not, from the queue's own memory.

mod fields;
mod select;
mod units;

use crate::facts::{Answer, ArrayTasks, JobFacts, JobState, StepFacts, View};
use crate::flags::{self, Flag};
use crate::value::{JobRef, job_ref};
use fields::{BRIEF, Column, Cut, DEFAULT, FIELDS, LONG, cell, columns, cut};
use select::{Window, selected};
use units::Units;

const FLAGS: &[Flag] = &[
    Flag::with("accounts", "A"),
    Flag::plain("allclusters", "L"),
    Flag::plain("allocations", "X"),
    Flag::plain("allusers", "a"),
    Flag::plain("brief", "b"),
    Flag::with("clusters", "M"),
    Flag::plain("completion", "c"),
    Flag::with("constraints", "C"),
    Flag::with("delimiter", ""),
    Flag::plain("duplicates", "D"),
    Flag::with("endtime", "E"),
    Flag::plain("federation", ""),
    Flag::with("format", "o"),
    Flag::with("gid", "g"),
    Flag::with("group", ""),
    Flag::plain("help", "h"),
    Flag::plain("helpformat", "e"),
    Flag::with("jobs", "j"),
    Flag::plain("json", ""),
    Flag::plain("local", ""),
    Flag::plain("long", "l"),
    Flag::with("name", ""),
    Flag::with("ncpus", "I"),
    Flag::with("nnodes", "i"),
    Flag::plain("noconvert", ""),
    Flag::with("nodelist", "N"),
    Flag::plain("noheader", "n"),
    Flag::plain("parsable", "p"),
    Flag::plain("parsable2", "P"),
    Flag::with("partition", "r"),
    Flag::with("qos", "q"),
    Flag::with("starttime", "S"),
    Flag::with("state", "s"),
    Flag::with("timelimit-max", "K"),
    Flag::with("timelimit-min", "k"),
    Flag::plain("truncate", "T"),
    Flag::with("uid", ""),
    Flag::with("units", ""),
    Flag::plain("usage", ""),
    Flag::with("user", "u"),
    Flag::plain("verbose", "v"),
    Flag::plain("version", "V"),
];

/// A line: a job, or one of its steps.
#[derive(Clone, Copy)]
struct Line<'a> {
    job: &'a JobFacts,
    step: Option<&'a StepFacts>,
    span: Span,
}

/// When it ran.
#[derive(Clone, Copy)]
struct Span {
    start: Option<i64>,
    end: Option<i64>,
    seconds: u64,
}

impl Span {
    fn of_job(job: &JobFacts, now: i64) -> Self {
        Self {
            start: started(job),
            end: job.end.filter(|_| !job.state.is_active()),
            seconds: job.elapsed(now),
        }
    }

    fn of_step(step: &StepFacts, now: i64) -> Self {
        let ran = step.end.unwrap_or(now).saturating_sub(step.start);
        Self { start: Some(step.start), end: step.end, seconds: u64::try_from(ran).unwrap_or(0) }
    }

    /// What of it is within a window (sacct(1), --truncate).
    fn within(self, window: &Window) -> Self {
        let end = self.end.map_or(window.until, |end| end.min(window.until));
        let start = self.start.map_or(end, |start| start.max(window.from));
        let seconds = u64::try_from(end.saturating_sub(start)).unwrap_or(0);
        Self { start: Some(start), end: Some(end), seconds }
    }
}

/// Answers a call of sacct.
pub fn sacct(words: &[String], view: &View<'_>) -> Answer {
    let (given, others) = match flags::read(FLAGS, words, true) {
        Ok(read) => read,
        Err(error) => return Answer::failed(error.hint("sacct").join("\n")),
    };
    if let Some(word) = others.first() {
        return Answer::failed(format!(
            "sacct: error: Unknown arguments:\nsacct: error:  {word}\nsacct: error: "
        ));
    }
    let has = |name: &str| given.iter().any(|(each, _)| *each == name);
    let text = |name: &str| {
        given.iter().rev().find(|(each, _)| *each == name).and_then(|(_, value)| value.as_deref())
    };
    if has("version") {
        return Answer::said(format!("{}\n", crate::VERSION));
    }
    if has("helpformat") {
        let names: Vec<String> = FIELDS.iter().map(|(name, _)| format!("{name:<19}")).collect();
        let lines = names.chunks(4).map(|four| four.join(" ") + "\n");
        return Answer::said(lines.collect());
    }
    if has("completion") {
        return Answer::failed("Slurm job completion is disabled");
    }
    let variable = view.environment.get("SACCT_FORMAT").map(String::as_str);
    let format = match text("format").or(variable) {
        Some(format) => format,
        None if has("brief") => BRIEF,
        None if has("long") => LONG,
        None => DEFAULT,
    };
    let columns = match columns(format) {
        Ok(columns) => columns,
        Err(error) => return Answer::failed(error),
    };
    let units = match text("units") {
        Some(letter) => Units::read(letter),
        None if has("noconvert") => Some(Units::Kept),
        None => Some(Units::Fit),
    };
    let Some(units) = units else {
        return Answer::failed(format!(
            "sacct: error: Invalid unit type '{}'. Possible options are 'KMGTP'",
            text("units").unwrap_or_default()
        ));
    };
    let (jobs, window) = match selected(&given, view) {
        Ok(selected) => selected,
        Err(error) => return Answer::failed(error),
    };
    if has("json") {
        return Answer::said(crate::json::sacct(&jobs, view));
    }
    let span = |whole: Span| if has("truncate") { whole.within(&window) } else { whole };
    let now = view.clock.now;
    let mut lines = Vec::new();
    for job in &jobs {
        lines.push(Line { job, step: None, span: span(Span::of_job(job, now)) });
        if !has("allocations") {
            let of_job = view.cluster.steps.iter().filter(|step| step.job == job.id);
            let mut steps: Vec<&StepFacts> = of_job.collect();
            // The script comes first, numbered steps behind it.
            steps.sort_by_key(|step| step.step.parse::<u32>().map_or(0, |number| number + 1));
            let line = |step| Line { job, step: Some(step), span: span(Span::of_step(step, now)) };
            lines.extend(steps.into_iter().map(line));
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
    let mut say = |cells: Vec<String>, head: bool| {
        if let Some(end) = parsable {
            output.push_str(&cells.join(delimiter));
            output.push_str(if end { delimiter } else { "" });
        } else {
            for (cell, column) in cells.iter().zip(&columns) {
                let cut = if head { Cut::Plain } else { cut(column.name) };
                output.push_str(&fit(cell, column.width, cut));
                output.push(' ');
            }
        }
        output.push('\n');
    };
    if !has("noheader") {
        say(columns.iter().map(|column| column.name.to_owned()).collect(), true);
        if parsable.is_none() {
            let dashes = |column: &Column| "-".repeat(column.width.unsigned_abs() as usize);
            say(columns.iter().map(dashes).collect(), true);
        }
    }
    for line in lines {
        say(columns.iter().map(|column| cell(column.name, line, view, units)).collect(), false);
    }
    Answer::said(output)
}

/// When it started; one that was cancelled before has not.
fn started(job: &JobFacts) -> Option<i64> {
    let never =
        job.state == JobState::Pending || job.state == JobState::Cancelled && job.nodes.is_empty();
    job.start.filter(|_| !never)
}

/// Cuts and fills up.
fn fit(text: &str, width: i32, cut: Cut) -> String {
    let most = width.unsigned_abs() as usize;
    let too_long = text.chars().count() > most;
    let text: String = match cut {
        Cut::Never => text.to_owned(),
        Cut::Plus if too_long && most > 0 => {
            text.chars().take(most - 1).chain(std::iter::once('+')).collect()
        }
        Cut::Plus | Cut::Plain => text.chars().take(most).collect(),
    };
    if width > 0 { format!("{text:>most$}") } else { format!("{text:<most$}") }
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
