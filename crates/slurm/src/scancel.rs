//! scancel: which jobs it means, and what they get.

use crate::facts::{Answer, JobFacts, JobState, View};
use crate::flags::{self, Flag};
use crate::value::{JobRef, job_ref, signal_number};

const FLAGS: &[Flag] = &[
    Flag::with("account", "A"),
    Flag::plain("batch", "b"),
    Flag::with("clusters", "M"),
    Flag::plain("ctld", ""),
    Flag::plain("full", "f"),
    Flag::plain("help", ""),
    Flag::plain("hurry", "H"),
    Flag::plain("interactive", "i"),
    Flag::plain("me", ""),
    Flag::with("name", "n"),
    Flag::with("jobname", ""),
    Flag::with("nodelist", "w"),
    Flag::with("partition", "p"),
    Flag::with("qos", "q"),
    Flag::plain("quiet", "Q"),
    Flag::with("reservation", "R"),
    Flag::with("signal", "s"),
    Flag::plain("sibling", ""),
    Flag::with("state", "t"),
    Flag::plain("usage", ""),
    Flag::with("user", "u"),
    Flag::plain("verbose", "v"),
    Flag::plain("version", "V"),
    Flag::with("wckey", ""),
];

/// Who of a job gets a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The tasks of its steps.
    Steps,
    /// The shell of its script.
    Script,
    /// Both.
    All,
}

/// What scancel wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Only an answer.
    Say(Answer),
    /// Jobs end, or get a signal.
    Cancel {
        /// Which; a reference to an array is all its jobs that are not over.
        jobs: Vec<JobRef>,
        /// One step of the one job.
        step: Option<u32>,
        /// A signal instead of their end.
        signal: Option<i32>,
        /// Who gets it.
        target: Target,
        /// Each is asked about on the terminal.
        ask: bool,
        /// What is said of those that cannot be cancelled; the exit code is 1 then.
        errors: String,
    },
}

/// Reads a call of scancel.
pub fn scancel(words: &[String], view: &View<'_>) -> Order {
    order(words, view).unwrap_or_else(|error| Order::Say(Answer::failed(error)))
}

