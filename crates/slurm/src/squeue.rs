//! squeue: which jobs are shown, in which order, in which columns.

mod cells;
mod select;

use crate::columns::{Column, Format};
use crate::facts::{Answer, ArrayTasks, JobFacts, View};
use crate::flags::{self, Flag};
use quorate_hostlist::IdSet;
use select::Selection;
pub(crate) use select::is;

const FLAGS: &[Flag] = &[
    Flag::with("account", "A"),
    Flag::plain("all", "a"),
    Flag::plain("array", "r"),
    Flag::plain("array-unique", ""),
    Flag::with("clusters", "M"),
    Flag::plain("federation", ""),
    Flag::with("format", "o"),
    Flag::with("Format", "O"),
    Flag::plain("help", ""),
    Flag::plain("hide", ""),
    Flag::with("iterate", "i"),
    Flag { name: "jobs", short: Some('j'), argument: crate::options::Argument::Optional },
    Flag::plain("json", ""),
    Flag::with("licenses", "L"),
    Flag::plain("local", ""),
    Flag::plain("long", "l"),
    Flag::plain("me", ""),
    Flag::with("name", "n"),
    Flag::plain("noconvert", ""),
    Flag::plain("noheader", "h"),
    Flag::with("nodelist", "w"),
    Flag::with("partition", "p"),
    Flag::plain("priority", "P"),
    Flag::with("qos", "q"),
    Flag::with("reservation", "R"),
    Flag::plain("sibling", ""),
    Flag::with("sort", "S"),
    Flag::plain("start", ""),
    Flag::with("states", "t"),
    Flag { name: "steps", short: Some('s'), argument: crate::options::Argument::Optional },
    Flag::plain("usage", ""),
    Flag::with("user", "u"),
    Flag::plain("verbose", "v"),
    Flag::plain("version", "V"),
];

/// Variables that stand for options.
const VARIABLES: &[(&str, &str)] = &[
    ("SQUEUE_ACCOUNT", "account"),
    ("SQUEUE_FORMAT", "format"),
    ("SQUEUE_FORMAT2", "Format"),
    ("SQUEUE_PARTITION", "partition"),
    ("SQUEUE_QOS", "qos"),
    ("SQUEUE_SORT", "sort"),
    ("SQUEUE_STATES", "states"),
    ("SQUEUE_USERS", "user"),
];

/// Default formats (squeue(1)).
const DEFAULT: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
const STEPS: &str = "%.15i %.8j %.9P %.8u %.9M %N";
const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";

/// Lengths of time are never cut: `1-00:00:00` is ten wide in a column of nine.
const WHOLE: &[&str] = &["M", "l", "L", "timeused", "timelimit", "timeleft"];

/// The options of one call.
#[derive(Default)]
struct Given {
    list: Vec<(&'static str, Option<String>)>,
}

impl Given {
    fn has(&self, name: &str) -> bool {
        self.list.iter().any(|(each, _)| *each == name)
    }

