//! Jobs, brokers and queues as tables for people. Pure: the time is passed in.

use super::protocol::{JobFacts, LaneFacts, NodeFacts};
use quorate_queue::{Standing, State, Time};
use std::fmt::Write;

/// Colours, where there is a terminal to show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    /// None.
    Plain,
    /// By what became of a job.
    Colour,
}

impl Paint {
    fn over(self, text: &str, standing: Option<Standing>) -> String {
        let code = match (self, standing) {
            (Self::Plain, _) | (_, None) => return text.to_owned(),
            (_, Some(Standing::Completed)) => 32,
            (_, Some(Standing::Failed | Standing::TimedOut)) => 31,
            (_, Some(Standing::Cancelled)) => 33,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Jobs, a line each.
pub(super) fn jobs(jobs: &[JobFacts], now: Time, paint: Paint) -> String {
    let rows: Vec<[String; 7]> = jobs
        .iter()
        .map(|job| {
            [
                called(job),
                job.name.clone(),
                state(job).to_owned(),
                job.tasks.to_string(),
                job.nodes.to_string(),
                took(job, now),
                place(job, now),
            ]
        })
        .collect();
    let head = ["ID", "NAME", "STATE", "TASKS", "NODES", "TIME", "WHERE / WHY"];
    let mut width = head.map(str::len);
    for row in &rows {
        for (width, text) in width.iter_mut().zip(row) {
            *width = (*width).max(text.chars().count());
        }
    }
    width[1] = width[1].min(24);
    let [id, name, state, tasks, nodes, time, _] = width;
    let mut text = String::new();
    let head = head.map(str::to_owned);
    for (index, row) in std::iter::once(&head).chain(&rows).enumerate() {
        let standing = index.checked_sub(1).and_then(|at| jobs[at].standing);
        let shown = format!("{:<state$}", row[2]);
        let line = format!(
            "{:>id$}  {:<name$}  {}  {:>tasks$}  {:>nodes$}  {:>time$}  {}",
            row[0],
            short(&row[1], name),
            paint.over(&shown, standing),
            row[3],
            row[4],
            row[5],
            row[6]
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// One job, a line for each thing that is known.
pub(super) fn job(job: &JobFacts, now: Time) -> String {
    let mut text = format!("job {}  {}  {}\n", called(job), job.name, state(job));
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {name:<9} {value}");
        }
    };
    let time = |at: Option<Time>| at.map(stamp).unwrap_or_default();
    line("why", job.why.clone());
    line("command", job.command.join(" "));
    line("directory", job.directory.clone());
    let plural = |n: u32, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut asks = format!("{} on {}", plural(job.tasks, "task"), plural(job.nodes, "node"));
    let _ = write!(asks, ", {} each", plural(job.cores_per_task, "core"));
    if job.gpus_per_task > 0 {
        let _ = write!(asks, ", {} each", plural(job.gpus_per_task, "accelerator"));
    }
    if job.exclusive {
        asks.push_str(", nodes to itself");
    }
    line("request", asks);
    line("limit", job.time_limit.map(|seconds| span(seconds * 1000)).unwrap_or_default());
    line("queue", format!("{}, urgency {}", job.queue, job.urgency));
    line("submitted", stamp(job.submitted));
    line("begin", time(job.begin));
    line("forecast", time(job.forecast));
    line("started", time(job.started));
    line("ended", time(job.ended));
    line("time", took(job, now).replace('-', ""));
    line("where", job.pods.join(" "));
    line("code", job.code.map(|code| code.to_string()).unwrap_or_default());
    line("input", job.streams.input.clone().unwrap_or_default());
    line("output", job.streams.output.clone().unwrap_or_default());
    line("error", job.streams.error.clone().unwrap_or_default());
    if job.requeues > 0 {
        line("requeues", job.requeues.to_string());
    }
    for (name, value) in &job.labels {
        line("label", format!("{name}={value}"));
    }
    for step in &job.steps {
        line("step", step.words());
    }
    text
}

/// Brokers, a line each.
pub(super) fn nodes(nodes: &[NodeFacts]) -> String {
    let pod = nodes.iter().map(|node| node.pod.len()).max().unwrap_or(0).max(3);
    let mut text =
        format!("RANK  {:<pod$}  STATE     CORES      GPUS       MEMORY  JOBS / WHY\n", "POD");
    for node in nodes {
        let state = match (node.up, &node.drained, node.jobs.is_empty()) {
            (false, ..) => "down",
            (_, Some(_), true) => "drained",
            (_, Some(_), false) => "draining",
            (_, None, _) if node.cores == 0 => "no slots",
            (_, None, true) => "free",
            (_, None, false) if node.free_cores == 0 => "full",
            (_, None, false) => "partly",
        };
        let mut what: Vec<String> = node.jobs.iter().take(8).map(ToString::to_string).collect();
        if node.jobs.len() > 8 {
            what.push(format!("and {} more", node.jobs.len() - 8));
        }
        let mut what = what.join(" ");
        if let Some(reason) = node.drained.as_ref().filter(|reason| !reason.is_empty()) {
            what.push_str("  ");
            what.push_str(reason);
        }
        let line = format!(
            "{:>4}  {:<pod$}  {state:<8}  {:>9}  {:>7}  {:>9}  {}",
            node.rank,
            node.pod,
            format!("{}/{}", node.cores - node.free_cores, node.cores),
            format!("{}/{}", node.gpus - node.free_gpus, node.gpus),
            bytes(node.memory),
            what.trim_start(),
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Queues, a line each.
pub(super) fn lanes(lanes: &[LaneFacts]) -> String {
    let name = lanes.iter().map(|lane| lane.lane.name.len()).max().unwrap_or(0).max(5);
    let mut text =
        format!("{:<name$}  SUBMIT    START    PENDING  RUNNING  DONE  FAILED  WHY\n", "QUEUE");
    for lane in lanes {
        let line = format!(
            "{:<name$}  {:<8}  {:<7}  {:>7}  {:>7}  {:>4}  {:>6}  {}",
            lane.lane.name,
            if lane.lane.enabled { "enabled" } else { "disabled" },
            if lane.lane.started { "started" } else { "stopped" },
            lane.pending,
            lane.running,
            lane.completed,
            lane.failed,
            lane.lane.reason
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// A job's number as people call it: that of its array with the index, if it is of one.
pub(super) fn called(job: &JobFacts) -> String {
    match job.array {
        Some(element) => format!("{}_{}", element.array, element.index),
        None => job.id.to_string(),
    }
}

/// One word for where a job is.
pub(super) fn state(job: &JobFacts) -> &'static str {
    match (job.state, job.standing) {
        (_, Some(Standing::Completed)) => "COMPLETED",
        (_, Some(Standing::Failed)) => "FAILED",
        (_, Some(Standing::Cancelled)) => "CANCELLED",
        (_, Some(Standing::TimedOut)) => "TIMEOUT",
        (State::Depend, _) => "DEPEND",
        (State::Priority, _) => "HELD",
        (State::Sched, _) => "SCHED",
        (State::Run, _) => "RUN",
        (State::Cleanup, _) => "CLEANUP",
        (State::Inactive, None) => "INACTIVE",
    }
}

fn took(job: &JobFacts, now: Time) -> String {
    match (job.started, job.ended) {
        (Some(from), Some(to)) => span(to.since(from)),
        (Some(from), None) => span(now.since(from)),
        (None, _) => "-".to_owned(),
    }
}

fn place(job: &JobFacts, now: Time) -> String {
    /// Pods that are named one by one.
    const NAMED: usize = 3;
    let mut text = match job.pods.len() {
        0 => String::new(),
        1..=NAMED => job.pods.join(" "),
        many => format!("{} and {} more", job.pods[0], many - 1),
    };
    if !job.why.is_empty() {
        if !text.is_empty() {
            text.push_str("  ");
        }
        text.push_str(&job.why);
    }
    if let Some(start) = job.forecast {
        let _ = write!(text, ", in {} at most", span(start.since(now)));
    }
    text
}

/// Milliseconds, rounded to what matters: 0.09 s, 12.4 s, 3m10s, 2h05m, 3d04h.
pub(super) fn span(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..=9 => format!("{}.{:02} s", seconds, millis % 1000 / 10),
        10..=59 => format!("{}.{} s", seconds, millis % 1000 / 100),
        60..=3599 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// A moment as RFC 3339 in UTC, to the second.
pub(super) fn stamp(time: Time) -> String {
    let seconds = time.0 / 1000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest % 3600 / 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a day since 1970 (the Gregorian calendar).
fn civil(days: u64) -> (u64, u64, u64) {
    // Counted from 1 March of year 0, a day at the end of the year is the leap day.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let in_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

fn bytes(count: u64) -> String {
    match count {
        0..=1_048_575 => format!("{} Ki", count >> 10),
        1_048_576..=1_073_741_823 => format!("{} Mi", count >> 20),
        _ => format!("{}.{} Gi", count >> 30, ((count % (1 << 30)) * 10) >> 30),
    }
}

fn short(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('~');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_rounded_to_what_matters() {
        for (millis, text) in [
            (90, "0.09 s"),
            (12_430, "12.4 s"),
            (190_000, "3m10s"),
            (7_500_000, "2h05m"),
            (273_600_000, "3d04h"),
        ] {
            assert_eq!(span(millis), text);
        }
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(stamp(Time(seconds * 1000)), text);
        }
    }
}
