//! Which jobs sacct shows.

use super::{is, started};
use crate::facts::{ArrayTasks, JobFacts, JobState, View};
use crate::value::{self, job_ref};

pub(super) type Given = [(&'static str, Option<String>)];

pub(super) fn selected(given: &Given, view: &View<'_>) -> Result<(Vec<JobFacts>, Window), String> {
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
    let window = Window::read(&list, !numbers.is_empty(), has("state"), view)?;
    let mut users = list("user");
    users.extend(list("uid"));
    if users.is_empty() && !has("allusers") && view.user != "root" {
        users.push(view.user.to_owned());
    }
    let (names, partitions, accounts) = (list("name"), list("partition"), list("accounts"));
    let (qos, nodes) = (list("qos"), list("nodelist"));
    let groups = [list("gid"), list("group")].concat();
    let features = list("constraints");
    let range = |name: &str, what: &str| match list(name).pop() {
        Some(text) => Range::read(&text).map(Some).ok_or_else(|| {
            format!("sacct: error: Invalid numeric value \"{text}\" for requested {what} range.")
        }),
        None => Ok(None),
    };
    let (nodes_wanted, cpus_wanted) = (range("nnodes", "node")?, range("ncpus", "cpu")?);
    let limits = limits(&list)?;
    // Nodes and CPUs are those that it got.
    let given = |job: &JobFacts| !job.nodes.is_empty();
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
        .filter(|job| among(&groups, &job.group) || groups.contains(&job.gid.to_string()))
        .filter(|job| nodes_wanted.is_none_or(|range| given(job) && range.has(job.node_count.0)))
        .filter(|job| cpus_wanted.is_none_or(|range| given(job) && range.has(job.cpus)))
        .filter(|job| limits.is_none_or(|range| limit_within(job, range)))
        .filter(|job| among(&features, job.features.as_deref().unwrap_or("")))
        .filter(|job| {
            if has("state") {
                states.iter().any(|state| window.had(job, *state))
            } else {
                window.has(job)
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
    Ok((jobs, window))
}

fn hosts(words: &[String]) -> Vec<String> {
    let list: quorate_hostlist::HostList = words.join(",").parse().unwrap_or_default();
    list.iter().map(str::to_owned).collect()
}

/// From the fewest to the most.
#[derive(Clone, Copy)]
struct Range(u32, u32);

impl Range {
    fn read(text: &str) -> Option<Self> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        Some(Self(least.parse().ok()?, most.parse().ok()?))
    }

    fn has(self, number: u32) -> bool {
        (self.0..=self.1).contains(&number)
    }
}

/// The limits that `--timelimit-min` and `--timelimit-max` ask for, in minutes; the second is nothing
/// without the first.
fn limits(list: &dyn Fn(&str) -> Vec<String>) -> Result<Option<Range>, String> {
    let read = |name: &str| -> Result<Option<u32>, String> {
        let Some(text) = list(name).pop() else { return Ok(None) };
        let seconds = value::time_limit(&text)
            .map_err(|_| "sacct: fatal: Invalid time limit specification".to_owned())?;
        let minutes = seconds.map(|seconds| u32::try_from(seconds / 60).unwrap_or(u32::MAX));
        Ok(minutes.or(Some(u32::MAX)))
    };
    let least = read("timelimit-min")?;
    let most = read("timelimit-max")?;
    Ok(least.map(|least| Range(least, most.unwrap_or(least))))
}

/// Without a limit it is longer than all that are asked for.
fn limit_within(job: &JobFacts, range: Range) -> bool {
    job.limit.is_some_and(|limit| u32::try_from(limit / 60).is_ok_and(|limit| range.has(limit)))
}

/// The time that is asked about.
pub(super) struct Window {
    /// Its first second.
    pub(super) from: i64,
    /// Its last second.
    pub(super) until: i64,
    /// Jobs of every time: some were asked for by their numbers.
    always: bool,
}

impl Window {
    /// Midnight to now, if nothing else is said: numbers of jobs mean jobs of all times, states mean now.
    pub(super) fn read(
        list: &dyn Fn(&str) -> Vec<String>,
        numbered: bool,
        by_state: bool,
        view: &View<'_>,
    ) -> Result<Self, String> {
        let now = view.clock.now;
        let moment = |name: &str| {
            let Some(text) = list(name).pop() else { return Ok(None) };
            let read = moment(&text, view);
            read.map(Some).ok_or_else(|| {
                let digits = text.bytes().take_while(u8::is_ascii_digit).count();
                format!("Invalid time specification (pos={digits}): {text}")
            })
        };
        let (from, until) = (moment("starttime")?, moment("endtime")?);
        let always = numbered && from.is_none() && until.is_none() && !by_state;
        let today = view.clock.local(now);
        let midnight =
            view.clock.seconds(&crate::calendar::Moment { hour: 0, minute: 0, second: 0, ..today });
        let first = match (numbered, by_state) {
            (true, _) => 0,
            (false, true) => now,
            (false, false) => midnight,
        };
        Ok(Self { from: from.unwrap_or(first), until: until.unwrap_or(now), always })
    }

    /// Whether a job was there, able to start, at some time of it.
    fn has(&self, job: &JobFacts) -> bool {
        let over = !job.state.is_active();
        let ended_before = over && job.end.is_some_and(|end| end < self.from);
        self.always || !ended_before && job.eligible.is_some_and(|eligible| eligible <= self.until)
    }

    /// Whether a job was in a state at some time of it.
    fn had(&self, job: &JobFacts, state: JobState) -> bool {
        let over = !job.state.is_active();
        let start = started(job);
        let end = job.end.filter(|_| over);
        let within = |moment: i64| (self.from..=self.until).contains(&moment);
        match state {
            JobState::Pending => job.eligible.is_some_and(|eligible| {
                let waited =
                    start.or(end).is_none_or(|start| (eligible..=start).contains(&self.from));
                waited && eligible <= self.until || within(eligible)
            }),
            JobState::Running => start.is_some_and(|start| match end {
                None => job.state == JobState::Running || within(start),
                Some(end) => (start..=end).contains(&self.from) || within(start),
            }),
            state => job.state == state && end.is_some_and(within),
        }
    }
}

/// A moment in the past: a time of day that is still to come is yesterday's.
fn moment(text: &str, view: &View<'_>) -> Option<i64> {
    let read = value::begin(text, view.clock).ok()?;
    let seconds = i64::try_from(read.0 / 1000).ok()?;
    let of_day = text.contains(':') && !text.contains(['-', '/', '.', '+', 'T']);
    Some(if of_day && seconds > view.clock.now { seconds - 86_400 } else { seconds })
}