    /// The argument that was given last.
    fn text(&self, name: &str) -> Option<&str> {
        self.list.iter().rev().find(|(each, _)| *each == name)?.1.as_deref()
    }
}

/// Answers a call of squeue.
pub fn squeue(words: &[String], view: &View<'_>) -> Answer {
    let given = match flags::read(FLAGS, &with_lists(words), true) {
        Ok((list, others)) => match others.first() {
            None => Given { list },
            Some(word) => {
                return Answer::failed(format!("squeue: error: Unrecognized option: {word}"));
            }
        },
        Err(error) => return Answer::failed(error.hint("squeue").join("\n")),
    };
    if given.has("version") {
        return Answer::said(format!("{}\n", crate::VERSION));
    }
    if given.text("clusters").is_some_and(|name| name != "all" && name != view.cluster.name) {
        let name = &view.cluster.name;
        return Answer::failed(format!(
            "squeue: error: there is one cluster, `{name}`; leave --clusters out"
        ));
    }
    for refused in ["federation", "iterate", "licenses", "reservation", "sibling"] {
        if given.has(refused) {
            return Answer::failed(format!(
                "squeue: error: --{refused} is not supported here: there is one cluster without licenses \
                 and reservations; leave it out, and use watch(1) to repeat"
            ));
        }
    }
    let mut given = given;
    let mut variables = Vec::new();
    for (variable, option) in VARIABLES {
        if let Some(value) = view.environment.get(*variable)
            && !given.has(option)
        {
            variables.push((*option, Some(value.clone())));
        }
    }
    // A format on the command line is before one of the other kind in a variable.
    if given.has("format") || given.has("Format") {
        variables.retain(|(option, _)| !option.eq_ignore_ascii_case("format"));
    }
    given.list.splice(0..0, variables);
    let selection = match Selection::read(&given, view) {
        Ok(selection) => selection,
        Err(error) => return Answer::failed(error),
    };
    if given.has("json") {
        return Answer::said(crate::json::squeue(view));
    }
    let mut output = String::new();
    if given.has("long") && !given.has("noheader") {
        output.push_str(&date_line(view));
    }
    let format = format(&given);
    if !given.has("noheader") {
        output.push_str(&format.line(|column| cells::header(column, given.has("steps"))));
    }
    if given.has("steps") {
        for (job, step) in selection.steps(view) {
            output
                .push_str(&format.line_with(WHOLE, |column| cells::step(column, job, step, view)));
        }
        return Answer::said(output);
    }
    let mut jobs = selection.jobs(view, given.has("array"));
    let sort = given.text("sort").unwrap_or(if given.has("start") { "S" } else { "P,t,-p" });
    if let Err(error) = select::sort(&mut jobs, sort, view) {
        return Answer::failed(error);
    }
    for job in &jobs {
        output.push_str(&format.line_with(WHOLE, |column| cells::job(column, job, view)));
    }
    Answer::said(output)
}

/// `-j 17` is `-j17`: the argument may be left out, and yet be a word of its own.
fn with_lists(words: &[String]) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for word in words {
        match joined.last_mut() {
            Some(last)
                if matches!(last.as_str(), "-j" | "-s" | "--jobs" | "--steps")
                    && word.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                last.push_str(if last.starts_with("--") { "=" } else { "" });
                last.push_str(word);
            }
            _ => joined.push(word.clone()),
        }
    }
    joined
}

fn format(given: &Given) -> Format {
    let last = |name: &str| given.list.iter().rposition(|(each, _)| *each == name);
    match (given.text("format"), given.text("Format")) {
        (Some(letters), names) if names.is_none() || last("format") > last("Format") => {
            Format::letters(letters)
        }
        (_, Some(names)) => Format::names(names),
        _ if given.has("steps") => Format::letters(STEPS),
        _ if given.has("long") => Format::letters(LONG),
        _ if given.has("start") => Format::letters(START),
        _ => Format::letters(DEFAULT),
    }
}

/// The date before long forms: `Sat Nov 28 17:29:27 2026`.
pub(crate) fn date_line(view: &View<'_>) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let now = view.clock.local(view.clock.now);
    format!(
        "{} {} {:02} {:02}:{:02}:{:02} {}\n",
        DAYS[now.weekday() as usize],
        MONTHS[now.month as usize - 1],
        now.day,
        now.hour,
        now.minute,
        now.second,
        now.year
    )
}

/// The jobs that a waiting part of an array stands for, one by one.
fn each_task(job: &JobFacts) -> Vec<JobFacts> {
    let Some(array) = &job.array else { return vec![job.clone()] };
    let ArrayTasks::Waiting(indices) = &array.tasks else { return vec![job.clone()] };
    let one = |index| {
        let mut one = job.clone();
        if let Some(array) = &mut one.array {
            array.tasks = ArrayTasks::One(index);
        }
        one
    };
    indices.iter().map(one).collect()
}

/// Whether a host list and a set of names meet.
pub(crate) fn meets(nodes: &str, wanted: &[String]) -> bool {
    let nodes: quorate_hostlist::HostList = nodes.parse().unwrap_or_default();
    nodes.iter().any(|node| wanted.iter().any(|each| each == node))
}

/// Whether an index is among the tasks of a job.
pub(crate) fn has_task(job: &JobFacts, index: u32) -> bool {
    match job.array.as_ref().map(|array| &array.tasks) {
        Some(ArrayTasks::One(one)) => *one == index,
        Some(ArrayTasks::Waiting(indices)) => IdSet::contains(indices, index),
        None => false,
    }
}