fn order(words: &[String], view: &View<'_>) -> Result<Order, String> {
    let (given, words) =
        flags::read(FLAGS, words, true).map_err(|error| error.hint("scancel").join("\n"))?;
    let has = |name: &str| given.iter().any(|(each, _)| *each == name);
    let text = |name: &str| {
        given.iter().rev().find(|(each, _)| *each == name).and_then(|(_, value)| value.as_deref())
    };
    if has("version") {
        return Ok(Order::Say(Answer::said(format!("{}\n", crate::VERSION))));
    }
    for refused in ["reservation", "sibling"] {
        if has(refused) {
            return Err(format!(
                "scancel: error: --{refused} is not supported here: there is one cluster without \
                 reservations; leave it out"
            ));
        }
    }
    if text("clusters").is_some_and(|name| name != "all" && name != view.cluster.name) {
        let name = &view.cluster.name;
        return Err(format!(
            "scancel: error: there is one cluster, `{name}`; leave --clusters out"
        ));
    }
    let signal = match text("signal") {
        None => None,
        Some(name) => Some(
            signal_number(name)
                .ok_or_else(|| format!("scancel: error: Unknown job signal: {name}"))?,
        ),
    };
    let state = match text("state") {
        None => None,
        Some(word) => match JobState::read(word) {
            Some(state) if state.is_active() => Some(state),
            _ => {
                return Err(format!(
                    "scancel: error: Invalid job state specified: {word}\nscancel: error: Valid job states \
                     are: PENDING, RUNNING, SUSPENDED"
                ));
            }
        },
    };
    let filters =
        ["account", "me", "name", "jobname", "nodelist", "partition", "qos", "state", "user"];
    let filtered = filters.iter().any(|name| has(name));
    if words.is_empty() && !filtered {
        return Err("scancel: error: No job identification provided".to_owned());
    }
    let user = if has("me") { Some(view.user) } else { text("user") };
    let hosts: Vec<String> = text("nodelist")
        .and_then(|text| text.parse::<quorate_hostlist::HostList>().ok())
        .map(|hosts| hosts.iter().map(str::to_owned).collect())
        .unwrap_or_default();
    let takes = |job: &JobFacts| {
        let is = |wanted: Option<&str>, there: &str| wanted.is_none_or(|wanted| wanted == there);
        user.is_none_or(|user| user == job.user || user == job.uid.to_string())
            && is(text("name").or(text("jobname")), &job.name)
            && is(text("partition"), &job.partition)
            && is(text("account"), job.account.as_deref().unwrap_or(""))
            && is(text("qos"), job.qos.as_deref().unwrap_or(""))
            && state.is_none_or(|state| state == job.state)
            && (!has("nodelist") || crate::squeue::meets(&job.nodes, &hosts))
    };
    let (mut jobs, mut step, mut errors) = (Vec::new(), None, String::new());
    for word in words.iter().flat_map(|word| word.split([',', ' '])).filter(|word| !word.is_empty())
    {
        let (number, of) =
            word.split_once('.').map_or((word, None), |(job, step)| (job, Some(step)));
        let references =
            references(number).ok_or_else(|| format!("scancel: error: Invalid job id {word}"))?;
        step = match of {
            None => step,
            Some(of) => {
                Some(of.parse().map_err(|_| format!("scancel: error: Invalid job id {word}"))?)
            }
        };
        for reference in references {
            let mut of = view.cluster.jobs.iter().filter(|job| crate::squeue::is(job, reference));
            let mut known = false;
            let mut wanted = false;
            for job in of.by_ref() {
                known = true;
                wanted |= job.state.is_active() && takes(job);
            }
            if wanted {
                jobs.push(reference);
            } else if !known {
                errors += &format!(
                    "scancel: error: Kill job error on job id {reference}: Invalid job id specified\n"
                );
            }
        }
    }
    if words.is_empty() {
        let active = view.cluster.jobs.iter().filter(|job| job.state.is_active() && takes(job));
        jobs.extend(active.flat_map(named));
    }
    let target = match (has("full"), has("batch")) {
        (true, _) => Target::All,
        (_, true) => Target::Script,
        _ => Target::Steps,
    };
    if has("quiet") {
        errors.clear();
    }
    if jobs.is_empty() {
        let code = u8::from(!errors.is_empty());
        return Ok(Order::Say(Answer { errors, code, ..Answer::default() }));
    }
    Ok(Order::Cancel { jobs, step, signal, target, ask: has("interactive"), errors })
}

/// What is asked of one on the terminal before it is cancelled.
pub fn prompt(reference: JobRef, step: Option<u32>, view: &View<'_>) -> String {
    let mut jobs = view.cluster.jobs.iter();
    let job = jobs.find(|job| crate::squeue::is(job, reference));
    let (name, partition) = job.map_or(("", ""), |job| (job.name.as_str(), job.partition.as_str()));
    let what = step.map_or_else(
        || format!("job_id={reference}"),
        |step| format!("step_id={reference}.{step}"),
    );
    format!("Cancel {what} name={name} partition={partition} [y/n]? ")
}

/// A job as references: each waiting task of an array of its own.
fn named(job: &JobFacts) -> Vec<JobRef> {
    let array = quorate_queue::JobId(job.array.as_ref().map_or(job.id, |array| array.job));
    match job.array.as_ref().map(|array| &array.tasks) {
        None => vec![JobRef { job: array, index: None }],
        Some(crate::facts::ArrayTasks::One(index)) => {
            vec![JobRef { job: array, index: Some(*index) }]
        }
        Some(crate::facts::ArrayTasks::Waiting(indices)) => {
            indices.iter().map(|index| JobRef { job: array, index: Some(index) }).collect()
        }
    }
}

/// `17`, `17_3`, `17_[1-3,7]`.
fn references(text: &str) -> Option<Vec<JobRef>> {
    if let Some(reference) = job_ref(text) {
        return Some(vec![reference]);
    }
    let (job, list) = text.split_once("_[")?;
    let range = crate::value::array(list.strip_suffix(']')?).ok()?;
    let job = job.parse().ok()?;
    Some(range.indices.iter().map(|index| JobRef { job, index: Some(index) }).collect())
}
